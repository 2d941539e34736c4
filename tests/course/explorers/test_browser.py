"""Every explorer in a real JupyterLab: its numbers are those of `compute` as it opens, after a key
and after typing; nothing is cut off on a desk's or a phone's screen. Times:
tests/benchmarks/explorers.py.
"""

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ipywidgets as widgets
import lab
import pytest

from dpkit.course import explorers as explorers_of
from dpkit.course.explorers.controls import RoundSlider
from dpkit.course.explorers.explorer import LATER, REST

pytestmark = pytest.mark.slow("an explorer whose page does not follow a key or what is typed")

NOTEBOOK = Path(__file__).resolve().parents[3] / "notebooks" / "24_explorers.ipynb"
TITLES = 9
SIZES = ((1366, 768), (390, 844))  # of a desk's screen and a phone's
HIDE_FILES = """async () => {
    await window.jupyterapp.commands.execute('application:toggle-left-area');
}"""
CUT_OFF = """box => {
    const edge = Math.min(innerWidth, box.getBoundingClientRect().right) + 1;
    return [...box.querySelectorAll('*')].filter(e => {
        const r = e.getBoundingClientRect();
        return r.width > 0 && (r.right > edge || r.left < 0);
    }).map(e => `${e.tagName} ${e.className}`);
}"""
# Lab itself asks for what a server may not have; these are none of our explorers' messages.
NOT_OURS = ("favicon", "Failed to load resource", "WebSocket")
NUMBERS = ".widget-html table, .widget-html [role=alert]"
# The field of a slider over round numbers, or the read-out of one over whole ones
FIELD = "input[type=number]:visible, .widget-slider .widget-readout:visible"
SLIDERS = (RoundSlider, widgets.IntSlider, widgets.FloatSlider, widgets.SelectionSlider)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    with lab.chromium() as browser, lab.lab(NOTEBOOK, folder) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.problems = []
        page.on("console", lambda m: page.problems.append(m.text) if m.type == "error" else None)
        page.outside = []
        page.on("request", lambda r: page.outside.append(r.url) if _outside(r.url) else None)
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        lab.run_all(page, address)
        yield page


def _outside(address: str) -> bool:
    return urlsplit(address).hostname not in ("127.0.0.1", "localhost", None)


def shown(box) -> tuple[str, str]:
    """The numbers' text, and the addresses of the picture's panels."""
    texts = box.locator(NUMBERS).all_text_contents()
    return " ".join(texts), str(box.evaluate("e => [...e.querySelectorAll('img')].map(i => i.src)"))


def changed(page, box, before, seconds: float = 10.0, *, numbers: bool = True):
    """What is shown once the picture differs from before, and the numbers where they must."""
    for _ in range(int(seconds * 20)):
        now = shown(box)
        if (now[0] != before[0] or not numbers) and now[1] != before[1]:
            page.wait_for_timeout(500 + 1000 * REST)
            for _ in range(200):  # some numbers come when nothing moves
                if LATER not in shown(box)[0]:
                    break
                page.wait_for_timeout(50)
            return shown(box)
        page.wait_for_timeout(50)
    raise AssertionError(f"nothing changed: {before[0][:200]}")


def test_all_explorers_answer_to_keys_and_read_outs(page):
    boxes = lab.explorers(page)
    assert len(boxes) == TITLES, list(boxes)
    for title, box in boxes.items():
        box.scroll_into_view_if_needed()
        before = shown(box)
        assert before[0]
        own = _python(title)  # claims are cards, of several tables
        if "<table><thead>" not in own.numbers.value:
            box.locator("select").last.select_option(index=1)
            changed(page, box, before)
            continue
        assert _same(before[0], own), f"{title}: before the first move"
        _check_moves(page, box, own)
    assert page.outside == []
    ours = [text for text in page.problems if not any(word in text for word in NOT_OURS)]
    assert ours == []


def test_nothing_is_cut_off_on_a_desk_or_a_phone(page, tmp_path):
    """The photographs, in a temporary folder, are for the eye."""
    page.evaluate(HIDE_FILES)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(1000)
        for title, box in lab.explorers(page).items():
            assert box.evaluate(CUT_OFF) == [], f"{title} at {width} pixels"
            tall = int(box.bounding_box()["height"])
            assert tall <= 2000, f"{title} at {width} pixels"
            page.set_viewport_size({"width": width, "height": tall + 300})
            box.screenshot(path=tmp_path / f"{width} {title.strip('?')}.png")
            page.set_viewport_size({"width": width, "height": height})


def _check_moves(page, box, own: Any) -> None:
    """After a key, and after typing where one can, the page has the numbers of `compute`."""
    sliders, before = box.locator(lab.HANDLE), shown(box)
    if sliders.count() == 0:
        box.locator("input[type=checkbox]").first.click()
        name = next(iter(own.values))
        own.values[name].value = True
        own.update()
        assert _same(changed(page, box, before)[0], own), f"{own.title}: a box was checked"
        return
    name = _first(own, box)
    value = own.values[name].value
    sliders.first.focus()
    page.keyboard.press(lab.keys(box)[0])
    after = changed(page, box, before)
    told = _told(box)
    own.values[name].value = type(value)(float(told))
    own.update()
    assert _same(after[0], own), f"{own.title}: at {told} after a key"
    if isinstance(own.values[name], widgets.SelectionSlider):
        return
    field = box.locator(FIELD).first
    field.click()
    page.keyboard.press("Control+a")
    low = float(sliders.first.get_attribute("aria-valuemin") or 0)
    whole = isinstance(own.values[name], widgets.IntSlider)
    typed = _other(told, low, own.values[name])
    page.keyboard.type(typed)
    page.keyboard.press("Enter")
    last_shown = changed(page, box, after)
    taken = float(_told(box))
    assert whole or taken == pytest.approx(float(typed), rel=1e-12)
    own.values[name].value = type(value)(taken)
    own.update()
    assert _same(last_shown[0], own), f"{own.title}: {typed} was typed"


def _python(title: str) -> Any:
    """The explorer of that title without a browser."""
    kinds = (getattr(explorers_of, name) for name in explorers_of.__all__)
    return next(kind for kind in kinds if kind.title == title)()


def _first(own: Any, box) -> str:
    """The name of the control whose slider comes first on the page."""
    label = box.locator(".widget-slider .widget-label").first.text_content()
    sliders = {n: c for n, c in own.values.items() if isinstance(c, SLIDERS)}
    return next(n for n, c in sliders.items() if getattr(c, "slider", c).description == label)


def _same(text: str, own: Any) -> bool:
    """Whether a table on the page holds the numbers that `compute` gives, and no others."""
    told = " ".join(
        re.sub(r"<[^>]+>", " ", unescape(own.numbers.value.partition("</table>")[0])).split()
    )
    return "".join(told.split()) in "".join(text.split())


def _told(box) -> str:
    """What the first field or read-out says."""
    field = box.locator(FIELD).first
    text = field.input_value() if field.evaluate("e => e.tagName") == "INPUT" else None
    return (text or field.text_content() or "").replace(",", "").replace("−", "-")


def _other(text: str, low: float, control: Any) -> str:
    """Another value for a read-out, a little above the present one, or below it."""
    value = float(text.replace(",", "").replace("−", "-"))
    if isinstance(control, widgets.IntSlider):
        return f"{value + (control.step if value < control.max else -control.step):g}"
    return f"{value * 1.2 if value else 1:.4g}" if low != value else f"{value + 1:.4g}"

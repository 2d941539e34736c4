"""Every explorer in a real JupyterLab: a move by key and one by read-out change what is shown.

Skipped, with the reason printed, where there is no chromium or no playwright.
"""

import re
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any

import ipywidgets as widgets
import lab
import pytest

from dpkit import explorers as explorers_of
from dpkit.explorers.round_slider import RoundSlider

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lab.CHROMIUM is None, reason="no chromium here: browser tests are skipped"),
]

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "09_explorers.ipynb"
TITLES = 13
# Lab itself asks for what a server may not have; these are none of our explorers' messages.
NOT_OURS = ("favicon", "Failed to load resource", "WebSocket")
NUMBERS = ".widget-html table, .widget-html [role=alert]"
MOVES = 10
# The field of a slider over round numbers, or the read-out of one over whole ones
FIELD = "input[type=number]:visible, .widget-slider .widget-readout:visible"
SLIDERS = (RoundSlider, widgets.IntSlider, widgets.FloatSlider)
# Time from the key to the first change of the numbers, as the reader's screen has it.
TIMED = """async ([box, key]) => {
    const handle = box.querySelector('.widget-slider .noUi-handle');
    handle.focus();
    const began = performance.now();
    const changed = new Promise(done => {
        const observer = new MutationObserver(() => {
            observer.disconnect();
            done(performance.now() - began);
        });
        for (const html of box.querySelectorAll('.widget-html-content, .widget-html'))
            observer.observe(html, {childList: true, subtree: true, characterData: true});
        setTimeout(() => done(null), 5000);
    });
    handle.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    return await changed;
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    with lab.lab(NOTEBOOK, folder) as address, sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=lab.CHROMIUM, args=lab.FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.problems = []
        page.on("console", lambda m: page.problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        lab.run_all(page, address)
        yield page
        browser.close()


def explorers(page):
    """The boxes of the explorers that have run, by title; cells out of view are scrolled to."""
    found = {}
    cells = page.locator(".jp-CodeCell")
    for index in range(cells.count()):
        cell = cells.nth(index)
        cell.scroll_into_view_if_needed()
        box = cell.locator(".jp-OutputArea-output .widget-vbox").first
        if "_repr_" in (cell.text_content() or "") or "dpkit.explorers" not in (
            cell.text_content() or ""
        ):
            continue
        box.wait_for(timeout=30_000)
        found[box.locator("h3").first.text_content()] = box
    return found


def shown(box) -> tuple[str, str | None]:
    """The numbers' text, and the address of the picture."""
    texts = box.locator(NUMBERS).all_text_contents()
    image = box.locator("img").first
    return " ".join(texts), image.get_attribute("src") if image.count() else None


def changed(page, box, before, seconds: float = 10.0) -> tuple[str, str | None]:
    """What is shown once both numbers and picture differ from before."""
    for _ in range(int(seconds * 20)):
        now = shown(box)
        if now[0] != before[0] and now[1] != before[1]:
            page.wait_for_timeout(500)  # some numbers come with the picture
            return shown(box)
        page.wait_for_timeout(50)
    raise AssertionError(f"nothing changed: {before[0][:200]}")


def test_all_explorers_answer_to_keys_and_read_outs(page, capsys):
    boxes = explorers(page)
    assert len(boxes) == TITLES, list(boxes)
    times = {}
    for title, box in boxes.items():
        box.scroll_into_view_if_needed()
        before = shown(box)
        assert before[0]
        first = _python(title)  # claims are cards, of several tables
        one_table = first.numbers.value.startswith("<table")
        assert not one_table or _same(before[0], first), f"{title}: before the first move"
        sliders = box.locator(".widget-slider .noUi-handle")
        if sliders.count() == 0:  # claims are chosen by name
            box.locator("select").last.select_option(index=1)
            changed(page, box, before)
            continue
        sliders.first.focus()
        last = sliders.first.get_attribute("aria-valuenow")
        at_the_end = last == sliders.first.get_attribute("aria-valuemax")
        page.keyboard.press("ArrowLeft" if at_the_end else "ArrowRight")
        after = changed(page, box, before)
        own = _python(title)
        name = _first(own, box)
        told = _told(box)
        own.values[name].value = type(own.values[name].value)(float(told))
        own.update()
        assert _same(after[0], own), f"{title}: at {told} after a key"
        field = box.locator(FIELD).first
        field.click()
        page.keyboard.press("Control+a")
        low = float(sliders.first.get_attribute("aria-valuemin") or 0)
        whole = isinstance(own.values[name], widgets.IntSlider)
        typed = _other(told, low)
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        last_shown = changed(page, box, after)
        taken = float(_told(box))
        assert whole or taken == pytest.approx(float(typed), rel=1e-12)
        own.values[name].value = type(own.values[name].value)(taken)
        own.update()
        assert _same(last_shown[0], own), f"{title}: {typed} was typed"
        times[title] = _median_time(page, box)
    with capsys.disabled():
        print("\nfrom key to numbers, median:", *(f"{t}: {ms:.0f} ms" for t, ms in times.items()))
    ours = [text for text in page.problems if not any(word in text for word in NOT_OURS)]
    assert ours == []


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


def _other(text: str, low: float) -> str:
    """Another value for a read-out, a little above the present one."""
    value = float(text.replace(",", "").replace("−", "-"))
    return f"{value * 1.2 if value else 1:.4g}" if low != value else f"{value + 1:.4g}"


def _median_time(page, box) -> float:
    handle = box.locator(".widget-slider .noUi-handle").first
    handle.focus()
    times = []
    for index in range(MOVES):
        key = "ArrowLeft" if index % 2 else "ArrowRight"
        moved = page.evaluate(TIMED, [box.element_handle(), key])
        if moved is not None:
            times.append(moved)
        page.wait_for_timeout(400)
    return median(times) if times else float("nan")

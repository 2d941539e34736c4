"""From a key to an explorer's numbers, and to its picture, in a real JupyterLab.

No rows where there is no chromium or no playwright.
"""

import math
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import lab
from bench import Row

from dpkit.course.explorers.explorer import REST

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "24_explorers.ipynb"
MOVES = 10
MOVED = f"{lab.HANDLE}, input[type=checkbox]"
# Times from the key to the first change of the numbers, and of the picture, on the reader's screen.
TIMED = """async ([box, key]) => {
    const handle = box.querySelector('.widget-slider .noUi-handle, input[type=checkbox]');
    const image = box.querySelector('img');
    const began = performance.now();
    const since = () => performance.now() - began;
    const changes = [];
    for (const html of box.querySelectorAll('table'))
        changes.push([html.closest('.widget-html-content, .widget-html'),
                      {childList: true, subtree: true, characterData: true}]);
    changes.push([image, {attributes: true, attributeFilter: ['src']}]);
    const waits = changes.map(([node, what]) => new Promise(done => {
        const observer = new MutationObserver(() => { observer.disconnect(); done(since()); });
        observer.observe(node, what);
        setTimeout(() => done(null), 5000);
    }));
    handle.focus();
    if (handle.type == 'checkbox') handle.click();
    else handle.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    const times = await Promise.all(waits);
    return [times[0], times[times.length - 1]];
}"""


def rows() -> Iterator[Row]:
    """Two for each explorer that has a picture: to the first change of its numbers, and of that."""
    if lab.CHROMIUM is None or find_spec("playwright") is None:
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        lab.lab(NOTEBOOK, Path(folder)) as address,
        lab.chromium() as browser,
    ):
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        lab.run_all(page, address)
        for title, box in lab.explorers(page).items():
            if not box.locator(MOVED).count():  # cards of claims
                continue
            box.scroll_into_view_if_needed()
            for what, time in zip(("numbers", "picture"), _medians(page, box), strict=True):
                if math.isfinite(time):
                    yield Row(f"{title} ({what})", time)


def _medians(page: Any, box: Any) -> tuple[float, float]:
    """Milliseconds from a key to numbers and to picture, over MOVES moves to other values.

    Each comes when those before have been answered in full.
    """
    times, (key, other) = [], lab.keys(box)
    for _ in range(MOVES):
        times.append(page.evaluate(TIMED, [box.element_handle(), key]))
        if times[-1] == [None, None]:  # at the end
            key, other = other, key
        page.wait_for_timeout(400 + 1000 * REST)
    columns = ([one for one in column if one is not None] for column in zip(*times, strict=True))
    numbers, pictures = (median(column) if column else math.nan for column in columns)
    return numbers, pictures

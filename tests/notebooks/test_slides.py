"""Slides fit on a projector, draw their formulas, and ask nothing of the network."""

import re
from pathlib import Path

import lab
import pairs
import pytest
import slides
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

LABS = ("00_start_here", "02_train_twice", "03_dp_cgan", "05_auditing", "06_how_guarantees_break")
WIDTH, HEIGHT, SMALLEST = 1280, 720, 20  # pixels
# Where a slide's content ends, its smallest text, and whether a formula was left as it is written.
MEASURE = """slide => {
  const range = document.createRange(), sizes = [], ends = [];
  const texts = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
  const hidden = ".jp-OutputArea-child:has(img) + .jp-OutputArea-child, mjx-container";
  while (texts.nextNode()) {
    const text = texts.currentNode, parent = text.parentElement;
    if (!text.data.trim() || parent.closest(hidden)) continue;
    sizes.push(parseFloat(getComputedStyle(parent).fontSize));
    range.selectNodeContents(text);
    ends.push(range.getBoundingClientRect());
  }
  for (const one of slide.querySelectorAll("img, svg, pre, table"))
    ends.push(one.getBoundingClientRect());
  const math = [...slide.querySelectorAll("p, li, td")].some(one => /\\$/.test(one.textContent));
  return [Math.max(...ends.map(end => end.right)), Math.max(...ends.map(end => end.bottom)),
          Math.min(...sizes), math];
}"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all slides."""
    pytest.importorskip("sphinx_revealjs")
    folder = tmp_path_factory.mktemp("build") / "slides"
    slides.main(folder)
    return folder


def code(text: str, tags: list[str]):
    cell = new_code_cell(text, metadata={"tags": tags})
    cell.outputs = [new_output("stream", text=f"what {text} prints")]
    return cell


def test_tagged_cells_are_kept_below_the_heading_of_their_section():
    notebook = new_notebook()
    notebook.cells = [
        new_markdown_cell("# A title\n\nleft out"),
        new_markdown_cell("See [there](x.ipynb).", metadata={"tags": ["slide"]}),
        code("silent", ["guessed", "fragment"]),
        code("left_out", []),
        new_markdown_cell("## A section"),
        code("seen", ["slide", "with-code"]),
    ]
    html = slides.page(slides.chosen(notebook))
    body = html.partition("<body")[2]
    assert "<title>A title slides</title>" in html
    assert "left out" not in body
    assert "left_out" not in body
    assert "See there." in body
    assert body.count("what silent prints") == 1
    assert body.count("silent") == 1
    assert re.search(r">seen<", body)
    assert body.index("A title</h1>") < body.index("See there") < body.index("A section</h2>")
    assert len(re.findall(r'class="fragment"', body)) == 1


@pytest.mark.parametrize("pair", pairs.pairs(), ids=lambda pair: pair.source.stem)
def test_what_is_tagged_has_a_slide_to_be_on(pair: pairs.Pair):
    tagged = [set(pairs.tags(cell)) for cell in pairs.read_source(pair.source).cells]
    on = [tags & {"slide", "fragment"} for tags in tagged]
    assert all(here or "with-code" not in tags for tags, here in zip(tagged, on, strict=True))
    assert all(len(here) < 2 for here in on)
    assert [here for here in on if here][:1] in ([], [{"slide"}])


def test_every_lab_has_slides_and_what_they_need_is_beside_them(written: Path):
    assert {path.stem for path in written.glob("*.html")} >= set(LABS)
    for path in written.glob("*.html"):
        page = path.read_text(encoding="utf-8")
        for link in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^"]+)"', page):
            assert link.startswith("data:") or (written / link).exists(), f"{path.stem}: {link}"


@pytest.mark.slow("a slide that is cut off, or a formula on it that is not drawn")
@pytest.mark.parametrize("name", LABS)
def test_slides_fit_are_large_and_ask_nothing_of_the_network(written: Path, name: str):
    with lab.chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((written / f"{name}.html").as_uri())
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        for index in range(page.evaluate("Reveal.getTotalSlides()")):
            page.evaluate(f"Reveal.slide({index}, 0, 99)")
            slide = page.evaluate_handle("Reveal.getCurrentSlide()")
            right, bottom, smallest, math_left = page.evaluate(MEASURE, slide)
            page.screenshot(path=written / f"{name}-{index + 1:02}.png")
            where = f"{name}, slide {index + 1}"
            assert right <= WIDTH, f"{where} is {right:.0f} wide"
            assert bottom <= HEIGHT, f"{where} is {bottom:.0f} high"
            assert smallest >= SMALLEST, f"{where} has text of {smallest} pixels"
            assert not math_left, f"{where} has a formula that is not drawn"
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "blob"}

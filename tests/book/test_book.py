"""The book is built from the checkout without a warning, whole, and asks nothing of the network."""

import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from dpkit.papers import with_claims

CHECKOUT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
RESOURCE = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(https?:)?//|<link[^>]*rel=\"stylesheet\"[^>]*href=\"https?:"
)
PHOTOGRAPHED = (
    "docs/book/index.html",
    "notebooks/02_dp_cgan.html",
    "docs/book/glossary.html",
    "docs/claims.html",
)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built book."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    folder = tmp_path_factory.mktemp("book")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", "docs/book", "-q", "-W"]
    done = subprocess.run(
        [*command, "--keep-going", ".", str(folder)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip()
    return folder


def text(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_every_notebook_and_page_is_in_it(book: Path):
    index = (book / "docs/book/index.html").read_text(encoding="utf-8")
    for path in sorted(CHECKOUT.glob("notebooks/*.ipynb")):
        assert (book / f"notebooks/{path.stem}.html").exists()
        assert f"notebooks/{path.stem}.html" in index
    for path in sorted(CHECKOUT.glob("docs/*.md")):
        assert f"{path.stem}.html" in index
    assert "docs/book/index.html" in (book / "index.html").read_text(encoding="utf-8")


def test_every_claim_is_in_it(book: Path):
    claims = text(book / "docs/claims.html")
    missing = [c.id for paper in with_claims() for c in paper.CLAIMS if c.name not in claims]
    assert missing == []


def test_every_public_name_is_in_it(book: Path):
    sys.path.insert(0, str(CHECKOUT / "docs/book"))
    import pages

    ids = set()
    for page in book.glob("docs/book/api/*.html"):
        ids |= set(re.findall(r'id="(dpkit[\w.]*)"', page.read_text(encoding="utf-8")))
    missing = []
    for module in pages.modules():
        path = CHECKOUT.joinpath(*module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        missing += [f"{module}.{n}" for n in pages.names(path) if f"{module}.{n}" not in ids]
    assert missing == []


def test_no_page_loads_anything_from_outside(book: Path):
    for page in book.rglob("*.html"):
        assert not RESOURCE.search(page.read_text(encoding="utf-8")), page.relative_to(book)


def test_links_within_the_book_lead_somewhere(book: Path):
    for page in book.rglob("*.html"):
        for link in re.findall(r'href="([^"#?:]+)[#"?]', page.read_text(encoding="utf-8")):
            assert (page.parent / unescape(link)).exists(), f"{page.relative_to(book)}: {link}"


def test_pictures_of_notebooks_have_words(book: Path):
    page = (book / "notebooks/05_dpgan.html").read_text(encoding="utf-8")
    pictures = re.findall(r"<img[^>]*>", page)
    assert len(pictures) > 10
    assert all(re.search(r'alt="[^"]{20,}"', picture) for picture in pictures)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
def test_formulas_are_drawn_and_nothing_is_cut_off(book: Path, width: int, height: int):
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": width, "height": height})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in PHOTOGRAPHED:
            page.goto((book / name).as_uri())
            page.wait_for_load_state("networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} wide"
            assert (
                page.evaluate("document.querySelectorAll('.math:not(:has(mjx-container))').length")
                == 0
            )
            page.screenshot(path=book / f"{Path(name).stem}-{width}.png")
        browser.close()
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "blob"}

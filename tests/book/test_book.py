"""The book is built from the checkout without a warning, whole, and asks nothing of the network."""

import re
import runpy
import subprocess
import sys
from fnmatch import fnmatch
from html import unescape
from pathlib import Path

import lab
import pytest
from filelock import FileLock

from dpkit.papers import with_claims

CHECKOUT = Path(__file__).resolve().parents[2]
RESOURCE = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(https?:)?//|<link[^>]*rel=\"stylesheet\"[^>]*href=\"https?:"
)
BUILT = pytest.mark.slow("a book that does not build, or a page, name or link that it loses")
PHOTOGRAPHED = ("docs/book/index.html", "notebooks/03_dp_cgan.html")
PHOTOGRAPHED += ("docs/book/glossary.html", "docs/claims.html")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built book; of several processes one at a time writes its sources, docs/book/api."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    folder = tmp_path_factory.mktemp("book")
    options = ["-b", "html", "-c", "docs/book", "-q", "-W", "--keep-going", ".", str(folder)]
    with FileLock(tmp_path_factory.getbasetemp().parent / "book.lock"):
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", *options], cwd=CHECKOUT, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip()
    return folder


def test_its_contents_list_every_notebook_and_page():
    """What is listed and not there, Sphinx says as it builds the book."""
    pytest.importorskip("sphinx")
    index = CHECKOUT / "docs/book/index.md"
    listed = re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(encoding="utf-8"), re.DOTALL)
    lines = [one for one in "\n".join(listed).splitlines() if one and one[0] != ":"]
    entries = [re.sub(r".*<(.*)>", r"\1", one) for one in lines]
    numbered = [one for one in lines if "notebooks/" in one and "README" not in one]
    assert all(re.match(r"(\d\d) .*/\1_\w+>$", one) for one in numbered)  # in the sidebar
    assert numbered == sorted(numbered)
    pages = {(index.parent / entry).resolve() for entry in entries}
    made = CHECKOUT / "docs/book/api/index"  # by what builds the book
    read = [
        path.with_suffix("")
        for own in ("notebooks/*.ipynb", "docs/*.md", "docs/book/*.md")
        for path in CHECKOUT.glob(own)
    ]
    assert set(read) - {index.with_suffix("")} <= pages
    assert len(pages) == len(entries)
    patterns = runpy.run_path(str(CHECKOUT / "docs/book/conf.py"))["include_patterns"]
    for page in pages - {made}:
        (found,) = [path for end in (".md", ".ipynb") if (path := Path(f"{page}{end}")).exists()]
        name = found.relative_to(CHECKOUT).as_posix()
        assert any(fnmatch(name, pattern) for pattern in patterns), name


@BUILT
def test_every_claim_and_every_public_name_is_in_it(book: Path, monkeypatch: pytest.MonkeyPatch):
    text = re.sub(r"<[^>]+>", "", (book / "docs/claims.html").read_text(encoding="utf-8"))
    claims = unescape(text)
    missing = [c.id for paper in with_claims() for c in paper.CLAIMS if c.name not in claims]
    monkeypatch.syspath_prepend(CHECKOUT / "docs/book")
    import pages

    ids = set()
    for page in book.glob("docs/book/api/*.html"):
        ids |= set(re.findall(r'id="(dpkit[\w.]*)"', page.read_text(encoding="utf-8")))
    for module in pages.modules():
        path = CHECKOUT.joinpath(*module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        missing += [f"{module}.{n}" for n in pages.names(path) if f"{module}.{n}" not in ids]
    assert missing == []


@BUILT
def test_pages_load_nothing_from_outside_and_links_within_the_book_lead_somewhere(book: Path):
    assert "docs/book/index.html" in (book / "index.html").read_text(encoding="utf-8")
    for page in book.rglob("*.html"):
        text, name = page.read_text(encoding="utf-8"), page.relative_to(book)
        assert not RESOURCE.search(text), name
        for link in re.findall(r'href="([^"#?:]+)[#"?]', text):
            assert (page.parent / unescape(link)).exists(), f"{name}: {link}"


@BUILT
def test_pictures_of_notebooks_have_words(book: Path):
    page = (book / "notebooks/11_dpgan.html").read_text(encoding="utf-8")
    pictures = re.findall(r"<img[^>]*>", page)
    assert len(pictures) > 10
    assert all(re.search(r'alt="[^"]{20,}"', picture) for picture in pictures)


@pytest.mark.slow("a formula that is not drawn, or a page that is cut off on a phone")
@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
def test_formulas_are_drawn_and_nothing_is_cut_off(book: Path, width: int, height: int):
    with lab.chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": height})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in PHOTOGRAPHED:
            page.goto((book / name).as_uri())
            page.wait_for_load_state("networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} wide"
            undrawn = "document.querySelectorAll('.math:not(:has(mjx-container))').length"
            assert page.evaluate(undrawn) == 0
            page.screenshot(path=book / f"{Path(name).stem}-{width}.png")
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "blob"}

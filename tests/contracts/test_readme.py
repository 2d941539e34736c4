"""README and docs/ say what the kit computes."""

import re
from pathlib import Path

import numbers_apart
import pytest
import readme

ROOT = Path(__file__).resolve().parents[2]
OTHERS = ("docs/limits.md", "docs/training.md", "docs/traps.md", "binder/README.md")
PAGES = [*sorted(readme.PAGES), *OTHERS]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.stored
@pytest.mark.torch
@pytest.mark.parametrize("page", readme.PAGES)
def test_tables_are_the_computed_ones(page: str):
    if page == "docs/book/teaching.md":  # its labs are cells of notebooks
        pytest.importorskip("jupytext")
    apart = numbers_apart.apart(text_of(page), readme.written(page, text_of(page)))
    assert apart.within(numbers_apart.TOLERANCE), "run `make readme`"
    assert apart.numbers > (0 if page == "notebooks/README.md" else 20)


def test_the_readme_is_short_and_every_notebook_has_a_row():
    text, rows = text_of("README.md"), text_of("notebooks/README.md")
    assert len(text.splitlines()) <= 120
    assert len(text) <= 7_500
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"]({notebook.name})" in rows, f"{notebook.name} has no row in notebooks/README.md"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str):
    for target in re.findall(r"\]\(([^)#]+)\)", text_of(page)):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}: not there"

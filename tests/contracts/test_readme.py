"""README says what the kit computes."""

import importlib.util
import re
from pathlib import Path

import numbers_apart
import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("readme", Path(__file__).with_name("readme.py"))
assert SPEC is not None
assert SPEC.loader is not None
readme = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(readme)
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.stored
@pytest.mark.torch
def test_its_tables_are_the_computed_ones():
    apart = numbers_apart.apart(TEXT, readme.written(TEXT))
    assert apart.within(numbers_apart.TOLERANCE), "run `make readme`"
    assert apart.numbers > 500


def test_every_notebook_has_its_row_and_every_link_leads_somewhere():
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"(notebooks/{notebook.name})" in TEXT, f"{notebook.name} has no row in README.md"
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        if "://" not in target:
            assert (ROOT / target).exists(), f"README.md links to {target}, which is not there"

"""Every fault of `make mutants` can still be made: its text stands once in its file."""

import mutants
import pytest


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_of_a_fault_stands_once_in_its_file(mutant):
    text = (mutants.CHECKOUT / "dpkit" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1
    assert mutant.wrong != mutant.right
    assert (mutants.CHECKOUT / mutant.tests).exists()

"""Every fault of `make mutants` can be made and has its tests; what cannot run catches nothing."""

import mutants
import pytest


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_be_made_and_has_its_tests(mutant):
    mutants.mutated(mutant)
    assert mutant.wrong != mutant.right
    path, _, name = mutant.tests.partition("::")
    assert f"def {name}" in (mutants.CHECKOUT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(("body", "found"), [("pass", None), ("assert 0", "test_one.py::test_it")])
def test_a_test_that_fails_catches(tmp_path, body, found):
    (tmp_path / "test_one.py").write_text(f"def test_it():\n    {body}\n")
    assert mutants.first_failure(tmp_path, "test_one.py") == found


TEXTS = {"name": "def test_it():\n    unknown()\n", "fixture": "def test_it(unknown):\n    pass\n"}
TEXTS |= {"import": "import unknown\n\n\ndef test_it():\n    pass\n", "no test": ""}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_cannot_run_catches_nothing(tmp_path, text):
    (tmp_path / "test_one.py").write_text(text)
    with pytest.raises(ValueError, match=r"test_one\.py did not run"):
        mutants.first_failure(tmp_path, "test_one.py")

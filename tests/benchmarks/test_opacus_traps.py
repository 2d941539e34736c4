"""The traps side by side: dpkit falls into none, and docs/traps.md says what is measured."""

from importlib.metadata import version

import pytest

pytest.importorskip("torch")
pytest.importorskip("opacus")
import opacus_traps as traps

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def rows():
    return list(traps.lines())


def test_there_are_eleven_and_dpkit_is_silently_wrong_in_none(rows):
    assert len(rows) == 11
    wrong = [name for name, _, of_dpkit in rows if of_dpkit.verdict not in ("refused", "right")]
    assert wrong == []


def test_the_page_says_what_is_measured(rows):
    """To the letter where the versions are the page's: all sums are in float64, and few digits."""
    stored = traps.DOCUMENT.read_text(encoding="utf-8")
    for name, _, of_dpkit in rows:
        assert f"| {name} |" in stored
        assert of_dpkit.verdict in next(line for line in stored.splitlines() if name in line)
    if f"Opacus {version('opacus')} (" in stored and f"torch {version('torch')[:4]}" in stored:
        assert traps.document(rows) == stored, "python tests/benchmarks/opacus_traps.py"


def test_an_outcome_follows_from_what_is_measured():
    """Plain autograd, example by example, is right where examples are alone, and shows mixing."""

    def plain(trap, x):
        return traps.Step(traps.reference(trap, x), *traps.by_dpkit(alone, x)[1:])

    alone = next(trap for trap in traps.TRAPS if trap.name == "Tied weights")
    assert traps.judged(alone, plain).verdict == traps.RIGHT
    half = traps.judged(alone, lambda trap, x: plain(trap, x)._replace(total=3 * plain(trap, x)[0]))
    assert half.verdict == traps.WRONG
    assert half.words.startswith("one record moves the sum by 3 C; the gradients are not")

"""The traps side by side: dpkit falls into none, and docs/traps.md says what is measured."""

from importlib.metadata import version

import pytest

pytest.importorskip("torch")
import opacus_traps as traps

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def of_dpkit():
    return traps.measured(traps.by_dpkit, traps.shuffled_by_dpkit)


def test_dpkit_is_silently_wrong_in_none_of_the_eleven(of_dpkit):
    assert len(of_dpkit) == len(traps.names()) == 11
    assert {one.verdict for one in of_dpkit} == {traps.RIGHT, traps.REFUSED}, of_dpkit


def test_the_page_is_what_is_measured(of_dpkit):
    """To the letter, for the versions that it names: sums are in float64, and digits few."""
    pytest.importorskip("opacus")
    stored = traps.DOCUMENT.read_text(encoding="utf-8")
    of_opacus = traps.measured(traps.by_opacus, traps.shuffled_by_opacus)
    named = (f"| Opacus {version('opacus')} |", f"torch {version('torch')[:4]}")
    if not all(name in stored for name in named):
        pytest.skip("other versions of Opacus or torch than the page's")
    page = traps.document(of_opacus, of_dpkit)
    assert page == stored, "run `python tests/benchmarks/opacus_traps.py`"


def test_an_outcome_follows_from_what_is_measured():
    """Plain autograd, example by example, is right where examples are alone, and shows mixing."""

    def plain(trap, x):
        return traps.Step(traps.reference(trap, x), *traps.by_dpkit(alone, x)[1:])

    alone = next(trap for trap in traps.TRAPS if trap.name == "Tied weights")
    assert traps.judged(alone, plain).verdict == traps.RIGHT

    def tripled(trap, x):
        return plain(trap, x)._replace(total=3 * plain(trap, x).total)

    assert traps.judged(alone, tripled) == (
        traps.WRONG,
        "one record moves the sum by 3 C, and the clipped gradients are off by 200 %",
    )


def test_what_a_library_raises_is_shown_by_its_beginning():
    outcome = traps.refused(ValueError("one\nrecord " + 99 * "too "))
    assert outcome.verdict == traps.REFUSED
    assert len(outcome.words) < 140
    first, last = outcome.words[:30], outcome.words[-4:]
    assert (first, last) == ("ValueError: one record too too", " ...")

"""The thirty cases: half of the claims hold, and what is run does not tell which."""

import pytest

from dpkit.course.exercises.how_guarantees_break import CASES
from dpkit.papers import with_claims
from dpkit.papers.claims import CAUSES, check

CLAIMS = {claim.id: claim for paper in with_claims() for claim in paper.CLAIMS}


def test_of_thirty_claims_on_privacy_half_hold():
    assert len(CASES) == 30
    verdicts = [check(CLAIMS[name]).verdict for name in CASES]
    assert verdicts.count("holds") == verdicts.count("fails") == 15
    causes = {CLAIMS[name].code.cause for name in CASES if CLAIMS[name].code}
    assert len(causes & set(CAUSES)) >= 6


def test_what_is_run_gives_no_verdict_away():
    for name, told in CASES.items():
        assert not {"should", "wrong", "correctly", "leak", "mistake"} & set(told.lower().split())
        assert told not in CLAIMS[name].explanation


def test_each_case_is_judged_once_and_errors_are_counted_by_kind():
    pytest.importorskip("ipywidgets")
    from dpkit.course.exercises.quiz import NOT_PRIVATE, PRIVATE, Cases

    cases = Cases(CASES)
    static = cases._repr_mimebundle_()["text/html"]
    assert static.count("<p>") == 30
    assert not any(word in static for word in ("claim holds", "claim fails", "`"))
    for button in cases.buttons:
        assert "<details>" in cases.progress.value
        button.value = PRIVATE
    assert cases.progress.value.startswith("<p><b>15 right of 30 judged; 30 cases</b></p>")
    assert "<details open>" in cases.progress.value
    rows = [row.split("</td>") for row in cases.progress.value.split("<tr>")[2:]]
    table = {row[0].split(">")[1]: [cell.split(">")[1] for cell in row[1:4]] for row in rows}
    assert table["none, it holds"] == ["15", "15", "15"]
    assert table["noise"] == ["0", "4", "4"]
    assert cases.buttons[0].disabled
    right, wrong = (cases.replies[place].value for place in (1, 0))
    assert "Right. The claim holds" in right
    assert "No. The claim fails: uncharged" in wrong
    assert not any("`" in reply.value for reply in cases.replies)
    assert {PRIVATE, NOT_PRIVATE} == set(cases.buttons[0].options)

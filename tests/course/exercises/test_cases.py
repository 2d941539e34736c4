"""The thirty cases: half of the claims hold, and what is run does not tell which."""

import re

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
    from dpkit.course.exercises.cases import PRIVATE, Cases

    cases = Cases(CASES)
    static = cases._repr_mimebundle_()["text/html"]
    assert not any(word in static for word in ("claim holds", "claim fails", "`"))
    for button in cases.buttons:
        assert "<details>" in cases.progress.value
        button.value = PRIVATE
        assert button.disabled
    assert "15 right of 30 judged" in cases.progress.value
    rows = cases.progress.value.partition("<details open>")[2].split("<tr>")
    table = [re.findall(r">([^<]+)</td>", row) for row in rows]
    assert ["none, it holds", "15", "15", "15"] in table
    assert ["noise", "0", "4", "4"] in table
    assert (
        "No. The claim fails: uncharged. Stated: at most 1; computed: no f"
        in cases.replies[0].value
    )
    assert not any("`" in reply.value for reply in cases.replies)

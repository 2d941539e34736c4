"""The thirty cases: each is a claim, and what is run does not tell its verdict."""

from dpkit.course.exercises.how_guarantees_break import CASES
from dpkit.papers import with_claims
from dpkit.papers.claims import CAUSES, check

CLAIMS = {claim.id: claim for paper in with_claims() for claim in paper.CLAIMS}


def test_thirty_claims_on_privacy_are_judged_either_way():
    assert len(CASES) == 30
    verdicts = [check(CLAIMS[name]).verdict for name in CASES]
    assert set(verdicts) == {"holds", "fails"}
    assert 5 <= verdicts.count("holds") <= 25
    causes = {CLAIMS[name].code.cause for name in CASES if CLAIMS[name].code}
    assert len(causes & set(CAUSES)) >= 6


def test_what_is_run_gives_no_verdict_away():
    for name, told in CASES.items():
        assert not {"should", "wrong", "correctly", "leak", "mistake"} & set(told.lower().split())
        assert told not in CLAIMS[name].explanation

"""Which claims there are of a paper, a verdict and a word, each checked once."""

import math
from functools import lru_cache

from dpkit import papers
from dpkit.common import checks
from dpkit.papers import claims
from dpkit.papers.claims import Claim, Curve, Verdict

ALL = "all"
VERDICTS = (ALL, *claims.OUTCOMES)
CACHED = 1024  # claims


def matching(paper: str, verdict: str, word: str = "") -> tuple[str, ...]:
    """Ids of the claims of that paper with that verdict that mention the word.

    Args:
        paper: its package's name; "all" leaves it open.
        verdict: one of VERDICTS.
        word: any part of what there is to say of a claim, in capitals or not.

    Raises:
        ValueError: the paper or the verdict is unknown.
    """
    checks.one_of(VERDICTS, verdict=verdict)
    every = by_id().values() if paper == ALL else papers.named(paper, papers.with_claims()).CLAIMS
    found = tuple(c for c in every if verdict == ALL or checked(c).verdict == verdict)
    wanted = word.strip().casefold()
    return tuple(c.id for c in found if not wanted or wanted in _said(c).casefold())


def by_id() -> dict[str, Claim]:
    """All claims of all papers, and of later literature."""
    return {claim.id: claim for paper in papers.with_claims() for claim in paper.CLAIMS}


def checked(claim: Claim) -> Verdict:
    """The verdict, computed once, and again when the stored evidence is another.

    A check that fails is a claim that cannot be checked, and its explanation says why.
    """
    if claim.evidence is None:
        return _checked(claim.id, None)
    path = claim.evidence.path
    changed = path.stat().st_mtime_ns if path.exists() else None
    return _checked(claim.id, (str(path), changed))


@lru_cache(CACHED)
def curve_of(identity: str) -> Curve | None:
    """The claim's curve, where it has one."""
    curve = by_id()[identity].curve
    return None if curve is None else curve()


@lru_cache(CACHED)
def _checked(identity: str, _evidence: tuple[str, int | None] | None) -> Verdict:
    claim = by_id()[identity]
    try:
        return claims.check(claim)
    except (ValueError, ArithmeticError, OSError) as error:
        return Verdict(claim, math.nan, "cannot be checked", f"The check failed: {error}")


def _said(claim: Claim) -> str:
    """All that is said of a claim, its line of code included."""
    code = () if claim.code is None else (claim.code.was, claim.code.should, claim.code.cause)
    return " ".join((claim.id, claim.where, claim.says, checked(claim).explanation, *code))

"""Findings of the literature: each in a file of its own, and each against an independent oracle."""

from math import expm1

import dp_accounting
import pytest
from dp_accounting import pld, rdp
from scipy.optimize import brentq
from scipy.stats import norm

from dpkit import claims
from dpkit.claims import Claim
from dpkit.papers import ledger
from dpkit.papers.ledger.finding import Source, finding

BY_NAME = {claim.name: claim for claim in ledger.CLAIMS}
WORK = Source("A method (its authors 2026)", "owner/name 0000000, file.py:1")
CLAIM = {
    "says": "so",
    "kind": "at most",
    "stated": 1.0,
    "compute": lambda: 0.5,
    "explanation": "Because.",
}


def value(name: str) -> float:
    """What the finding computes."""
    return claims.check(BY_NAME[name]).computed


def exact_gaussian(mu: float, delta: float) -> float:
    """Epsilon of a Gaussian that moves by mu of its deviations (Balle, Wang 2018, Theorem 8)."""

    def over(epsilon):
        first, second = norm.logcdf(mu / 2 - epsilon / mu), norm.logcdf(-mu / 2 - epsilon / mu)
        return norm.cdf(mu / 2 - epsilon / mu) * -expm1(epsilon + second - first) - delta

    return brentq(over, 0, 10_000, xtol=1e-12)


def test_each_file_is_one_finding():
    assert len(BY_NAME) == len(ledger.CLAIMS) > 1
    assert all(isinstance(claim, Claim) and claim.paper == "ledger" for claim in ledger.CLAIMS)


def test_a_finding_says_where_it_was_read():
    one = finding("some-name", WORK, **CLAIM)
    assert one.id == "ledger/some-name"
    assert one.where == "A method (its authors 2026): owner/name 0000000, file.py:1"
    for empty in ({"work": " ", "place": "x"}, {"work": "x", "place": ""}):
        with pytest.raises(ValueError, match="must say something"):
            Source(**empty)


def test_what_was_not_read_cannot_be_checked():
    source = Source("A method", "the paper, Table 1", unread="Table 1 (no public copy)")
    with pytest.raises(
        ValueError, match=r"kind must be 'unchecked', got 'at most'.*no public copy"
    ):
        finding("some-name", source, **CLAIM)
    one = claims.check(finding("some-name", source, **{**CLAIM, "kind": "unchecked"}))
    assert one.verdict == "cannot be checked"
    assert one.explanation == "Because. Not read: Table 1 (no public copy)."


def test_one_gaussian_is_priced_as_by_its_exact_formula():
    assert value("dp-merf-noise-5") == pytest.approx(exact_gaussian(1 / 5, 1e-5), abs=1e-6)
    assert value("dp-accounting-replace-one") == pytest.approx(exact_gaussian(2, 1e-5), abs=1e-6)


def test_dp_accounting_says_what_it_is_quoted_with():
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    said = {}
    for kind in (rdp.RdpAccountant, pld.PLDAccountant):
        accountant = kind(neighboring_relation=relation)
        said[kind] = accountant.compose(dp_accounting.GaussianDpEvent(1.0)).get_epsilon(1e-5)
    one = BY_NAME["dp-accounting-replace-one"]
    assert said[rdp.RdpAccountant] == pytest.approx(one.stated, abs=1e-6)
    assert said[pld.PLDAccountant] == pytest.approx(value(one.name), abs=1e-3)

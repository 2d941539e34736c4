"""DP-CGAN's Table 1 against the stored seeds, and two accountants of one run."""

import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import t as student

from dpkit.papers.claims import check
from dpkit.papers.dp_cgan import claims
from dpkit.papers.dp_cgan.claims import CLAIMS

BY_NAME = {claim.name: claim for claim in CLAIMS}


def test_a_cell_is_held_against_the_range_of_seeds_that_do_not_decide_it():
    for column, name in claims.COLUMNS.items():
        for classifier in ("lr", "mlp"):
            found = np.array(claims.aurocs(column, classifier))
            one = check(BY_NAME[f"table-1-{name}-{classifier}"])
            assert one.verdict == "cannot be checked"
            assert one.computed == np.clip(one.claim.stated, found.min(), found.max())
            low, high = claims.next_seed(column, classifier)
            assert low < one.claim.stated < high  # what the explanation says
            assert student(2).cdf((high - found.mean()) / found.std(ddof=1) * 0.75**0.5) == (
                pytest.approx(0.975)
            )


def test_intervals_are_welchs():
    for classifier in ("lr", "mlp"):
        one, other = (
            np.array(claims.aurocs(name, classifier)) for name in ("published", "basic_dp")
        )
        parts = [one.var(ddof=1) / len(one), other.var(ddof=1) / len(other)]
        freedom = sum(parts) ** 2 / sum(p**2 / (len(one) - 1) for p in parts)
        half = student(freedom).ppf(0.975) * math.sqrt(sum(parts))
        mean, low, high = claims.advantage(classifier)
        assert mean == pytest.approx(one.mean() - other.mean())
        assert (low, high) == (pytest.approx(mean - half), pytest.approx(mean + half))
        assert low < 0 < high  # what the explanation says: three seeds do not decide


def test_differences_of_printed_cells():
    assert check(BY_NAME["about-5-per-cent"]).computed == pytest.approx(97.60 - 88.16)
    assert claims.below_real("lr") == pytest.approx(92.17 - 87.57)


def test_class_counts_have_no_epsilon():
    assert check(BY_NAME["class-counts-released"]).computed == math.inf


def test_the_moments_accountant_by_its_sums():
    """30,303 steps at rate .01 and noise 1.232, moments 1 to 32 (Abadi et al. 2016, Thm 2)."""
    q, s, best = 0.01, 1.232, math.inf
    for order in range(2, 34):
        k = np.arange(order + 1)
        choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        logs = choose + k * math.log(q) + (order - k) * math.log1p(-q) + k * (k - 1) / (2 * s**2)
        best = min(best, (30_303 * float(logsumexp(logs)) + math.log(1e5)) / (order - 1))
    found = check(BY_NAME["rdp-tighter-than-moments"])
    assert found.claim.stated == pytest.approx(best, rel=1e-6)
    assert found.computed < best

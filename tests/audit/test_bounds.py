"""Bounds from independent scores: 0 without a difference, below the truth, and near their best."""

from math import inf, log

import numpy as np
import pytest
from curves import ASKED, GAUSSIANS, NULLS, OTHERS, SURE, Curve, allowed, gaussian, mu_at, some
from scipy.special import ndtr
from scipy.stats import binom

from dpkit.audit import bounds, thresholds
from dpkit.audit.bounds import at_thresholds, clopper_pearson, distinguished, likelihood_ratio
from dpkit.audit.scores import Scores

PLAIN = {"clopper_pearson": clopper_pearson, "likelihood_ratio": likelihood_ratio}
ALL = PLAIN | {"gaussian": bounds.gaussian}
DELTA = 0.03  # where (1, 0.02)-DP has an epsilon below 1

named = pytest.mark.parametrize("name", ALL)
FAULT = "a bound above the truth of this one curve"
RATES = [(0.05, 0.4), (0.3, 0.3), (0.01, 0.9), (0.5, 0.02)]


@named
def test_nothing_is_found_where_nothing_differs(name: str):
    """240 repetitions, 1 to 10,000 draws; fails with probability 1e-6 at most."""
    rng = np.random.default_rng(1)
    sizes = [1, 2, 5, 20, 60, 200, 700, 2_000] * 5
    found = [
        ALL[name](*curve.draw(rng, size), **ASKED, rng=rng).epsilon
        for curve in NULLS
        for size in [*sizes[:-1], 10_000]
    ]
    assert np.count_nonzero(found) <= allowed(len(found))


@pytest.mark.parametrize(
    "curve", some(GAUSSIANS + OTHERS, kept=[GAUSSIANS[1], *OTHERS[3:]], fault=FAULT)
)
@pytest.mark.parametrize("name", PLAIN)
def test_at_most_the_truth(name: str, curve: Curve):
    """60 repetitions; fails with probability 1e-6, and with 60 * 1e-9 by the surer bound."""
    rng, truth = np.random.default_rng(2), curve.epsilon(DELTA)
    asked = ASKED | {"delta": DELTA, "rng": rng}
    over = 0
    for _ in range(60):
        scores = curve.draw(rng, 1_000)
        over += PLAIN[name](*scores, **asked).epsilon > truth
        assert PLAIN[name](*scores, **asked, confidence=SURE).epsilon <= truth
    assert over <= allowed(60)


@pytest.mark.parametrize("curve", some(GAUSSIANS, kept=GAUSSIANS[1:2], fault=FAULT))
def test_gaussian_curves_at_most_the_truth(curve: Curve):
    """60 repetitions; fails with probability 1e-6."""
    rng, truth = np.random.default_rng(3), curve.epsilon(1e-5)
    found = [bounds.gaussian(*curve.draw(rng, 1_000), **ASKED, rng=rng) for _ in range(60)]
    assert sum(one.epsilon > truth for one in found) <= allowed(60)
    assert all(bounds.NORMAL in one.assumptions for one in found)


@pytest.mark.parametrize("name", PLAIN)
def test_of_95_percent_no_more_than_the_confidence_is_lost(name: str):
    """At a threshold that all agree on, exact coverage of the intervals is not far above 95 %."""
    rng, curve = np.random.default_rng(4), OTHERS[3]
    truth = curve.epsilon(1e-5)
    found = [PLAIN[name](*curve.draw(rng, 20_000), **ASKED, rng=rng).epsilon for _ in range(40)]
    assert truth - 0.25 < np.median(found) < truth


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("clopper_pearson", {1: 0.5, 4: 2.3, 8: 4.3}),
        ("likelihood_ratio", {1: 0.5, 4: 2.3, 8: 4.4}),
        ("gaussian", {1: 0.9, 4: 3.8, 8: 7.7}),
    ],
)
@pytest.mark.parametrize("truth", [1, 4, 8])
def test_power_on_normal_scores(name: str, least: dict[int, float], truth: int):
    """The median of five seeds of 100,000 draws a world."""
    curve, found = gaussian(mu_at(truth)), []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found.append(ALL[name](*curve.draw(rng, 100_000), **ASKED, rng=rng).epsilon)
    assert least[truth] <= np.median(found) <= truth


def test_the_joint_test_gives_more_than_separate_limits():
    """On average over 10 draws of each curve, whichever of the two errors decides."""
    for curve in (gaussian(mu_at(1.0)), gaussian(mu_at(8.0)), *OTHERS):
        mean = {}
        for name, bound in PLAIN.items():
            rng = np.random.default_rng(5)
            draws = [(curve.draw(rng, 10_000), np.random.default_rng(i)) for i in range(10)]
            mean[name] = np.mean([bound(*s, **ASKED, rng=r).epsilon for s, r in draws])
        assert mean["likelihood_ratio"] > mean["clopper_pearson"] - 0.01, curve.name


@pytest.mark.parametrize("errors", [0, 1, 7, 50, 99, 100])
@pytest.mark.parametrize("z", [-4.0, -1.0, 0.5, 1.96, 5.0])
def test_a_limit_has_the_tail_that_it_says(errors: int, z: float):
    limit = float(thresholds.upper_limit(np.array(float(errors)), 100, z))
    if errors == 100:
        assert limit == 1
    else:
        assert binom.cdf(errors, 100, limit) == pytest.approx(ndtr(-z), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
@pytest.mark.parametrize(("fpr", "fnr"), RATES)
@pytest.mark.parametrize("weight", [0.02, 0.3, 0.5, 0.97])
def test_joint_limits_cover_by_exact_summation(fpr: float, fnr: float, weight: float, alpha: float):
    """Over every pair of counts of 40 and 30 trials; no sampling."""
    counts = [grid.ravel() for grid in np.meshgrid(np.arange(41.0), np.arange(31.0))]
    chances = binom.pmf(counts[0], 40, fpr) * binom.pmf(counts[1], 30, fnr)
    found = thresholds.joint(
        thresholds.Counts(counts[0], 40, counts[1], 30), alpha, np.array([weight]), cells=50
    )
    covered = np.any((fpr <= found.fpr) & (fnr <= found.fnr), axis=-1)[:, 0]
    assert 1 - 1e-12 >= chances @ covered >= 1 - alpha


@pytest.mark.parametrize(("fpr", "fnr"), [(0.0, 0.5), (0.5, 0.0), (1.0, 1.0), (0.0, 0.0)])
def test_rates_at_the_ends(fpr: float, fnr: float):
    """Where no record is ever mistaken, nothing but the number of trials limits the bound."""
    absent, present = np.zeros(1000), np.ones(1000)
    absent[: int(1000 * fpr)], present[: int(1000 * fnr)] = 1, 0
    asked = ASKED | {"thresholds": [0.5], "rng": np.random.default_rng()}
    found = at_thresholds(absent, present, **asked).epsilon
    assert found == 0 if fpr == 1 else 0 < found < log(1000)


def test_without_any_error_both_limits_have_a_closed_form():
    """100 of 1,000 choose; of 900 none errs, so that a rate is at most 1 - 0.025^(1/900)."""
    found = clopper_pearson(np.zeros(1000), np.ones(1000), **ASKED, rng=np.random.default_rng(0))
    limit = 1 - 0.025 ** (1 / 900)
    assert found.epsilon == pytest.approx(log((1 - limit - ASKED["delta"]) / limit), rel=1e-9)


def test_either_inequality_counts():
    """Few false negatives give by the second what few false positives give by the first."""
    rng = np.random.default_rng(6)
    absent, present = np.repeat([0.0, 1.0], [990, 10]), np.repeat([0.0, 1.0], [500, 500])
    one = at_thresholds(absent, present, thresholds=[0.5], **ASKED, rng=rng)
    other = at_thresholds(-present, -absent, thresholds=[-0.5], **ASKED, rng=rng)
    assert one.epsilon == pytest.approx(other.epsilon)
    assert one.epsilon > 2.5


def test_more_thresholds_cost_their_number():
    asked = ASKED | {"rng": np.random.default_rng(7)}
    scores = gaussian(1.0).draw(asked["rng"], 5_000)
    lists = [2.0], [2.0, 50.0], [2.0, *range(50, 150)]
    found = [at_thresholds(*scores, thresholds=tried, **asked).epsilon for tried in lists]
    assert found[0] > found[1] > found[2] > 0


def test_at_thresholds_covers_with_all_of_them():
    """300 repetitions of ten thresholds; fails with probability 1e-6."""
    rng, curve = np.random.default_rng(8), gaussian(1.0)
    asked = ASKED | {"thresholds": np.linspace(-1, 3, 10), "rng": rng}
    found = [at_thresholds(*curve.draw(rng, 300), **asked) for _ in range(300)]
    assert sum(one.epsilon > curve.epsilon(1e-5) for one in found) <= allowed(300)


def test_ties_count_as_not_above():
    scores = Scores(np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0]))
    counts = thresholds.count(scores, np.array([1.0, inf, -inf]))
    assert counts.false_positives.tolist() == [0, 0, 3]
    assert counts.false_negatives.tolist() == [1, 2, 0]


@named
def test_the_scale_of_scores_plays_no_part(name: str):
    """Infinite scores are scores."""
    ends = np.full(500, -inf), np.full(500, inf)
    assert ALL[name](*ends, **ASKED, rng=np.random.default_rng()).epsilon > 3
    scores = gaussian(1.0).draw(np.random.default_rng(9), 3_000)
    found = [
        ALL[name](*map(change, scores), **ASKED, rng=np.random.default_rng(0)).epsilon
        for change in (lambda s: s, lambda s: 2.0**40 * s, lambda s: s / 2.0**40 + 0.0)
    ]
    assert found == pytest.approx([found[0]] * 3)


def test_epsilon_of_mu_is_rounded_down():
    assert bounds.epsilon_of_mu(0.0, 1e-5) == 0
    assert 4.0 - 1e-6 <= bounds.epsilon_of_mu(mu_at(4.0), 1e-5) <= 4.0 + 1e-12


def test_scores_that_choose_are_not_counted_again():
    world = np.arange(50.0)
    first, rest = thresholds.split(world, -world, share=0.2, rng=np.random.default_rng(11))
    assert first.absent.size == first.present.size == 10
    for one, other, whole in zip(first, rest, (world, -world), strict=True):
        assert sorted([*one, *other]) == sorted(whole)


def apart(absent, present):
    return distinguished(absent, present, **ASKED, rng=np.random.default_rng())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_constants_that_differ_leave_no_finite_epsilon(sign, noise):
    absent, present = noise * np.random.default_rng(1).random((2, 20)) + [[0.0], [1.0]]
    found = apart(sign * absent, sign * present)
    assert (found.epsilon, found.confidence, found.trials) == (inf, 1.0, 40)


def test_what_is_random_or_the_same_gives_0_and_values_that_no_statistic_has_are_refused():
    random, steps = np.random.default_rng(2).random((2, 20)), np.arange(20.0)
    assert apart(np.zeros(20), np.zeros(20)).epsilon == 0  # the same
    assert apart(np.ones(20), np.ones(20) + 1e-14).epsilon == 0  # but for rounding
    assert apart(random[0], 3 + random[1]).epsilon == 0  # random
    assert apart(steps, steps + 30).epsilon == 0  # apart, but not a constant each
    for absent, words in ((np.zeros(9), "at least 10 trials"), (np.full(20, inf), "finite values")):
        with pytest.raises(ValueError, match=words):
            apart(absent, np.ones(20))

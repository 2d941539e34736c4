"""Batches that are not drawn as they are charged: what the attacks score, and what they show."""

from functools import partial
from statistics import NormalDist

import numpy as np
import pytest
from draws import rng

from dpkit.audit import bounds
from dpkit.papers.targets import sampling
from dpkit.papers.targets.target import DELTA
from dpkit.privacy import Gaussian, Release, WithoutReplacementGaussian, gdp, pld, rdp

BY_ID = {target.id.partition("/")[2]: target for target in sampling.TARGETS}


def measured(target, scores):
    given = {"delta": target.delta, "adjacency": target.adjacency, "rng": rng(1)}
    return target.bound(*scores, **given).epsilon


@pytest.mark.parametrize("name", BY_ID)
def test_as_many_scores_as_asked_do_not_exceed_what_is_proven(name):
    """By chance in 5 runs of 100 at most, were the attack as good as the proof."""
    target = BY_ID[name]
    scores = target.scores(rng(), 5_000)
    assert scores.absent.shape == scores.present.shape == (5_000,)
    assert np.isfinite(scores).all()
    assert measured(target, scores) <= target.proven().epsilon


@pytest.mark.parametrize(
    ("name", "trials"),
    [
        *(("shuffled-1000-batches", 100_000), ("shuffled-10000-batches", 100_000)),
        *(("shuffled-replaced", 100_000), ("one-record-a-batch", 30_000)),
        *(("divided-by-own-size", 10_000), ("label-histogram", 10)),
    ],
)
def test_more_is_seen_than_is_charged(name, trials):
    """Each by a margin of at least a third, and of more than .4."""
    target = BY_ID[name]
    assert target.said is not None
    assert measured(target, target.scores(rng(), trials)) > target.said


@pytest.mark.parametrize("seed", range(20))
def test_batches_drawn_as_charged_are_not_refuted(seed):
    target = BY_ID["poisson-batches"]
    assert target.charged == target.proven().epsilon
    assert measured(target, target.scores(rng(seed), 500)) <= target.proven().epsilon


def test_the_largest_sum_has_the_law_of_a_maximum():
    """Shares of 100,000 within 5 standard errors of Phi(t)^9 Phi(t - moved): once in 10^5."""
    noise, batches, trials = 0.5, 10, 100_000
    scores = sampling.largest_batch(rng(), trials, noise_multiplier=noise, batches=batches)
    normal = NormalDist()
    for world, moved in zip(scores, (1.0, 2.0), strict=True):
        for at in (1.5, 2.5, 4.0):
            below = normal.cdf(at) ** (batches - 1) * normal.cdf(at - moved / noise)
            error = 5 * np.sqrt(below * (1 - below) / trials)
            assert np.mean(world <= at) == pytest.approx(below, abs=error)


def test_leaving_one_class_for_another_is_a_gaussian_of_both_moves():
    """Log likelihood ratios of means -1 and 1 and deviation sqrt(2), within 5 standard errors."""
    trials = 100_000
    absent, present = sampling.between_classes(rng(), trials, noise_multiplier=1.0)
    error = 5 * np.sqrt(2 / trials)
    assert absent.mean() == pytest.approx(-1.0, abs=error)
    assert present.mean() == pytest.approx(1.0, abs=error)
    assert present.std() == pytest.approx(np.sqrt(2), rel=0.02)
    # of which the target's proof, for any replaced record, is a bound
    both = gdp.epsilon([Release(Gaussian(1.0), 2)], delta=DELTA).epsilon
    target = BY_ID["model-per-class"]
    assert both < min(target.charged, target.proven().epsilon)


def test_a_divisor_follows_from_the_number_of_records_and_a_public_one_hides_the_record():
    """Mean squares of noise over 63 and over 64, of 10,000 weights: within 1 % on average."""
    absent, present = BY_ID["divided-by-own-size"].scores(rng(), 100)
    assert -absent.mean() == pytest.approx(1 / 63**2, rel=0.01)
    assert -present.mean() == pytest.approx(1 / 64**2, rel=0.01)
    scores = sampling.own_divisor(rng(), 10_000, records=639, batch=64, weights=100)  # 63 in both
    assert measured(BY_ID["divided-by-own-size"], scores) < 0.2


def test_noise_on_a_count_leaves_nothing_exact():
    scores = sampling.class_count(rng(), 20, others=(5, 5), noise=3.0)
    found = bounds.distinguished(*scores, delta=DELTA, adjacency="add-remove", rng=rng())
    assert found.epsilon == 0


def test_one_record_a_batch_is_proven_by_draws_without_replacement():
    ledger = [Release(WithoutReplacementGaussian(0.5, 0.01), 100)]
    found = BY_ID["one-record-a-batch"].proven().epsilon
    assert found == pytest.approx(pld.epsilon(ledger, delta=DELTA).epsilon, rel=1e-6)
    assert found < rdp.epsilon(ledger, delta=DELTA).epsilon


def test_bad_noise_is_refused():
    for scores in (partial(sampling.largest_batch, batches=5), sampling.between_classes):
        for bad in (0.0, -1.0, float("nan")):
            with pytest.raises(ValueError, match="noise_multiplier must be"):
                scores(rng(), 10, noise_multiplier=bad)

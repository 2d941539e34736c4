"""Worlds and attacks as such: what is drawn, how it is scored, and what is refused."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from own_mechanisms import attacks
from own_mechanisms import worlds as released
from own_mechanisms.attacks import classifier, histogram, likelihood_ratio, statistic
from own_mechanisms.worlds import World, Worlds, of_ledger, repeated, together, unmoved, worst_pair
from scipy.stats import chi2, kstest

from dpkit.privacy import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NoGuarantee,
    RandomizedResponse,
    Release,
    SampledGaussian,
    Unsupported,
    WithoutReplacementGaussian,
)
from dpkit.privacy.mechanisms import discrete_sampler

DRAWS = 100_000
FAR = 5.0  # standard errors; a normal is beyond with a chance of 6e-7


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def discrete_variance(scale: float) -> float:
    x = np.arange(-50, 51)
    mass = np.exp(-((x / scale) ** 2) / 2)
    return float((mass * x**2).sum() / mass.sum())


# What is drawn

MOMENTS = [  # world, mean, variance
    (released.normal_sum(1, 2.0), 1, 4),
    (released.normal_sum(-1, 0.5, rate=0.3), -0.3, 0.25 + 0.3 * 0.7),
    (released.normal_sum([1, -1], [1.0, 2.0], rate=0.5), [0.5, -0.5], [1.25, 4.25]),
    (released.laplace_sum(2.0, 0.7), 2, 2 * 0.7**2),
    (released.discrete_sum(3, 0.6), 3, discrete_variance(0.6)),
    (released.response(0, epsilon=math.log(3), categories=2), 0.25, 0.25 * 0.75),
    (
        released.fixed_batch_sum(1, others=-0.5, batch=3, records=10, deviation=1.5),
        -1.5 + 1.5 * 0.3,
        1.5**2 + 1.5**2 * 0.3 * 0.7,
    ),
    (released.exact_count(7), 7, 0),
]


@pytest.mark.parametrize(("world", "mean", "variance"), MOMENTS)
def test_moments_are_those_of_the_definition(world: World, mean, variance):
    found = world.draw(rng(1), DRAWS)
    assert found.shape == (DRAWS, world.width)
    assert found.dtype == np.float64
    squares = (found - mean) ** 2
    for values, expected in ((found, mean), (squares, variance)):
        error = FAR * values.std(axis=0) / math.sqrt(DRAWS)
        assert (np.abs(values.mean(axis=0) - expected) <= error + 1e-12).all()


def test_normal_and_laplace_noise_have_their_distributions():
    """Kolmogorov-Smirnov; either fails with a chance of 1e-4."""
    normals = released.normal_sum(1, 2.0).draw(rng(2), DRAWS)[:, 0]
    laplaces = released.laplace_sum(1, 2.0).draw(rng(3), DRAWS)[:, 0]
    assert kstest((normals - 1) / 2, "norm").pvalue > 1e-4
    assert kstest((laplaces - 1) / 2, "laplace").pvalue > 1e-4


def test_all_groups_of_a_batch_are_drawn_together():
    found = released.normal_sum([1, 1], [1e-3, 1e-3], rate=0.5).draw(rng(4), 1000).round()
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    assert 400 < found[:, 0].sum() < 600


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.5])
def test_discrete_noise_is_that_of_the_exact_sampler(scale: float):
    """Chi-squared of two samples, cells of less than 20 draws left out; fails 1 time in 10^4."""
    exact = discrete_sampler.sample(5_000, variance=Fraction(scale) ** 2, rng=random.Random(5))
    fast = released.discrete_sum(0, scale).draw(rng(6), DRAWS)[:, 0]
    cells = np.arange(-12, 13)
    a, b = (np.array([(np.array(x) == cell).sum() for cell in cells]) for x in (exact, fast))
    kept = a >= 20
    a, b = a[kept], b[kept]
    share = 5_000 / DRAWS
    statistic = ((a - share * b) ** 2 / (share * (a + b))).sum()
    assert statistic < chi2.isf(1e-4, kept.sum())


def test_answers_are_the_truth_as_often_as_they_should_be():
    found = released.response(2, epsilon=1.0, categories=4).draw(rng(7), DRAWS)[:, 0]
    shares = np.bincount(found.astype(int), minlength=4) / DRAWS
    truth = math.e / (math.e + 3)
    expected = np.array([(1 - truth) / 3] * 4)
    expected[2] = truth
    assert (np.abs(shares - expected) <= FAR * np.sqrt(expected / DRAWS)).all()


# How worlds are put together


def test_losses_of_known_outputs():
    one = worst_pair(Gaussian(2.0))
    np.testing.assert_allclose(one.loss(np.array([[0.5], [1.0], [-1.0]])), [0, 1 / 8, -3 / 8])
    laplace = worst_pair(Laplace(0.5))
    np.testing.assert_allclose(laplace.loss(np.array([[-3.0], [0.5], [9.0]])), [-2, 0, 2])
    answers = worst_pair(RandomizedResponse(1.5, 3))
    np.testing.assert_allclose(answers.loss(np.array([[0.0], [1.0], [2.0]])), [1.5, -1.5, 0])
    counts = Worlds(released.exact_count(1), released.exact_count(2))
    assert counts.loss(np.array([[1.0], [2.0]])).tolist() == [-math.inf, math.inf]


def test_losses_of_independent_releases_add_up():
    parts = [worst_pair(Laplace(1.0)), repeated(worst_pair(Gaussian(1.0)), 3)]
    both = together(parts)
    assert both.absent.width == both.present.width == 4
    outputs = both.draw(rng(8), 50, present=True)
    expected = parts[0].loss(outputs[:, :1])
    for at in (1, 2, 3):
        expected = expected + worst_pair(Gaussian(1.0)).loss(outputs[:, [at]])
    np.testing.assert_allclose(both.loss(outputs), expected, atol=1e-12)


def test_swapped_worlds_have_the_opposite_loss():
    pair = worst_pair(SampledGaussian(1.0, 0.2))
    outputs = pair.draw(rng(9), 20, present=True)
    np.testing.assert_array_equal(pair.swapped().loss(outputs), -pair.loss(outputs))
    np.testing.assert_array_equal(
        pair.swapped().draw(rng(10), 5, present=False), pair.draw(rng(10), 5, present=True)
    )


def test_what_the_record_does_not_touch_has_no_loss():
    same = unmoved(worst_pair(Gaussian(1.0)).present)
    assert (same.loss(same.draw(rng(11), 20, present=True)) == 0).all()


def test_a_ledger_has_a_column_for_each_number_released():
    ledger = [
        Release(Gaussian(1.0), 2),
        Release(SampledGaussian(1.0, 0.1), 5),
        Release(DiscreteGaussian(1.0)),
    ]
    assert of_ledger(ledger).absent.width == 8


# Attacks


@pytest.mark.parametrize("attack", [likelihood_ratio, histogram, classifier])
def test_scores_are_repeatable_higher_with_the_record_and_as_many_as_asked(attack):
    attacked = attack(worst_pair(Gaussian(1.0)))
    scores, again = attacked(rng(12), 3_000), attacked(rng(12), 3_000)
    assert scores.absent.shape == scores.present.shape == (3_000,)
    np.testing.assert_array_equal(scores.absent, again.absent)
    np.testing.assert_array_equal(scores.present, again.present)
    assert scores.present.mean() > scores.absent.mean() + 0.5


def test_draws_in_parts_are_draws(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attacks, "AT_ONCE", 64)
    worlds = of_ledger([Release(Gaussian(2.0), 10)])
    scores = likelihood_ratio(worlds)(rng(13), 5_000)
    assert scores.absent.shape == (5_000,)
    mu = math.sqrt(10) / 2  # the loss is N(+-mu^2 / 2, mu^2)
    assert np.unique(scores.absent).size > 4_990
    assert scores.present.mean() == pytest.approx(mu**2 / 2, abs=FAR * mu / math.sqrt(5_000))
    assert scores.absent.mean() == pytest.approx(-(mu**2) / 2, abs=FAR * mu / math.sqrt(5_000))


def test_equal_losses_are_equal_scores():
    scores = likelihood_ratio(of_ledger([Release(Laplace(3.0), 4)]))(rng(14), 20_000)
    highest = scores.present.max()
    assert highest == pytest.approx(4 / 3, abs=1e-9)
    # all four outputs beyond the record's own side, each with the chance 1/2
    assert (scores.present == highest).mean() == pytest.approx(1 / 16, abs=0.01)


def test_learned_ratios_of_a_small_example():
    absent = np.array([[0.0], [0.0], [0.0], [1.0]])
    present = np.array([[0.0], [1.0], [1.0], [1.0]])
    score = attacks.learned_ratios(absent, present, bins=2)
    np.testing.assert_allclose(score(np.array([[-9.0], [9.0]])), [math.log(2 / 4), math.log(2)])


def test_learned_ratios_come_near_the_loss():
    worlds = worst_pair(RandomizedResponse(1.5, 3))
    absent, present = (worlds.draw(rng(i), DRAWS, present=bool(i)) for i in (0, 1))
    answers = np.array([[0.0], [1.0], [2.0]])
    found = attacks.learned_ratios(absent, present, bins=16)(answers)
    np.testing.assert_allclose(found, worlds.loss(answers), atol=0.05)


def test_a_classifier_takes_another_model():
    from sklearn.linear_model import LogisticRegression

    attack = classifier(worst_pair(Gaussian(1.0)), model=LogisticRegression, learning=1_000)
    scores = attack(rng(15), 500)
    assert scores.present.mean() > scores.absent.mean() + 0.5


def test_a_statistic_is_one_of_the_numbers():
    worlds = together([worst_pair(Gaussian(1.0)), unmoved(released.exact_count(4))])
    assert statistic(worlds, coordinate=1)(rng(17), 3).present.tolist() == [4.0] * 3


def test_mechanisms_without_a_known_pair_are_unsupported():
    for mechanism in (
        NoGuarantee("all is shown"),
        WithoutReplacementGaussian(1.0, 0.123456789),
        WithoutReplacementGaussian(1.0, 0.0),
    ):
        with pytest.raises(Unsupported):
            worst_pair(mechanism)

"""The discrete Gaussian's price against sums with many digits; its sampler against its law."""

import math
import random
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats
from truths import renyi_divergence

from dpkit.privacy.mechanisms import Gaussian, discrete_gaussian
from dpkit.privacy.mechanisms.discrete_gaussian import DiscreteGaussian, bernoulli_exp, sample

CASES = [(0.05, 1, "add-remove"), (0.3, 1, "replace-one"), (0.5, 3, "add-remove")]
CASES += [(1.0, 1, "add-remove"), (2.9, 1, "replace-one"), (5.0, 2, "add-remove")]
CASES += [(0.01, 100, "add-remove")]
MORE = [(0.02, 1, "add-remove"), (0.02, 50, "replace-one"), (1.0, 4, "replace-one")]
MORE += [(1.0, 1, "add-remove"), (20.0, 1, "add-remove"), (0.75, 4, "add-remove")]


def weights(scale: float, shift: int, reach: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    """The two probabilities at every integer from -reach to reach, from the definition."""
    s = mpmath.mpf(scale)
    total = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * s * s)))
    density = lambda x: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s * s)) / total  # noqa: E731
    points = range(-reach, reach + 1)
    return [density(x - shift) for x in points], [density(x) for x in points]


def shift_of(sensitivity: int, adjacency: str) -> int:
    return sensitivity * (1 if adjacency == "add-remove" else 2)


@pytest.mark.parametrize(("noise", "sensitivity", "adjacency"), CASES)
def test_rdp_equals_the_sum_of_its_definition(noise, sensitivity, adjacency):
    orders = [1 + 1e-9, 1.001, 1.3, 1.5, 2.0, 3.7, 20.0]
    scale, shift = noise * sensitivity, shift_of(sensitivity, adjacency)
    with mpmath.workdps(60):
        p, q = weights(scale, shift, int(14 * scale + 21 * shift) + 5)
        expected = [renyi_divergence(p, q, order) for order in orders]
    found = DiscreteGaussian(noise, sensitivity, adjacency).rdp(orders)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_rdp_is_at_most_the_gaussians_and_equal_at_whole_orders(adjacency):
    orders = np.concatenate([1 + np.geomspace(1e-8, 1, 40), np.arange(3, 40) / 2])
    for noise in (1e-3, 0.1, 0.4, 2.0, 1e9):
        ours, smooth = (of(noise, adjacency=adjacency) for of in (DiscreteGaussian, Gaussian))
        assert (ours.rdp(orders) <= smooth.rdp(orders) * (1 + 1e-15)).all()
        np.testing.assert_allclose(ours.rdp([2, 3, 64]), smooth.rdp([2, 3, 64]), rtol=1e-15)
    assert DiscreteGaussian(0.3).rdp([1.5])[0] < 0.9 * Gaussian(0.3).rdp([1.5])[0]


@pytest.mark.parametrize(("noise", "sensitivity", "adjacency"), MORE)
def test_the_profile_equals_the_hockey_stick_sum(noise, sensitivity, adjacency):
    """At noise 0.02 a loss of 1250, which the other data set all but never gives, too."""
    scale, shift = noise * sensitivity, shift_of(sensitivity, adjacency)
    points = [-3.0, -0.1, 0.0, 0.01, 0.4, 1.0, 5.0, 30.0, 1000.0, 1240.0, 4000.0]
    with mpmath.workdps(40):
        p, q = weights(scale, shift, int(39 * scale) + shift + 2)
        for row, (one, other) in enumerate([(p, q), (q, p)]):
            atoms, factors = list(zip(one, other, strict=True)), [mpmath.exp(at) for at in points]
            expected = [float(mpmath.fsum(max(x - f * y, 0) for x, y in atoms)) for f in factors]
            found = DiscreteGaussian(noise, sensitivity, adjacency).profile(points)[row]
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-280)


def test_a_little_more_noise_may_show_more_at_one_epsilon():
    """True of the definition: at scale 0.7 an atom lies at 3.06, at 0.8 the next is at 3.9."""
    x, deltas = np.arange(-30, 31), []
    for scale in (0.7, 0.8):
        p, q = (np.exp(-((x - at) ** 2) / (2 * scale**2)) for at in (1, 0))
        deltas.append(np.maximum(p - math.exp(3.07) * q, 0).sum() / q.sum())
    assert deltas[0] < 0.7 * deltas[1]
    found = [DiscreteGaussian(scale).profile([3.07])[0, 0] for scale in (0.7, 0.8)]
    np.testing.assert_allclose(found, deltas, rtol=1e-12)


def test_the_profile_survives_the_ends_and_comes_near_the_gaussian():
    points = [0.0, 1e-6, 1e-5]
    found, smooth = DiscreteGaussian(1e6).profile(points), Gaussian(1e6).profile(points)
    np.testing.assert_allclose(found, smooth, rtol=1e-6)
    mechanism = DiscreteGaussian(0.7)
    assert mechanism.profile([-np.inf, np.inf])[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("scale", [0.02, 0.3, 1.0, 7.7, 100.0])
def test_tails_keep_their_digits_from_the_middle_to_far_beyond_underflow(scale: float):
    k = np.unique(np.ceil(scale * np.array([-3, 0, 0.5, 1, 5, 20, 36.5, 39, 60, 1000])))
    with mpmath.workdps(30):
        s = mpmath.mpf(scale)
        total = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * s * s)))

        def tail(first: int) -> mpmath.mpf:
            if first <= 0:
                return 1 - tail(1 - first)
            square = lambda x: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s * s))  # noqa: E731
            reach = int(12 * scale) + 3
            return mpmath.fsum(square(x) for x in range(first, first + reach)) / total

        expected = [float(mpmath.log(tail(int(first)))) for first in k]
    found = discrete_gaussian._log_upper_tail(k, scale)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


def test_large_scales_leave_the_table_without_a_step(monkeypatch: pytest.MonkeyPatch):
    """Above LONGEST_TABLE the tails come from a series, and far out from a direct sum."""
    k = np.round(3001.0 * np.array([-8, -1, 0, 0.3, 1, 4, 9, 20, 34]))
    series = discrete_gaussian._log_upper_tail(k, 3001.0)
    monkeypatch.setattr(discrete_gaussian, "LONGEST_TABLE", 1e9)
    np.testing.assert_allclose(discrete_gaussian._log_upper_tail(k, 3001.0), series, rtol=1e-14)
    for scale in (3001.0, 1e4, 1e6):
        far = np.ceil(scale**2 * np.array([0.0115, 0.0125]))
        direct = discrete_gaussian._direct_tail(far, scale)
        direct -= 0.5 * np.log(2 * np.pi) + np.log(scale)
        smooth = discrete_gaussian._smooth_tail((far - 0.5) / scale, 1 / scale)
        np.testing.assert_allclose(direct, smooth, rtol=1e-14)


def test_atoms_lie_on_the_lattice_and_keep_all_mass():
    mechanism = DiscreteGaussian(0.8, 3)
    loss = mechanism.privacy_loss()
    assert loss.lattice is not None
    offset, spacing = loss.lattice
    edges = offset + spacing * np.arange(-60, 61)  # each atom on the closed end of its cell
    masses = loss.masses(edges)
    with mpmath.workdps(30):
        p, q = weights(0.8 * 3, 3, 60)
    for found, true in zip(masses, (p, q), strict=True):
        np.testing.assert_allclose(found[1:-1], [float(x) for x in true[1:]], rtol=1e-12)
    np.testing.assert_allclose(masses.sum(axis=1), 1, rtol=1e-14)


def test_the_coin_of_exp_is_exact():
    """Every sequence of draws up to depth 6 followed with its probability, as fractions."""

    class Follow:
        """Replays one path of draws; beyond it, notes how many ways there are to go on."""

        def __init__(self, path: tuple[int, ...]) -> None:
            self.path, self.at, self.ways = path, 0, 0

        def randrange(self, start: int, /) -> int:
            if self.at == len(self.path):
                self.ways = start
                raise StopIteration
            self.at += 1
            return self.path[self.at - 1]

    true, open_paths = Fraction(0), [((), Fraction(1))]
    while open_paths:
        path, probability = open_paths.pop()
        source = Follow(path)
        try:
            true += probability * bernoulli_exp(1, 2, rng=source)
        except StopIteration:
            if len(path) < 6:
                share = probability / source.ways
                open_paths += [((*path, i), share) for i in range(source.ways)]
    # the paths still open after 6 draws have probability (1/2)^6 / 6!
    assert 0 <= math.exp(-0.5) - float(true) <= 0.5**6 / math.factorial(6)


def chi_square(draws: list[int], law, reach: int) -> float:
    """The p-value of the draws' counts at -reach .. reach and beyond; `law` is of -60 .. 60."""
    counts, inside = Counter(draws), law[60 - reach : 61 + reach]
    observed = [counts[x] for x in range(-reach, reach + 1)]
    observed.append(len(draws) - sum(observed))
    expected = np.array([*inside, 1 - sum(inside)]) * len(draws)
    assert expected.min() > 5
    return float(stats.chisquare(observed, expected).pvalue)


# Each p-value below is under 1e-7 with probability 1e-7 over the seed, which is fixed.
@pytest.mark.parametrize(("numerator", "denominator"), [(1, 3), (1, 1), (7, 2), (0, 5)])
def test_the_coin_of_exp_has_its_probability(numerator: int, denominator: int):
    rng = random.Random(5)
    heads = sum(bernoulli_exp(numerator, denominator, rng=rng) for _ in range(20_000))
    assert stats.binomtest(heads, 20_000, math.exp(-numerator / denominator)).pvalue > 1e-7


def test_discrete_laplace_and_the_sample_have_the_laws_that_are_priced():
    rng = random.Random(6)
    for scale in (1, 3):
        draws = [discrete_gaussian.discrete_laplace(scale, rng=rng) for _ in range(20_000)]
        law = [math.tanh(0.5 / scale) * math.exp(-abs(x) / scale) for x in range(-60, 61)]
        assert chi_square(draws, law, 4 * scale) > 1e-7  # tanh: (1 - e^(-1/t)) / (1 + e^(-1/t))
    for variance in (Fraction(1, 3), 1, Fraction(7, 2), 40):
        draws = sample(20_000, variance=variance, rng=random.Random(7))
        law = np.exp(-(np.arange(-60, 61) ** 2) / (2 * float(variance)))
        reach = max(1, int(2.5 * math.sqrt(variance)))
        assert chi_square(draws, law / law.sum(), reach) > 1e-7, variance


def test_the_sampler_takes_the_mechanisms_own_variance():
    mechanism = DiscreteGaussian(0.1, 3)
    assert mechanism.variance == (Fraction(0.1) * 3) ** 2  # of the float, to the last bit
    assert len(sample(5, variance=mechanism.variance, rng=discrete_gaussian.secure_source())) == 5
    assert sample(0, variance=1, rng=discrete_gaussian.secure_source()) == []
    big = sample(200, variance=10**30, rng=random.Random(8))
    # one in 200 beyond 6.5 deviations has probability 2e-8; two alike, 2e-11
    assert max(map(abs, big)) < 6.5e15
    assert len(set(big)) == 200
    assert big == sample(200, variance=10**30, rng=random.Random(8))

"""The Gaussian noise of training: its distribution, its scale, its independence.

Fixed seeds. Each of the file's 25 statistical checks rejects at a p-value of 1e-8, so that with
right noise they would fail with probability below 3e-7 together.
"""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dpkit.privacy.clipping import GroupClipping, PerCoordinateClipping
from dpkit.training.optimizers import noised, noised_each

pytestmark = pytest.mark.torch

LEAST_P = 1e-8
SHAPES = ((4, 3), (4,), (1, 4), (1,))  # a network's weights and biases: 21 coordinates
COORDINATES = 21
STEPS = 8000


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def zeros(shapes=SHAPES, dtype=torch.float32):
    return [torch.zeros(shape, dtype=dtype) for shape in shapes]


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors]).double().numpy()


@pytest.fixture(scope="module")
def history():
    """(steps, coordinates): the noise of many steps of one run, at noise_std 1."""
    rng = generator()
    return np.stack([flat(noised(zeros(), noise_std=1.0, rng=rng)) for _ in range(STEPS)])


def two_sided(distribution, value):
    return 2 * min(distribution.sf(value), distribution.cdf(value))


def sum_of_squares(z):
    return two_sided(stats.chi2(z.size), float((z**2).sum()))


@pytest.mark.parametrize("noise_std", [1e-3, 1.0, 37.5])
def test_noise_is_normal_with_the_deviation_asked_for(noise_std):
    """A million draws: mean, variance, skewness, kurtosis, the whole distribution, far tails."""
    n = 1_000_000
    (noise,) = noised(zeros([(1000, 1000)]), noise_std=noise_std, rng=generator(1))
    z = noise.flatten().double().numpy() / noise_std
    assert two_sided(stats.norm(0, n**-0.5), z.mean()) > LEAST_P
    assert two_sided(stats.chi2(n), float((z**2).sum())) > LEAST_P
    assert two_sided(stats.norm(0, (6 / n) ** 0.5), stats.skew(z)) > LEAST_P
    assert two_sided(stats.norm(0, (24 / n) ** 0.5), stats.kurtosis(z)) > LEAST_P
    assert stats.kstest(z, "norm").pvalue > LEAST_P
    beyond = int((np.abs(z) > 4).sum())
    assert stats.binomtest(beyond, n, 2 * stats.norm.sf(4)).pvalue > LEAST_P


def test_every_coordinate_has_the_same_deviation(history):
    totals = (history**2).sum(0)
    assert min(two_sided(stats.chi2(STEPS), t) for t in totals) * COORDINATES > LEAST_P


def test_noise_is_independent_across_parameters(history):
    together = (history.T @ history / STEPS**0.5)[np.triu_indices(COORDINATES, 1)]
    assert sum_of_squares(together) > LEAST_P


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_noise_is_independent_across_steps(history, lag):
    """Every coordinate with every coordinate some steps later."""
    apart = history[lag:].T @ history[:-lag] / (STEPS - lag) ** 0.5
    assert sum_of_squares(apart) > LEAST_P


def test_grouping_tensors_otherwise_gives_the_same_distribution():
    """One tensor or four: other draws, one distribution (Kolmogorov-Smirnov, two samples)."""
    one, four = generator(2), generator(3)
    joined = [flat(noised(zeros([(COORDINATES,)]), noise_std=2.0, rng=one)) for _ in range(3000)]
    split = [flat(noised(zeros(), noise_std=2.0, rng=four)) for _ in range(3000)]
    assert stats.ks_2samp(np.ravel(joined), np.ravel(split)).pvalue > LEAST_P


def test_noise_is_added_to_the_sums_and_changes_nothing_else():
    sums = [torch.full(shape, 5.0) for shape in SHAPES]
    noise = noised(zeros(), noise_std=0.3, rng=generator())
    for total, noisy, only in zip(
        sums, noised(sums, noise_std=0.3, rng=generator()), noise, strict=True
    ):
        assert (total == 5).all()
        torch.testing.assert_close(noisy, 5 + only, rtol=1e-6, atol=0)
    for total, noisy in zip(sums, noised(sums, noise_std=0.0, rng=generator()), strict=True):
        assert torch.equal(total, noisy)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_noise_is_drawn_in_float32_where_the_sums_are_narrower(dtype):
    """The same draws as for float32 sums: half-precision noise would have a few thousand values."""
    expected = noised(zeros(), noise_std=0.7, rng=generator())
    found = noised(zeros(dtype=dtype), noise_std=0.7, rng=generator())
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=1e-6, atol=0)


def test_noise_repeats_with_its_generator_and_uses_no_other():
    before = torch.random.get_rng_state()
    first, again, other = (
        flat(noised(zeros(), noise_std=1.0, rng=generator(s))) for s in (5, 5, 6)
    )
    assert (first == again).all()
    assert (first != other).all()  # fails by chance 21 * 2^-24 for another seed than these
    assert torch.equal(before, torch.random.get_rng_state())


# A noise for each tensor or coordinate


def test_each_tensor_gets_the_noise_of_its_group():
    rule = GroupClipping((0.5, 4.0), groups=(1, 0, 0, 1))
    stds = rule.noise_stds(1.5)
    found = noised_each(zeros(), noise_stds=stds, rng=generator())
    plain = noised(zeros(), noise_std=1.0, rng=generator())
    for one, other, std in zip(found, plain, (6.0, 0.75, 0.75, 6.0), strict=True):
        torch.testing.assert_close(one, std * other)


def test_each_coordinate_gets_noise_in_proportion_to_its_bound():
    """Chi-square of every coordinate over 3,000 steps; a bound of 0 gets none."""
    bounds = (torch.tensor([[3.0, 0.1], [0.0, 1.0]]), torch.tensor([2.0]))
    stds = PerCoordinateClipping(bounds).noise_stds(1.2)
    rng = generator(7)
    sums = [torch.zeros(2, 2), torch.zeros(1)]
    noise = np.stack([flat(noised_each(sums, noise_stds=stds, rng=rng)) for _ in range(3000)])
    expected = 1.2 * math.sqrt(4) * np.array([3.0, 0.1, 0.0, 1.0, 2.0])
    assert (noise[:, 2] == 0).all()
    for column, std in zip(noise.T, expected, strict=True):
        if std > 0:
            p = two_sided(stats.chi2(3000), float((column**2).sum() / std**2))
            assert p * 4 > LEAST_P


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_bad_noise_is_refused(bad):
    sums = [torch.zeros(2), torch.zeros(3)]
    with pytest.raises(ValueError, match=f"noise_std must be >= 0 and finite, got {bad}"):
        noised(sums, noise_std=bad, rng=generator())
    for std in (bad, torch.tensor([1.0, bad, 1.0])):
        with pytest.raises(ValueError, match=r"noise_stds\[1\] must be >= 0 and finite"):
            noised_each(sums, noise_stds=[1.0, std], rng=generator())


def test_noise_that_does_not_fit_is_refused():
    sums = [torch.zeros(2), torch.zeros(3)]
    with pytest.raises(ValueError, match="noise_stds must hold 2"):
        noised_each(sums, noise_stds=[1.0], rng=generator())
    with pytest.raises(ValueError, match=r"noise_stds\[0\] .* of shape \(2,\)"):
        noised_each(sums, noise_stds=[torch.ones(2, 2), 1.0], rng=generator())

"""The Gaussian noise of training: its distribution, its scale, its independence.

Fixed seeds. Each of the file's 36 statistical checks rejects at a p-value of 1e-8, so that with
right noise they would fail with probability below 4e-7 together.
"""

import copy
import math
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch
from draws import two_sided
from scipy import stats

from dpkit.privacy import normals
from dpkit.privacy.clipping import GroupClipping, PerCoordinateClipping
from dpkit.training import generator_on, noise
from dpkit.training.device import filled
from dpkit.training.noise import noised, noised_each, standard_normals

CPU = torch.device("cpu")
FORK = multiprocessing.get_context("fork")
LEAST_P = 1e-8
SHAPES = ((4, 3), (4,), (1, 4), (1,))  # a network's weights and biases: 21 coordinates
COORDINATES = 21
STEPS = 4000


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


def grid_of(noise_std):
    return 2.0 ** (math.floor(math.log2(noise_std)) - 5)


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
    step = grid_of(noise_std) / noise_std
    spread = z + step * (np.random.default_rng(1).random(n) - 0.5)  # off the grid; 4e-5 from normal
    assert stats.kstest(spread, "norm").pvalue > LEAST_P
    beyond = int((np.abs(z) > 4).sum())
    assert stats.binomtest(beyond, n, float(2 * stats.norm.sf(4))).pvalue > LEAST_P


def test_every_coordinate_has_the_same_deviation_and_is_independent(history):
    """Of other parameters, and of every coordinate one, two and three steps later."""
    totals = (history**2).sum(0)
    assert min(two_sided(stats.chi2(STEPS), t) for t in totals) * COORDINATES > LEAST_P
    together = (history.T @ history / STEPS**0.5)[np.triu_indices(COORDINATES, 1)]
    assert sum_of_squares(together) > LEAST_P
    for lag in (1, 2, 3):
        apart = history[lag:].T @ history[:-lag] / (STEPS - lag) ** 0.5
        assert sum_of_squares(apart) > LEAST_P, lag


def test_grouping_tensors_otherwise_gives_the_same_distribution(history):
    """One tensor or four: other draws, one distribution (Kolmogorov-Smirnov, two samples)."""
    rng = generator(2)
    joined = [flat(noised(zeros([(COORDINATES,)]), noise_std=1.0, rng=rng)) for _ in range(3000)]
    assert stats.ks_2samp(np.ravel(joined), np.ravel(history[:3000]))[1] > LEAST_P


def test_noise_is_added_to_the_sums_and_changes_nothing_else():
    sums = [torch.full(shape, 5.0) for shape in SHAPES]
    alone, noisy = (noised(of, noise_std=0.3, rng=generator()) for of in (zeros(), sums))
    wanted = [5 + noise for noise in alone]  # 5 lies on the grid
    torch.testing.assert_close(noisy, wanted, rtol=1e-6, atol=0)
    found = noised(sums, noise_std=0.0, rng=generator())
    assert all((one == 5).all() for one in (*sums, *found))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_noise_is_drawn_in_float32_where_the_sums_are_narrower(dtype):
    """The same draws as for float32 sums: half-precision noise would have a few thousand values."""
    expected = noised(zeros(), noise_std=0.7, rng=generator())
    found = noised(zeros(dtype=dtype), noise_std=0.7, rng=generator())
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)  # of one type


def test_noise_repeats_with_its_generator_and_uses_no_other():
    before = torch.random.get_rng_state()
    first, again, other = (
        flat(noised(zeros(), noise_std=1.0, rng=generator(s))) for s in (5, 5, 6)
    )
    assert (first == again).all()
    assert (first != other).sum() > 15  # of 21; two draws share a place on the grid 1 in 100 times
    assert torch.equal(before, torch.random.get_rng_state())


def test_no_block_of_noise_enters_twice(monkeypatch):
    """Not in a release, nor in another of a thread that shares the generator; a seed repeats it."""
    monkeypatch.setattr(noise, "AT_ONCE", 30)
    sums = zeros([(60,), (30,)])

    def blocks():
        rng = generator_on(CPU, reproducible_seed=3)
        with ThreadPoolExecutor(2) as threads:
            found = threads.map(lambda _: flat(noised(sums, noise_std=1.0, rng=rng)), range(50))
            return {block.tobytes() for release in found for block in release.reshape(3, 30)}

    found = blocks()
    assert len(found) == 50 * 3
    assert found == blocks()


# A noise for each tensor or coordinate


def test_each_tensor_gets_the_noise_of_its_group():
    rule = GroupClipping((0.5, 4.0), groups=(1, 0, 0, 1))
    stds = rule.noise_stds(1.5)
    found = noised_each(zeros(), noise_stds=stds, rng=generator())
    plain = noised(zeros(), noise_std=1.0, rng=generator())
    for one, other, std in zip(found, plain, (6.0, 0.75, 0.75, 6.0), strict=True):
        # the same draws, each rounded on its own grid
        assert (one - std * other).abs().max() <= (grid_of(std) + std * grid_of(1.0)) / 2


def test_each_coordinate_gets_noise_in_proportion_to_its_bound():
    """Chi-square of every coordinate over 2,000 steps; a bound of 0 gets none."""
    bounds = (torch.tensor([[3.0, 0.1], [0.0, 1.0]]), torch.tensor([2.0]))
    stds = PerCoordinateClipping(bounds).noise_stds(1.2)
    rng, sums = generator(7), zeros([(2, 2), (1,)])
    noise = np.stack([flat(noised_each(sums, noise_stds=stds, rng=rng)) for _ in range(2000)])
    expected = 1.2 * math.sqrt(4) * np.array([3.0, 0.1, 0.0, 1.0, 2.0])
    assert (noise[:, 2] == 0).all()
    for at in (0, 1, 3, 4):
        p = two_sided(stats.chi2(2000), float((noise[:, at] ** 2).sum() / expected[at] ** 2))
        assert p * 4 > LEAST_P


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_noise_that_is_bad_or_does_not_fit_is_refused(bad):
    sums = [torch.zeros(2), torch.zeros(3)]
    with pytest.raises(ValueError, match=f"noise_std must be >= 0 and finite, got {bad}"):
        noised(sums, noise_std=bad, rng=generator())
    for std in (bad, torch.tensor([1.0, bad, 1.0])):
        with pytest.raises(ValueError, match=r"noise_stds\[1\] must be >= 0 and finite"):
            noised_each(sums, noise_stds=[1.0, std], rng=generator())
    for stds, words in (
        ([1.0], "noise_stds must hold 2"),
        ([torch.ones(2, 2), 1.0], r"noise_stds\[0\] .* of shape \(2,\)"),
        ([5e-324, 1.0], "noise_std must be 0 or at least 1e-300"),
    ):
        with pytest.raises(ValueError, match=words):
            noised_each(sums, noise_stds=stds, rng=generator())
    assert noised([torch.zeros(1)], noise_std=1e-300, rng=generator())[0].isfinite().all()


# The law of a draw, and the grid


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("tail", [0.3, 1.0, 2.5, 4.5])
def test_draws_are_normal_wherever_the_tail_begins(on_gpu, tail, monkeypatch):
    """The bulk by one way and the tail by another: Kolmogorov-Smirnov of 200,000 draws."""
    monkeypatch.setattr(normals, "TAIL", tail)
    rng = generator_on(CPU, reproducible_seed=int(10 * tail))
    draws = noise._on_gpu(200_000, rng=rng) if on_gpu else next(standard_normals(rng, [200_000]))
    assert stats.kstest(draws.numpy(), "norm").pvalue > LEAST_P


def test_the_tail_goes_as_far_as_a_normal_law_of_ten_to_the_ten_coordinates_does():
    """A float32 draw of torch's never exceeds 5.77; one of 10^10 normal draws does 79 times."""
    least = normals.depths(np.array(0.0), np.array(0.0)) * stats.norm.cdf(-normals.TAIL)
    assert 1e10 * least < 1e-20
    assert np.isfinite(normals.ndtri(least))
    assert normals.ndtri(least) < -12


@pytest.mark.parametrize("noise_std", [0.9, 1.0, 1e-3, 250.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_released_lies_on_a_grid_that_the_sums_do_not_move(noise_std, dtype):
    """Else the last digits show which noise was possible (Mironov 2012)."""
    grid = grid_of(noise_std)
    assert noise_std / 64 < grid <= noise_std / 32
    sums = torch.linspace(-3, 3, 1001, dtype=dtype) * noise_std / 7
    (noisy,) = noised([sums], noise_std=noise_std, rng=generator())
    assert noisy.dtype == dtype
    assert torch.equal(noisy / grid, (noisy / grid).round())
    (alone,) = noised([torch.zeros_like(sums)], noise_std=noise_std, rng=generator())
    assert (noisy - alone - sums).abs().max() <= grid * (1 + 1e-6)  # each is rounded once


def test_rounding_to_the_grid_is_exact_however_large_the_sums():
    """Against fractions: the nearest multiple of sum + std * draw, computed without rounding."""
    draws = next(standard_normals(generator(3), [300]))
    sums = torch.logspace(-6, 6, 300, dtype=torch.float64)
    found = noise._on_grid(sums.clone(), draws.clone(), 1.0)
    for total, draw, one in zip(sums.tolist(), draws.tolist(), found.tolist(), strict=True):
        exact = (Fraction(total) + Fraction(draw)) / Fraction(1, 32)
        assert one * 32 == round(exact)


def test_a_generator_that_everybody_knows_is_refused():
    with pytest.raises(ValueError, match=r"torch's default seed.*generator_on\(device\)"):
        noised(zeros(), noise_std=1.0, rng=torch.Generator())
    with pytest.raises(TypeError, match=r"rng must be a torch.Generator, got int"):
        noised(zeros(), noise_std=1.0, rng=0)  # type: ignore[arg-type]


# Where draws come from


def test_a_generator_without_a_seed_is_another_one_each_time():
    draws = {tuple(torch.rand(20, generator=generator_on(CPU)).tolist()) for _ in range(3)}
    assert len(draws) == 3
    noised(zeros(), noise_std=1.0, rng=generator_on(CPU))


def test_a_seed_repeats_and_all_of_its_bits_count():
    """Torch's own seeding of a CPU takes 32 bits: 5 and 2^32 + 5 would be one stream."""
    seeds = (5, 5, 2**32 + 5, 2**100 + 5)
    draws = [
        tuple(torch.rand(50, generator=generator_on(CPU, reproducible_seed=seed)).tolist())
        for seed in seeds
    ]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


def test_all_of_the_entropy_counts():
    """Two states that begin alike: the first 8 bytes alone would be torch's own 32 bits."""
    one, other = bytes(2496), bytes(2400) + bytes(range(96))
    first, second = (torch.rand(700, generator=filled(torch.Generator(), e)) for e in (one, other))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("stream", ["training", "codes"])
def test_a_seeded_generator_is_uniform(stream):
    """Mean and distribution of 200,000 draws, and of each of the state's 624 first words."""
    rng = generator_on(CPU, reproducible_seed=1, stream=stream)
    draws = torch.rand(200_000, generator=rng, dtype=torch.float64).numpy()
    assert stats.kstest(draws, "uniform").pvalue > LEAST_P
    bits = np.unpackbits(generator_on(CPU, reproducible_seed=2).get_state().numpy()[24 : 24 + 4992])
    assert stats.binomtest(int(bits.sum()), 624 * 32, 0.5).pvalue > LEAST_P


def _in_a_fork(function):
    """What a function returns in a forked process, or the words of its error."""
    ours, theirs = FORK.Pipe()

    def answer():
        try:
            theirs.send(function())
        except RuntimeError as error:
            theirs.send(str(error))

    process = FORK.Process(target=answer)
    process.start()
    process.join()
    return ours.recv()


def _drawn(rng):
    return noised([torch.zeros(30)], noise_std=1.0, rng=rng)[0].tolist()


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("seed", [None, 3, "torch's own"])
def test_a_forked_process_does_not_draw_its_parents_noise(used, seed):
    plain = seed == "torch's own"  # which knows a process from its first use on
    rng = generator() if plain else generator_on(CPU, reproducible_seed=seed)
    if used or plain:
        _drawn(rng)
    assert "forked" in _in_a_fork(lambda: _drawn(rng))
    _drawn(rng)  # the parent goes on


def test_a_forked_process_draws_noise_of_its_own():
    first, second = (_in_a_fork(lambda: _drawn(generator_on(CPU))) for _ in range(2))
    assert len(first) == 30
    assert first != second  # equal with a probability below 2^-100


def test_a_generator_of_noise_cannot_be_copied_and_a_stored_state_brings_it_back():
    """As a checkpoint does: the state, not the generator, is what is kept."""
    for how in (copy.copy, copy.deepcopy, pickle.dumps, lambda rng: rng.clone_state()):
        with pytest.raises(TypeError, match="two copies draw the same noise"):
            how(generator_on(CPU))
    rng, again = generator_on(CPU), generator_on(CPU)
    again.set_state(rng.get_state())
    assert _drawn(rng) == _drawn(again)

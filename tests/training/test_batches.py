"""Batches as privacy/sampling.py describes them, by chi-square tests with fixed seeds.

Each of the file's 21 statistical checks rejects at a p-value of 1e-8, so that drawing aright they
would fail with probability 2e-7 together.
"""

from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from dpkit.privacy import sampling as sampling_module
from dpkit.privacy.mechanisms import Gaussian, TruncatedPoissonGaussian
from dpkit.privacy.sampling import (
    Assuming,
    BallsAndBins,
    FixedSizeBatches,
    PoissonSampling,
    ShuffledBatches,
    TruncatedPoisson,
    WithReplacement,
)
from dpkit.training.batches import batches

LEAST_P = 1e-8
RECORDS, DRAWS = 40, 6000


def drawn(sampling, *, size, public_size=None, count=1, seed=0):
    rng = torch.Generator().manual_seed(seed)
    public_size = size if public_size is None else public_size
    return list(islice(batches(sampling, size=size, public_size=public_size, rng=rng), count))


def table(chosen, size):
    """(batches, records): 1 where the record is in the batch."""
    inside = np.zeros((len(chosen), size))
    for row, batch in zip(inside, chosen, strict=True):
        row[batch.numpy()] = 1
    return inside


def counts_fit(found, distribution):
    """p-value that whole numbers come from a distribution (chi-square, tails pooled)."""
    edges = np.arange(int(distribution.ppf(0.001)), int(distribution.ppf(0.999)) + 1)
    cells = np.concatenate(([-1], edges, [10**9]))
    probabilities = np.diff(distribution.cdf(cells))
    kept = probabilities * len(found) >= 5
    observed = np.array([((found > a) & (found <= b)).sum() for a, b in pairwise(cells)])
    observed = np.append(observed[kept], observed[~kept].sum())
    expected = np.append(probabilities[kept], probabilities[~kept].sum()) * len(found)
    return stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue


def squares_fit(z, *, freedom):
    """p-value that a sum of squared standard deviates is no larger or smaller than it should be."""
    total = float((z**2).sum())
    return 2 * min(stats.chi2.sf(total, freedom), stats.chi2.cdf(total, freedom))


# Poisson


@pytest.mark.parametrize(
    ("expected", "size", "public_size"),
    [(12, RECORDS, RECORDS), (12, RECORDS, 120), (6, 6_000, 6_000)],
)
def test_poisson_sizes_are_binomial_at_the_declared_rate(expected, size, public_size):
    """The rate is that of the public size, whatever the number of records there are."""
    count = DRAWS if size == RECORDS else 3000
    chosen = drawn(PoissonSampling(expected), size=size, public_size=public_size, count=count)
    sizes = np.array([len(batch) for batch in chosen])
    assert counts_fit(sizes, stats.binom(size, expected / public_size)) > LEAST_P


def test_every_record_enters_a_poisson_batch_at_the_same_rate():
    q = 0.3
    inside = table(drawn(PoissonSampling(12), size=RECORDS, count=DRAWS), RECORDS)
    z = (inside.sum(0) - q * DRAWS) / (q * (1 - q) * DRAWS) ** 0.5
    assert squares_fit(z, freedom=RECORDS) > LEAST_P


def test_records_enter_poisson_batches_independently():
    """Correlations of every two records, in the same batch and in batches one after another."""
    q = 0.3
    inside = table(drawn(PoissonSampling(12), size=RECORDS, count=DRAWS), RECORDS)
    x = (inside - q) / (q * (1 - q)) ** 0.5
    together = (x.T @ x / DRAWS**0.5)[np.triu_indices(RECORDS, 1)]
    assert squares_fit(together, freedom=together.size) > LEAST_P
    for lag in (1, 2):
        apart = x[lag:].T @ x[:-lag] / (DRAWS - lag) ** 0.5
        assert squares_fit(apart, freedom=apart.size) > LEAST_P


def test_poisson_batches_may_be_empty_and_repeat_nothing():
    chosen = drawn(PoissonSampling(1), size=20, count=300)
    assert any(len(batch) == 0 for batch in chosen)  # fails by chance 0.642^300
    for batch in chosen:
        assert len(set(batch.tolist())) == len(batch)
        assert batch.dtype == torch.int64
    assert not any(map(len, drawn(PoissonSampling(1), size=0, public_size=5, count=9)))


# Fixed size, without replacement


@pytest.fixture(scope="module")
def fixed():
    return drawn(FixedSizeBatches(12), size=RECORDS, count=DRAWS, seed=1)


def test_fixed_size_batches_have_their_size_and_no_repeats(fixed):
    for batch in fixed:
        assert len(set(batch.tolist())) == len(batch) == 12
        assert set(batch.tolist()) <= set(range(RECORDS))
    (everyone,) = drawn(FixedSizeBatches(7), size=7)
    assert sorted(everyone.tolist()) == list(range(7))


def test_every_record_and_every_pair_enters_fixed_size_batches_alike(fixed):
    inside = table(fixed, RECORDS)
    q = 12 / RECORDS
    z = (inside.sum(0) - q * DRAWS) / (q * (1 - q) * DRAWS * RECORDS / (RECORDS - 1)) ** 0.5
    assert squares_fit(z, freedom=RECORDS - 1) > LEAST_P  # the counts have a fixed sum
    both = (inside.T @ inside)[0, 1:]  # how often each other record is beside the first
    with_first = inside[inside[:, 0] == 1]
    p = 11 / (RECORDS - 1)
    spread = p * (1 - p) * len(with_first) * (RECORDS - 1) / (RECORDS - 2)
    z = (both - p * len(with_first)) / spread**0.5
    assert squares_fit(z, freedom=RECORDS - 2) > LEAST_P


def test_fixed_size_batches_are_fresh(fixed):
    """Records that a batch shares with the one before it: hypergeometric if both are fresh."""
    inside = table(fixed, RECORDS)
    shared = (inside[::2] * inside[1::2]).sum(1)
    assert counts_fit(shared, stats.hypergeom(RECORDS, 12, 12)) > LEAST_P


def test_fixed_size_batches_of_another_number_and_unknown_sampling_are_refused():
    with pytest.raises(ValueError, match="drawn from public_size records, got 50 and 40"):
        drawn(FixedSizeBatches(12), size=40, public_size=50)
    with pytest.raises(ValueError, match="expected_batch_size must be <= public_size"):
        drawn(FixedSizeBatches(12), size=10, public_size=10)
    with pytest.raises(TypeError, match="no batches here, got 'poisson'"):
        drawn("poisson", size=10)


# Cut Poisson batches, balls and bins, with replacement


def test_of_too_large_a_poisson_batch_a_random_part_is_kept():
    """Sizes are min(Binomial, most); a record is kept with chance q E[min(1, most / (J + 1))]."""
    q, most = 12 / RECORDS, 13
    chosen = drawn(TruncatedPoisson(12, most), size=RECORDS, count=DRAWS, seed=2)
    sizes = np.array([len(set(batch.tolist())) for batch in chosen])
    assert sizes.tolist() == [len(batch) for batch in chosen]
    assert sizes.max() == most  # of 6,000; a third are cut
    below = stats.binom(RECORDS, q).pmf(np.arange(most))
    full = np.array([(sizes == size).sum() for size in range(most + 1)])
    expected = np.append(below, 1 - below.sum()) * DRAWS
    kept = expected >= 5
    pooled = [np.append(one[kept], one[~kept].sum()) for one in (full, expected)]
    assert stats.chisquare(*pooled).pvalue > LEAST_P
    kept = TruncatedPoissonGaussian(1.0, q, most, RECORDS).kept
    z = (table(chosen, RECORDS).sum(0) - kept * DRAWS) / (kept * (1 - kept) * DRAWS) ** 0.5
    assert abs(z.mean() * RECORDS**0.5) < 6.5  # records push each other out: it has less spread
    assert squares_fit(z, freedom=RECORDS) > LEAST_P


def test_every_record_enters_one_batch_of_a_pass_of_balls_and_bins_at_random():
    """Sizes are not fixed, records independent of each other and of the pass before."""
    bins = RECORDS // 12
    chosen = drawn(BallsAndBins(12), size=RECORDS, count=DRAWS, seed=3)
    place = table(chosen, RECORDS).reshape(-1, bins, RECORDS)
    assert (place.sum(1) == 1).all()
    own = place.argmax(1)  # (passes, records)
    sizes = place[:, 0].sum(1)
    assert counts_fit(sizes, stats.binom(RECORDS, 1 / bins)) > LEAST_P
    counts = np.stack([(own == one).sum(0) for one in range(bins)])
    assert stats.chisquare(counts, axis=0).statistic.sum() < stats.chi2.isf(LEAST_P, 2 * RECORDS)
    for first, second in ((own[:, 0], own[:, 1]), (own[1:, 0], own[:-1, 0])):
        both = np.bincount(first * bins + second, minlength=bins * bins)
        assert stats.chisquare(both).pvalue > LEAST_P


def test_draws_with_replacement_meet_each_record_a_binomial_number_of_times():
    chosen = torch.stack(drawn(WithReplacement(30), size=RECORDS, count=DRAWS, seed=4)).numpy()
    assert chosen.shape == (DRAWS, 30)
    met = (chosen == 7).sum(1)
    assert counts_fit(met, stats.binom(30, 1 / RECORDS)) > LEAST_P
    assert stats.chisquare(np.bincount(chosen.ravel(), minlength=RECORDS)).pvalue > LEAST_P
    both = np.bincount(chosen[:, 0] * RECORDS + chosen[:, 1], minlength=RECORDS**2)
    assert stats.chisquare(both).pvalue > LEAST_P


@pytest.mark.parametrize(
    "sampling",
    [one(4) for one in (PoissonSampling, ShuffledBatches, FixedSizeBatches, BallsAndBins)]
    + [TruncatedPoisson(4, 5), WithReplacement(4)],
)
def test_batches_repeat_with_the_generator_and_leave_the_global_one_alone(sampling):
    before = torch.random.get_rng_state()
    first, again, other = (drawn(sampling, size=30, count=20, seed=s) for s in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("size", [40, 43])
def test_a_record_is_in_one_batch_of_a_shuffled_pass_at_most(size):
    """What `ShuffledBatches.passes` rests on, at each number of steps."""
    sampling, seen = ShuffledBatches(4), torch.zeros(size)
    for steps, batch in enumerate(drawn(sampling, size=size, count=35, seed=1), start=1):
        seen[batch] += 1
        release = sampling.passes(noise_multiplier=2.0, public_size=size, steps=steps)
        assert seen.max() <= release.count <= seen.max() + 1
    public = (sampling_module.PUBLIC_SIZE,)
    assert release.mechanism == Assuming(Gaussian(2.0, "replace-one"), public)
    assert release.count == 4

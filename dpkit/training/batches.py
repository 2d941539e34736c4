"""Draws the batches that privacy/sampling.py describes."""

from collections.abc import Iterator

import torch
from torch import Tensor

from dpkit.common import checks
from dpkit.privacy.sampling import (
    FixedSizeBatches,
    PoissonSampling,
    Sampling,
    ShuffledBatches,
    sample_rate,
)


def batches(
    sampling: Sampling, *, size: int, public_size: int, rng: torch.Generator
) -> Iterator[Tensor]:
    """Indices of one batch after another, without end.

    Args:
        sampling: how batches are drawn.
        size: number of records that there are. It decides which indices exist, nothing else.
        public_size: declared size, from which the sample rate follows.
        rng: generator on the device where the data lies.

    Yields:
        int64 indices, shape (batch,). A Poisson batch may be empty, or far larger than expected:
        see `micro_batches`.

    Raises:
        TypeError: no batches are known for such sampling, or Poisson batches are drawn on "mps",
            which has no float64.
        ValueError: a batch is larger than the data set, or shuffled batches or such of a fixed size
            are drawn from other than public_size records.
    """
    if isinstance(sampling, PoissonSampling):
        return _poisson(sample_rate(sampling, public_size=public_size), size, rng)
    if isinstance(sampling, ShuffledBatches):
        sample_rate(sampling, public_size=public_size)  # checks the batch against the data set
        _check_declared("shuffled batches", size, public_size)
        return _shuffled(sampling.expected_batch_size, size, rng)
    if isinstance(sampling, FixedSizeBatches):
        sample_rate(sampling, public_size=public_size)  # checks the batch against the data set
        _check_declared("batches of a fixed size", size, public_size)
        return _fixed_size(sampling.expected_batch_size, size, rng)
    raise TypeError(f"no batches are known for {sampling!r}")


def _check_declared(what: str, size: int, public_size: int) -> None:
    """A smaller data set is passed over more often, or sampled at a higher rate, than is priced."""
    if size != public_size:
        raise ValueError(
            f"{what} are drawn from public_size records, got {public_size} and {size} records: "
            "under replace-one the number of records is public; declare it"
        )


def _poisson(rate: float, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    while True:
        # float64: a float32 draw has 2^-24 steps, a visible error in a rate of 1e-4
        draws = torch.rand(size, generator=rng, device=rng.device, dtype=torch.float64)
        # how many are drawn decides the shapes of a step: the one number that a GPU is waited for
        yield (draws < rate).nonzero().squeeze(1)


def _shuffled(batch_size: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    if not batch_size <= size:
        raise ValueError(f"a shuffled batch of {batch_size} needs as many records, got {size}")
    while True:
        order = torch.randperm(size, generator=rng, device=rng.device)
        for start in range(0, size - batch_size + 1, batch_size):  # a short last batch is dropped
            yield order[start : start + batch_size]


def _fixed_size(batch_size: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield torch.randperm(size, generator=rng, device=rng.device)[:batch_size]


def micro_batches(indices: Tensor, at_most: int) -> Iterator[Tensor]:
    """A batch in parts that fit into memory: a Poisson batch has no largest size.

    A clipped sum is a sum over examples, so the parts' clipped sums add up to the batch's; noise
    comes once, on the total.

    Args:
        indices: (batch,) as `batches` yields them.
        at_most: examples a part, >= 1.

    Yields:
        the indices in order, shape (at_most,), the last part perhaps shorter. An empty batch is
        one empty part: its step releases noise alone.

    Raises:
        ValueError: at_most is not an integer >= 1.
    """
    checks.whole(1, at_most=at_most)
    return iter(indices.split(at_most))

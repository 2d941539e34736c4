"""Draws the batches that privacy/sampling.py describes."""

from collections.abc import Iterator

import torch
from torch import Tensor

from dpkit.privacy.sampling import PoissonSampling, Sampling, ShuffledBatches, sample_rate


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
        int64 indices, shape (batch,). A Poisson batch may be empty.
    """
    if isinstance(sampling, PoissonSampling):
        return _poisson(sample_rate(sampling, public_size=public_size), size, rng)
    if isinstance(sampling, ShuffledBatches):
        return _shuffled(sampling.expected_batch_size, size, rng)
    raise TypeError(f"no batches are known for {sampling!r}")


def _poisson(rate: float, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    while True:
        # float64: a float32 draw has 2^-24 steps, a visible error in a rate of 1e-4
        draws = torch.rand(size, generator=rng, device=rng.device, dtype=torch.float64)
        yield (draws < rate).nonzero().squeeze(1)


def _shuffled(batch_size: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    if not batch_size <= size:
        raise ValueError(f"a shuffled batch of {batch_size} needs as many records, got {size}")
    while True:
        order = torch.randperm(size, generator=rng, device=rng.device)
        for start in range(0, size - batch_size + 1, batch_size):  # a short last batch is dropped
            yield order[start : start + batch_size]

"""How a batch is drawn, and what that lets an accountant assume (training draws it)."""

from dataclasses import dataclass
from typing import Protocol

from dpkit.privacy.mechanisms import Adjacency


class Sampling(Protocol):
    """A batch sampler as an accountant sees it. Sizes are public, never the private count."""

    @property
    def expected_batch_size(self) -> int: ...
    @property
    def adjacency(self) -> Adjacency: ...
    @property
    def assumptions(self) -> tuple[str, ...]: ...


def sample_rate(sampling: Sampling, *, public_size: int) -> float:
    """Probability that a record enters a batch, for a declared (public) size of the data set.

    Raises:
        ValueError: the batch is larger than the data set.
    """
    if not sampling.expected_batch_size <= public_size:
        raise ValueError(
            f"expected_batch_size must be <= public_size, got {sampling.expected_batch_size} "
            f"and {public_size}; declare the data set's public size"
        )
    return sampling.expected_batch_size / public_size


def _check_size(expected_batch_size: int) -> None:
    if not expected_batch_size >= 1:
        raise ValueError(f"expected_batch_size must be >= 1, got {expected_batch_size}")


@dataclass(frozen=True)
class PoissonSampling:
    """Every record enters each batch independently: what the sampled Gaussian's price holds for."""

    expected_batch_size: int
    adjacency: Adjacency = "add-remove"
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_size(self.expected_batch_size)


@dataclass(frozen=True)
class ShuffledBatches:
    """Epochs of shuffled batches of a fixed size: common in code, and not what is accounted for.

    No accountant of the kit prices it; a ledger made from it prices Poisson batches and says so.
    """

    expected_batch_size: int
    adjacency: Adjacency = "add-remove"
    assumptions: tuple[str, ...] = ("shuffled batches priced as Poisson batches",)

    def __post_init__(self) -> None:
        _check_size(self.expected_batch_size)

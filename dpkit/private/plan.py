"""What a run will release, fixed before it begins, and the price of that."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dpkit.common import checks
from dpkit.privacy import calibrate, pld
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.privacy.mechanisms import Gaussian
from dpkit.privacy.sampling import PoissonSampling, mechanism

LEAST_NORM = 1e-12
DIGITS = 5  # of a noise multiplier: it is rounded up, so that two machines calibrate the same


@dataclass(frozen=True)
class Plan:
    """Noisy sums of Poisson batches, each example's gradient clipped as a whole.

    Args:
        steps: releases, >= 1.
        batch_size: records a batch on average; it divides each noised sum.
        public_size: number of records that is taken as public: sample rates follow from it.
        delta: in (0, 1).
        noise_multiplier: noise standard deviation / clip norm.
        max_grad_norm: the clip norm C.
        declared: whether public_size was declared, rather than counted on the data.
        seeded: whether the noise follows from a seed (not which: with it the noise is taken off).
        scaling_noise: noise multiplier of a release of all records that comes first (see
            `dpkit.private.standardise`); None where there is none.
    """

    steps: int
    batch_size: int
    public_size: int
    delta: float
    noise_multiplier: float
    max_grad_norm: float = 1.0
    declared: bool = True
    seeded: bool = False
    scaling_noise: float | None = None

    @property
    def sampling(self) -> PoissonSampling:
        """How batches are drawn."""
        return PoissonSampling(self.batch_size)

    @property
    def clipping(self) -> FlatClipping:
        """How an example's gradient is clipped."""
        return FlatClipping(self.max_grad_norm)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on each coordinate of a clipped sum."""
        return self.noise_multiplier * self.clipping.sensitivity("add-remove")

    def ledger(self, steps: int | None = None) -> list[Release]:
        """What `steps` steps release (all, by default), and what comes before the first."""
        one = mechanism(
            self.sampling, noise_multiplier=self.noise_multiplier, public_size=self.public_size
        )
        count = self.steps if steps is None else checks.whole(steps=steps)
        return [*(_scaling(self.scaling_noise) if count else ()), Release(one, count)]

    def guarantee(self, steps: int | None = None) -> Guarantee:
        """The certified accountant's bound on that, under add-remove adjacency."""
        return pld.epsilon(self.ledger(steps), delta=self.delta)


def calibrated(
    epsilon: float,
    *,
    delta: float,
    steps: int,
    batch_size: int,
    records: int,
    public_size: int | None = None,
    max_grad_norm: float = 1.0,
    seeded: bool = False,
    scaling_noise: float | None = None,
    before: Sequence[Release] = (),
) -> Plan:
    """The plan with the least noise (of `DIGITS` digits) whose certified epsilon is <= epsilon.

    Args:
        epsilon: nats, > 0.
        records: number of records that there are: the public size where none is declared.
        delta, steps, batch_size, public_size, max_grad_norm, seeded, scaling_noise: as `Plan`.
        before: what else is released of the same records, which epsilon is to cover as well.

    Raises:
        ValueError: a number is out of range, a batch is larger than the data set, or no noise
            meets the target.
    """
    epsilon = checks.positive(epsilon=epsilon)
    delta = checks.between(0, 1, delta=delta)
    steps, batch_size = checks.whole(1, steps=steps, batch_size=batch_size)
    max_grad_norm = checks.positive(max_grad_norm=max_grad_norm)
    if not max_grad_norm >= LEAST_NORM:
        raise ValueError(
            f"max_grad_norm must be at least {LEAST_NORM:g}, got {max_grad_norm:g}: squares of "
            "much smaller gradients are 0 in float32, so that they would not be clipped"
        )
    size = records if public_size is None else checks.whole(1, public_size=public_size)
    if not batch_size <= size:
        raise ValueError(
            f"batch_size must be at most the {size} records of the data set, got {batch_size}; "
            "an expected batch of a tenth of the records, or less, is usual"
        )
    if not delta < 1 / size:
        warnings.warn(
            f"delta {delta:g} is not below 1 / {size} records: it would allow a whole record to be "
            "published; take a smaller one",
            stacklevel=4,
        )

    declared = public_size is not None
    plan = Plan(steps, batch_size, size, delta, 1, max_grad_norm, declared, seeded, scaling_noise)
    return _calibrated(plan, epsilon, tuple(before))


@lru_cache(maxsize=64)  # a cell that runs again asks for the same
def _calibrated(plan: Plan, epsilon: float, before: tuple[Release, ...]) -> Plan:
    """The plan with the least noise of so many digits."""

    def whole(ledger: Sequence[Release], *, delta: float) -> Guarantee:
        return pld.epsilon([*before, *_scaling(plan.scaling_noise), *ledger], delta=delta)

    rate = plan.batch_size / plan.public_size
    least = calibrate.noise_multiplier(
        epsilon, sample_rate=rate, steps=plan.steps, delta=plan.delta, accountant=whole
    )
    unit = 10.0 ** (math.floor(math.log10(least)) + 1 - DIGITS)
    for more in range(3):
        noise = float(f"{(math.ceil(least / unit) + more) * unit:.{DIGITS}g}")
        rounded = replace(plan, noise_multiplier=noise)
        if pld.epsilon([*before, *rounded.ledger()], delta=plan.delta).epsilon <= epsilon:
            return rounded
    raise ArithmeticError(f"no rounded noise_multiplier is priced at or under epsilon {epsilon}")


def scaling_of(transform: Any) -> float | None:
    """Noise multiplier of the release that a transform makes first; None where it makes none."""
    return getattr(transform, "scaling_noise", None)


def _scaling(noise: float | None) -> list[Release]:
    return [] if noise is None else [Release(Gaussian(noise))]

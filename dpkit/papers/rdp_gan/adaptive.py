"""Algorithm 2: noise lowered while training, as published and with its signal charged.

As published, Theorem 4 adds up each iteration's stated cost, and the test accuracy is read for
free. Repaired, every noise multiplier is chosen from released values only, the accuracy is a noisy
count that is charged, and a Renyi filter at one order, fixed beforehand, ends the run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from dpkit.papers.rdp_gan import theorems
from dpkit.papers.rdp_gan.settings import GradientNoise, RdpGanSettings, Tuning
from dpkit.privacy import Gaussian, Mechanism, RenyiFilter
from dpkit.privacy.sampling import mechanism, sample_rate
from dpkit.privacy.schedules import Constant
from dpkit.training.batches import Rows, batches
from dpkit.training.types import Data, Gan, Record, Step

LARGEST_LOSS = {"digits": 25.0, "census": 20.0}  # C of Table II, batch 64


class Tested(NamedTuple):
    """One generator iteration: its noise and, if tested, the rule's input."""

    iteration: int
    noise: float
    accuracy: float | None  # with its noise, if any
    record: Record  # of its last discriminator step; not private


@dataclass
class PaperBudget:
    """Theorem 4 as the text has it: each iteration's epsilon_g, added up; tests are free.

    Args:
        total: epsilon_total.
        settings, public_size: sampling, n_d and delta, and the number of records.
        sensitivity: Delta S of eq. 13.
    """

    total: float
    settings: RdpGanSettings
    public_size: int
    sensitivity: float
    spent: float = 0.0

    @classmethod
    def of(cls, settings: RdpGanSettings, public_size: int, records: str) -> "PaperBudget":
        """The settings' target, with Table II's C for "digits" (MNIST) or "census" (Adult)."""
        if settings.target_epsilon is None:
            raise ValueError("settings.target_epsilon must be a number > 0, got None")
        moved = theorems.sensitivity(
            LARGEST_LOSS[records], batch_size=settings.expected_batch_size
        )
        return cls(settings.target_epsilon, settings, public_size, moved)

    def iteration(self, noise: float) -> bool:
        """Add Theorem 3's epsilon_g if it is within the total; return whether it is."""
        try:
            cost = theorems.theorem_2(
                sample_rate=sample_rate(self.settings.sampling, public_size=self.public_size),
                sensitivity=self.sensitivity,
                noise_std=noise,
                discriminator_steps=self.settings.discriminator_steps,
                delta=self.settings.target_delta,
            )
        except theorems.ConditionFails:
            return False
        if not self.spent + cost <= self.total:
            return False
        self.spent += cost
        return True

    def test(self) -> bool:
        """Free, as published."""
        return True


@dataclass
class FilterBudget:
    """A Renyi filter over the discriminator's releases and the noisy counts of repaired settings.

    Its order and budget are fixed before the run; sample rates follow from public_size.
    """

    filter: RenyiFilter
    settings: RdpGanSettings
    public_size: int

    def iteration(self, noise: float) -> bool:
        """n_d releases of the Poisson-sampled Gaussian with noise multiplier `noise`."""
        release = mechanism(
            self.settings.sampling, noise_multiplier=noise, public_size=self.public_size
        )
        return self._charged(release, self.settings.discriminator_steps)

    def test(self) -> bool:
        """One Gaussian release of a count that one record moves by 1."""
        assert self.settings.tuning is not None
        return self._charged(Gaussian(self.settings.tuning.count_noise), 1)

    def _charged(self, release: Mechanism, count: int) -> bool:
        if allowed := self.filter.allows(release, count):
            self.filter.charge(release, count)
        return allowed


def tuned(
    step: Step,
    gan: Gan,
    data: Data,
    *,
    settings: RdpGanSettings,
    correct: Callable[[Gan], float],
    budget: PaperBudget | FilterBudget,
    rng: torch.Generator,
) -> Iterator[Tested]:
    """Run Algorithm 2 until the iterations or the budget end.

    Args:
        step: one of the algorithm's; it updates `gan` in place.
        data: the private training set.
        settings: with `tuning`; the noise starts at its schedule's value at 0.
        correct: right answers in the test that the rule follows; out of data.public_size.
        budget: charges each iteration and each test beforehand, or says False, charges nothing,
            and so ends the run.
        rng: batches, latents, all noise.

    Yields:
        a Tested a generator iteration.

    Raises:
        ValueError: settings have no tuning, private noise without noise on the counts, or a budget
            that prices another run.
    """
    tuning = _checked(settings, data, budget)
    rows = Rows(data, rng=rng)
    rows.check_finite()
    draws = batches(
        settings.sampling, size=len(data.features), public_size=data.public_size, rng=rng
    )
    # line 5, with the noise as given
    noise, accuracies = settings.noise.schedule(0), []
    # line 6
    for iteration in range(settings.iterations):
        # line 4
        if not budget.iteration(noise):
            return
        now = replace(settings, noise=replace(settings.noise, schedule=Constant(noise)))
        each = settings.discriminator_steps
        # lines 7 to 13, and the update of line 14
        for index in range(iteration * each, (iteration + 1) * each):
            features, labels = rows.at(next(draws))
            record = step(gan, features, labels, settings=now, index=index, rng=rng)
        used, accuracy = noise, None
        # the test of line 14
        if (iteration + 1) % tuning.every == 0:
            if not budget.test():
                yield Tested(iteration, noise, None, record)
                return
            extra = (
                tuning.count_noise * torch.randn((), generator=rng, device=rng.device).item()
            )
            accuracy = (correct(gan) + extra) / data.public_size
            accuracies.append(accuracy)
            # line 15
            noise = tuning.next_noise(noise, accuracies)
        yield Tested(iteration, used, accuracy, record)


def _checked(
    settings: RdpGanSettings, data: Data, budget: PaperBudget | FilterBudget
) -> Tuning:
    if settings.tuning is None:
        raise ValueError("settings.tuning must be a Tuning, got None; or use loop.train")
    if isinstance(settings.noise, GradientNoise):
        if not settings.tuning.count_noise > 0:
            raise ValueError(
                "tuning.count_noise must be > 0: a count without noise has no finite epsilon"
            )
        if isinstance(budget, PaperBudget):
            raise ValueError(
                "budget must be a FilterBudget for noise on gradients, which Theorem 4 does not "
                "bound"
            )
    if (budget.settings, budget.public_size) != (settings, data.public_size):
        raise ValueError(
            f"budget must be made of the run's own settings and public_size {data.public_size}, "
            f"got other settings, or public_size {budget.public_size}"
        )
    return settings.tuning

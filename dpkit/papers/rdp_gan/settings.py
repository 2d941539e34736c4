"""The paper's runs, in every reading of its noise's place, and the repaired run's changes.

`Tuning` is Algorithm 2's rule: less noise whenever the test accuracy stops improving (eqs. 17, 18).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar

from dpkit.common import checks
from dpkit.privacy import NoGuarantee, Release, pld
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.sampling import PoissonSampling, Sampling, ShuffledBatches, mechanism
from dpkit.privacy.schedules import Constant, Schedule, noise_ledger
from dpkit.training.optimizers import Adam


@dataclass(frozen=True)
class Tuning:
    """The times of tests, and the factor that lowers the noise.

    Args:
        factor: k in (0, 1], by which the noise is multiplied.
        threshold: tau, the improvement of the accuracy (in [0, 1]) below which that happens.
        averaged: compare with the mean of all earlier accuracies (eq. 18), not with the last.
        every: generator iterations from one test to the next.
        count_noise: standard deviation on the number of correct answers; 0 as published.
    """

    factor: float
    threshold: float
    averaged: bool = True
    every: int = 1
    count_noise: float = 0.0

    def __post_init__(self) -> None:
        checks.positive(factor=self.factor)
        checks.in_range(0, 1, factor=self.factor)
        checks.in_range(-1, 1, threshold=self.threshold)
        checks.whole(1, every=self.every)
        checks.non_negative(count_noise=self.count_noise)

    def next_noise(self, noise: float, accuracies: Sequence[float]) -> float:
        """The noise after the last of `accuracies`: as it is, or multiplied by `factor`.

        Those of all tests up to now, in [0, 1]; S_0 = 0 goes before them.
        """
        earlier = [0.0, *accuracies[:-1]]
        # eq. 18's mean is over tests 1 to t, S_0 left out where there is another
        reference = fmean(earlier[1:] or earlier) if self.averaged else earlier[-1]
        return noise if (accuracies[-1] - reference >= self.threshold) else self.factor * noise


DELTA = 1e-5
DISCRIMINATOR_STEPS, GENERATOR_STEPS = 5, 1_000  # n_d and n_g, section V-A2
SIGMA = 10.0  # section V-E: what a total epsilon of 0.5 over 1,000 iterations is said to need


# Each class below gives the place of a step's noise, its size at each generator iteration, and its
# guarantee.


@dataclass(frozen=True)
class UnprovenNoise:
    """Noise, by generator iteration, that guarantees nothing, for a reason of its own."""

    schedule: Schedule
    reason: ClassVar[str]

    def ledger(self, **_: object) -> list[Release]:
        """No guarantee."""
        return [Release(NoGuarantee(self.reason))]


class LossValueNoise(UnprovenNoise):
    """Algorithm 1's line 9, and the code: N(0, std^2) on the *value* of the discriminator's loss.

    Eq. 8 writes a sum, eq. 13 has the sensitivity of a mean, which the code and the steps here
    take.
    """

    reason = "noise on the value of a loss is a constant for the gradient: updates have none"


class MultiplicativeNoise(UnprovenNoise):
    """The code's later form, loss + noise * loss / |its value|: the gradient times a random one."""

    reason = "the direction of the un-noised gradient is released"


class OutputErrorNoise(UnprovenNoise):
    """Eq. 9 read literally: N(0, std^2) on each example's error at the output layer."""

    reason = "the gradient lies in the span of the private batch's own activations"


@dataclass(frozen=True)
class ParameterNoise(UnprovenNoise):
    """The baseline "DP-GAN" of the paper's figures, as its code has it.

    N(0, std^2) on each of the discriminator's parameters, each tensor then scaled to an L2 norm of
    at most `norm`, and then a step along the un-noised gradient.
    """

    norm: float = 6.0
    reason = "a step along the un-noised gradient follows the noise"

    def __post_init__(self) -> None:
        checks.positive(norm=self.norm)


@dataclass(frozen=True)
class GradientNoise:
    """DP-SGD (Abadi et al. 2016): each example's gradient clipped, noise on every coordinate.

    The schedule is of the noise multiplier (noise standard deviation / max_grad_norm) by generator
    iteration; generated examples' gradients are clipped at max_grad_norm as well.
    """

    schedule: Schedule
    max_grad_norm: float

    def __post_init__(self) -> None:
        checks.positive(max_grad_norm=self.max_grad_norm)

    @property
    def rule(self) -> FlatClipping:
        """The clipping rule, with its sensitivity."""
        return FlatClipping(self.max_grad_norm)

    def ledger(
        self, *, sampling: Sampling, public_size: int, each: int, iterations: int
    ) -> list[Release]:
        """`each` releases at the noise of each of `iterations` iterations."""

        priced = noise_ledger(
            self.schedule,
            steps=iterations,
            release=lambda z: mechanism(sampling, noise_multiplier=z, public_size=public_size),
        )
        return [Release(entry.mechanism, each * entry.count) for entry in priced]


@dataclass(frozen=True)
class Mlp:
    """The code's networks: two hidden layers of `hidden` units in each."""

    hidden: int = 256


@dataclass(frozen=True)
class Dcgan:
    """The text's networks: three convolutions, three transposed ones; the widths are ours."""

    width: int = 32


@dataclass(frozen=True)
class RdpGanSettings:
    """A run of Algorithm 1 (with `tuning`: Algorithm 2). Iterations are the generator's.

    Args:
        noise: its place and size.
        sampling: of a batch.
        generator_optimizer, discriminator_optimizer: update rules; schedules count iterations.
        target_epsilon: the run's stated, or proven, total; None without privacy.
        discriminator_steps: n_d.
        iterations: n_g.
        network: architecture of both networks.
        features: numbers of a record as network input.
        classes: labels of both networks; 0 where a record has none.
        parts: sizes of a record's one-hot parts; empty for images in [-1, 1].
        tuning: Algorithm 2's rule, if the noise follows it.
        generator_decay: of the average of the generator's weights, if that is released.
        label_scale: value in place of 1 in the discriminator's one-hot label.
        chosen: origin of the settings, where not as published.
    """

    noise: UnprovenNoise | GradientNoise
    sampling: PoissonSampling | ShuffledBatches
    generator_optimizer: Adam
    discriminator_optimizer: Adam
    target_epsilon: float | None = 0.5
    target_delta: float = DELTA
    discriminator_steps: int = DISCRIMINATOR_STEPS
    iterations: int = GENERATOR_STEPS
    network: Mlp | Dcgan = Mlp()
    latent_size: int = 100
    features: int = 784
    classes: int = 10
    parts: tuple[int, ...] = ()
    tuning: Tuning | None = None
    generator_decay: float | None = None
    label_scale: float | None = None
    chosen: str | None = None

    @property
    def expected_batch_size(self) -> int:
        """Records a batch, on average; as many are generated."""
        return self.sampling.expected_batch_size

    def ledger(self, *, public_size: int, iterations: int | None = None) -> list[Release]:
        """The true releases of `iterations` iterations (all of the settings', by default).

        Raises:
            ValueError: the noise is tuned while training; `adaptive.tuned` has a filter for it.
        """
        if self.tuning is not None and isinstance(self.noise, GradientNoise):
            raise ValueError("tuned noise has no ledger beforehand; its filter prices the run")
        return self.noise.ledger(
            sampling=self.sampling,
            public_size=public_size,
            each=self.discriminator_steps,
            iterations=self.iterations if iterations is None else iterations,
        )

    def steps_allowed(self, *, public_size: int) -> int:
        """Discriminator steps: all, if a repaired run's certified price is within its target.

        Raises:
            ValueError: a repaired run would cost more than its target.
        """
        if isinstance(self.noise, GradientNoise) and self.target_epsilon is not None:
            ledger = self.ledger(public_size=public_size)
            spent = pld.epsilon(ledger, delta=self.target_delta).epsilon
            if not spent <= self.target_epsilon:
                raise ValueError(
                    f"these settings cost epsilon {spent:.4g} at public_size {public_size}, more "
                    f"than target_epsilon {self.target_epsilon}; raise the noise"
                )
        return self.iterations * self.discriminator_steps


CODE_RATE = Adam(Constant(3e-4))  # of the code; the text has 5e-5
TEXT_RATE = Adam(Constant(5e-5))

# Text and code together: the text's schedule (batch 64, n_d 5, n_g 1,000), the code's networks and
# rates. The noise is the text's, on the value of the loss.
SETTINGS = RdpGanSettings(
    noise=LossValueNoise(Constant(SIGMA)),
    sampling=ShuffledBatches(64),
    generator_optimizer=CODE_RATE,
    discriminator_optimizer=CODE_RATE,
)
NON_PRIVATE = replace(SETTINGS, noise=LossValueNoise(Constant(0.0)), target_epsilon=None)
MULTIPLICATIVE = replace(SETTINGS, noise=MultiplicativeNoise(Constant(SIGMA)))
OUTPUT_ERROR = replace(SETTINGS, noise=OutputErrorNoise(Constant(SIGMA)))
DP_GAN = replace(SETTINGS, noise=ParameterNoise(Constant(1e-3)))  # the figures' baseline
SMALL = replace(SETTINGS, iterations=30)  # the same in seconds on a laptop
DCGAN = replace(  # the text's networks and rates
    SETTINGS, network=Dcgan(), generator_optimizer=TEXT_RATE, discriminator_optimizer=TEXT_RATE
)
ITERATIONS = {"paper": SETTINGS.iterations, "reduced": 40, "small": 2}  # by scale

"""The prior work of the paper's section 3.1: its charges and its guarantees.

dpGAN (Zhang, Ji, Wang 2018) has its own package; here are only the two factors of it that section
3.1 names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from dpkit.common import checks
from dpkit.privacy import Adjacency, Release, SampledGaussian, WithoutReplacementGaussian
from dpkit.privacy.clipping import GroupClipping, moves

# MNIST's training images of each digit, 0 to 9: public, as anyone can count them
DIGIT_COUNTS = (5_923, 6_742, 5_958, 6_131, 5_842, 5_421, 5_918, 6_265, 5_851, 5_949)


@dataclass(frozen=True)
class Xie:
    """Xie, Lin, Wang, Wang, Zhou 2018 (DPGAN; code: illidanlab/dpgan): WGAN with clipped weights.

    Noise N(0, noise_std^2) / batch on the gradient of the mean loss (wgan.py). A line of a test
    script ties it to an epsilon (`published_epsilon`). That file takes 100 critic steps, not 5, in
    the first 25 iterations and every 500th, and adds no noise to the last tensor: neither the line
    nor the claims here count these two.

    Args:
        noise_std: 5, 10 and 15 in the experiments on MNIST.
        gradient_bound: c_g, the bound stated for the length of an example's gradient.
        steps_times_log: n_d log(1/delta) as a number, as the script has it.
        critic_steps: n_d, of one generator iteration; the code's.

    Raises:
        ValueError: a number is out of range.
    """

    noise_std: float
    gradient_bound: float = 13_449.216
    steps_times_log: float = 25.0
    batch_size: int = 64
    critic_steps: int = 5

    def __post_init__(self) -> None:
        floats = ("noise_std", "gradient_bound", "steps_times_log")
        checks.positive(**{name: getattr(self, name) for name in floats})
        checks.whole(1, batch_size=self.batch_size, critic_steps=self.critic_steps)

    @property
    def noise_multiplier(self) -> float:
        """noise_std / c_g, where c_g bounds each example's gradient in L2 norm."""
        return self.noise_std / self.gradient_bound

    def published_epsilon(self, *, size: int = 60_000) -> float:
        """2 q sqrt(n_d log(1/delta)) / (noise_std / c_g), q = batch / size.

        The form of Abadi et al. 2016, Theorem 1, solved for epsilon with the constant 2. That is
        about large noise and small epsilon, and here about one generator iteration.
        """
        checks.whole(self.batch_size, size=size)
        rate = self.batch_size / size
        return 2 * rate * sqrt(self.steps_times_log) / self.noise_multiplier

    def ledger(self, *, size: int, iterations: int = 1) -> list[Release]:
        """The releases of one GAN in `iterations`, if batches are Poisson and c_g holds.

        c_g must bound each example's gradient in L2 norm. Batch normalisation in the critic, as in
        part of the code, mixes the examples' gradients, and nothing is guaranteed.
        """
        checks.whole(self.batch_size, size=size)
        checks.whole(iterations=iterations)
        step = SampledGaussian(self.noise_multiplier, self.batch_size / size)
        return [Release(step, self.critic_steps * iterations)]


@dataclass(frozen=True)
class ClippedAfterMean:
    """The mean gradient of a batch clipped to C, once: no example is clipped.

    In the public code of Beaulieu-Jones et al. 2017, as Schwabedal et al. 2020 found. One record
    with a large gradient turns the mean as it likes, so what is released moves across the ball of
    radius C, by up to 2C, however large the batch. Noise of z C / batch on the mean, right where
    each example was clipped, is then 2 batch times too small.

    Args:
        max_grad_norm: C.
        batch_size: records a batch, by which noise and sensitivity were divided.
    """

    max_grad_norm: float
    batch_size: int

    def __post_init__(self) -> None:
        checks.positive(max_grad_norm=self.max_grad_norm)
        checks.whole(1, batch_size=self.batch_size)

    def clip(self, mean: Sequence[Any]) -> list[Any]:
        """The mean gradient, one array for each tensor, scaled to joint L2 norm <= C."""
        joint = sum(((m / self.max_grad_norm) ** 2).sum() for m in mean) ** 0.5
        return [m / joint.clip(min=1.0) for m in mean]

    def noise_std(self, noise_multiplier: float) -> float:
        """The noise added to the clipped mean: z C / batch."""
        checks.positive(noise_multiplier=noise_multiplier)
        return noise_multiplier * self.claimed_sensitivity("add-remove")

    def claimed_sensitivity(self, adjacency: Adjacency) -> float:
        """Sensitivity of the mean of clipped gradients: C / batch, or twice that."""
        return moves(self.max_grad_norm / self.batch_size, adjacency)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """2C under either adjacency: the diameter of the ball that holds every clipped mean.

        A batch that always holds one record is no exception: where this record is drawn, another
        is not, and the two clipped gradients may be opposite.
        """
        return moves(2 * self.max_grad_norm, adjacency) / moves(1.0, adjacency)


@dataclass(frozen=True)
class BeaulieuJones:
    """Beaulieu-Jones, Wu, Williams, Greene 2017 (code: greenelab/SPRINT_gan): an AC-GAN.

    The gradient of the batch's mean loss is clipped to C, once, and noised. It moves by up to 2C,
    whatever the batch, so that noise of z C is a noise multiplier of z / 2.

    Args:
        noise_multiplier: z, as it is charged.
        max_grad_norm: C.
        noise_times_norm_squared: the noise is z C^2 in place of z C, as before July 2018.

    Raises:
        ValueError: a number is out of range, or the adjacency of a ledger is unknown.
    """

    noise_multiplier: float = 1.0
    max_grad_norm: float = 1e-4
    batch_size: int = 1
    records: int = 6_000
    epochs: int = 500
    noise_times_norm_squared: bool = False

    def __post_init__(self) -> None:
        checks.positive(
            noise_multiplier=self.noise_multiplier, max_grad_norm=self.max_grad_norm
        )
        checks.whole(1, batch_size=self.batch_size, epochs=self.epochs)
        checks.whole(self.batch_size, records=self.records)

    @property
    def steps(self) -> int:
        """Critic steps."""
        return self.epochs * (self.records // self.batch_size)

    @property
    def sample_rate(self) -> float:
        """Chance of a record to be in a batch."""
        return self.batch_size / self.records

    @property
    def rule(self) -> ClippedAfterMean:
        """The clipping; its noise is not divided by the batch, as if the mean were of one."""
        return ClippedAfterMean(self.max_grad_norm, 1)

    @property
    def noise_std(self) -> float:
        """The noise added to the clipped mean."""
        factor = self.max_grad_norm if self.noise_times_norm_squared else 1.0
        return self.rule.noise_std(self.noise_multiplier * factor)

    @property
    def true_noise_multiplier(self) -> float:
        """Noise over one record's largest shift of the clipped mean: z / 2."""
        return self.noise_std / self.rule.sensitivity("add-remove")

    def claimed_ledger(self) -> list[Release]:
        """As charged: Poisson batches, and a record that moves the release by C."""
        return [Release(SampledGaussian(self.noise_multiplier, self.sample_rate), self.steps)]

    def worst_case_ledger(self) -> list[Release]:
        """Add-remove, each batch drawn uniformly among those of its size; exact at each order.

        (Early snapshots of the code took the records in a fixed order, where nothing is hidden.)

        With a record x, a batch holds it at the rate q; otherwise it is one of those without x. So
        the pair is (1-q) M + q A against M, where each outcome of A is one of M with an example
        replaced by x: centres at most 2C apart. Renyi divergence is convex in the pair, so it is
        largest where all centres of M lie together and those of A as far off as can be: the
        Poisson pair, shift 2C. A replaced record comes to the same pair where all others' gradients
        are those of its replacement, so no less can be proven under replace-one.
        """
        step = SampledGaussian(self.true_noise_multiplier, self.sample_rate)
        return [Release(step, self.steps)]

    def ledger(self, *, adjacency: Adjacency = "add-remove") -> list[Release]:
        """The proven ledger: `worst_case_ledger`, or the theorem's bound under replace-one."""
        checks.one_of(("add-remove", "replace-one"), adjacency=adjacency)
        if adjacency == "add-remove":
            return self.worst_case_ledger()
        step = WithoutReplacementGaussian(self.true_noise_multiplier, self.sample_rate)
        return [Release(step, self.steps)]


def clipped_mean_moves(*, batch_size: int = 100) -> float:
    """One record's shift of a clipped mean, over C: equal examples and a long one.

    The other `batch_size` - 1 gradients are C, the record's is 3 `batch_size` C, or the opposite of
    it in its place, so that both means are longer than C.
    """
    norm = 1e-4  # C
    rule = ClippedAfterMean(norm, batch_size)
    others = (int(batch_size) - 1) / int(batch_size)  # of C, in the mean
    ends = [rule.clip([np.array([(others + own) * norm])])[0].item() / norm for own in (3, -3)]
    return abs(ends[0] - ends[1])


def noise_too_small(batch_size: int) -> float:
    """Zhang et al.: the factor by which noise over sqrt(batch) is too small, on one device."""
    return sqrt(checks.whole(1, batch_size=batch_size))


def groups_factor(groups: int) -> float:
    """Zhang et al.: largest length over C of a gradient of k groups clipped apart: sqrt(k).

    Raises:
        ValueError: groups is not an integer >= 1.
    """
    checks.whole(1, groups=groups)
    return GroupClipping((1.0,) * groups, tuple(range(groups))).sensitivity("add-remove")

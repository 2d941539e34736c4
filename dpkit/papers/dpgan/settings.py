"""The paper's runs, by its text and its public code, and the repaired run's changes.

A step is one update of the critic, which is charged. An iteration is `critic_steps` of them
and one update of the generator (which the published snapshot of the loop has commented out). How
long a run is follows, as published, from the noise and the code's own accountant (Table 7).
"""

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

from dpkit.common import checks
from dpkit.papers.dpgan.grouping import (
    PublicBounds,
    PublicClusters,
    TensorsClippedAtGroupBound,
    biases_together,
    is_bias,
)
from dpkit.privacy import GroupedGaussian, Mechanism, NoGuarantee, Release, calibrate
from dpkit.privacy import moments as accountant
from dpkit.privacy.clipping import FlatClipping, GroupClipping, Unclipped, moves
from dpkit.privacy.mechanisms import Adjacency
from dpkit.privacy.sampling import (
    SHUFFLED_AS_POISSON,
    Assuming,
    PoissonSampling,
    ShuffledBatches,
    mechanism,
)
from dpkit.privacy.schedules import Constant, Linear
from dpkit.training.optimizers import Adam

BUDGET_DELTA = 1e-4  # of the one release that the noise formula is about
EVERY = 10  # iterations from one test of the budget to the next
# data set -> iterations before and after grouping, as printed
TABLE_7: dict[str, tuple[int, int]] = {
    "mnist": (560, 780),
    "celeba": (2910, 4070),
    "lsun-l": (15010, 19300),
    "lsun-u": (24630, 31670),
}


def noise_from_budget(epsilon: float, *, delta: float = BUDGET_DELTA) -> float:
    """The noise multiplier of the scripts: sqrt(2 ln(1.25 / delta)) / epsilon.

    Dwork, Roth 2014, Theorem A.1, which proves (epsilon, delta)-DP of one release for epsilon < 1.
    """
    checks.positive(epsilon=epsilon)
    checks.between(0, 1, delta=delta)
    return sqrt(2 * log(1.25 / delta)) / epsilon


@dataclass(frozen=True)
class NoiseOverSqrtBatch:
    """Examples clipped to C and summed, but noise of z C / sqrt(batch) in place of z C.

    In the public code of Zhang et al. 2018 (dpGAN): at batch 64 the noise is 8 times too small.

    Args:
        max_grad_norm: C.
        batch_size: records a batch.
    """

    max_grad_norm: float
    batch_size: int

    def __post_init__(self) -> None:
        checks.positive(max_grad_norm=self.max_grad_norm)
        checks.whole(1, batch_size=self.batch_size)

    def weights(self, norms: Any) -> Any:
        """min(1, C / norm of the whole gradient), shape (1, batch): this part is right."""
        return FlatClipping(self.max_grad_norm).weights(norms)

    def noise_std(self, noise_multiplier: float) -> float:
        """The noise added to the sum: z C / sqrt(batch)."""
        checks.positive(noise_multiplier=noise_multiplier)
        return noise_multiplier * self.claimed_sensitivity("add-remove")

    def claimed_sensitivity(self, adjacency: Adjacency) -> float:
        """The sensitivity that z implies: C / sqrt(batch), or twice that."""
        return moves(self.max_grad_norm / sqrt(self.batch_size), adjacency)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """C under add-remove, 2C under replace-one."""
        return moves(self.max_grad_norm, adjacency)


# Clip norm where bounds are fixed: the code's default, of g_i / (a device's batch)
BOUND = 4.0
MAX_STEPS = 1_000_000


@dataclass(frozen=True)
class DpganSettings:
    """A run of Algorithm 1 or 3. `noise_multiplier` is z, as charged for each group.

    Noise of deviation z c_g is due on group g, clipped at c_g. With `noise_over_sqrt_batch` less is
    added, as in the code, and with `noise_on_examples` more (see `noise_divisor`).

    Raises:
        ValueError: a number is out of range, clipping is of another kind, or the devices do not
            share the batch equally.
    """

    clipping: GroupClipping | PublicBounds | PublicClusters | Unclipped
    noise_multiplier: float
    sampling: PoissonSampling | ShuffledBatches
    target_epsilon: float
    target_delta: float
    private_examples: int
    public_examples: int
    warm_start: int  # iterations on the public examples before the first private one
    image_shape: tuple[int, int, int]  # channels, height, width
    critic_channels: tuple[int, ...]  # of its convolutions; a layer without bias follows them
    critic_optimizer: Adam
    generator_optimizer: Adam
    penalty_weight: float = 10.0
    critic_steps: int = 4  # for each step of the generator
    latent_size: int = 128
    generator_channels: tuple[int, ...] = (256, 128, 64)  # before its convolutions
    # False: as in the snapshot, where its step is commented out
    generator_trained: bool = True
    devices: int = 1
    noise_over_sqrt_batch: bool = False
    # True: on each example in place of their sum, as the text's line 8 can be read
    noise_on_examples: bool | None = None
    moments: int | None = None  # of the code's accountant, where it says how long the run is
    max_steps: int = MAX_STEPS
    chosen: str | None = None  # origin of the settings, where not as published

    def __post_init__(self) -> None:
        checks.non_negative(noise_multiplier=self.noise_multiplier)
        checks.positive(target_epsilon=self.target_epsilon, penalty_weight=self.penalty_weight)
        checks.between(0, 1, target_delta=self.target_delta)
        checks.whole(1, critic_steps=self.critic_steps, devices=self.devices)
        checks.whole(1, private_examples=self.private_examples, latent_size=self.latent_size)
        checks.whole(public_examples=self.public_examples, warm_start=self.warm_start)
        checks.whole(max_steps=self.max_steps)  # 0 of a warm start that is left out
        if self.moments is not None:
            checks.whole(1, moments=self.moments)
        for name in ("image_shape", "critic_channels", "generator_channels"):
            each = getattr(self, name)
            checks.whole(1, **{f"len({name})": len(each)})
            checks.whole(1, **{f"{name}[{i}]": one for i, one in enumerate(each)})
        if not isinstance(
            self.clipping, GroupClipping | PublicBounds | PublicClusters | Unclipped
        ):
            raise ValueError(
                f"clipping must be a grouping or Unclipped(), got {self.clipping}"
            )
        if self.expected_batch_size % self.devices:
            raise ValueError(
                f"devices must divide the batch of {self.expected_batch_size}, got {self.devices}"
            )

    @property
    def expected_batch_size(self) -> int:
        """Records a batch, on average, on all devices together."""
        return self.sampling.expected_batch_size

    @property
    def tensors(self) -> int:
        """Parameter tensors of the critic."""
        return len(is_bias(len(self.critic_channels)))

    @property
    def noise_divisor(self) -> float:
        """z c_g over the noise on the clipped sum; 1 where right, less if each example has it.

        The code clips g_i / B at c_g on each device of B examples, takes the mean of the devices'
        sums, which a record moves by c_g / devices, and adds noise of z c_g / sqrt(B devices): too
        little by sqrt(B / devices). On one device that is `NoiseOverSqrtBatch`.
        """
        if not self.noise_over_sqrt_batch:
            return 1 / sqrt(self.expected_batch_size) if self.noise_on_examples else 1.0
        return sqrt(self.expected_batch_size) / self.devices

    @property
    def parts(self) -> int:
        """Parts of the gradient that a record moves, each by its own bound.

        Raises:
            ValueError: nothing is clipped.
        """
        clipping = self._clipping()
        return len(clipping.bounds) if isinstance(clipping, GroupClipping) else clipping.parts

    @property
    def charged_groups(self) -> int:
        """Charges a step in the code: one for each group (ValueError: nothing is clipped)."""
        clipping = self._clipping()
        return len(clipping.bounds) if isinstance(clipping, GroupClipping) else clipping.count

    def noise_stds(
        self, rule: GroupClipping | TensorsClippedAtGroupBound
    ) -> tuple[float, ...]:
        """The noise's deviation on each tensor's clipped sum, under a step's rule."""
        noise = self.noise_multiplier / self.noise_divisor
        return tuple(noise * rule.bounds[group] for group in rule.groups)

    def ledger(self, *, public_size: int, steps: int | None = None) -> list[Release]:
        """The true releases of `steps` steps (all of the run's, by default).

        All groups read one batch, so one record moves them together; the noise is what is added.
        Shuffled batches are priced under replace-one, by `ShuffledBatches.passes`.
        """
        if steps is None:
            steps = self.steps_allowed(public_size=public_size)
        if not (self.noise_multiplier > 0 and isinstance(self.sampling, ShuffledBatches)):
            return self.poisson_ledger(public_size=public_size, steps=steps)
        noise = self._parts.one.noise_multiplier
        found = self.sampling.passes(
            noise_multiplier=noise, public_size=public_size, steps=steps
        )
        return [found._replace(mechanism=Assuming(found.mechanism, self._parts.assumptions))]

    def poisson_ledger(self, *, public_size: int, steps: int) -> list[Release]:
        """The same with shuffled batches taken as Poisson ones, a stated assumption."""
        checks.whole(steps=steps)
        if not self.noise_multiplier > 0:
            return [Release(NoGuarantee("no noise is added"))] if steps else []
        return [Release(self._mechanism(public_size), steps)]

    def claimed_ledger(self, *, public_size: int, steps: int) -> list[Release]:
        """The code's charge: each group of a step as a release with its own batch."""
        checks.whole(steps=steps)
        charge = self._sampled(self.noise_multiplier, public_size)
        return [Release(charge, steps * self.charged_groups)]

    def iterations_allowed(self, *, public_size: int) -> int:
        """The iteration at which the code's loop ends and prints its number.

        Every tenth iteration its moments accountant compares delta at the target epsilon with the
        target delta; the first test that finds it above ends the run. (The code counts from 0, so
        it has then made one iteration more than it prints. No cell of Table 7 hinges on that one.)

        Raises:
            ValueError: no `moments`, so not as published; or as `moments.exceeded_at`.
        """
        if self.moments is None:
            raise ValueError("moments must be those of the code's accountant, got None")
        return accountant.exceeded_at(
            self.claimed_ledger(public_size=public_size, steps=self.critic_steps),
            target_epsilon=self.target_epsilon,
            target_delta=self.target_delta,
            every=EVERY,
            moments=self.moments,
        )

    def steps_allowed(self, *, public_size: int) -> int:
        """Steps within the target epsilon, at most `max_steps`; as published, by the code."""
        if not self.noise_multiplier > 0:
            return self.max_steps
        if self.moments is not None:
            allowed = self.critic_steps * self.iterations_allowed(public_size=public_size)
        else:
            allowed = calibrate.steps(
                self.target_epsilon,
                mechanism=self._mechanism(public_size),
                delta=self.target_delta,
            )
        return min(allowed, self.max_steps)

    def _clipping(self) -> GroupClipping | PublicBounds | PublicClusters:
        if isinstance(self.clipping, Unclipped):
            raise ValueError("clipping must bound a record's gradient, got Unclipped()")
        return self.clipping

    def _mechanism(self, public_size: int) -> Mechanism:
        """One step of a Poisson batch."""
        one = self._sampled(self._parts.one.noise_multiplier, public_size)
        return Assuming(one, self._parts.assumptions)

    @property
    def _parts(self) -> GroupedGaussian:  # every part moves at once, each by its own bound
        return GroupedGaussian(self.noise_multiplier / self.noise_divisor, self.parts)

    def _sampled(self, noise: float, public_size: int) -> Mechanism:
        return mechanism(
            self.sampling,
            noise_multiplier=noise,
            public_size=public_size,
            assume=(SHUFFLED_AS_POISSON,),
        )


def ungrouped(settings: DpganSettings) -> DpganSettings:
    """Each tensor clipped apart, as before any grouping (the code's "basic" clipper)."""
    count = settings.tensors
    return replace(settings, clipping=GroupClipping((BOUND,) * count, tuple(range(count))))


# Adam's rates are the scripts' (the text prints 0.002). The critic's rises over 500 iterations; in
# the code it does so from one iteration to the next, here from one step to the next, after a warm
# start from the beginning again.
RISING = Linear(2e-4, 3e-4, over=2_000)

# Weights apart, all biases in one group: 7 tensors in 5 groups. Of the 55,000 training images that
# the code reads, 49,000 are private, 1,000 public, and the others unused.
MNIST = DpganSettings(
    clipping=GroupClipping((BOUND,) * 5, biases_together(is_bias(3))),
    noise_multiplier=noise_from_budget(4),
    sampling=ShuffledBatches(4 * 64),
    target_epsilon=4,
    target_delta=1e-5,
    private_examples=49_000,
    public_examples=1_000,
    warm_start=300,
    image_shape=(1, 28, 28),
    critic_channels=(64, 128, 256),
    critic_optimizer=Adam(RISING, betas=(0.5, 0.9)),
    generator_optimizer=Adam(Constant(2e-4), betas=(0.5, 0.9)),
    devices=4,
    noise_over_sqrt_batch=True,
    moments=24,
)

CELEBA = replace(
    MNIST,
    noise_multiplier=noise_from_budget(8),
    sampling=ShuffledBatches(4 * 48),
    target_epsilon=10,
    private_examples=198_547,
    public_examples=4_052,
    warm_start=800,
    image_shape=(3, 48, 48),
    critic_channels=(128, 256, 512),
    moments=13,
    critic_optimizer=Adam(RISING, betas=(0.0, 0.9)),
    generator_optimizer=Adam(Constant(2e-4), betas=(0.0, 0.9)),
)

# Weights apart, the biases in two groups: 9 tensors in the 7 groups that Table 7's cells are of.
LSUN_L = replace(
    CELEBA,
    clipping=GroupClipping((BOUND,) * 7, (0, 5, 1, 5, 2, 6, 3, 6, 4)),
    noise_multiplier=noise_from_budget(10),
    sampling=ShuffledBatches(4 * 64),
    private_examples=2_450_000,
    public_examples=50_000,
    warm_start=2_000,
    image_shape=(3, 64, 64),
    critic_channels=(64, 128, 256, 512),
)

# The private size is fitted to Table 7; 2 % of the data set's published size are 60,661.
LSUN_U = replace(LSUN_L, private_examples=2_973_000, public_examples=60_661, warm_start=2_400)

PUBLISHED = {"mnist": MNIST, "celeba": CELEBA, "lsun-l": LSUN_L, "lsun-u": LSUN_U}
CLUSTERS = {"mnist": 5, "celeba": 6, "lsun-l": 7, "lsun-u": 7}  # Table 1's number of groups

# All optimisations together, as in the code's last script for MNIST.
SETTINGS = replace(MNIST, clipping=PublicClusters(CLUSTERS["mnist"], MNIST.tensors, True))

STEPS = MNIST.critic_steps * TABLE_7["mnist"][1]

# The GAN without privacy, for as many steps.
NON_PRIVATE = replace(
    MNIST,
    clipping=Unclipped(),
    noise_multiplier=0.0,
    noise_over_sqrt_batch=False,
    moments=None,
    warm_start=0,
    max_steps=STEPS,
)

# Repaired: groups clipped jointly as the text says, charged together; Poisson; the noise charged.
REPAIRED = replace(
    MNIST,
    clipping=PublicClusters(CLUSTERS["mnist"], 7, False),
    sampling=PoissonSampling(256),
    noise_multiplier=1.643,
    devices=1,
    noise_over_sqrt_batch=False,
    moments=None,
    max_steps=STEPS,
    chosen="as published but for the repairs; the noise is the least for Table 7's iterations",
)


def small(settings: DpganSettings, *, batch_size: int, steps: int) -> DpganSettings:
    """The same method in seconds on a laptop: fewer records a batch, fewer steps."""
    chosen = None if settings.chosen is None else "as at paper scale, fewer steps"
    return replace(
        settings,
        sampling=replace(settings.sampling, expected_batch_size=batch_size),
        warm_start=min(settings.warm_start, steps // settings.critic_steps),
        max_steps=steps,
        chosen=chosen,
    )


# Of fewer records a batch is a larger share: the scikit-learn digits need more noise.
SMALL = replace(small(REPAIRED, batch_size=64, steps=40), noise_multiplier=2.5)

"""The paper's runs, by its text and its public code, and the repaired run's changes.

A step is one update of the critic, which is charged.
"""

from dataclasses import dataclass, replace

from dpkit.common import checks
from dpkit.common.records import SCALES
from dpkit.privacy import Mechanism, NoGuarantee, Release, calibrate
from dpkit.privacy.clipping import FlatClipping, Unclipped
from dpkit.privacy.sampling import (
    SHUFFLED_AS_POISSON,
    PoissonSampling,
    ShuffledBatches,
    mechanism,
)
from dpkit.privacy.schedules import Constant
from dpkit.training import Adam

# The orders of the code's accountant (compute_renyi_privacy in ganlib/privacy.py)
ORDERS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, *range(5, 64), 128, 256, 512)
PUBLIC_SIZE = 60_000  # the size of MNIST's training set, which anyone knows
EPOCHS = 40
# Of the code's loader: 468 batches of 128, and one of 96
STEPS_PER_EPOCH = 469
DIGITS_SIZE = 1_437  # declared size of the embedded digits' training part
# Declared: rates follow from it
PUBLIC_SIZES = {"mnist": PUBLIC_SIZE, "digits": DIGITS_SIZE}
# Of runs at reduced scale: MNIST and batches of 128 as published, fewer steps, smaller networks
REDUCED_STEPS = 3_000
# In Figure 3, whose largest networks take the longest
REDUCED_STEPS_BY_CAPACITY = 2_000
# The paper's, and two smaller ones of ours
REDUCED_CAPACITIES = (8, 16, 32, 64, 96, 128)


@dataclass(frozen=True)
class SmallImagesSettings:
    """A run of Algorithm 2. `noise_multiplier` is noise standard deviation / clip norm.

    Args:
        clipping: of an example's whole critic gradient, that of
            D(fake_i) - D(real_i) + penalty_weight (|grad D(x_i)| - 1)^2.
        noise_multiplier: 0 adds no noise.
        sampling: of batches (see `divisor`).
        target_delta: in (0, 1).
        critic_optimizer, generator_optimizer: DP-Adam's update, and that of the generator.
        capacity: filters of the critic's first convolution; they double twice.
        max_steps: critic steps at most.
        target_epsilon: ends a run earlier; None, as published, where only steps do.
        critic_steps: for each step of the generator, which comes first.
        penalty_weight: of the gradient penalty.
        latent_size: of the generator's normal latent.
        side: of an image, in pixels, at least 8, as three convolutions halve it; images in [-1, 1].
        generator_decay: of the average of the generator's weights, if that is released; in [0, 1).
        chosen: origin of the settings, where not as published.

    Raises:
        ValueError: a number is out of range, clipping is of another kind, or noise is added
            without clipping.
    """

    clipping: FlatClipping | Unclipped
    noise_multiplier: float
    sampling: PoissonSampling | ShuffledBatches
    target_delta: float
    critic_optimizer: Adam
    generator_optimizer: Adam
    capacity: int = 32
    max_steps: int = EPOCHS * STEPS_PER_EPOCH
    target_epsilon: float | None = None
    critic_steps: int = 1
    penalty_weight: float = 10.0
    latent_size: int = 128
    side: int = 28
    generator_decay: float | None = None
    chosen: str | None = None

    def __post_init__(self) -> None:
        checks.non_negative(noise_multiplier=self.noise_multiplier)
        checks.positive(penalty_weight=self.penalty_weight)
        checks.between(0, 1, target_delta=self.target_delta)
        sizes = ("capacity", "critic_steps", "max_steps", "latent_size")
        checks.whole(1, **{name: getattr(self, name) for name in sizes})
        checks.whole(8, side=self.side)
        if self.generator_decay is not None:
            checks.non_negative(generator_decay=self.generator_decay)
            if not self.generator_decay < 1:
                raise ValueError(
                    f"generator_decay must lie in [0, 1), got {self.generator_decay}"
                )
        if not isinstance(self.clipping, FlatClipping | Unclipped):
            raise ValueError(
                f"clipping must be FlatClipping or Unclipped(), got {self.clipping!r}"
            )
        if self.target_epsilon is not None:
            checks.positive(target_epsilon=self.target_epsilon)
        if self.noise_multiplier > 0 and isinstance(self.clipping, Unclipped):
            raise ValueError(
                f"noise_multiplier must be 0 without clipping, got {self.noise_multiplier}; "
                "or give FlatClipping"
            )

    @property
    def expected_batch_size(self) -> int:
        """Records a batch, on average; generated images of a generator step."""
        return self.sampling.expected_batch_size

    def divisor(self, batch_size: int) -> int:
        """The divisor of a batch's noised sum.

        Its own size, as published, where that is public; the expected one where the size
        reveals who was drawn.
        """
        shuffled = isinstance(self.sampling, ShuffledBatches)
        return batch_size if shuffled else self.expected_batch_size

    @property
    def noise_std(self) -> float:
        """The noise's deviation on each coordinate of the summed gradient."""
        if not self.noise_multiplier > 0:
            return 0.0
        return self.noise_multiplier * self.clipping.sensitivity("add-remove")

    def ledger(self, *, public_size: int, steps: int | None = None) -> list[Release]:
        """The true releases of `steps` steps (all that are allowed, by default).

        Shuffled batches are priced by their passes (`ShuffledBatches.passes`), under replace-one;
        `claimed_ledger` takes the batches to be Poisson, and says so.

        Raises:
            ValueError: a batch is larger than public_size, or steps is not an integer >= 0.
        """
        if steps is None:
            steps = self.steps_allowed(public_size=public_size)
        checks.whole(steps=steps)
        if not self.noise_multiplier > 0:
            return [Release(NoGuarantee("no noise is added"))]
        if not isinstance(self.sampling, ShuffledBatches):
            return [Release(self._priced(public_size), steps)]
        return [
            self.sampling.passes(
                noise_multiplier=self.noise_multiplier, public_size=public_size, steps=steps
            )
        ]

    def claimed_ledger(self, *, public_size: int, steps: int | None = None) -> list[Release]:
        """The published code's charge: a Poisson release a step, at the rate batch / size.

        Raises:
            ValueError: no noise is added, or as `ledger`.
        """
        if steps is None:
            steps = self.steps_allowed(public_size=public_size)
        checks.whole(steps=steps)
        charged = mechanism(
            self.sampling,
            noise_multiplier=self.noise_multiplier,
            public_size=public_size,
            assume=(SHUFFLED_AS_POISSON,),
        )
        return [Release(charged, steps)]

    def steps_allowed(self, *, public_size: int) -> int:
        """The settings' steps, or those that a target epsilon allows.

        Raises:
            Unsupported: a target for shuffled batches, which no accountant here prices.
        """
        if self.target_epsilon is None or not self.noise_multiplier > 0:
            return self.max_steps
        allowed = calibrate.steps(
            self.target_epsilon, mechanism=self._priced(public_size), delta=self.target_delta
        )
        return min(allowed, self.max_steps)

    def _priced(self, public_size: int) -> Mechanism:
        """One step; Unsupported for shuffled batches."""
        return mechanism(
            self.sampling, noise_multiplier=self.noise_multiplier, public_size=public_size
        )


# Both networks: 3.125e-6 an example times 128. The text calls the betas the libraries' defaults,
# which are (0.9, 0.999); the code has these.
ADAM = Adam(Constant(4e-4), betas=(0.5, 0.9))

# As published: the run that all three figures share.
SETTINGS = SmallImagesSettings(
    clipping=FlatClipping(1.0),
    noise_multiplier=0.5,
    sampling=ShuffledBatches(128),
    target_delta=1e-5,
    critic_optimizer=ADAM,
    generator_optimizer=ADAM,
)

# By what each figure varies: clip norm, noise multiplier, capacity.
FIGURE_1 = {norm: replace(SETTINGS, clipping=FlatClipping(norm)) for norm in (0.1, 1.0, 100.0)}
FIGURE_2 = {noise: replace(SETTINGS, noise_multiplier=noise) for noise in (0.5, 0.8, 0.9, 1.0)}
FIGURE_3 = {capacity: replace(SETTINGS, capacity=capacity) for capacity in (16, 32, 96, 128)}

# The dashed line of the figures: "a non-anonymous GAN training".
NON_PRIVATE = replace(SETTINGS, clipping=Unclipped(), noise_multiplier=0.0)

# Repaired: the batches are those that are accounted for.
REPAIRED = replace(
    SETTINGS,
    sampling=PoissonSampling(128),
    noise_multiplier=0.545,
    target_epsilon=10.0,
    chosen="the paper's, with Poisson batches; the noise is the least with which the paper's "
    "18,760 steps cost no more than epsilon 10 (RDP, rounded up). Nothing was tried on MNIST",
)


def small(
    settings: SmallImagesSettings, *, batch_size: int, steps: int, capacity: int
) -> SmallImagesSettings:
    """The same method in less time: smaller networks, fewer records a batch, fewer steps."""
    sampling = replace(settings.sampling, expected_batch_size=batch_size)
    chosen = None if settings.chosen is None else "as at paper scale, smaller and shorter"
    return replace(
        settings, sampling=sampling, max_steps=steps, capacity=capacity, chosen=chosen
    )


# More noise, or epsilon 10 would be spent after 24 steps on so few records.
SMALL = replace(
    small(REPAIRED, batch_size=64, steps=100, capacity=8),
    noise_multiplier=0.66,
    chosen="noise that lets 100 steps of 64 of 1,437 records cost no more than epsilon 10",
)


def reduced(
    settings: SmallImagesSettings,
    *,
    capacity: int = 16,  # but in Figure 3
    steps: int = REDUCED_STEPS,
) -> SmallImagesSettings:
    """The same run on the same MNIST for a machine without accelerator: smaller and shorter.

    With a target epsilon it gets the noise that `REDUCED_STEPS` steps need.
    """
    smaller = replace(settings, max_steps=steps, capacity=capacity)
    if settings.target_epsilon is None:
        return smaller
    chosen = "the noise is the least, in thousandths, for the reduced steps at the same target"
    return replace(smaller, noise_multiplier=0.462, chosen=chosen)  # to cost 10, by RDP


# Steps from one point of a curve to the next
EVERY = {"paper": STEPS_PER_EPOCH, "reduced": 250, "small": 6}
RECORDS = {"paper": "mnist", "reduced": "mnist", "small": "digits"}
FIGURES = ("figure_1", "figure_2", "figure_3")


def _tiny(settings: SmallImagesSettings) -> SmallImagesSettings:
    """The same run of seconds on the digits; what has a target epsilon has the noise of `SMALL`."""
    capacity = max(settings.capacity // 8, 1)
    shorter = small(settings, batch_size=64, steps=12, capacity=capacity)
    if settings.target_epsilon is None:
        return shorter
    return replace(shorter, noise_multiplier=SMALL.noise_multiplier, chosen=SMALL.chosen)


def settings_of(plan: str, *, scale: str) -> dict[str, SmallImagesSettings]:
    """The runs of "common" or of a figure by name; of a figure without those in `common`.

    Raises:
        ValueError: an unknown plan or scale.
    """
    checks.one_of(("common", *FIGURES), plan=plan)
    checks.one_of(SCALES, scale=scale)
    capacities = FIGURE_3 if scale == "paper" else REDUCED_CAPACITIES
    own = {
        "common": {"base": SETTINGS, "non-private": NON_PRIVATE, "repaired": REPAIRED},
        "figure_1": {f"norm-{norm:g}": run for norm, run in FIGURE_1.items()},
        "figure_2": {f"noise-{noise:g}": run for noise, run in FIGURE_2.items()},
        "figure_3": {f"capacity-{c}": replace(SETTINGS, capacity=c) for c in capacities},
    }[plan]
    base = SETTINGS
    if scale == "small":
        base = _tiny(SETTINGS)
        own = {name: _tiny(run) for name, run in own.items()}
    if scale == "reduced":
        base, steps = reduced(SETTINGS), REDUCED_STEPS_BY_CAPACITY
        own = {
            name: reduced(run, capacity=run.capacity, steps=steps)
            if plan == "figure_3"
            else reduced(run)
            for name, run in own.items()
        }
    if plan == "common":
        return own
    return {n: run for n, run in own.items() if replace(run, max_steps=base.max_steps) != base}

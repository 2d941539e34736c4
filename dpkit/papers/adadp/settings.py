"""The paper's runs, the readings of its Algorithm 1, and the repaired run's changes.

AGD's noise falls while training, and each choice of a step is charged: Lee and Kifer 2018,
"Concentrated differentially private gradient descent with adaptive per-iteration privacy budget"
(KDD). How the paper prices it: claim `agd-uncharged-choice`.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, log, sqrt
from typing import Literal

from dpkit.common import checks
from dpkit.papers.adadp import pca
from dpkit.papers.adadp.theorems import Theorem1
from dpkit.privacy import (
    Guarantee,
    Mechanism,
    NoGuarantee,
    Release,
    RenyiFilter,
    numerics,
    pld,
    rdp,
)
from dpkit.privacy.accountants.filters import best_order
from dpkit.privacy.sampling import FixedSizeBatches, PoissonSampling, mechanism
from dpkit.privacy.schedules import Constant, Linear
from dpkit.training import Adam, RmsProp, Sgd

PUBLIC_SIZE = 60_000  # of MNIST's training set, which anyone knows
MAX_STEPS = 1_000  # ten epochs; the paper prints no length of its runs


@dataclass(frozen=True)
class Flat:
    """Each example's whole gradient clipped at one norm, equal noise: DP-SGD (Abadi 2016)."""

    max_grad_norm: float


@dataclass(frozen=True)
class Published:
    """A reading of AdaDP's adaptive noise (Algorithm 1), which follows raw gradients.

    Args:
        max_grad_norm: C, of the steps before the switch to local clipping.
        bound_factor: beta, of the bounds s_i = beta sqrt(E'_i).
        decay: gamma', of the history, in [0, 1].
        threshold: G; above it the history's variance over coordinates switches to local clipping.
        history: which gradient line 23 squares: the lot's "mean", its "sum", or each "example"'s,
            of whose squares it is then the mean.
        spread: whose variance over coordinates switches: that of E' ("square", as section III-B has
            it) or of its root ("root", line 7).
        noise_on: the lot's "sum", once (line 26), or each "example" (lines 10 to 13 take g_t(x)),
            which makes sqrt(lot) times as much.
    """

    max_grad_norm: float
    bound_factor: float = 1.2
    decay: float = 0.9
    threshold: float = 1e-6
    history: Literal["mean", "sum", "example"] = "mean"
    spread: Literal["square", "root"] = "root"
    noise_on: Literal["sum", "example"] = "sum"

    def more_noise(self, lot: int) -> float:
        """The factor of the noise on the lot's sum."""
        return lot**0.5 if self.noise_on == "example" else 1.0


@dataclass(frozen=True)
class Repaired:
    """The kit's own variant: a history of released gradients, its noise's variance taken off.

    Args:
        max_grad_norm: C; with equal scales, clipping and noise are DP-SGD's at norm C.
        decay: gamma', of a longer history, since one release is mostly noise.
        range_factor: scales lie within C divided and multiplied by it.
    """

    max_grad_norm: float
    decay: float = 0.99
    range_factor: float = 4.0


@dataclass(frozen=True)
class Optimised:
    """DpOpt's noise (Xiang, Yang, Li 2019), in the kit's reading: see `OptimisedNoise`.

    Args:
        max_grad_norm: C; where all slopes are equal, noise and clipping are those of DP-SGD at C.
        decay: of the average of released gradients, whose absolute values are the slopes.
    """

    max_grad_norm: float
    decay: float = 0.99


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings:
    """A private classifier: a projection by DP-PCA, then training on lots.

    Args:
        sampling: of the lots.
        target_epsilon, target_delta: the level, under add-remove.
        pca_noise: sigma_p of DP-PCA, None where inputs are not projected.
        widths: of the network: inputs (DP-PCA's dimensions), hidden layers, classes.
        max_steps: an end where the budget would allow more.
        chosen: origin of settings that the paper does not print.

    Raises:
        ValueError: a number is out of its range.
    """

    sampling: PoissonSampling | FixedSizeBatches
    target_epsilon: float
    target_delta: float = 1e-5
    pca_noise: float | None = None
    widths: tuple[int, ...] = (60, 1000, 10)
    max_steps: int = MAX_STEPS
    chosen: str | None = None

    def __post_init__(self) -> None:
        checks.positive(target_epsilon=self.target_epsilon)
        checks.between(0, 1, target_delta=self.target_delta)
        checks.whole(1, max_steps=self.max_steps)

    @property
    def lot(self) -> int:
        """Records a lot, on average: L."""
        return self.sampling.expected_batch_size

    def projection(self) -> list[Release]:
        """DP-PCA's release, if inputs are projected."""
        if self.pca_noise is None:
            return []
        return [Release(pca.release(self.pca_noise, adjacency=self.sampling.adjacency))]


@dataclass(frozen=True)
class AdadpSettings(ClassifierSettings):
    """A private classifier trained by DP-SGD with noise of some shape; its price is certified.

    Args:
        noise: clipping and noise of each step.
        noise_multiplier: sigma_*; noise over clip norm, or as Lemma 1 adds up coordinates.
        optimizer: of the noised mean.
        The others: as `ClassifierSettings`.
    """

    noise: Flat | Published | Repaired | Optimised
    noise_multiplier: float
    optimizer: Sgd | RmsProp | Adam

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(noise_multiplier=self.noise_multiplier)

    def ledger(self, *, public_size: int, steps: int) -> list[Release]:
        """DP-PCA and `steps` steps; no guarantee where raw gradients steer the noise."""
        if not isinstance(self.noise, Flat | Repaired | Optimised):
            why = "clipping and noise follow un-noised private gradients"
            return [Release(NoGuarantee(why))]
        return self.as_if_public(public_size=public_size, steps=steps)

    def as_if_public(self, *, public_size: int, steps: int) -> list[Release]:
        """The ledger as if the history were public, which Theorem 1 assumes."""
        noise = self.noise_multiplier
        if isinstance(self.noise, Published):
            noise *= self.noise.more_noise(self.lot)
        step = mechanism(self.sampling, noise_multiplier=noise, public_size=public_size)
        return [*self.projection(), Release(step, steps)]

    def charged(self, *, public_size: int, steps: int) -> float:
        """Epsilon as the paper charges training: Theorem 1, orders 2 to 64, DP-PCA left out."""
        theorem = Theorem1(self.noise_multiplier, sample_rate=self.lot / public_size)
        return theorem.epsilon(steps, delta=self.target_delta).epsilon

    def steps_allowed(self, *, public_size: int) -> int:
        """Steps within the level, by the certified accountant; raw histories as if public."""
        return _allowed(self, public_size)


def proven(ledger: list[Release], *, delta: float) -> Guarantee:
    """The certified pair's answer; the RDP bound where lots of a fixed size have no pair."""
    if any(one.mechanism.adjacency == "replace-one" for one in ledger):
        return rdp.epsilon(ledger, delta=delta)
    return pld.epsilon(ledger, delta=delta)


@lru_cache(maxsize=64)
def _allowed(settings: AdadpSettings, public_size: int) -> int:
    def within(steps: int) -> bool:
        ledger = settings.as_if_public(public_size=public_size, steps=steps)
        return proven(ledger, delta=settings.target_delta).epsilon <= settings.target_epsilon

    if within(settings.max_steps):
        return settings.max_steps
    # The limit is not reached
    return numerics.most(within, limit=2 * settings.max_steps)


# Section IV-C. The listing is the published reading where text and listing differ (its line 7), as
# the noise of Figure 4(d), 10 to 20 a coordinate, is that of the lot's mean or of single examples;
# noise on each example would be 24 times as much, with which nothing is learned (Figure 2 does).
ADADP = AdadpSettings(
    noise=Published(max_grad_norm=4.0),
    noise_multiplier=8.0,
    sampling=PoissonSampling(600),
    optimizer=RmsProp(Constant(0.002), decay=0.9),
    target_epsilon=0.5,
    pca_noise=16.0,
)
SETTINGS = ADADP
DPSGD = replace(ADADP, noise=Flat(4.0), optimizer=Sgd(Linear(0.1, 0.052, over=1_000)))
# With DP-SGD's rates, as section IV-C has it
DPOPT = replace(DPSGD, noise=Optimised(4.0))
ADAL = replace(ADADP, noise=Flat(4.0), optimizer=RmsProp(Constant(0.001), decay=0.9))
ADAN = replace(ADADP, optimizer=Sgd(Constant(0.1)))

# What the kit chose, for all levels: on distorted copies of scikit-learn's digits (public data), at
# 1,000 lots of 600 and noise 2.62, among some twenty settings.
TUNED = "norm and rates on distorted copies of scikit-learn's digits (public data)"
FALLING = Linear(0.02, 0.002, over=MAX_STEPS)
REPAIRED = replace(
    ADADP,
    noise=Repaired(max_grad_norm=1.0),
    optimizer=RmsProp(FALLING, decay=0.9),
    chosen=TUNED,
)
DP_ADAM = replace(ADADP, noise=Flat(0.1), optimizer=Adam(FALLING), chosen=TUNED)
DPSGD_TUNED = replace(
    ADADP, noise=Flat(0.3), optimizer=Sgd(Linear(10.0, 1.0, over=MAX_STEPS)), chosen=TUNED
)


@dataclass(frozen=True)
class AgdSettings(ClassifierSettings):
    """A private classifier trained by AGD on Poisson lots.

    A step releases a noisy gradient, then the noisy changes of the loss that candidate rates bring,
    on the same lot: Gaussian releases, the second one chosen by what the first has shown. Given the
    lot they protect together as one Gaussian with 1 / z^2 = 1 / z_g^2 + k / z_l^2, k candidates
    (Dong, Roth, Su 2022, Cor. 3.3), so that the step on a Poisson lot costs what `SampledGaussian`
    of that z costs (Zhu, Dong, Wang 2022, Thm 11: sampling a dominated mechanism).

    The noise follows what was released, so that no list made beforehand is the run's price. A Renyi
    filter ends the run within its target, whatever happens.

    Args:
        noise_multiplier: z_g of the first step; noise over max_grad_norm.
        least_noise_multiplier: below which z_g does not fall.
        growth: gamma; where no candidate lowers the loss, 1 / z_g^2 grows by the factor 1 + gamma.
        max_grad_norm: clip norm of an example's gradient.
        rates: candidate step sizes beside 0.
        choice_noise: z_l; noise on the sum of an example's changes, over max_change.
        max_change: an example's change of loss is clipped to +-max_change. (The paper clips losses
            and compares them; their differences need less room.)
        public_size: declared number of records.
        The others: as `ClassifierSettings`, the level that of the whole run.

    Raises:
        ValueError: a number is out of its range, or no rate is named.
    """

    noise_multiplier: float
    least_noise_multiplier: float
    max_grad_norm: float
    choice_noise: float
    sampling: PoissonSampling
    rates: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    growth: float = 0.1
    max_change: float = 0.1
    public_size: int = PUBLIC_SIZE

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.plain_fields(self)
        checks.positive(
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            choice_noise=self.choice_noise,
            growth=self.growth,
            max_change=self.max_change,
            least_noise_multiplier=self.least_noise_multiplier,
            **{f"rates[{i}]": rate for i, rate in enumerate(self.rates)},
        )
        if not self.least_noise_multiplier <= self.noise_multiplier:
            raise ValueError(
                "least_noise_multiplier must be <= noise_multiplier, got "
                f"{self.least_noise_multiplier} and {self.noise_multiplier}"
            )
        if not self.rates:
            raise ValueError("rates must name a step size other than 0, got none")

    @property
    def levels(self) -> int:
        """Number of noise multipliers that z_g can take."""
        falls = (
            2 * log(self.noise_multiplier / self.least_noise_multiplier) / log(1 + self.growth)
        )
        return 1 + ceil(falls)

    def gradient_noise(self, level: int) -> float:
        """z_g after it fell `level` times."""
        fallen = self.noise_multiplier * (1 + self.growth) ** (-level / 2)
        return max(fallen, self.least_noise_multiplier)

    def joint_noise(self, level: int) -> float:
        """z of the one Gaussian that protects as the gradient and the choice together do."""
        choice = len(self.rates) / self.choice_noise**2
        return 1 / sqrt(1 / self.gradient_noise(level) ** 2 + choice)

    def release(self, level: int) -> Mechanism:
        """The release of a step whose z_g fell `level` times."""
        noise, size = self.joint_noise(level), self.public_size
        return mechanism(self.sampling, noise_multiplier=noise, public_size=size)

    def budget(self, *, public_size: int) -> RenyiFilter:
        """The filter of a run before its first step; DP-PCA is charged. Its order is public.

        Raises:
            ValueError: public_size is not the settings', or the target does not allow one step.
        """
        if public_size != self.public_size:
            raise ValueError(
                f"public_size must be the settings', {self.public_size}, as the filter charges by "
                f"it, got {public_size}"
            )
        budget = RenyiFilter.for_target(
            self.target_epsilon, delta=self.target_delta, order=_order(self)
        )
        for one in self.projection():
            budget.charge(one.mechanism)
        return budget

    def guarantee(self, *, public_size: int) -> Guarantee:
        """The filter's guarantee, however the noise falls and wherever the run stops."""
        return self.budget(public_size=public_size).guarantee()

    def steps_allowed(self, *, public_size: int) -> int:
        """Steps if the noise never falls; where it does, the budget ends sooner."""
        budget = self.budget(public_size=public_size)
        first = self.release(0)
        steps = int(budget.remaining / float(first.rdp([budget.order])[0]))
        while steps and not budget.allows(first, steps):
            steps -= 1
        return min(steps, self.max_steps)


@lru_cache(maxsize=64)
def _order(settings: AgdSettings) -> float:
    """The filter's order, which allows the most steps if the noise does not fall."""

    def plan(steps: int) -> list[Release]:
        return [*settings.projection(), Release(settings.release(0), steps)]

    def within(steps: int) -> bool:
        spent = rdp.epsilon(plan(steps), delta=settings.target_delta)
        return spent.epsilon <= settings.target_epsilon

    if not within(1):
        raise ValueError(
            f"target_epsilon {settings.target_epsilon} does not allow one step; raise it or "
            "the noise"
        )
    most = settings.max_steps
    steps = most if within(most) else numerics.most(within, limit=2 * most)
    return best_order(settings.target_epsilon, delta=settings.target_delta, ledger=plan(steps))


# The paper prints no setting of AGD's. Of each step's price, at the first noise, the choice has a
# fifth; gamma is that of Lee and Kifer.
AGD = AgdSettings(
    noise_multiplier=8.0,
    least_noise_multiplier=2.0,
    max_grad_norm=4.0,
    choice_noise=32.0,
    sampling=PoissonSampling(600),
    target_epsilon=0.5,
    pca_noise=16.0,
    chosen="by hand; the paper prints none",
)

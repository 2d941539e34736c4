"""What the paper ran, the readings of its Algorithm 1, and what a repaired run changes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from dpkit.common import checks
from dpkit.papers.adadp import pca
from dpkit.papers.adadp.theorems import Theorem1
from dpkit.privacy import numerics, pld, rdp
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.privacy.mechanisms import Mechanism
from dpkit.privacy.mechanisms.base import NoGuarantee
from dpkit.privacy.sampling import FixedSizeBatches, PoissonSampling, mechanism
from dpkit.privacy.schedules import Constant, Linear
from dpkit.training.optimizers import Adam, RmsProp, Sgd

if TYPE_CHECKING:
    from torch import Tensor

    from dpkit.papers.adadp.noise_shapes import NoiseShape

PUBLIC_SIZE = 60_000  # of MNIST's training set, which anyone knows
MAX_STEPS = 1_000  # ten epochs; the paper prints no length of its runs


@dataclass(frozen=True)
class Flat:
    """Each example's whole gradient clipped at one norm, equal noise: DP-SGD (Abadi 2016)."""

    max_grad_norm: float

    def build(self, parameters: Iterable["Tensor"], settings: "Settings") -> "NoiseShape":
        """The noise shape of a network with these parameters."""
        from dpkit.papers.adadp.noise_shapes import NoiseShape

        return NoiseShape(
            parameters, noise_multiplier=settings.noise_multiplier, max_grad_norm=self.max_grad_norm
        )


@dataclass(frozen=True)
class Published:
    """A reading of AdaDP's adaptive noise (Algorithm 1), which follows raw gradients.

    Args:
        max_grad_norm: C, of the steps before the switch to local clipping.
        bound_factor, decay, threshold: beta, gamma' and G.
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

    def build(self, parameters: Iterable["Tensor"], settings: "Settings") -> "NoiseShape":
        """The noise shape of a network with these parameters."""
        from dpkit.papers.adadp.noise_shapes import RawHistory

        return RawHistory(
            parameters,
            noise_multiplier=settings.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            bound_factor=self.bound_factor,
            decay=self.decay,
            threshold=self.threshold,
            of=self.history,
            spread=self.spread,
            scale=self.more_noise(settings.lot),
        )

    def more_noise(self, lot: int) -> float:
        """What the noise on the lot's sum is multiplied by."""
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

    def build(self, parameters: Iterable["Tensor"], settings: "Settings") -> "NoiseShape":
        """The noise shape of a network with these parameters."""
        from dpkit.papers.adadp.noise_shapes import ReleasedHistory

        return ReleasedHistory(
            parameters,
            noise_multiplier=settings.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            lot=settings.lot,
            decay=self.decay,
            range_factor=self.range_factor,
        )


@dataclass(frozen=True)
class Optimised:
    """DpOpt's noise (Xiang, Yang, Li 2019), in the kit's reading: see `OptimisedNoise`.

    Args:
        max_grad_norm: C; where all slopes are equal, it is DP-SGD at C.
        decay: of the average of released gradients.
    """

    max_grad_norm: float
    decay: float = 0.99

    def build(self, parameters: Iterable["Tensor"], settings: "Settings") -> "NoiseShape":
        """The noise shape of a network with these parameters."""
        from dpkit.papers.adadp.optimised_noise import OptimisedNoise

        return OptimisedNoise(
            parameters,
            noise_multiplier=settings.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            decay=self.decay,
        )


@dataclass(frozen=True)
class Settings:
    """A private classifier: a projection by DP-PCA, then DP-SGD with noise of some shape.

    Args:
        noise: clipping and noise of each step.
        noise_multiplier: sigma_*; noise over clip norm, or as Lemma 1 adds up coordinates.
        sampling: of the lots.
        optimizer: what goes along the noised mean.
        target_epsilon, target_delta: the level, under add-remove by the certified accountant.
        pca_noise: sigma_p of DP-PCA, None where inputs are not projected.
        widths: of the network: inputs (DP-PCA's dimensions), hidden layers, classes.
        max_steps: an end where the budget would allow more.
        chosen: how settings came about that the paper does not print.

    Raises:
        ValueError: a number is out of range.
    """

    noise: Flat | Published | Repaired | Optimised
    noise_multiplier: float
    sampling: PoissonSampling | FixedSizeBatches
    optimizer: Sgd | RmsProp | Adam
    target_epsilon: float
    target_delta: float = 1e-5
    pca_noise: float | None = None
    widths: tuple[int, ...] = (60, 1000, 10)
    max_steps: int = MAX_STEPS
    chosen: str | None = None

    def __post_init__(self) -> None:
        checks.positive(noise_multiplier=self.noise_multiplier, target_epsilon=self.target_epsilon)
        checks.between(0, 1, target_delta=self.target_delta)
        checks.whole(1, max_steps=self.max_steps)

    @property
    def lot(self) -> int:
        """Records a lot, on average: L."""
        return self.sampling.expected_batch_size

    def ledger(self, *, public_size: int, steps: int) -> list[Release]:
        """DP-PCA and `steps` steps; no guarantee where raw gradients steer the noise."""
        if not isinstance(self.noise, Flat | Repaired | Optimised):
            return [Release(NoGuarantee("clipping and noise follow un-noised private gradients"))]
        return self.as_if_public(public_size=public_size, steps=steps)

    def as_if_public(self, *, public_size: int, steps: int) -> list[Release]:
        """The ledger if the history were public: what Theorem 1 assumes, priced as is right."""
        training = Release(self._step(public_size), steps)
        if self.pca_noise is None:
            return [training]
        projection = pca.release(self.pca_noise, adjacency=self.sampling.adjacency)
        return [Release(projection), training]

    def charged(self, *, public_size: int, steps: int) -> float:
        """Epsilon as the paper charges training: Theorem 1, orders 2 to 64, DP-PCA left out."""
        theorem = Theorem1(self.noise_multiplier, sample_rate=self.lot / public_size)
        return theorem.epsilon(steps, delta=self.target_delta).epsilon

    def steps_allowed(self, *, public_size: int) -> int:
        """Steps within the level, by the certified accountant; raw histories as if public."""
        return _allowed(self, public_size)

    def _step(self, public_size: int) -> Mechanism:
        noise = self.noise_multiplier
        if isinstance(self.noise, Published):
            noise *= self.noise.more_noise(self.lot)
        return mechanism(self.sampling, noise_multiplier=noise, public_size=public_size)


def proven(ledger: list[Release], *, delta: float) -> Guarantee:
    """The certified pair's answer; the RDP bound where lots of a fixed size have no pair."""
    if any(one.mechanism.adjacency == "replace-one" for one in ledger):
        return rdp.epsilon(ledger, delta=delta)
    return pld.epsilon(ledger, delta=delta)


@lru_cache(maxsize=64)
def _allowed(settings: Settings, public_size: int) -> int:
    def within(steps: int) -> bool:
        ledger = settings.as_if_public(public_size=public_size, steps=steps)
        return proven(ledger, delta=settings.target_delta).epsilon <= settings.target_epsilon

    if within(settings.max_steps):
        return settings.max_steps
    return numerics.most(within, limit=2 * settings.max_steps)  # which it does not reach


# Section IV-C. The listing is the published reading where text and listing differ (its line 7), as
# the noise of Figure 4(d), 10 to 20 a coordinate, is that of the lot's mean or of single examples;
# noise on each example would be 24 times as much, with which nothing is learned (Figure 2 does).
ADADP = Settings(
    noise=Published(max_grad_norm=4.0),
    noise_multiplier=8.0,
    sampling=PoissonSampling(600),
    optimizer=RmsProp(Constant(0.002), decay=0.9),
    target_epsilon=0.5,
    pca_noise=16.0,
)
SETTINGS = ADADP
DPSGD = replace(ADADP, noise=Flat(4.0), optimizer=Sgd(Linear(0.1, 0.052, over=1_000)))
DPOPT = replace(DPSGD, noise=Optimised(4.0))  # with DP-SGD's rates, as section IV-C has it
ADAL = replace(ADADP, noise=Flat(4.0), optimizer=RmsProp(Constant(0.001), decay=0.9))
ADAN = replace(ADADP, optimizer=Sgd(Constant(0.1)))

# What the kit chose, for all levels: on distorted copies of scikit-learn's digits (public data), at
# 1,000 lots of 600 and noise 2.62, among some twenty settings.
TUNED = "norm and rates on distorted copies of scikit-learn's digits (public data)"
FALLING = Linear(0.02, 0.002, over=MAX_STEPS)
REPAIRED = replace(
    ADADP, noise=Repaired(max_grad_norm=1.0), optimizer=RmsProp(FALLING, decay=0.9), chosen=TUNED
)
DP_ADAM = replace(ADADP, noise=Flat(0.1), optimizer=Adam(FALLING), chosen=TUNED)
DPSGD_TUNED = replace(
    ADADP, noise=Flat(0.3), optimizer=Sgd(Linear(10.0, 1.0, over=MAX_STEPS)), chosen=TUNED
)

"""The runs of tables and figures: methods at one certified epsilon, sweeps, readings."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from dpkit.papers.adadp.settings import (
    ADADP,
    ADAL,
    ADAN,
    AGD,
    DP_ADAM,
    DPOPT,
    DPSGD,
    DPSGD_TUNED,
    MAX_STEPS,
    PUBLIC_SIZE,
    REPAIRED,
    AdadpSettings,
    AgdSettings,
    Published,
)
from dpkit.papers.adadp.theorems import Theorem1
from dpkit.privacy.sampling import FixedSizeBatches, PoissonSampling
from dpkit.privacy.schedules import Constant, ExponentialDecay, Linear
from dpkit.training import Adam, RmsProp, Sgd


class Level(NamedTuple):
    """A privacy level at delta 1e-5, with noise and length of its runs.

    noise_multiplier: of lots of 600 (CIFAR-10: 2,000).
    pca_noise: the paper's; None where there is no projection.
    steps: of a run.
    """

    epsilon: float
    noise_multiplier: float
    pca_noise: float | None
    steps: int = MAX_STEPS


# Section IV-C: the paper's noise, for as many steps as its Theorem 1 allows. It prints the first
# epsilon; 2 and 8 are those of Abadi et al. 2016, whose noise it has.
LEVELS = (
    Level(0.5, 8.0, 16.0, 1_635),
    Level(2.0, 4.0, 7.0, 6_095),
    Level(8.0, 2.0, 4.0, 18_131),
)
# Noise with which DP-PCA and ten epochs cost these epsilons, certified
TEN_EPOCHS = (Level(0.5, 2.62, 16.0), Level(2.0, 0.978, 7.0), Level(8.0, 0.589, 4.0))
CIFAR_STEPS = 250
CIFAR_LEVELS = tuple(
    Level(epsilon, noise, None, CIFAR_STEPS)
    for epsilon, noise in ((0.5, 5.703), (2.0, 1.815), (8.0, 0.824))
)
CIFAR_LOT, CIFAR_SIZE, CIFAR_NORM = 2_000, 40_000, 3.0
# The paper does not print those of its connected layers
CIFAR_WIDTHS = (1_024, 128, 64, 10)

METHODS = {
    "adadp": ADADP,
    "dpsgd": DPSGD,
    "dpopt": DPOPT,
    "agd": AGD,
    "repaired": REPAIRED,
    "dp-adam": DP_ADAM,
    "dpsgd-tuned": DPSGD_TUNED,
}
CIFAR_RATES = {  # section IV-C; for the kit's own by hand: nothing was tried on CIFAR-10
    "adadp": RmsProp(Constant(0.001), decay=0.9),
    "dpsgd": Sgd(Constant(0.052)),
    "dpopt": Sgd(Constant(0.052)),
    "repaired": RmsProp(Linear(0.005, 0.0005, over=CIFAR_STEPS), decay=0.9),
    "dp-adam": Adam(Linear(0.005, 0.0005, over=CIFAR_STEPS)),
    "dpsgd-tuned": Sgd(Linear(3.0, 0.3, over=CIFAR_STEPS)),
}
AnySettings = AdadpSettings | AgdSettings


def at_level(name: str, level: Level) -> AnySettings:
    """A method of Figure 2 at a level; rates that the kit chose fall over its steps.

    AGD begins with more noise than the others and may end with less; its filter stops it.
    """
    settings, z = METHODS[name], level.noise_multiplier
    own: dict[str, Any] = {"noise_multiplier": z}
    if isinstance(settings, AgdSettings):
        own |= {"noise_multiplier": 1.5 * z, "least_noise_multiplier": 0.5 * z}
        own["choice_noise"] = 6 * z
    elif settings.chosen is not None:
        falling = replace(settings.optimizer.rate, over=level.steps)
        own["optimizer"] = replace(settings.optimizer, rate=falling)
    budget = {"target_epsilon": level.epsilon, "max_steps": level.steps}
    return replace(settings, pca_noise=level.pca_noise, **budget, **own)


def on_cifar(name: str, level: Level) -> AnySettings:
    """A method of Figure 3 at a level: the connected layers' norm C for all of the paper's."""
    settings = replace(
        at_level(name, level), sampling=PoissonSampling(CIFAR_LOT), widths=CIFAR_WIDTHS
    )
    if isinstance(settings, AgdSettings):
        return replace(settings, public_size=CIFAR_SIZE, max_grad_norm=CIFAR_NORM)
    noise, rate = settings.noise, CIFAR_RATES[name]
    if name in ("adadp", "dpsgd", "dpopt"):
        noise = replace(noise, max_grad_norm=CIFAR_NORM)
    if isinstance(rate, Sgd) and level == CIFAR_LEVELS[0]:
        # the paper prints no rate of this decay: to .052 at the end
        rate = Sgd(ExponentialDecay(0.1, 0.65 / CIFAR_STEPS))
    by = settings.chosen and "norm as on MNIST, rates by hand; nothing was tried on CIFAR-10"
    return replace(settings, noise=noise, optimizer=rate, chosen=by)


def small(settings: AnySettings, *, public_size: int, steps: int = 30) -> AnySettings:
    """The same method in seconds on the digits: narrow, lots of 64, few steps."""
    declared = {"public_size": public_size} if isinstance(settings, AgdSettings) else {}
    return replace(
        settings,
        sampling=replace(settings.sampling, expected_batch_size=64),
        widths=(20, 32, 10),
        pca_noise=settings.pca_noise or 16.0,
        max_steps=steps,
        **declared,
    )


BASE = at_level("adadp", LEVELS[0])
COMPONENTS = {
    "adadp": BASE,
    "adal": replace(BASE, noise=ADAL.noise, optimizer=ADAL.optimizer),
    "adan": replace(BASE, noise=ADAN.noise, optimizer=ADAN.optimizer),
}


def _changed(noise_multiplier: float = 8.0, lot: int = 600, **other: Any) -> AnySettings:
    """`BASE` with one value changed, for as many steps as Theorem 1 allows."""
    steps = Theorem1(noise_multiplier, sample_rate=lot / PUBLIC_SIZE).steps(0.5, delta=1e-5)
    sampling = PoissonSampling(lot)
    same = {"noise_multiplier": noise_multiplier, "sampling": sampling, "max_steps": steps}
    return replace(BASE, **same, **other)


# One change at a time from the published reading, which is `BASE`. Lots of a fixed size are priced
# under replace-one, where a record moves a coordinate by 2 s_i: the noise is doubled for it.
READINGS = {
    "history-sum": replace(BASE, noise=Published(4.0, history="sum")),
    "history-example": replace(BASE, noise=Published(4.0, history="example")),
    "switch-by-square": replace(BASE, noise=Published(4.0, spread="square")),
    "noise-on-examples": replace(BASE, noise=Published(4.0, noise_on="example")),
    "replace-one": replace(
        BASE,
        sampling=FixedSizeBatches(600),
        noise_multiplier=2 * BASE.noise_multiplier,
        target_epsilon=1.0,
    ),
}


@cache
def sweeps() -> dict[str, AnySettings]:
    """Figure 5, around Figure 2's high level: one value changed."""
    return {
        **{
            f"rate-{r:g}": _changed(optimizer=RmsProp(Constant(r), decay=0.9))
            for r in (0.0008, 0.005, 0.02)
        },
        **{f"beta-{b:g}": _changed(noise=Published(4.0, bound_factor=b)) for b in (0.8, 2.0)},
        **{f"noise-{z:g}": _changed(noise_multiplier=z) for z in (4.0, 5.0, 6.0, 7.0, 10.0)},
        **{f"lot-{lot}": _changed(lot=lot) for lot in (300, 800, 1_000)},
    }


# Section IV-B: noise 3, DP-PCA noise 6, delta 1e-4, along a run. Theorem 1 allows DpSgd 26,835
# steps, and AdaDP 2,041, within the epsilons printed for the highest accuracy.
TABLE_1 = {
    name: replace(
        at_level(name, Level(5.48, 3.0, 6.0, 26_835 if name == "dpsgd" else 4_000)),
        target_delta=1e-4,
    )
    for name in ("adadp", "dpsgd", "repaired", "dp-adam", "dpsgd-tuned")
}

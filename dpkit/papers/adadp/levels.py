"""The runs of tables and figures: methods at one certified epsilon, sweeps, readings."""

from dataclasses import replace
from typing import Any, NamedTuple

from dpkit.papers.adadp.settings import ADADP, ADAL, ADAN, DP_ADAM, DPSGD, REPAIRED, Published, Settings
from dpkit.privacy.sampling import FixedSizeBatches, PoissonSampling
from dpkit.privacy.schedules import Constant, ExponentialDecay
from dpkit.training.optimizers import Adam, RmsProp, Sgd


class Level(NamedTuple):
    """A privacy level: noise with which DP-PCA and 2,000 steps cost epsilon, at delta 1e-5."""

    epsilon: float
    noise_multiplier: float
    pca_noise: float | None


# DP-PCA at the paper's noise. The paper's own noise (8, 4, 2) would cost .28, .66 and 1.33 here;
# a test says that these cost the level, and not a hundredth less.
LEVELS = (Level(0.5, 3.605, 16.0), Level(2.0, 1.181, 7.0), Level(8.0, 0.646, 4.0))
CIFAR_LEVELS = (Level(0.5, 5.703, None), Level(2.0, 1.815, None), Level(8.0, 0.824, None))
CIFAR_STEPS = 250  # of 2,000 of 40,000 records
CIFAR_WIDTHS = (1_024, 128, 64, 10)  # the paper does not print its fully connected layers' sizes

METHODS = {
    "adadp": ADADP,
    "repaired": REPAIRED,
    "dpsgd": DPSGD,
    "dp-adam": DP_ADAM,
}
COMPONENTS = {"adadp": ADADP, "adal": ADAL, "adan": ADAN, "dpsgd": DPSGD}
READINGS = {}
SWEEPS = {}
TABLE_1 = {}

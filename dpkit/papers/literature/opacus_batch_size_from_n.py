"""Noise divided by a number of records that it should hide."""

from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from dpkit.papers.claims import Code, Source, finding

RECORDS, WEIGHTS, DELTA = 1_000, 1_000_000, 1e-5
SAID = 4.7286  # RDPAccountant, noise 1, sample rate 1, one step, rounded up


def deltas(epsilons: ArrayLike, *, records: int, weights: int) -> NDArray[np.float64]:
    """Delta of noise / records against noise / (records + 1), both released with gradients of 0.

    The loss is a line in the squared norm, which is chi-square (`weights` degrees of freedom) times
    the variance: delta = P(beyond) - e^epsilon Q(beyond).
    """
    wide, narrow = 1 / records**2, 1 / (records + 1) ** 2  # variances at noise 1
    slope = (1 / narrow - 1 / wide) / 2
    edge = (
        np.asarray(epsilons) + weights * log(wide / narrow) / 2
    ) / slope  # of the squared norm
    beyond = chdtrc(weights, edge / wide), chdtrc(weights, edge / narrow)
    return beyond[0] - np.exp(epsilons) * beyond[1]


def epsilon() -> float:
    """A lower bound, under add-remove, for a record whose gradient is 0."""
    epsilons = np.linspace(0, 20, 20_001)
    return float(epsilons[deltas(epsilons, records=RECORDS, weights=WEIGHTS) > DELTA].max())


CLAIM = finding(
    "opacus-batch-size-from-n",
    Source(
        "Opacus",
        "meta-pytorch/opacus 4d0ebc8, opacus/privacy_engine.py:408-409, "
        "opacus/optimizers/optimizer.py:495-497, opacus/accountants/rdp.py:22; issues 571 and 819, "
        "both open",
    ),
    says="One step of noise 1 on a whole data set, its noisy sum divided by the number of records, "
    "has epsilon 4.73 under add-remove.",
    at_most=SAID,
    compute=epsilon,
    explanation="The size of the noise "
    "tells 1,000 records from 1,001: over a million weights it shows an epsilon of 6.59 for a "
    "record whose gradient is 0. Where the number of records is public, nothing is lost by it.",
    code=Code(
        was="size = int(len(data) * rate)\ngradient = (total + noise) / size",
        should="gradient = (total + noise) / public_size",
        cause="uncharged",
    ),
)

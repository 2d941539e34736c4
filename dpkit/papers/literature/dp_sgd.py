"""Findings on DP-SGD in libraries: noise that is too small, drawn twice, or divided by a secret."""

from itertools import combinations
from math import inf, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from dpkit.papers.claims import Code, Source, finding, of_gaussians

RHO = 1e-5  # of zero-concentrated DP, of each layer in each epoch; at delta 1e-5
LAYERS, EPOCHS, BATCH = 4, 25, 512  # of backpropagation clipping
SAID_OF_LAYERS = 0.2155966  # rho + 2 sqrt(rho ln(1 / delta)) of all layers and epochs
SHAPES = {  # of JAX's example: two convolutions and two dense layers on 28 x 28 images
    "first kernel": (8, 8, 1, 16),
    "first bias": (16,),
    "second kernel": (4, 4, 16, 32),
    "second bias": (32,),
    "third weights": (512, 32),
    "third bias": (32,),
    "fourth weights": (32, 10),
    "fourth bias": (10,),
}
CHARGED = 3.9213  # one Gaussian of noise 1.1 over all blocks, at delta 1e-5, rounded up
RECORDS, WEIGHTS, DELTA = 1_000, 1_000_000, 1e-5
SAID_BY_OPACUS = 4.7286  # RDPAccountant, noise 1, sample rate 1, one step, rounded up


def of_layers(factor: float = BATCH) -> float:
    """Exact, under add-remove, where the noise is `factor` times too small for its charge."""
    return of_gaussians(1 / sqrt(2 * RHO) / factor, LAYERS * EPOCHS)


def same_noise() -> list[tuple[str, str]]:
    """Blocks of the gradient with one key and one shape."""
    return [
        (one, other) for one, other in combinations(SHAPES, 2) if SHAPES[one] == SHAPES[other]
    ]


def of_blocks() -> float:
    """Epsilon of one step: none if two blocks share noise, as their difference has none."""
    return inf if same_noise() else of_gaussians(1.1)


def deltas(epsilons: ArrayLike, *, records: int, weights: int) -> NDArray[np.float64]:
    """Delta of noise / records against noise / (records + 1), both released with gradients of 0.

    The loss is a line in the squared norm, which is chi-square (`weights` degrees of freedom) times
    the variance: delta = P(beyond) - e^epsilon Q(beyond).
    """
    wide, narrow = 1 / records**2, 1 / (records + 1) ** 2  # variances at noise 1
    slope, start = (1 / narrow - 1 / wide) / 2, weights * log(wide / narrow) / 2
    edge = (np.asarray(epsilons) + start) / slope  # of the squared norm
    beyond = chdtrc(weights, edge / wide), chdtrc(weights, edge / narrow)
    return beyond[0] - np.exp(epsilons) * beyond[1]


def of_a_size() -> float:
    """A lower bound, under add-remove, for a record whose gradient is 0."""
    epsilons = np.linspace(0, 20, 20_001)
    return float(epsilons[deltas(epsilons, records=RECORDS, weights=WEIGHTS) > DELTA].max())


LAYERS_512 = finding(
    "backpropagation-clipping-512",
    Source(
        "Backpropagation clipping (Stevens et al. 2022), its first code",
        "uvm-plaid/backpropagation-clipping ab9e579, upstream_clipping.py:78-79,112-149, "
        "mnist_experiment.py:62-68; corrected in 270964a",
    ),
    says="Noise for input norm x gradient norm / 512, at rho 1e-5 for each of 4 layers in each "
    "of 25 epochs (batches of 512), is (.2156, 1e-5)-DP.",
    at_most=SAID_OF_LAYERS,
    tolerance=1e-6,
    compute=of_layers,
    explanation="A record's part of the gradient is clipped after the mean over the batch, so it "
    "moves the gradient by input norm times gradient norm; the noise is for that over 512. The "
    "authors corrected it within a week, and say so in their README.",
    code=Code(
        was="sensitivity = input_norm * gradient_norm / batch",
        should="sensitivity = input_norm * gradient_norm",
        cause="sensitivity",
    ),
)

JAX = finding(
    "jax-prng-reuse",
    Source(
        "JAX's example of DP-SGD (until July 2020)",
        "google/jax 166e795, examples/differentially_private_sgd.py:109-120,153-159, "
        "jax/experimental/stax.py:48-54,76-79, jax/random.py:294-307; pull request 3646",
    ),
    says="Noise 1.1 on every block of a batch's gradient is one Gaussian of noise 1.1, which (our "
    "number, before sampling) costs epsilon 3.92 at delta 1e-5.",
    at_most=CHARGED,
    compute=of_blocks,
    explanation="All blocks of a step are drawn from one key, and two biases have 32 entries each: "
    "their noise is the same, number by number, so the difference of the two goes out without any; "
    "batches of .4 % of the records do not hide that at delta 1e-5. JAX's developers repaired it: "
    "one key a block.",
    code=Code(
        was="noise = [normal(key, b) for b in shapes]",
        should="keys = split(key, len(shapes))\n"
        "noise = [normal(k, b) for k, b in zip(keys, shapes)]",
        cause="noise",
    ),
)

OPACUS = finding(
    "opacus-batch-size-from-n",
    Source(
        "Opacus",
        "meta-pytorch/opacus 4d0ebc8, opacus/privacy_engine.py:408-409, "
        "opacus/optimizers/optimizer.py:495-497, opacus/accountants/rdp.py:22; issues 571 and 819, "
        "both open",
    ),
    says="One step of noise 1 on a whole data set, its noisy sum divided by the number of records, "
    "has epsilon 4.73 under add-remove.",
    at_most=SAID_BY_OPACUS,
    compute=of_a_size,
    explanation="The size of the noise "
    "tells 1,000 records from 1,001: over a million weights it shows an epsilon of 6.59 for a "
    "record whose gradient is 0. Where the number of records is public, nothing is lost by it.",
    code=Code(
        was="size = int(len(data) * rate)\ngradient = (total + noise) / size",
        should="gradient = (total + noise) / public_size",
        cause="uncharged",
    ),
)

"""Backpropagation clipping's first code: a sensitivity divided by the batch size."""

import math

from dpkit.papers.claims import Code, Source, finding
from dpkit.privacy import Gaussian, Release, gdp

RHO = 1e-5  # of zero-concentrated DP, of each layer in each epoch
LAYERS, EPOCHS, BATCH = 4, 25, 512
DELTA = 1e-5
SAID = 0.2155966  # rho + 2 sqrt(rho ln(1 / DELTA)) of all layers and epochs


def epsilon(factor: float = BATCH) -> float:
    """Exact, under add-remove, where the noise is `factor` times too small for its charge."""
    release = Release(Gaussian(1 / math.sqrt(2 * RHO) / factor), LAYERS * EPOCHS)
    return gdp.epsilon([release], delta=DELTA).epsilon


CLAIM = finding(
    "backpropagation-clipping-512",
    Source(
        "Backpropagation clipping (Stevens et al. 2022), its first code",
        "uvm-plaid/backpropagation-clipping ab9e579, upstream_clipping.py:78-79,112-149, "
        "mnist_experiment.py:62-68; corrected in 270964a",
    ),
    says="Noise for input norm x gradient norm / 512, at rho 1e-5 for each of 4 layers in each "
    "of 25 epochs (batches of 512), is (.2156, 1e-5)-DP.",
    at_most=SAID,
    tolerance=1e-6,
    compute=epsilon,
    explanation="A record's part of the gradient is clipped after the mean over the batch, so it "
    "moves the gradient by input norm times gradient norm; the noise is for that over 512. The "
    "authors corrected it within a week, and say so in their README.",
    code=Code(
        was="sensitivity = input_norm * gradient_norm / batch",
        should="sensitivity = input_norm * gradient_norm",
        cause="sensitivity",
    ),
)

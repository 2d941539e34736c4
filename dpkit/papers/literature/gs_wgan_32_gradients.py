"""GS-WGAN's published run: 32 gradients of one critic in one release."""

import math

from dpkit.papers.claims import Code, Source, finding, of_poisson_batches

NOISE, CRITICS, STEPS, BATCH = 1.07, 1000, 20_000, 32  # its defaults
SAID = 9.992624  # its script's formula at its defaults


def epsilon(batch: int = BATCH, *, noise: float = NOISE, delta: float = 1e-5) -> float:
    """Certified epsilon, with a critic's choice read as a Poisson sample; add-remove.

    Args:
        batch: gradients in a release, each of which a record of the critic's part moves in full.
        noise, delta: of the run.
    """
    one = noise / math.sqrt(batch)
    return of_poisson_batches(one, 1 / CRITICS, STEPS, delta=delta, gap=0.01)


CLAIM = finding(
    "gs-wgan-32-gradients",
    Source(
        "GS-WGAN (Chen, Orekondy, Fritz 2020)",
        "DingfanChen/GS-WGAN 62e77b3, source/main.py:82-113,239-249,262,306-323, "
        "source/config.py:14-24, evaluation/privacy_analysis.py:10-21; issues 11 and 12",
    ),
    says="The default run on MNIST is (9.99, 1e-5)-DP, by the repository's script.",
    at_most=SAID,
    tolerance=1e-6,
    compute=epsilon,
    explanation="A step releases the gradients of 32 images (28 on every second visit to a critic, "
    "whose part has 60 records), all of the one critic that was drawn, and a record of its part "
    "can sway them all. They are charged as if a critic were drawn anew for each; as one release "
    "the noise multiplier is 1.07 / sqrt(32) = .189, priced here as if at every step; with 28 it "
    "fails too. The choice of a critic is read as Poisson sampling, under add-remove.",
    code=Code(
        was="charge(SampledGaussian(z, q), steps * batch)",
        should="charge(SampledGaussian(z / sqrt(batch), q), steps)",
        cause="accounting",
    ),
)

"""Findings on GS-WGAN, whose gradients of a step all come from one critic."""

import math
from functools import partial

from dpkit.papers.claims import Code, Source, finding, of_gaussians, of_poisson_batches

CRITICS, STEPS, BATCH = 1000, 20_000, 32  # its defaults
SAID = 9.992624  # its script's formula at its defaults
NOISE = 0.4834747  # of as many critics, steps and images a step in DPImageBench
DELTA = 1.66575e-6  # 1 / (N ln N) of 55,000 records, as its log has it


def of_run(batch: int = BATCH, *, noise: float = 1.07, delta: float = 1e-5) -> float:
    """Certified epsilon, with a critic's choice read as a Poisson sample; add-remove.

    Args:
        batch: gradients in a release, each of which a record of the critic's part moves in full.
        noise, delta: of the run; by default those of the repository.
    """
    one = noise / math.sqrt(batch)
    return of_poisson_batches(one, 1 / CRITICS, STEPS, delta=delta, gap=0.01)


of_bench = partial(of_run, noise=NOISE, delta=DELTA)

GRADIENTS = finding(
    "gs-wgan-32-gradients",
    Source(
        "GS-WGAN (Chen, Orekondy, Fritz 2020)",
        "DingfanChen/GS-WGAN 62e77b3, source/main.py:82-113,239-249,262,306-323, "
        "source/config.py:14-24, evaluation/privacy_analysis.py:10-21; issues 11 and 12",
    ),
    says="The default run on MNIST is (9.99, 1e-5)-DP, by the repository's script.",
    at_most=SAID,
    tolerance=1e-6,
    compute=of_run,
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

# of a record in the last critic's part, which moves each gradient of a release in full; add-remove
LEFT_OVER = finding(
    "gs-wgan-left-over-index",
    Source(
        "DPImageBench's GS-WGAN",
        "2019ChenGong/DPImageBench 565f8d7, models/gs_wgan.py:397-407,432-437, "
        "configs/GS-WGAN/mnist_28_eps10.0.yaml:69-80, "
        "training_demo/GS-WGAN/mnist_28_eps10.0.txt:2-4",
    ),
    says="A record sways one critic of 1,000, so the run is (10, 1.67e-6)-DP for each record.",
    at_most=10.0,
    compute=lambda: of_gaussians(NOISE / math.sqrt(BATCH), STEPS, delta=DELTA),
    explanation="The loop that loads the warmed-up critics counts with i and reads the index that "
    "the loop before it left over, 999: all start from the last critic. Its 55 records sway every "
    "step, and sampling protects them no more. The code it is taken from loads each its own.",
    code=Code(
        was="for i in critics: critics[i] = load(left_over)",
        should="for i in critics: critics[i] = load(i)",
        cause="sampling",
    ),
)

ONCE = finding(
    "gs-wgan-once-a-step",
    Source(
        "DPImageBench's GS-WGAN",
        "2019ChenGong/DPImageBench 565f8d7, models/gs_wgan.py:367-377,432-437,445-447,501-512,"
        "640-671, data/dataset_loader.py:277-281, "
        "configs/GS-WGAN/mnist_28_eps10.0.yaml:69-80, "
        "training_demo/GS-WGAN/mnist_28_eps10.0.txt:2-4",
    ),
    says="Noise .483 for 20,000 steps with 1,000 critics is (10, 1.67e-6)-DP.",
    at_most=10.0,
    compute=of_bench,
    explanation="The noise is chosen for one sampled release a step, and a step releases the "
    "gradients of 32 images (23 on every second visit to a critic, whose part has 55 records), "
    "each clipped and noised by itself. A record of the part can sway all of them, so the noise "
    "multiplier is .483 / sqrt(32) = .085, priced here as if at every step; with 23 it fails too. "
    "The choice of a critic is read as Poisson sampling, under add-remove.",
    code=Code(
        was="noise = calibrate(q, steps)",
        should="noise = calibrate(q, steps) * sqrt(batch)",
        cause="accounting",
    ),
)

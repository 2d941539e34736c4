"""GS-WGAN in DPImageBench: noise for one gradient a step."""

from functools import partial

from dpkit.papers.claims import Code, Source, finding
from dpkit.papers.literature import gs_wgan_32_gradients

NOISE = 0.4834747  # of as many critics, steps and images a step as there
DELTA = 1.66575e-6  # 1 / (N ln N) of 55,000 records, as its log has it
epsilon = partial(gs_wgan_32_gradients.epsilon, noise=NOISE, delta=DELTA)
CLAIM = finding(
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
    compute=epsilon,
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

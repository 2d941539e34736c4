"""GS-WGAN in DPImageBench: all critics start from the last one."""

import math

from dpkit.papers.claims import Code, Source, finding
from dpkit.papers.literature.gs_wgan_32_gradients import BATCH, STEPS
from dpkit.papers.literature.gs_wgan_once_a_step import DELTA, NOISE
from dpkit.privacy import Gaussian, Release, gdp


def epsilon(batch: int = BATCH) -> float:
    """Exact epsilon of a record in the last critic's part, which sways every step; add-remove.

    Args:
        batch: gradients in a release, each of which such a record moves in full.
    """
    release = Release(Gaussian(NOISE / math.sqrt(batch)), STEPS)
    return gdp.epsilon([release], delta=DELTA).epsilon


CLAIM = finding(
    "gs-wgan-left-over-index",
    Source(
        "DPImageBench's GS-WGAN",
        "2019ChenGong/DPImageBench 565f8d7, models/gs_wgan.py:397-407,432-437, "
        "configs/GS-WGAN/mnist_28_eps10.0.yaml:69-80, "
        "training_demo/GS-WGAN/mnist_28_eps10.0.txt:2-4",
    ),
    says="A record sways one critic of 1,000, so the run is (10, 1.67e-6)-DP for each record.",
    at_most=10.0,
    compute=epsilon,
    explanation="The loop that loads the warmed-up critics counts with i and reads the index that "
    "the loop before it left over, 999: all start from the last critic. Its 55 records sway every "
    "step, and sampling protects them no more. The code it is taken from loads each its own.",
    code=Code(
        was="for i in critics: critics[i] = load(left_over)",
        should="for i in critics: critics[i] = load(i)",
        cause="sampling",
    ),
)

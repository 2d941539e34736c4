"""An attack on the made-up paper's run, by one record whose gradient every clip cuts."""

from dataclasses import replace

import torch
from dpkit.papers.sixth.algorithm import new_gan, step
from dpkit.papers.sixth.claims import LEDGER
from dpkit.papers.sixth.settings import PUBLIC_SIZE, SETTINGS

from dpkit.audit import runs
from dpkit.audit.scores import Scores
from dpkit.audit.training.white_box import Batch, once, shift
from dpkit.papers.targets.target import Target
from dpkit.privacy import pld

RATE = SETTINGS.sampling.expected_batch_size / PUBLIC_SIZE


def scores(rng, trials: int) -> Scores:
    """Likelihood ratios of whole runs, at the shift that one step shows."""
    images, labels = torch.full((9, 784), 0.5), torch.zeros(9, dtype=torch.int64)
    images[8] = 1000.0
    worlds = (Batch(images[:8], labels[:8]), Batch(images, labels))

    def gan():
        return new_gan(SETTINGS, seed=0, device=torch.device("cpu"))

    absent, present = (once(step, gan, world, settings=SETTINGS) for world in worlds)
    shown = shift(absent, present)
    return runs.poisson(rng, trials, shift=shown, rate=RATE, steps=SETTINGS.max_steps)


PUBLISHED = Target(
    id="sixth/published",
    version="published",
    says="The run of 40 steps.",
    where="abstract",
    claimed=SETTINGS.target_epsilon,
    proven=lambda: pld.epsilon(LEDGER, delta=SETTINGS.target_delta),
    attack="White box: a record that every clip cuts.",
    scores=scores,
    trials=20_000,
)
TARGETS = (PUBLISHED, replace(PUBLISHED, id="sixth/repaired", version="repaired"))

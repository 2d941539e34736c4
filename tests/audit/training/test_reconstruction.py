"""Labels read off a generator's update, where it reads the batch's labels and where it does not."""

from functools import partial

import numpy as np
import pytest
import torch

from dpkit.datasets import digits
from dpkit.papers.dp_cgan import algorithm, attacks, settings

pytestmark = pytest.mark.torch

IMAGES = digits()
FEATURES, LABELS = torch.from_numpy(IMAGES.flat()), torch.from_numpy(IMAGES.labels)


def answers(run: settings.DpCganSettings) -> attacks.Reconstructed:
    made = partial(algorithm.new_gan, run, seed=1, device=torch.device("cpu"))
    told = {"settings": run, "batch": 8, "batches": 8, "rng": np.random.default_rng(1)}
    told |= {"weights": "generator_net.body.0.weight", "columns": range(100, 110)}
    return attacks.of_step(algorithm.step, made, FEATURES, LABELS, **told)


def test_labels_of_the_batch_are_seen_where_the_generator_reads_them():
    found = answers(settings.small(settings.SETTINGS, batch_size=8, steps=5))
    assert found.share == 1
    assert found.chance < 0.7
    assert found.answers == 80


def test_labels_are_not_seen_where_the_generators_are_public():
    """80 answers, right with probability 1/2 or so: 5 deviations are 0.28."""
    found = answers(settings.small(settings.REPAIRED, batch_size=8, steps=5))
    assert found.share < found.chance + 0.28


def test_unmoved_columns_are_labels_that_were_not_seen():
    before = torch.arange(12.0).reshape(3, 4)
    after = before.clone()
    after[1, 3] += 1e-6
    after[:, 0] = 0  # a latent's, not a label's
    seen = attacks.labels_seen(before, after, columns=[1, 2, 3])
    assert seen.tolist() == [False, False, True]


def test_weights_must_fit():
    square = torch.zeros(3, 3)
    with pytest.raises(ValueError, match="of one shape, got"):
        attacks.labels_seen(square, square[:2], columns=[0])
    with pytest.raises(ValueError, match=r"columns must be below 3 inputs, got \[3\]"):
        attacks.labels_seen(square, square, columns=[3])

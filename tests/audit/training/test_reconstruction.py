"""Labels read off a generator's update, where it reads the batch's labels and where it does not."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from dpkit.audit.training import reconstruction
from dpkit.datasets import digits
from dpkit.papers.dp_cgan import algorithm, settings
from dpkit.training import Conditional, called_real, generator_on, mlp

pytestmark = pytest.mark.torch

IMAGES = digits()
FEATURES, LABELS = torch.from_numpy(IMAGES.flat()), torch.from_numpy(IMAGES.labels)
CLASSES, LATENT = 10, 16
COLUMNS = range(100, 110)


def answers(run: settings.Settings) -> reconstruction.Reconstructed:
    return reconstruction.of_step(
        algorithm.step,
        partial(algorithm.new_gan, run, seed=1, device=torch.device("cpu")),
        FEATURES,
        LABELS,
        settings=run,
        weights="generator_net.body.0.weight",
        columns=COLUMNS,
        batch=8,
        batches=25,
        rng=np.random.default_rng(1),
    )


def test_labels_of_the_batch_are_seen_where_the_generator_reads_them():
    found = answers(settings.small(settings.SETTINGS, batch_size=8, steps=5))
    assert found.share == 1
    assert found.chance < 0.7
    assert found.answers == 250


def test_labels_are_not_seen_where_the_generators_are_public():
    """250 answers, right with probability 1/2 or so: 5 deviations are 0.16."""
    found = answers(settings.small(settings.REPAIRED, batch_size=8, steps=5))
    assert found.share < found.chance + 0.16


def test_unmoved_columns_are_labels_that_were_not_seen():
    before = torch.arange(12.0).reshape(3, 4)
    after = before.clone()
    after[1, 3] += 1e-6
    after[:, 0] = 0  # a latent's, not a label's
    seen = reconstruction.labels_seen(before, after, columns=[1, 2, 3])
    assert seen.tolist() == [False, False, True]


def nets(seed: int) -> tuple[torch.Generator, nn.Module, nn.Module]:
    rng = generator_on(torch.device("cpu"), reproducible_seed=seed)
    generator = mlp((LATENT + CLASSES, 64, 20), last=None, rng=rng)
    critic = mlp((20 + CLASSES, 64, 1), last=None, rng=rng)
    return rng, Conditional(generator, classes=CLASSES), Conditional(critic, classes=CLASSES)


def gradient(
    rng: torch.Generator, generator: nn.Module, critic: nn.Module, labels: torch.Tensor
) -> np.ndarray:
    """Of the generator's mean loss."""
    made = generator(torch.randn(len(labels), LATENT, generator=rng), labels)
    loss = called_real(critic(made, labels)).mean()
    found = torch.autograd.grad(loss, list(generator.parameters()))
    return torch.cat([part.ravel() for part in found]).numpy()


def test_counts_are_found_by_least_squares():
    """Of 80 examples less than a quarter are put under a wrong label, 9 of them on average here.

    To guess 8 of each label puts 43 there.
    """
    counts = np.array([0, 0, 30, 4, 0, 12, 1, 9, 0, 24])
    labels = torch.from_numpy(np.repeat(np.arange(CLASSES), counts))
    misplaced = []
    for seed in range(4):
        own = nets(seed)
        each = [gradient(*own, torch.full((2000,), label)) for label in range(CLASSES)]
        found = reconstruction.label_counts(gradient(*own, labels), each, batch=80)
        assert found.sum() == pytest.approx(80)
        misplaced.append(np.abs(found - counts).sum() / 2)
    assert np.mean(misplaced) < 20


def test_a_gradient_of_nothing_says_nothing():
    found = reconstruction.label_counts(np.zeros(5), np.ones((4, 5)), batch=8)
    np.testing.assert_allclose(found, 2)


def test_weights_must_fit():
    square = torch.zeros(3, 3)
    with pytest.raises(ValueError, match="of one shape, got"):
        reconstruction.labels_seen(square, square[:2], columns=[0])
    with pytest.raises(ValueError, match=r"columns must be below 3 inputs, got \[3\]"):
        reconstruction.labels_seen(square, square, columns=[3])
    with pytest.raises(ValueError, match=r"per_label must be \(labels, numbers\)"):
        reconstruction.label_counts(np.zeros(3), np.zeros((2, 4)), batch=1)
    with pytest.raises(ValueError, match="must be finite"):
        reconstruction.label_counts(np.full(3, np.nan), np.zeros((2, 3)), batch=1)

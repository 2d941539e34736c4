"""Attacks on generators: right where one copies records, empty-handed where one is private."""

import numpy as np
import pytest
import torch
from torch import nn

from dpkit.audit import bounds
from dpkit.audit.training import generators
from dpkit.audit.training.canaries import first_digits

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def trained() -> generators.Trained:
    rng = np.random.default_rng(1)
    return generators.on_half(rng, 400, epsilon=8, steps=10, images=first_digits(700))


def test_a_run_trains_on_half_the_candidates(trained):
    """Coins: 400 of them are within 5 deviations, 50, of 200 but once in 10^6 runs."""
    assert abs(trained.included.sum() - 200) < 50
    assert (trained.features.shape, trained.reference[0].shape) == ((400, 784), (300, 784))
    assert trained.plan.public_size == 400
    assert 7.9 < trained.plan.guarantee().epsilon <= 8


def test_a_private_run_shows_nothing(trained):
    """Each fails by chance in at most 5 % of seeds."""
    rng = np.random.default_rng(2)
    near = generators.nearest_scores(rng, trained, samples=300)
    for scores in (near, generators.critic_scores(trained)):
        assert scores.present.size == trained.included.sum()
        asked = {"delta": 1e-5, "adjacency": "add-remove", "rng": rng}
        assert bounds.clopper_pearson(*scores, **asked).epsilon == 0


class Copies(nn.Module):
    """A generator that gives a random record of the wanted label, out of those it was shown."""

    def __init__(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        super().__init__()
        self.features, self.labels = features, labels

    def forward(self, latents: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        scores = (latents @ torch.ones(latents.shape[1], 1)).frac().abs()
        rows = [self.features[self.labels == label] for label in wanted.tolist()]
        picks = (scores.squeeze(1) * torch.tensor([len(row) for row in rows])).long().tolist()
        return torch.stack([row[pick] for row, pick in zip(rows, picks, strict=True)])


def test_copied_records_are_found(trained):
    chosen = torch.from_numpy(trained.included)
    copies = Copies(trained.features[chosen], trained.labels[chosen])
    rng = np.random.default_rng(3)
    scores = generators.nearest_scores(rng, trained._replace(generator=copies), samples=3000)
    assert np.median(scores.present) > np.quantile(scores.absent, 0.9)


def test_nearest_looks_among_those_of_a_records_label():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
    y = torch.tensor([0, 1, 2])
    others = torch.tensor([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]]), torch.tensor([0, 1, 1])
    distances = generators.nearest((x, y), others)
    # the third's label is not among the others': the nearest of all
    np.testing.assert_allclose(distances, [5, 5, np.sqrt(2)], atol=1e-6)


def test_candidates_must_leave_a_reference():
    with pytest.raises(ValueError, match="records must be below the 40 images, got 40"):
        generators.on_half(np.random.default_rng(0), 40, epsilon=8, images=first_digits(40))

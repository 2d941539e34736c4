"""Adam's two averages are refused before a run begins where they make none."""

import pytest
from torch import nn

from dpkit.private import PrivateGan
from dpkit.private.plan import gan_settings

pytestmark = pytest.mark.torch


def settings_with(betas):
    gan = PrivateGan(nn.Linear(1, 1), nn.Linear(1, 1), epsilon=8, delta=1e-5, betas=betas)
    return gan_settings(gan, records=2000, steps=5)


@pytest.mark.parametrize("betas", [(0.5, 0.9), [0, 0.999]])
def test_betas_below_one_are_taken(betas):
    assert settings_with(betas).critic_optimizer.betas == tuple(betas)


@pytest.mark.parametrize(
    ("betas", "words"),
    [
        ((0.5, 1.0), r"betas must lie in \[0, 1\), such as \(0.5, 0.9\), got \(0.5, 1.0\)"),
        ((1, 0.9), r"betas must lie in \[0, 1\)"),
        ((-0.1, 0.9), r"betas\[0\] must be a finite number >= 0"),
        ((0.5, float("nan")), r"betas\[1\] must be a finite number >= 0"),
        (("a", 0.9), r"betas\[0\] must be a number"),
        (0.5, "betas must be two numbers"),
    ],
)
def test_other_betas_are_refused(betas, words):
    with pytest.raises(ValueError, match=words):
        settings_with(betas)

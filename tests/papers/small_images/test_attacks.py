"""Attacks on the paper's runs and the prior work's: how far a record moves, and what follows."""

import numpy as np
import pytest

from dpkit.audit.scores import Scores
from dpkit.papers.small_images import FIGURE_2, REPAIRED, SETTINGS, attacks, claims
from dpkit.papers.small_images.attacks import Repeated
from dpkit.papers.small_images.prior_work import BeaulieuJones

pytestmark = pytest.mark.torch


def test_a_white_image_moves_a_step_by_its_clip_norm_and_a_long_gradient_a_clipped_mean_by_two():
    for settings in (SETTINGS, FIGURE_2[1.0], REPAIRED):
        assert attacks.shift(settings) * settings.noise_multiplier == pytest.approx(1, rel=1e-4)
    for run in (BeaulieuJones(), attacks.BATCH_OF_100, attacks.SQUARED):
        assert attacks.clipped_mean_shift(run) * run.true_noise_multiplier == pytest.approx(1)


def answers(rng, trials):
    """Randomised response: right in three of four cases."""
    worlds = (rng.random(trials) < right for right in (0.25, 0.75))
    return [world.astype(float) for world in worlds]


@pytest.mark.parametrize("times", [1, 5, 40])
def test_repeated_parts_show_at_most_what_they_cost(times):
    """Pure epsilon log 3 a part. One bound in 20 may fail: of 200, 26 do so in 1 of 10^5 cases."""
    rng, bound = np.random.default_rng(5), Repeated(times)
    found = [
        bound(*answers(rng, 500), delta=1e-9, adjacency="replace-one", rng=rng).epsilon
        for _ in range(200)
    ]
    assert sum(one > times * np.log(3) for one in found) < 26
    assert np.mean(found) > 0.4 * times * np.log(3)


def test_what_repeated_parts_show_is_the_binomial_distributions():
    """With many scores the limits are the rates: 3 of 3 right, 27 / 64 against 1 / 64."""
    rng = np.random.default_rng(6)
    scores = Scores(*answers(rng, 10**6))
    shown = Repeated(3).shown(scores, np.array([0.5]), delta=1e-9, confidence=0.95)
    exact = np.log([(63 / 64) / (37 / 64), (54 / 64) / (10 / 64), 27])
    assert shown == pytest.approx(exact[None], rel=0.01)  # the limits are 2 errors of 0.0004 off
    assert (shown < exact).all()


def test_what_is_said_of_the_published_run_is_its_claim():
    (published,) = (one for one in attacks.TARGETS if one.id == "small_images/published")
    assert published.said == claims.main_run().claimed

"""The targets of training: what is proven, and scores of as many trials as are asked for."""

import numpy as np
import pytest

from dpkit.papers.targets import trained

pytestmark = pytest.mark.torch

ONE_RUN = [target for target in trained.TARGETS if not target.independent]
MANY_RUNS = [target for target in trained.TARGETS if target.independent]


@pytest.mark.parametrize("target", trained.TARGETS, ids=lambda target: target.id)
def test_what_is_proven_is_at_most_what_was_asked_for(target):
    proven = target.proven()
    asked = target.settings["asked_epsilon"]
    assert 0.99 * asked <= proven.epsilon <= asked


@pytest.mark.parametrize("target", MANY_RUNS, ids=lambda target: target.id)
def test_runs_are_as_many_as_asked_for_in_each_world(target):
    scores = target.scores(np.random.default_rng(1), 2)
    assert [world.size for world in scores] == [2, 2]


@pytest.mark.parametrize(
    "target",
    [
        ONE_RUN[0],
        pytest.param(
            ONE_RUN[1], marks=pytest.mark.slow("random canaries of the target miscounted")
        ),
    ],
    ids=lambda target: target.id,
)
def test_canaries_are_as_many_as_asked_for_in_both_worlds(target):
    """Coins: within 5 deviations, 50, of half but once in 10^6 runs."""
    scores = target.scores(np.random.default_rng(2), 200)
    assert sum(world.size for world in scores) == 400
    assert abs(scores.present.size - 200) < 50
    assert scores.present.mean() > scores.absent.mean()

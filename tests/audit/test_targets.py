"""Targets of training and of baselines' releases: what is proven, and scores as asked for.

Of baselines' releases nothing above what is proven is found, and much of it is.
"""

import numpy as np
import pytest
from curves import SURE

from dpkit.audit.one_run import one_run
from dpkit.papers.targets import releases, trained

pytestmark = pytest.mark.torch

RELEASES = releases.TARGETS
NOISE = {
    "baselines/class-moments": releases.moments_settings,
    "baselines/random-features": releases.features_settings,
    "baselines/marginals": releases.marginals_settings,
}
MANY_RUNS = [target for target in trained.TARGETS if target.bound is not one_run]
CANARIES = [*RELEASES, *trained.TARGETS[:1]]
LITTLE = pytest.mark.slow("random features that show more than is proven, or little")


def each(targets, slow=(), mark=()):
    """The targets as parameters; those whose place is listed are slow."""
    marked = enumerate(targets)
    params = [pytest.param(t, id=t.id, marks=mark if i in slow else ()) for i, t in marked]
    return pytest.mark.parametrize("target", params)


@each([*RELEASES, *trained.TARGETS])
def test_what_is_proven_is_the_price_of_what_was_asked_for(target):
    asked = target.settings["asked_epsilon"]
    assert 0.99 * asked <= target.proven().epsilon <= asked
    assert asked == 8


@each(RELEASES, slow=[1], mark=LITTLE)
def test_one_run_finds_much_and_no_more_than_is_proven(target):
    """Three runs of 3,000 canaries, each above what is proven with probability 1e-9 at most.

    At 95 % 12 runs found 2.69 to 3.98 of the moments, 2.55 to 3.64 of random features, 2.66 to 3.50
    of marginals, deviation 0.37: if normal, a median of three below 2 has probability 2e-5.
    """
    asked = {"delta": target.delta, "adjacency": target.adjacency}
    found = []
    for seed in range(3):
        rng = np.random.default_rng([seed, 7])
        scores = target.scores(rng, 1500)
        assert one_run(*scores, **asked, confidence=SURE, rng=rng).epsilon <= 8
        found.append(one_run(*scores, **asked, rng=rng).epsilon)
    assert np.median(found) >= 2


@each(CANARIES)
def test_canaries_are_as_many_as_asked_for_and_stand_apart_as_their_noise_says(target):
    """Without a canary its score is noise, with it that and one: deviations by the target's own.

    Coins are within 5 deviations, 50, of half but once in 10^6 runs.
    """
    absent, present = target.scores(np.random.default_rng(2), 200)
    assert absent.size + present.size == 400
    assert abs(present.size - 200) < 50
    assert present.mean() > absent.mean()
    if target in RELEASES:
        assert absent.std() == pytest.approx(NOISE[target.id]().noise_multiplier, rel=0.3)
        assert present.mean() - absent.mean() == pytest.approx(1, abs=0.4)


@each(MANY_RUNS)
def test_runs_are_as_many_as_asked_for_in_each_world(target):
    scores = target.scores(np.random.default_rng(1), 2)
    assert [world.size for world in scores] == [2, 2]

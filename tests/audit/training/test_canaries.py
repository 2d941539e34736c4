"""Canaries in runs of Private: their gradients, what theory says of their scores, and bounds."""

from functools import partial

import numpy as np
import pytest

from dpkit.audit import bounds, one_run
from dpkit.audit.one_run import coins
from dpkit.audit.training import canaries
from dpkit.audit.training.canaries import first_digits
from dpkit.private.plan import calibrated
from dpkit.training.noise import watched

pytestmark = pytest.mark.torch

FEW = first_digits(50)
ASKED = {"delta": 1e-5, "adjacency": "add-remove"}
SMALL = pytest.mark.slow("more found than is proven at a small epsilon")


def noise_times(share, sums, stds, noised):
    return [total + share * (noisy - total) for total, noisy in zip(sums, noised, strict=True)]


without_noise, halved = partial(noise_times, 0), partial(noise_times, 0.5)


@pytest.mark.parametrize("norm", [0.1, 1.0, 5.0])
def test_a_dirac_canarys_clipped_gradient_is_c_along_its_weight(norm):
    rng = np.random.default_rng(1)
    asked = {"epsilon": 8, "steps": 6, "rate": 0.5, "max_grad_norm": norm, "images": FEW}
    with watched(without_noise):
        seen = canaries.dirac(rng, coins(rng, 200), **asked)
    drawn = seen.sums[:, seen.included]
    np.testing.assert_allclose(drawn, drawn.round(), atol=1e-5)  # 0 or 1, in units of C
    assert set(drawn.round().ravel()) == {0.0, 1.0}
    np.testing.assert_allclose(seen.sums[:, ~seen.included], 0, atol=1e-5)


def test_sums_have_the_mean_and_variance_that_theory_says():
    """Within 5 standard errors: a false alarm in fewer than 1 of 10^5 runs."""
    rng, steps, rate = np.random.default_rng(3), 8, 0.5
    seen = canaries.dirac(rng, coins(rng, 1500), epsilon=8, steps=steps, rate=rate, images=FEW)
    noise = steps * seen.plan.noise_multiplier**2
    rate = seen.plan.batch_size / seen.plan.public_size
    scores = canaries.final_scores(seen)
    mixed = steps * rate * (1 - rate)
    for world, mean, var in zip(scores, (0, steps * rate), (noise, noise + mixed), strict=True):
        assert world.mean() == pytest.approx(mean, abs=5 * np.sqrt(var / world.size))
        assert world.var() == pytest.approx(var, rel=5 * np.sqrt(2 / world.size))


def test_mean_of_the_likelihood_ratio_is_one():
    """Without the canary; within 5 standard errors."""
    rng = np.random.default_rng(4)
    seen = canaries.dirac(rng, coins(rng, 4000), epsilon=3, steps=4, rate=0.5, images=FEW)
    ratios = np.exp(canaries.release_scores(seen).absent)
    assert ratios.mean() == pytest.approx(1, abs=5 * ratios.std() / np.sqrt(ratios.size))
    assert canaries.release_scores(seen).present.mean() > 0


@pytest.mark.parametrize("epsilon", [4.0, pytest.param(1.0, marks=SMALL)])
def test_one_run_finds_no_more_than_is_proven(epsilon):
    """Each bound fails by chance in at most 5 % of seeds; on average one_run finds a third."""
    rng = np.random.default_rng(5)
    seen = canaries.dirac(rng, coins(rng, 3000), epsilon=epsilon, steps=2, rate=1.0, images=FEW)
    for bound in (one_run.one_run, one_run.one_run_fdp):
        found = bound(*canaries.release_scores(seen), **ASKED, rng=rng).epsilon
        assert 0 < found <= seen.plan.guarantee().epsilon


@pytest.mark.parametrize("left_out", [False, True])
def test_nothing_is_found_under_noise_far_too_large_or_of_canaries_that_were_all_left_out(left_out):
    """Coins that decided nothing: by chance more than 0 in at most 5 % of seeds, for each bound."""
    rng = np.random.default_rng(11)
    tossed, asked = coins(rng, 2000), {"steps": 2, "rate": 1.0, "images": FEW}
    epsilon = 8 if left_out else 0.01
    seen = canaries.dirac(rng, tossed & (not left_out), epsilon=epsilon, **asked)
    scores = canaries.final_scores(seen._replace(included=tossed))
    for bound in (one_run.one_run, one_run.one_run_fdp):
        assert bound(*scores, **ASKED, rng=rng).epsilon == 0


def test_half_the_noise_that_is_charged_is_caught():
    """mu is 1 instead of 0.5, epsilon 4.4 instead of 2, of which 20,000 canaries show 2.4 or so."""
    rng = np.random.default_rng(7)
    with watched(halved):
        seen = canaries.dirac(rng, coins(rng, 20_000), epsilon=2, steps=1, rate=1.0, images=FEW)
    found = one_run.one_run(*canaries.release_scores(seen), **ASKED, rng=rng)
    assert found.epsilon > seen.plan.guarantee().epsilon


def alone(epsilon: float):
    """The plan of one step on all of FEW's 50 records and a canary."""
    return calibrated(epsilon, delta=1e-5, steps=1, batch_size=51, records=51)


@pytest.mark.slow("noise of many runs with one canary that is off by a fifth")
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_many_runs_with_one_canary_show_the_noise(share):
    """mu is 1 / noise multiplier, twice that under half the noise: within 5 standard errors."""
    rng, plan = np.random.default_rng(8), alone(8)
    ideal = 1 / plan.noise_multiplier
    with watched(partial(noise_times, share)):
        absent, present = canaries.one_canary(rng, 400, plan=plan, images=FEW)
    assert (absent.size, present.size) == (400, 400)
    shift = present.mean() - absent.mean()
    noise = ideal * share  # of a log ratio
    assert shift == pytest.approx(ideal**2, abs=5 * noise * np.sqrt(2 / 400))
    for world in (absent, present):
        assert world.std() == pytest.approx(noise, rel=5 / np.sqrt(2 * 400))


def test_many_runs_with_one_canary_catch_half_the_noise():
    """mu is 1.85 instead of 0.93: epsilon 9 instead of 4; less is found in 1 of 1,000 seeds."""
    rng, plan = np.random.default_rng(9), alone(4)
    with watched(halved):
        scores = canaries.one_canary(rng, 200, plan=plan, images=FEW)
    assert bounds.gaussian(*scores, **ASKED, rng=rng).epsilon > plan.guarantee().epsilon


def test_runs_repeat_from_their_rng():
    asked = {"epsilon": 8, "steps": 2, "images": FEW}
    rngs = (np.random.default_rng(9) for _ in range(2))
    first, again = (canaries.dirac(rng, [True, False], **asked).sums for rng in rngs)
    np.testing.assert_allclose(first, again, rtol=1e-5)


@pytest.mark.parametrize("bad", [[], [0.5], [[True]], 3])
def test_included_must_be_bools(bad):
    with pytest.raises(ValueError, match=r"included must hold a bool .* one_run.coins"):
        canaries.dirac(np.random.default_rng(0), bad, epsilon=8)

"""Settings and ledgers of small_images: what the paper ran, what that guarantees, what was charged.

Peers and closed forms are the oracles of every price.
"""

from dataclasses import replace
from math import inf, log, sqrt

import pytest
from refusals import refused

from dpkit.papers import small_images as paper
from dpkit.papers.small_images import settings
from dpkit.papers.small_images.settings import DIGITS_SIZE, ORDERS, PUBLIC_SIZE
from dpkit.privacy import Gaussian, SampledGaussian, Unsupported, rdp
from dpkit.privacy.clipping import FlatClipping, Unclipped
from dpkit.privacy.sampling import SHUFFLED_AS_POISSON, PoissonSampling, ShuffledBatches

RATE = 128 / 60_000
STEPS = 18_760


def test_published_settings_are_the_papers():
    run = paper.SETTINGS
    assert (run.penalty_weight, run.critic_steps, run.latent_size) == (10.0, 1, 128)
    assert (run.noise_multiplier, run.clipping, run.capacity) == (0.5, FlatClipping(1.0), 32)
    assert run.sampling == ShuffledBatches(128)
    assert (run.target_delta, run.target_epsilon) == (1e-5, None)
    for decay in (None, 0, 0.999):
        assert replace(run, generator_decay=decay).generator_decay == decay
    assert run.critic_optimizer.rate(0) == run.generator_optimizer.rate(9) == 128 * 3.125e-6
    assert run.critic_optimizer.betas == run.generator_optimizer.betas == (0.5, 0.9)
    assert run.steps_allowed(public_size=PUBLIC_SIZE) == STEPS == 40 * -(-60_000 // 128)
    (charged,) = run.claimed_ledger(public_size=PUBLIC_SIZE)  # peers price it in test_claims.py
    assert charged.count == STEPS
    assert SHUFFLED_AS_POISSON in charged.mechanism.assumptions
    assert (len(ORDERS), ORDERS[0], ORDERS[9:11]) == (72, 1.25, (4.5, 5))
    assert ORDERS[-4:] == (63, 128, 256, 512)


def test_each_figure_varies_one_thing():
    for name, figure, values in (
        ("clipping", paper.FIGURE_1, [FlatClipping(norm) for norm in (0.1, 1.0, 100.0)]),
        ("noise_multiplier", paper.FIGURE_2, [0.5, 0.8, 0.9, 1.0]),
        ("capacity", paper.FIGURE_3, [16, 32, 96, 128]),
    ):
        assert [getattr(one, name) for one in figure.values()] == values
        for one in figure.values():
            assert replace(one, **{name: getattr(paper.SETTINGS, name)}) == paper.SETTINGS
        assert paper.SETTINGS in figure.values()
    assert [one.noise_std for one in paper.FIGURE_1.values()] == [0.05, 0.5, 50.0]  # noise is z C
    assert paper.NON_PRIVATE.noise_std == 0
    # what a sum is divided by says nothing of who was drawn
    assert [paper.SETTINGS.divisor(96), paper.REPAIRED.divisor(96)] == [96, 128]
    assert paper.REPAIRED.divisor(0) == 128


def test_shuffled_batches_cost_one_gaussian_release_a_pass():
    """41 passes begin in 18,760 batches of 128; each is a Gaussian whose sum moves by 2C."""
    ledger = paper.SETTINGS.ledger(public_size=PUBLIC_SIZE)
    wanted = [(Gaussian(0.5, "replace-one"), 41)]
    assert [(one.mechanism.one, one.count) for one in ledger] == wanted
    rho = 41 * (2 / 0.5) ** 2 / 2
    wanted = rho + 2 * sqrt(rho * log(1e5))  # the least of alpha rho + log(1/delta) / (alpha - 1)
    found = rdp.epsilon(ledger, delta=1e-5, conversion="classic").epsilon
    assert found == pytest.approx(wanted, rel=1e-6)
    batches = PUBLIC_SIZE // 128
    for steps, passes in ((1, 1), (batches, 1), (batches + 1, 2), (0, 0)):
        assert paper.SETTINGS.ledger(public_size=PUBLIC_SIZE, steps=steps)[0].count == passes


def test_what_is_not_noised_has_no_finite_price_and_a_target_needs_batches_that_are_priced():
    ledger = paper.NON_PRIVATE.ledger(public_size=PUBLIC_SIZE)
    assert rdp.epsilon(ledger, delta=1e-5).epsilon == inf
    with pytest.raises(ValueError, match="noise_multiplier"):
        paper.NON_PRIVATE.claimed_ledger(public_size=PUBLIC_SIZE)
    run = replace(paper.SETTINGS, target_epsilon=3.0)
    with pytest.raises(Unsupported, match="no accountant here prices a step of shuffled"):
        run.steps_allowed(public_size=PUBLIC_SIZE)
    with pytest.raises(ValueError, match="expected_batch_size must be <= public_size"):
        paper.SETTINGS.ledger(public_size=100)


def test_the_repaired_runs_keep_their_budget_and_need_their_noise():
    run = paper.REPAIRED
    assert run.ledger(public_size=PUBLIC_SIZE) == [(SampledGaussian(0.545, RATE), STEPS)]
    spent = rdp.epsilon(run.ledger(public_size=PUBLIC_SIZE), delta=1e-5).epsilon
    assert 9.9 < spent <= 10
    assert run.claimed_ledger(public_size=PUBLIC_SIZE) == run.ledger(public_size=PUBLIC_SIZE)
    for one, steps in ((run, STEPS), (paper.reduced(run), settings.REDUCED_STEPS)):
        assert one.steps_allowed(public_size=PUBLIC_SIZE) == steps
        less = replace(one, noise_multiplier=one.noise_multiplier - 1e-3)
        assert less.steps_allowed(public_size=PUBLIC_SIZE) < steps


def test_small_and_reduced_runs():
    assert isinstance(paper.SMALL.sampling, PoissonSampling)
    assert paper.SMALL.steps_allowed(public_size=DIGITS_SIZE) == 100
    spent = rdp.epsilon(paper.SMALL.ledger(public_size=DIGITS_SIZE), delta=1e-5).epsilon
    assert spent <= paper.SMALL.target_epsilon
    for run in (paper.SETTINGS, *paper.FIGURE_1.values(), *paper.FIGURE_2.values()):
        found = paper.reduced(run)
        assert (found.capacity, found.max_steps) == (16, settings.REDUCED_STEPS)
        assert replace(found, capacity=run.capacity, max_steps=run.max_steps) == run
    assert paper.reduced(paper.NON_PRIVATE, capacity=64).capacity == 64


test_bad_settings_are_refused = refused(
    ({"noise_multiplier": float("nan")}, "noise_multiplier must be a finite number >= 0"),
    ({"clipping": Unclipped()}, "noise_multiplier must be 0 without clipping"),
    ({"capacity": 0}, "capacity must be an integer >= 1, got 0"),
    ({"critic_steps": 0}, "critic_steps must be an integer >= 1"),
    ({"max_steps": 1.5}, "max_steps must be an integer >= 1, got 1.5"),
    ({"target_delta": 0.0}, r"target_delta must lie in \(0, 1\)"),
    ({"target_epsilon": 0.0}, "target_epsilon must be a finite number > 0"),
    ({"penalty_weight": float("nan")}, "penalty_weight must be a finite number > 0"),
    ({"latent_size": 0}, "latent_size must be an integer >= 1"),
    ({"side": 4}, "side must be an integer >= 8, got 4"),
    ({"generator_decay": float("nan")}, "generator_decay must be a finite number >= 0"),
    ({"generator_decay": 1.0}, r"generator_decay must lie in \[0, 1\), got 1.0"),
    ({"clipping": None}, r"clipping must be FlatClipping or Unclipped\(\), got None"),
    call=lambda changes: replace(paper.SETTINGS, **changes),
)


@pytest.mark.parametrize("run", [paper.SETTINGS, paper.REPAIRED, paper.NON_PRIVATE])
@pytest.mark.parametrize("ledger", ["ledger", "claimed_ledger"])
def test_a_number_of_steps_that_is_none_is_refused_at_once(run, ledger):
    with pytest.raises(ValueError, match="steps must be an integer >= 0, got"):
        getattr(run, ledger)(public_size=PUBLIC_SIZE, steps=float("nan"))

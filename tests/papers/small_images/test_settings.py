"""Settings and ledgers of small_images: what the paper ran, what that guarantees, what was charged.

Peers and closed forms are the oracles of every price.
"""

import json
from dataclasses import replace
from math import exp, inf, log, sqrt

import numpy as np
import pytest

from dpkit.common.records import describe
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
    assert run.critic_optimizer.rate(0) == run.generator_optimizer.rate(9) == 128 * 3.125e-6
    assert run.critic_optimizer.betas == run.generator_optimizer.betas == (0.5, 0.9)
    assert run.steps_allowed(public_size=PUBLIC_SIZE) == STEPS == 40 * -(-60_000 // 128)
    assert (len(ORDERS), ORDERS[0], ORDERS[9:11], ORDERS[-4:]) == (
        72,
        1.25,
        (4.5, 5),
        (63, 128, 256, 512),
    )


def test_each_figure_varies_one_thing():
    assert [one.clipping for one in paper.FIGURE_1.values()] == [
        FlatClipping(0.1),
        FlatClipping(1.0),
        FlatClipping(100.0),
    ]
    assert [one.noise_multiplier for one in paper.FIGURE_2.values()] == [0.5, 0.8, 0.9, 1.0]
    assert [one.capacity for one in paper.FIGURE_3.values()] == [16, 32, 96, 128]
    for name, figure in (
        ("clipping", paper.FIGURE_1),
        ("noise_multiplier", paper.FIGURE_2),
        ("capacity", paper.FIGURE_3),
    ):
        for one in figure.values():
            assert replace(one, **{name: getattr(paper.SETTINGS, name)}) == paper.SETTINGS
        assert paper.SETTINGS in figure.values()


def test_noise_is_in_units_of_the_clip_norm():
    assert [one.noise_std for one in paper.FIGURE_1.values()] == [0.05, 0.5, 50.0]
    assert paper.NON_PRIVATE.noise_std == 0


def test_what_the_code_charges_is_what_peers_charge():
    opacus = pytest.importorskip("opacus.accountants.analysis.rdp")
    google = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    whole = [order for order in ORDERS if order == int(order)]
    for noise, run in paper.FIGURE_2.items():
        ledger = run.claimed_ledger(public_size=PUBLIC_SIZE)
        assert ledger[0].count == STEPS
        ours = ledger[0].mechanism.rdp(ORDERS)
        theirs = opacus.compute_rdp(q=RATE, noise_multiplier=noise, steps=1, orders=list(ORDERS))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        at_whole = google._compute_rdp_poisson_subsampled_gaussian(RATE, noise, whole)
        np.testing.assert_allclose(ledger[0].mechanism.rdp(whole), at_whole, rtol=1e-9)
        assert SHUFFLED_AS_POISSON in ledger[0].mechanism.assumptions


def test_shuffled_batches_cost_one_gaussian_release_a_pass():
    """41 passes begin in 18,760 batches of 128; each is a Gaussian whose sum moves by 2C."""
    ledger = paper.SETTINGS.ledger(public_size=PUBLIC_SIZE)
    assert [(one.mechanism.mechanism, one.count) for one in ledger] == [
        (Gaussian(0.5, "replace-one"), 41)
    ]
    rho = 41 * (2 / 0.5) ** 2 / 2
    wanted = rho + 2 * sqrt(rho * log(1e5))  # the least of alpha rho + log(1/delta) / (alpha - 1)
    found = rdp.epsilon(ledger, delta=1e-5, conversion="classic").epsilon
    assert found == pytest.approx(wanted, rel=1e-6)
    batches = PUBLIC_SIZE // 128
    for steps, passes in ((1, 1), (batches, 1), (batches + 1, 2), (0, 0)):
        assert paper.SETTINGS.ledger(public_size=PUBLIC_SIZE, steps=steps)[0].count == passes


def test_one_pass_costs_no_more_than_its_gaussian_release():
    """The worst pair known, a shift of 2C in a batch drawn at random: its order 2 in closed form,
    log(1 + (e^(4 / z^2) - 1) / T), is below that of the shift in a batch that is known."""
    for noise in (0.5, 1.0, 3.0):
        known = Gaussian(noise, "replace-one").rdp([2.0])[0]
        for batches in (1, 2, 468):
            hidden = log(1 + (exp(4 / noise**2) - 1) / batches)
            assert hidden <= known * (1 + 1e-12)
        assert log(exp(4 / noise**2)) == pytest.approx(known)


def test_what_is_not_noised_has_no_finite_price():
    ledger = paper.NON_PRIVATE.ledger(public_size=PUBLIC_SIZE)
    assert rdp.epsilon(ledger, delta=1e-5).epsilon == inf
    with pytest.raises(ValueError, match="noise_multiplier"):
        paper.NON_PRIVATE.claimed_ledger(public_size=PUBLIC_SIZE)


def test_the_repaired_run_keeps_its_budget_and_needs_its_noise():
    run = paper.REPAIRED
    assert run.ledger(public_size=PUBLIC_SIZE) == [(SampledGaussian(0.545, RATE), STEPS)]
    spent = rdp.epsilon(run.ledger(public_size=PUBLIC_SIZE), delta=1e-5).epsilon
    assert 9.9 < spent <= 10
    less = replace(run, noise_multiplier=0.544)
    assert less.steps_allowed(public_size=PUBLIC_SIZE) < STEPS
    assert run.claimed_ledger(public_size=PUBLIC_SIZE) == run.ledger(public_size=PUBLIC_SIZE)


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


def test_the_reduced_repaired_run_keeps_its_budget_and_needs_its_noise():
    run = paper.reduced(paper.REPAIRED)
    assert run.steps_allowed(public_size=PUBLIC_SIZE) == settings.REDUCED_STEPS
    less = replace(run, noise_multiplier=settings.REDUCED_NOISE - 1e-3)
    assert less.steps_allowed(public_size=PUBLIC_SIZE) < settings.REDUCED_STEPS


def test_what_a_sum_is_divided_by_says_nothing_of_who_was_drawn():
    assert paper.SETTINGS.divisor(96) == 96
    assert paper.REPAIRED.divisor(96) == paper.REPAIRED.divisor(0) == 128


def test_settings_are_json_values():
    for run in (paper.SETTINGS, paper.REPAIRED, paper.NON_PRIVATE, paper.SMALL):
        shown = json.loads(json.dumps(describe(run)))
        assert shown["capacity"] == run.capacity
        assert shown["clipping"]["type"] in ("FlatClipping", "Unclipped")
    assert len({json.dumps(describe(run)) for run in paper.FIGURE_1.values()}) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_multiplier": float("nan")}, "noise_multiplier must be a finite number >= 0"),
        ({"noise_multiplier": -1.0}, "noise_multiplier must be a finite number >= 0, got -1.0"),
        ({"clipping": Unclipped()}, "nothing is clipped: give FlatClipping"),
        ({"capacity": 0}, "capacity must be an integer >= 1, got 0"),
        ({"critic_steps": 0}, "critic_steps must be an integer >= 1"),
        ({"max_steps": 1.5}, "max_steps must be an integer >= 1, got 1.5"),
        ({"target_delta": 0.0}, r"target_delta must lie in \(0, 1\)"),
        ({"target_epsilon": 0.0}, "target_epsilon must be a finite number > 0"),
        ({"penalty_weight": float("nan")}, "penalty_weight must be a finite number > 0"),
        ({"latent_size": 0}, "latent_size must be an integer >= 1"),
        ({"side": -28}, "side must be an integer >= 8"),
        ({"side": 4}, "side must be an integer >= 8, got 4"),
        ({"generator_decay": float("nan")}, "generator_decay must be a finite number >= 0"),
        ({"generator_decay": -0.1}, "generator_decay must be a finite number >= 0, got -0.1"),
        ({"generator_decay": 1.0}, r"generator_decay must lie in \[0, 1\), .* got 1.0"),
        ({"generator_decay": 2.0}, r"generator_decay must lie in \[0, 1\), .* got 2.0"),
        ({"clipping": None}, r"clipping must be FlatClipping or Unclipped\(\), got None"),
        ({"clipping": 1.0}, r"clipping must be FlatClipping or Unclipped\(\), got 1.0"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(paper.SETTINGS, **changes)


@pytest.mark.parametrize("run", [paper.SETTINGS, paper.REPAIRED, paper.NON_PRIVATE])
@pytest.mark.parametrize("ledger", ["ledger", "claimed_ledger"])
@pytest.mark.parametrize("steps", [float("nan"), -1, 2.5])
def test_a_number_of_steps_that_is_none_is_refused_at_once(run, ledger, steps):
    with pytest.raises(ValueError, match="steps must be an integer >= 0, got"):
        getattr(run, ledger)(public_size=PUBLIC_SIZE, steps=steps)


@pytest.mark.parametrize("decay", [None, 0, 0.0, 0.999])
def test_a_decay_of_the_past_is_allowed(decay):
    assert replace(paper.SETTINGS, generator_decay=decay).generator_decay == decay


def test_a_target_needs_batches_that_are_priced():
    run = replace(paper.SETTINGS, target_epsilon=3.0)
    with pytest.raises(Unsupported, match="no accountant here prices a step of shuffled"):
        run.steps_allowed(public_size=PUBLIC_SIZE)
    with pytest.raises(ValueError, match="steps must be an integer >= 0, got -1"):
        paper.SETTINGS.ledger(public_size=PUBLIC_SIZE, steps=-1)
    with pytest.raises(ValueError, match="expected_batch_size must be <= public_size"):
        paper.SETTINGS.ledger(public_size=100)


def test_the_package_names_what_it_has():
    assert paper.NAME == "small_images"
    assert paper.CLAIMS
    assert paper.prior_work.DIGIT_COUNTS
    assert settings.STEPS_PER_EPOCH == 469
    with pytest.raises(AttributeError, match="has no attribute 'table'"):
        paper.table  # noqa: B018

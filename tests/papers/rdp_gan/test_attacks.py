"""What an attacker sees of RDP-GAN's own steps, as published and repaired."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dpkit.audit import bounds
from dpkit.papers.rdp_gan import attacks
from dpkit.papers.rdp_gan.claims import main_run
from dpkit.papers.rdp_gan.settings import DELTA, MULTIPLICATIVE, OUTPUT_ERROR, SETTINGS, Mlp, Tuning
from dpkit.privacy import SampledGaussian, pld

pytestmark = pytest.mark.torch
FEW = 10  # the least that an exact attack takes
BY_ID = {target.id: target for target in attacks.TARGETS}
EXACT = [target.id for target in attacks.TARGETS if target.bound is bounds.distinguished]


def rng():
    return np.random.default_rng(0)


def measured(target, scores=None):
    scores = target.scores(rng(), FEW) if scores is None else scores
    return target.bound(*scores, delta=DELTA, adjacency=target.adjacency, rng=rng()).epsilon


def test_main_runs_are_priced_as_the_claims_price_them():
    published, repaired = BY_ID["rdp_gan/published"], BY_ID["rdp_gan/repaired"]
    assert published.proven().epsilon == pld.epsilon(main_run().published, delta=DELTA).epsilon
    assert published.proven().epsilon == np.inf
    assert repaired.proven().epsilon == pld.epsilon(main_run().repaired, delta=DELTA).epsilon
    assert published.claimed == repaired.claimed == main_run().claimed
    assert repaired.proven().epsilon <= main_run().claimed
    # the record is in the first batch more often than delta
    assert SETTINGS.expected_batch_size / attacks.PUBLIC_SIZE > DELTA


HIDDEN = pytest.mark.slow("a reading whose noise hides the record")


@pytest.mark.parametrize("name", [EXACT[0], *(pytest.param(n, marks=HIDDEN) for n in EXACT[1:])])
def test_published_noise_does_not_hide_the_record(name):
    assert measured(BY_ID[name]) == np.inf
    assert BY_ID[name].proven().epsilon == np.inf


GIVEN_AWAY = pytest.mark.slow("a repaired step that gives a record away by this score alone")


@pytest.mark.parametrize(
    "scores",
    [
        partial(attacks.of_step, of=attacks.own_weights_moved),
        pytest.param(partial(attacks.of_step, of=attacks.own_weights_reached), marks=GIVEN_AWAY),
        pytest.param(attacks.direction, marks=GIVEN_AWAY),
    ],
)
def test_the_same_attacks_find_nothing_exact_in_the_repaired_step(scores):
    narrow = replace(attacks.REPAIRED, network=Mlp(16))
    found = scores(narrow, rng=rng(), trials=FEW)
    assert measured(BY_ID["rdp_gan/published"], found) == 0


def test_a_noisy_count_hides_which_noise_comes_next():
    """With deviation 1,000 both worlds show both answers, but in 1 run of 100 or fewer."""
    noisy = Tuning(attacks.TUNING.factor, attacks.TUNING.threshold, count_noise=1_000.0)
    found = attacks.noise_after_a_test(noisy, rng(), FEW)
    assert measured(BY_ID["rdp_gan/noise-tuned-on-test-data"], found) == 0


@pytest.mark.parametrize(
    "settings",
    [
        MULTIPLICATIVE,
        pytest.param(OUTPUT_ERROR, marks=pytest.mark.slow("an attack on a step without its noise")),
    ],
)
def test_there_is_noise_in_the_steps_that_are_attacked(settings):
    def length(one):
        return float(one.after[f"{attacks.FIRST}.grad"].norm())

    _, present = attacks.of_step(settings, length, rng(), FEW)
    assert present.std() > 0.1 * present.mean()


def test_noise_on_the_losss_value_leaves_the_step_as_it_is_without():
    silent = replace(SETTINGS, noise=replace(SETTINGS.noise, schedule=lambda _: 0.0))
    noisy, without = (
        attacks.of_step(settings, attacks.own_weights_moved, rng(), FEW).present
        for settings in (SETTINGS, silent)
    )
    np.testing.assert_allclose(noisy, without, rtol=1e-6)


def test_the_repaired_step_moves_by_what_is_charged():
    (release,) = main_run().repaired
    assert isinstance(release.mechanism, SampledGaussian)
    charged = 1 / release.mechanism.noise_multiplier
    assert attacks.repaired_shift() == pytest.approx(charged, rel=1e-5)
    assert attacks.repaired_shift() <= charged * (1 + 1e-6)


def test_attacks_by_sampling_give_as_many_scores_as_asked():
    for name in BY_ID.keys() - set(EXACT):
        worlds = np.array(BY_ID[name].scores(rng(), 7))
        assert worlds.shape == (2, 7), name
        assert np.isfinite(worlds).all(), name


def test_values_of_a_batch_sum_show_more_than_is_said():
    """True epsilon 10: of 3,000 runs a world, bounds below .5 come in fewer than 1 of 10^6."""
    target = BY_ID["rdp_gan/summed-loss-values"]
    assert measured(target, target.scores(rng(), 3_000)) > attacks.TOTAL == target.claimed
    assert target.proven().lower > attacks.TOTAL


def test_a_bound_that_holds_is_not_refuted():
    """Each of two attacks: by chance in 5 runs of 100 at most, were the proof tight."""
    for name in ("rdp_gan/repaired", "rdp_gan/mean-loss-values"):
        target = BY_ID[name]
        assert measured(target, target.scores(rng(), 1_000)) <= target.proven().epsilon

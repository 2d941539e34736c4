"""What an attacker sees of RDP-GAN's own steps, as published and repaired."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dpkit.papers.rdp_gan import attacks
from dpkit.papers.rdp_gan.claims import main_run
from dpkit.papers.rdp_gan.settings import DELTA, MULTIPLICATIVE, OUTPUT_ERROR, SETTINGS, Mlp, Tuning
from dpkit.privacy import SampledGaussian

pytestmark = pytest.mark.torch
FEW = 10  # the least that an exact attack takes
rng = partial(np.random.default_rng, 0)
BY_ID = {target.id: target for target in attacks.TARGETS}
GIVEN_AWAY = pytest.mark.slow("a repaired step that gives a record away by this score alone")


def test_the_record_is_in_the_first_batch_more_often_than_delta():
    assert SETTINGS.expected_batch_size / attacks.PUBLIC_SIZE > DELTA


@pytest.mark.parametrize(
    "scores",
    [
        partial(attacks.of_step, of=attacks.own_weights_moved),
        pytest.param(partial(attacks.of_step, of=attacks.own_weights_reached), marks=GIVEN_AWAY),
        pytest.param(attacks.direction, marks=GIVEN_AWAY),
    ],
)
def test_the_same_attacks_find_nothing_exact_in_the_repaired_step(scores, measured):
    narrow = replace(attacks.REPAIRED, network=Mlp(16))
    found = scores(narrow, rng=rng(), trials=FEW)
    assert measured(BY_ID["rdp_gan/published"], scores=found) == 0


def test_a_noisy_count_hides_which_noise_comes_next(measured):
    """With deviation 1,000 both worlds show both answers, but in 1 run of 100 or fewer."""
    noisy = Tuning(attacks.TUNING.factor, attacks.TUNING.threshold, count_noise=1_000.0)
    found = attacks.noise_after_a_test(noisy, rng(), FEW)
    assert measured(BY_ID["rdp_gan/noise-tuned-on-test-data"], scores=found) == 0


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


def test_the_repaired_step_moves_by_what_is_charged():
    (release,) = main_run().repaired
    assert isinstance(release.mechanism, SampledGaussian)
    charged = 1 / release.mechanism.noise_multiplier
    assert attacks.repaired_shift() == pytest.approx(charged, rel=1e-5)
    assert attacks.repaired_shift() <= charged * (1 + 1e-6)


def test_values_of_a_batch_sum_show_more_than_is_said(measured):
    """True epsilon 10: of 3,000 runs a world, bounds below .5 come in fewer than 1 of 10^6."""
    target = BY_ID["rdp_gan/summed-loss-values"]
    assert measured(target, trials=3_000) > attacks.TOTAL == target.claimed
    assert target.proven().lower > attacks.TOTAL

"""What an attacker sees of AdaDP's own steps, as published and repaired, and of its example."""

from dataclasses import replace

import numpy as np
import pytest
from draws import rng

from dpkit.papers.adadp import attacks, recomputed
from dpkit.papers.adadp.claims import main_run
from dpkit.papers.adadp.settings import ADADP
from dpkit.privacy import Gaussian, SampledGaussian

pytestmark = pytest.mark.torch
FEW = 10  # the least that an exact attack takes
BY_ID = {target.id: target for target in attacks.TARGETS}


def test_the_record_is_in_the_first_two_lots_more_often_than_delta():
    assert ADADP.target_delta < attacks.RATE**2


def test_what_is_released_or_counted_with_noise_gives_nothing_exact_away(measured):
    """With deviation 200 both worlds show both answers, but in 1 run of 100 or fewer."""
    narrow = replace(attacks.REPAIRED, widths=(60, 50, 10))
    for name, found in {
        "published": attacks.history_shows(narrow, rng(), FEW),
        "stopped-on-test-accuracy": attacks.stopped(rng(), FEW, count_noise=200.0),
    }.items():
        assert measured(BY_ID[f"adadp/{name}"], scores=found) == 0
    absent, present = attacks.stopped(rng(), 4)  # the first test reached, and the one after it
    np.testing.assert_array_equal(
        [absent, present], [[-attacks.TESTS - 1] * 4, [-attacks.TESTS] * 4]
    )


@pytest.mark.parametrize("size", [1, ADADP.lot - 100, ADADP.lot + 100])
def test_without_the_record_its_coordinate_has_no_noise_whatever_the_lot(size):
    rows = attacks.lot(own=0.0, size=size)
    made = (attacks.algorithm.step, attacks.new(ADADP), rows)
    seen = attacks.white_box.once(*made, settings=ADADP, indices=(0, 1))
    assert attacks.noise_in_second_step(seen) == 0


def test_a_record_moves_steps_by_what_is_charged_or_twice_that_or_widens_noise():
    """Replaced, local clipping by 2 s_i; its coordinate is 5,000 times that of 600 others each."""
    *steps, projection = attacks.repaired_shifts()
    first, training = (release.mechanism for release in main_run().repaired)
    assert isinstance(first, Gaussian)
    assert isinstance(training, SampledGaussian)
    assert projection == pytest.approx(1 / first.noise_multiplier, rel=1e-9)
    for step in steps:  # lengths are added up in single precision
        assert step == pytest.approx(1 / training.noise_multiplier, rel=1e-3)
        assert step <= (1 + 1e-6) / training.noise_multiplier
    assert attacks.replaced_shift() == pytest.approx(2 / recomputed.EXAMPLE_NOISE, rel=1e-5)
    assert attacks.widened() > 5

"""What an attacker sees of AdaDP's own steps, as published and repaired, and of its example."""

from dataclasses import replace

import numpy as np
import pytest

from dpkit.audit import bounds
from dpkit.papers.adadp import attacks, recomputed
from dpkit.papers.adadp.claims import main_run
from dpkit.papers.adadp.settings import ADADP
from dpkit.privacy import Gaussian, SampledGaussian, pld

pytestmark = pytest.mark.torch
FEW = 10  # the least that an exact attack takes
BY_ID = {target.id: target for target in attacks.TARGETS}
EXACT = [target.id for target in attacks.TARGETS if target.bound is bounds.distinguished]


def rng():
    return np.random.default_rng(0)


def measured(target, scores):
    given = {"delta": target.delta, "adjacency": target.adjacency, "rng": rng()}
    return target.bound(*scores, **given).epsilon


def test_main_runs_are_priced_as_the_claims_price_them():
    published, repaired = BY_ID["adadp/published"], BY_ID["adadp/repaired"]
    delta = ADADP.target_delta
    assert published.proven().epsilon == pld.epsilon(main_run().published, delta=delta).epsilon
    assert published.proven().epsilon == np.inf
    assert repaired.proven().epsilon == pld.epsilon(main_run().repaired, delta=delta).epsilon
    assert published.claimed == repaired.claimed == main_run().claimed
    assert repaired.proven().epsilon <= main_run().claimed


@pytest.mark.parametrize("name", EXACT)
def test_nothing_random_hides_the_record(name):
    target = BY_ID[name]
    assert measured(target, target.scores(rng(), FEW)) == np.inf
    assert target.proven().epsilon == np.inf


def test_a_released_history_gives_nothing_exact_away():
    narrow = replace(attacks.REPAIRED, widths=(60, 50, 10))
    found = attacks.history_shows(narrow, rng(), FEW)
    assert measured(BY_ID["adadp/published"], found) == 0


def test_a_noisy_count_hides_where_training_stops():
    """With deviation 200 both worlds show both answers, but in 1 run of 100 or fewer."""
    found = attacks.stopped(rng(), FEW, count_noise=200.0)
    assert measured(BY_ID["adadp/stopped-on-test-accuracy"], found) == 0


@pytest.mark.parametrize("size", [1, ADADP.lot - 100, ADADP.lot + 100])
def test_without_the_record_its_coordinate_has_no_noise_whatever_the_lot(size):
    rows = attacks.lot(own=0.0, size=size)
    made = (attacks.algorithm.step, attacks.new(ADADP), rows)
    seen = attacks.white_box.once(*made, settings=ADADP, indices=(0, 1))
    assert attacks.noise_in_second_step(seen) == 0


def test_the_record_is_in_both_lots_more_often_than_delta():
    assert ADADP.target_delta < attacks.RATE**2


def test_the_repaired_steps_move_by_what_is_charged():
    *steps, projection = attacks.repaired_shifts()
    first, training = (release.mechanism for release in main_run().repaired)
    assert isinstance(first, Gaussian)
    assert isinstance(training, SampledGaussian)
    assert projection == pytest.approx(1 / first.noise_multiplier, rel=1e-9)
    for step in steps:  # lengths are added up in single precision
        assert step == pytest.approx(1 / training.noise_multiplier, rel=1e-3)
        assert step <= (1 + 1e-6) / training.noise_multiplier


def test_a_replaced_record_moves_local_clipping_by_twice_the_bound():
    twice = recomputed.moved_by_replacing() / recomputed.EXAMPLE_NOISE
    assert attacks.replaced_shift() == pytest.approx(twice, rel=1e-5)


def test_a_record_widens_the_noise_of_a_coordinate_that_all_move():
    """Its own is 5,000 times that of each of 600 others."""
    assert attacks.widened() > 5


@pytest.mark.parametrize("name", [name for name in BY_ID if name not in EXACT])
def test_attacks_by_sampling_give_as_many_scores_as_asked(name):
    absent, present = BY_ID[name].scores(rng(), 7)
    assert absent.shape == present.shape == (7,)
    assert np.isfinite([absent, present]).all()


@pytest.mark.parametrize(("name", "trials"), [("local-clipping", 8_000), ("wider-noise", 200_000)])
def test_more_is_seen_than_is_said(name, trials):
    """The bounds are some 5 and 4 or more, against 4 and .5."""
    target = BY_ID[f"adadp/{name}"]
    said = target.said
    assert said is not None
    assert measured(target, target.scores(rng(), trials)) > said
    assert target.proven().epsilon > said


@pytest.mark.parametrize("name", ["repaired", "theorem-1-example"])
def test_a_bound_that_holds_is_not_refuted(name):
    """By chance in 5 runs of 100 at most, were the proof tight."""
    target = BY_ID[f"adadp/{name}"]
    assert measured(target, target.scores(rng(), 2_000)) <= target.proven().epsilon
    assert target.proven().epsilon <= (target.claimed or 0)


def test_a_run_that_stops_by_the_first_test_reached():
    absent, present = attacks.stopped(rng(), 4)
    np.testing.assert_array_equal(present, -attacks.TESTS)
    np.testing.assert_array_equal(absent, -attacks.TESTS - 1)

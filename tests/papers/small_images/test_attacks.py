"""Attacks on the paper's runs and the prior work's: how far a record moves, and what follows."""

import numpy as np
import pytest

from dpkit.audit import runs
from dpkit.audit.scores import Scores
from dpkit.papers.small_images import attacks, claims
from dpkit.papers.small_images.attacks import Repeated
from dpkit.papers.small_images.prior_work import BeaulieuJones
from dpkit.papers.small_images.settings import FIGURE_2, REPAIRED, SETTINGS
from dpkit.privacy import Release, SampledGaussian, pld

pytestmark = pytest.mark.torch

BY_ID = {target.id.partition("/")[2]: target for target in attacks.TARGETS}


def test_a_white_image_moves_a_step_by_its_clip_norm_and_a_long_gradient_a_clipped_mean_by_two():
    for settings in (SETTINGS, FIGURE_2[1.0], REPAIRED):
        assert attacks.shift(settings) * settings.noise_multiplier == pytest.approx(1, rel=1e-4)
    for run in (BeaulieuJones(), attacks.BATCH_OF_100, attacks.SQUARED):
        assert attacks.clipped_mean_shift(run) * run.true_noise_multiplier == pytest.approx(1)


@pytest.mark.parametrize("run", ["left_out", "sorted_runs"])
def test_scores_are_log_likelihood_ratios(run):
    """The mean of the ratio is 1 without the record: within 5 standard errors.

    Of passes of one batch they are s x - s^2 / 2, of mean -+s^2 / 2 and deviation s.
    """
    more = {
        "left_out": {"shift": 0.5, "batches": 10, "epochs": 2},
        "sorted_runs": {"shift": 1.0, "rate": 0.02, "steps": 100},
    }[run]
    absent, _ = getattr(runs, run)(np.random.default_rng(2), 30_000, **more)
    ratios = np.exp(absent)
    assert ratios.mean() == pytest.approx(1, abs=5 * ratios.std() / np.sqrt(ratios.size))
    rng, trials, s = np.random.default_rng(1), 100_000, 0.5
    worlds = runs.left_out(rng, trials, shift=s, batches=1, epochs=4)
    for world, mean in zip(worlds, (-4 * s**2 / 2, 4 * s**2 / 2), strict=True):
        assert world.mean() == pytest.approx(mean, abs=5 * 2 * s / np.sqrt(trials))
        assert world.std() == pytest.approx(2 * s, rel=0.02)


def test_sorting_releases_into_cells_hides_little_and_shows_nothing_more():
    """Delta of the sorted runs against the ledger's own; within 5 standard errors."""
    shift, rate, steps = 2.0, 0.01, 100
    rng = np.random.default_rng(3)
    _, present = runs.sorted_runs(rng, 50_000, shift=shift, rate=rate, steps=steps)
    for epsilon in (0.5, 2.0, 3.0):
        found = np.maximum(0, -np.expm1(np.minimum(epsilon - present, 0)))
        error = 5 * found.std() / np.sqrt(found.size)
        ledger = [Release(SampledGaussian(1 / shift, rate), steps)]
        exact = pld.delta(ledger, epsilon=epsilon).delta
        assert 0.98 * exact - error <= found.mean() <= exact * 1.001 + error


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *((run, {"shift": bad}) for run in ("left_out", "sorted_runs") for bad in (0.0, 11.0)),
        *(("sorted_runs", {"rate": bad}) for bad in (0.0, float("nan"))),
    ],
)
def test_a_shift_must_be_one_whose_exponentials_fit_and_a_rate_a_probability(name, bad):
    more = {"left_out": {"batches": 2, "epochs": 1}, "sorted_runs": {"rate": 0.1, "steps": 2}}
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must"):
        getattr(runs, name)(np.random.default_rng(0), 10, **{"shift": 1.0, **more[name], **bad})


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


BLUNT = pytest.mark.slow("an attack of this name that no longer shows more than is said")


def test_the_passes_drawn_show_more_than_is_claimed_of_all_forty(measured):
    assert measured(BY_ID["published"], trials=3_000, seed=7) > claims.main_run().claimed


@pytest.mark.parametrize(
    ("name", "trials"),
    [
        pytest.param("shuffled-noise-1.0", 8_000, marks=BLUNT),
        ("beaulieu-jones", 10_000),
        pytest.param("clip-after-mean", 100_000, marks=BLUNT),
        ("beaulieu-jones-noise-c-squared", 500),
        pytest.param("xie-true-rate", 2_000_000, marks=BLUNT),
    ],
)
def test_what_is_measured_is_above_what_is_said(name, trials, measured):
    """At the fixed seed; at others it falls short in fewer than 1 of 100."""
    target = BY_ID[name]
    assert target.said is not None
    assert target.said < measured(target, trials=trials, seed=4) < target.proven().epsilon

"""A target's row: what is said, proven and measured, stored whole and read back."""

import json
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from dpkit.audit import bounds
from dpkit.audit.scores import LowerBound, Scores
from dpkit.common.records import alike
from dpkit.papers.targets import results
from dpkit.papers.targets.target import Target
from dpkit.privacy import Gaussian, Release, pld

KEYS = {"target", "claimed", "proven", "measured", "confidence", "adjacency", "attack"}
KEYS |= {"assumes", "trials", "seconds"}


def bells(rng: np.random.Generator, trials: int) -> Scores:
    """A release with noise multiplier 1/4, of which noise 1 is charged."""
    return Scores(rng.standard_normal(trials), rng.standard_normal(trials) + 4.0)


def charged():
    return pld.epsilon([Release(Gaussian(1.0))], delta=1e-5)


QUARTER = Target(
    id="made-up/quarter-of-the-noise",
    version="published",
    says="A sum with a quarter of the noise that is charged.",
    where="nowhere",
    charged=charged().epsilon,
    proven=lambda: pld.epsilon([Release(Gaussian(0.25))], delta=1e-5),
    attack="The sum itself.",
    scores=bells,
    trials=20_000,
)


def test_a_charge_that_is_too_low_is_refuted():
    """At mu 4 the bound is near 7.5, and 4.4 is charged: no seed comes near."""
    row = results.run(QUARTER)
    assert set(row) >= KEYS
    assert row["refuted"]
    assert QUARTER.said == row["charged"] < row["measured"] <= row["proven"]
    json.dumps(row, allow_nan=False)
    scores = row["scores"]
    assert sum(scores["absent"]) == pytest.approx(1, abs=1e-2)
    assert len(scores["edges"]) == len(scores["present"]) + 1


def test_the_same_seed_measures_the_same():
    rows = [results.run(QUARTER, seed=3) for _ in range(2)]
    assert alike(rows[0]["measured"], rows[1]["measured"])
    assert results.run(QUARTER, seed=4)["measured"] != rows[0]["measured"]


def test_a_stored_row_is_read_back_only_for_the_same_settings(results_folder):
    row = results.run(QUARTER)
    path = results.store(row, QUARTER)
    assert path == results_folder / "audit" / "made-up-quarter-of-the-noise.json"
    assert results.stored(QUARTER) == row
    assert results.stored(replace(QUARTER, trials=30_000)) is None
    assert results.stored(replace(QUARTER, id="made-up/other")) is None


def test_exact_distinguishers_are_stored_as_inf():
    told = {"scores": lambda rng, trials: Scores(np.zeros(trials), np.ones(trials))}
    row = results.run(replace(QUARTER, **told, trials=20, bound=bounds.distinguished))
    assert (row["measured"], row["confidence"], row["refuted"]) == ("inf", 1.0, True)


def test_repetitions_count_what_is_at_most_proven():
    """The proven epsilon holds; a bound fails in at most 5 % of runs, of 40 in 8 with p < 1e-3."""
    again = results.repeat(QUARTER, times=40, trials=500)
    assert again["times"] == 40
    assert again["at_most_proven"] >= 32
    wrong = replace(QUARTER, proven=charged)
    assert results.repeat(wrong, times=10, trials=20_000)["at_most_proven"] == 0


def test_every_repetition_draws_scores_of_its_own():
    """Fails by chance with probability 0: continuous scores are never alike."""
    first = []

    def noted(rng: np.random.Generator, trials: int) -> Scores:
        scores = bells(rng, trials)
        first.append(scores.absent[0])
        return scores

    results.repeat(replace(QUARTER, scores=noted), times=5, trials=50)
    assert len(set(first)) == 5


test_bad_input_names_the_parameter = refused(
    (results.run, {"seed": -1}, "seed must be an integer >= 0"),
    (results.run, {"confidence": 1.0}, "confidence must lie in"),
    (results.run, {"confidence": float("nan")}, "confidence must lie in"),
    (results.repeat, {"times": 0, "trials": 10}, "times must be an integer >= 1"),
    (replace, {"id": "no-group"}, "id must be <paper>/<name>"),
    (replace, {"version": "other"}, "version must be one of published, repaired, mechanism"),
    (replace, {"delta": 0.0}, "delta must lie in"),
    (replace, {"charged": float("nan")}, "charged must be a finite number >= 0"),
    (replace, {"trials": 0}, "trials must be an integer >= 1"),
    call=lambda call, change: call(QUARTER, **change),
)


def test_a_bound_that_is_nan_is_an_error():
    broken = LowerBound(float("nan"), 1e-5, 0.95, "add-remove", "", (), 2)
    with pytest.raises(ArithmeticError, match="bound on epsilon is nan"):
        results.run(replace(QUARTER, bound=lambda *scores, **asked: broken))

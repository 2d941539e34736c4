"""Betting against a claim: a true one is rarely refuted, whenever one looks; a gross one soon."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
from curves import ASKED, GAUSSIANS, NULLS, OTHERS, Curve, allowed, gaussian, mu_at, some

from dpkit.audit import sequential
from dpkit.audit.sequential import refute, watch

DELTA = 0.03
REFUTED = "a true claim on this one curve refuted"


@pytest.mark.parametrize(
    "curve", some(NULLS, kept=[NULLS[0], NULLS[2]], fault="equal worlds of this law told apart")
)
def test_equal_worlds_are_rarely_told_apart(curve: Curve):
    """100 runs of 300 rounds, looked at after each; fails with probability 1e-6."""
    rng = np.random.default_rng(1)
    runs = [refute(*curve.draw(rng, 300), **ASKED, epsilon=0.0) for _ in range(100)]
    assert sum(run.draws is not None for run in runs) <= allowed(100)


@pytest.mark.parametrize(
    "curve", some(GAUSSIANS + OTHERS, kept=[GAUSSIANS[1], *OTHERS[3:]], fault=REFUTED)
)
def test_a_true_claim_is_rarely_refuted(curve: Curve):
    """60 runs of 500 rounds at the true epsilon; fails with probability 1e-6."""
    rng = np.random.default_rng(2)
    asked: dict[str, Any] = ASKED | {"delta": DELTA, "epsilon": curve.epsilon(DELTA)}
    runs = [refute(*curve.draw(rng, 500), **asked) for _ in range(60)]
    assert sum(run.draws is not None for run in runs) <= allowed(60)


def test_the_expected_capital_is_at_most_1():
    """Of 100 true claims' last capitals: large ones are as rare as Ville's inequality says."""
    rng, curve = np.random.default_rng(3), OTHERS[3]  # at its corner, the bets are fair
    asked: dict[str, Any] = ASKED | {"epsilon": curve.epsilon(1e-5), "confidence": 1 - 1e-12}
    highest = [refute(*curve.draw(rng, 100), **asked).log_capital for _ in range(100)]
    for level in (1.0, 2.0, 3.0):  # Ville: P(capital >= e^level) <= e^-level
        assert sum(one >= level for one in highest) <= allowed(100, np.exp(-level))


@pytest.mark.parametrize(("epsilon", "most"), [(0.2, 60), (1.0, 150), (2.0, 700)])
def test_gross_violations_are_refuted_in_hundreds_of_draws(epsilon: float, most: int):
    """Median of nine seeds; the scores' true epsilon is 16."""
    runs = []
    for seed in range(9):
        scores = gaussian(mu_at(16.0)).draw(np.random.default_rng(seed), 2 * most)
        runs.append(refute(*scores, **ASKED, epsilon=epsilon))
    assert np.median([run.draws or 10**9 for run in runs]) <= most


def test_no_more_is_read_than_a_quarter_beyond_the_refutation():
    run = refute(np.zeros(50_000), np.ones(50_000), **ASKED, epsilon=1.0)
    assert run.draws is not None
    assert run.draws <= run.read <= 1.25 * run.draws + 1
    assert run.log_capital >= np.log(20)


def test_either_way_refutes():
    """Few mistakes with the record, or few without it: each inequality has its bet."""
    absent = np.random.default_rng(4).permutation(np.repeat([0.0, 1.0], 1_000))
    present = np.ones(2_000)
    assert refute(absent, present, **ASKED, epsilon=1.0).draws is not None
    assert refute(-present, -absent, **ASKED, epsilon=1.0).draws is not None


def test_an_endless_run_stops_by_itself():
    rng = np.random.default_rng(5)

    def endless():
        while True:
            yield rng.normal(), rng.normal() + 4

    *_, last = watch(endless(), **ASKED, epsilon=0.5)
    assert last.draws is not None
    states = list(islice(watch(endless(), **ASKED, epsilon=30.0), 20))
    assert all(state.draws is None for state in states)
    assert [state.read for state in states] == sorted({state.read for state in states})


def test_arrays_are_read_as_the_same_pairs_up_to_the_shorter_worlds_end():
    scores = gaussian(2.0).draw(np.random.default_rng(6), 100)
    asked: dict[str, Any] = ASKED | {"epsilon": 9.0}
    *_, last = watch(zip(*scores, strict=True), **asked)
    assert refute(*scores, **asked) == last
    longer = np.concatenate([scores.present, np.full(50, 99.0)])
    assert refute(scores.absent, longer, **asked) == last


def test_the_future_plays_no_part():
    """Thresholds are learned from the past: later scores leave the state before as it was."""
    scores = gaussian(0.5).draw(np.random.default_rng(8), 400)
    asked: dict[str, Any] = ASKED | {"epsilon": 1.0}
    whole = list(watch(zip(*scores, strict=True), **asked))
    half = list(watch(zip(*(one[:200] for one in scores), strict=True), **asked))
    assert whole[: len(half) - 1] == half[:-1]


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("wrong", [0.0, 0.01, 0.03])
def test_no_stake_gains_where_the_claim_just_holds(epsilon: float, wrong: float):
    """With right = e^epsilon wrong + delta, each bet's expected factor is 1."""
    delta = 0.1
    right = np.exp(epsilon) * wrong + delta
    chances = [(1 - right) * (1 - wrong), (1 - right) * wrong, right * (1 - wrong), right * wrong]
    factors = np.exp(sequential._factors(epsilon, delta))
    assert factors @ chances == pytest.approx(np.ones(len(factors)), abs=1e-12)

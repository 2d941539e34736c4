"""dpkit's bounds of fixed counts against jax-privacy's, stored by tests/benchmarks/audit.py."""

import numpy as np
import pytest
from audit import ASKED, COUNTED, LEVEL, Counted, stored

from dpkit.audit.bounds import at_thresholds, epsilon_of_mu
from dpkit.audit.one_run import Guesses, refuted_fdp, tails
from dpkit.privacy.numerics import bracket

ANSWERS = stored()["answers"]
each = pytest.mark.parametrize("counted", COUNTED, ids=lambda counted: counted.name)


def in_one_run(counted: Counted) -> tuple[int, int, int]:
    made = counted.false_positives + counted.true_positives
    return counted.absent + counted.present, made, counted.true_positives


@each
def test_clopper_pearson(counted: Counted):
    found = at_thresholds(*counted.scores(), thresholds=[0.5], **ASKED, rng=np.random.default_rng())
    assert found.epsilon == pytest.approx(ANSWERS[counted.name]["clopper_pearson"], abs=1e-9)


@each
def test_one_run(counted: Counted):
    guesses = Guesses(*in_one_run(counted))

    def refuted(epsilon: float) -> bool:
        beta, alpha = tails(guesses, epsilon)
        return bool(beta + 2 * guesses.canaries * ASKED["delta"] * alpha <= LEVEL)

    found, _ = bracket(lambda one: not refuted(one), tolerance=1e-9)
    assert found == pytest.approx(ANSWERS[counted.name]["one_run"], abs=1e-5)


@each
def test_one_run_by_f_dp(counted: Counted):
    guesses = Guesses(*in_one_run(counted))
    mu, _ = bracket(lambda one: not refuted_fdp(guesses, one, LEVEL), tolerance=1e-9)
    found = epsilon_of_mu(mu, ASKED["delta"])
    assert found == pytest.approx(ANSWERS[counted.name]["one_run_fdp"], abs=1e-4)

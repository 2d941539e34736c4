"""Exact distinguishers: no finite epsilon where a noiseless statistic tells two worlds apart."""

from math import inf, nan

import numpy as np
import pytest

from dpkit.audit.exact import distinguished

ASKED = {"delta": 1e-5, "adjacency": "add-remove", "rng": np.random.default_rng(0)}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_constants_that_differ_leave_no_finite_epsilon(sign, noise):
    rng = np.random.default_rng(1)
    absent, present = noise * rng.random(20), 1.0 + noise * rng.random(20)
    found = distinguished(sign * absent, sign * present, **ASKED)
    assert (found.epsilon, found.confidence, found.trials) == (inf, 1.0, 40)


@pytest.mark.parametrize(
    ("absent", "present"),
    [
        (np.zeros(20), np.zeros(20)),  # the same
        (np.ones(20), np.ones(20) + 1e-14),  # but for rounding
        (np.random.default_rng(2).random(20), 3 + np.random.default_rng(3).random(20)),  # random
        (np.arange(20.0), np.arange(20.0) + 30),  # apart, but not a constant each
    ],
)
def test_what_is_random_or_the_same_gives_0(absent, present):
    assert distinguished(absent, present, **ASKED).epsilon == 0


@pytest.mark.parametrize(
    ("absent", "words"),
    [
        (np.zeros(9), "at least 10 trials"),
        (np.full(20, inf), "finite values"),
        (np.full(20, nan), "absent must hold numbers, got nan"),
        (np.array(["a"] * 20), "absent must hold numbers, got <U1"),
        (np.zeros((4, 5)), "absent must be a list of at least one score"),
        ([], "absent must be a list of at least one score"),
        (np.zeros(20, bool), "must be scores of one kind"),
    ],
)
def test_bad_scores_are_refused(absent, words):
    with pytest.raises(ValueError, match=words):
        distinguished(absent, np.ones(20), **ASKED)

"""What enters the audit's public functions: bad input is refused by a sentence with its value."""

from functools import partial
from itertools import product
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from refusals import refused

from dpkit.audit import bounds
from dpkit.audit.one_run import one_run, one_run_fdp
from dpkit.audit.scores import LowerBound

BOUNDS = {
    "clopper_pearson": bounds.clopper_pearson,
    "at_thresholds": partial(bounds.at_thresholds, thresholds=[0.0]),
    **{"likelihood_ratio": bounds.likelihood_ratio, "gaussian": bounds.gaussian},
    **{"one_run": one_run, "one_run_fdp": one_run_fdp, "distinguished": bounds.distinguished},
}
RNG = np.random.default_rng(1)
GOOD: dict[str, Any] = {"delta": 1e-5, "adjacency": "add-remove", "confidence": 0.95, "rng": RNG}
SCORES = np.arange(20.0)


def ask(name: str, absent: Any = SCORES, present: Any = SCORES, **changed: Any) -> Any:
    return BOUNDS[name](absent, present, **(GOOD | changed))


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_says_what_it_is(name: str):
    found = ask(name)
    assert isinstance(found, LowerBound)
    assert found.epsilon == 0
    assert (found.delta, found.adjacency, found.trials) == (1e-5, "add-remove", 40)
    assert found.method
    assert found.assumptions


BAD_SCORES = [
    ({"absent": []}, r"absent must be a list of at least one score, 1-D, got shape \(0,\)"),
    ({"present": []}, r"present must be a list of at least one score, 1-D, got shape \(0,\)"),
    ({"present": np.where(SCORES == 3, nan, SCORES)}, "present must hold numbers, got nan"),
    ({"absent": np.where(SCORES == 3, nan, SCORES)}, "absent must hold numbers, got nan"),
    ({"present": SCORES[:, None]}, r"got shape \(20, 1\)"),
    ({"present": SCORES > 3}, "scores of one kind, got float64 and bool"),
    ({"present": ["a"]}, "present must hold numbers, got <U1"),
    ({"present": SCORES * 1j}, "present must hold numbers, got complex128"),
    ({"absent": 3.0}, r"absent must be a list of at least one score, 1-D, got shape \(\)"),
]
BAD_CLAIMS = [
    ({"delta": 0}, "delta must lie in .* got 0; for pure DP take a tiny one, as 1e-12"),
    ({"delta": 0.0}, "for pure DP take a tiny one, as 1e-12"),
    ({"delta": nan}, "delta must lie in .* got nan"),
    ({"delta": 1.0}, "delta must lie in .* got 1"),
    ({"delta": -1e-5}, "delta must lie in .* got -1e-05"),
    ({"delta": "1e-5"}, "delta must be a number, got '1e-5'"),
    ({"confidence": 0}, "confidence must lie in .* got 0"),
    ({"confidence": 1}, "confidence must lie in .* got 1"),
    ({"confidence": nan}, "confidence must lie in .* got nan"),
    ({"confidence": True}, "confidence must be a number, got True"),
    ({"adjacency": "add"}, "adjacency must be one of add-remove, replace-one; got 'add'"),
]
NO_RNG = r"rng must be a numpy.random.Generator, got"
BAD_RNG = [({"rng": one}, NO_RNG) for one in (None, 3, np.random, np.random.RandomState(3))]
BAD_SHARE = [({"choosing": one}, "choosing must") for one in (0, 1, nan, -0.1, "all")]
ROWS = [
    *product(BOUNDS, [*BAD_SCORES, *BAD_CLAIMS, *BAD_RNG]),
    *product(["clopper_pearson", "likelihood_ratio", "gaussian", "one_run"], BAD_SHARE),
]
test_bad_input_is_named = refused(
    *((name, changed, says) for name, (changed, says) in ROWS),
    call=lambda name, changed: ask(name, **changed),
)


def test_shares_of_guesses_and_thresholds_that_are_none():
    for side, share in product(("inside", "outside"), (-0.1, 1.1, nan, None)):
        with pytest.raises(ValueError, match=f"{side} must"):
            ask("one_run_fdp", **{side: share})
    with pytest.raises(ValueError, match="inside_and_outside"):
        ask("one_run_fdp", inside=0.7, outside=0.6)
    for thresholds in ([], [nan], [[1.0]], 2.0):
        with pytest.raises(ValueError, match="thresholds must be a list of at least one number"):
            ask("at_thresholds", thresholds=thresholds)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int8, np.uint8, bool, object])
@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_of_every_type(name: str, kind):
    """One kind or another, but numbers: an array of objects is refused."""
    scores = (SCORES % 2).astype(kind)
    if kind is object:
        with pytest.raises(ValueError, match="must hold numbers, got object"):
            ask(name, scores, scores)
    else:
        ask(name, scores, scores)


@pytest.mark.parametrize("name", [name for name in BOUNDS if name != "distinguished"])
def test_infinite_scores_of_both_signs(name: str):
    scores = np.where(SCORES % 2 == 0, inf, -inf)
    assert ask(name, scores, scores).epsilon >= 0

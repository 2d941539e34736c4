"""An attack's result: a score a trial from each of two worlds, and their lower bound."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit.common import checks
from dpkit.privacy.mechanisms import ADJACENCIES, Adjacency, Floats


class Scores(NamedTuple):
    """An attack's scores: higher where the attacker sooner believes in the record.

    absent: (trials,) of runs, or of canaries in one run, without the record.
    present: (trials,) with it; under replace-one, with the record that took the other's place.
    """

    absent: Floats
    present: Floats


class LowerBound(NamedTuple):
    """An attack's proof: with probability `confidence`, the true epsilon is at least this.

    epsilon: nats, >= 0; inf where no finite epsilon fits.
    delta: the delta it holds at.
    confidence: in (0, 1]; 1 where an argument rather than a sample decides.
    adjacency: "add-remove" or "replace-one".
    method: how the bound follows from the scores.
    assumptions: conditions on the attack under which it holds.
    trials: number of scores, both worlds together.
    """

    epsilon: float
    delta: float
    confidence: float
    adjacency: Adjacency
    method: str
    assumptions: tuple[str, ...]
    trials: int


class Bound(Protocol):
    """A function from scores to a lower bound on epsilon."""

    def __call__(
        self,
        absent: ArrayLike,
        present: ArrayLike,
        *,
        delta: float,
        adjacency: Adjacency,
        confidence: float = 0.95,
        rng: np.random.Generator,
    ) -> LowerBound: ...


def checked(absent: ArrayLike, present: ArrayLike) -> Scores:
    """The scores as two arrays of floats, (trials,) each; they may be infinite.

    Raises:
        ValueError: there are none, they are no numbers, of unequal kind (one bool, one float, say),
            not 1-D, or one is NaN.
    """
    given = {"absent": _array(absent, "absent"), "present": _array(present, "present")}
    kinds = {name: scores.dtype.kind for name, scores in given.items()}
    for name, scores in given.items():
        if scores.ndim != 1 or scores.size == 0:
            raise ValueError(
                f"{name} must be a list of at least one score, 1-D, got shape {scores.shape}"
            )
        if kinds[name] not in "biuf":
            raise ValueError(f"{name} must hold numbers, got {scores.dtype}")
        if scores.dtype.kind == "f" and np.isnan(scores).any():
            raise ValueError(
                f"{name} must hold numbers, got nan; a trial that failed has no score"
            )
    if ("b" in kinds.values()) and kinds["absent"] != kinds["present"]:
        raise ValueError(
            f"absent and present must be scores of one kind, got {given['absent'].dtype} and "
            f"{given['present'].dtype}; both must come from the same attack"
        )
    return Scores(*(scores.astype(np.float64) for scores in given.values()))


def _array(scores: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(scores)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a flat list of numbers or an array: {error}"
        ) from error


def check_asked(delta: float, confidence: float, adjacency: Adjacency) -> tuple[float, float]:
    """Delta and confidence as floats.

    Raises:
        ValueError: either is not in (0, 1), or the adjacency is unknown.
    """
    checks.one_of(ADJACENCIES, adjacency=adjacency)
    if not isinstance(delta, bool) and delta == 0:
        raise ValueError(
            "delta must lie in (0, 1), got 0; for pure DP take a tiny one, as 1e-12"
        )
    return checks.between(0, 1, delta=delta), checks.between(0, 1, confidence=confidence)


def check_rng(rng: Any) -> None:
    """Refuse (ValueError) what is no numpy.random.Generator."""
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng must be a numpy.random.Generator, got {type(rng).__name__}; pass "
            "numpy.random.default_rng(seed)"
        )

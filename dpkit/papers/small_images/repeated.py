"""A lower bound on the epsilon of a run of many passes alike, from the scores of single ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from dpkit.audit.bounds import CHOOSING, INDEPENDENT
from dpkit.audit.scores import LowerBound, Scores, check_asked
from dpkit.audit.thresholds import count, quantile, separate, split
from dpkit.common import checks
from dpkit.privacy.mechanisms import Adjacency, Floats

THRESHOLDS = 200  # that are tried


@dataclass(frozen=True)
class Repeated:
    """Bound epsilon of `times` parts, independent and alike, by how many score above a threshold.

    Limits of one part's error rates, from scores of single parts, are limits of the binomial
    numbers of a whole run's parts: P(at least k of n) grows with the probability of one. So what is
    shown is not limited by the number of whole runs that were drawn, as with a run's own scores. A
    threshold and k are chosen on other scores.

    Args:
        times: parts of a run, >= 1.

    Raises:
        ValueError: times is not an integer >= 1; in the call, as `audit.bounds.clopper_pearson`.
    """

    times: int

    def __post_init__(self) -> None:
        checks.whole(1, times=self.times)

    def __call__(
        self,
        absent: ArrayLike,
        present: ArrayLike,
        *,
        delta: float,
        adjacency: Adjacency,
        confidence: float = 0.95,
        rng: np.random.Generator,
    ) -> LowerBound:
        """Bound epsilon of a run from the scores of single parts, (trials,) in each world."""
        delta, confidence = check_asked(delta, confidence, adjacency)
        if min(len(np.atleast_1d(world)) for world in (absent, present)) < 2:  # pyright: ignore
            raise ValueError(
                "absent and present must hold at least 2 scores each, to choose by one"
            )
        first, rest = split(absent, present, share=CHOOSING, rng=rng)
        tried = np.quantile(np.concatenate(first), np.linspace(0, 1, THRESHOLDS), method="nearest")
        values = self.shown(first, tried, delta=delta, confidence=confidence)
        best, needed = np.unravel_index(values.argmax(), values.shape)
        found = self.shown(rest, tried[[best]], delta=delta, confidence=confidence)[0, needed]
        return LowerBound(
            float(found) if found > 0 else 0.0,
            delta,
            confidence,
            adjacency,
            f"Clopper-Pearson limits of one part's error rates, and the number of {self.times} "
            "parts above a threshold chosen on other scores",
            (INDEPENDENT, f"a run is {self.times} such parts, independent of each other"),
            rest.absent.size + rest.present.size,
        )

    def shown(
        self, scores: Scores, thresholds: Floats, *, delta: float, confidence: float
    ) -> Floats:
        """log((P - delta) / Q) of "k parts or more above the threshold", (thresholds, times).

        P and Q are the limits of its probability with and without the record.
        """
        z = quantile((1 - confidence) / 2)
        fpr, fnr = separate(count(scores, thresholds), z)
        k = np.arange(1, self.times + 1)
        least = betainc(k, self.times - k + 1, 1 - fnr)
        most = betainc(k, self.times - k + 1, fpr)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(least - delta, 0) / most)

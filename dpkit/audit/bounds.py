"""Lower bounds on epsilon from independent scores of two worlds, without a record and with it."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from dpkit.audit.scores import LowerBound, check_asked, check_rng, checked
from dpkit.privacy.mechanisms import Adjacency, Floats

CHOOSING = 0.1  # share of the scores that choose the threshold


def clopper_pearson(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> LowerBound:
    """Bound epsilon by exact intervals of both error rates (first version; being replaced)."""
    delta, confidence = check_asked(delta, confidence, adjacency)
    check_rng(rng)
    scores = checked(absent, present)
    parts = []
    for one in scores:
        order = rng.permutation(one.size)
        cut = max(int(CHOOSING * one.size), 1)
        parts.append((one[order[:cut]], one[order[cut:]]))
    (a0, a1), (p0, p1) = parts
    alpha = (1 - confidence) / 2
    grid = np.unique(np.concatenate([a0, p0]))

    def value(a: Floats, p: Floats, t: Floats) -> Floats:
        """Of the test "present where score > t"."""
        fp = (a[None, :] > t[:, None]).sum(1)
        tp = (p[None, :] > t[:, None]).sum(1)
        high = np.where(
            fp < a.size, betaincinv(fp + 1, np.maximum(a.size - fp, 1e-9), 1 - alpha), 1
        )
        low = np.where(tp > 0, betaincinv(np.maximum(tp, 1e-9), p.size - tp + 1, alpha), 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.log((low - delta) / high), nan=0.0, neginf=0.0)

    t = np.quantile(grid, np.linspace(0, 1, 200))
    best = t[int(value(a0, p0, t).argmax())]
    found = float(value(a1, p1, np.array([best]))[0])
    return LowerBound(
        max(found, 0.0),
        delta,
        confidence,
        adjacency,
        "Clopper-Pearson intervals of both error rates at a threshold chosen on other scores",
        ("trials are independent",),
        a1.size + p1.size,
    )

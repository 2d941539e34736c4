"""What section 3.2 and the discussion find in Figures 1 to 3, decided by stored runs, or left open.

A finding compares plateaus (`tables.plateau`) at equal numbers of steps. Its uncertainty is that
of one more seed: the sample variance over seeds, pooled over the runs that were made with several,
and Student's t for as many degrees of freedom. Runs of one seed are taken to vary as much, which is
an assumption. Nothing is decided without a run of several seeds.

"Comparable", "little dependence" and "steep" are given no number in the text; here a difference is
small below a tenth of the non-private run's gain over 1, the score of images that are all alike.
"""

from collections.abc import Mapping
from math import inf, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import t

from dpkit.papers.small_images.tables import Stored, cut, level_of, plateau, rising

CONFIRMED, REFUTED, OPEN = "confirmed", "refuted", "not decided at this scale"
COVERAGE = 0.95  # of the intervals, two-sided
SMALL = 0.1  # of the non-private gain: a difference that counts as none
Verdict = Literal["confirmed", "refuted", "not decided at this scale"]


class Finding(NamedTuple):
    """A sentence of the paper and what the runs say to it.

    difference: of two plateaus, in inception score; None where a run is not stored.
    spread: half the width of its 95 % interval; None where no run has two seeds.
    """

    id: str
    where: str
    says: str
    verdict: Verdict
    difference: float | None
    spread: float | None
    explanation: str


def findings(figure_1: Stored, figure_2: Stored, figure_3: Stored) -> list[Finding]:
    """The paper's qualitative findings, each with its verdict.

    Args:
        figure_1, figure_2, figure_3: a figure's parts joined with those of "common", at one scale,
            as `tables.figure_1` takes them.
    """
    clip = _Plateaus(figure_1, "norm-", lambda s: s["clipping"]["max_grad_norm"])
    noise = _Plateaus(figure_2, "noise-", lambda s: s["noise_multiplier"])
    size = _Plateaus(figure_3, "capacity-", lambda s: s["capacity"])
    return [
        _alike(
            clip, (0.1, 1.0), "small-clips-alike", "Figure 1",
            "Clip norms 0.1 and 1 reach comparable scores.",
        ),
        _above(
            clip, (0.1, 1.0), (100.0,), "small-clips-best", "section 3.2.1, Figure 1",
            "A clip norm below every example's gradient scores best; one of 100 scores less.",
        ),
        _alike(
            noise, (0.5, 0.8, 0.9), "plateau-independent-of-noise", "section 3.2.2, Figure 2",
            "Below the critical noise multiplier the largest score hardly depends on the noise.",
            levelled=True,
        ),
        _above(
            noise, (0.5, 0.8, 0.9), (1.0,), "break-off-near-1", "section 3.2.2, Figure 2",
            "At noise multiplier 1.0 the score breaks off steeply.", margin=True,
        ),
        _between(
            size, "intermediate-capacity-best", "section 3.2.3, Figure 3",
            "The largest score is that of an intermediate capacity; smaller and larger reach less.",
        ),
    ]  # fmt: skip


class _Plateaus:
    """The plateaus of a figure's runs by value, and how far one more seed would be from them."""

    def __init__(self, stored: Stored, prefix: str, value: Any) -> None:
        found: dict[float, list[Mapping[str, Any]]] = {}
        parts = cut(stored, prefix)
        for name, part in parts.items():
            if not name.startswith("non-private-"):
                key = float(value(part["provenance"]["settings"]))
                found.setdefault(key, []).append(part["values"]["curve"])
        self.curves = dict(sorted(found.items()))
        self.seeds = {key: [plateau(c) for c in curves] for key, curves in self.curves.items()}
        level = level_of(parts)
        self.small = None if level is None else SMALL * (level - 1)
        freedom = sum(len(one) - 1 for one in self.seeds.values())
        squares = sum(
            (len(one) - 1) * np.var(one, ddof=1) for one in self.seeds.values() if one[1:]
        )
        self.deviation = sqrt(squares / freedom) if freedom else None
        self.quantile = float(t.ppf((1 + COVERAGE) / 2, freedom)) if freedom else inf

    def mean(self, key: float) -> float:
        return float(np.mean(self.seeds[key]))

    def spread(self, first: float, second: float) -> float | None:
        """Half the interval of the difference of two means; None without a run of two seeds."""
        if self.deviation is None:
            return None
        counts = 1 / len(self.seeds[first]) + 1 / len(self.seeds[second])
        return self.quantile * self.deviation * sqrt(counts)

    def missing(self, *keys: float) -> list[str]:
        lacking = [f"{key:g}" for key in keys if key not in self.seeds]
        return lacking if self.small is not None else [*lacking, "non-private"]


def _alike(
    of: _Plateaus, keys: tuple[float, ...], id: str, where: str, says: str, *,
    levelled: bool = False,
) -> Finding:  # fmt: skip
    """Confirmed if the plateaus that lie farthest apart are within the margin, spread included."""
    if lacking := of.missing(*keys):
        return _open(id, where, says, lacking)
    high, low = max(keys, key=of.mean), min(keys, key=of.mean)
    difference, spread = of.mean(high) - of.mean(low), of.spread(high, low)
    assert of.small is not None
    verdict, why = _against(difference, spread, of.small, less=True)
    climbing = [f"{key:g}" for key in keys if any(rising(curve) for curve in of.curves[key])]
    if levelled and climbing:
        verdict, why = OPEN, f"the scores of {', '.join(climbing)} still rise where the runs end"
    explanation = f"{high:g} reaches {of.mean(high):.2f}, {low:g} {of.mean(low):.2f}: {why}."
    return Finding(id, where, says, verdict, difference, spread, explanation)


def _above(
    of: _Plateaus, better: tuple[float, ...], worse: tuple[float, ...], id: str, where: str,
    says: str, *, margin: bool = False,
) -> Finding:  # fmt: skip
    """Confirmed if the least of the better is above the best of the worse (by the margin)."""
    if lacking := of.missing(*better, *worse):
        return _open(id, where, says, lacking)
    least, most = min(better, key=of.mean), max(worse, key=of.mean)
    difference, spread = of.mean(least) - of.mean(most), of.spread(least, most)
    assert of.small is not None
    verdict, why = _against(difference, spread, of.small if margin else 0.0, less=False)
    explanation = f"{least:g} reaches {of.mean(least):.2f}, {most:g} {of.mean(most):.2f}: {why}."
    return Finding(id, where, says, verdict, difference, spread, explanation)


def _between(of: _Plateaus, id: str, where: str, says: str) -> Finding:
    """Confirmed if the best of those between is above the smallest and the largest."""
    keys = list(of.seeds)
    if of.small is None or len(keys) < 3:
        return _open(id, where, says, of.missing() or ["a third capacity"])
    inner, outer = max(keys[1:-1], key=of.mean), max((keys[0], keys[-1]), key=of.mean)
    difference, spread = of.mean(inner) - of.mean(outer), of.spread(inner, outer)
    verdict, why = _against(difference, spread, 0.0, less=False)
    explanation = (
        f"of {', '.join(f'{key:g}' for key in keys)}, {inner:g} reaches {of.mean(inner):.2f} and "
        f"{outer:g}, the better of the two ends, {of.mean(outer):.2f}: {why}."
    )
    return Finding(id, where, says, verdict, difference, spread, explanation)


def _against(
    difference: float, spread: float | None, margin: float, *, less: bool
) -> tuple[Verdict, str]:
    """Whether a difference lies below (`less`) or above a margin, with its whole interval."""
    if spread is None:
        return OPEN, f"a difference of {difference:.2f}, no run with several seeds to compare with"
    below, above = difference + spread < margin, difference - spread > margin
    found = f"a difference of {difference:.2f} +- {spread:.2f}"
    if margin:
        found += f", where {margin:.2f} counts as none"
    if not (below or above):
        return OPEN, found
    return (CONFIRMED if below == less else REFUTED), found


def _open(id: str, where: str, says: str, lacking: list[str]) -> Finding:
    return Finding(id, where, says, OPEN, None, None, f"No run is stored of {', '.join(lacking)}.")

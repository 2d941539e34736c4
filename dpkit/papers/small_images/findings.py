"""Verdicts on the findings of section 3.2 and the discussion, from stored runs.

A finding compares plateaus (`tables.plateau`) at equal numbers of steps: means over seeds, and the
interval of their difference by Student's t, with the sample variance pooled over the values that
were run with several seeds. Runs of one seed are assumed to vary as much.

Nothing is decided without a run of several seeds, without all runs that are compared, or while a
run still rises (`tables.rising`) that could undo the verdict. Where all pairs must agree, each has
its own interval; where one is enough, it is chosen after looking, and intervals are wider
(Bonferroni, over the pairs). Five intervals of 95 % do not hold together with 95 %.

"Comparable", "little dependence" and "steep" are given no number in the text; here a difference is
small below a tenth of the non-private run's gain over 1, the score of images that are all alike.

`CURVES` are claims of the discussion (section 4), asked of the stored runs at the reduced scale
(see `settings`): a sixth of the steps, smaller networks, one seed of each value but C 0.1 and C 1,
noise 0.5, capacity 16, of which there are three. There, too, one seed decides nothing.
"""

from collections.abc import Mapping
from functools import cache, partial
from itertools import combinations, product
from math import inf, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import nct, t

from dpkit.papers.claims import Claim, claim_of
from dpkit.papers.experiments import store
from dpkit.papers.small_images.settings import FIGURE_3, REDUCED_CAPACITIES
from dpkit.papers.small_images.tables import Curve, Stored, cut, level_of, plateau, rising

CONFIRMED, REFUTED, OPEN = "confirmed", "refuted", "not decided at this scale"
COVERAGE = 0.95  # of the intervals, two-sided
POWER = 0.8  # of a test with as many seeds as are said to be needed
SMALL = 0.1  # of the non-private gain: a difference that counts as none
Verdict = Literal["confirmed", "refuted", "not decided at this scale"]


class Finding(NamedTuple):
    """A sentence of the paper, and the verdict of the runs on it.

    difference: of two plateaus, in inception score; None where a run is not stored.
    spread: half the width of its 95 % interval, one pair taken alone; None where no run has two
        seeds.
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

    A figure's parts are joined with those of "common", at one scale, as for `tables.figure_1`.
    """
    clip = _Plateaus(figure_1, "norm-", lambda s: s["clipping"]["max_grad_norm"])
    noise = _Plateaus(figure_2, "noise-", lambda s: s["noise_multiplier"])
    size = _Plateaus(figure_3, "capacity-", lambda s: s["capacity"])
    return [
        _alike(
            clip,
            (0.1, 1.0),
            "small-clips-alike",
            "Figure 1",
            "Clip norms 0.1 and 1 reach comparable scores.",
        ),
        _above(
            clip,
            (0.1, 1.0),
            (100.0,),
            "small-clips-best",
            "section 3.2.1, Figure 1",
            "A clip norm below every example's gradient scores best; one of 100 scores less.",
        ),
        _alike(
            noise,
            (0.5, 0.8, 0.9),
            "plateau-independent-of-noise",
            "section 3.2.2, Figure 2",
            "Below the critical noise multiplier the largest score hardly depends on the noise.",
        ),
        _above(
            noise,
            (0.5, 0.8, 0.9),
            (1.0,),
            "break-off-near-1",
            "section 3.2.2, Figure 2",
            "At noise multiplier 1.0 the score breaks off steeply.",
            margin=True,
        ),
        _between(
            size,
            "intermediate-capacity-best",
            "section 3.2.3, Figure 3",
            "The largest score is that of an intermediate capacity; smaller and larger reach less.",
        ),
    ]


class _Plateaus:
    """The plateaus of a figure's runs by value, and their means' precision."""

    def __init__(self, stored: Stored, prefix: str, value: Any) -> None:
        curves: dict[float, list[Mapping[str, Any]]] = {}
        parts = cut(stored, prefix)
        for name, part in parts.items():
            if not name.startswith("non-private-"):
                key = float(value(part["provenance"]["settings"]))
                curves.setdefault(key, []).append(part["values"]["curve"])
        self.curves = dict(sorted(curves.items()))
        self.seeds = {
            key: [plateau(c) for c in several] for key, several in self.curves.items()
        }
        level = level_of(parts)
        self.small = None if level is None else SMALL * (level - 1)
        scales = {part["provenance"]["scale"] for part in parts.values()}
        self.capacities = REDUCED_CAPACITIES if scales == {"reduced"} else tuple(FIGURE_3)
        self.freedom = sum(len(one) - 1 for one in self.seeds.values())
        squares = sum(
            (len(one) - 1) * np.var(one, ddof=1) for one in self.seeds.values() if one[1:]
        )
        self.deviation = sqrt(squares / self.freedom) if self.freedom else None

    def mean(self, key: float) -> float:
        return float(np.mean(self.seeds[key]))

    def spread(self, first: float, second: float, *, pairs: int = 1) -> float | None:
        """Half the interval of the difference of two means; None without a run of two seeds.

        pairs: from which these two were chosen after looking.
        """
        if self.deviation is None:
            return None
        counts = 1 / len(self.seeds[first]) + 1 / len(self.seeds[second])
        quantile = float(t.ppf(1 - (1 - COVERAGE) / (2 * pairs), self.freedom))
        return quantile * self.deviation * sqrt(counts)

    def apart(self, first: float, second: float, *, pairs: int = 1) -> tuple[float, float]:
        """The interval of the first plateau's lead over the second; endless if unknown."""
        wide = self.spread(first, second, pairs=pairs)
        difference = self.mean(first) - self.mean(second)
        return (-inf, inf) if wide is None else (difference - wide, difference + wide)

    def seeds_needed(self, difference: float) -> int | None:
        """Seeds of each value that find a `difference` of two plateaus four times in five.

        By Student's t test at the spread seen; None without it, or beyond a hundred seeds.
        """
        if self.deviation is None:
            return None
        for count in range(2, 101):
            freedom = len(self.seeds) * (count - 1)
            shift = difference / (self.deviation * sqrt(2 / count))
            if nct.sf(t.ppf((1 + COVERAGE) / 2, freedom), freedom, shift) >= POWER:
                return count
        return None

    def needed(self) -> str:
        """The same in words, for the difference that counts as none; "" if it is not known."""
        count = None if self.small is None else self.seeds_needed(self.small)
        if count is None:
            return ""
        return (
            f"at this spread {count} seeds of each would find a difference of {self.small:.2f} "
            "four times in five"
        )

    def missing(self, *keys: float) -> list[str]:
        lacking = [f"{key:g}" for key in keys if key not in self.seeds]
        return lacking if self.small is not None else [*lacking, "non-private"]

    def climbing(self, *keys: float) -> list[float]:
        return [key for key in keys if any(rising(curve) for curve in self.curves[key])]

    def said(self, key: float) -> str:
        """A plateau in words."""
        seeds = len(self.seeds[key])
        return f"{self.mean(key):.2f} ({seeds} seed{'s' if seeds > 1 else ''})"


def _alike(of: _Plateaus, keys: tuple[float, ...], *sentence: str) -> Finding:
    """Confirmed if every two plateaus are within the margin, spread included."""
    if lacking := of.missing(*keys):
        return _open(sentence, lacking)
    high, low = max(keys, key=of.mean), min(keys, key=of.mean)
    pairs = list(combinations(sorted(keys, key=of.mean, reverse=True), 2))
    assert of.small is not None
    return _decided(
        of,
        (high, low),
        sentence,
        f"{high:g} reaches {of.said(high)}, {low:g} {of.said(low)}",
        confirmed=all(of.apart(*pair)[1] < of.small for pair in pairs),
        refuted=any(of.apart(*pair, pairs=len(pairs))[0] > of.small for pair in pairs),
        guards=(keys, keys),
        margin=of.small,
    )


def _above(
    of: _Plateaus,
    better: tuple[float, ...],
    worse: tuple[float, ...],
    *sentence: str,
    margin: bool = False,
) -> Finding:
    """Confirmed if each of the better is above each of the worse (by the margin)."""
    if lacking := of.missing(*better, *worse):
        return _open(sentence, lacking)
    least, most = min(better, key=of.mean), max(worse, key=of.mean)
    pairs = list(product(better, worse))
    assert of.small is not None
    least_gain = of.small if margin else 0.0
    return _decided(
        of,
        (least, most),
        sentence,
        f"{least:g} reaches {of.said(least)}, {most:g} {of.said(most)}",
        confirmed=all(of.apart(*pair)[0] > least_gain for pair in pairs),
        refuted=any(of.apart(*pair, pairs=len(pairs))[1] < least_gain for pair in pairs),
        guards=(worse, better),
        margin=least_gain,
    )


def _between(of: _Plateaus, *sentence: str) -> Finding:
    """Confirmed if one of those between is above both the smallest and the largest."""
    keys = list(of.seeds)
    reached = ", ".join(f"{key:g} {of.said(key)}" for key in keys).replace(" ", " reaches ", 1)
    ends, between = (keys[0], keys[-1]), tuple(keys[1:-1])
    inner, outer = (max(some, key=of.mean, default=keys[0]) for some in (between, ends))
    if lacking := of.missing(*of.capacities):
        wide, lead = of.spread(inner, outer), of.mean(inner) - of.mean(outer)
        far = (
            ""
            if wide is None or not between
            else f"{inner:g} leads {outer:g} by {lead:.2f} +- {wide:.2f}"
        )
        said = "; ".join(filter(None, (reached, far, of.needed())))
        return _open(sentence, lacking, also=f" {said}." if said else "")
    return _decided(
        of,
        (inner, outer),
        sentence,
        reached,
        confirmed=any(
            all(of.apart(one, end, pairs=len(between))[0] > 0 for end in ends)
            for one in between
        ),
        refuted=any(
            all(of.apart(one, end, pairs=len(ends))[1] < 0 for one in between) for end in ends
        ),
        guards=(ends, between),
    )


def _decided(
    of: _Plateaus,
    keys: tuple[float, float],
    sentence: tuple[str, ...],
    reached: str,
    *,
    confirmed: bool,
    refuted: bool,
    guards: tuple[tuple[float, ...], tuple[float, ...]],
    margin: float = 0.0,
) -> Finding:
    """A finding from the difference of two plateaus.

    Args:
        reached: the plateaus in words.
        guards: runs that must not rise any more, to confirm and to refute.
        margin: a difference that counts as none.
    """
    difference, spread = of.mean(keys[0]) - of.mean(keys[1]), of.spread(*keys)
    why = f"a difference of {difference:.2f}"
    if spread is None:
        why += ", no run with several seeds to compare with"
    else:
        why += f" +- {spread:.2f}" + (f", where {margin:.2f} counts as none" if margin else "")
    verdict = CONFIRMED if confirmed else REFUTED if refuted else OPEN
    climbing = of.climbing(*guards[0 if confirmed else 1]) if confirmed or refuted else []
    if verdict == OPEN and (needed := of.needed()):
        why += f"; {needed}"
    if climbing:
        verdict = OPEN
        names = ", ".join(f"{key:g}" for key in climbing)
        why += f"; the scores of {names} still rise where the runs end"
    id, where, says = sentence
    return Finding(id, where, says, verdict, difference, spread, f"{reached}: {why}.")


def _open(sentence: tuple[str, ...], lacking: list[str], *, also: str = "") -> Finding:
    why = f"No run is stored of {', '.join(lacking)}.{also}"
    id, where, says = sentence
    return Finding(id, where, says, OPEN, None, None, why)


# C 1, noise 0.5, capacity 16
BASE = ("base-seed0", "base-seed1", "base-seed2")
SMALL_NORM = ("norm-0.1-seed0", "norm-0.1-seed1", "norm-0.1-seed2")
LARGE_NORM = "norm-100-seed0"
OPTIMAL = (*BASE, *SMALL_NORM, "noise-0.8-seed0", "noise-0.9-seed0")
SUB_OPTIMAL = (LARGE_NORM, "noise-1-seed0")
SMALLEST, LARGEST = "capacity-8-seed0", "capacity-64-seed0"
CAPACITIES = (SMALLEST, *BASE, "capacity-32-seed0", LARGEST)


@cache
def curves() -> dict[str, Curve]:
    """The curves of all stored runs, by part."""
    return {
        name: part["values"]["curve"]
        for table in ("common", "figure_1", "figure_2", "figure_3")
        for name, part in store.load("small_images", table, scale="reduced").items()
    }


def fluctuation(curve: Curve) -> float:
    """Deviation of the scores' jumps in the second half of a run, over their mean."""
    scores = np.asarray(curve["inception"], float)
    late = scores[len(scores) // 2 :]
    return float(np.diff(late).std() / late.mean())


def crossed() -> int:
    """Of the six runs at C 0.1 and 1, those that C 100 is above once and ends below."""
    low = np.asarray(curves()[LARGE_NORM]["inception"], float)
    count = 0
    for name in (*BASE, *SMALL_NORM):
        ahead = low > np.asarray(curves()[name]["inception"], float)
        count += bool(ahead.any() and not ahead[-1])
    return count


claim = partial(claim_of, "small_images")
CURVES: tuple[Claim, ...] = (
    claim(
        "large-without-privacy",
        "text: section 4, on network capacity",
        'Without privacy "a reduction was not visible, however, at increased capacities '
        '(computations not shown)".',
        lambda: float(
            "non-private-seed0" in store.load("small_images", "common", scale="reduced")
        ),
        "This many capacities have a stored run without privacy: 16. Missing are 32, 96 and 128.",
        kind="unchecked",
    ),
    claim(
        "large-networks-clip-more",
        "text: section 4, on Figure 3",
        'In networks of higher capacity "more terms enter the gradient L-2 norm thus '
        "enhancing the effect of the clipping. We hypothesize that this is the main mechanism "
        'leading to a degraded utility in larger networks" (asked at C 1, of capacities 8 to 64).',
        lambda: float(
            np.ptp(np.concatenate([curves()[name]["clipped"] for name in CAPACITIES]))
        ),
        "If the effect is how many gradients are clipped, there is no difference in that share: in "
        "each of six runs every gradient looked at is longer than C, as the text says of its own. "
        "If it is the factor by which each is shortened (`norm-grows-with-capacity`), what is "
        "clipped keeps its direction alone: a longer gradient is released no smaller. If more "
        "terms share one C, each with its own noise, a term's share falls. How much that costs, "
        "one seed and a sixth of the steps cannot tell.",
        kind="unchecked",
        rounding=1e-12,
    ),
    claim(
        "norm-grows-with-capacity",
        "text: section 4, on Figure 3",
        "In networks of higher capacity more terms enter the gradient's norm, which is larger "
        "(the ratio is not printed; missing are several seeds of each capacity).",
        lambda: curves()[LARGEST]["median_norm"][-1] / curves()[SMALLEST]["median_norm"][-1],
        "This is the ratio of the median norms at capacities 64 and 8 at step 2,000, "
        "one run each: 55 and 50. Three seeds of capacity 16 have 30, 48 and 51 there, farther "
        "apart, so that nothing is decided.",
        kind="unchecked",
    ),
    claim(
        "sub-optimal-fluctuates",
        "text: section 4, on Figures 1 (C 100) and 2 (noise 1.0)",
        "Sub-optimal runs have large fluctuations in utility (how large is not printed; "
        "missing are several seeds of them).",
        lambda: sum(
            fluctuation(curves()[one]) > fluctuation(curves()[other])
            for one, other in product(SUB_OPTIMAL, OPTIMAL)
        ),
        "Of 16 pairs of a sub-optimal run and an optimal one, the former fluctuates "
        "more in this many: its scores' jumps, over their mean, in the second half. They are .23 "
        "and .16 (C 100, noise 1.0), and from .03 to .26 in the eight optimal runs.",
        kind="unchecked",
    ),
    claim(
        "characteristics-cross",
        "text: section 4, on Figure 1 (C 100)",
        "Sub-optimal characteristics cross through optimal ones at low utility (where is not "
        "printed; missing are several seeds of C 100).",
        crossed,
        "Of the six runs at C 0.1 and 1, the one run at C 100 crosses this many: it is "
        "above them here and there up to step 1,250, by 0.4 at most, at scores below 1.8, and ends "
        "below. Noise 1.0 cannot be asked: its stored points end before epsilon 1.3, the others "
        "begin later.",
        kind="unchecked",
    ),
)

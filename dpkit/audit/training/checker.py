"""Judge the epsilon that a program claims: run it on neighbouring data with the same draws.

Experimental. What the program returns counts as released. The checker finds where noise is added,
how far one record moves what it is added to, how batches are drawn, and what gets out past the
noise. It searches over records of the data's own range: another record, or other data, may move
more.
"""

import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from html import escape
from itertools import groupby
from math import inf, sqrt
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from torch.utils._pytree import tree_map

from dpkit.audit.bounds import clopper_pearson
from dpkit.audit.scores import LowerBound
from dpkit.audit.training.following import line_of, run_once
from dpkit.audit.training.replay import (
    NeighbouringRuns,
    Noising,
    Place,
    Run,
    alike,
    array,
    columns,
    differing,
    flat,
    prints,
)
from dpkit.common import checks
from dpkit.privacy import (
    ADJACENCIES,
    Adjacency,
    Gaussian,
    Laplace,
    Release,
    SampledGaussian,
    Unsupported,
    WithoutReplacementGaussian,
    WithReplacementGaussian,
    pld,
)

LONG = re.compile(r"\d+\.\d{4,}(e-\d+)?")  # numbers of more digits than tell something
LEAST = 4  # numbers of which noise on a grid is not alike by chance
FEW = 50  # values of a column of categories, at most
FAR = 100.0  # times the range
ROUGH = 1.002  # times the claim: rounding of what moves
NOISY = ("normal", "randn", "randn_like", "standard_normal", "gauss", "laplace")
ASSUMED = (
    "a record is a row of the data, and the number and the range of records are public",
    "the program releases its return value and nothing else",
    "the noise is exact: floating-point form and random generators are not checked",
    "no other record and no other data set moves the noised sums farther than those tried",
    "outside Poisson samples, in drawn batches, adding a record moves half as far as replacing it",
)
Found = list[tuple[str, Place | None]]


class Blame(NamedTuple):
    """A line of the program (0: none), and what is found there."""

    file: str
    line: int
    text: str
    finding: str


@dataclass(frozen=True)
class Report:
    """What `check` found. It describes the data: do not release that of private ones.

    verdict: "covered": nothing gets past the noise, which costs at most what is claimed;
        "understated": it costs more; "broken": something gets past it; "undecided": see blame.
    claimed, delta, adjacency: as given.
    charged: epsilon of the noise, rates and moves that were found, by `pld`; inf where what moves
        has no noise.
    proven: the same where the verdict is "covered", else None; it holds under `assumptions`.
    measured: what an attack on the program's outputs shows, under replace-one; None without trials.
    blame: lines that decide the verdict.
    ledger: the charges, in words; none where the verdict is "broken".
    runs: how often the program ran.
    """

    verdict: Literal["covered", "broken", "understated", "undecided"]
    claimed: float
    delta: float
    adjacency: Adjacency
    charged: float
    proven: float | None
    measured: LowerBound | None
    blame: tuple[Blame, ...]
    ledger: tuple[str, ...]
    assumptions: tuple[str, ...]
    runs: int

    def __str__(self) -> str:
        # bounds are rounded to their safe sides
        proven = "none" if self.proven is None else f"{self.proven * 1.0005:.4g}"
        measured = f">= {self.measured.epsilon * 0.9995:.4g}" if self.measured else "not asked"
        return "\n".join(
            [
                f"{self.verdict}: claimed {self.claimed:.4g} | charged "
                f"{self.charged * 1.0005:.4g} | proven {proven} | measured {measured}",
                f"delta {self.delta:g}, {self.adjacency}, {self.runs} runs",
                *(
                    f"{Path(x.file).name}:{x.line}: {x.finding}\n    {x.text}"
                    if x.line
                    else x.finding
                    for x in self.blame
                ),
                *(f"charged: {one}" for one in self.ledger),
                *(f"supposed: {one}" for one in self.assumptions),
            ]
        )

    def _repr_html_(self) -> str:
        parts = [f"<pre>{escape(str(self))}</pre>"]
        for at in (x for x in self.blame if x.line):  # with the lines around it
            start = max(at.line - 4, 0)
            near = enumerate(linecache.getlines(at.file)[start : at.line + 3], start + 1)
            lines = (f"{'>' if i == at.line else ' '} {i:4} {line}" for i, line in near)
            parts.append(f"<p>{escape(at.finding)}:</p><pre>{escape(''.join(lines))}</pre>")
        return "".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON."""
        measured = self.measured and self.measured._asdict()
        return {
            **asdict(self),
            "measured": measured,
            "blame": [x._asdict() for x in self.blame],
        }


def check(
    train: Callable[[Any], Any],
    data: Any,
    *,
    claimed: float,
    delta: float,
    adjacency: Adjacency = "add-remove",
    trials: int = 0,
    seed: int = 0,
) -> Report:
    """Run `train` on data and its neighbours with the same draws, and judge the claimed epsilon.

        import torch

        from dpkit.audit import check

        def train(rows):
            return rows.clamp(0, 1).sum(0) + 5 * torch.randn(2)

        print(check(train, torch.rand(60, 2), claimed=2, delta=1e-5))

    It runs some fifty times, and up to six times as often where the first verdict is not "covered":
    take few records, few steps, and the CPU.

    Args:
        train: a function of the data, which returns what is released: tensors, arrays, numbers,
            networks, or containers of them. It draws from torch, NumPy or `random`, and keeps
            nothing from one call to the next.
        data: an array or tensor, or a tuple, list or dict of them, with a record in each row.
        claimed: epsilon in nats, at `delta`, under `adjacency`.
        delta: in [0, 1).
        adjacency: "add-remove" or "replace-one"; under either the number of records is public.
        trials: for `measured`, half of the runs in each of two worlds; 0: none.
        seed: of the records that are tried, and of every generator that train does not seed.

    Raises:
        ValueError: a number is out of range, or there are fewer than 2 records.
        TypeError: data are no arrays. What train raises on the data as they are passes through.
    """
    checks.non_negative(claimed=claimed)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    checks.one_of(ADJACENCIES, adjacency=adjacency)
    checks.whole(trials=trials, seed=seed)
    found = _Search(train, data, seed)
    price = _priced(found, delta, adjacency)
    verdict, blame = _judged(found, price, claimed)
    moved = [one for pair in found.pairs for one, _ in pair.moved() if one.used]
    lines = sorted({one.key[1] for one in moved if np.ndim(one.values[-1])})
    assumed = ASSUMED[
        : -1 if adjacency == "replace-one" or not found.base.selections else None
    ]
    if verdict != "covered" and len(lines) <= 4:
        # some of the noise may stay inside, such as that of augmented images: is the rest enough?
        for private in [{x} for x in lines] + [{*lines}] * (len(lines) > 1):
            other = _Search(train, data, seed, skipped=frozenset(private))
            less = _priced(other, delta, adjacency)
            found.runs += other.runs
            told, doubts = _judged(other, less, claimed)
            if told == "covered":
                verdict, blame, price = "covered", [], less
                where = ", ".join(str(line) for _, line in sorted(private))
                assumed += (f"what gets the noise of line {where} is not released",)
                break
            if told == "undecided" and verdict == "understated" and len(lines) > 1:
                verdict, blame = told, doubts
    measured = _measured(found, trials, delta) if trials else None
    if (
        measured is not None
        and measured.epsilon > claimed
        and adjacency == "replace-one"
        and verdict in ("covered", "undecided")
    ):
        verdict, blame = "understated", [("an attack shows more than is claimed", None)]
    return Report(
        verdict,
        claimed,
        delta,
        adjacency,
        inf if verdict == "broken" else price[0],
        price[0] if verdict == "covered" else None,
        measured,
        tuple(
            Blame(*(at or ("", 0)), linecache.getline(*at).strip() if at else "", said)
            for said, at in dict.fromkeys(blame)
        ),
        () if verdict == "broken" else price[1],
        assumed,
        found.runs,
    )


class _Search:
    """Runs on the data, and on others of its range, each with neighbours."""

    def __init__(
        self, train: Callable[[Any], Any], data: Any, seed: int, **given: Any
    ) -> None:
        self.train, self.seed, self.given, self.runs = train, seed, given, 0
        self.rng, self.stopped = np.random.default_rng(seed), ""
        self.records = len(columns(data)[0])
        # the first run may draw more, such as for what is imported in it
        self.fresh, self.base = self.run(data, seed=seed + 1), self.run(data)
        # with other seeds, so that what is no draw differs
        self.again = self.run(data, earlier=self.base, seed=seed + 1)
        self.pairs = list(self._pairs(self.base, data, places=5))
        even = deepcopy(data)
        for column in columns(even):
            array(column)[...] = self._even(array(column).copy())
        with suppress(Exception):  # the program may not be able to do with such data
            self.pairs += self._pairs(self.run(even), even, places=3)

    def run(self, data: Any, **own: Any) -> Run:
        self.runs += 1
        return run_once(
            self.train,
            data,
            **{"records": self.records, "seed": self.seed, **self.given, **own},
        )

    def _even(self, held: np.ndarray) -> np.ndarray:
        """As many records at each end of the range, or with each of few whole numbers."""
        rows = held.reshape(len(held), -1)
        for j, column in enumerate(rows.T):
            values = np.unique(column)[::-1]
            whole = len(values) <= FEW and np.array_equal(values, np.round(values))
            rows[:, j] = self.rng.permutation(
                np.resize(values if whole else values[[0, -1]], len(held))
            )
        return rows.reshape(held.shape)

    def _record(self, how: str, held: np.ndarray, place: int) -> Any:
        end = np.where(self.rng.random(held.shape[1:]) < 0.5, held.min(0), held.max(0))
        return {
            "end": end,
            "far": end * FAR if held.dtype.kind == "f" else held[place],
            "other": held[self.rng.integers(len(held))],
        }[how]

    def _pairs(self, base: Run, data: Any, *, places: int) -> Iterator[NeighbouringRuns]:
        size = array(columns(data)[0]).reshape(self.records, -1).astype(float).sum(1)
        taken = sum((x.members for x in base.selections), np.zeros(self.records))
        often = np.argsort(-taken - self.rng.random(self.records))
        some = [int(size.argmax()), int(size.argmin()), 0, *often.tolist()]
        for place in list(dict.fromkeys(some))[:places]:
            keep = np.delete(np.arange(self.records), place)
            fewer = tree_map(lambda x, keep=keep: x[keep], data)
            with suppress(Exception):
                yield NeighbouringRuns(
                    "removed", place, (data, fewer), base, self.run(fewer, earlier=base)
                )
            if any(x.kind == "poisson" for x in base.selections):
                without = self.run(data, earlier=base, left_out=place)
                # of a draw for each record in a loop, the later ones are not the same any more
                without.lost |= {key[1] for key in base.draws.keys() - without.draws.keys()}
                yield NeighbouringRuns("left out", place, (data, data), base, without)
            for how in ("end", "end", "other", "end", "far"):
                changed = deepcopy(data)
                for column, held in zip(columns(changed), columns(data), strict=True):
                    array(column)[place] = self._record(how, array(held), place)
                try:
                    other = self.run(changed, earlier=base)
                except Exception as error:
                    self.stopped = self.stopped if how == "far" else type(error).__name__
                else:
                    yield NeighbouringRuns(
                        "far" if how == "far" else "replaced",
                        place,
                        (data, changed),
                        base,
                        other,
                    )


def _judged(found: _Search, price: "Price", claimed: float) -> tuple[Any, Found]:
    """The verdict, and its reasons with their lines."""
    if differing(found.base, found.again):
        return "undecided", [
            (
                "two runs on the same data with the same draws differ: draw by torch, np.random or "
                "random, return no generator and no seed, and keep nothing from call to call",
                None,
            )
        ]
    moved = [x for pair in found.pairs if pair.how != "far" for x in pair.moved()]
    if broken := [
        *_at_noise(found),
        *(
            (
                "one record moves numbers here without noise, or with that of others that stay",
                x.key[1],
            )
            for x, by in moved
            if by == inf and x.law.law != "unknown"
        ),
    ]:
        return "broken", broken
    moving = [one for one, _ in moved]
    lost = {
        *(one.key[1] for one in moving if one.law.law == "unknown"),
        *(x for p in found.pairs if p.how != "removed" for x in p.one.lost | p.other.lost),
        # noise of which nothing is known is not said to be none
        *(x[1] for x in found.base.draws if not moving and x[0].removesuffix("_") in NOISY),
    }
    unknown: Found = [("noise of a law that is not followed", x) for x in sorted(lost)]
    leaking = [
        x
        for x in found.pairs
        if x.how != "removed"
        and differing(x.one, x.other)
        # far from the data's range, what overflows tells nothing
        and (
            x.how != "far"
            or np.isfinite(
                sum(flat(v).sum() for v in x.other.out.values() if v.dtype.kind in "biuf")
            )
        )
    ]
    steady = {x for x, held in found.base.out.items() if alike(held, found.fresh.out.get(x))}
    secret = [
        (f"what is returned [{x}] is a seed or a choice of records", where)
        for x, held in found.base.out.items()
        if x not in steady and (where := found.base.secrets.get(prints(held.reshape(-1))))
    ]
    if leaking:
        pair = next((x for x in leaking if steady & {*differing(x.one, x.other)}), leaking[0])
        names = sorted(differing(pair.one, pair.other))
        what = "".join(f" [{x}]" for x in names[:3] if x) + " ..." * (len(names) > 3)
        said = (
            f"what is returned{what} changes with one record, and no noise covers the change"
        )
        where = next(iter(pair.other.reused), None) or line_of(
            found.train, pair.data, (pair.one, pair.other), seed=found.seed
        )
        whole = all(
            x.dtype.kind not in "fc" or np.array_equal(x, x.round())
            for name in names
            if (x := pair.one.out.get(name)) is not None
        )
        if not steady & {*names} and (unknown or whole):
            return "undecided", [(said, where), *unknown]
        return "broken", [(said, where)]
    raised = f"train raises {found.stopped} where one record differs, and this is seen as well"
    varied = (
        "how many sums get noise differs from run to run, and those of other runs cost as well"
    )
    if doubts := [
        *unknown,
        *([(raised, None)] if found.stopped else []),
        *(("this noise is added more than once", x) for x in sorted(found.base.reused)),
        *([] if moving else [("no record of the data's range changes anything", None)]),
        *[(varied, None)][found.base.releases.keys() == found.fresh.releases.keys() :],
        *secret,
    ]:
        return "undecided", doubts
    if price[0] <= claimed * ROUGH:
        return "covered", []
    if maybe := {
        where
        for (name, where, nth), (value, _) in found.base.draws.items()
        if name in ("rand", "random", "uniform", "uniform_", "random_sample")
        and (
            array(value).size % found.records == 0
            or (np.ndim(value) == 1 and 2 * array(value).size > found.records)  # after a split
            or nth >= found.records
        )
        and array(value).min() >= 0  # else of weights
    } - {x.where for x in found.base.selections}:
        return "undecided", [("this draw may choose records, and is not followed", min(maybe))]
    if any(np.shape(one.values[-1])[:1] == (found.records,) for one in moving):
        return "undecided", [("each record gets noise of its own here", moving[0].key[1])]
    said = f"with all else that is charged, the noise that is added here costs {price[0]:.4g}"
    if not any(one.used for one in moving):
        said = "what is only compared may cost less (sparse vector, noisy maximum)"
        return "undecided", [(said, moving[0].key[1])]
    here = [(said, moving[0].key[1]), ("it is drawn here", moving[0].law.where)]
    return "understated", [*here, *price[2]]


def _at_noise(found: _Search) -> Iterator[tuple[str, Place]]:
    """Noise that is none: of a fixed seed, one draw for many numbers, or one that served before."""
    moved = {one.key for pair in found.pairs for one, _ in pair.moved()}
    seen: list[np.ndarray] = []
    for one in (x for x in found.base.releases.values() if x.key in moved):
        few = one.rounded and one.std.size < LEAST  # may be alike by chance
        if few or one.law.law == "unknown" or not (one.std > 0).all():
            continue
        # digits in which few numbers are not alike by chance
        digits = {1: 9, 2: 6, 3: 6}.get(one.std.size, 4)
        unit, where = np.sort(np.abs(one.noise / one.std).round(digits)), one.key[1]
        if (other := found.fresh.releases.get(one.key)) and one.like(
            other, 0.05 if one.std.size >= LEAST else 1e-6
        ):
            yield "the noise is the same in every run: fixed seed", found.base.seeded or where
        if not one.rounded and unit.size > 1 and np.unique(unit).size <= unit.size / 2:
            yield (
                "one draw is the noise of several numbers, whose differences have none",
                where,
            )
        if any(np.array_equal(x, unit) for x in seen):
            yield "this noise was added before, and differences have none", where
        seen.append(unit)


MECHANISMS: dict[str, Callable[[float, float, int, Adjacency], Any]] = {
    "poisson": lambda by, rate, _, adjacency: SampledGaussian(1 / by, rate, adjacency),
    "fixed": lambda by, rate, *_: WithoutReplacementGaussian(1 / by, rate),
    "with replacement": lambda by, rate, records, _: WithReplacementGaussian(
        1 / by, round(rate * records), records
    ),
}


# epsilon of what was found, its ledger in words, the lines where records are chosen
Price = tuple[float, tuple[str, ...], Found]


def _step(run: Run, one: Noising) -> Any:
    """How its records were chosen (kind, rate, line), and all noise of that step, or None."""
    last = run.selections[one.selection - 1] if one.selection else None
    if last is None or one.law.law != "normal":
        return None
    kinds = Counter(x.kind for x in run.selections)
    one_each = kinds["slice"] == kinds["order"] and last.rate < 1
    kind = "fixed" if last.kind == "slice" and one_each else last.kind
    same = {
        float(f"{x.std.max(initial=0):.4g}")
        for x in run.releases.values()
        if x.selection == one.selection
    }
    return (kind, last.rate, last.where, tuple(sorted(same))) if kind in MECHANISMS else None


def _priced(found: _Search, delta: float, adjacency: Adjacency) -> Price:
    """Steps on chosen records by the farthest move of a step; the rest by one record's moves."""
    vain = {  # choices beside which a record moves something that is not in them
        last.where
        for pair in found.pairs
        for one, _ in pair.moved()
        if one.selection
        and pair.how != "removed"  # where batches are others
        and not (last := pair.one.selections[one.selection - 1]).members[pair.place]
    }
    seeded = {  # nor does one from a fixed seed hide anybody
        a.where
        for a, b in zip(found.base.selections, found.fresh.selections, strict=False)
        if a.rate < 1 and np.array_equal(a.members, b.members)
    }
    worlds = groupby(found.pairs, key=lambda x: id(x.one))
    return max(
        (_of_world(list(pairs), vain | seeded, delta, adjacency) for _, pairs in worlds),
        key=lambda x: x[0],
    )


def _of_world(
    pairs: list[NeighbouringRuns], vain: set[Place], delta: float, adjacency: Adjacency
) -> Price:
    farthest: dict[Any, float] = {}
    others: set[tuple[float, tuple[float, ...]]] = {(0.0, ())}
    unit = 1.0 if adjacency == "add-remove" else 2.0
    for pair in pairs:
        add_remove = pair.how in ("left out", "removed")
        if pair.how == "far" or (add_remove and adjacency == "replace-one"):
            continue
        squares, rest = Counter[Any](), []
        for one, by in pair.moved():
            step, halved = _step(pair.one, one), 2.0 if pair.how == "replaced" else 1.0
            if step is None or step[2] in vain:
                by /= halved if adjacency == "add-remove" else 1.0
                rest.append((one.law.law, by))
                continue
            if pair.how == "removed":
                continue
            by /= halved if step[0] != "fixed" else 1.0
            by /= pair.one.selections[one.selection - 1].members[pair.place]
            squares[step, one.selection] += by**2
        for (step, _), square in squares.items():
            farthest[step] = max(farthest.get(step, 0.0), sqrt(square))
        mu = sqrt(sum(by**2 for law, by in rest if law == "normal"))
        others.add((mu, tuple(sorted(by for law, by in rest if law == "laplace"))))
    base = pairs[0].one
    counts = Counter(
        step for step, _ in {(_step(base, x), x.selection) for x in base.releases.values()}
    )
    chosen: Found = [
        (f"records are chosen here: {step[0]}, rate {step[1]:.4g}", step[2])
        for step in farthest
    ]
    if not chosen and base.selections:
        last = base.selections[-1]
        chosen = [
            (f"records are chosen here: {last.kind}, but others move the step too", last.where)
        ]
    # a step that nobody who was tried took part in costs as much as the others at most
    most: dict[Any, float] = {}
    for step, by in farthest.items():
        most[step[:3]] = max(most.get(step[:3], 0.0), by)
    moves = {step: farthest.get(step, most.get(step[:3])) for step in counts if step}
    best: Price = (0.0, (), chosen)
    for order in (lambda x: x[0], lambda x: sum(x[1]), lambda x: x[0] + sum(x[1])):
        (mu, scales), ledger = max(others, key=order), []
        try:  # no noise has no price, and some mechanisms none at this delta
            ledger = [
                Release(
                    MECHANISMS[step[0]](by, step[1], base.records, adjacency), counts[step]
                )
                for step, by in moves.items()
                if by
            ]
            ledger += [Release(Gaussian(unit / mu, adjacency))] if mu else []
            ledger += [
                Release(Laplace(unit / by, adjacency), n) for by, n in Counter(scales).items()
            ]
            epsilon = pld.epsilon(ledger, delta=delta).epsilon if ledger else 0.0
        except (Unsupported, ValueError):
            epsilon = inf
        if epsilon >= best[0]:
            words = (
                LONG.sub(lambda x: f"{float(x[0]):.4g}", f"{n} x {one}") for one, n in ledger
            )
            best = (epsilon, tuple(words), chosen)
    return best


def _measured(found: _Search, trials: int, delta: float) -> LowerBound:
    """Tell two worlds apart by the released numbers, along a line that half of the runs show."""
    pair = max(
        (x for x in found.pairs if x.how == "replaced"),
        key=lambda x: (len(differing(x.one, x.other)), sum(by for _, by in x.moved())),
    )
    worlds = []
    for data in pair.data:
        seeds = found.rng.integers(2**31, size=2 * trials).tolist()
        runs = [found.run(data, seed=seed).out.values() for seed in seeds]
        rows = [[flat(x) for x in run if x.dtype.kind in "biuf"] for run in runs]
        worlds.append([np.concatenate([np.zeros(1), *row]) for row in rows])
    width = min(len(row) for world in worlds for row in world)
    absent, present = (np.nan_to_num([row[:width] for row in world]) for world in worlds)
    gap = present[:trials].mean(0) - absent[:trials].mean(0)
    line = gap / (present[:trials].var(0) + absent[:trials].var(0) + 1e-12)
    return clopper_pearson(
        absent[trials:] @ line,
        present[trials:] @ line,
        delta=max(delta, 1e-300),
        adjacency="replace-one",
        rng=np.random.default_rng(0),
    )

"""One run of a program with its draws kept: which sums get noise, how much, and where.

Numbers that come from torch's or NumPy's generators are followed to the place where something is
added to them. A run like an earlier one gets that one's draws, and at such a place what the earlier
one had after it. So what still differs has passed no noise.
"""

import random
import sys
import sysconfig
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

LIBRARIES = (
    *sysconfig.get_paths().values(),
    *(str(Path(__file__).parents[2] / x) for x in ("audit", "training")),
)
ALIKE = 1e-5  # of the largest number: sums in another order
CODE = (type, ModuleType)
PLAIN = vars(torch.nn.Module())  # what every network has, and its parts have anew
NOISES = ("normal", "laplace", "unknown")
# torch's operations and NumPy's functions, by what becomes of noise in them
ADDED = {"add": 1, "sub": -1, "subtract": -1}
SCALED = ("mul", "div", "multiply", "divide", "true_divide")
COMPARED = [
    "lt",
    "le",
    "gt",
    "ge",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "argmax",
    "max",
    "min",
    "topk",
    "sort",
]
KEPT = [
    "detach",
    "alias",
    "view",
    "_unsafe_view",
    "reshape",
    "clone",
    "_to_copy",
    "contiguous",
    "expand",
    "t",
    "transpose",
    "permute",
    "squeeze",
    "unsqueeze",
    "lift_fresh",
    "neg",
    "negative",
    "positive",
    "triu",
    "tril",
]
PARTS = ["select", "slice", "split", "split_with_sizes", "unbind", "index", "index_select"]
CURVED = ("log", "log1p", "sign", "tan", "erfinv", "ndtri", "square", "sqrt")
EMPTY = (
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "new_zeros",
    "new_empty",
    "norm",
)


Place = tuple[str, int]  # a line of a program: file and number


@cache
def own_code(file: str) -> bool:
    """Whether the file is neither a library's nor the checker's."""
    return not file.startswith(("<", *LIBRARIES))


def place() -> Place:
    """The line of the program that runs now."""
    frame = sys._getframe(1)
    while frame.f_back and not own_code(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


@dataclass
class Law:
    """What is known of numbers: the law of noise, "order", "mask", or "noised".

    std: standard deviation (of Laplace noise the scale), a number or one for each.
    where: the line that drew them.
    spent: how they served already, "added" or "used".
    """

    law: str
    std: Any = 1.0
    where: Place = field(default_factory=place)
    spent: str = ""
    release: "Noising | None" = None

    def part(self, whole: Any, part: Any) -> "Law":
        """Of some of the numbers; unknown where sizes differ, or one is there twice."""
        twice = [np.size(array(x)) - np.unique(array(x)).size for x in (whole, part)]
        if self.law in NOISES and (np.ndim(self.std) or twice[1] > twice[0]):
            return Law("unknown", where=self.where)
        return copy(self)


@dataclass
class Noising:
    """Where in a run noise is added.

    signal, noise, std: (coordinates,) float64; std of Laplace noise: its scale.
    values: what the program gets, and what becomes of it as more is added.
    selection: choices of records before it.
    """

    key: Any
    law: Law
    signal: np.ndarray
    noise: np.ndarray
    std: np.ndarray
    selection: int
    values: list[Any] = field(default_factory=list)
    rounded: bool = False  # to a grid, after the addition
    used: bool = False  # other than in comparisons

    def like(self, other: "Noising", within: float = 0.05) -> bool:
        """Whether the noise is the same, to a share of its size that does not follow from records.

        dpkit's own is rounded, with the sum, to a 32nd of its deviation.
        """
        if (self.law.law, self.std.shape) != (other.law.law, other.std.shape):
            return False
        rough = within * self.std + 1e-6 * np.abs(self.signal)
        same = self.law.law == "unknown" or (np.abs(self.noise - other.noise) <= rough).all()
        return bool(same and np.allclose(self.std, other.std, rtol=1e-6, atol=0))


class Selection(NamedTuple):
    """A choice of records: "poisson", "fixed", "with replacement", "order", or a "slice" of it."""

    kind: str
    rate: float
    members: np.ndarray  # (records,) how often each is in it
    where: Place


@dataclass
class Run:
    """One run, alone or like an earlier one.

    rng: seeds every generator that the program does not seed.
    skipped: where noise is taken for private: what it is added to is not released.
    left_out: a record that enters no Poisson sample.
    draws, releases: by kind, line, and how often it was met there.
    lost: where noise left the arrays that are followed.
    reused: the lines that drew noise which was added twice.
    seeded: where a generator was last given a seed.
    secrets: by fingerprints of seeds and of choices, their lines.
    """

    records: int
    rng: random.Random
    skipped: frozenset[Place] = frozenset()
    earlier: "Run | None" = None
    left_out: int | None = None
    draws: dict[Any, tuple[Any, str]] = field(default_factory=dict)
    releases: dict[Any, Noising] = field(default_factory=dict)
    selections: list[Selection] = field(default_factory=list)
    lost: set[Place] = field(default_factory=set)
    reused: set[Place] = field(default_factory=set)
    seeded: Place | None = None
    secrets: dict[str, Place] = field(default_factory=dict)
    out: dict[str, np.ndarray] = field(default_factory=dict)
    counts: Counter = field(default_factory=Counter)

    def key(self, name: str) -> tuple[str, Place, int]:
        """The name, the line, and how often it was met before."""
        where = place()
        self.counts[name, where] += 1
        return name, where, self.counts[name, where]

    def drawn(self, name: str, value: Any, given: Any = ()) -> Any:
        """The draw, or that of the earlier run if its law was the same."""
        key, about = self.key(name), prints(given)
        held, told = self.earlier.draws.get(key, (None, "")) if self.earlier else (None, "")
        if held is not None and told != about:
            self.lost.add(key[1])  # its law follows from the records
        elif held is not None:
            if self.left_out is not None and self.selections:
                # each of a batch has draws of its own, maybe several, along some axis
                before = int(self.selections[-1].members[: self.left_out].sum())
                for axis, (had, now) in enumerate(zip(np.shape(held), np.shape(value))):  # noqa: B905
                    cut = slice((had - now) * before, (had - now) * (before + 1))
                    held = held if had == now else np.delete(array(held), cut, axis)
                held = torch.as_tensor(held) if isinstance(value, Tensor) else held
            value = deepcopy(held) if np.shape(held) == np.shape(value) else value
        self.draws[key] = (deepcopy(value), about)
        return value

    def select(self, kind: str, members: Any, rate: float | None = None) -> None:
        """Note a choice of records, by their places."""
        at = array(members).reshape(-1).astype(int)
        self.secrets[prints(at)] = place()
        self.selections.append(
            Selection(
                kind,
                round(at.size / self.records if rate is None else rate, 9),
                np.bincount(at, minlength=self.records),
                place(),
            )
        )

    def poisson(self, mask: Any, rate: Any) -> Law:
        """Note a Poisson sample, without the record that is left out."""
        if mask.shape == (self.records,) and np.ndim(rate) == 0:
            if self.left_out is not None:
                mask[self.left_out] = 0
            self.select("poisson", np.flatnonzero(array(mask)), float(rate))
        return Law("mask")

    def after(self, op: str, laws: Sequence[Law | None], values: Sequence[Any], result: Any):
        """The result of an operation on numbers of which something is known, and its law."""
        own = [law for law in laws if law is not None]
        noises = [law for law in own if law.law in NOISES and not law.spent]
        if op in COMPARED:
            levels = [x for x in values if np.ndim(x) == 0]
            chosen = own[0].law == "uniform" and levels and not own[0].spent
            own[0].spent = own[0].spent or "used"
            # of u < level or level > u; the rest of the others
            rate = abs(float((*levels, 0.0)[0]) - ((op[0] == "l") != (laws[0] is not None)))
            return result, self.poisson(result, rate) if chosen else Law("mask")
        if op in ADDED:
            self.reused |= {law.where for law in own if law.spent == "added"}
            on: Any = next((x for x in own if x.release and not x.release.used), None)
            if len(noises) == len(laws) == 2:
                one, other = noises
                one.spent = other.spent = "added"
                apart = one is not other and one.law == other.law == "normal"
                std = np.hypot(one.std, other.std)
                return result, Law("normal" if apart else "unknown", std, one.where)
            if (
                on
                and on.release.selection == len(self.selections)
                and result.shape == np.shape(on.release.values[-1])
                and len(own) - len(noises) == 1
            ):
                return self.more(on.release, result, *noises), on
            if len(laws) == 2 and noises:
                return self.noised(values[1 if laws[0] in noises else 0], noises[0], result)
        if op in SCALED and len(noises) == len(own) and (laws[0] or "mul" in op):
            by = np.abs(array(values[1 if laws[0] else 0]))
            std = array(noises[0].std) * (1 / by if "div" in op else by)
            kind = noises[0].law if len(noises) == 1 else "unknown"
            return result, Law(kind, std, noises[0].where)
        if op == "where" and own[0].law == "mask" and result.ndim:
            return self.noised(result, Law("unknown"), result)
        if noises and op in ("dot", "matmul") and result.ndim == 0:
            self.lost.add(place())  # such as of a loss that is perturbed
        pure = sum(isinstance(x, Tensor | np.ndarray) for x in values)
        even = own[0].law in (
            "uniform",
            "spread",
        )  # of a range, such as what becomes Laplace's
        spread = even and op in (*ADDED, *SCALED) and min(np.ndim(x) for x in values) == 0
        unknown = (
            pure == len(own) == 1
            and (own[0].law in NOISES or (even and op in CURVED))
            and not own[0].spent
            and op not in EMPTY
            and "float" in str(result.dtype)
        )
        for law in own:
            law.spent = law.spent or "used"
            if law.release:
                law.release.used = True
        return result, Law("unknown" if unknown else "spread") if unknown or spread else None

    def noised(
        self, signal: Any, law: Law, result: Any, *, rounded: bool = False
    ) -> tuple[Any, Law | None]:
        """The sum of a signal and noise: the earlier run's where the same noise was added.

        rounded: after the addition, as dpkit's own is, whose noise may be 0.
        """
        key = self.key("noised")
        law.spent = "used" if key[1] in self.skipped else "added"
        if key[1] in self.skipped:
            return result, None
        signal, std = (
            np.broadcast_to(array(x).astype(float), result.shape).reshape(-1)
            for x in (signal, law.std)
        )
        noise = flat(result) - signal
        if not rounded and np.array_equal(noise, noise.round()):  # rounded before it is added
            law = Law("unknown", where=law.where)
        # 0 is none, such as beside a triangle of noise
        std = std if rounded else np.where(noise == 0, 0.0, std)
        now = Noising(key, law, signal, noise, std, len(self.selections), rounded=rounded)
        self.releases[key] = now
        return self.more(now, result), Law("noised", release=now)

    def more(self, on: Noising, result: Any, *noises: Law) -> Any:
        """The result of adding something, or noise, to what has noise and was not used since."""
        if on.values:
            gap = flat(result) - flat(on.values[-1])
            on.signal, on.noise = (
                (on.signal, on.noise + gap) if noises else (on.signal + gap, on.noise)
            )
        for law in noises:
            law.spent, std = "added", np.broadcast_to(array(law.std), result.shape).reshape(-1)
            on.std = np.hypot(on.std, np.where(gap == 0, 0.0, std))
        held = self.earlier.releases.get(on.key) if self.earlier else None
        if (
            held
            and len(held.values) > len(on.values)
            and np.shape(held.values[len(on.values)]) == np.shape(result)
            and (on.values or on.like(held))
        ):
            result = deepcopy(held.values[len(on.values)])
        on.values.append(deepcopy(result))
        return result


class NeighbouringRuns(NamedTuple):
    """A run and one like it, on data that differ in the record at a place.

    how: "replaced", "far" (from the data's range), "removed", or "left out" of Poisson samples.
    """

    how: str
    place: int
    data: tuple[Any, Any]
    one: Run
    other: Run

    def moved(self) -> Iterator[tuple[Noising, float]]:
        """What is noised and moves, and how far: in deviations (L2), or Laplace scales (L1)."""
        for key, a in self.one.releases.items():
            b = self.other.releases.get(key)
            if b is None or not a.like(b):
                continue
            gap = np.where(a.noise < 0, b.signal - a.signal, a.signal - b.signal)
            gap[np.abs(gap) < 1e-6 * (np.abs(a.signal) + a.std)] = 0.0
            far, std = np.where(gap == 0, 0.0, np.inf), np.where(a.std > 0, a.std, np.inf)
            np.divide(np.abs(gap), std, out=far, where=a.std > 0)
            _, at, of = np.unique(
                np.abs(a.noise / std).round(6), return_index=True, return_inverse=True
            )
            # copies: what differs between them has no noise; of very many, or on a grid, some are
            # alike by chance
            if len(at) < 0.9 * len(far) < 9_000 and not a.rounded:
                alike_there = np.allclose(gap, gap[at][of], atol=1e-4 * a.std.max())
                far = far[at] if alike_there else np.full(1, np.inf)
            if by := float(far.sum() if a.law.law == "laplace" else np.linalg.norm(far)):
                yield a, by


def array(value: Any) -> np.ndarray:
    """Numbers as NumPy has them, whatever holds them."""
    if isinstance(value, Tensor):
        value = value.detach().to_dense().resolve_conj()
        value = (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()
    return np.asarray(value).view(np.ndarray)


def flat(value: Any) -> np.ndarray:
    """As float64, (coordinates,)."""
    return array(value).astype(np.float64).reshape(-1)


def leaves(
    value: Any, name: str = "", seen: tuple[int, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """Every array, number and text in a value, by its name: what whoever has it can read."""
    if isinstance(
        value, Tensor | np.ndarray | np.generic | int | float | complex | str | bytes
    ):
        yield name, value
    elif value is not None and id(value) not in seen:
        if isinstance(value, torch.nn.Module):
            own = {
                f"{name}.{k}": v
                for name, part in value.named_modules()
                for k, v in vars(part).items()
                if k not in PLAIN
            }
            parts = {**own, **dict(value.named_parameters()), **dict(value.named_buffers())}
        elif isinstance(value, dict):
            parts = value
        elif hasattr(value, "to_numpy"):  # a data frame
            parts = {
                "": value.to_numpy(),
                **{k: getattr(value, k, None) for k in ("index", "columns")},
            }
        elif isinstance(value, Collection):
            parts = dict(enumerate(value))
        else:
            parts = {} if isinstance(value, CODE) else {**getattr(value, "__dict__", {})}
            with suppress(Exception):  # not everything says what it holds
                if isinstance(value, FunctionType):
                    cells = (x.cell_contents for x in value.__closure__ or ())
                    parts |= enumerate([*cells, value.__defaults__, value.__kwdefaults__])
                elif not parts:
                    parts |= enumerate(value.__reduce_ex__(2)[1:])
        for key, part in parts.items():
            yield from leaves(part, f"{name}.{key}".lstrip("."), (*seen, id(value)))


def prints(value: Any) -> str:
    """A fingerprint of all that `leaves` finds."""
    told = sha256()
    for name, leaf in leaves(value):
        try:
            held = array(leaf)
        except RuntimeError:  # inside of torch.func there are no numbers
            continue
        plain = repr(leaf).encode() if held.dtype == object else held.tobytes()
        told.update(f"{name} {held.shape} {held.dtype}".encode() + plain)
    return told.hexdigest()


def columns(data: Any) -> list[Any]:
    """The arrays of records in the data (TypeError, ValueError: there are none, or too few)."""
    parts = tree_leaves(data)
    if not parts or not all(
        isinstance(x, Tensor | np.ndarray)
        and x.ndim
        and array(x).dtype.kind in "biuf"
        and not getattr(x, "requires_grad", False)
        for x in parts
    ):
        raise TypeError(
            "data must be arrays or detached tensors of numbers with a record in each row, or a "
            f"tuple or dict of them (of a DataFrame its to_numpy()), got {type(data).__name__}"
        )
    if len({len(x) for x in parts}) > 1 or len(parts[0]) < 2:
        raise ValueError(
            f"data must hold as many records each, at least 2, got {[len(x) for x in parts]}"
        )
    return parts


def differing(one: Run, other: Run) -> list[str]:
    """Names of what two runs give out and is not alike."""
    return [x for x in {**one.out, **other.out} if not alike(one.out.get(x), other.out.get(x))]


def alike(a: Any, b: Any) -> bool:
    """Whether two arrays are the same, but for rounding."""
    if a is None or b is None or a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    least = ALIKE * float(np.abs(a[np.isfinite(a)]).max(initial=0))
    return bool(np.allclose(a, b, ALIKE, least, equal_nan=True))

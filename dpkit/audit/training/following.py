"""Follow what a program draws: by classes and patches in NumPy, `random` and torch."""

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from types import MethodType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dpkit.audit.training.replay import (
    ADDED,
    KEPT,
    NOISES,
    PARTS,
    Law,
    Place,
    Run,
    array,
    differing,
    leaves,
    own_code,
    place,
    prints,
)
from dpkit.privacy import normals
from dpkit.training.device import seeded
from dpkit.training.noise import watched

# what NumPy's generators and `random` draw; "": places, of records or of anything else
LAWS = {
    name: law
    for law, names in {
        "normal": "normal standard_normal randn gauss normalvariate",
        "laplace": "laplace",
        "uniform": "random rand random_sample uniform",
        "": "permutation shuffle choice sample integers randint",
        "unknown": "binomial geometric poisson gumbel exponential standard_exponential logistic "
        "multivariate_normal gamma standard_gamma beta chisquare standard_t",
    }.items()
    for name in names.split()
}


class Drawn(np.ndarray):
    """An array of NumPy of which a run knows something."""

    law: Law
    run: Any
    # above a tensor's: it is met in __array_ufunc__
    __array_priority__ = 2000  # pyright: ignore[reportAssignmentType]

    @classmethod
    def of(cls, value: Any, law: Law | None, run: Run) -> Any:
        """The value with its law; without one as it is."""
        if law is None:
            return value[()] if np.ndim(value) == 0 else value
        made = np.asarray(value).view(cls)
        made.law, made.run = law, run
        return made

    def __array_finalize__(self, other: Any) -> None:
        self.law, self.run = getattr(other, "law", Law("")), getattr(other, "run", None)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **kwargs: Any
    ):
        if any(isinstance(x, Tensor) for x in inputs):
            return getattr(torch, ufunc.__name__)(*(torch.as_tensor(x) for x in inputs))
        plain, into = (
            [x.view(np.ndarray) if isinstance(x, Drawn) else x for x in given]
            for given in (inputs, out)
        )
        laws = [x.law if isinstance(x, Drawn) else None for x in inputs]
        values = [np.array(x) if any(x is y for y in into) else x for x in plain]
        result = getattr(ufunc, method)(
            *plain, **kwargs, **({"out": tuple(into)} if out else {})
        )
        op = ufunc.__name__ if method == "__call__" else method
        if not any(laws) or isinstance(result, tuple):
            return result
        if op in KEPT:
            return Drawn.of(result, self.law, self.run)
        if op == "subtract":
            values = [values[0], -values[1]]
        found, law = self.run.after(op, laws, values, np.asarray(result))
        if not out:
            return Drawn.of(found, law, self.run)
        into[0][...] = found
        return Drawn.of(out[0], law, self.run)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(func, types, args, kwargs)
        if func is np.where and len(args) == 3 and isinstance(args[0], Drawn):
            found, law = self.run.after("where", [args[0].law], args, result)
            return Drawn.of(found, law, self.run)
        law = self.law
        if law.release and not func.__name__.startswith("arg"):
            law.release.used = True
        if law.law not in NOISES or law.spent or "like" in func.__name__:
            return result
        return Drawn.of(result, Law("unknown"), self.run) if np.ndim(result) else result

    def __getitem__(self, key: Any) -> Any:
        part, law = super().__getitem__(key), self.law
        if law.law == "order" and isinstance(key, slice):
            self.run.select("slice", part)
        if law.release:
            law.release.used = True
            return part.view(np.ndarray) if isinstance(part, np.ndarray) else part
        return Drawn.of(part, law.part(self, part), self.run)


def _leaving(name: str) -> Callable[..., Any]:
    """A method that gives plain numbers, which are no longer followed."""

    def plain(self: Drawn, *args: Any) -> Any:
        if self.law.release:
            self.law.release.used = True
        elif self.law.law in NOISES and self.dtype.kind == "f":
            self.run.lost.add(place())
        return getattr(self.view(np.ndarray)[()], name)(*args)

    return plain


for _name in ("__float__", "__int__", "__round__", "tolist", "item"):
    setattr(Drawn, _name, _leaving(_name))


def _of_numpy(run: Run, name: str, draw: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """One call of a generator of NumPy or `random`, kept."""
    law = LAWS[name]
    if law == "":
        return _chosen(run, name, draw, *args, **kwargs)
    if law in ("normal", "laplace") and name not in ("standard_normal", "randn"):
        loc = kwargs.get("loc", kwargs.get("mu", (*args[:1], 0.0)[0]))
        scale = kwargs.get("scale", kwargs.get("sigma", (*args[1:2], 1.0)[0]))
        size = kwargs.get("size", (*args[2:3], None)[0])
        if size is None:
            size = np.broadcast_shapes(np.shape(loc), np.shape(scale)) or None
        unit = np.asarray(draw(0.0, 1.0, *([] if size is None else [size])))
        noise = Drawn.of(run.drawn(name, unit), Law(law), run) * scale
        return noise if np.ndim(loc) == 0 and loc == 0 else loc + noise
    arrays = [x for x in (*args, *kwargs.values()) if isinstance(x, np.ndarray)]
    value = run.drawn(name, np.asarray(draw(*args, **kwargs)), arrays)
    chance = kwargs.get("p", (*args[1:2], None)[0])
    known = run.poisson(value, chance) if name == "binomial" else Law(law)
    return Drawn.of(value, known, run)


def _chosen(run: Run, name: str, draw: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """An order or a choice, by places, so that what is at them is this run's."""
    if name in ("integers", "randint"):
        value = run.drawn(name, np.asarray(draw(*args, **kwargs)))
        bound = kwargs.get("high", [x for x in args[:2] if np.ndim(x) == 0][-1])
        if run.records == bound and value.ndim:
            run.select("with replacement", value)
        return Drawn.of(value, Law("unknown"), run)
    among, *rest = args or (kwargs.pop("a"),)
    whole = np.ndim(among) == 0 and not isinstance(among, str)
    count = int(among) if whole else len(among)
    if name in ("shuffle", "sample"):
        made = run.rng.sample(range(count), *(rest or [kwargs.get("k", count)]))
    elif isinstance(getattr(draw, "__self__", None), random.Random):
        made = run.rng.randrange(count)
    elif name == "permutation":  # NumPy's own calls shuffle
        made = np.argsort(np.frombuffer(draw.__self__.bytes(8 * count), np.uint64))
    else:
        made = draw(count, *rest, **kwargs)
    places = run.drawn(name, np.asarray(made), kwargs.get("p"))
    if count == run.records and places.ndim:
        again = name == "choice" and kwargs.get("replace", rest[1] if len(rest) > 1 else True)
        fixed = "fixed" if name in ("choice", "sample") else "order"
        run.select("with replacement" if again else fixed, places)
    if name == "shuffle":
        moved = [among[i] for i in places] if isinstance(among, list) else among[places]
        among[:] = moved  # pyright: ignore[reportIndexIssue] of text, which cannot be shuffled
        return None
    if whole:
        return Drawn.of(places, Law("order") if name == "permutation" else None, run)
    if isinstance(among, np.ndarray | Tensor):
        return among[places]
    return [among[i] for i in places] if places.ndim else among[places]


def _generators(run: Run) -> Iterator[Any]:
    """Patches under which NumPy's generators and `random` draw by `_of_numpy`."""

    def kept(base: Any) -> Any:
        def method(name: str) -> Any:
            return lambda self, *a, **k: _of_numpy(
                run, name, MethodType(getattr(base, name), self), *a, **k
            )

        held = {name: method(name) for name in LAWS if hasattr(base, name)}
        return type(base.__name__, (base,), held)

    def noted(give: Callable[..., Any]) -> Callable[..., Any]:
        def given(*args: Any) -> Any:
            run.seeded = place() if args and args[0] is not None else run.seeded
            run.secrets[prints(array(args[:1]))] = place()
            return give(*(array(x).tolist() for x in args))  # not as what is followed

        return given

    generator, legacy = kept(np.random.Generator), kept(np.random.RandomState)
    default, shared = np.random.default_rng, legacy(run.rng.getrandbits(32))

    def seeded_rng(seed: Any = None) -> Any:
        seed = run.rng.getrandbits(64) if seed is None else seed
        return generator(default(seed).bit_generator)

    yield patch.object(np.random, "default_rng", noted(seeded_rng))
    yield patch.object(np.random, "RandomState", legacy)
    yield patch.object(np.random, "seed", noted(shared.seed))
    yield patch.object(torch, "manual_seed", noted(torch.manual_seed))  # noqa: TID251
    yield patch.object(np.random.mtrand, "_rand", shared)
    yield patch.object(os, "urandom", run.rng.randbytes)
    for name in LAWS:
        if hasattr(shared, name):
            yield patch.object(np.random, name, getattr(shared, name))
        if hasattr(random, name):
            yield patch.object(
                random, name, partial(_of_numpy, run, name, getattr(random, name))
            )


def law_of(value: Any) -> Law | None:
    """What is known of a tensor or an array."""
    return getattr(value, "law", None) if isinstance(value, Tensor | Drawn) else None


def _known(tensor: Any, law: Law | None) -> Any:
    tensor.law = law
    return tensor


class Following(TorchDispatchMode):
    """Torch's operations, kept and followed as `Run.after` says."""

    run: Run

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if torch.Tag.nondeterministic_seeded in func.tags and "dropout" not in name:
            return self._drawn(func, name, args, kwargs)
        inner = args[0] if args and isinstance(args[0], list | tuple) else args
        laws = [law_of(x) for x in inner]
        values = (
            [x.clone() if isinstance(x, Tensor) else x for x in args[:2]] if any(laws) else []
        )
        made = func(*args, **kwargs)
        plain = name.removesuffix("_")
        if not any(laws):
            return made
        if plain in KEPT or plain in PARTS or plain == "copy":
            return self._parts(plain, args, made)
        if plain in ("cat", "stack") and all(laws):
            same = len({(law.law, str(law.std)) for law in laws if law}) == 1
            return _known(
                made, laws[0].part(inner[0], made) if same and laws[0] else Law("unknown")
            )
        if plain == "_local_scalar_dense" or name.startswith("_foreach"):
            for law in filter(None, laws):
                self.run.lost |= {place()} if law.law in NOISES else set()
                if law.release:
                    law.release.used = True
            return made
        if plain == "index_put":
            masks = [law for x in args[1] if (law := law_of(x))]
            plain, laws = ("where", masks) if masks else (plain, laws)
        if plain in ADDED:
            laws, by = [*laws, None][:2], ADDED[plain] * kwargs.get("alpha", 1)
            values[1] = values[1] * by
            if by != 1 and laws[1] and laws[1].law in NOISES and not laws[1].spent:
                laws[1].spent = "added"
                laws[1] = Law(laws[1].law, laws[1].std * abs(by), laws[1].where)
        if not isinstance(made, Tensor):
            return self.run.after(plain, laws, values, made)[0]
        found, law = self.run.after(plain, laws, values, made)
        return _known(made if found is made else made.copy_(found), law)

    def _parts(self, plain: str, args: Any, made: Any) -> Any:
        """The law of a tensor's copy or parts."""
        law = law_of(args[1 if plain == "copy" else 0])
        if law and law.law == "order" and plain == "slice":
            self.run.select("slice", made)
        for one in made if isinstance(made, list | tuple) else [made]:
            whole = law is None or law.release or plain not in PARTS
            _known(one, law if whole or law is None else law.part(args[0], one))
        return made

    def _drawn(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        run, plain = self.run, name.removesuffix("_")
        made = func(*args, **kwargs)
        shaped = name[-1] == "_" or plain.endswith("_like")
        given = [x for x in args[shaped:] if not isinstance(x, torch.Generator)]
        if plain in ("normal", "randn", "randn_like"):
            mean, std = (*given, 0.0, 1.0)[:2] if plain == "normal" else (0.0, 1.0)
            unit = run.drawn(name, ((made - mean) / std).detach().nan_to_num())
            made.copy_(unit * std + mean)
            if isinstance(mean, Tensor) or mean != 0:
                return _known(*run.noised(mean, Law("normal", abs(std)), made))
            return _known(made, Law("normal", abs(std)))
        tensors = [x for x in given if isinstance(x, Tensor)]
        made.copy_(run.drawn(name, made.detach().clone(), tensors))
        if plain in ("rand", "rand_like", "uniform"):
            # any other range is that of weights
            return _known(
                made,
                Law("uniform")
                if [*given, 0, 1][:2] in ([0, 1], [0.0, 1.0]) or plain != "uniform"
                else None,
            )
        if plain == "bernoulli":
            chance = array(given[-1] if given else 0.5)
            return _known(
                made, run.poisson(made, chance.max() if np.ptp(chance) == 0 else None)
            )
        if plain == "randperm" and made.numel() == run.records:
            run.select("order", made, 1.0)
            return _known(made, Law("order"))
        if plain == "randint" and run.records in given:
            run.select("with replacement", made)
            return made
        return _known(made, Law("unknown") if made.is_floating_point() else None)


def _crossing(run: Run) -> Iterator[Any]:
    """Patches under which laws cross between NumPy and torch."""

    def to_torch(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(data: Any, *args: Any, **kwargs: Any) -> Any:
            plain = data.view(np.ndarray) if isinstance(data, Drawn) else data
            if isinstance(data, list):  # numbers that are no longer followed
                plain = [float(x) if isinstance(x, Drawn) else x for x in data]
            return _known(make(plain, *args, **kwargs), law_of(data))

        return made

    numpy, noised, get = Tensor.numpy, normals.noised, Tensor.__getitem__
    rsample = torch.distributions.Laplace.rsample

    def to_numpy(tensor: Tensor, **kwargs: Any) -> Any:
        made, law = numpy(tensor, **kwargs), law_of(tensor)
        return made if law is None else Drawn.of(made, law, run)

    def kits(sums: Any, *, noise_std: float, rng: Any) -> Any:
        plain = np.random.Generator(rng.bit_generator)
        made = noised(sums, noise_std=noise_std, rng=plain)
        return Drawn.of(
            *run.noised(sums, Law("normal", noise_std), made, rounded=True), run=run
        )

    def laplace(self: Any, shape: Any = ()) -> Any:
        unit = type(self)(torch.zeros_like(self.loc), torch.ones_like(self.scale))
        noise = _known(rsample(unit, shape), Law("laplace")) * self.scale
        return self.loc + noise if self.loc.any() else noise

    yield patch.object(torch.distributions.Laplace, "rsample", laplace)
    yield patch.object(normals, "noised", kits)
    for name in ("from_numpy", "tensor", "as_tensor"):
        yield patch.object(torch, name, to_torch(getattr(torch, name)))
    yield patch.object(Tensor, "numpy", to_numpy)
    # a short array that is not NumPy's own would be taken for a tuple
    yield patch.object(
        Tensor,
        "__getitem__",
        lambda self, key: get(self, key.view(np.ndarray) if isinstance(key, Drawn) else key),
    )


def run_once(
    train: Callable[[Any], Any],
    data: Any,
    *,
    records: int,
    seed: int = 0,
    skipped: frozenset[Place] = frozenset(),
    earlier: Run | None = None,
    left_out: int | None = None,
) -> Run:
    """Run `train` on a copy of the data: all that it draws, noises and gives out."""
    run = Run(records, random.Random(seed), skipped, earlier, left_out)

    def instead(
        sums: Sequence[Tensor], stds: Sequence[Any], noisy: list[Tensor]
    ) -> list[Tensor]:
        each = zip(sums, stds, noisy, strict=True)
        return [
            _known(*run.noised(x, Law("normal", std), out, rounded=True))
            for x, std, out in each
        ]

    following = Following()
    following.run = run
    with ExitStack() as stack:
        stack.enter_context(seeded(seed))
        for one in (*_generators(run), *_crossing(run), watched(instead), following):
            stack.enter_context(one)
        given = train(deepcopy(data))
    for name, leaf in leaves(given):
        law = law_of(leaf)
        if law and law.release:
            law.release.used = True
        # noise that is known is none
        run.reused |= {law.where} if law and law.spent == "added" else set()
        run.out[name] = array(leaf).copy()
    return run


@dataclass
class Trace:
    """Lines of a program as they run; of each variable what it held, and after which line."""

    lines: list[Place] = field(default_factory=list)
    history: dict[str, list[tuple[int, set[str]]]] = field(default_factory=dict)

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if not own_code(frame.f_code.co_filename):
            return None
        if event in ("line", "return"):
            for name, value in list(frame.f_locals.items()):
                told = set[str]()
                with suppress(Exception):  # a network before its __init__, and the like
                    told = {prints(leaf) for _, leaf in leaves(value)}
                past = self.history.setdefault(f"{frame.f_code.co_qualname}.{name}", [])
                if told and (not past or past[-1][1] != told):
                    past.append((len(self.lines) - 1, told))
            self.lines.append((frame.f_code.co_filename, frame.f_lineno))
        return self


def line_of(
    train: Callable[[Any], Any], datas: tuple[Any, Any], runs: tuple[Run, Run], *, seed: int
) -> Place | None:
    """Where what is released first differs, or the last line before the runs go different ways."""
    traces = []
    for data, run in zip(datas, runs, strict=True):
        trace = Trace()

        def traced(given: Any, trace: Trace = trace) -> Any:
            sys.settrace(trace)
            try:
                return train(given)
            finally:
                sys.settrace(None)

        run_once(
            traced,
            data,
            records=run.records,
            seed=seed,
            earlier=runs[0],
            left_out=run.left_out,
        )
        traces.append(trace)
    one, other = traces
    wanted = {prints(runs[0].out.get(name)) for name in differing(*runs)}
    starts = []
    for name, past in one.history.items():
        if not past or not wanted & past[-1][1]:
            continue
        for a, b in zip_longest(past, other.history.get(name, [])):
            if a is None or b is None or a[1] != b[1]:
                ways = enumerate(zip(one.lines, other.lines, strict=False))
                parted = next((i for i, (x, y) in ways if x != y), len(one.lines))
                starts.append(a[0] if a and b else parted - 1)
                break
    return one.lines[min(starts, default=-1)] if one.lines else None

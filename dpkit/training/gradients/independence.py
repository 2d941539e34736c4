"""Self-check that examples keep apart and that fast gradients are autograd's.

Layers say how their gradients are made of products, but a network may do more than run its layers:
use a parameter in a formula, change an output in a hook, let the examples of its batch meet. So at
some batches examples are replaced, and two gradients computed a second way: docs/training.md says
when, and what nobody sees.

Also watched is what a function reads while it runs: whether it goes to the data set beside the rows
it is given. A price is that of rows drawn at random. A loss, a transform or a network that reads
other records as well (a mean over the data set, a memory of records) moves what is released by
more. So the operations on the data's own memory are watched, whatever name leads there;
docs/limits.md lists what is not seen.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from inspect import getclosurevars
from itertools import product
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn, strided
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from dpkit.training.device import draws_put_back, in_one_order
from dpkit.training.gradients.functional import still
from dpkit.training.gradients.unsupported import MixesExamples

MEETING = (
    "the losses of other examples change with example {row}, so that one record would move the "
    "gradients of others; keep examples apart in network and loss, the first dimension being the "
    "example's, and do not divide by their number"
)
FAR = 1000.0  # times the size of the examples, in both directions
SAFE = ("cpu",)  # where a bad value raises, and ends no process
FEW, ROUNDING = 8, 1e-3  # examples, one of which is left out; of their losses, by number


@dataclass
class Asked:
    """The record of a network with one loss: batches counted, ways that went wrong."""

    batches: int = 0
    right: set[str] = field(default_factory=set)
    wrong: dict[str, str] = field(default_factory=dict)  # and why

    def due(self) -> bool:
        """Return whether this batch is the 1st, 2nd, 4th, 8th, ..."""
        return self.batches & (self.batches + 1) == 0

    def rows(self, batch: int) -> set[int]:
        """The examples whose gradients are computed twice: the last, and in turn another."""
        return {self.batches % batch, batch - 1}


_asked: WeakKeyDictionary[nn.Module, dict[tuple, Asked]] = WeakKeyDictionary()


def asked(network: nn.Module, *parts: object) -> Asked:
    """The record of a network in its present state; parts name the loss, by code or words."""
    state = (*map(code_of, parts), *(module.training for module in network.modules()))
    return _asked.setdefault(network, {}).setdefault(state, Asked())


def code_of(part: Any) -> object:
    """A function's code and that of its callees, whichever object it is.

    By a closure or by a name of its module; what an attribute leads to is not followed.
    """
    if isinstance(part, partial):
        return tuple(
            code_of(x) for x in (part.func, *part.args, *part.keywords.values()) if callable(x)
        )
    part = getattr(part, "__func__", part)
    code = getattr(part, "__code__", None)
    if code is None:
        return type(part) if callable(part) else part
    called = []
    with suppress(ValueError):  # a name that is not bound yet
        names = getclosurevars(part)
        called = [
            x for x in (*names.nonlocals.values(), *names.globals.values()) if callable(x)
        ]
    return (code, *(getattr(x, "__code__", type(x)) for x in called))


@contextmanager
def undisturbed(network: nn.Module) -> Iterator[None]:
    """Passes in the block leave no trace: draws, buffers, parameters are put back.

    Raises:
        MixesExamples: a pass changes a buffer or a parameter.
    """
    held: list[tuple[Any, Any, dict[str, Tensor]]] = [
        (
            own,
            dict(own),
            {name: x.detach().clone() for name, x in own.items() if x is not None},
        )
        for module in network.modules()
        for own in (module._buffers, module._parameters)
    ]
    changed: set[str] = set()
    try:
        with (
            in_one_order(),
            # compiled here, it would not run hooks later
            torch.compiler.set_stance("force_eager"),
            draws_put_back(*{p.device for p in network.parameters()}),
            still(network),
        ):
            yield
    finally:
        for now, own, copies in held:
            names = {k for k in {**copies, **now} if not equal(copies.get(k), now.get(k))}
            with torch.no_grad():
                for name in names & copies.keys():
                    own[name].copy_(copies[name])
            now.clear()
            now.update(own)
            changed |= names
    if changed:
        raise MixesExamples(
            f"a pass changes {sorted(changed)} of the network, which would keep private examples "
            "without noise; set them before training, on public numbers, or call eval()"
        )


def set_up(run: Callable[..., object], *rows: Tensor) -> None:
    """Run on noise first: nothing shall set itself up on records.

    Bytes are 0..255, other whole numbers 0, which is a place in any table.
    """

    def noise(x: Tensor) -> Tensor:
        top = 1 if x.is_floating_point() else 255 * (x.dtype == torch.uint8)
        return (top * torch.rand(x.shape, device=x.device)).to(x.dtype)

    with torch.no_grad(), suppress(Exception), draws_put_back(*{x.device for x in rows}):
        run(*map(noise, rows))


def refuse_meeting(
    network: nn.Module, losses_of: Callable[..., Tensor], inputs: tuple[Tensor, ...]
) -> bool:
    """Replace the first and the last example: all other losses stay to the last bit.

    Of losses_of(*inputs) -> (batch, ...). MixesExamples: losses of other examples change, or those
    of the same batch when it runs again, or a buffer: one record would move the gradients of
    others, or be kept.

    Returns:
        whether there was something to compare: two examples or more, and finite losses.
    """
    # aligned alike, whatever they were cut of
    inputs = tuple(x.detach().clone() for x in inputs)

    def run(*rows: Tensor) -> Tensor:
        with undisturbed(network):
            return losses_of(*rows).detach().clone()

    before = run(*inputs)
    if not equal(before, run(*inputs)):
        raise MixesExamples(
            "the same batch has other losses when it runs again with the same random numbers: the "
            "network keeps something of earlier batches, or draws from a generator that is not "
            "torch's own, or adds up in another order each time "
            "(torch.use_deterministic_algorithms)"
        )
    if len(inputs[0]) < 2:
        return False
    if (row := moved_by(run, inputs, before)) is not None:
        raise MixesExamples(MEETING.format(row=row))
    return bool(before.isfinite().all())


def moved_by(
    run: Callable[..., Tensor], inputs: tuple[Tensor, ...], before: Tensor
) -> int | None:
    """The first or last example, where without it `run` makes something else of another one.

    Both are replaced, and of a few examples the last is left out. `before` is run(*inputs) ->
    (batch, ...), the same each time, of two examples or more.
    """
    for row, scale in product((0, len(inputs[0]) - 1), (-FAR, FAR)):
        others = torch.arange(len(inputs[0]), device=before.device) != row
        try:
            after = run(*(_far(x, row, scale) for x in inputs))
        # it takes no such values
        except (RuntimeError, ValueError, LookupError, AssertionError):
            try:
                after = run(*(_extreme(x, row, scale) for x in inputs))
            except RuntimeError as error:
                raise MixesExamples(
                    f"{error}, as soon as one example takes the largest or smallest values of its "
                    "batch: a size follows from the batch, as in one_hot(y) for one_hot(y, k)"
                ) from error
        if len(after) != len(before) or not equal(before[others], after[others]):
            return row
    few = [x[:FEW] for x in inputs]
    with suppress(Exception), SameDraws(rows=len(few[0])) as draws:  # a closure's may not fit
        whole, drawn = run(*few)[:-1].nan_to_num(0, 0, 0), [*draws.shapes]
        less = run(*(x[:-1] for x in few)).nan_to_num(0, 0, 0)
        same = drawn * 2 == draws.shapes  # else there is nothing to compare
        if same and (whole - less).double().norm() > ROUNDING * whole.double().norm():
            return len(few[0]) - 1
    return None


def _extreme(inputs: Tensor, row: int, scale: float) -> Tensor:
    """The inputs, one example taking the largest or the smallest values of its batch."""
    return inputs.select_scatter(inputs.amax(0) if scale > 0 else inputs.amin(0), 0, row)


def _far(inputs: Tensor, row: int, scale: float) -> Tensor:
    """The inputs, one example far away: whole numbers beyond all others, or at their end.

    On a GPU whole numbers and probabilities keep to values of their batch, since a value that a
    network does not take (a place in a table, a target) would end the process. Bytes may be any.
    """
    safe = inputs.device.type in SAFE
    if not (inputs.is_floating_point() or inputs.is_complex()):
        if inputs.dtype == torch.bool or not (safe or inputs.dtype == torch.uint8):
            return _extreme(inputs, row, scale)
        ends, size = torch.iinfo(inputs.dtype), 2 * int(inputs.amax()) + 1
        far = min(size, ends.max) if scale > 0 else max(-size, ends.min)
        return inputs.select_scatter(torch.full_like(inputs[0], far), 0, row)
    result = inputs.select_scatter(1 + scale * inputs[(row + 1) % len(inputs)], 0, row)
    if not (safe or inputs.is_complex()):
        narrow = (((inputs >= 0) & (inputs <= 1)) | (inputs == inputs.round())).all(0)
        result = torch.where(narrow, _extreme(inputs, row, scale), result)
    return result


def equal(first: Tensor | None, second: Tensor | None) -> bool:
    """To the bit, NaN being equal to itself."""
    if first is None or second is None or first.shape != second.shape:
        return first is second
    return bool(((first == second) | ((first != first) & (second != second))).all())


class SameDraws(TorchDispatchMode):
    """Inside the block, a record that is left out changes no draw but its own.

    What is drawn for one example fewer than `rows` is drawn for `rows` and cut: each keeps its
    numbers. Every draw moves its generator on by the same amount, however many numbers it takes:
    the next draws are the same.

    Attributes:
        shapes: of all that was drawn, in order, before it was cut.
    """

    def __init__(self, *, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        devices = [one.device for one in args if isinstance(one, Tensor)]
        device = torch.device(kwargs.get("device") or [*devices, "cpu"][0])
        own = (
            torch.cuda.default_generators
            if device.type == "cuda"
            else [torch.default_generator]
        )
        generator = kwargs.get("generator") or own[device.index or 0]
        state = generator.get_state()
        whole = [self._whole(one) for one in args]
        drawn = func(*whole, **kwargs)
        generator.set_state(state)
        seed = torch.randint(2**31, (), generator=generator, device=generator.device)
        generator.manual_seed(int(seed))  # seeds below 2**31 count on every device
        self.shapes.append(tuple(tree_leaves(drawn)[0].shape))
        if all(one is other for one, other in zip(whole, args, strict=True)):
            return drawn
        cut = tree_map(lambda part: part[:-1].clone(), drawn)
        return args[0].copy_(cut) if func._schema.name.endswith("_") else cut  # in place

    def _whole(self, argument: Any) -> Any:
        """A size or a tensor with one row fewer than `rows`, with one more: the last again."""
        if isinstance(argument, list) and argument[:1] == [self.rows - 1]:
            return [self.rows, *argument[1:]]
        if isinstance(argument, Tensor) and argument.dim() and len(argument) == self.rows - 1:
            # laid out alike: numbers are drawn in memory's order
            order = sorted(range(argument.dim()), key=argument.stride, reverse=True)
            own, first = argument.permute(order), order.index(0)
            whole = torch.cat((own, own.narrow(first, -1, 1)), first)
            return whole.permute([order.index(i) for i in range(argument.dim())])
        return argument


SHAPE_ALONE = re.compile("_like$|::new_")  # operations that read no number
WORK: Any = 10_000  # solutions to try of where arrays meet (the stubs know -1 and 0 alone)
ONE_IN = 16  # later calls that are watched too, at random


class ReadsData(ValueError):
    """A function reads records that it was not given."""


Extent = tuple[str, np.ndarray]  # a device, and a view of the memory there that is never read


def extents(*data: Any) -> list[Extent]:
    """Extents of the tensors and arrays among the data, as far as they hold numbers.

    Keep these as long as the extents: freed memory is soon another tensor's.
    """
    found: list[Extent] = []
    for x in data:
        if isinstance(x, Tensor) and x.layout == strided and (first := x.data_ptr()):
            steps = tuple(step * x.itemsize for step in x.stride())
            place = {
                "data": (first, True),
                "shape": tuple(x.shape),
                "strides": steps,
                "version": 3,
            }
            there = SimpleNamespace(__array_interface__=place | {"typestr": f"|V{x.itemsize}"})
            found.append((str(x.device), np.asarray(there)))
        elif isinstance(x, np.ndarray) and x.size:
            found.append(("cpu", x))
    return found


def meet(some: Sequence[Extent], others: Sequence[Extent]) -> bool:
    """Whether any share a number: alternate rows of one array do not."""
    pairs = ((a, b) for there, a in some for here, b in others if there == here)
    try:
        return any(np.shares_memory(*pair, max_work=WORK) for pair in pairs)
    except np.exceptions.TooHardError:
        return True


class Watched(TorchDispatchMode):
    """Inside the block, an operation on the numbers at `places` (see `extents`) raises ReadsData.

    The error says `what` runs there ("the loss"), and what to write instead (`remedy`).
    """

    def __init__(self, what: str, places: Sequence[Extent], *, remedy: str) -> None:
        super().__init__()
        self.what, self.places, self.remedy = what, places, remedy

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        reads_numbers = not (func.is_view or SHAPE_ALONE.search(func._schema.name))
        if reads_numbers and meet(extents(*tree_leaves((args, kwargs))), self.places):
            raise ReadsData(
                f"{self.what} reads the data set beside the rows that it is given "
                f"({func._schema.name}), and its price is that of rows drawn at random; "
                f"{self.remedy}"
            )
        return func(*args, **(kwargs or {}))


def now_and_then() -> bool:
    """Whether a later call is watched: one in sixteen, at random."""
    return secrets.randbelow(ONE_IN) == 0

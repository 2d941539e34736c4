"""How far a run may go, and what surrounds each of its steps."""

import signal
import threading
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from dpkit.training.identity import flags_of

if TYPE_CHECKING:
    from dpkit.training.loop import Gan


def steps_to_run(steps: int | None, *, allowed: int, done: int = 0, charged: int = 0) -> int:
    """How many steps the run is to have in all.

    Args:
        steps: as many as are asked for; None for all.
        allowed: as many as the budget allows this run, beside what else is charged.
        done: steps of it that are done.
        charged: steps charged to what was lost, for the error.
    """
    if steps is None:
        steps = allowed
    if not 0 <= steps <= allowed:
        beside = f" beside the {charged} charged to what was lost" if charged else ""
        raise ValueError(
            f"steps must be between 0 and the {allowed} that the settings' budget allows{beside}, "
            f"got {steps}; raise the target epsilon or the noise"
        )
    if steps < done:
        raise ValueError(
            f"steps must be at least the {done} that the checkpoint has done, got {steps}; "
            "give another path for a shorter run"
        )
    return steps


def allowed_after(
    settings: Any, *, charged: Sequence[range], start: int, allowed: int, public_size: int
) -> int:
    """How many steps a run from step `start` may have in all, with those in `charged` on top.

    Where every step costs the same, the steps need only be counted. Else the settings must price
    them, by a method `steps_allowed_after(charged, *, start, public_size)` that answers this.

    Args:
        settings: a paper's.
        charged: indices of the steps that were charged to earlier runs, a range for each.
        start: first step of this run.
        allowed: what `steps_allowed` says of one run from step 0.
        public_size: declared size of the data.

    Raises:
        ValueError: the cost differs by step, or cannot be told, and there is no such method.
    """
    charged = [indices for indices in charged if indices]
    if not charged:
        return allowed
    price = getattr(settings, "steps_allowed_after", None)
    if price is not None:
        return price(charged, start=start, public_size=public_size)
    if not _costs_the_same(settings, allowed, public_size):
        raise ValueError(
            "the cost of a step must be the same for all to count steps that are charged again: "
            "settings.ledger(public_size=..., steps=...) does not say so of "
            f"{type(settings).__name__}; give it a method steps_allowed_after(charged, *, start, "
            "public_size) that prices ranges of steps, or begin anew at another path"
        )
    return max(allowed - sum(map(len, charged)) + start, 0)


def _costs_the_same(settings: Any, steps: int, public_size: int) -> bool:
    """Whether the ledger of n steps is n times what one step adds."""
    ledger = getattr(settings, "ledger", None)
    if ledger is None:
        return False
    none, one, every = (Counter() for _ in range(3))
    for count, found in ((0, none), (1, one), (steps, every)):
        for mechanism, times in ledger(public_size=public_size, steps=count):
            if not isinstance(mechanism, Hashable):
                return False
            found[mechanism] += times
    kinds = none.keys() | one.keys() | every.keys()
    return all(every[kind] - none[kind] == steps * (one[kind] - none[kind]) for kind in kinds)


class Present(NamedTuple):
    """What a step goes on from, to be compared with what the last one left."""

    rng: Tensor
    networks: list[Any]  # each tensor and how often it was changed; train or eval
    optimizers: list[str]
    threads: int


def present(gan: "Gan", rng: torch.Generator) -> Present:
    """What a step of `gan` would go on from now."""
    networks, optimizers = [], []
    for part in gan:
        if isinstance(part, nn.Module):
            tensors = (*part.parameters(), *part.buffers())
            networks += [(id(tensor), tensor._version) for tensor in tensors]
            networks += flags_of(part)
        else:
            for group in part.param_groups:
                numbers = {name: value for name, value in group.items() if name != "params"}
                optimizers.append(repr(numbers))
    return Present(rng.get_state(), networks, optimizers, torch.get_num_threads())


def check_untouched(left: Present, found: Present) -> None:
    """Between two steps nothing happened that a repetition of them would not know of.

    Raises:
        RuntimeError: the rng was used, or networks, optimisers or threads were changed.
    """
    changed = {
        "the rng": not torch.equal(left.rng, found.rng),
        "the networks (weights, buffers, train or eval)": left.networks != found.networks,
        "the optimisers' settings": left.optimizers != found.optimizers,
        "torch's number of threads": left.threads != found.threads,
    }
    names = ", ".join(name for name, is_so in changed.items() if is_so)
    if names:
        raise RuntimeError(
            f"{names} changed between two steps, which after a crash could not be repeated; the "
            "checkpoint is as it was: go on from it with new networks and rng, draw from a "
            "generator of your own, and look at copies of the networks"
        )


@contextmanager
def global_draws_follow(rng: torch.Generator) -> Iterator[None]:
    """Torch's global generators (dropout) seeded from rng's state, and as before after the block.

    rng itself stays where it is. What is drawn so is the same whenever rng's state is.
    """
    digest = sha256(b"global draws of one step" + rng.get_state().numpy().tobytes()).digest()
    seed = int.from_bytes(digest[:8], "big") >> 1
    on_gpu = [rng.device.index or 0] if rng.device.type == "cuda" else []
    with torch.random.fork_rng(on_gpu):
        torch.default_generator.manual_seed(seed)
        for index in on_gpu:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """An interrupt (Ctrl-C) within the block takes effect at its end; a second one at once."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if waiting:
            usual(number, frame)
        waiting.append(number)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if waiting:
        usual(signal.SIGINT, None)

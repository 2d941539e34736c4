"""What surrounds each step of a run: untouched networks, draws that repeat, waiting interrupts."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpkit.training.identity import flags_of
from dpkit.training.types import Gan


class Present(NamedTuple):
    """What a step goes on from, to be compared with what the last one left."""

    rng: Tensor
    networks: list[Any]  # each tensor and how often it was changed; train or eval
    optimizers: list[str]
    threads: int


def present(gan: Gan, rng: torch.Generator) -> Present:
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

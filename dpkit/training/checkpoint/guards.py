"""Guards around each step of a stored run: untouched networks, and draws that repeat."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

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
            networks += [module.training for module in part.modules()]
        else:
            for group in part.param_groups:
                numbers = {name: value for name, value in group.items() if name != "params"}
                optimizers.append(repr(numbers))
    return Present(rng.get_state(), networks, optimizers, torch.get_num_threads())


def check_untouched(left: Present, now: Present) -> None:
    """Refuse changes between two steps: a repetition of the steps would not know of them.

    Raises:
        RuntimeError: the rng was used, or networks, optimisers or threads were changed.
    """
    changed = {
        "the rng": not torch.equal(left.rng, now.rng),
        "the networks (weights, buffers, train or eval)": left.networks != now.networks,
        "the optimisers' settings": left.optimizers != now.optimizers,
        "torch's number of threads": left.threads != now.threads,
    }
    names = ", ".join(name for name, is_so in changed.items() if is_so)
    if names:
        raise RuntimeError(
            f"{names} changed between two steps, which after a crash could not be repeated; the "
            "checkpoint is as it was: go on from it with new networks and rng, draw from another "
            "generator, and look at copies of the networks"
        )


@contextmanager
def global_draws_follow(rng: torch.Generator, index: int) -> Iterator[None]:
    """Seed torch's global generators (dropout) for a step; put them back after the block.

    The seed follows from rng's state, where it stays, and from the step's index: a step that draws
    nothing from rng leaves the same state to the next.
    """
    digest = sha256(b"global draws of step %d" % index + rng.get_state().numpy().tobytes())
    seed = int.from_bytes(digest.digest()[:8], "big") >> 1
    on_gpu = [rng.device.index or 0] if rng.device.type == "cuda" else []
    with torch.random.fork_rng(on_gpu):
        torch.default_generator.manual_seed(seed)
        for index in on_gpu:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield

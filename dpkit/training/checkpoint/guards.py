"""Guards around each step of a stored run: untouched networks, and draws that repeat."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn

from dpkit.training.device import draws_put_back
from dpkit.training.types import Model

RNG = "the rng"


def present(gan: Model, rng: torch.Generator) -> dict[str, Any]:
    """What a step of `gan` would go on from now, to be compared with what the last one left."""
    modes, settings, tensors = [], [], []
    for part in gan:
        if isinstance(part, nn.Module):
            tensors += [*part.parameters(), *part.buffers()]
            modes += [module.training for module in part.modules()]
        else:
            settings += [
                {name: repr(value) for name, value in group.items() if name != "params"}
                for group in part.param_groups
            ]
            held = [value for state in part.state.values() for value in state.values()]
            tensors += [value for value in held if isinstance(value, Tensor)]
    return {
        RNG: rng.get_state(),
        "the networks' modes (train or eval)": modes,
        "the optimisers' settings": settings,
        "weights, buffers or the optimisers' states": sums_of(tensors),
        "torch's number of threads": torch.get_num_threads(),
    }


def sums_of(tensors: Iterable[Tensor]) -> dict[torch.device, Tensor]:
    """The bits of each tensor's sum and norm, left on its device: blind to permutations.

    They show what no version counts: weights changed through `.data`, and optimisers' tensors.
    """
    sums: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        values = tensor.detach() if tensor.is_floating_point() else tensor.double()
        norm = torch.linalg.vector_norm(values, dtype=torch.float64)
        sums.setdefault(tensor.device, []).extend((values.sum(dtype=torch.float64), norm))
    return {device: torch.stack(parts).view(torch.int64) for device, parts in sums.items()}


def same_sums(one: dict[torch.device, Tensor], other: dict[torch.device, Tensor]) -> bool:
    """One transfer for each device."""
    return one.keys() == other.keys() and all(torch.equal(one[d], other[d]) for d in one)


def check_untouched(left: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse changes between two steps: a repetition of the steps would not know of them.

    Raises:
        RuntimeError: the rng was used, or networks, optimisers or threads were changed.
    """
    names = ", ".join(name for name, value in left.items() if not _alike(value, now[name]))
    if names:
        raise RuntimeError(
            f"{names} changed between two steps, which after a crash could not be repeated; the "
            "checkpoint is unchanged; resume with new networks and rng, draw from another "
            "generator, and look at copies of the networks"
        )


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    return same_sums(one, other) if isinstance(one, dict) else one == other


@contextmanager
def global_draws_follow(rng: torch.Generator, index: int) -> Iterator[None]:
    """Seed torch's global generators (dropout) for a step; put them back after the block.

    The seed follows from rng's state, where it stays, and from the step's index: a step that draws
    nothing from rng leaves the same state to the next.
    """
    digest = sha256(b"global draws of step %d" % index + rng.get_state().numpy().tobytes())
    seed = int.from_bytes(digest.digest()[:8], "big") >> 1
    with draws_put_back(rng.device):
        torch.default_generator.manual_seed(seed)
        if rng.device.type != "cpu":
            module = torch.get_device_module(rng.device)
            module.default_generators[rng.device.index or 0].manual_seed(seed)
        yield

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
    networks = nn.ModuleList(part for part in gan if isinstance(part, nn.Module))
    optimizers = [part for part in gan if not isinstance(part, nn.Module)]
    held = [x for part in optimizers for state in part.state.values() for x in state.values()]
    tensors = [*networks.parameters(), *networks.buffers(), *filter(torch.is_tensor, held)]
    return {
        RNG: rng.get_state(),
        "the networks' modes (train or eval)": [module.training for module in networks.modules()],
        "the optimisers' settings": repr(optimizers),
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


def same_sums(one: Any, other: Any) -> bool:
    """Whether sums, with one transfer for each device, or other parts of `present` are alike."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_sums(one[d], other[d]) for d in one)
    return torch.equal(one, other) if isinstance(one, Tensor) else one == other


def check_untouched(left: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse (RuntimeError) changes between two steps, of which a repetition would not know."""
    names = ", ".join(name for name, value in left.items() if not same_sums(value, now[name]))
    if names:
        raise RuntimeError(
            f"{names} changed between two steps, which after a crash could not be repeated; the "
            "checkpoint is unchanged; resume with new networks and rng, draw from another "
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
    with draws_put_back(rng.device):
        torch.default_generator.manual_seed(seed)
        if rng.device.type != "cpu":
            module = torch.get_device_module(rng.device)
            module.default_generators[rng.device.index or 0].manual_seed(seed)
        yield

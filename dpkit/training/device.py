"""The device of a run, its precision, and its sources of randomness."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import shake_256
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, backends

from dpkit.common import checks


def check_alone() -> None:
    """Refuse to train in one of several processes that torchrun started.

    Raises:
        RuntimeError: each would spend the budget by itself.
    """
    started = os.environ.get("WORLD_SIZE", "1")
    if "TORCHELASTIC_RUN_ID" in os.environ and started != "1":
        raise RuntimeError(
            f"torchrun started {started} processes, each of which would spend the budget by "
            "itself; start one, without torchrun"
        )


@contextmanager
def precision(*, tf32: bool) -> Iterator[None]:
    """Products of matrices and convolutions in float32, or in TF32; as before after it.

    Whichever of torch's two ways (`set_float32_matmul_precision`, `fp32_precision`) has set what
    was before: where they disagree, torch refuses to answer for the first, which then stays.
    """
    before = [operation.fp32_precision for operation in _OPERATIONS]
    wanted = ["tf32" if tf32 else "ieee"] * len(_OPERATIONS)
    if before == wanted:
        yield
        return
    products = convolutions = None
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        convolutions = backends.cudnn.allow_tf32
    _set_precision("high" if tf32 else "highest", tf32, wanted)
    try:
        yield
    finally:
        _set_precision(products, convolutions, before)


@contextmanager
def in_one_order() -> Iterator[None]:
    """Let cuDNN add in one order, as before after it: on a GPU, equal work gives equal bits."""
    before, backends.cudnn.deterministic = backends.cudnn.deterministic, True
    try:
        yield
    finally:
        backends.cudnn.deterministic = before


_cuda, _cudnn, _mkldnn = cast(Any, (backends.cuda, backends.cudnn, backends.mkldnn))
_OPERATIONS = (
    *(_cuda.matmul, _cudnn.conv, _cudnn.rnn),
    *(_mkldnn.matmul, _mkldnn.conv, _mkldnn.rnn),
)


def _set_precision(
    products: str | None, convolutions: bool | None, each: Sequence[str]
) -> None:
    if products is not None:
        torch.set_float32_matmul_precision(products)
    if convolutions is not None:
        backends.cudnn.allow_tf32 = convolutions
    for operation, own in zip(_OPERATIONS, each, strict=True):
        operation.fp32_precision = own


def device_named(name: str) -> torch.device:
    """The device of a name, such as cpu, cuda, cuda:1 or xpu; auto is torch's accelerator.

    Where there is none, or only mps, which has no float64, auto is the CPU.

    Raises:
        ValueError: the name is none of these, or torch sees no such device here.
    """
    accelerator = torch.accelerator.current_accelerator()
    count = torch.accelerator.device_count()
    if name == "auto":
        if accelerator is None or count == 0 or accelerator.type == "mps":
            return torch.device("cpu")
        return accelerator
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type not in ("cuda", "xpu", "mps"):
        raise ValueError(
            f"device must be auto, cpu, cuda, cuda:1 (and so on), xpu or mps, got {name!r}"
        )
    if (
        accelerator is None
        or device.type != accelerator.type
        or not (device.index or 0) < count
    ):
        there = [f"{accelerator.type}:{i}" for i in range(count)] if accelerator else []
        raise ValueError(
            f"device is {name!r} but torch sees no such device here, only "
            f"{', '.join(['cpu', *there])}; use one of these, or auto"
        )
    return device


def device_label(device: torch.device) -> str:
    """The device's name in a stored result."""
    if device.type in ("cuda", "xpu"):
        return torch.get_device_module(device).get_device_name(device)
    return device.type


@contextmanager
def draws_put_back(*devices: torch.device) -> Iterator[None]:
    """Leave torch's global generators, the CPU's and devices', as before the block."""
    others = [device for device in devices if device.type != "cpu"]
    kind = others[0].type if others else "cuda"
    with torch.random.fork_rng([device.index or 0 for device in others], device_type=kind):
        yield


def floats(*numbers: float | Tensor | None) -> tuple[Any, ...]:
    """Numbers, or tensors of one element, as Python's own, in one transfer."""
    tensors = [number.detach().reshape(()) for number in numbers if isinstance(number, Tensor)]
    read = iter(torch.stack(tensors).tolist() if tensors else ())
    return tuple(next(read) if isinstance(number, Tensor) else number for number in numbers)


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
    """Return whether sums (one transfer a device), or other parts of `present`, are alike."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_sums(one[d], other[d]) for d in one)
    return torch.equal(one, other) if isinstance(one, Tensor) else one == other


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generator seeded in the block, restored after it: for construction."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # noqa: TID251  the one place where the ban is lifted
        yield


WORDS = 624  # of 32 bits: the state of the Mersenne Twister, the CPU's generator


class PrivateGenerator(torch.Generator):
    """A source of noise that is never copied, and knows the process that made it."""

    def __init__(self, device: torch.device) -> None:
        self.process = os.getpid()

    def __reduce__(self) -> Any:
        raise TypeError(
            "a generator of private noise cannot be copied or sent to another process: two copies "
            "draw the same noise, and the difference of two releases shows the records; call "
            "dpkit.training.generator_on(device) where the noise is drawn"
        )

    clone_state = graphsafe_get_state = __reduce__


def generator_on(
    device: torch.device, *, reproducible_seed: int | None = None, stream: str = "training"
) -> torch.Generator:
    """A source of randomness on `device`, from the operating system's entropy.

    The accounting takes the noise to be independent of all other draws, so initial weights and
    latents of what is released come from another stream.

    Args:
        device: where it draws.
        reproducible_seed: an integer from which all draws follow, so that a run can be repeated. It
            must then be as secret as the data: a reader who knows it can remove the noise. None:
            a generator that nobody can make again.
        stream: another one gives other draws from the same seed.

    Returns:
        a generator for this process alone: it cannot be copied, and draws no noise in a forked
        process, where it would be the same.

    Raises:
        ValueError: reproducible_seed is not an integer >= 0.
    """
    rng = PrivateGenerator(device=device)
    if reproducible_seed is None:
        return filled(rng, os.urandom(4 * WORDS))
    seed = checks.whole(reproducible_seed=reproducible_seed)
    return filled(rng, shake_256(f"{stream}/{seed}".encode()).digest(4 * WORDS))


def filled(rng: torch.Generator, entropy: bytes) -> torch.Generator:
    """The generator with a state from 2,496 bytes; on a GPU only 63 bits count."""
    rng.manual_seed(int.from_bytes(entropy[:8], "big") >> 1)
    if rng.device.type != "cpu":
        return rng
    # torch keeps 24 bytes of its own (the seed, the place), then each word in 8 bytes
    state = rng.get_state()
    words = np.frombuffer(entropy, np.uint32).astype(np.uint64)
    state[24 : 24 + 8 * WORDS] = torch.from_numpy(words.view(np.uint8).copy())
    return rng.set_state(state)

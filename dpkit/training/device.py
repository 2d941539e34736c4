"""Where a run is computed, with which precision, and from which sources of randomness."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor


@contextmanager
def precision(*, tf32: bool) -> Iterator[None]:
    """Products of matrices and convolutions on a GPU in float32, or in TF32; as before after it."""
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


def device_named(name: str) -> torch.device:
    """The device called auto, cpu or cuda; auto is the accelerator where there is one.

    Raises:
        ValueError: the name is none of these, or there is no CUDA device.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda' but torch sees no CUDA device; use cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def device_label(device: torch.device) -> str:
    """What a stored result calls the device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def floats(*numbers: float | Tensor | None) -> tuple[Any, ...]:
    """Numbers, some of them perhaps tensors of one element, as Python's own, in one transfer."""
    tensors = [number.detach().reshape(()) for number in numbers if isinstance(number, Tensor)]
    read = iter(torch.stack(tensors).tolist() if tensors else ())
    return tuple(next(read) if isinstance(number, Tensor) else number for number in numbers)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generator seeded inside the block and restored after it: for construction."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # noqa: TID251  the one place where the ban is lifted
        yield


def generator_on(device: torch.device, *, seed: int, stream: str = "training") -> torch.Generator:
    """A fresh source of randomness on `device`, another one for each seed and stream.

    The accounting takes the noise to be independent of all else that is drawn, so what is drawn for
    another purpose (initial weights, latents of what is released) comes from another stream.
    """
    digest = sha256(f"{stream}/{seed}".encode()).digest()
    return torch.Generator(device=device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)

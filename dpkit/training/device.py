"""Where a run is computed, with which precision, and from which sources of randomness."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import shake_256

import numpy as np
import torch


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


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generator seeded inside the block and restored after it: for construction."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # noqa: TID251  the one place where the ban is lifted
        yield


WORDS = 624  # of 32 bits: the state of the Mersenne Twister, the CPU's generator


def generator_on(
    device: torch.device, *, reproducible_seed: int | None = None, stream: str = "training"
) -> torch.Generator:
    """A source of randomness on `device`, from the operating system's entropy.

    The accounting takes the noise to be independent of all else that is drawn, so what is drawn for
    another purpose (initial weights, latents of what is released) comes from another stream.

    Args:
        device: where it draws.
        reproducible_seed: an integer from which all draws follow, so that a run can be repeated. It
            must then be as secret as the data: who knows it takes the noise off again. None: a
            generator that nobody can make again.
        stream: another one gives other draws from the same seed.

    Raises:
        TypeError: reproducible_seed is no integer.
    """
    rng = torch.Generator(device=device)
    if reproducible_seed is None:
        return filled(rng, os.urandom(4 * WORDS))
    if isinstance(reproducible_seed, bool) or not isinstance(reproducible_seed, int):
        raise TypeError(
            f"reproducible_seed must be an integer or None, got {reproducible_seed!r}; None takes "
            "the operating system's entropy"
        )
    return filled(rng, shake_256(f"{stream}/{reproducible_seed}".encode()).digest(4 * WORDS))


def filled(rng: torch.Generator, entropy: bytes) -> torch.Generator:
    """The generator with a state from 2,496 bytes; all of them count on a CPU, 63 bits on a GPU."""
    rng.manual_seed(int.from_bytes(entropy[:8], "big") >> 1)
    if rng.device.type != "cpu":
        return rng
    # torch keeps 24 bytes of its own (the seed, the place), then each word in 8 bytes
    state = rng.get_state()
    words = np.frombuffer(entropy, np.uint32).astype(np.uint64)
    state[24 : 24 + 8 * WORDS] = torch.from_numpy(words.view(np.uint8).copy())
    return rng.set_state(state)

"""The Gaussian noise of training: untruncated, added once, rounded to a coarse grid.

Torch draws float32 normals from 24 random bits: none is beyond 5.77 deviations, and the last digits
of a sum in float32 show which noise was possible (Mironov 2012). Here each draw is a
float64 without cut tails, and the release is a rounded ideal Gaussian release, up to a relative
2^-38 of each probability within 13 deviations: noise.md.
"""

import os
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import repeat
from math import inf
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from dpkit.privacy import normals

AT_ONCE = 2**16  # coordinates that a CPU works on at a time


def noised(sums: Sequence[Tensor], *, noise_std: float, rng: torch.Generator) -> list[Tensor]:
    """The Gaussian mechanism: each coordinate of a clipped sum plus its own N(0, noise_std^2).

    Args:
        sums: clipped sums of gradients, one tensor a parameter.
        noise_std: noise_multiplier times the clip norm, in the unit of the sums. 0 adds nothing.
        rng: generator on the tensors' device.

    Returns:
        tensors of the sums' shapes and types (float32 for narrower ones), their coordinates rounded
        to multiples of a power of two between noise_std / 64 and noise_std / 32.

    Raises:
        TypeError: rng is no torch.Generator.
        ValueError: noise_std is negative, infinite or NaN, or rng has torch's default seed.
    """
    if not 0 <= noise_std < inf:
        raise ValueError(f"noise_std must be >= 0 and finite, got {noise_std}")
    return noised_each(sums, noise_stds=[noise_std] * len(sums), rng=rng)


def noised_each(
    sums: Sequence[Tensor], *, noise_stds: Sequence[float | Tensor], rng: torch.Generator
) -> list[Tensor]:
    """Add noise as `noised`, with its own noise_std for each tensor or each coordinate.

    For clipping by groups and by coordinate (`noise_stds` of the rule).

    Args:
        sums, rng: clipped sums, one tensor a parameter, and a generator on their device.
        noise_stds: for each sum a number, or a tensor of its shape, in the unit of the sums.

    Raises:
        TypeError, ValueError: as `noised`, or there are not as many noises as sums, or one is of
            another shape.
    """
    check_generator(rng)
    if len(noise_stds) != len(sums):
        raise ValueError(f"noise_stds must hold {len(sums)} noises, got {len(noise_stds)}")
    for i, (total, std) in enumerate(zip(sums, noise_stds, strict=True)):
        # on a GPU NaN or infinity makes its sum so, which `update` refuses; a sign does not matter
        if isinstance(std, Tensor):
            fits, looks = std.shape == total.shape, std.device.type != "cuda"
            fits = fits and (not looks or bool(((std >= 0) & (std < inf)).all()))  # NaN fails
        else:
            fits = 0 <= std < inf
        if not fits:
            raise ValueError(
                f"noise_stds[{i}] must be >= 0 and finite, a number or of shape "
                f"{tuple(total.shape)}, got {std}"
            )
    sizes = [size for total in sums for size in _blocks(total)]
    draws = standard_normals(rng, sizes)
    noised_sums = [
        _noised(total, std, draws) for total, std in zip(sums, noise_stds, strict=True)
    ]
    instead = _instead.get()
    return noised_sums if instead is None else instead(sums, noise_stds, noised_sums)


Instead = Callable[[Sequence[Tensor], Sequence[float | Tensor], list[Tensor]], list[Tensor]]
_instead: ContextVar[Instead | None] = ContextVar("instead", default=None)


@contextmanager
def watched(instead: Instead) -> Iterator[None]:
    """In this block `noised_each` returns instead(sums, noise_stds, noised sums): for audits.

    The noise is drawn as always: later draws stay the same. Nothing made in the block may be
    released.
    """
    token = _instead.set(instead)
    try:
        yield
    finally:
        _instead.reset(token)


def check_generator(rng: torch.Generator) -> None:
    """Refuse a generator whose draws everybody knows.

    Raises:
        TypeError: rng is no torch.Generator.
        ValueError: it has torch's default seed, the same in every process.
        RuntimeError: it was made, or first used, in the process from which this one was forked.
    """
    if not isinstance(rng, torch.Generator):
        raise TypeError(
            f"rng must be a torch.Generator, got {type(rng).__name__}; pass "
            "dpkit.training.generator_on(device)"
        )
    if rng.initial_seed() == torch.Generator().initial_seed():
        raise ValueError(
            "rng must be seeded, got torch's default seed, with which anybody can repeat its "
            "noise; pass dpkit.training.generator_on(device)"
        )
    made_in = getattr(rng, "process", None) or _first_used_in.setdefault(rng, os.getpid())
    if made_in != os.getpid():
        raise RuntimeError(
            "rng was made in the process from which this one was forked, and both would draw the "
            "same noise; make one in each process by dpkit.training.generator_on(device)"
        )


# torch 2.11 has no weak references to generators: those of users are kept
_first_used_in: MutableMapping[torch.Generator, int] = (
    WeakKeyDictionary() if torch.Generator.__weakrefoffset__ else {}
)


def standard_normals(rng: torch.Generator, sizes: Sequence[int]) -> Iterator[Tensor]:
    """Standard normals in blocks, float64 (size,): on CUDA where rng is there, else on the CPU.

    As `normals.standard_normals`; the bulk is torch's Box-Muller transform on a GPU, and on a CPU
    the ziggurat's bit generator is keyed by 128 bits from `rng`, anew for each release.
    """
    if rng.device.type == "cuda":
        return iter(_on_gpu(sum(sizes), rng=rng).split(list(sizes)))
    key = torch.randint(2**32, (8,), generator=rng, device=rng.device).tolist()
    own = np.random.Generator(np.random.SFC64(np.random.SeedSequence(key)))
    return (torch.from_numpy(normals.standard_normals(size, rng=own)) for size in sizes)


def _on_gpu(count: int, *, rng: torch.Generator) -> Tensor:
    """All in parallel, without a look at any value: where few matter, all are drawn."""
    shape = {"generator": rng, "device": rng.device, "dtype": torch.float64}
    draws = torch.randn(count, **shape)
    depth = normals.depths(torch.rand(count, **shape), torch.rand(count, **shape))
    beyond = torch.special.ndtri(depth * float(ndtr(-normals.TAIL))).copysign(draws)
    return torch.where(draws.abs() > normals.TAIL, beyond, draws)


def _noised(total: Tensor, std: float | Tensor, draws: Iterator[Tensor]) -> Tensor:
    """A sum with noise on it, block by block."""
    flat = total.detach().reshape(-1)
    noisy = torch.empty_like(flat, dtype=torch.promote_types(flat.dtype, torch.float32))
    parts = _blocks(flat)
    stds = std.reshape(-1).split(parts) if isinstance(std, Tensor) else repeat(std)
    for part, out, own in zip(flat.split(parts), noisy.split(parts), stds, strict=False):
        block = next(draws)  # which raises where too few are left
        own = own.to(block) if isinstance(own, Tensor) else own
        out.copy_(_on_grid(part.to(block), block, own))
    return noisy.view(total.shape)


def _blocks(total: Tensor) -> list[int]:
    """The sizes in which its coordinates are worked on: few at a time fit a CPU's cache."""
    count = total.numel()
    if total.device.type == "cuda":
        return [count]
    return [min(AT_ONCE, count - start) for start in range(0, count, AT_ONCE)] or [0]


def _on_grid(totals: Tensor, draws: Tensor, stds: Tensor | float) -> Tensor:
    """As `normals.noised`, with these draws, which are overwritten; where std is 0, the total."""
    if isinstance(stds, Tensor):  # the power of two at or below each, over 2^GRID, by its bits
        exponents = stds.frexp().exponent.long() + (1022 - normals.GRID)
        grid = (exponents.clamp(min=0) << 52).view(torch.float64)
    else:
        grid = normals.grid(stds)
    rest = totals / grid
    whole = rest.round()
    noisy = draws.mul_(stds / grid).add_(rest.sub_(whole)).round_().add_(whole).mul_(grid)
    if isinstance(stds, Tensor):
        return torch.where(stds == 0, totals, noisy)  # NaN gives NaN
    return noisy if stds > 0 else totals

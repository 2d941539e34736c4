"""Update rules, described without torch so that settings can hold them, and the noise."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from dpkit.privacy.schedules import Schedule

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent with a learning rate for each step."""

    rate: Schedule

    def build(self, parameters: Iterable["torch.nn.Parameter"]) -> "torch.optim.Optimizer":
        """A torch optimiser over `parameters`."""
        import torch

        return torch.optim.SGD(parameters, lr=self.rate(0))


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015) with a learning rate for each step."""

    rate: Schedule
    betas: tuple[float, float] = (0.9, 0.999)

    def build(self, parameters: Iterable["torch.nn.Parameter"]) -> "torch.optim.Optimizer":
        """A torch optimiser over `parameters`."""
        import torch

        return torch.optim.Adam(parameters, lr=self.rate(0), betas=self.betas)


def set_rate(optimizer: "torch.optim.Optimizer", rate: float) -> None:
    """The learning rate of all that `optimizer` updates."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def noised(
    sums: Sequence["torch.Tensor"], *, noise_std: float, rng: "torch.Generator"
) -> list["torch.Tensor"]:
    """The Gaussian mechanism: each coordinate of a clipped sum plus its own N(0, noise_std^2).

    Noise is drawn and added in the sums' own type, so that its grid is as fine as theirs, and in
    float32 where that is narrower (ordinary floating point: not an exact sampler).

    Args:
        sums: clipped sums of gradients, one tensor a parameter.
        noise_std: noise_multiplier times the clip norm, in the unit of the sums. 0 adds nothing.
        rng: generator on the tensors' device.

    Raises:
        ValueError: noise_std is negative, infinite or NaN.
    """
    if not 0 <= noise_std < inf:
        raise ValueError(f"noise_std must be >= 0 and finite, got {noise_std}")
    return noised_each(sums, noise_stds=[noise_std] * len(sums), rng=rng)


def noised_each(
    sums: Sequence["torch.Tensor"],
    *,
    noise_stds: Sequence["float | torch.Tensor"],
    rng: "torch.Generator",
) -> list["torch.Tensor"]:
    """As `noised`, with another noise_std for each tensor or each coordinate.

    For clipping by groups and by coordinate (`noise_stds` of the rule).

    Args:
        sums: clipped sums of gradients, one tensor a parameter.
        noise_stds: for each tensor a number, or a tensor of the same shape.
        rng: generator on the tensors' device.

    Raises:
        ValueError: there are not as many noises as sums, one is of another shape, or one is
            negative, infinite or NaN.
    """
    import torch

    if len(noise_stds) != len(sums):
        raise ValueError(f"noise_stds must hold {len(sums)} numbers or tensors, a sum each")
    noisy = []
    for i, (total, std) in enumerate(zip(sums, noise_stds, strict=True)):
        fits = 0 <= std < inf if isinstance(std, float | int) else _fits(std, total)
        if not fits:
            raise ValueError(
                f"noise_stds[{i}] must be >= 0 and finite, a number or of shape "
                f"{tuple(total.shape)}, got {std}"
            )
        wide = torch.promote_types(total.dtype, torch.float32)
        # beside finer digits of a sum, noise on a coarser grid would hide little
        noise = torch.randn(total.shape, generator=rng, device=total.device, dtype=wide)
        noisy.append(noise.mul_(std).add_(total))
    see = _see.get()
    return noisy if see is None else see(sums, noise_stds, noisy)


_see: ContextVar[Callable[..., "list[torch.Tensor]"] | None] = ContextVar("see", default=None)


@contextmanager
def watched(see: Callable[..., "list[torch.Tensor]"]) -> Iterator[None]:
    """Inside the block `noised_each` returns see(sums, noise_stds, noisy): for `check_step` alone.

    The noise is drawn as always, so that all that is drawn after it stays the same.
    """
    token = _see.set(see)
    try:
        yield
    finally:
        _see.reset(token)


def _fits(std: "torch.Tensor", total: "torch.Tensor") -> bool:
    return std.shape == total.shape and bool(((std >= 0) & (std < inf)).all())  # NaN fails


def update(
    optimizer: "torch.optim.Optimizer",
    parameters: Sequence["torch.Tensor"],
    gradients: Sequence["torch.Tensor"],
) -> None:
    """One step of `optimizer` along gradients that are given, not those of a backward pass.

    Raises:
        FloatingPointError: a gradient is not finite. Training stops rather than go on from NaN.
    """
    import torch

    # one look for all: a sum is finite only if all of its terms are
    if gradients and not torch.isfinite(torch.stack([g.sum() for g in gradients]).sum()):
        raise FloatingPointError(
            "a gradient is NaN or infinite: the learning rate or the data may be out of range"
        )
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()


def average(
    averaged: "torch.nn.Module", network: "torch.nn.Module", *, decay: float, updates: int
) -> None:
    """Move `averaged` towards `network`: an exponential moving average of its parameters.

    What is averaged is already released, so that this is post-processing.

    Args:
        averaged: a copy of `network`, changed in place.
        network: as it is after its latest update.
        decay: weight of the past, in [0, 1); 0 copies. Early on it is at most
            (1 + updates) / (10 + updates), so that the first weights are forgotten.
        updates: number of updates so far.
    """
    import torch

    if not 0 <= decay < 1:
        raise ValueError(f"decay must be in [0, 1), got {decay}")
    decay = min(decay, (1 + updates) / (10 + updates))
    with torch.no_grad():
        for past, present in zip(averaged.parameters(), network.parameters(), strict=True):
            past.lerp_(present, 1 - decay)

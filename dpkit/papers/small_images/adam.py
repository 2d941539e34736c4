"""Section 3.2.1 in numbers: the clip norm's effect on the updates of DP-Adam.

The same examples and the same noise draws, once clipped at C and once at C', each with noise z C.
Where every gradient is longer than both, the released means are proportional, and Adam divides its
mean by the root of its mean square: the updates agree but for `eps`, which is added to that root.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.mechanisms.base import Floats


class AdamBatch(NamedTuple):
    """One step's gradients (batch, dims) and its noise before it is scaled, N(0, 1), (dims,)."""

    gradients: Floats
    noise: Floats


def trajectory(
    *, steps: int, batch_size: int, dims: int, shortest: float, rng: np.random.Generator
) -> Iterator[AdamBatch]:
    """Made-up gradients of one training run: a direction that drifts, and each example's own.

    Args:
        shortest: least L2 norm of a gradient; norms are log-uniform from it to ten times it.

    Raises:
        ValueError: a size is not an integer >= 1, or shortest is not a finite number > 0.
    """
    checks.whole(1, steps=steps, batch_size=batch_size, dims=dims)
    checks.positive(shortest=shortest)
    common = rng.standard_normal(dims)
    for _ in range(steps):
        common = 0.95 * common + 0.3 * rng.standard_normal(dims)
        raw = 0.1 * common + rng.standard_normal((batch_size, dims))
        # (batch, 1) L2 norms
        wanted = shortest * 10 ** rng.random((batch_size, 1))
        raw *= wanted / np.linalg.norm(raw, axis=1, keepdims=True)
        yield AdamBatch(raw, rng.standard_normal(dims))


def released(batch: AdamBatch, *, max_grad_norm: float, noise_multiplier: float) -> Floats:
    """DP-SGD's mean gradient (dims,): clipped sum plus noise of deviation z C, over the batch."""
    checks.non_negative(noise_multiplier=noise_multiplier)
    norms = np.linalg.norm(batch.gradients, axis=1)[None]
    weights = FlatClipping(max_grad_norm).weights(norms)[0]
    noisy = weights @ batch.gradients + noise_multiplier * max_grad_norm * batch.noise
    return noisy / len(batch.gradients)


def updates(gradients: Floats, *, betas: tuple[float, float], eps: float) -> Floats:
    """Adam's updates in units of the learning rate (Kingma, Ba 2015, Algorithm 1).

    m / (sqrt(v) + eps) with both means corrected for their start at 0.

    Args:
        gradients: (steps, dims).
        betas: decay of the mean and of the mean square, each in [0, 1).
        eps: >= 0. With 0, a coordinate whose gradients were all 0 has no update (NaN).

    Raises:
        ValueError: betas or eps are out of range.
    """
    checks.non_negative(eps=eps)
    for decay in betas:
        if not 0 <= decay < 1:
            raise ValueError(f"betas must lie in [0, 1), got {betas}")
    mean, square = np.zeros_like(gradients[0]), np.zeros_like(gradients[0])
    out = np.empty_like(gradients)
    for step, gradient in enumerate(gradients):
        mean = betas[0] * mean + (1 - betas[0]) * gradient
        square = betas[1] * square + (1 - betas[1]) * gradient**2
        corrected = mean / (1 - betas[0] ** (step + 1))
        root = np.sqrt(square / (1 - betas[1] ** (step + 1)))
        with np.errstate(invalid="ignore"):
            out[step] = corrected / (root + eps)
    return out


def rmsprop(gradients: Floats, *, eps: float = 1e-8) -> Floats:
    """RMSprop's updates, g / (sqrt(v) + eps) (Tieleman, Hinton 2012); as `updates`.

    The decay of v, which starts at 0, is PyTorch's default, 0.99.
    """
    checks.non_negative(eps=eps)
    square, out = np.zeros_like(gradients[0]), np.empty_like(gradients)
    for step, gradient in enumerate(gradients):
        square = 0.99 * square + 0.01 * gradient**2
        out[step] = gradient / (np.sqrt(square) + eps)
    return out


def adagrad(gradients: Floats, *, eps: float = 1e-10) -> Floats:
    """Adagrad's updates, g / (sqrt(the sum of all g^2 so far) + eps) (Duchi, Hazan, Singer 2011).

    As `updates`; eps 1e-10 is PyTorch's default.
    """
    checks.non_negative(eps=eps)
    return gradients / (np.sqrt(np.cumsum(gradients**2, axis=0)) + eps)


def normalised(gradients: Floats) -> Floats:
    """Updates of normalised gradient descent in units of the learning rate: g / |g|, (steps, dims).

    Raises:
        ArithmeticError: a gradient is 0.
    """
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    if not (norms > 0).all():
        raise ArithmeticError("a gradient of 0 has no direction")
    return gradients / norms


def difference(first: Floats, second: Floats) -> float:
    """The largest |second - first| / |first| of a step, in L2 norms; both (steps, dims)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.linalg.norm(second - first, axis=1) / np.linalg.norm(first, axis=1)
    if not np.isfinite(found).all():
        raise ArithmeticError("an update is 0 or not a number: no relative difference")
    return float(found.max())


class Comparison:
    """Updates by clip norm on one made-up run: batch 128, noise 0.5, norms from 2 on."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        made = trajectory(steps=60, batch_size=128, dims=200, shortest=2.0, rng=rng)
        self.batches = list(made)

    def updates(self, max_grad_norm: float, *, eps: float) -> Floats:
        """Adam's updates (steps, dims) in units of the learning rate."""
        return updates(self.means(max_grad_norm), betas=(0.5, 0.9), eps=eps)

    def means(self, max_grad_norm: float) -> Floats:
        """The released mean gradients, (steps, dims)."""
        how = {"max_grad_norm": max_grad_norm, "noise_multiplier": 0.5}
        return np.stack([released(batch, **how) for batch in self.batches])

    def difference(self, first: float, second: float, *, eps: float) -> float:
        """The largest relative difference of a step between two clip norms."""
        return difference(self.updates(first, eps=eps), self.updates(second, eps=eps))

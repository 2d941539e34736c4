"""Noise whose deviations minimise its expected harm, by projected gradient descent (DpOpt).

Xiang, Yang and Li 2019, "Differentially-private deep learning from an optimization perspective"
(INFOCOM), give each coordinate of the gradient its own deviation sigma_i. As far as is known to us,
they minimise the weighted distortion sum w_i sigma_i, w_i the slope of the cost, while the
difference D that a record makes satisfies sum D_i^2 / sigma_i^2 <= 1 / z^2, by 50 steps of
projected gradient descent. AdaDP compares with it (Xu et al. 2019, section IV-B).

What the kit reads into that, or does otherwise:

- The slopes are averages of released, noisy gradients: a raw one would steer the noise, and leak.
  Weights are their absolute values: a negative weight would ask for infinite noise. A slope below
  the average one counts as the average: there, what is remembered is mostly noise.
- While sigma is chosen, D_i^2 is C^2 / m at each of the m coordinates: the difference that a
  gradient of norm C makes if it is spread evenly. Gradients are not, so each example's is then
  clipped such that it satisfies the constraint itself (`ScaledClipping`). With equal slopes this is
  DP-SGD at C. Clipping each coordinate at C / sqrt(m) would satisfy it as well, and cuts off most
  of a gradient that lies in few coordinates; clipping by the norm alone leaves the least sigma_i to
  decide, so that equal noise is the best there is.
- The constraint is exact for Gaussian noise (AdaDP, Lemma 1). The bound by moments, which AdaDP's
  footnote 1 corrects, is not needed.
"""

from collections.abc import Iterable, Sequence
from math import inf

import torch
from torch import Tensor

from dpkit.common import checks
from dpkit.papers.adadp.noise_shapes import NoiseShape, Raw, Shaped, checked_parameters
from dpkit.papers.adadp.scaled_clipping import ScaledClipping

STEPS = 50  # of projected gradient descent (Xu et al. 2019, section IV-B)


class OptimisedNoise(NoiseShape):
    """DpOpt's noise: less of it on coordinates along which the cost is steep.

    Args:
        parameters, noise_multiplier: as `NoiseShape`.
        max_grad_norm: C; where all slopes are equal, noise and clipping are those of DP-SGD at C.
        decay: of the average of released gradients, whose absolute values are the slopes.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        noise_multiplier: float,
        max_grad_norm: float,
        decay: float = 0.99,
    ) -> None:
        parameters = checked_parameters(parameters)
        super().__init__(parameters, noise_multiplier=noise_multiplier, max_grad_norm=max_grad_norm)
        self.decay = checks.in_range(0, 1, decay=decay)
        for i, p in enumerate(parameters):
            self.register_buffer(f"slopes_{i}", torch.zeros_like(p).detach())

    def slopes(self) -> list[Tensor]:
        """The average of released sums, of each parameter's shape, in place."""
        return [getattr(self, f"slopes_{i}") for i in range(self.tensors)]

    def now(self) -> Shaped:
        """The noise that harms least, and clipping that fits it."""
        rule = ScaledClipping(tuple(least_harmful(self.slopes(), self.flat.max_grad_norm)))
        return Shaped(rule, rule.noise_stds(self.noise_multiplier))

    def see(self, noisy: Sequence[Tensor], raw: Raw | None = None) -> None:
        """Follow the released sums; what is raw is not read."""
        super().see(noisy)
        for past, present in zip(self.slopes(), noisy, strict=True):
            past.lerp_(present, 1 - self.decay)


def least_harmful(slopes: Sequence[Tensor], max_grad_norm: float) -> list[Tensor]:
    """Scales d that minimise sum |slope_i| d_i while sum (C^2 / m) / d_i^2 = 1, for sigma = z d.

    Args:
        slopes: one tensor for each parameter; equal ones give d_i = C.
        max_grad_norm: C.

    Returns:
        tensors of the slopes' shapes and types.

    Raises:
        FloatingPointError: a slope is NaN or infinite.
    """
    flat = torch.cat([one.flatten() for one in slopes]).double().abs()
    average = float(flat.mean())
    if not average < inf:
        raise FloatingPointError("a slope is NaN or infinite: the learning rate may be too high")
    scales = max_grad_norm / optimal_shares(flat.clamp(min=average or 1.0)).sqrt()
    parts = scales.split([one.numel() for one in slopes])
    return [part.view_as(one).to(one) for part, one in zip(parts, slopes, strict=True)]


def optimal_shares(weights: Tensor, steps: int = STEPS) -> Tensor:
    """What minimises sum w_i / sqrt(u_i) over u with mean 1, by projected gradient descent.

    u_i / m is coordinate i's share of the constraint, in which the problem is convex and the
    constraint a simplex. The minimum lies at u_i in proportion to w_i^(2/3).

    Args:
        weights: > 0, float64 (m,).
        steps: of descent, from equal shares. 50 come within 1 % of the least sum where no weight
            is below half the mean.
    """
    weights = weights / weights.mean()
    least = float(weights.min()) ** (2 / 3)  # no share is less there: the mean of w^(2/3) is <= 1
    rate = least * 4 / 3  # 1 / the largest curvature there, 3/4 w u^(-5/2)
    shares = torch.ones_like(weights)
    for _ in range(steps):
        root = shares.rsqrt()
        shares = projected(shares + rate / 2 * weights * root * root * root, least)
    return shares


def projected(shares: Tensor, least: float) -> Tensor:
    """The nearest shares >= least with mean 1 (Michelot 1986); least <= 1."""
    free = torch.ones_like(shares, dtype=torch.bool)
    while True:
        total = torch.where(free, shares, least).sum()
        moved = torch.where(free, shares - (total - len(shares)) / free.sum(), least)
        if bool((moved >= least).all()):
            return moved
        free &= moved > least

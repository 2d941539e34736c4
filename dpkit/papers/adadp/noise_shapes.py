"""Shapes of a step's noise: equal on all coordinates, or by each one's history.

A shape names the clipping of each step and its noise. Its memory lies in buffers, which checkpoints
keep. Noise always fits the clipping: 1 / sqrt(sum s_i^2 / sigma_i^2) is the noise multiplier (Xu et
al. 2019, AdaDP, Lemma 1), and a step on a Poisson batch costs as much as `SampledGaussian` of that
multiplier, as long as no raw gradient steers the shape.

DpOpt (Xiang, Yang and Li 2019, "Differentially-private deep learning from an optimization
perspective", INFOCOM) gives each coordinate of the gradient its own deviation sigma_i. As far as is
known to us, it minimises the weighted distortion sum w_i sigma_i, w_i the slope of the cost, while
the difference D that a record makes satisfies sum D_i^2 / sigma_i^2 <= 1 / z^2, by 50 steps of
projected gradient descent. AdaDP compares with it (Xu et al. 2019, section IV-B).

The kit's readings and departures:

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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.privacy import Adjacency
from dpkit.privacy.clipping import ClippingRule, FlatClipping, PerCoordinateClipping, moves
from dpkit.training import Gradients, PerExample
from dpkit.training.gradients.ghost_clipping import LayerPasses
from dpkit.training.gradients.layers import counting, left_out, lengths, widened

# Norms that were added up in float32, and weights from them
ROUNDED_UP = 1 + 2.0**-14


@dataclass(frozen=True, eq=False)
class ScaledClipping:
    """Each example's gradient g scaled so that sum (g_i / d_i)^2 <= 1: clipped to an ellipsoid.

    With noise of deviation z d_i the release protects as one Gaussian of multiplier z does: by a
    change of units it is `FlatClipping(1.0)` with equal noise. Equal d_i are `FlatClipping(d)`.
    It is a `ClippingRule`, of the norms of g / d, which take per-example gradients in full. The
    scales must not be computed from un-noised private gradients.

    Args:
        scales: d, one array for each parameter tensor, of the tensor's shape, numpy or torch.

    Raises:
        ValueError: a scale is not a finite number > 0, or has another shape than the gradient.
    """

    scales: tuple[Any, ...]

    def __post_init__(self) -> None:
        wrong = [(~((scale > 0) & (scale < inf))).sum() for scale in self.scales]  # NaN too
        if sum(wrong):  # one look, which a GPU waits for
            tensor = next(i for i, count in enumerate(wrong) if count)
            raise ValueError(f"scales[{tensor}] must hold finite numbers > 0; look for NaN")

    def check_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """Refuse parameter tensors of other shapes."""
        own, given = (
            [tuple(one) for one in of] for of in ((s.shape for s in self.scales), shapes)
        )
        if own != given:
            raise ValueError(f"scales must have the parameters' shapes {given}, got {own}")

    def weights(self, norms: Any) -> Any:
        """min(1, 1 / norm of g / d), shape (1, batch), from its `norms` (tensors, batch)."""
        joint = (norms**2).sum(0, keepdims=True) ** 0.5
        return 1 / (joint * ROUNDED_UP).clip(min=1.0)

    def clipped_sum(self, gradients: PerExample) -> tuple[list[Tensor], Tensor]:
        """The sum over examples of gradients clipped so, and their weights (1, batch).

        Where each layer is a linear one that ran once on one row an example, gradients stay
        factored. Others are formed in full, a few examples at a time.
        """
        parameters = gradients.parameters
        self.check_shapes([p.shape for p in parameters])
        pairs = zip(self.scales, parameters, strict=True)
        scales = [widened(torch.as_tensor(d, device=p.device).detach()) for d, p in pairs]
        if isinstance(gradients, Gradients) and all(map(_one_product, gradients.layers)):
            weights = self.weights(_of_products(gradients.layers, scales).sqrt())
            weights = counting(weights.to(parameters[0].dtype))
            return gradients.weighted_sum(weights), weights
        sums = [widened(torch.zeros_like(p).detach()) for p in parameters]
        weights = [parameters[0].new_zeros(1, 0).detach()]
        for full in gradients.each():
            norms = torch.stack(
                [lengths(widened(g) / d) for g, d in zip(full, scales, strict=True)]
            )
            weights.append(counting(self.weights(norms).to(full[0].dtype)))
            for total, gradient in zip(sums, full, strict=True):
                total += torch.tensordot(weights[-1][0], left_out(gradient, weights[-1]), 1)
        sums = [total.to(p.dtype) for total, p in zip(sums, parameters, strict=True)]
        return sums, torch.cat(weights, 1)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The largest d_i under add-remove: a gradient may lie along its axis; or twice that."""
        return moves(max(float(scale.max()) for scale in self.scales), adjacency)

    def noise_stds(self, noise_multiplier: float) -> list[Any]:
        """Noise of deviation z d_i, which protects as one Gaussian of multiplier z does."""
        checks.positive(noise_multiplier=noise_multiplier)
        return [noise_multiplier * scale for scale in self.scales]


def _one_product(one: LayerPasses) -> bool:
    """Whether an example's weight gradient is one outer product, in which nothing cancels."""
    return type(one.layer) is nn.Linear and len(one.passes) == 1 and one.passes[0][0].ndim == 2


def _of_products(layers: Sequence[LayerPasses], scales: Sequence[Tensor]) -> Tensor:
    """The squared norm of g / d of each tensor, (tensors, batch), in double precision.

    In single, squares of numbers below 1e-23 are 0.
    """
    squares, left = [], iter(scales)
    for one in layers:
        a, d = map(widened, one.passes[0])
        squares.append(((d.square() @ next(left).square().reciprocal()) * a.square()).sum(1))
        if (bias := one.biases()) is not None:
            squares.append((widened(bias) / next(left)).square().sum(1))
    return torch.stack(squares)


Spread = Literal["square", "root"]
Squared = Literal["mean", "sum", "example"]
# The squares of a lot's raw gradients, of its mean, its sum, or each example (averaged): private.
Raw = Callable[[Squared], list[Tensor]]


class Shaped(NamedTuple):
    """The clipping and the noise of one step."""

    rule: ClippingRule | PerCoordinateClipping
    # Of noise on the clipped sum, for each parameter
    noise_stds: Sequence[float | Tensor]


class NoiseShape(nn.Module):
    """Equal noise on every coordinate of gradients clipped at one norm: DP-SGD's own.

    Args:
        parameters: the network's trainable ones, in its order.
        noise_multiplier: z, which the price of a step follows from.
        max_grad_norm: clip norm C of an example's whole gradient.

    Raises:
        ValueError: a number is not > 0.
        TypeError: parameters are no tensors of floats, or there are none.
    """

    def __init__(
        self, parameters: Iterable[Tensor], *, noise_multiplier: float, max_grad_norm: float
    ) -> None:
        super().__init__()
        self.noise_multiplier = checks.positive(noise_multiplier=noise_multiplier)
        self.flat = FlatClipping(max_grad_norm)
        self.shapes = [tuple(p.shape) for p in checked_parameters(parameters)]
        self.tensors = len(self.shapes)

    def now(self) -> Shaped:
        """Clipping and noise of the next step, from what the shape has seen."""
        std = self.noise_multiplier * self.flat.sensitivity("add-remove")
        return Shaped(self.flat, [std] * self.tensors)

    def see(self, noisy: Sequence[Tensor], raw: Raw | None = None) -> None:
        """Take note of a step.

        Args:
            noisy: its released sums, one for each parameter.
            raw: read by AdaDP's Algorithm 1 (`RawHistory`) alone, which has no price.

        Raises:
            ValueError: noisy are not of the parameters' shapes.
            FloatingPointError: one is NaN or infinite (on a GPU it is left to `update` to say so).
        """
        shapes = [tuple(n.shape) for n in noisy]
        if shapes != self.shapes:
            raise ValueError(
                f"noisy must hold a tensor for each parameter, {self.shapes}, got {shapes}"
            )
        total = torch.stack([n.double().sum() for n in noisy]).sum()
        if total.device.type != "cuda" and not total.isfinite():
            raise FloatingPointError(
                "a released sum is NaN or infinite; try a lower learning rate"
            )


def checked_parameters(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The parameters as a list.

    Raises:
        TypeError: they are no tensors of floats, or there are none.
    """
    found = [] if isinstance(parameters, nn.Module) else list(parameters)
    if not found or not all(isinstance(p, Tensor) and p.is_floating_point() for p in found):
        raise TypeError(
            "parameters must be the network's trainable tensors of floats, at least one: "
            "[p for p in net.parameters() if p.requires_grad]"
        )
    return found


class Remembering(NoiseShape):
    """A shape with one number for each coordinate, from which its clipping follows."""

    what = "squares"  # name of its buffers

    def __init__(self, parameters: Iterable[Tensor], **common: float) -> None:
        parameters = checked_parameters(parameters)
        super().__init__(parameters, **common)
        for i, p in enumerate(parameters):
            self.register_buffer(f"{self.what}_{i}", torch.zeros_like(p).detach())

    def remembered(self) -> list[Tensor]:
        """E', the square of each coordinate of a gradient, or its slope, in place."""
        return [getattr(self, f"{self.what}_{i}") for i in range(self.tensors)]

    def _follow(self, now: Iterable[Tensor], decay: float) -> None:
        for past, present in zip(self.remembered(), now, strict=True):
            past.lerp_(present, 1 - decay)


class RawHistory(Remembering):
    """AdaDP's noise as printed (Xu et al. 2019, Algorithm 1, lines 6 to 20 and 23).

    The history is of raw gradients: it steers clipping, noise and the switch between global and
    local clipping, so that no guarantee covers a run (`adadp/raw-history-leak`).

    Args:
        parameters, noise_multiplier, max_grad_norm: as `NoiseShape`;
            the norm is of the steps before the switch.
        bound_factor, decay, threshold, of, spread: as `settings.Published`, `of` for its history.
        scale: factor of line 13's noise: sqrt(lot) where each example gets it.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        bound_factor: float = 1.2,
        decay: float = 0.9,
        threshold: float = 1e-6,
        of: Squared = "mean",
        spread: Spread = "root",
        scale: float = 1.0,
        **common: float,
    ) -> None:
        super().__init__(parameters, **common)
        checks.one_of(("square", "root"), spread=spread)
        checks.one_of(("mean", "sum", "example"), of=of)
        checks.positive(scale=scale)
        checks.non_negative(threshold=threshold)
        self.of: Squared = of
        self.bound_factor = checks.positive(bound_factor=bound_factor)
        self.decay = checks.in_range(0, 1, decay=decay)
        self.threshold, self.spread, self.scale = threshold, spread, scale

    def now(self) -> Shaped:
        """Local clipping where the history has spread out, else global clipping.

        Local is at s_i = beta sqrt(E'_i) (line 9), and noise is in proportion: z sqrt(m) s_i.
        """
        rule, stds = super().now()  # lines 16, 18
        if self.switched():  # lines 9, 12
            rule = PerCoordinateClipping(
                tuple(self.bound_factor * e.sqrt() for e in self.remembered())
            )
            stds = rule.noise_stds(self.noise_multiplier)
        return Shaped(rule, [self.scale * std for std in stds])

    def switched(self) -> bool:
        """Whether clipping is local: the history has spread out."""
        whole = torch.cat([one.flatten() for one in self.remembered()]).double()
        return bool(  # line 7
            (whole if self.spread == "square" else whole.sqrt()).var() > self.threshold
        )

    def see(self, noisy: Sequence[Tensor], raw: Raw | None = None) -> None:
        """Line 23: E' <- gamma' E' + (1 - gamma') g^2, of the raw gradient."""
        super().see(noisy)
        if raw is None:
            raise TypeError("raw must be given: AdaDP's printed history reads raw gradients")
        self._follow(raw(self.of), self.decay)  # line 23


class ReleasedHistory(Remembering):
    """The kit's own variant of AdaDP's noise, with a history of released gradients.

    A released coordinate of the lot's mean is g_i plus noise of known variance v_i, so that its
    square less v_i is g_i^2 in expectation. The history follows these, over many steps, since one
    of them is mostly noise. Noise is in proportion to its root, as in AdaDP, within a public range
    around DP-SGD's: neither noise nor history can run away. (Without the subtraction E' grows in
    expectation each step, by gamma' + (1 - gamma') (1 + v_i / E'_i).) Gradients are clipped in the
    norm of the noise (`ScaledClipping`): at each coordinate alone most of them would be cut off.
    Everything is post-processing of released sums.

    Args:
        parameters, noise_multiplier, max_grad_norm: as `NoiseShape`.
        decay, range_factor: as `settings.Repaired`, decay in [0, 1].
        lot: expected batch size, which the sums are divided by.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        lot: int,
        decay: float = 0.99,
        range_factor: float = 4.0,
        **common: float,
    ) -> None:
        super().__init__(parameters, **common)
        self.lot = checks.whole(1, lot=lot)
        self.decay = checks.in_range(0, 1, decay=decay)
        self.range_factor = checks.in_range(1, 1e6, range_factor=range_factor)

    def now(self) -> Shaped:
        """Scales in proportion to the root of the history; noise in proportion to them."""
        rule = ScaledClipping(tuple(self.scales()))
        return Shaped(rule, rule.noise_stds(self.noise_multiplier))

    def scales(self) -> list[Tensor]:
        """d_i = C sqrt(E'_i) over its root mean square, within the range; C before any step."""
        norm = self.flat.max_grad_norm
        squares = [one.clamp(min=0) for one in self.remembered()]
        count = sum(one.numel() for one in squares)
        mean = torch.stack([one.sum() for one in squares]).sum() / count
        shares = [torch.where(mean > 0, one / mean, torch.ones_like(one)) for one in squares]
        most = self.range_factor
        return [norm * share.sqrt().clamp(1 / most, most) for share in shares]

    def see(self, noisy: Sequence[Tensor], raw: Raw | None = None) -> None:
        """E' <- decay E' + (1 - decay) (g~^2 - v), g~ and v of the lot's mean."""
        super().see(noisy)
        pairs, z = zip(noisy, self.scales(), strict=True), self.noise_multiplier
        squares = ((n / self.lot) ** 2 - (z * d / self.lot) ** 2 for n, d in pairs)
        self._follow(squares, self.decay)


STEPS = 50  # of projected gradient descent (Xu et al. 2019, section IV-B)


class OptimisedNoise(Remembering):
    """DpOpt's noise: less of it on coordinates along which the cost is steep.

    Args:
        parameters, noise_multiplier, max_grad_norm: as `NoiseShape`.
        decay: as `settings.Optimised`, decay in [0, 1].
    """

    what = "slopes"

    def __init__(
        self, parameters: Iterable[Tensor], *, decay: float = 0.99, **common: float
    ) -> None:
        super().__init__(parameters, **common)
        self.decay = checks.in_range(0, 1, decay=decay)

    def now(self) -> Shaped:
        """The noise that harms least, and clipping that fits it."""
        rule = ScaledClipping(tuple(least_harmful(self.remembered(), self.flat.max_grad_norm)))
        return Shaped(rule, rule.noise_stds(self.noise_multiplier))

    def see(self, noisy: Sequence[Tensor], raw: Raw | None = None) -> None:
        """Follow the released sums; raw ones are not read."""
        super().see(noisy)
        self._follow(noisy, self.decay)


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
    average = flat.mean()
    if flat.device.type != "cuda" and not average < inf:  # there `ScaledClipping` says so
        raise FloatingPointError("a slope is NaN or infinite; try a lower learning rate")
    scales = max_grad_norm / optimal_shares(flat.clamp(min=average + (average == 0))).sqrt()
    parts = scales.split([one.numel() for one in slopes])
    return [part.view_as(one).to(one) for part, one in zip(parts, slopes, strict=True)]


def optimal_shares(weights: Tensor) -> Tensor:
    """Minimise sum w_i / sqrt(u_i) over u with mean 1, by projected gradient descent.

    u_i / m is coordinate i's share of the constraint, in which the problem is convex and the
    constraint a simplex. The minimum lies at u_i in proportion to w_i^(2/3). The steps, from equal
    shares, come within 1 % of the least sum where no weight, > 0, is below half the mean.
    """
    weights = weights / weights.mean()
    # No share is less there than this: the mean of w^(2/3) is <= 1
    least = weights.min() ** (2 / 3)
    rate = least * 4 / 3  # 1 / the largest curvature there, 3/4 w u^(-5/2)
    shares = torch.ones_like(weights)
    for _ in range(STEPS):
        root = shares.rsqrt()
        shares = projected(shares + rate / 2 * weights * root * root * root, least)
    return shares


def projected(shares: Tensor, least: float | Tensor) -> Tensor:
    """The nearest shares >= least with mean 1 (Michelot 1986), least <= 1; on CUDA one round's."""
    free = torch.ones_like(shares, dtype=torch.bool)
    while True:
        total = torch.where(free, shares, least).sum()
        moved = torch.where(free, shares - (total - len(shares)) / free.sum(), least)
        if moved.device.type == "cuda" or bool((moved >= least).all()):
            return moved.clamp(min=least)
        free &= moved > least

"""How the noise of a step is shaped: equal on all coordinates, or after what each one has been.

A shape names the clipping of each step and its noise. Whatever it remembers lies in buffers, so
that a checkpoint keeps it. Noise always fits the clipping: 1 / sqrt(sum s_i^2 / sigma_i^2) is the
noise multiplier (Xu et al. 2019, AdaDP, Lemma 1), and a step on a Poisson batch costs what
`SampledGaussian` of that multiplier costs, as long as no raw gradient steers the shape.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.papers.adadp.scaled_clipping import ScaledClipping
from dpkit.privacy.clipping import ClippingRule, FlatClipping, PerCoordinateClipping

Spread = Literal["square", "root"]
Squared = Literal["mean", "sum", "example"]
# The squares of a lot's raw gradients, of its mean, its sum, or each example (averaged): private.
Raw = Callable[[Squared], list[Tensor]]


class Shaped(NamedTuple):
    """The clipping and the noise of one step."""

    rule: ClippingRule | PerCoordinateClipping
    noise_stds: Sequence[float | Tensor]  # of the noise on the clipped sum, one for each parameter


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
            raw: what AdaDP's Algorithm 1 reads beside them: `RawHistory` alone, which has no price.

        Raises:
            ValueError: noisy are not of the parameters' shapes.
            FloatingPointError: one is NaN or infinite.
        """
        shapes = [tuple(n.shape) for n in noisy]
        if shapes != self.shapes:
            raise ValueError(
                f"noisy must hold a tensor for each parameter, of shapes {self.shapes}, got "
                f"{shapes}"
            )
        if not torch.isfinite(torch.stack([n.double().sum() for n in noisy]).sum()):
            raise FloatingPointError(
                "a released sum is NaN or infinite: the learning rate may be too high"
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
    """A shape with one number for each coordinate, from which its clipping bounds follow."""

    def __init__(
        self, parameters: Iterable[Tensor], *, noise_multiplier: float, max_grad_norm: float
    ) -> None:
        parameters = checked_parameters(parameters)
        super().__init__(parameters, noise_multiplier=noise_multiplier, max_grad_norm=max_grad_norm)
        for i, p in enumerate(parameters):
            self.register_buffer(f"squares_{i}", torch.zeros_like(p).detach())

    def squares(self) -> list[Tensor]:
        """E', the remembered square of each coordinate of a gradient, in place."""
        return [getattr(self, f"squares_{i}") for i in range(self.tensors)]

    def coordinates(self) -> int:
        """Number of coordinates: m."""
        return sum(one.numel() for one in self.squares())

    def local(self, bounds: Sequence[Tensor]) -> Shaped:
        """Clipping at each coordinate, and noise in proportion: z sqrt(m) s_i."""
        rule = PerCoordinateClipping(tuple(bounds))
        return Shaped(rule, rule.noise_stds(self.noise_multiplier))

    def _follow(self, squares: Iterable[Tensor], decay: float) -> None:
        for past, present in zip(self.squares(), squares, strict=True):
            past.lerp_(present, 1 - decay)


class RawHistory(Remembering):
    """AdaDP's noise as printed (Xu et al. 2019, Algorithm 1, lines 6 to 20 and 23).

    The history is of raw gradients: it steers clipping, noise and the switch between global and
    local clipping, so that no guarantee covers a run (`adadp/raw-history-leak`).

    Args:
        parameters, noise_multiplier, max_grad_norm: as `NoiseShape`; the norm is of the steps
            before the switch.
        bound_factor: beta, of the bounds s_i = beta sqrt(E'_i).
        decay: gamma', of the history, in [0, 1].
        of: which gradient the history squares.
        threshold: G; above it the history's variance over coordinates switches to local clipping.
        spread: whether that is the variance of E' ("square", section III-B) or of its root ("root",
            Algorithm 1, line 7).
        scale: what the noise of line 13 is multiplied by: sqrt(lot) where each example gets it.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        noise_multiplier: float,
        max_grad_norm: float,
        bound_factor: float = 1.2,
        decay: float = 0.9,
        threshold: float = 1e-6,
        of: Squared = "mean",
        spread: Spread = "root",
        scale: float = 1.0,
    ) -> None:
        super().__init__(parameters, noise_multiplier=noise_multiplier, max_grad_norm=max_grad_norm)
        checks.one_of(("square", "root"), spread=spread)
        checks.one_of(("mean", "sum", "example"), of=of)
        checks.positive(scale=scale)
        checks.non_negative(threshold=threshold)
        self.of: Squared = of
        self.bound_factor = checks.positive(bound_factor=bound_factor)
        self.decay = checks.in_range(0, 1, decay=decay)
        self.threshold, self.spread, self.scale = threshold, spread, scale

    def now(self) -> Shaped:
        """Local clipping where the history has spread out, else global clipping."""
        shaped = self.local(self.bounds()) if self.switched() else super().now()
        return Shaped(shaped.rule, [self.scale * std for std in shaped.noise_stds])

    def bounds(self) -> list[Tensor]:
        """s_i = beta sqrt(E'_i) (line 9)."""
        return [self.bound_factor * one.sqrt() for one in self.squares()]

    def switched(self) -> bool:
        """Line 7."""
        whole = torch.cat([one.flatten() for one in self.squares()]).double()
        return bool((whole if self.spread == "square" else whole.sqrt()).var() > self.threshold)

    def see(self, noisy: Sequence[Tensor], raw: Raw | None = None) -> None:
        """Line 23: E' <- gamma' E' + (1 - gamma') g^2, of the raw gradient.

        Raises:
            TypeError: no raw gradient is given.
        """
        super().see(noisy)
        if raw is None:
            raise TypeError("raw must be given: AdaDP's history as printed is of raw gradients")
        self._follow(raw(self.of), self.decay)


class ReleasedHistory(Remembering):
    """The kit's own variant of AdaDP's noise: its history is of what was released.

    A released coordinate of the lot's mean is g_i plus noise of known variance v_i, so that its
    square less v_i is g_i^2 in expectation. The history follows these, over many steps, since one
    of them is mostly noise. Noise is in proportion to its root, as in AdaDP, within a public range
    around DP-SGD's: neither noise nor history can run away. (Without the subtraction E' grows in
    expectation each step, by gamma' + (1 - gamma') (1 + v_i / E'_i).) Gradients are clipped in the
    norm of the noise (`ScaledClipping`): at each coordinate alone most of them would be cut off.
    Everything is post-processing of released sums.

    Args:
        parameters, noise_multiplier: as `NoiseShape`.
        max_grad_norm: C; with equal scales, clipping and noise are DP-SGD's at C.
        lot: expected batch size, which the sums are divided by.
        decay: of the history, in [0, 1].
        range_factor: scales lie within C divided and multiplied by it.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        noise_multiplier: float,
        max_grad_norm: float,
        lot: int,
        decay: float = 0.99,
        range_factor: float = 4.0,
    ) -> None:
        super().__init__(parameters, noise_multiplier=noise_multiplier, max_grad_norm=max_grad_norm)
        self.lot = checks.whole(1, lot=lot)
        self.decay = checks.in_range(0, 1, decay=decay)
        self.range_factor = checks.in_range(1, 1e6, range_factor=range_factor)

    def now(self) -> Shaped:
        """Scales in proportion to the root of the history; noise in proportion to them."""
        rule = ScaledClipping(tuple(self.scales()))
        return Shaped(rule, rule.noise_stds(self.noise_multiplier))

    def scales(self) -> list[Tensor]:
        """d_i = C sqrt(E'_i) over its root mean square, within the range; C before any step."""
        norm, squares = self.flat.max_grad_norm, [one.clamp(min=0) for one in self.squares()]
        mean = torch.stack([one.sum() for one in squares]).sum() / self.coordinates()
        shares = [torch.where(mean > 0, one / mean, torch.ones_like(one)) for one in squares]
        most = self.range_factor
        return [norm * share.sqrt().clamp(1 / most, most) for share in shares]

    def see(self, noisy: Sequence[Tensor], raw: Raw | None = None) -> None:
        """E' <- decay E' + (1 - decay) (g~^2 - v), g~ and v of the lot's mean."""
        super().see(noisy)
        stds = self.now().noise_stds
        self._follow(
            ((n / self.lot) ** 2 - (s / self.lot) ** 2 for n, s in zip(noisy, stds, strict=True)),
            self.decay,
        )

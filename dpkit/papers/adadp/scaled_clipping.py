"""Clipping in the norm of the noise: more room along coordinates that get more noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpkit.common import checks
from dpkit.privacy.clipping import moves
from dpkit.privacy.mechanisms import Adjacency

ROUNDED_UP = 1 + 2.0**-14  # norms that were added up in float32, and weights from them


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
        ValueError: a scale is not a finite number > 0.
    """

    scales: tuple[Any, ...]

    def __post_init__(self) -> None:
        for tensor, scale in enumerate(self.scales):
            if not bool(((scale > 0) & (scale < float("inf"))).all()):  # NaN fails
                raise ValueError(f"scales[{tensor}] must hold finite numbers > 0; look for NaN")

    def check_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """The rule was made for parameter tensors of these shapes.

        Raises:
            ValueError: it was not.
        """
        own, given = ([tuple(one) for one in of] for of in ((s.shape for s in self.scales), shapes))
        if own != given:
            raise ValueError(f"scales must have the parameters' shapes {given}, got {own}")

    def weights(self, norms: Any) -> Any:
        """min(1, 1 / norm of g / d), shape (1, batch), from its `norms` (tensors, batch)."""
        joint = (norms**2).sum(0, keepdims=True) ** 0.5
        return 1 / (joint * ROUNDED_UP).clip(min=1.0)

    def clipped_sum(self, gradients: Any) -> tuple[list[Any], Any]:
        """The sum over examples of a network's gradients, and their weights (1, batch)."""
        from dpkit.papers.adadp.scaled import scaled_sum

        return scaled_sum(gradients, self)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The largest d_i under add-remove, along whose axis a gradient may lie; or twice that."""
        return moves(max(float(scale.max()) for scale in self.scales), adjacency)

    def noise_stds(self, noise_multiplier: float) -> list[Any]:
        """Noise of deviation z d_i, which protects as one Gaussian of multiplier z does."""
        checks.positive(noise_multiplier=noise_multiplier)
        return [noise_multiplier * scale for scale in self.scales]

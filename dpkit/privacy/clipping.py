"""Clipping rules: each example's scale, and the sensitivity of the clipped sum.

Sensitivity belongs to the rule and the adjacency together, and nobody else computes it. A rule
works by operators alone, on numpy arrays and torch tensors alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any, Protocol

import numpy as np

from dpkit.common import checks
from dpkit.privacy.mechanisms import Adjacency, DiagonalGaussian, GroupedGaussian


class ClippingRule(Protocol):
    """A gradient-clipping rule: weights and sensitivity."""

    def weights(self, norms: Any) -> Any:
        """Scale of each example, shape (tensors or 1, batch), from `norms` (tensors, batch)."""
        ...

    def sensitivity(self, adjacency: Adjacency) -> float:
        """L2 distance that one record can move the clipped sum by."""
        ...


def moves(bound: float, adjacency: Adjacency) -> float:
    """L2 sensitivity of a sum of vectors of norm <= bound: that, or 2 bound (replace-one)."""
    if adjacency == "add-remove":
        return bound
    if adjacency == "replace-one":
        return 2 * bound
    raise ValueError(f"adjacency must be 'add-remove' or 'replace-one', got {adjacency!r}")


def _check_norm(max_grad_norm: float) -> None:
    if not 0 < max_grad_norm < float("inf"):
        raise ValueError(f"max_grad_norm must be > 0 and finite, got {max_grad_norm}")


def _float64(values: Any) -> Any:
    return (
        values.double() if hasattr(values, "double") else np.asarray(values, dtype=np.float64)
    )


def check_tensors(tensors: int, norms: Any) -> None:
    """Require a rule for as many tensors as `norms` has rows (ValueError)."""
    if norms.shape[0] != tensors:
        raise ValueError(
            f"the clipping rule must be for the network's {norms.shape[0]} tensors, got one for "
            f"{tensors}: its sensitivity would be wrong"
        )


def check_groups(bounds: tuple[float, ...], groups: tuple[int, ...]) -> None:
    """Require finite bounds > 0, one for each tensor's group, and no empty group (ValueError)."""
    for group, bound in enumerate(bounds):
        checks.positive(**{f"bounds[{group}]": bound})
    for tensor, group in enumerate(groups):
        checks.whole(**{f"groups[{tensor}]": group})
    if set(groups) != set(range(len(bounds))) or not bounds:
        raise ValueError(
            f"groups must name each of the {len(bounds)} groups of bounds, counted from 0, and no "
            f"other, got {groups}"
        )


@dataclass(frozen=True)
class FlatClipping:
    """An example's whole gradient clipped to L2 norm `max_grad_norm` (Abadi et al. 2016)."""

    max_grad_norm: float

    def __post_init__(self) -> None:
        _check_norm(self.max_grad_norm)

    def weights(self, norms: Any) -> Any:
        """min(1, C / norm of the whole gradient), shape (1, batch)."""
        joint = (norms**2).sum(0, keepdims=True) ** 0.5
        return self.max_grad_norm / joint.clip(min=self.max_grad_norm)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """C under add-remove, 2C under replace-one."""
        return moves(self.max_grad_norm, adjacency)


@dataclass(frozen=True)
class PerTensorClipping:
    """Each parameter tensor clipped apart to `max_grad_norm`: together C * sqrt(tensors)."""

    max_grad_norm: float
    tensors: int

    def __post_init__(self) -> None:
        _check_norm(self.max_grad_norm)
        checks.whole(1, tensors=self.tensors)

    def weights(self, norms: Any) -> Any:
        """min(1, C / norm) of each tensor, shape (tensors, batch)."""
        check_tensors(self.tensors, norms)
        return self.max_grad_norm / norms.clip(min=self.max_grad_norm)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """C * sqrt(tensors) under add-remove, twice that under replace-one."""
        return moves(self.max_grad_norm * sqrt(self.tensors), adjacency)


@dataclass(frozen=True)
class GroupClipping:
    """Tensors in groups, the joint gradient of each group clipped at the group's own bound.

    dpGAN calls it stratified clipping (Zhang et al. 2018, Section 4.1). Every group reads the
    same batch, so one record moves all of them together: by sqrt(sum of squared bounds), not by
    the largest bound alone.

    Args:
        bounds: clip norm of each group, each > 0.
        groups: the group of each parameter tensor, counted from 0, in the order of `norms`.

    Raises:
        ValueError: a bound is not a finite number > 0, a group is not one of those that have a
            bound, or a group has no tensor.
    """

    bounds: tuple[float, ...]
    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        check_groups(self.bounds, self.groups)

    def weights(self, norms: Any) -> Any:
        """min(1, c_g / joint norm of the tensor's group g), shape (tensors, batch)."""
        check_tensors(len(self.groups), norms)
        scales = norms * 1.0  # an array of the same kind, filled below
        for group, bound in enumerate(self.bounds):
            members = [tensor for tensor, own in enumerate(self.groups) if own == group]
            rows = norms[: len(members)] * 1.0  # one by one: a GPU waits for a list of places
            for row, tensor in enumerate(members):
                rows[row] = norms[tensor]
            # in units of the bound, so that no square underflows where it would matter
            joint = ((rows / bound) ** 2).sum(0) ** 0.5
            for tensor in members:
                scales[tensor] = 1 / joint.clip(min=1.0)
        return scales

    def sensitivity(self, adjacency: Adjacency) -> float:
        """sqrt(sum c_g^2) under add-remove, twice that under replace-one."""
        return moves(sqrt(fsum(c * c for c in self.bounds)), adjacency)

    def noise_stds(self, noise_multiplier: float) -> tuple[float, ...]:
        """Noise in proportion to each group's bound, z c_g, for each tensor (not each group)."""
        checks.positive(noise_multiplier=noise_multiplier)
        return tuple(noise_multiplier * self.bounds[group] for group in self.groups)

    def mechanism(
        self,
        *,
        noise_multiplier: float,
        sample_rate: float = 1.0,
        adjacency: Adjacency = "add-remove",
    ) -> GroupedGaussian:
        """One release with the noise of `noise_stds`, its batch drawn by Poisson sampling."""
        return GroupedGaussian(noise_multiplier, len(self.bounds), sample_rate, adjacency)


def _is_bound(values: Any) -> Any:
    return (values >= 0) & (values < float("inf"))  # NaN fails


@dataclass(frozen=True, eq=False)
class PerCoordinateClipping:
    """Each example's gradient clipped to [-s_i, s_i] at coordinate i (Xu et al. 2019, eq. 5).

    No weight of an example does this, so it is not a `ClippingRule`: it needs per-example gradients
    in full, a few at a time. The bounds must not be computed from un-noised private gradients:
    `mechanism` takes them as fixed (in the published Algorithm 1, line 23 reads the raw gradient;
    the noised one is the repair).

    Args:
        bounds: one array for each parameter tensor, of the tensor's shape, numpy or torch. A
            coordinate with bound 0 is dropped: it is always 0 and gets no noise.

    Raises:
        ValueError: a bound is negative, infinite or NaN, or all are 0 (bounds on a GPU are looked
            at by `sensitivity` alone).
    """

    bounds: tuple[Any, ...]

    def __post_init__(self) -> None:
        # a look would wait for a GPU; there `noise_stds` of a wrong bound are NaN
        if "cuda" not in str([getattr(bound, "device", "") for bound in self.bounds]):
            self._refuse_others()

    def _refuse_others(self) -> None:
        wrong = sum((~_is_bound(bound)).sum() for bound in self.bounds)
        if bool((wrong == 0) & (self._released() >= 1)):  # one look
            return
        for tensor, bound in enumerate(self.bounds):
            if not bool(_is_bound(bound).all()):
                raise ValueError(
                    f"bounds[{tensor}] must hold finite numbers >= 0; look for NaN"
                )
        raise ValueError("bounds must hold a number > 0: with all 0, nothing is released")

    def _released(self) -> Any:
        return sum((bound > 0).sum() for bound in self.bounds)

    @property
    def coordinates(self) -> int:
        """Number of coordinates with a bound > 0: m of Algorithm 1."""
        return int(self._released())

    def check_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """Require a rule for parameter tensors of these shapes (ValueError)."""
        if len(shapes) != len(self.bounds):
            raise ValueError(
                f"bounds must hold an array for each parameter tensor, {len(shapes)}, got "
                f"{len(self.bounds)}"
            )
        for i, (bound, shape) in enumerate(zip(self.bounds, shapes, strict=True)):
            if tuple(bound.shape) != tuple(shape):
                raise ValueError(
                    f"bounds[{i}] must have its parameter's shape {tuple(shape)}, got "
                    f"{tuple(bound.shape)}"
                )

    def clip(self, gradients: Sequence[Any]) -> list[Any]:
        """Per-example gradients within their bounds: arrays (batch, *shape), one for each tensor.

        Sum over the batch afterwards; NaN stays NaN.

        Raises:
            ValueError: not as many gradients as bounds, or a shape other than (batch, *shape).
        """
        self.check_shapes([gradient.shape[1:] for gradient in gradients])
        return [g.clip(-s, s) for g, s in zip(gradients, self.bounds, strict=True)]

    def sensitivity(self, adjacency: Adjacency) -> float:
        """L2 norm of all bounds together under add-remove, twice that under replace-one.

        (Lemma 1 of the paper takes s_i for a record replaced, too, which is half of 2 s_i.)
        """
        self._refuse_others()  # arrays can change, and a NaN would be lost in the largest
        bounds = [
            _float64(bound[bound > 0]) for bound in self.bounds if bool((bound > 0).any())
        ]
        largest = max(float(bound.max()) for bound in bounds)
        # in units of the largest, so that no square underflows where it would matter
        return moves(
            largest * sqrt(fsum(float(((bound / largest) ** 2).sum()) for bound in bounds)),
            adjacency,
        )

    def noise_stds(self, noise_multiplier: float) -> list[Any]:
        """Noise of deviation z sqrt(m) s_i, which protects as one Gaussian of multiplier z does.

        AdaDP, Algorithm 1, line 12. Noise follows the bound: a coordinate of small gradients gets
        little.
        """
        checks.positive(noise_multiplier=noise_multiplier)
        # where a bound is negative or no number, all is NaN: nobody looks on a GPU
        bounds = [(one := _float64(bound)) + 0 * one**0.5 for bound in self.bounds]
        whole = 0 * sum(bound.sum() for bound in bounds)
        scale = noise_multiplier * _float64(self._released()) ** 0.5 + whole
        return [scale * bound for bound in bounds]  # narrower ones may round to 0

    def mechanism(
        self, noise_stds: Sequence[Any], *, adjacency: Adjacency = "add-remove"
    ) -> DiagonalGaussian:
        """One release of all records with noise of deviation `noise_stds` (arrays as the bounds).

        For a Poisson batch, `SampledGaussian(noise_multiplier of this, sample_rate)` costs the
        same as the release (see `GroupedGaussian`).

        Raises:
            ValueError: a coordinate with a bound > 0 has noise that is not > 0.
        """
        ratios: list[float] = []
        for noise, bound in zip(noise_stds, self.bounds, strict=True):
            released = bound > 0
            ratios += (_float64(noise[released]) / _float64(bound[released])).tolist()
        return DiagonalGaussian(tuple(ratios), adjacency)


@dataclass(frozen=True)
class Unclipped:
    """No clipping: plain training. One record can move the sum without bound."""

    def weights(self, norms: Any) -> Any:
        """1 for every example, shape (1, batch)."""
        return (norms[:1] * 0) + 1

    def sensitivity(self, adjacency: Adjacency) -> float:
        """Infinity."""
        return moves(float("inf"), adjacency)


@dataclass(frozen=True)
class RealFakeApart:
    """Gradients of real and fake examples clipped apart, then added (DP-CGAN, Algorithm 1).

    Where the fake examples are drawn with the private batch's labels, a record moves its fake
    gradient too (`fakes_use_private_labels`), and the two parts' sensitivities add.
    """

    real: ClippingRule
    fake: ClippingRule
    fakes_use_private_labels: bool

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The real part's, plus the fake part's where one record moves both."""
        real = self.real.sensitivity(adjacency)
        return (
            real + self.fake.sensitivity(adjacency) if self.fakes_use_private_labels else real
        )


@dataclass(frozen=True)
class RealFakeSummed:
    """The i-th real and the i-th fake gradient added, then clipped: "basic DP" in DP-CGAN."""

    rule: ClippingRule
    fakes_use_private_labels: bool

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The rule's own: a record moves one clipped sum, however many gradients it adds up."""
        return self.rule.sensitivity(adjacency)

"""Clipping rules: what each example's gradient is scaled by, and how far a record moves the sum.

Sensitivity belongs to the rule and the adjacency together, and nobody else computes it. A rule
works by operators alone, on numpy arrays and torch tensors alike.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any, Protocol

from dpkit.privacy.mechanisms import Adjacency


class ClippingRule(Protocol):
    """What a gradient-clipping rule answers."""

    def weights(self, norms: Any) -> Any:
        """Scale of each example, shape (tensors or 1, batch), from `norms` (tensors, batch)."""
        ...

    def sensitivity(self, adjacency: Adjacency) -> float:
        """L2 distance that one record can move the clipped sum by."""
        ...


def _moves(bound: float, adjacency: Adjacency) -> float:
    """A sum of vectors of norm <= bound moves by it (add-remove) or by twice it (replace-one)."""
    if adjacency == "add-remove":
        return bound
    if adjacency == "replace-one":
        return 2 * bound
    raise ValueError(f"adjacency must be 'add-remove' or 'replace-one', got {adjacency!r}")


def _check_norm(max_grad_norm: float) -> None:
    if not 0 < max_grad_norm < float("inf"):
        raise ValueError(f"max_grad_norm must be > 0 and finite, got {max_grad_norm}")


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
        return _moves(self.max_grad_norm, adjacency)


@dataclass(frozen=True)
class PerTensorClipping:
    """Each parameter tensor clipped apart to `max_grad_norm`: together C * sqrt(tensors)."""

    max_grad_norm: float
    tensors: int

    def __post_init__(self) -> None:
        _check_norm(self.max_grad_norm)
        if not self.tensors >= 1:
            raise ValueError(f"tensors must be >= 1, got {self.tensors}")

    def weights(self, norms: Any) -> Any:
        """min(1, C / norm) of each tensor, shape (tensors, batch)."""
        if norms.shape[0] != self.tensors:
            raise ValueError(
                f"tensors is {self.tensors} but the network has {norms.shape[0]}: "
                "the sensitivity would be priced wrongly; set tensors to the network's number"
            )
        return self.max_grad_norm / norms.clip(min=self.max_grad_norm)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """C * sqrt(tensors) under add-remove, twice that under replace-one."""
        return _moves(self.max_grad_norm * sqrt(self.tensors), adjacency)


@dataclass(frozen=True)
class Unclipped:
    """No clipping: plain training. One record can move the sum without bound."""

    def weights(self, norms: Any) -> Any:
        """1 for every example, shape (1, batch)."""
        return (norms[:1] * 0) + 1

    def sensitivity(self, adjacency: Adjacency) -> float:
        """Infinity."""
        return _moves(float("inf"), adjacency)


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
        return real + self.fake.sensitivity(adjacency) if self.fakes_use_private_labels else real


@dataclass(frozen=True)
class RealFakeSummed:
    """The i-th real and the i-th fake gradient added, then clipped: "basic DP" in DP-CGAN."""

    rule: ClippingRule
    fakes_use_private_labels: bool

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The rule's own: one record moves one clipped sum, however many gradients it adds up."""
        return self.rule.sensitivity(adjacency)

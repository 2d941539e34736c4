"""Published clipping errors, with the protection that they really give.

Each class is a published slip, named after the error. `claimed_sensitivity` is the sensitivity for
which the added noise would be the noise that the accountant charged. `sensitivity` is the distance
that one record really moves the release. Take these to see the difference, not to train.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

from dpkit.common import checks
from dpkit.privacy.clipping import FlatClipping, check_groups, check_tensors, moves
from dpkit.privacy.mechanisms import Adjacency


@dataclass(frozen=True)
class _OfBatch:
    max_grad_norm: float
    batch_size: int

    def __post_init__(self) -> None:
        checks.positive(max_grad_norm=self.max_grad_norm)
        checks.whole(1, batch_size=self.batch_size)


class ClippedAfterMean(_OfBatch):
    """The mean gradient of a batch clipped to C, once: no example is clipped.

    In the public code of Beaulieu-Jones et al. 2017, as Schwabedal et al. 2020 found. One record
    with a large gradient turns the mean as it likes, so what is released moves across the ball of
    radius C, by up to 2C, however large the batch. Noise of z C / batch on the mean, right where
    each example was clipped, is then 2 batch times too small.

    Args:
        max_grad_norm: C.
        batch_size: records a batch, by which noise and sensitivity were divided.
    """

    def clip(self, mean: Sequence[Any]) -> list[Any]:
        """The mean gradient, one array for each tensor, scaled to joint L2 norm <= C."""
        joint = sum(((m / self.max_grad_norm) ** 2).sum() for m in mean) ** 0.5
        return [m / joint.clip(min=1.0) for m in mean]

    def noise_std(self, noise_multiplier: float) -> float:
        """The noise added to the clipped mean: z C / batch."""
        checks.positive(noise_multiplier=noise_multiplier)
        return noise_multiplier * self.max_grad_norm / self.batch_size

    def claimed_sensitivity(self, adjacency: Adjacency) -> float:
        """Sensitivity of the mean of clipped gradients: C / batch, or twice that."""
        return moves(self.max_grad_norm / self.batch_size, adjacency)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """2C under either adjacency: the diameter of the ball that holds every clipped mean.

        A batch that always holds one record is no exception: where this record is drawn, another
        is not, and the two clipped gradients may be opposite.
        """
        return moves(2 * self.max_grad_norm, adjacency) / moves(1.0, adjacency)


class NoiseOverSqrtBatch(_OfBatch):
    """Examples clipped to C and summed, but noise of z C / sqrt(batch) in place of z C.

    In the public code of Zhang et al. 2018 (dpGAN): at batch 64 the noise is 8 times too small.

    Args:
        max_grad_norm: C.
        batch_size: records a batch.
    """

    def weights(self, norms: Any) -> Any:
        """min(1, C / norm of the whole gradient), shape (1, batch): this part is right."""
        return FlatClipping(self.max_grad_norm).weights(norms)

    def noise_std(self, noise_multiplier: float) -> float:
        """The noise added to the sum: z C / sqrt(batch)."""
        checks.positive(noise_multiplier=noise_multiplier)
        return noise_multiplier * self.claimed_sensitivity("add-remove")

    def claimed_sensitivity(self, adjacency: Adjacency) -> float:
        """The sensitivity that z implies: C / sqrt(batch), or twice that."""
        return moves(self.max_grad_norm / sqrt(self.batch_size), adjacency)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """C under add-remove, 2C under replace-one."""
        return moves(self.max_grad_norm, adjacency)


@dataclass(frozen=True)
class TensorsClippedAtGroupBound:
    """Each tensor of a group clipped apart at the group's bound, charged as if jointly.

    In the public code of Zhang et al. 2018 (dpGAN), automatic grouping. `GroupClipping` clips the
    group's joint norm, which is what the merged bound is for.

    Args:
        bounds: clip norm of each group.
        groups: the group of each tensor, counted from 0.
    """

    bounds: tuple[float, ...]
    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        check_groups(self.bounds, self.groups)

    def weights(self, norms: Any) -> Any:
        """min(1, bound of its group / norm) of each tensor, shape (tensors, batch)."""
        check_tensors(len(self.groups), norms)
        scales = norms * 1.0  # an array of the same kind, filled below
        for tensor, group in enumerate(self.groups):
            scales[tensor] = 1 / (norms[tensor] / self.bounds[group]).clip(min=1.0)
        return scales

    def claimed_sensitivity(self, adjacency: Adjacency) -> float:
        """Sensitivity of jointly clipped groups: sqrt(sum over groups of c_g^2), or twice that."""
        return moves(sqrt(fsum(c * c for c in self.bounds)), adjacency)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """sqrt(sum over tensors of their group's c_g^2), or twice that."""
        return moves(sqrt(fsum(self.bounds[g] ** 2 for g in self.groups)), adjacency)


def actual_noise_multiplier(
    rule: ClippedAfterMean | NoiseOverSqrtBatch | TensorsClippedAtGroupBound,
    noise_multiplier: float,
) -> float:
    """The noise multiplier that a run with `rule` had, where `noise_multiplier` was charged.

    Noise of deviation noise_multiplier * claimed sensitivity, over the true sensitivity. Both are
    those under add-remove, which mechanisms take as their unit under either adjacency.

    Raises:
        ValueError: noise_multiplier is not a finite number > 0.
    """
    checks.positive(noise_multiplier=noise_multiplier)
    added = noise_multiplier * rule.claimed_sensitivity("add-remove")
    return added / rule.sensitivity("add-remove")

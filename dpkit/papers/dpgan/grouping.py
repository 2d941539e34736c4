"""Which tensors of the critic are clipped together, where public examples decide it."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpkit.common import checks
from dpkit.papers.dpgan.clip_bounds import clusters, group_bounds
from dpkit.privacy.clipping import GroupClipping, check_groups
from dpkit.privacy.wrong_clipping import TensorsClippedAtGroupBound


def is_bias(convolutions: int) -> tuple[bool, ...]:
    """Of each tensor of a critic, in order: each convolution has two, the last layer no bias."""
    return (False, True) * convolutions + (False,)


@dataclass(frozen=True)
class PublicClusters:
    """Bounds and groups found anew at each step from public examples (Algorithms 2 and 3).

    Args:
        count: groups to leave.
        tensors: of the critic.
        each_tensor_at_group_bound: as in the code, where every tensor of a group is clipped at the
            group's merged bound. The text clips the group's joint norm at it.
    """

    count: int
    tensors: int
    each_tensor_at_group_bound: bool

    def __post_init__(self) -> None:
        checks.whole(1, count=self.count, tensors=self.tensors)
        checks.in_range(1, self.tensors, count=self.count)

    @property
    def parts(self) -> int:
        """Parts of the gradient that one record moves, each by its own bound."""
        return self.tensors if self.each_tensor_at_group_bound else self.count

    def rule(self, bounds: Sequence[float]) -> GroupClipping | TensorsClippedAtGroupBound:
        """The step's clipping rule, from a public bound for each tensor (`mean_norm_bounds`)."""
        if len(bounds) != self.tensors:
            raise ValueError(f"bounds must hold one for each of {self.tensors} tensors")
        groups = clusters(bounds, count=self.count)
        made = TensorsClippedAtGroupBound if self.each_tensor_at_group_bound else GroupClipping
        return made(group_bounds(bounds, groups), groups)


@dataclass(frozen=True)
class PublicBounds:
    """Fixed groups, whose bounds are found anew at each step from public examples (Section 4.2).

    Args:
        groups: the group of each tensor, counted from 0.

    Raises:
        ValueError: a group is skipped.
    """

    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        check_groups((1.0,) * self.count, self.groups)

    @property
    def count(self) -> int:
        """Groups."""
        return max(self.groups, default=-1) + 1

    @property
    def parts(self) -> int:
        """Parts of the gradient that one record moves: the groups."""
        return self.count

    def rule(self, bounds: Sequence[float]) -> GroupClipping:
        """The step's clipping rule, from a public bound for each tensor (`mean_norm_bounds`)."""
        return GroupClipping(group_bounds(bounds, self.groups), self.groups)

"""Groups of the critic's tensors to clip together, and their bounds, without private data.

Zhang et al. 2018, Section 4: grouping and adapting. Whatever these functions are fed must be
public: bounds that follow private gradients are a release, and no accountant charges it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum, hypot
from typing import Any

from dpkit.common import checks
from dpkit.privacy import Adjacency
from dpkit.privacy.clipping import GroupClipping, check_groups, check_tensors, moves


def mean_norm_bounds(public_norms: Any, *, least: float = 0.0) -> tuple[float, ...]:
    """A clip bound for each tensor: the mean norm of public examples' gradients.

    Zhang et al. 2018, Algorithm 3, lines 4-5, which do so anew at each step.

    Args:
        public_norms: (tensors, batch) from `Gradients.norms` on public examples.
        least: no bound is below it: a tensor whose public gradients vanish needs one > 0.

    Raises:
        ValueError: there is no public example, a norm is NaN or infinite, or a bound is not > 0.
    """
    checks.non_negative(least=least)
    if public_norms.ndim != 2 or not public_norms.shape[1] >= 1:
        raise ValueError(
            f"public_norms must have shape (tensors, batch), batch >= 1, got "
            f"{tuple(public_norms.shape)}; draw a public batch that is not empty"
        )
    bounds = []
    for tensor, norms in enumerate(public_norms.tolist()):
        mean = fsum(norms) / len(norms)
        checks.non_negative(**{f"mean of public_norms[{tensor}]": mean})
        if not max(mean, least) > 0:
            raise ValueError(
                f"public_norms[{tensor}] is all 0, which bounds nothing; give `least` > 0"
            )
        bounds.append(max(mean, least))
    return tuple(bounds)


def biases_together(is_bias: Sequence[bool]) -> tuple[int, ...]:
    """The group of each tensor: each weight its own, all biases in one, the last.

    Zhang et al. 2018, Section 4.1, "weight/bias grouping": 4 weights and 3 biases in 5 groups.
    """
    if not len(is_bias) >= 1:
        raise ValueError("is_bias must hold a bool for each tensor, got none")
    own = iter(range(len(is_bias)))
    weights = len(is_bias) - sum(is_bias)
    return tuple(weights if bias else next(own) for bias in is_bias)


def clusters(bounds: Sequence[float], *, count: int) -> tuple[int, ...]:
    """The group of each tensor, by similar bounds ("weight clustering").

    Zhang et al. 2018, Algorithm 2: each tensor starts as its own group; the two groups with the
    most similar bounds c1, c2 are merged into one of bound sqrt(c1^2 + c2^2), until `count` are
    left. Most similar is the least ratio of the larger to the smaller bound, as in the public code;
    between equal ratios, the groups whose first tensors come first. Groups are numbered by their
    first tensor.

    Args:
        bounds: the bound of each tensor, each > 0.
        count: number of groups to leave, in [1, tensors].

    Raises:
        ValueError: a bound is not a finite number > 0, or count is out of range.
    """
    for tensor, bound in enumerate(bounds):
        checks.positive(**{f"bounds[{tensor}]": bound})
    checks.whole(1, count=count)
    checks.in_range(1, len(bounds), count=count)
    groups: list[tuple[tuple[int, ...], float]]
    groups = [((tensor,), float(bound)) for tensor, bound in enumerate(bounds)]
    while len(groups) > count:
        pairs = combinations(groups, 2)
        first, second = min(
            pairs, key=lambda two: max(b for _, b in two) / min(b for _, b in two)
        )
        merged = (tuple(sorted(first[0] + second[0])), hypot(first[1], second[1]))
        groups = sorted([g for g in groups if g not in (first, second)] + [merged])
    numbers = {tensor: i for i, (members, _) in enumerate(groups) for tensor in members}
    return tuple(numbers[tensor] for tensor in range(len(bounds)))


def group_bounds(bounds: Sequence[float], groups: Sequence[int]) -> tuple[float, ...]:
    """The bound of each group: sqrt(sum of its tensors' squared bounds), as `clusters` merges them.

    The joint sensitivity stays that of the tensors clipped apart.
    """
    if len(bounds) != len(groups):
        raise ValueError(
            f"groups must hold one number for each of {len(bounds)} tensors, got {len(groups)}"
        )
    each = list(zip(bounds, groups, strict=True))
    return tuple(hypot(*(b for b, g in each if g == own)) for own in sorted(set(groups)))


def is_bias(convolutions: int) -> tuple[bool, ...]:
    """Mark a critic's biases, in order: each convolution has one, the last layer none."""
    return (False, True) * convolutions + (False,)


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
        return GroupClipping(self.bounds, self.groups).sensitivity(adjacency)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """sqrt(sum over tensors of their group's c_g^2), or twice that."""
        return moves(hypot(*(self.bounds[g] for g in self.groups)), adjacency)


@dataclass(frozen=True)
class PublicClusters:
    """Bounds and groups found anew at each step from public examples (Algorithms 2 and 3).

    Args:
        count: groups to leave.
        tensors: of the critic.
        each_tensor_at_group_bound: as in the code, clip every tensor of a group at the group's
            merged bound. The text clips the group's joint norm at it.
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
            raise ValueError(f"bounds must hold {self.tensors} numbers, got {len(bounds)}")
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

"""A step on neighbouring batches: the same weights and draws, and the same noised sums."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpkit.training.device import seeded
from dpkit.training.noise import watched
from dpkit.training.same_draws import SameDraws

ROUNDING = 1e-3  # of a change: batches of other sizes are added up in another order


class Noised(NamedTuple):
    """One call of `noised`: what went in, and what came out."""

    sums: list[Tensor]
    stds: list[Tensor]
    noisy: list[Tensor]

    @property
    def std(self) -> float | None:
        """The one deviation of all coordinates; None where they have several."""
        least, most = (
            float(f(torch.stack([f(s) for s in self.stds]))) for f in (torch.amin, torch.amax)
        )
        return least if least == most else None

    @property
    def bare(self) -> bool:
        """Whether a coordinate that is not 0 got no noise (one that is clipped to 0 needs none)."""
        pairs = zip(self.sums, self.stds, strict=True)
        return any(bool(((std == 0) & (total.cpu() != 0)).any()) for total, std in pairs)

    def noise(self) -> list[Tensor]:
        """What was added, in its deviations; NaN where nothing was."""
        triples = zip(self.sums, self.stds, self.noisy, strict=True)
        return [(noisy.double() - total.double()).cpu() / std for total, std, noisy in triples]


class Run(NamedTuple):
    """One step, or several on the same batch. `before` and `after`: every tensor by its name."""

    releases: list[list[Noised]]  # of each step
    before: dict[str, Tensor]
    after: dict[str, Tensor]
    shapes: list[tuple[int, ...]]  # of all that was drawn


class Neighbour(NamedTuple):
    """A batch beside the one that is checked: the record at `place` `how`."""

    how: str
    place: int
    features: Tensor
    labels: Tensor


def run(
    step: Callable[..., Any],
    new_gan: Callable[[], Any],
    settings: Any,
    features: Tensor,
    labels: Tensor,
    *,
    indices: Sequence[int],
    seed: int,
    rows: int,
    like: Run | None = None,
) -> Run:
    """Run step from fresh weights; what it has noised is replaced by what `like` released."""
    rng = torch.Generator(features.device).manual_seed(seed)
    releases: list[list[Noised]] = []
    with seeded(seed), SameDraws(rows=rows) as draws:
        gan = new_gan()
        before = dict(_tensors(gan))
        for index in indices:
            releases.append([])
            given = like.releases[len(releases) - 1] if like else []
            x, y = features.clone(), labels.clone()
            with watched(_instead(releases[-1], given)):
                step(gan, x, y, settings=settings, index=index, rng=rng)
        return Run(releases, before, dict(_tensors(gan)), draws.shapes)


def _instead(seen: list[Noised], given: Sequence[Noised]) -> Callable[..., list[Tensor]]:
    """Keeps what is noised, and returns what was given before where it has the same shapes."""

    def see(sums: Sequence[Tensor], stds: Sequence[Any], noisy: list[Tensor]) -> list[Tensor]:
        kept = [_copy(one) for one in (*sums, *noisy)]
        wide = [torch.as_tensor(std, dtype=torch.float64).detach().cpu() for std in stds]
        seen.append(Noised(kept[: len(sums)], wide, kept[len(sums) :]))
        if len(seen) > len(given):
            return noisy
        same = [_copy(one) for one in given[len(seen) - 1].noisy]
        return same if [s.shape for s in same] == [n.shape for n in noisy] else noisy

    return see


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def _tensors(
    thing: Any, name: str = "", seen: set[int] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Copies of all tensors and floats in networks, optimisers, containers and attributes."""
    seen = set() if seen is None else seen
    if isinstance(thing, float):
        yield name, torch.tensor(thing, dtype=torch.float64)
        return
    if id(thing) in seen or isinstance(thing, type):
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        yield name, _copy(thing)
        if thing.is_leaf and thing.grad is not None:
            yield f"{name}.grad", _copy(thing.grad)
        return
    for key, part in _parts(thing):
        hidden = key in ("_parameters", "_buffers", "_modules")
        yield from _tensors(part, name if hidden else f"{name}.{key}".lstrip("."), seen)


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(thing, "_asdict"):
        thing = thing._asdict()
    if isinstance(thing, dict):
        for number, (key, part) in enumerate(thing.items()):
            yield key if isinstance(key, str) else str(number), part
    elif isinstance(thing, list | tuple | set):
        yield from ((str(number), part) for number, part in enumerate(thing))
    elif isinstance(thing, torch.nn.Module) or (hasattr(thing, "__dict__") and not callable(thing)):
        yield from vars(thing).items()


def differing(
    one: Run, other: Run, *, sizes_differ: bool = False, also_sums: bool = False
) -> list[str]:
    """Names of tensors that are not the same after the two runs: to the bit, if sizes are."""
    rough = ROUNDING if sizes_differ else 0.0
    names = one.after.keys() ^ other.after.keys()
    for name in one.after.keys() & other.after.keys():
        if not _equal(one.after[name], other.after[name], one.before.get(name), rough=rough):
            names.add(name)
    if also_sums:
        sums, others = (
            [total for step in run.releases for call in step for total in call.sums]
            for run in (one, other)
        )
        pairs = zip(sums, others, strict=False)
        if len(sums) != len(others) or not all(_equal(a, b, None, rough=0.0) for a, b in pairs):
            names.add("noised sums")
    return sorted(names)


def _equal(a: Tensor, b: Tensor, start: Tensor | None, *, rough: float) -> bool:
    if a.shape != b.shape:
        return False
    if not (rough and a.is_floating_point()):
        return torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
    changed = a - start if start is not None and start.shape == a.shape else a
    return bool((a - b).norm() <= rough * changed.norm())


def replaced(features: Tensor, labels: Tensor, *, seed: int) -> Iterator[Neighbour]:
    """One record of the batch is another one: at three places, of five kinds."""
    rng = torch.Generator().manual_seed(seed)
    low, high = features.min(), features.max()
    for i in sorted({0, len(features) // 2, len(features) - 1}):
        heads = (torch.rand(features[i].shape, generator=rng) < 0.5).to(features.device)
        corner = torch.where(heads, low, high)
        others = {
            "is a corner of the domain": corner,
            "is mirrored": low + high - features[i],
            "is a copy of another": features[i - 1],
        }
        if features.is_floating_point():
            others["lies far outside the domain"] = 1000 * corner - 500
        for how, other in others.items():
            yield Neighbour(how, i, _with(features, i, other), labels)
        if not labels.is_floating_point() and labels.max() > 0:
            label = (labels[i] + 1) % (labels.max() + 1)
            yield Neighbour("has another label", i, features, _with(labels, i, label))


def _with(tensor: Tensor, i: int, value: Tensor) -> Tensor:
    changed = tensor.clone()
    changed[i] = value
    return changed

"""A step on neighbouring batches: the same weights and draws, and the same noised sums."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpkit.training.device import seeded
from dpkit.training.noise import watched
from dpkit.training.same_draws import SameDraws


class Noised(NamedTuple):
    """One call of `noised`: what went in, and what came out."""

    sums: list[Tensor]
    stds: list[Tensor]  # of each coordinate
    noisy: list[Tensor]


class Run(NamedTuple):
    """One step, or several on the same batch.

    before, after: every tensor by its name; after the step the noise's deviations too.
    """

    releases: list[list[Noised]]  # of each step
    before: dict[str, Tensor]
    after: dict[str, Tensor]
    shapes: list[tuple[int, ...]]  # of all that was drawn


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
    releases: list[list[Noised]] = [[] for _ in indices]
    given = like.releases if like else [[] for _ in indices]
    with seeded(seed), SameDraws(rows=rows) as draws:
        gan = new_gan()
        before = dict(_tensors(gan, "", set()))
        for index, seen, same in zip(indices, releases, given, strict=True):
            batch = features.clone(), labels.clone()
            with watched(_instead(seen, iter(same))):
                step(gan, *batch, settings=settings, index=index, rng=rng)
        stds = [[call.stds for call in calls] for calls in releases]
        after = dict(_tensors(gan, "", set())) | dict(_tensors(stds, "noise_std", set()))
    return Run(releases, before, after, draws.shapes)


def _instead(seen: list[Noised], given: Iterator[Noised]) -> Callable[..., list[Tensor]]:
    """Keeps what is noised, and returns what was given before where it has the same shapes."""

    def see(sums: Sequence[Tensor], stds: Sequence[Any], noisy: list[Tensor]) -> list[Tensor]:
        each = [torch.as_tensor(std, dtype=torch.float64).detach().cpu() for std in stds]
        each = [std.expand(total.shape) for std, total in zip(each, sums, strict=True)]
        seen.append(Noised(_copies(sums), each, _copies(noisy)))
        same = next(given, seen[-1]).noisy
        return _copies(same) if [s.shape for s in same] == [n.shape for n in noisy] else noisy

    return see


def _copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [one.detach().clone() for one in tensors]


def _tensors(thing: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Copies of all tensors and floats in networks, optimisers, containers and attributes."""
    if isinstance(thing, float):
        yield name, torch.tensor(thing, dtype=torch.float64)
    if isinstance(thing, float | type) or id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        yield name, thing.detach().clone()
    for key, part in _parts(thing).items():
        hidden = key in ("_parameters", "_buffers", "_modules")
        yield from _tensors(part, name if hidden else f"{name}.{key}".lstrip("."), seen)


def _parts(thing: Any) -> dict[Any, Any]:
    if isinstance(thing, Tensor):
        return {"grad": thing.grad} if thing.is_leaf else {}
    if hasattr(thing, "_asdict"):
        return thing._asdict()
    if isinstance(thing, dict):
        return {key if isinstance(key, str) else i: thing[key] for i, key in enumerate(thing)}
    if isinstance(thing, list | tuple):
        return dict(enumerate(thing))
    return getattr(thing, "__dict__", {})


def row(calls: Iterable[Noised], part: str) -> Tensor:
    """All their sums, stds or noisy sums in one row, float64 on the CPU."""
    every = [one.double().cpu().flatten() for call in calls for one in getattr(call, part)]
    return torch.cat([torch.zeros(0, dtype=torch.float64), *every])


def differing(one: Run, other: Run, *, rough: float = 0.0) -> list[str]:
    """Names of what is not the same after the two runs: to the bit, or to a share of its change."""
    a, b, before = one.after, other.after, one.before
    same = {key for key in a.keys() & b.keys() if _same(a[key], b[key], before.get(key), rough)}
    return sorted((a.keys() | b.keys()) - same)


def _same(a: Tensor, b: Tensor, start: Tensor | None, rough: float) -> bool:
    if a.shape != b.shape:
        return False
    a, b = a.double(), b.double()
    changed = a - start if start is not None and start.shape == a.shape else a
    equal = torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
    return equal or bool((a - b).norm() < rough * changed.norm())


def neighbours(
    features: Tensor, labels: Tensor, *, seed: int
) -> Iterator[tuple[str, int, Tensor, Tensor]]:
    """At three places another record, of five kinds: how it differs, place, features, labels."""
    rng = torch.Generator().manual_seed(seed)
    low, high = features.min(), features.max()
    for i in sorted({0, len(features) // 2, len(features) - 1}):
        x, y = features[i], labels[i]
        heads = (torch.rand(x.shape, generator=rng) < 0.5).to(x.device)
        corner = torch.where(heads, low, high)
        others = {
            "is a corner of the domain": (corner, y),
            "is mirrored": (low + high - x, y),
            "is a copy of another": (features[i - 1], y),
        }
        if features.is_floating_point():
            others["lies far outside the domain"] = (1000 * corner - 500, y)
        if not labels.is_floating_point() and labels.max() > 0:
            others["has another label"] = (x, (y + 1) % (labels.max() + 1))
        for how, (feature, label) in others.items():
            changed = features.clone(), labels.clone()
            changed[0][i], changed[1][i] = feature, label
            yield how, i, *changed

"""Trajectories of AdaDP and DpSgd on a function of two variables, with noise and without.

Section III-B measures how far noise moves each from its course on Beale's function in 150
iterations. Start, learning rate, noise level and clip norm of that experiment are not printed, so
a grid of them stands here for what it may have been. The function's gradient is the one example.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.papers.adadp.objectives import Objective, gradient
from dpkit.privacy.mechanisms import Floats

ITERATIONS = 150
GAMMA, HISTORY, BETA, THRESHOLD = 0.1, 0.9, 1.5, 1e-6  # gamma, gamma', beta, G (section III-B)
SMOOTHING = 1e-8  # epsilon_0 of line 25, which the paper does not name


class Setting(NamedTuple):
    """What the paper does not print of the experiment; numbers, or arrays (n,) for n runs.

    rate: learning rate, > 0.
    noise_multiplier: sigma_*, 0 without noise.
    max_grad_norm: C, infinite without clipping.
    """

    rate: float | Floats
    noise_multiplier: float | Floats
    max_grad_norm: float | Floats


Steps = Callable[[Objective, Floats, Setting, Floats], Iterator[Floats]]


def dp_sgd(
    objective: Objective, start: Floats, setting: Setting, normals: Floats
) -> Iterator[Floats]:
    """Yield DpSgd's n positions (n, 2) after each step (Algorithm 1, lines 16, 18 and 26).

    Args:
        start: where the runs begin, (n, 2).
        normals: standard normal noise of each step, (steps, n, 2).
    """
    rate, noise, norm = (np.asarray(one)[..., None] for one in setting)
    at = start
    for normal in normals:
        clipped = _clipped(gradient(objective, at), norm)
        at = at - rate * _noised(clipped, noise * norm, normal)
        yield at


def adadp(
    objective: Objective, start: Floats, setting: Setting, normals: Floats
) -> Iterator[Floats]:
    """Yield AdaDP's n positions (n, 2) after each step of Algorithm 1, the lot being one example.

    With an infinite max_grad_norm nothing is clipped, which without noise is RMSProp.
    Arguments as `dp_sgd`.
    """
    rate, noise, norm = (np.asarray(one)[..., None] for one in setting)
    at, squares, history = start, np.zeros_like(start), np.zeros_like(start)
    for normal in normals:
        raw = gradient(objective, at)
        root = np.sqrt(history)
        bound = BETA * root  # line 9
        local = (root.var(axis=-1, keepdims=True) > THRESHOLD) & np.isfinite(norm)  # line 7
        clipped = np.where(local, raw.clip(-bound, bound), _clipped(raw, norm))
        deviation = np.where(local, noise * np.sqrt(2) * bound, noise * norm)  # lines 12 and 18
        noisy = _noised(clipped, deviation, normal)
        squares = (1 - GAMMA) * squares + GAMMA * noisy**2  # line 22
        history = HISTORY * history + (1 - HISTORY) * raw**2  # line 23
        at = at - rate * noisy / np.sqrt(squares + SMOOTHING)  # lines 25 and 26
        yield at


def _clipped(raw: Floats, norm: Floats) -> Floats:
    """Gradients (n, 2) shortened to `norm` (eq. 6)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return raw / np.maximum(1.0, np.sqrt((raw**2).sum(axis=-1, keepdims=True)) / norm)


def _noised(clipped: Floats, deviation: Floats, normal: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # 0 times infinity, where there is neither noise nor norm
        return clipped + np.where(deviation * 0 == 0, deviation, 0.0) * normal


def distances(
    steps: Steps, objective: Objective, start: Floats, setting: Setting, normals: Floats
) -> tuple[Floats, Floats]:
    """D(P, Q) of section III-B between each noisy run and two without noise, (n,) each.

    The paper does not say whether its non-private version clips. First the one that does, as the
    noisy run does, then the one that does not (plain descent, and RMSProp). A distance is infinite
    where a run diverges, as plain descent may.
    """
    noiseless = setting._replace(noise_multiplier=0.0)
    total = [np.zeros(len(start)), np.zeros(len(start))]
    with np.errstate(over="ignore", invalid="ignore"):
        paths = [
            steps(objective, start, one, np.zeros_like(normals))
            for one in (noiseless, noiseless._replace(max_grad_norm=np.inf))
        ]
        for noisy, *others in zip(steps(objective, start, setting, normals), *paths, strict=True):
            for i, other in enumerate(others):
                total[i] += np.sqrt(((noisy - other) ** 2).sum(axis=-1))
    clipped, unclipped = (np.nan_to_num(one / len(normals), nan=np.inf) for one in total)
    return clipped, unclipped


class Grid(NamedTuple):
    """What is tried: every combination, each with every seed.

    starts: how many points a side, of a lattice within the objective's domain.
    """

    starts: int = 4
    rates: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
    noise_multipliers: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 8.0)
    max_grad_norms: tuple[float, ...] = (0.3, 1.0, 4.0, 10.0)
    seeds: int = 4
    iterations: int = ITERATIONS


def lattice(objective: Objective, side: int) -> Floats:
    """Points (side^2, 2) within the objective's domain, evenly spaced, none on its edge."""
    ends = zip(objective.low, objective.high, strict=True)
    axes = [np.linspace(low, high, checks.whole(1, side=side) + 2)[1:-1] for low, high in ends]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def over_grid(steps: Steps, objective: Objective, grid: Grid) -> tuple[Floats, Floats]:
    """`distances` of all runs, two arrays (starts^2, rates, noise multipliers, norms, seeds).

    A seed's noise is the same for all of them.
    """
    checks.whole(1, seeds=grid.seeds, iterations=grid.iterations)
    points = lattice(objective, grid.starts)
    axes = (grid.rates, grid.noise_multipliers, grid.max_grad_norms)
    mesh = np.meshgrid(np.arange(len(points)), *axes, np.arange(grid.seeds), indexing="ij")
    place, rate, noise, norm, seed = (one.ravel() for one in mesh)
    rngs = [np.random.default_rng(s) for s in range(grid.seeds)]
    normals = np.stack([rng.standard_normal((grid.iterations, 2)) for rng in rngs], axis=1)
    setting = Setting(rate, noise, norm)
    clipped, unclipped = distances(steps, objective, points[place], setting, normals[:, seed])
    return clipped.reshape(mesh[0].shape), unclipped.reshape(mesh[0].shape)

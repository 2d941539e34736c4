"""Evidence of claims on experiments: trajectories on test functions, iteration times.

Section III-B measures how far noise moves AdaDP and DpSgd from their course on Beale's function in
150 iterations. Start, learning rate, noise level and clip norm of that experiment are not printed;
a grid of them takes their place here. The function's gradient is the one example.

The test functions are smooth, of two variables. Names, formulas and domains are those of
Wikipedia's "Test functions for optimization", which the paper cites as [31]. Each is
analytic in both variables, so its gradient follows from the function itself (`gradient`).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.common.records import describe
from dpkit.papers.adadp.levels import CIFAR_WIDTHS, AnySettings
from dpkit.papers.adadp.settings import ADADP, AGD, DPOPT, DPSGD
from dpkit.papers.claims import Evidence, Measured
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.sampling import PoissonSampling

# A step into the complex plane: its error, of order TINY^2, is below rounding
TINY = 1e-30


class Objective(NamedTuple):
    """A function to minimise.

    name: as Wikipedia has it.
    value: f(x, y) of numbers or arrays of one shape, real or complex.
    low, high: corners of the domain that is usually searched.
    least: a place of the least value; None if there is none.
    """

    name: str
    value: Callable[[Any, Any], Any]
    low: tuple[float, float]
    high: tuple[float, float]
    least: tuple[float, float] | None


def gradient(objective: Objective, at: Floats) -> Floats:
    """The gradient at points (..., 2), of the same shape, exact but for rounding.

    f(x + ih) = f(x) + ih f'(x) + O(h^2) of an analytic f (Squire, Trapp 1998), without the
    difference that loses digits.
    """
    x, y = at[..., 0], at[..., 1]
    step = TINY * 1j
    slopes = objective.value(x + step, y + 0j), objective.value(x + 0j, y + step)
    return np.stack([slope.imag / TINY for slope in slopes], axis=-1)


def _square(
    name: str, value: Callable[[Any, Any], Any], side: float, *least: float
) -> Objective:
    """An objective on [-side, side]^2, least at `least`; without it, below every bound."""
    ends = (-side, -side), (side, side)
    return Objective(name, value, *ends, (least[0], least[1]) if least else None)


def _beale(x: Any, y: Any, *, last: int = 2) -> Any:
    return (1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** last


def _goldstein_price(x: Any, y: Any) -> Any:
    first = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
    second = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
    return (1 + (x + y + 1) ** 2 * first) * (30 + (2 * x - 3 * y) ** 2 * second)


def _rastrigin(x: Any, y: Any) -> Any:
    return 20 + sum(z**2 - 10 * np.cos(2 * np.pi * z) for z in (x, y))


def _levi(x: Any, y: Any) -> Any:
    first = np.sin(3 * np.pi * x) ** 2 + (x - 1) ** 2 * (1 + np.sin(3 * np.pi * y) ** 2)
    return first + (y - 1) ** 2 * (1 + np.sin(2 * np.pi * y) ** 2)


# The paper cubes the last term of Beale's function, which so falls below every bound
BEALE_AS_PRINTED = _square("Beale as printed", partial(_beale, last=3), 4.5)
BEALE = _square("Beale", _beale, 4.5, 3.0, 0.5)
OBJECTIVES = (
    BEALE_AS_PRINTED,
    BEALE,
    # Wikipedia names no domain of Rosenbrock's
    _square("Rosenbrock", lambda x, y: 100 * (y - x**2) ** 2 + (1 - x) ** 2, 4.5, 1.0, 1.0),
    _square(
        "Himmelblau", lambda x, y: (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2, 5.0, 3.0, 2.0
    ),
    _square("Booth", lambda x, y: (x + 2 * y - 7) ** 2 + (2 * x + y - 5) ** 2, 10.0, 1.0, 3.0),
    _square("Matyas", lambda x, y: 0.26 * (x**2 + y**2) - 0.48 * x * y, 10.0, 0.0, 0.0),
    _square("sphere", lambda x, y: x**2 + y**2, 4.5, 0.0, 0.0),
    Objective(
        "McCormick",
        lambda x, y: np.sin(x + y) + (x - y) ** 2 - 1.5 * x + 2.5 * y + 1,
        *((-1.5, -3.0), (4.0, 4.0), (-0.547197551, -1.547197551)),
    ),
    _square(
        "three-hump camel",
        lambda x, y: 2 * x**2 - 1.05 * x**4 + x**6 / 6 + x * y + y**2,
        *(5.0, 0.0, 0.0),
    ),
    _square(
        "Styblinski-Tang",
        lambda x, y: (x**4 - 16 * x**2 + 5 * x + y**4 - 16 * y**2 + 5 * y) / 2,
        *(5.0, -2.903534028, -2.903534028),
    ),
    _square("Goldstein-Price", _goldstein_price, 2.0, 0.0, -1.0),
    _square("Rastrigin", _rastrigin, 5.12, 0.0, 0.0),
    _square("Levi 13", _levi, 10.0, 1.0, 1.0),
)

# gamma, gamma', beta, G (section III-B)
GAMMA, HISTORY, BETA, THRESHOLD = 0.1, 0.9, 1.5, 1e-6
SMOOTHING = 1e-8  # epsilon_0 of line 25, which the paper does not name


class TrajectorySetting(NamedTuple):
    """Settings that the paper does not print; numbers, or arrays (n,) for n runs.

    rate: learning rate, > 0.
    noise_multiplier: sigma_*, 0 without noise.
    max_grad_norm: C, infinite without clipping.
    """

    rate: float | Floats
    noise_multiplier: float | Floats
    max_grad_norm: float | Floats


Steps = Callable[[Objective, Floats, TrajectorySetting, Floats], Iterator[Floats]]


def dp_sgd(
    objective: Objective, start: Floats, setting: TrajectorySetting, normals: Floats
) -> Iterator[Floats]:
    """Yield DpSgd's n positions (n, 2) after each step (Algorithm 1, lines 16, 18 and 26).

    Args:
        start: of the runs, (n, 2).
        normals: standard normal noise of each step, (steps, n, 2).
    """
    rate, noise, norm = (np.asarray(one)[..., None] for one in setting)
    at = start
    for normal in normals:
        clipped = _clipped(gradient(objective, at), norm)
        at = at - rate * _noised(clipped, noise * norm, normal)
        yield at


def adadp(
    objective: Objective, start: Floats, setting: TrajectorySetting, normals: Floats
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
        # Line 7
        local = (root.var(axis=-1, keepdims=True) > THRESHOLD) & np.isfinite(norm)
        clipped = np.where(local, raw.clip(-bound, bound), _clipped(raw, norm))
        # Lines 12 and 18
        deviation = np.where(local, noise * np.sqrt(2) * bound, noise * norm)
        noisy = _noised(clipped, deviation, normal)
        squares = (1 - GAMMA) * squares + GAMMA * noisy**2  # line 22
        history = HISTORY * history + (1 - HISTORY) * raw**2  # line 23
        # Lines 25 and 26
        at = at - rate * noisy / np.sqrt(squares + SMOOTHING)
        yield at


def _clipped(raw: Floats, norm: Floats) -> Floats:
    """Gradients (n, 2) shortened to `norm` (eq. 6)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return raw / np.maximum(1.0, np.sqrt((raw**2).sum(axis=-1, keepdims=True)) / norm)


def _noised(clipped: Floats, deviation: Floats, normal: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # 0 times infinity: there is neither noise nor norm
        return clipped + np.where(deviation * 0 == 0, deviation, 0.0) * normal


def distances(
    steps: Steps,
    objective: Objective,
    start: Floats,
    setting: TrajectorySetting,
    normals: Floats,
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
        for noisy, *others in zip(
            steps(objective, start, setting, normals), *paths, strict=True
        ):
            for i, other in enumerate(others):
                total[i] += np.sqrt(((noisy - other) ** 2).sum(axis=-1))
    clipped, unclipped = (np.nan_to_num(one / len(normals), nan=np.inf) for one in total)
    return clipped, unclipped


class TrajectoryGrid(NamedTuple):
    """The grid to try: every combination, each with every seed.

    starts: how many points a side, of a lattice within the objective's domain.
    """

    starts: int = 4
    rates: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
    noise_multipliers: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 8.0)
    max_grad_norms: tuple[float, ...] = (0.3, 1.0, 4.0, 10.0)
    seeds: int = 4
    iterations: int = 150


def lattice(objective: Objective, side: int) -> Floats:
    """Points (side^2, 2) within the objective's domain, evenly spaced, none on its edge."""
    ends = zip(objective.low, objective.high, strict=True)
    axes = [np.linspace(low, high, checks.whole(1, side=side) + 2)[1:-1] for low, high in ends]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def over_grid(
    steps: Steps, objective: Objective, grid: TrajectoryGrid
) -> tuple[Floats, Floats]:
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
    setting = TrajectorySetting(rate, noise, norm)
    clipped, unclipped = distances(steps, objective, points[place], setting, normals[:, seed])
    return clipped.reshape(mesh[0].shape), unclipped.reshape(mesh[0].shape)


PRINTED = {"adadp": 0.21, "dpsgd": 0.90}  # distances of section III-B
# Of Table II
BATCHES = {"mnist": (ADADP.widths, 120), "cifar10": (CIFAR_WIDTHS, 32)}
WARM_UP = 5  # iterations that are not timed
WITHIN = 0.005  # of a printed distance: half a unit of its last digit


def trajectories(grid: TrajectoryGrid) -> Measured:
    """Distances between noisy and noise-free runs over the grid (half a minute).

    Returns:
        for Beale's function as printed ("printed_...") and as usual ("usual_..."), and for each
        method: `adadp_low`, `adadp_median`, `adadp_high` (5, 50 and 95 % of all distances),
        `adadp_share` and `adadp_unclipped_share` (of the grid, at most the printed distance away
        from the run without noise, which clips or does not); the same of `dpsgd`; `nearer`: the
        share of settings at which AdaDP's mean distance is the smaller, and `nearer_at_8` (or
        another) that at one noise level; `ratio`: the median of AdaDP's over DpSgd's; `both`,
        `reverse`: the share of settings that give both printed distances or more extreme ones, and
        the two the other way round. `least_nearer`, `most_nearer` and the like: over all functions
        but the printed one, of which there are `functions`; `settings`: how many there are.
    """
    found = {one.name: _compared(one, grid) for one in OBJECTIVES}
    others = [values for name, values in found.items() if name != BEALE_AS_PRINTED.name]
    values = {
        f"{prefix}_{key}": value
        for prefix, one in (("printed", BEALE_AS_PRINTED), ("usual", BEALE))
        for key, value in found[one.name].items()
    }
    for key in [name for name in others[0] if name.startswith(("nearer", "ratio"))]:
        values[f"least_{key}"] = min(one[key] for one in others)
        values[f"most_{key}"] = max(one[key] for one in others)
    sizes = (grid.starts**2, *(len(axis) for axis in grid[1:4]))
    values |= {"functions": float(len(others)), "settings": float(np.prod(sizes))}
    return Measured(values, {})


def _compared(objective: Objective, grid: TrajectoryGrid) -> dict[str, float]:
    """`trajectories`' values of one function."""
    values, means = {}, []
    for name, steps in (("adadp", adadp), ("dpsgd", dp_sgd)):
        clipped, unclipped = over_grid(steps, objective, grid)
        ends = zip(
            ("low", "median", "high"), np.quantile(clipped, [0.05, 0.5, 0.95]), strict=True
        )
        values |= {f"{name}_{end}": float(value) for end, value in ends}
        values[f"{name}_share"] = float((clipped <= PRINTED[name] + WITHIN).mean())
        values[f"{name}_unclipped_share"] = float((unclipped <= PRINTED[name] + WITHIN).mean())
        means.append(clipped.mean(axis=-1))  # over seeds
    own, other = means
    near, far = PRINTED["adadp"] + WITHIN, PRINTED["dpsgd"] - WITHIN
    levels = (f"nearer_at_{noise:g}" for noise in grid.noise_multipliers)
    return values | {
        "nearer": float((own < other).mean()),
        **dict(zip(levels, (own < other).mean(axis=(0, 1, 3)).tolist(), strict=True)),
        "ratio": float(np.median(own / other)),
        "both": float(((own <= near) & (other >= far)).mean()),
        "reverse": float(((other <= near) & (own >= far)).mean()),
    }


GRID = TrajectoryGrid()
TRAJECTORIES = Evidence(
    "adadp/trajectories",
    {
        "grid": {name: describe(value) for name, value in GRID._asdict().items()},
        "gamma, gamma', beta, G, epsilon_0": [GAMMA, HISTORY, BETA, THRESHOLD, SMOOTHING],
        "functions": [one.name for one in OBJECTIVES],
        "starts": "a lattice within each function's domain",
    },
    partial(trajectories, GRID),
)


def time_per_iteration(*, iterations: int) -> Measured:
    """Time iterations of Table II's four methods, in turn, on random inputs.

    Of CIFAR-10's network only the trained layers.

    Returns:
        `mnist_adadp` and so on: medians in seconds over `iterations`, at the batches of Table II;
        `mnist_adadp_ratio` and so on: over DpSgd's.
    """
    import torch

    from dpkit.papers.adadp.experiments import method

    values: dict[str, float] = {}
    for name, (widths, batch) in BATCHES.items():
        rng, lots = torch.Generator().manual_seed(0), PoissonSampling(batch)
        features = torch.randn(batch, widths[0], generator=rng)
        labels = torch.randint(10, (batch,), generator=rng)
        seconds: dict[str, list[float]] = {key: [] for key in METHODS}
        sized = {
            key: replace(one, widths=widths, sampling=lots) for key, one in METHODS.items()
        }
        models = {
            key: method(one)[1](one, seed=0, device=rng.device) for key, one in sized.items()
        }
        for index in range(WARM_UP + iterations):
            for key, one in sized.items():  # in turn, so that a busy machine is fair
                step, start = method(one)[0], perf_counter()
                step(models[key], features, labels, settings=one, index=index, rng=rng)
                seconds[key].append(perf_counter() - start)
        for key, times in seconds.items():
            values[f"{name}_{key}"] = float(np.median(times[WARM_UP:]))
        for key in METHODS:
            values[f"{name}_{key}_ratio"] = values[f"{name}_{key}"] / values[f"{name}_dpsgd"]
    return Measured(values, {})


# AGD with a budget that these iterations do not spend.
METHODS: dict[str, AnySettings] = {
    "adadp": ADADP,
    "dpsgd": DPSGD,
    "agd": replace(AGD, target_epsilon=1e3),
    "dpopt": DPOPT,
}
TIMED = 50
TIME = Evidence(
    "adadp/time-per-iteration",
    {
        "methods": {key: describe(one) for key, one in METHODS.items()},
        "widths and batches": {name: describe(value) for name, value in BATCHES.items()},
        "iterations": TIMED,
        "inputs": "random",
    },
    partial(time_per_iteration, iterations=TIMED),
    scale="reduced",
)

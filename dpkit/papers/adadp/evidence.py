"""What claims on experiments rest on: distances over a grid, and the time of an iteration."""

from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from dpkit.common.records import describe
from dpkit.papers.adadp.agd_settings import AGD
from dpkit.papers.adadp.levels import CIFAR_WIDTHS, AnySettings
from dpkit.papers.adadp.objectives import BEALE, BEALE_AS_PRINTED, OBJECTIVES, Objective
from dpkit.papers.adadp.settings import ADADP, DPOPT, DPSGD
from dpkit.papers.adadp.trajectories import (
    BETA,
    GAMMA,
    HISTORY,
    SMOOTHING,
    THRESHOLD,
    Grid,
    adadp,
    dp_sgd,
    over_grid,
)
from dpkit.papers.claims import Evidence, Measured
from dpkit.privacy.sampling import PoissonSampling

PRINTED = {"adadp": 0.21, "dpsgd": 0.90}  # distances of section III-B
BATCHES = {"mnist": (ADADP.widths, 120), "cifar10": (CIFAR_WIDTHS, 32)}  # of Table II
WARM_UP = 5  # iterations that are not timed
WITHIN = 0.005  # of a printed distance: half a unit of its last digit


def trajectories(grid: Grid) -> Measured:
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
    beale = (("printed", BEALE_AS_PRINTED), ("usual", BEALE))
    values = {
        f"{prefix}_{key}": value for prefix, one in beale for key, value in found[one.name].items()
    }
    for key in [name for name in others[0] if name.startswith(("nearer", "ratio"))]:
        values[f"least_{key}"] = min(one[key] for one in others)
        values[f"most_{key}"] = max(one[key] for one in others)
    sizes = (grid.starts**2, *(len(axis) for axis in grid[1:4]))
    values |= {"functions": float(len(others)), "settings": float(np.prod(sizes))}
    return Measured(values, {})


def _compared(objective: Objective, grid: Grid) -> dict[str, float]:
    """`trajectories`' values of one function."""
    values, means = {}, []
    for name, steps in (("adadp", adadp), ("dpsgd", dp_sgd)):
        clipped, unclipped = over_grid(steps, objective, grid)
        ends = zip(("low", "median", "high"), np.quantile(clipped, [0.05, 0.5, 0.95]), strict=True)
        values |= {f"{name}_{end}": float(value) for end, value in ends}
        values[f"{name}_share"] = float((clipped <= PRINTED[name] + WITHIN).mean())
        values[f"{name}_unclipped_share"] = float((unclipped <= PRINTED[name] + WITHIN).mean())
        means.append(clipped.mean(axis=-1))  # over seeds
    own, other = means
    near, far = PRINTED["adadp"] + WITHIN, PRINTED["dpsgd"] - WITHIN
    return values | {
        "nearer": float((own < other).mean()),
        **dict(zip(_levels(grid), (own < other).mean(axis=(0, 1, 3)).tolist(), strict=True)),
        "ratio": float(np.median(own / other)),
        "both": float(((own <= near) & (other >= far)).mean()),
        "reverse": float(((other <= near) & (own >= far)).mean()),
    }


def _levels(grid: Grid) -> list[str]:
    return [f"nearer_at_{noise:g}" for noise in grid.noise_multipliers]


GRID = Grid()
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

    Of CIFAR-10's network only the layers that are trained.

    Returns:
        `mnist_adadp` and so on: medians in seconds over `iterations`, at the batches of Table II;
        `mnist_adadp_ratio` and so on: over DpSgd's.
    """
    values: dict[str, float] = {}
    for name, (widths, batch) in BATCHES.items():
        lots = PoissonSampling(batch)
        sized = {key: replace(one, widths=widths, sampling=lots) for key, one in METHODS.items()}
        seconds = _in_turn(sized, batch, iterations)
        values |= {f"{name}_{key}": one for key, one in seconds.items()}
        values |= {f"{name}_{k}_ratio": one / seconds["dpsgd"] for k, one in seconds.items()}
    return Measured(values, {})


def _in_turn(methods: dict[str, AnySettings], batch: int, iterations: int) -> dict[str, float]:
    """Median seconds of a step of each, one after the other so that a busy machine is fair."""
    import torch

    from dpkit.papers.adadp.experiments import method

    rng = torch.Generator().manual_seed(0)
    width = methods["dpsgd"].widths[0]
    features = torch.randn(batch, width, generator=rng)
    labels = torch.randint(10, (batch,), generator=rng)
    steps = {key: method(settings) for key, settings in methods.items()}
    models = {key: new(methods[key], seed=0, device=rng.device) for key, (_, new) in steps.items()}
    seconds: dict[str, list[float]] = {key: [] for key in methods}
    for index in range(WARM_UP + iterations):
        for key, settings in methods.items():
            step, start = steps[key][0], perf_counter()
            step(models[key], features, labels, settings=settings, index=index, rng=rng)
            seconds[key].append(perf_counter() - start)
    return {key: float(np.median(times[WARM_UP:])) for key, times in seconds.items()}


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

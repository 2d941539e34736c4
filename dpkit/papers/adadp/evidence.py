"""Measurements that claims rest on: trajectories over a grid, and the time of an iteration."""

from functools import partial

import numpy as np

from dpkit.claims import Evidence, Measured
from dpkit.papers.adadp.objectives import BEALE, BEALE_AS_PRINTED, OBJECTIVES, Objective
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
from dpkit.records import describe

PRINTED = {"adadp": 0.21, "dpsgd": 0.90}  # distances of section III-B
WITHIN = 0.005  # of a printed distance: half a unit of its last digit


def trajectories(grid: Grid) -> Measured:
    """Distances between noisy and noise-free runs over the grid (half a minute).

    Returns:
        for Beale's function as printed ("printed_...") and as usual ("usual_..."), and for each
        method: `adadp_low`, `adadp_median`, `adadp_high` (5, 50 and 95 % of all distances),
        `adadp_share` and `adadp_unclipped_share` (of the grid, at most the printed distance away
        from the run without noise, which clips or does not); the same of `dpsgd`; `nearer`: the
        share of settings at which AdaDP's mean distance is the smaller; `ratio`: the median of
        AdaDP's over DpSgd's; `both`, `reverse`: the share of settings that give both printed
        distances or more extreme ones, and the two the other way round. `least_nearer`,
        `most_nearer`, `least_ratio`, `most_ratio`: over all functions but the printed one, of
        which there are `functions`; `settings`: how many there are, of each function.
    """
    found = {one.name: _compared(one, grid) for one in OBJECTIVES}
    others = [values for name, values in found.items() if name != BEALE_AS_PRINTED.name]
    beale = (("printed", BEALE_AS_PRINTED), ("usual", BEALE))
    values = {
        f"{prefix}_{key}": value for prefix, one in beale for key, value in found[one.name].items()
    }
    for key in ("nearer", "ratio"):
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
        "ratio": float(np.median(own / other)),
        "both": float(((own <= near) & (other >= far)).mean()),
        "reverse": float(((other <= near) & (own >= far)).mean()),
    }


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
    """Seconds of an iteration of AdaDP and of DpSgd on the paper's networks.

    Returns:
        `mnist_adadp`, `mnist_dpsgd`, `cifar10_adadp`, `cifar10_dpsgd`: medians over `iterations`,
        at the batches of Table II; `mnist_ratio`, `cifar10_ratio`: AdaDP's over DpSgd's.
    """
    raise NotImplementedError("the networks are not here yet")


TIME = Evidence(
    "adadp/time-per-iteration",
    {"batch, MNIST": 120, "batch, CIFAR-10": 32, "iterations": 20},
    partial(time_per_iteration, iterations=20),
)

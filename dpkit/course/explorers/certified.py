"""The certified epsilon of sampled Gaussian releases, and epsilon by step as a picture."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dpkit.common import plots
from dpkit.common.show import short
from dpkit.privacy import Release, SampledGaussian, conversions, pld, rdp
from dpkit.privacy.mechanisms import Mechanism

LEAST_CERTIFIED = 0.04  # noise multipliers below it take PLD seconds
GAP = 0.01  # relative, of the pair


@lru_cache(maxsize=512)
def certified(
    noise_multiplier: float, sample_rate: float, releases: int, delta: float
) -> tuple[float, float]:
    """Return (lower, upper) of epsilon by PLD, add-remove; (0, inf) if it fails or takes long."""
    if noise_multiplier < LEAST_CERTIFIED:
        return 0.0, math.inf
    ledger = [Release(SampledGaussian(noise_multiplier, sample_rate), releases)]
    try:
        pair = pld.epsilon(ledger, delta=delta, gap=GAP)
    except ArithmeticError:
        return 0.0, math.inf
    return pair.lower, pair.epsilon


def rdp_by_step(mechanism: Mechanism, counts: Sequence[int], delta: float) -> list[float]:
    """RDP's epsilon after each of `counts` releases, the least over its own orders."""
    orders = rdp.ORDERS
    costs = np.outer(counts, mechanism.rdp(orders))
    epsilons = conversions.named("improved").epsilon(orders, costs, delta)
    return np.maximum(epsilons.min(axis=1), 0).tolist()


def draw_by_step(
    ax: Axes,
    curve: tuple[Any, Sequence[float]],
    pairs: Sequence[tuple[int, float, float]],
    delta: float,
) -> None:
    """Draw RDP's epsilon by step, and PLD's (steps, lower, upper) after a few."""
    few, lower, upper = zip(*pairs, strict=True)
    lines: Any = {"RDP": curve, "PLD": (few, upper)}
    plots.lines(ax, lines, x="steps", y=f"epsilon at delta {short(delta)}")
    colour = plots.MEANINGS["PLD"]
    ax.scatter(few, upper, s=14, color=colour)
    ax.fill_between(few, lower, upper, color=colour, alpha=0.3, linewidth=0)

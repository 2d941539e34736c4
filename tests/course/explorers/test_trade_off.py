"""Errors an attacker can have: below the truth, never above, and a point that moves with them."""

import math
from functools import cache, partial

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpkit.course.explorers import TradeOff, trade_off
from dpkit.course.explorers.trade_off import POSSIBLE, REFUTES, WORSE
from dpkit.privacy import Gaussian, Release, SampledGaussian, pld, rdp, tradeoff

EXPLORER = TradeOff
computed = partial(
    EXPLORER.compute,
    **{"noise_multiplier": 2.0, "sample_rate": 0.01, "steps": 1000.0},
    **{"adjacency": "add-remove", "alpha": 0.1, "beta": 0.5},
)

ALPHAS = [1e-4, 0.01, 0.1, 0.5, 1.0]


@cache
def finely(adjacency: str) -> list[float]:
    """The least beta at each of ALPHAS, by 40 epsilons."""
    run = [Release(SampledGaussian(2.0, 0.01, adjacency), 1000)]  # type: ignore[arg-type]
    epsilons = np.linspace(0, 2, 40)
    deltas = pld.profile(run, epsilons)
    return list(tradeoff.from_profile(epsilons, deltas, ALPHAS))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_line_that_binds_is_proven_by_the_accountants(alpha, adjacency):
    result = computed(alpha=alpha, adjacency=adjacency)
    run = [Release(SampledGaussian(2.0, 0.01, adjacency), 1000)]
    epsilon, delta = result["epsilon"], result["delta"]
    by_pld = pld.delta(run, epsilon=epsilon).delta
    by_rdp = rdp.delta(run, epsilon=epsilon).delta
    assert 0.995 <= delta / min(by_pld, by_rdp) <= 1.01
    assert result["proven_by"] == ("PLD" if by_pld < by_rdp else "RDP")
    line = max(0.0, 1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha))
    assert result["least_beta"] == pytest.approx(line, abs=1e-15)
    fine = finely(adjacency)[ALPHAS.index(alpha)]
    assert fine - 0.01 <= result["least_beta"] <= max(fine, line)
    assert result["by_rdp"] <= result["least_beta"] <= 1 - alpha


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0, 30.0])
def test_never_above_the_truth_and_close_to_it(noise):
    """One release of all: the curve of a Gaussian is known."""
    alphas = [1e-4, 1e-3, 0.02, 0.2, 0.6, 0.95]
    exact = ndtr(-ndtri(alphas) - 1 / noise)
    for alpha, truth in zip(alphas, exact, strict=True):
        found = computed(noise_multiplier=noise, sample_rate=1.0, steps=1.0, alpha=alpha)
        assert truth - 0.02 <= found["least_beta"] <= truth + 1e-12
    profile = Gaussian(noise).profile([0.0]).max()
    assert profile <= found["advantage"] <= 1.02 * profile


def test_verdicts_on_points():
    least = computed()["least_beta"]
    assert 0.5 < least < 0.9
    for beta, verdict in (
        *((least * (1 - 1e-9), REFUTES), (least, POSSIBLE), (0.89, POSSIBLE), (0.91, WORSE)),
        (1.0, REFUTES),  # finds nobody and accuses a tenth: its opposite would find all
    ):
        assert computed(beta=beta)["verdict"] == verdict
    assert computed(alpha=1.0, beta=0.0)["verdict"] == POSSIBLE
    assert computed(alpha=0.0, beta=1.0)["verdict"] == POSSIBLE


def test_moving_the_point_asks_no_accountant(explorer, monkeypatch):
    computed()
    monkeypatch.setattr(trade_off.pld, "profile", None)
    monkeypatch.setattr(trade_off.rdp, "delta", None)
    assert explorer.draw(computed(alpha=0.3, beta=0.3)).png() != b""
    with pytest.raises(TypeError):  # another run asks them
        computed(adjacency="replace-one", noise_multiplier=2.125)

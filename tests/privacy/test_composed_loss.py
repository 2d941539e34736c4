"""Composition by FFT against exact sums: never off by more than the error it states."""

import dataclasses
import math
from contextlib import suppress
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkit.privacy import Gaussian, Ledger, Release, SampledGaussian, pld
from dpkit.privacy.accountants.pld import composed_loss, saddle
from dpkit.privacy.accountants.pld.composed_loss import chernoff_delta, chernoff_epsilon, compose
from dpkit.privacy.accountants.pld.loss_grid import GridLoss
from dpkit.privacy.accountants.pld.saddle import Look
from dpkit.privacy.mechanisms.base import PrivacyLoss

H = 0.125  # spacing: a float without rounding errors, as are the nodes


def look(tilt: float, around: float, low: float, high: float) -> Look:
    """A window, and changes of tilt for the bounds outside of it."""
    return Look(tilt, around, 1.0, tilt, low, high, 0.9 * tilt, 0.9 * tilt)


def exactly(parts: list[tuple[GridLoss, int]]) -> dict[int, Fraction]:
    """The composition as rational masses on multiples of H."""
    out = {0: Fraction(1)}
    for grid, count in parts:
        for _ in range(count):
            new: dict[int, Fraction] = {}
            for i, mass in out.items():
                for k, one in enumerate(grid.masses):
                    at = i + grid.first + k
                    new[at] = new.get(at, Fraction(0)) + mass * Fraction(float(one))
            out = new
    return out


def exact_delta(parts: list[tuple[GridLoss, int]], epsilon: float) -> mp.mpf:
    infinite = -math.expm1(sum(count * math.log1p(-grid.infinite) for grid, count in parts))
    masses = exactly(parts)
    with mp.workdps(60):
        terms = (
            mp.mpf(m.numerator) / m.denominator * -mp.expm1(mp.mpf(epsilon) - i * mp.mpf(H))
            for i, m in masses.items()
            if i * H > epsilon
        )
        return mp.fsum(terms) + infinite


def grid_of(rng: np.random.Generator, nodes: int, infinite: float = 0.0) -> GridLoss:
    masses = rng.exponential(size=nodes) ** 4
    masses *= (1 - infinite) / masses.sum()
    return GridLoss(int(rng.integers(-nodes, 2)), 0.0, H, masses, infinite)


@given(
    seed=st.integers(0, 2**32 - 1),
    nodes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    counts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    tilt=st.floats(0.01, 30),
    low=st.floats(-8, 2),
    width=st.floats(0.5, 20),
)
def test_weights_are_off_by_no_more_than_they_say(seed, nodes, counts, tilt, low, width):
    """Wrapped-around mass included: a window may cut off any part of the sum."""
    rng = np.random.default_rng(seed)
    parts = [(grid_of(rng, n), c) for n, c in zip(nodes, counts, strict=True)]
    found = compose(parts, look(tilt, 0.0, low, low + width))
    with mp.workdps(60):
        true = {i * H: mp.mpf(m.numerator) / m.denominator for i, m in exactly(parts).items()}
        tilted = {s: m * mp.exp(mp.mpf(tilt) * s) for s, m in true.items()}
        total = mp.fsum(tilted.values())
        inside = [float(tilted.pop(s, mp.mpf(0)) / total) for s in found.losses.tolist()]
        outside = float(mp.fsum(tilted.values()) / total)
    # the statement: what is wrong inside, beside what wrapped around; and what lies outside
    assert np.abs(found.weights - inside).sum() <= found.error + 1e-15 + outside
    assert outside <= found.error + 1e-15
    if outside == 0:
        far = found.losses[[0, -1]] - np.array([min(true), max(true)])
        if np.abs(far).min() * tilt > 60:
            assert found.error < 1e-10


@pytest.mark.parametrize("count", [1, 30, 1000, 10**5])
@pytest.mark.parametrize("chance", [0.5, 0.01, 1e-5])
def test_many_coins_are_binomial(count: int, chance: float):
    """In closed form, with a stated error that is small and not below what is wrong."""
    tilt, h = 2.0 / count**0.5, H / count**0.5
    grid = GridLoss(0, 0.0, h, np.array([1 - chance, chance]), 0.0)
    after = chance * np.exp(tilt * h) / (1 - chance + chance * np.exp(tilt * h))
    mean, deviation = count * after * h, (count * after * (1 - after)) ** 0.5 * h
    low, high = mean - 9 * deviation - 9 * h, mean + 9 * deviation + 9 * h
    push = 8 / deviation
    found = compose([(grid, count)], Look(tilt, mean, 1.0, tilt, low, high, push, push))
    with mp.workdps(40):
        p, ways = mp.mpf(float(after)), mp.loggamma(count + 1)
        true = []
        for k in np.round(found.losses / h).astype(int).tolist():
            log = ways - mp.loggamma(k + 1) - mp.loggamma(count - k + 1) if 0 <= k <= count else 0
            log += k * mp.log(p) + (count - k) * mp.log1p(-p)
            true.append(float(mp.exp(log)) if 0 <= k <= count else 0.0)
    # `after` is a float: count relative rounding errors; and one of the 1 at the middle
    assert np.abs(found.weights - true).sum() <= found.error + count * after * 2e-15 + 3e-16
    assert found.error <= (1e-12 if chance < 1e-3 else 1.2e-12 * count + 1e-9)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 6),
    delta=st.floats(-10, -0.5).map(lambda x: 10**x),
    infinite=st.sampled_from([0.0, 1e-12, 1e-4]),
    tilt=st.floats(0.05, 20),
    low=st.floats(-6, 4),
    width=st.floats(1, 20),
    off=st.floats(-3, 3),
    unit=st.sampled_from([2.0**-53, 1e-7]),
)
def test_epsilon_is_enclosed_from_any_window(
    seed, count, delta, infinite, tilt, low, width, off, unit
):
    """Poor windows, tilts and coarse arithmetic widen the pair; they never move it."""
    parts = [(grid_of(np.random.default_rng(seed), 6, infinite), count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composed_loss, "UNIT", unit)
        found = compose(parts, look(tilt, low + width / 2 + off, low, low + width))
        high, least = found.epsilon_above(delta), found.epsilon_below(delta)
    bound = chernoff_epsilon(parts, tilt, delta)
    for epsilon in {min(high, bound), high, bound} - {np.inf}:
        assert exact_delta(parts, epsilon) <= delta * (1 + 1e-12)
    if least > 0:
        finite = [(grid._replace(infinite=0.0), n) for grid, n in parts]
        assert exact_delta(finite, least) >= delta * (1 - 1e-12)
    for epsilon in (0.0, 0.3, max(low, 0.0) + width / 2):
        least_delta = exact_delta(parts, epsilon) * (1 - 1e-12)
        assert found.delta_above(epsilon) >= least_delta
        assert chernoff_delta(parts, tilt, epsilon) >= least_delta


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_in_a_good_window_the_pair_is_tight(delta: float):
    parts = [(grid_of(np.random.default_rng(5), 8)._replace(first=0), 6)]
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_delta(parts, middle) > delta else (low, middle)
    found = compose(parts, look(6.0, low, -9.0, 9.0))
    assert low - 1e-8 <= found.epsilon_below(delta) <= low + 1e-12
    assert low - 1e-12 <= found.epsilon_above(delta) <= low + 1e-8
    assert found.delta_above(low) == pytest.approx(delta, rel=1e-6)


def test_what_is_not_a_number_proves_nothing():
    parts = [(grid_of(np.random.default_rng(1), 8), 3)]
    found = compose(parts, look(3.0, 1.0, -9.0, 9.0))
    names = ("weights", "error", "log_scale", "infinite", "factor")
    for wrong in (found._replace(**{name: getattr(found, name) * np.nan}) for name in names):
        assert not wrong.epsilon_above(1e-5) < np.inf
        assert not wrong.epsilon_below(1e-5) > 0
        assert not wrong.delta_above(1.0) < 1


def test_infinite_losses_count_against_delta():
    parts = [(grid_of(np.random.default_rng(2), 8, 1e-6), 4)]
    found = compose(parts, look(3.0, 1.0, -9.0, 9.0))
    assert found.epsilon_above(3.9e-6) == np.inf
    assert chernoff_epsilon(parts, 3.0, 3.9e-6) == np.inf
    assert found.epsilon_above(4.1e-6) < 9
    some = -math.expm1(4 * math.log1p(-1e-6))
    assert found.delta_above(8.0) >= some
    assert chernoff_delta(parts, 3.0, 1e6) >= some


@pytest.mark.parametrize("far", [-700, -320, -310, -290, 10, 290, 310, 500, 720, 750])
@pytest.mark.parametrize("tilt", [10.0, 50.0])
def test_a_look_far_beside_what_decides_proves_nothing_wrong(tilt: float, far: float):
    """Where exponentials of the tilt leave the range of floats."""
    masses = np.zeros(161)
    masses[[80, 88, 152]] = 1 - 1e-6 - 1e-9, 1e-6, 1e-9  # losses 0, 1 and 9
    parts, delta = [(GridLoss(-80, 0.0, H, masses, 0.0), 1)], 5e-10
    epsilon = 9 + np.log(0.5)  # exactly: 1e-9 (1 - exp(epsilon - 9)) = delta
    found = compose(parts, look(tilt, epsilon - far / tilt, -12.0, 12.0))
    assert found.epsilon_above(delta) >= epsilon - 1e-9
    assert found.epsilon_below(delta) <= epsilon + 1e-9
    assert found.delta_above(epsilon) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("fault", ["few nodes", "coarse arithmetic", "poor looks"])
@pytest.mark.parametrize("seed", range(12))
def test_provoked_errors_widen_the_pair_and_never_move_it(monkeypatch, fault: str, seed: int):
    """The whole accountant, on Gaussians that are one Gaussian with an exact profile."""
    rng = np.random.default_rng(seed)
    noise, delta = 10 ** rng.uniform(-0.3, 1), 10 ** rng.uniform(-10, -2)
    count = int(10 ** rng.uniform(0, 3.5))
    if fault == "few nodes":
        monkeypatch.setattr(pld, "MOST_NODES", int(2 ** rng.integers(5, 10)))
    elif fault == "coarse arithmetic":
        unit = 10 ** rng.uniform(-13, -5)
        monkeypatch.setattr(composed_loss, "UNIT", unit)
    else:
        for name in ("for_delta", "for_epsilon"):
            monkeypatch.setattr(saddle, name, poor(getattr(saddle, name), rng))
    found = pld.epsilon([Release(Gaussian(noise), count)], delta=delta)
    at_lower, at_upper = Gaussian(noise / count**0.5).profile([found.lower, found.epsilon])[0]
    assert at_upper <= delta * (1 + 1e-9)
    assert found.lower == 0 or at_lower >= delta * (1 - 1e-9)


def poor(look_of, rng: np.random.Generator):
    """Windows beside the place, tilts that are not the saddle's."""

    def look(*args):
        found = look_of(*args)
        width, tilt = found.high - found.low, found.tilt * 10 ** rng.normal(0, 0.3)
        low = found.low + width * rng.normal(0, 0.3)
        return found._replace(
            saddle=found.saddle * 10 ** rng.normal(0, 0.3),
            epsilon=found.epsilon + width * rng.normal(0, 0.2),
            tilt=tilt,
            low=low,
            high=low + width * 10 ** rng.uniform(-0.5, 0.5),
            left=tilt * 10 ** rng.normal(0, 0.3),
            right=tilt * 10 ** rng.normal(0, 0.3),
        )

    return look


@pytest.mark.parametrize("row", [0, 1])
def test_masses_that_are_not_numbers_prove_nothing(monkeypatch, row: int):
    """An exception, infinity or delta 1: whichever, but no guarantee."""
    right = Gaussian(1.0).privacy_loss().masses

    def masses(edges: np.ndarray) -> np.ndarray:
        out = right(edges)
        out[row, 3::7] = np.nan
        return out

    monkeypatch.setattr(Gaussian, "privacy_loss", lambda _: PrivacyLoss(masses))
    release = [Release(Gaussian(1.0), 3)]
    with suppress(ArithmeticError, ValueError), np.errstate(all="ignore"):
        assert pld.epsilon(release, delta=1e-5).epsilon == np.inf
    with suppress(ArithmeticError, ValueError), np.errstate(all="ignore"):
        assert pld.delta(release, epsilon=1.0).delta == 1


@pytest.mark.parametrize("spacing", [1e-4, 0.05, 3.0, 150.0, 1e4])
@pytest.mark.parametrize("size", [0, 1, 7, 900])
def test_discounted_sums_are_those_of_the_definition(spacing, size):
    weights = np.random.default_rng(size).normal(size=size)
    found = composed_loss._discounted(weights, spacing)
    for k in range(size):
        terms = [w * math.exp(-j * spacing) for j, w in enumerate(weights[k:])]
        sizes = math.fsum(map(abs, terms))
        assert abs(found[k] - math.fsum(terms)) <= 2e-16 * (size + 410) * max(sizes, 1e-80)


def test_a_direction_is_left_out_only_where_it_costs_less(monkeypatch):
    """The pair is what it is with both directions composed, whichever costs more."""
    runs = [(1.1, 0.01, 1000), (0.5, 0.5, 3), (4.0, 0.9, 50), (2.0, 0.2, 9)]
    ledgers = [[Release(SampledGaussian(noise, rate), steps)] for noise, rate, steps in runs]
    deltas = [1e-5, 1e-3, 1e-10, 0.1]
    left_out = [pld.epsilon(ledger, delta=d) for ledger, d in zip(ledgers, deltas, strict=True)]
    monkeypatch.setattr(pld, "_at_most", lambda *_: False)
    for ledger, d, found in zip(ledgers, deltas, left_out, strict=True):
        both = pld.epsilon(ledger, delta=d)
        assert found.epsilon == pytest.approx(both.epsilon, rel=1e-12)
        assert found.lower == pytest.approx(both.lower, rel=1e-12)


def test_what_a_direction_costs_at_most_is_proven():
    """Around the exact epsilon of a Gaussian's release: never below it, whatever is expected."""
    releases = pld._releases(Ledger.of([Release(Gaussian(1.0))]), 1e-5)
    found = saddle.moments([releases[0].coarse])
    looks = [saddle.for_delta(one, 1e-5, 1) for one in (found, found.reversed())]
    _, other = pld._directions(releases, looks, 0.001)
    other = dataclasses.replace(other, look=other.look._replace(epsilon=1.0))
    exact = pld.epsilon([Release(Gaussian(1.0))], delta=1e-5)
    assert not pld._at_most(other, releases, 1e-5, 0.999 * exact.lower)
    assert pld._at_most(other, releases, 1e-5, 1.05 * exact.epsilon)

"""The prices of batches as they are drawn, against independent formulas and draws."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from dpkit.privacy import Gaussian, Release, SampledGaussian, as_drawn, gdp, pld, rdp, shuffled
from dpkit.privacy.mechanisms import BallsAndBinsGaussian, TruncatedPoissonGaussian, lognormal_sums
from dpkit.privacy.mechanisms.balls_and_bins import _cumulants, _moments, _reversed
from dpkit.privacy.sampling import ShuffledBatches, TruncatedPoisson, mechanism

EPSILONS = np.array([-2.0, -0.3, 0.0, 0.2, 1.0, 3.0])
Z = np.linspace(-30, 20, 40_001)
DENSITY = np.exp(-Z * Z / 2) / math.sqrt(2 * math.pi) * 50 / 40_000
DRAWS = 20_000
SHORT = pytest.mark.slow("sums of many lognormals that are cut short")


def call(strike: np.ndarray, noise: float) -> np.ndarray:
    """E[(X - strike)+] of the lognormal X of mean 1 (Black, Scholes 1973)."""
    k = np.maximum(strike, 1e-300)
    d = 0.5 / noise - noise * np.log(k)
    return np.where(strike > 0, ndtr(d) - k * ndtr(d - 1 / noise), 1 - strike)


def two_batches(noise: float, epsilons: np.ndarray) -> np.ndarray:
    """E[((X + Y) / 2 - e^epsilon)+], one variable by a closed formula: (len(epsilons),)."""
    x = np.exp(Z / noise - 0.5 / noise**2)
    return np.array([DENSITY @ call(2 * math.exp(e) - x, noise) / 2 for e in epsilons])


def two_batches_back(noise: float, epsilons: np.ndarray) -> np.ndarray:
    """E[(1 - e^epsilon (X + Y) / 2)+], by puts."""
    x = np.exp(Z / noise - 0.5 / noise**2)
    found = []
    for growth in np.exp(epsilons):
        k = np.maximum(2 / growth - x, 1e-300)
        d = 0.5 / noise - noise * np.log(k)
        put = np.where(k > 1e-300, k * ndtr(1 / noise - d) - ndtr(-d), 0.0)
        found.append(DENSITY @ put * growth / 2)
    return np.array(found)


@pytest.mark.parametrize("noise", [0.4, 0.7, 1.0, 2.0, 8.0])
def test_two_batches_by_quadrature(noise: float):
    mechanism = BallsAndBinsGaussian(noise, 2)
    there, back = two_batches(noise, EPSILONS), two_batches_back(noise, EPSILONS)
    found = mechanism.profile(EPSILONS)
    for row, exact in enumerate((there, back)):
        assert (found[row] >= exact - 1e-13).all()
        assert found[row] == pytest.approx(exact, rel=4e-3, abs=1e-9)
    edges = np.linspace(-30, 30, 6001)
    attained = mechanism.privacy_loss().attained
    assert attained is not None
    p, q = attained.masses(edges)
    for e, most, other in zip(EPSILONS, there, back, strict=True):
        below = np.maximum(p - math.exp(e) * q, 0).sum(), np.maximum(q - math.exp(e) * p, 0).sum()
        assert below[0] <= most + 1e-13
        assert below[1] <= other + 1e-13
        assert below[0] >= most * 0.99 - 1e-5


@pytest.mark.parametrize("noise", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_one_batch_is_a_gaussian_of_a_sample(noise: float, share: float):
    one, other = BallsAndBinsGaussian(noise, 1, share), SampledGaussian(noise, share)
    assert (one.profile(EPSILONS) == other.profile(EPSILONS)).all()
    assert (one.rdp([1.5, 2, 40]) == other.rdp([1.5, 2, 40])).all()
    both = [pld.epsilon([Release(each, 3)], delta=1e-5)[:3] for each in (one, other)]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("noise", "count"), [(0.25, 7), (0.6, 64), (1.0, 1000), (3.0, 30), (50, 9)]
)
def test_both_laws_have_their_means_and_bracket_the_spread(noise: float, count: int):
    """And every call on the mean: the laws are ordered by convex functions."""
    high, low = lognormal_sums.upper(noise, count), lognormal_sums.lower(noise, count)
    spread = count * math.expm1(1 / noise**2)
    for law in (high, low):
        assert law.mass.sum() == pytest.approx(1, abs=count * 1e-13)
        assert law.mass @ law.at == pytest.approx(0, abs=1e-9 * count)
        assert law.doubt < 1e-8
    assert low.mass @ low.at**2 < spread < high.mass @ high.at**2 or noise < 0.5
    for at in np.array([0.3, 0.9, 1.0, 1.1, 2.0, 5.0]) * count - count:
        calls = [law.mass @ np.maximum(law.at - at, 0.0) for law in (low, high)]
        assert calls[0] <= calls[1] * (1 + 1e-9) + 1e-12 * count


@pytest.mark.parametrize(
    ("noise", "batches", "seed"), [(0.6, 500, 1), (1.0, 200, 2), (0.4, 300, 3)]
)
def test_many_batches_by_draws(noise: float, batches: int, seed: int):
    """Means of numbers in [0, 1], by Hoeffding within `off` but for a chance of 2e-9 each."""
    off = math.sqrt(math.log(1e9) / (2 * DRAWS))
    rng = np.random.default_rng(seed)
    x = np.exp(rng.standard_normal((DRAWS, batches)) / noise - 0.5 / noise**2)
    base = x.mean(axis=1)
    x[:, 0] *= np.exp(1 / noise**2)  # the record's batch, by exchange the first
    moved = x.mean(axis=1)
    found = BallsAndBinsGaussian(noise, batches).profile(EPSILONS)
    for e, (there, back) in zip(EPSILONS, found.T, strict=True):
        assert np.maximum(1 - math.exp(e) / moved, 0).mean() == pytest.approx(there, abs=off + 1e-3)
        assert np.maximum(1 - math.exp(e) * base, 0).mean() == pytest.approx(back, abs=off + 1e-3)


@pytest.mark.parametrize("noise", [0.5, 1.0, 6.0])
def test_renyi_moments_of_two_batches_by_sums_and_quadrature(noise: float):
    moments, back = _moments(noise, 2), _reversed(noise, 2)
    x = np.exp(Z[::50] / noise - 0.5 / noise**2)
    weights = DENSITY[::50] * 50
    ratio = (x[:, None] + x) / 2
    for a in (2, 3, 7, 20):
        with mpmath.workdps(40):
            rate = 1 / (2 * mpmath.mpf(noise) ** 2)
            powers = [rate * (k * (k - 1) + (a - k) * (a - k - 1)) for k in range(a + 1)]
            total = sum(mpmath.binomial(a, k) * mpmath.exp(p) for k, p in enumerate(powers))
            exact = mpmath.log(total / mpmath.mpf(2) ** a)
        assert moments[a - 1] == pytest.approx(float(exact), rel=1e-9)
        assert moments[a - 1] >= float(exact) * (1 - 1e-15)
        if a - 1 > 2 * min(12 * noise, 30 * noise**2):
            continue  # the bound by means is taken
        expected = math.log(np.einsum("i,j,ij->", weights, weights, ratio ** (1 - a)))
        assert back[a - 1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("noise", "batches"), [(0.5, 3), (1.0, 40), (4.0, 10**6), (0.8, 1000)])
def test_renyi_divergences_grow_and_are_bounds(noise: float, batches: int):
    found = _cumulants(noise, batches)
    each = found[1:] / np.arange(1, found.size)
    assert (np.diff(each) >= -1e-11 * each[1:]).all()
    orders = [1.5, 2, 8, 256, 300]
    mechanism = BallsAndBinsGaussian(noise, batches)
    assert (mechanism.rdp(orders) <= Gaussian(noise).rdp(orders)).all()
    renyi = rdp.epsilon([Release(mechanism, 5)], delta=1e-6).epsilon
    assert pld.epsilon([Release(mechanism, 5)], delta=1e-6).lower <= renyi


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0, 30.0])
@pytest.mark.parametrize(
    ("batches", "delta"),
    [(2, 1e-3), *(pytest.param(*many, marks=SHORT) for many in ((100, 1e-12), (10**5, 1e-8)))],
)
def test_an_epoch_costs_no_more_than_one_batch_of_it(noise: float, batches: int, delta: float):
    run = as_drawn.DrawnRun(noise, 1, batches, 3 * batches)
    found = run.guarantee("balls-and-bins", delta=delta)
    one = pld.epsilon([Release(Gaussian(noise), 3)], delta=delta)
    assert 0 <= found.lower <= found.epsilon <= one.epsilon
    assert one.epsilon < math.inf


@pytest.mark.parametrize(
    ("n", "rate", "most"), [(6, 0.5, 2), (30, 0.1, 5), (200, 0.02, 9), (4, 0.5, 4)]
)
def test_how_often_batches_are_cut(n: int, rate: float, most: int):
    q = Fraction(rate)
    chances = [math.comb(n - 1, j) * q**j * (1 - q) ** (n - 1 - j) for j in range(n)]
    step = TruncatedPoissonGaussian(1.0, rate, most, n)
    of_n = [math.comb(n, j) * q**j * (1 - q) ** (n - j) for j in range(n + 1)]
    full = float(sum(of_n[most:]))
    kept = float(q * sum(c * min(1, Fraction(most, j + 1)) for j, c in enumerate(chances)))
    assert full <= step.full <= full * (1 + 1e-8)
    assert kept * (1 - 1e-8) <= step.kept <= kept


def test_cutting_costs_less_than_the_chance_that_anything_is_cut():
    """Chua et al. 2024: delta of the Poisson run, and (1 + e^epsilon) steps Pr[some are cut]."""
    run = mechanism(TruncatedPoisson(600, 720), noise_multiplier=1.0, public_size=60_000)
    assert isinstance(run, TruncatedPoissonGaussian)
    steps, plain = 1000, [Release(SampledGaussian(1.0, 0.01), 1000)]
    pair, poisson = (pld.epsilon(one, delta=1e-5) for one in ([Release(run, steps)], plain))
    assert poisson.lower - 1e-4 < pair.epsilon < 1.002 * poisson.epsilon
    over = 1.0001 * run.full  # of n - 1 at least 720, which is above Pr[Binomial(n, q) > 720]
    assert 1e-5 - (1 + math.exp(pair.epsilon)) * steps * over < 0  # and so proves nothing here
    drawn = as_drawn.DrawnRun(1.0, 600, 60_000, steps)
    padded = drawn.guarantee("truncated", delta=1e-5)
    enough = {"delta": 1e-5, "largest": as_drawn.largest_batch(drawn, delta=1e-5)}
    assert poisson.epsilon <= drawn.guarantee("truncated", **enough).epsilon == padded.epsilon
    never = TruncatedPoissonGaussian(1.0, 0.01, 60_000, 60_000)
    assert pld.epsilon([Release(never, steps)], delta=1e-5)[:3] == poisson[:3]


def test_shuffling_single_records_saves_where_the_theorem_holds():
    run = {"noise_multiplier": 20.0, "public_size": 60_000, "delta": 1e-5}
    passes = [ShuffledBatches(1, "replace-one").guarantee(steps=60_000 * n, **run) for n in (1, 10)]
    whole = pld.epsilon([Release(Gaussian(20.0, "replace-one"), 10)], delta=1e-5)
    assert 0 < passes[0].epsilon < 0.1
    assert passes[0].epsilon < passes[1].epsilon < whole.epsilon / 1.4
    assert "shuffling" in passes[1].method
    assert shuffled.amplified(1.0, records=1000, passes=1, delta=1e-5) == math.inf


def test_no_batches_cost_nothing_and_a_begun_pass_is_charged():
    batches = ShuffledBatches(10, "replace-one")
    run = {"noise_multiplier": 2.0, "public_size": 105, "delta": 1e-5}
    pairs = [batches.guarantee(steps=n, **run) for n in (0, 1, 10, 11, 20)]
    assert pairs[0][:3] == (0.0, 1e-5, 0.0)
    assert pairs[1].epsilon == pairs[2].epsilon < pairs[3].epsilon == pairs[4].epsilon
    assert pairs[1].lower < pairs[2].lower < pairs[3].lower < pairs[4].lower
    assert all(one.lower < one.epsilon for one in pairs[1:])
    zero_out = ShuffledBatches(10).guarantee(steps=20, **run)
    assert any("zero-out" in one for one in zero_out.assumptions)
    assert zero_out.epsilon < pairs[4].epsilon


@pytest.mark.parametrize("passes", [1, 7, 300])
@pytest.mark.parametrize("noise", [0.8, 5.0, 60.0])
def test_one_batch_a_pass_is_a_gaussian_each(noise: float, passes: int):
    """In closed form: the whole data in every batch, a record moved by 2C."""
    found = as_drawn.DrawnRun(noise, 50, 50, passes).guarantee("shuffled", delta=1e-5)
    exact = gdp.epsilon([Release(Gaussian(noise, "replace-one"), passes)], delta=1e-5).epsilon
    assert found.lower <= exact <= found.epsilon
    assert found.lower >= 0.999 * exact - 1e-3


@pytest.mark.parametrize("way", ["shuffled", "balls-and-bins"])
def test_a_begun_pass_costs_more_than_none_and_at_most_a_whole_one(way):
    none, one, begun, two = (
        as_drawn.DrawnRun(2.0, 10, 100, n).guarantee(way, delta=1e-5) for n in (0, 10, 14, 20)
    )
    assert one.epsilon < begun.epsilon <= two.epsilon * 1.001
    assert one.lower <= begun.lower * 1.001 <= two.lower * 1.002
    assert none.epsilon == 0


@pytest.mark.slow("a pair for batches that are cut which another kit contradicts")
@pytest.mark.parametrize(
    ("records", "rate", "most", "steps"),
    [(1000, 0.05, 70, 100), (1000, 0.05, 55, 100), (60, 0.1, 10, 10), (1000, 0.05, 200, 100)],
)
def test_dp_accountings_truncated_batches_cost_about_the_same(records, rate, most, steps):
    """Another pair that dominates, too: this one's is the smaller but for 1 %."""
    peer = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    one = peer.from_truncated_subsampled_gaussian_mechanism(records, rate, most, 1.0)
    theirs = one.self_compose(steps).get_epsilon_for_delta(1e-5)
    step = TruncatedPoissonGaussian(1.0, rate, most, records)
    ours = pld.epsilon([Release(step, steps)], delta=1e-5)
    assert ours.lower <= theirs
    assert 0.9 * theirs < ours.epsilon < 1.01 * theirs

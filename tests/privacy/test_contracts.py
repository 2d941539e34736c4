"""What every mechanism promises. A new one is one line in CASES, with the pair it stands for."""

import dataclasses
import itertools
import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from truths import dataclasses_with

from dpkit.privacy import Gaussian, composition, divergence, gdp, mechanisms, moments, pld, rdp
from dpkit.privacy.best_of import BestOf
from dpkit.privacy.divergence import LogDensity
from dpkit.privacy.ledger import Parallel, Release
from dpkit.privacy.mechanisms import DiscreteGaussian, GroupedGaussian, NoGuarantee, SampledGaussian
from dpkit.privacy.mechanisms.balls_and_bins import BallsAndBinsGaussian
from dpkit.privacy.mechanisms.poisson_sampled import PoissonSampled
from dpkit.privacy.mechanisms.pure import ExponentialMechanism, Laplace, RandomizedResponse
from dpkit.privacy.mechanisms.sampled_gaussian import DiagonalGaussian, GroupSampledGaussian
from dpkit.privacy.mechanisms.stated import ApproximateDP, ZeroConcentratedDP
from dpkit.privacy.mechanisms.truncated_poisson import TruncatedPoissonGaussian
from dpkit.privacy.mechanisms.with_replacement import WithReplacementGaussian
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian
from dpkit.privacy.sampling import Assuming

SPAN = {"low": -32, "high": 32}  # 64 parts


class Lines(NamedTuple):
    """Two densities on the line, by their logs; kinks lie at whole numbers."""

    p: LogDensity
    q: LogDensity

    def renyi(self, order: float) -> float:
        return max(divergence.renyi(*pair, order, **SPAN) for pair in (self, self[::-1]))

    def delta(self, epsilon: float) -> list[float]:
        return [divergence.hockey_stick(*pair, epsilon, **SPAN) for pair in (self, self[::-1])]


class Sums(NamedTuple):
    """Two rows of probabilities, not yet divided by their sum (which is the same)."""

    p: np.ndarray
    q: np.ndarray

    def renyi(self, order: float) -> float:
        total = (self.q * (self.p / self.q) ** order).sum() / self.q.sum()
        back = (self.p * (self.q / self.p) ** order).sum() / self.p.sum()
        return float(np.log(max(total, back)) / (order - 1))

    def delta(self, epsilon: float) -> list[float]:
        sums = [np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in (self, self[::-1])]
        return [float(one / self.p.sum()) for one in sums]


class Case(NamedTuple):
    """A mechanism, the same with more noise, and the pair it prices (None: an upper bound)."""

    mechanism: mechanisms.Mechanism
    noisier: mechanisms.Mechanism
    pair: Lines | Sums | None = None


def normals(moved: float, deviation: float) -> Lines:
    return Lines(divergence.normal(moved, deviation), divergence.normal(0, deviation))


def mixed(q: float, deviation: float, ends: tuple[float, ...]) -> Lines:
    """N(0) with a share q of N(end), for two ends."""
    of = [divergence.normal(end, deviation) for end in (0, *ends)]
    one, other = (divergence.mixture([1 - q, q], [of[0], part]) for part in of[1:])
    return Lines(one, other)


def laplaces(moved: float, scale: float) -> Lines:
    p, q = (lambda x, at=at: -abs(x - at) / scale - math.log(2 * scale) for at in (moved, 0))
    return Lines(p, q)


def sampled_laplaces(q: float, scale: float) -> Lines:
    moved, base = laplaces(1, scale)
    return Lines(divergence.mixture([1 - q, q], [base, moved]), base)


def integers(moved: int, scale: float) -> Sums:
    x = np.arange(-int(8 * scale) - 5 * moved, int(8 * scale) + 6 * moved)
    return Sums(*(np.exp(-((x - at) ** 2) / (2 * scale**2)) for at in (moved, 0)))


def answers(epsilon: float, others: int) -> Sums:
    high = math.exp(epsilon)
    return Sums(np.array([high, 1] + [1] * others), np.array([1, high] + [1] * others))


REPLACE = "replace-one"
MIRROR = (1, -1)
CASES = [
    Case(Gaussian(1.3), Gaussian(1.4), normals(1, 1.3)),
    Case(Gaussian(1.3, REPLACE), Gaussian(1.4, REPLACE), normals(2, 1.3)),
    *(
        Case(SampledGaussian(1.1, 0.2, way), SampledGaussian(1.2, 0.2, way), mixed(0.2, 1.1, ends))
        for way, ends in (("add-remove", (1, 0)), (REPLACE, MIRROR))
    ),
    Case(SampledGaussian(1.1, 1.0), SampledGaussian(1.1, 0.9), normals(1, 1.1)),
    Case(DiagonalGaussian((2.0,) * 4), DiagonalGaussian((2.0, 2.0, 2.1, 2.0)), normals(1, 1)),
    Case(*(DiagonalGaussian((noise, 2.0), REPLACE) for noise in (1.5, 1.6)), normals(2, 1.2)),
    Case(GroupedGaussian(2.2, 4, 0.2), GroupedGaussian(2.2, 3, 0.2), mixed(0.2, 1.1, (1, 0))),
    Case(
        *(GroupedGaussian((1.5, noise), 2, 0.3, REPLACE) for noise in (2.0, 2.1)),
        mixed(0.3, 1.2, MIRROR),
    ),
    Case(Laplace(0.8), Laplace(0.9), laplaces(1, 0.8)),
    Case(Laplace(0.9, REPLACE), Laplace(1.0, REPLACE), laplaces(2, 0.9)),
    Case(RandomizedResponse(1.2), RandomizedResponse(1.1), answers(1.2, 0)),
    Case(RandomizedResponse(2.0, 10), RandomizedResponse(2.0, 11), answers(2.0, 8)),
    Case(DiscreteGaussian(0.7), DiscreteGaussian(0.9), integers(1, 0.7)),
    Case(DiscreteGaussian(0.9, 3, REPLACE), DiscreteGaussian(1.0, 3, REPLACE), integers(6, 2.7)),
    Case(WithoutReplacementGaussian(1.5, 0.1), WithoutReplacementGaussian(1.6, 0.1)),
    Case(BallsAndBinsGaussian(1.1, 3), BallsAndBinsGaussian(1.2, 3)),
    Case(BallsAndBinsGaussian(1.1, 3, 0.5), BallsAndBinsGaussian(1.1, 3, 0.4)),
    Case(*(TruncatedPoissonGaussian(noise, 0.2, 6, 20) for noise in (1.1, 1.2))),
    Case(*(TruncatedPoissonGaussian(noise, 0.2, 6, 20, REPLACE) for noise in (1.1, 1.2))),
    Case(*(WithReplacementGaussian(noise, 3, 8) for noise in (2.2, 2.4))),
    Case(ExponentialMechanism(1.2), ExponentialMechanism(1.1)),
    Case(ApproximateDP(1.2, 0), ApproximateDP(1.1, 0), answers(1.2, 0)),
    Case(ZeroConcentratedDP(0.3), ZeroConcentratedDP(0.2)),
    Case(*(PoissonSampled(Laplace(b), 0.2) for b in (0.8, 0.9)), sampled_laplaces(0.2, 0.8)),
    Case(GroupSampledGaussian(1.1, 0.2, 3), GroupSampledGaussian(1.2, 0.2, 3)),
    Case(NoGuarantee("labels are shown"), NoGuarantee("labels are shown")),
]

# Prices that are not known: everything else must be.
# RDP is not that of the pair, which costs more: some 1e-18 has an infinite loss, or several pairs
# are covered at once.
UNLIKE = (BallsAndBinsGaussian, ExponentialMechanism)
RDP_IS_A_BOUND = (WithoutReplacementGaussian, TruncatedPoissonGaussian, *UNLIKE)
STATED = (ApproximateDP, ZeroConcentratedDP)
NO_RDP = (GroupSampledGaussian, PoissonSampled, WithReplacementGaussian)
NO_MU = (*RDP_IS_A_BOUND, *NO_RDP, *STATED, DiscreteGaussian, ExponentialMechanism)
UNKNOWN = {
    *((kind, "gaussian_dp") for kind in NO_MU),
    *((kind, "rdp") for kind in NO_RDP),
    *((ZeroConcentratedDP, price) for price in ("profile", "privacy_loss")),
}
ORDERS = [1.0001, 1.3, 2.0, 2.5, 5.0, 17.0, 64.0, 1024.0]
EPSILONS = np.array([-8.0, -1.0, -0.2, 0.0, 0.05, 0.3, 0.9, 1.5, 2.5, 6.0])
EDGES = np.linspace(-40, 40, 3201)


def over(cases: list[Case], price: str = "rdp"):
    """The cases whose `price` is known, each named by its mechanism."""
    known = [case for case in cases if (type(case.mechanism), price) not in UNKNOWN]
    return pytest.mark.parametrize("case", known, ids=[repr(case.mechanism) for case in known])


every = over(CASES)
exact = over([case for case in CASES if case.pair is not None])
with_profile = over(CASES, "profile")
with_loss = over(CASES, "privacy_loss")
with_all = over([case for case in CASES if (type(case.mechanism), "rdp") not in UNKNOWN], "profile")
with_mu = over(CASES, "gaussian_dp")


def test_every_mechanism_has_a_case():
    found = dataclasses_with("privacy_loss")
    assert found - {Parallel, BestOf, Assuming} == {type(case.mechanism) for case in CASES}


@every
def test_prices_are_known_or_unsupported_in_one_sentence(case: Case):
    calls = {
        "profile": lambda: case.mechanism.profile([1.0]),
        "privacy_loss": lambda: case.mechanism.privacy_loss(),
        "gaussian_dp": lambda: case.mechanism.gaussian_dp(),
    }
    for price, call in calls.items():
        if (type(case.mechanism), price) in UNKNOWN:
            with pytest.raises(mechanisms.Unsupported, match=r"^[^.]{20,}[^.]$"):
                call()
        else:
            call()


@every
def test_every_accountant_has_a_finite_price_or_says_why_not(case: Case):
    def told(epsilon) -> float | str:
        try:
            return epsilon([Release(case.mechanism, 2)], delta=1e-5).epsilon
        except mechanisms.Unsupported as error:
            return str(error)

    ways = (rdp.epsilon, pld.epsilon, moments.epsilon, gdp.epsilon, composition.basic)
    for found in map(told, (*ways, composition.advanced)):
        if isinstance(found, str):
            assert len(found) > 20
        else:
            assert found > 0
            assert math.isinf(found) == isinstance(case.mechanism, NoGuarantee)


@every
def test_a_frozen_value(case: Case):
    mechanism = case.mechanism
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert hash(pickle.loads(pickle.dumps(mechanism))) == hash(mechanism)
    field = dataclasses.fields(mechanism)[0].name  # pyright: ignore[reportArgumentType]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, field, 1.0)
    assert all(isinstance(text, str) and len(text) > 10 for text in mechanism.assumptions)


@every
def test_bad_numbers_are_refused_with_their_name(case: Case):
    mechanism = case.mechanism
    for field in dataclasses.fields(mechanism):  # pyright: ignore[reportArgumentType]
        value = getattr(mechanism, field.name)
        bad: list = ["none"] if field.name == "adjacency" else [math.nan, -1, math.inf, None]
        if isinstance(value, tuple):
            bad = [(), (math.nan, *value[1:]), (*value[1:], 0.0), list(value)]
        if isinstance(value, str) and field.name != "adjacency":
            continue
        for wrong in bad:
            with pytest.raises(ValueError, match=field.name):
                dataclasses.replace(mechanism, **{field.name: wrong})  # pyright: ignore
    for order in (math.nan, 1.0, 0.5, -2.0, math.inf):
        with pytest.raises(ValueError, match="orders must be"):
            mechanism.rdp([2.0, order])
    if (type(mechanism), "profile") not in UNKNOWN:
        with pytest.raises(ValueError, match="epsilons must be"):
            mechanism.profile([1.0, math.nan])


@every
def test_rdp_is_a_number_that_grows_with_the_order(case: Case):
    found = case.mechanism.rdp(ORDERS)
    assert found.shape == (len(ORDERS),)
    assert (found > 0).all()
    assert (found[1:] >= found[:-1] * (1 - 1e-12)).all()


@every
def test_more_noise_never_costs_more(case: Case):
    assert (case.noisier.rdp(ORDERS) <= case.mechanism.rdp(ORDERS)).all()
    if (type(case.mechanism), "profile") not in UNKNOWN:
        at = np.linspace(-10, 10, 101)
        assert (case.noisier.profile(at) <= case.mechanism.profile(at) + 1e-15).all()


@exact
def test_rdp_equals_the_definition(case: Case):
    assert case.pair is not None
    for order in (1.3, 2.0, 5.0):
        expected = case.pair.renyi(order)
        assert case.mechanism.rdp([order])[0] == pytest.approx(expected, rel=1e-7)


@exact
def test_the_profile_equals_the_definition_in_both_directions(case: Case):
    assert case.pair is not None
    for epsilon in (0.0, 0.3, 0.9, 2.1):
        found = case.mechanism.profile([epsilon])[:, 0]
        assert found == pytest.approx(case.pair.delta(epsilon), rel=1e-6, abs=1e-12)


@with_profile
def test_the_profile_is_a_hockey_stick_curve(case: Case):
    """In [0, 1], falling, convex in e^epsilon, and each direction follows from the other."""
    at = np.linspace(-12, 12, 481)
    found = case.mechanism.profile(at)
    assert found.shape == (2, at.size)
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found, axis=1) <= 1e-15).all()
    ends = case.mechanism.profile([-np.inf, np.inf])
    assert (ends[:, 0] >= found[:, 0]).all()
    assert (ends[:, 1] <= found[:, -1]).all()
    slopes = np.diff(found, axis=1) / np.diff(np.exp(at))
    assert (np.diff(slopes, axis=1) >= -1e-14 / np.diff(np.exp(at))[:-1]).all()
    if not isinstance(case.mechanism, NoGuarantee):  # for disjoint pairs delta stays 1
        # H(Q, P) at e^epsilon is 1 - e^epsilon + e^epsilon H(P, Q) at e^-epsilon
        wanted = -np.expm1(at) + np.exp(at) * found[::-1, ::-1]
        np.testing.assert_allclose(found, wanted, atol=1e-10)
        np.testing.assert_allclose(found[:, at <= 0], wanted[:, at <= 0], rtol=2e-14)


@with_all
@pytest.mark.parametrize(
    ("delta", "conversion"),
    [(1e-2, "improved"), (1e-2, "optimal"), (1e-7, "improved"), (1e-7, "optimal")],
)
def test_the_epsilon_from_rdp_holds_by_the_profile(case: Case, delta: float, conversion: str):
    found = rdp.epsilon([Release(case.mechanism)], delta=delta, conversion=conversion)
    if isinstance(case.mechanism, NoGuarantee):
        assert found.epsilon == math.inf
    else:
        assert (case.mechanism.profile([found.epsilon]) <= delta * (1 + 1e-9)).all()


@with_loss
def test_the_loss_has_all_its_mass_and_each_cell_the_right_ratio(case: Case):
    """Within a cell P / Q = e^loss, so the masses' ratio lies between e^edge and e^next edge."""
    p, q = masses = case.mechanism.privacy_loss().masses(EDGES)
    assert masses.shape == (2, EDGES.size + 1)
    assert (masses >= 0).all()
    np.testing.assert_allclose(masses.sum(axis=1), 1, rtol=1e-13)
    low, high = np.exp(EDGES[:-1]), np.exp(EDGES[1:])
    assert (p[1:-1] >= low * q[1:-1] * (1 - 1e-9) - 1e-15 * (1 + low)).all()
    assert (p[1:-1] <= high * q[1:-1] * (1 + 1e-9) + 1e-15 * (1 + high)).all()
    if not isinstance(case.mechanism, NoGuarantee):
        assert p[0] <= np.exp(EDGES[0]) * q[0] + 1e-300
        assert p[-1] >= np.exp(EDGES[-1]) * q[-1]


def directions(case: Case, edges: np.ndarray):
    """(edges, masses of the first data set, of the second) looking either way."""
    p, q = case.mechanism.privacy_loss().masses(edges)
    return [(edges, p, q), (-edges[::-1], q[::-1], p[::-1])]


@with_loss
def test_the_loss_brackets_the_profile_in_both_directions(case: Case):
    """delta = E_P[max(0, 1 - e^(epsilon - loss))], with each loss at its cell's upper end; and
    the sum of cells' own excesses is that of a post-processing, so no larger."""
    for row, (edges, p, q) in enumerate(directions(case, EDGES)):
        upper_ends = np.append(edges, np.inf)
        for epsilon, delta in zip(EPSILONS, case.mechanism.profile(EPSILONS)[row], strict=True):
            above = p @ -np.expm1(np.minimum(epsilon - upper_ends, 0.0))
            below = np.maximum(p - np.exp(epsilon) * q, 0.0).sum()
            assert below <= delta + 1e-12
            assert delta <= above + 1e-12
            assert above - below <= 0.03  # the cells are 0.025 wide


@with_loss
def test_the_profile_at_an_edge_is_the_mass_beyond_it(case: Case):
    for row, (edges, p, q) in enumerate(directions(case, EPSILONS)):
        if row == 1 and case.mechanism.privacy_loss().lattice is not None:
            continue  # mirrored cells are closed on the other side; atoms may lie on an edge
        delta = case.mechanism.profile(edges)[row]
        beyond = [part[::-1].cumsum()[::-1][1:] for part in (p, q)]
        if not isinstance(case.mechanism, NoGuarantee):
            np.testing.assert_allclose(delta, beyond[0] - np.exp(edges) * beyond[1], atol=1e-12)


@with_loss
def test_merging_cells_never_shows_more(case: Case):
    """Telling fewer losses apart is post-processing."""
    for epsilon in EPSILONS:
        shown = [
            [np.maximum(p - np.exp(epsilon) * q, 0.0).sum() for _, p, q in directions(case, edges)]
            for edges in (EDGES[::every_nth] for every_nth in (1, 2, 8, 40, 400))
        ]
        for finer, coarser in itertools.pairwise(np.array(shown)):
            assert (coarser <= finer + 1e-12).all()


@with_all
def test_the_loss_gives_no_more_than_the_rdp(case: Case):
    """A = E_P[e^((alpha - 1) loss)], with each loss at its cell's lower end, either way."""
    for order in (1.3, 2.0, 5.0):
        sums = []
        for edges, p, _ in directions(case, EDGES):
            if not isinstance(case.mechanism, NoGuarantee):
                assert p[0] < 1e-3
                sums.append((p[1:] * np.exp((order - 1) * edges)).sum())
        price = case.mechanism.rdp([order])[0]
        if isinstance(case.mechanism, UNLIKE):
            continue
        assert all(np.log(total) <= (order - 1) * price + 1e-12 for total in sums)
        if isinstance(case.mechanism, RDP_IS_A_BOUND):
            continue
        # and the larger way falls short by little more than a cell's width
        assert not sums or np.log(max(sums)) >= (order - 1) * (price - 0.026) - 2e-3


@with_mu
def test_a_mu_that_is_exact_covers_the_profile(case: Case):
    mu, is_exact = case.mechanism.gaussian_dp()
    assert mu > 0
    if is_exact and math.isfinite(mu):
        at = np.linspace(-5, 8, 200)
        covering = Gaussian(1 / mu).profile(at)
        assert (case.mechanism.profile(at) <= covering * (1 + 1e-9) + 1e-14).all()

"""The moments accountant against quadrature, closed forms, and a published table."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp

from dpkit.privacy import (
    DiscreteGaussian,
    Gaussian,
    GroupedGaussian,
    Laplace,
    NoGuarantee,
    RandomizedResponse,
    Release,
    SampledGaussian,
    Unsupported,
    moments,
    parallel,
    rdp,
)
from dpkit.privacy.privacy_loss import PrivacyLoss, from_atoms

LAMBDAS = np.arange(1.0, 33.0)


class Lossy:
    """A mechanism known by its privacy loss alone."""

    adjacency = "add-remove"
    assumptions = ("made up",)

    def __init__(self, loss: PrivacyLoss):
        self.loss = loss

    def rdp(self, orders):
        raise Unsupported("known by its privacy loss alone")

    def privacy_loss(self) -> PrivacyLoss:
        return self.loss


@pytest.mark.parametrize(
    "mechanism",
    [
        SampledGaussian(1.1, 0.01),
        SampledGaussian(1.1, 0.01, "replace-one"),
        SampledGaussian(4.0, 0.5),
        SampledGaussian(20.0, 1e-3),
        SampledGaussian(1e4, 1e-4),
        Gaussian(1.1),
        Gaussian(1e5),
        Laplace(0.7),
        RandomizedResponse(1.3, 10),
        DiscreteGaussian(1.5, 2),
        GroupedGaussian(3.0, 4, 0.2),
    ],
    ids=str,
)
def test_each_moment_is_just_above_the_exact_one(mechanism):
    """alpha(lambda) = lambda D_{lambda + 1}, whose sums and quadratures are independent of ours."""
    found = moments.log_moments(mechanism, 32)
    exact = LAMBDAS * mechanism.rdp(LAMBDAS + 1)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    assert (found >= exact * (1 - 1e-10)).all()


@pytest.mark.parametrize("order", [1, 5, 24])
def test_a_moment_equals_quadrature_with_30_digits(order: int):
    q, noise = 0.01, 1.1
    with mpmath.workdps(30):
        ratio = lambda x: 1 - q + q * mpmath.exp((2 * x - 1) / (2 * mpmath.mpf(noise) ** 2))  # noqa: E731
        base = lambda x: mpmath.npdf(x, 0, noise)  # noqa: E731
        cuts = [-12 + 3 * i for i in range(18)]
        removed = mpmath.quad(lambda x: base(x) * ratio(x) ** (order + 1), cuts)
        added = mpmath.quad(lambda x: base(x) * ratio(x) ** (-order), cuts)
        expected = float(mpmath.log(max(removed, added)))
    found = moments.log_moments(SampledGaussian(noise, q), 32)[order - 1]
    assert expected * (1 - 1e-10) <= found <= expected * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [1e-5, 0.3, 5.0, 40.0])
def test_atoms_have_a_closed_form(epsilon: float):
    """Randomised response: the loss is +-epsilon, with odds exp(epsilon)."""
    odds = 1 / (1 + math.exp(-epsilon))
    coin = from_atoms(np.array([-epsilon, epsilon]), np.array([1 - odds, odds]), None)
    found = moments.log_moments(Lossy(coin), 32)
    top = epsilon * LAMBDAS
    logs = np.stack([np.log(odds) + top, -np.log1p(math.exp(epsilon)) - top])
    small = odds * np.expm1(np.minimum(top, 1)) + (1 - odds) * np.expm1(-top)  # A - 1
    expected = np.where(top < 1, np.log1p(small), logsumexp(logs, axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def exponential_tails(fall: float, rise: float) -> tuple[PrivacyLoss, float, float]:
    """P's loss has density a exp(-fall l) above 0 and b exp(rise l) below; Q's is exp(-l) of it."""
    a, b = np.linalg.solve([[1 / fall, 1 / rise], [1 / (fall + 1), 1 / (rise - 1)]], [1, 1])

    def masses(edges):
        rows = []
        for f, r in ((fall, rise), (fall + 1, rise - 1)):
            above = a / f * np.exp(-f * np.maximum(edges, 0))  # beyond an edge, on its own side
            below = b / r * np.exp(r * np.minimum(edges, 0))
            left, right = np.append(0, below), np.append(below, b / r)
            lower = right - left
            left, right = np.append(a / f, above), np.append(above, 0)
            rows.append(lower + (left - right))
        return np.stack(rows)

    return PrivacyLoss(masses), float(a), float(b)


def test_heavy_tails_have_no_moments_beyond_their_own():
    """E_P exp(lambda l) = a / (fall - lambda) + b / (rise + lambda), infinite from `fall` on."""
    loss, a, b = exponential_tails(5.0, 40.0)
    found = moments.log_moments(Lossy(loss), 8)
    lam = LAMBDAS[:4]
    removed = np.log(a / (5 - lam) + b / (40 + lam))
    added = np.log(a / (6 + lam) + b / (39 - lam))
    np.testing.assert_allclose(found[:4], np.maximum(removed, added), rtol=1e-5)
    assert (found[:4] >= removed * (1 - 1e-10)).all()
    assert np.isinf(found[4:]).all()
    turned, a, b = exponential_tails(40.0, 4.0)  # the dearer direction is the reverse
    found = moments.log_moments(Lossy(turned), 4)
    np.testing.assert_allclose(found[:2], np.log(a / (41 + lam[:2]) + b / (3 - lam[:2])), rtol=1e-5)
    assert np.isinf(found[2:]).all()


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("mass", [0.3, 1e-12, 1e-305])
def test_infinite_loss_in_either_direction_has_no_moment(side: int, mass: float):
    def masses(edges):
        out = from_atoms(np.zeros(1), np.ones(1), None).masses(edges) * (1 - mass)
        out[side, -1 if side == 0 else 0] += mass
        return out

    assert np.isinf(moments.log_moments(Lossy(PrivacyLoss(masses)), 4)).all()


@pytest.mark.parametrize("noise", [0.12, 0.2, 0.7])
@pytest.mark.parametrize("sensitivity", [1, 4])
def test_no_step_of_a_lattice_is_left_out(noise: float, sensitivity: int):
    """Few atoms have a mass that a number can hold; the moments of the rest are bounded."""
    mechanism = DiscreteGaussian(noise, sensitivity)
    found = moments.log_moments(mechanism, 32)
    assert (found >= LAMBDAS * mechanism.rdp(LAMBDAS + 1) * (1 - 1e-10)).all()
    assert np.isfinite(found[:2]).all()


def test_little_noise_ends_in_infinity_not_in_a_small_moment():
    for noise in (1e-9, 0.02, 0.03, 0.1):
        found = moments.log_moments(Gaussian(noise), 32)
        exact = LAMBDAS * Gaussian(noise).rdp(LAMBDAS + 1)
        assert (found >= exact * (1 - 1e-10)).all()
    assert np.isfinite(moments.log_moments(Gaussian(0.1), 2)).all()


# Zhang, Ji, Wang 2018, Table 7. Each iteration takes 4 critic steps, each charged once per clipped
# group: one per tensor before grouping, and after it the biases share one (the last layer has
# none). Every 10th iteration the loop stops if delta at the target epsilon is above 1e-5.
TABLE_7 = [  # target epsilon, epsilon_0, batch, private examples, moments, {groups: iterations}
    ("MNIST", 4, 4, 256, 49_000, 24, {7: 560, 5: 780}),
    ("CelebA", 10, 8, 192, 198_547, 13, {7: 2910, 5: 4070}),
    ("LSUN-L", 10, 10, 256, 2_450_000, 13, {9: 15010, 7: 19300}),
    ("LSUN-U", 10, 10, 256, 2_973_000, 13, {9: 24630, 7: 31670}),
]


@pytest.mark.parametrize("row", TABLE_7, ids=[row[0] for row in TABLE_7])
def test_the_iterations_of_dpgan_table_7(row):
    _, target, epsilon_0, batch, private, orders, cells = row
    noise = math.sqrt(2 * math.log(1.25 / 1e-4)) / epsilon_0
    mechanism = SampledGaussian(noise, batch / private)
    for groups, iterations in cells.items():
        found = moments.exceeded_at(
            [Release(mechanism, 4 * groups)],
            target_epsilon=target,
            target_delta=1e-5,
            every=10,
            moments=orders,
        )
        assert found == iterations


def test_the_iteration_before_is_not_exceeded():
    one, orders = SampledGaussian(4.0, 0.3), {"target_epsilon": 2.0, "target_delta": 1e-5}
    found = moments.exceeded_at([Release(one, 2)], **orders)
    for count, exceeded in ((found - 1, False), (found, True)):
        spent = moments.delta([Release(one, 2 * count)], epsilon=2.0).delta
        assert (spent > 1e-5) == exceeded


def test_exceeded_at_the_first_iteration_and_never():
    def at(ledger):
        return moments.exceeded_at(ledger, target_epsilon=1.0, target_delta=1e-5)

    assert at([Release(Gaussian(0.5))]) == 1
    with pytest.raises(ValueError, match="costs nothing"):
        at([Release(SampledGaussian(1.0, 0.0))])


def test_epsilon_is_the_classic_conversion_at_integer_orders():
    ledger = [Release(SampledGaussian(1.1, 0.01), 2000), Release(Gaussian(20.0), 3)]
    spent = moments.epsilon(ledger, delta=1e-5)
    by_rdp = rdp.epsilon(ledger, delta=1e-5, conversion="classic", orders=LAMBDAS + 1)
    assert spent.epsilon == pytest.approx(by_rdp.epsilon, rel=1e-6)
    assert spent.epsilon >= by_rdp.epsilon
    back = moments.delta(ledger, epsilon=spent.epsilon)
    assert back.delta == pytest.approx(1e-5, rel=1e-9)
    assert spent.method.startswith("moments accountant (Abadi et al. 2016, Thm 2), moment ")
    assert spent.lower == 0
    fewer = moments.epsilon(ledger, delta=1e-5, moments=3, assumptions=("public size",))
    assert fewer.epsilon > spent.epsilon
    assert fewer.assumptions[1:] == ("public size",)


def test_never_below_the_exact_gaussian():
    for noise, delta in ((0.5, 1e-10), (3.0, 0.01), (50.0, 1e-5)):
        for count in (1, 40):
            spent = moments.epsilon([Release(Gaussian(noise), count)], delta=delta).epsilon
            assert Gaussian(noise / math.sqrt(count)).profile([spent]).max() <= delta


def test_releases_of_one_mechanism_add_up_and_zero_counts_cost_nothing():
    one = SampledGaussian(2.0, 0.1)
    _, apart = moments.curve([Release(one, 2), Release(one, 3), Release(NoGuarantee("x"), 0)], 8)
    np.testing.assert_array_equal(apart, 5 * moments.log_moments(one, 8))
    for ledger in ([], [Release(one, 0)], [Release(SampledGaussian(2.0, 0.0), 7)]):
        assert moments.epsilon(ledger, delta=1e-5).epsilon == 0
        assert moments.delta(ledger, epsilon=1.0).delta == 0


def test_no_guarantee_is_infinite_and_unknown_losses_are_refused():
    ledger = [Release(Gaussian(1.0)), Release(NoGuarantee("raw labels"))]
    assert moments.epsilon(ledger, delta=1e-5).epsilon == math.inf
    assert moments.delta(ledger, epsilon=9.0).delta == 1
    assert moments.delta([Release(Gaussian(1.0))], epsilon=1e6).delta > 0  # rounded up, not to 0
    with pytest.raises(Unsupported):
        moments.epsilon(parallel([Release(Gaussian(1.0))]), delta=1e-5)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_failed_computation_is_an_exception():
    good = Gaussian(1.0).privacy_loss().masses
    broken = Lossy(PrivacyLoss(lambda edges: good(edges) * (1 if edges.size == 1 else math.nan)))
    with pytest.raises(ArithmeticError, match="not numbers >= 0"):
        moments.epsilon([Release(broken)], delta=1e-5)
    broken = Lossy(PrivacyLoss(lambda edges: good(edges) * math.nan))
    assert moments.epsilon([Release(broken)], delta=1e-5).epsilon == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: moments.epsilon(x, delta=0.0), r"delta must lie in \(0, 1\)"),
        (lambda x: moments.epsilon(x, delta=math.nan), "ends excluded, got nan"),
        (lambda x: moments.delta(x, epsilon=-1.0), "epsilon must be a finite number >= 0"),
        (lambda x: moments.epsilon(x, delta=0.1, moments=0), "moments must be an integer >= 1"),
        (lambda x: moments.log_moments(x[0].mechanism, 2.5), "moments must be an integer >= 1"),
        (lambda x: moments.epsilon([x[0].mechanism], delta=0.1), "a ledger holds Release"),
        (
            lambda x: moments.epsilon([*x, Release(Gaussian(1.0, "replace-one"))], delta=0.1),
            "one adjacency",
        ),
        (
            lambda x: moments.exceeded_at(x, target_epsilon=0.0, target_delta=0.1),
            "target_epsilon must be a finite number > 0",
        ),
        (
            lambda x: moments.exceeded_at(x, target_epsilon=1.0, target_delta=0.1, every=0),
            "every must be an integer >= 1",
        ),
    ],
)
def test_bad_values_are_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call([Release(Gaussian(1.0))])

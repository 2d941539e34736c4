"""Bounds from the canaries of one run: the theorem's sums, coverage with real coins, and power."""

from math import comb, exp

import numpy as np
import pytest
from curves import ASKED, GAUSSIANS, NULLS, OTHERS, SURE, Curve, allowed, gaussian, mu_at, some

from dpkit.audit import one_run as one_run_module
from dpkit.audit.bounds import NORMAL
from dpkit.audit.one_run import STEEP, Guesses, one_run, one_run_fdp, refuted_fdp, tails, tails_near

DELTA = 1e-3
ONE_CURVE = "a bound above the truth of this one curve"
BOTH = pytest.mark.parametrize("bound", [one_run, one_run_fdp], ids=lambda bound: bound.__name__)
LEAST = {one_run: {1: 0.25, 4: 1.8, 8: 3.5}, one_run_fdp: {1: 0.45, 4: 2.35, 8: 4.9}}


def naive(canaries: int, made: int, correct: int, epsilon: float) -> tuple[float, float]:
    """beta and alpha of Steinke, Nasr, Jagielski 2023, Thm 5.2: every i, every sum written out."""
    rate = exp(epsilon) / (1 + exp(epsilon))
    chances = [comb(made, k) * rate**k * (1 - rate) ** (made - k) for k in range(made + 1)]
    beta = sum(chances[correct:])
    parts = (sum(chances[max(correct - i, 0) : correct]) / i for i in range(1, canaries + 1))
    return beta, max(parts)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5, 6.0])
@pytest.mark.parametrize(
    "counts",
    [(1, 1, 1), (1, 1, 0), (9, 0, 0), (50, 50, 25), (200, 30, 30), (300, 120, 71), (400, 400, 390)],
)
def test_tails_equal_the_naive_sums(counts: tuple[int, int, int], epsilon: float):
    assert tails(Guesses(*counts), epsilon) == pytest.approx(naive(*counts, epsilon), abs=1e-9)


def test_p_value_of_numbers_chosen_by_the_output_is_never_less_and_rises():
    """Never less than the theorem's for a fixed number of guesses; below 1/2 both rise."""
    rng, epsilons = np.random.default_rng(2), np.linspace(0, 8, 81)
    for _ in range(60):
        made = int(rng.integers(1, 300))
        correct = int(rng.integers((made + 1) // 2, made + 1))
        delta = min(10 ** rng.uniform(-6, 0), 0.9)
        counts = Guesses(2 * made, np.full(81, made), np.full(81, correct))
        beta, alpha = tails(counts, epsilons)
        excess = 2 * counts.canaries * delta
        fixed = beta + excess * alpha
        chosen = one_run_module.p_value_chosen(counts, epsilons, delta)
        assert (chosen >= fixed * (1 - 1e-9)).all()
        assert chosen == pytest.approx((1 + STEEP * excess) * np.maximum(beta, alpha / STEEP))
        for values in (fixed, chosen):
            below = values < 0.5
            assert not (np.diff(below.astype(int)) > 0).any()
            assert (np.diff(values[below]) >= -1e-12).all()


def most_by_linear_program(canaries: int, made: int, correct: int, mu: float) -> float:
    """The largest chance of so many correct guesses that the theorem's inequalities allow.

    Over (p_0, ..., p_c'), with 1 - f as the least of its tangents at 60 points: from above.
    """
    from scipy.optimize import linprog
    from scipy.special import ndtr

    i = np.arange(made + 1)
    rows, limits = [], []
    for k in range(1, correct + 1):  # right_k <= (1 - f)(wrong_(k-1)); 1 - f is concave
        right, wrong = np.where(i >= k, i, 0) / canaries, np.where(i >= k - 1, made - i, 0)
        for at in np.linspace(-6, 3, 60):
            slope = np.exp(-((at + mu) ** 2) / 2 + at * at / 2)
            rows.append(right - slope * wrong / canaries)
            limits.append(ndtr(at + mu) - slope * ndtr(at))
    found = linprog(
        -(i >= correct).astype(float), A_ub=rows, b_ub=limits, A_eq=[np.ones(made + 1)], b_eq=[1]
    )
    return -found.fun


@pytest.mark.parametrize("mu", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("counts", [(30, 10, 9), (30, 30, 22), (12, 12, 12), (40, 20, 15)])
def test_f_dp_recursion_against_a_linear_program(counts: tuple[int, int, int], mu: float):
    """The recursion refutes just above the largest probability that the inequalities allow."""
    most = most_by_linear_program(*counts, mu)
    assert not refuted_fdp(Guesses(*counts), mu, 0.9 * most)
    if 1.1 * most < 1:
        assert refuted_fdp(Guesses(*counts), mu, 1.1 * most)


@BOTH
def test_nothing_is_found_where_nothing_differs(bound):
    """300 repetitions, 2 to 10,000 canaries; fails with probability 1e-6 at most."""
    rng = np.random.default_rng(3)
    found = [
        bound(*curve.canaries(rng, size), **ASKED, rng=rng).epsilon
        for curve in NULLS
        for size in [2, 4, 10, 30, 100, 400, 1_000] * 7 + [10_000]
    ]
    assert np.count_nonzero(found) <= allowed(len(found))


@pytest.mark.parametrize("curve", some(GAUSSIANS + OTHERS, kept=OTHERS[3:], fault=ONE_CURVE))
def test_at_most_the_truth(curve: Curve):
    """60 repetitions; fails with probability 1e-6, and with 60 * 1e-9 by the surer bound."""
    rng, truth = np.random.default_rng(4), curve.epsilon(DELTA)
    over, asked = 0, ASKED | {"delta": DELTA, "rng": rng}
    for _ in range(60):
        scores = curve.canaries(rng, 500)
        over += one_run(*scores, **asked).epsilon > truth
        assert one_run(*scores, **asked, confidence=SURE).epsilon <= truth
    assert over <= allowed(60)


@pytest.mark.parametrize("curve", some(GAUSSIANS, kept=GAUSSIANS[:1], fault=ONE_CURVE))
def test_f_dp_is_at_most_the_truth_of_gaussian_curves(curve: Curve):
    """200 repetitions; fails with probability 1e-6, and with 200 * 1e-9 by the surer bound."""
    rng, truth, over = np.random.default_rng(5), curve.epsilon(1e-5), 0
    for _ in range(200):
        scores = curve.canaries(rng, 1_000)
        over += one_run_fdp(*scores, **ASKED, rng=rng).epsilon > truth
        assert one_run_fdp(*scores, **ASKED, rng=rng, confidence=SURE).epsilon <= truth
    assert over <= allowed(200)


@BOTH
@pytest.mark.parametrize("truth", [1, 4, 8])
def test_power_with_10_000_canaries(bound, truth: int):
    """The median of nine seeds."""
    curve, found = gaussian(mu_at(truth)), []
    for rng in map(np.random.default_rng, range(9)):
        found.append(bound(*curve.canaries(rng, 10_000), **ASKED, rng=rng).epsilon)
    assert LEAST[bound][truth] <= np.median(found) <= truth


def test_tied_scores_do_not_tell_the_coins():
    """All scores alike: the guesses are coin tosses; an order by world would be right always."""
    asked = ASKED | {"rng": np.random.default_rng(6), "inside": 0.5, "outside": 0.5}
    assert one_run_fdp(np.zeros(500), np.zeros(500), **asked).epsilon == 0


def test_canaries_are_split_without_regard_to_their_coins():
    rng = np.random.default_rng(7)
    sizes = [
        one_run_module.split_canaries(np.zeros(30), np.ones(50), share=0.25, rng=rng)[0]
        for _ in range(40)
    ]
    assert {one.absent.size + one.present.size for one in sizes} == {20}
    assert len({one.absent.size for one in sizes}) > 3


def test_what_is_assumed_is_said():
    scores = gaussian(1.0).canaries(np.random.default_rng(8), 100)
    one = one_run(*scores, **ASKED, rng=np.random.default_rng())
    assert "fair coin" in one.assumptions[0]
    assert one.trials == 100
    by_fdp = one_run_fdp(*scores, **ASKED, rng=np.random.default_rng())
    assert by_fdp.assumptions == (*one.assumptions, NORMAL)


def test_more_terms_are_taken_where_the_first_do_not_decide():
    """With few terms alpha may be too small; `tails` sees that, and takes more."""
    counts = Guesses(3_000, 3_000, 2_000)
    near, whole = tails_near(counts, 0.62)[1], tails_near(counts, 0.62, 2_000)[1]
    assert tails(counts, 0.62)[1] == pytest.approx(whole, rel=1e-12)
    assert near < whole

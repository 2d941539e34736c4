"""The numbers behind the claims: the paper's statements beside the kit's proofs.

Epsilons are in nats. Theorem 1 is for lots drawn without replacement under replace-one; the rest
is under add-remove unless it says so.

What Algorithm 1's history of raw gradients gives away (claim `raw-history-leak`) is seen on two
data sets that differ in a record. The loss is linear: every record's gradient is itself.
"""

import math
from functools import cache, partial

import numpy as np
from scipy.integrate import quad, simpson

from dpkit.common import checks
from dpkit.papers.adadp import example, pca, theorems
from dpkit.papers.adadp.settings import ADADP, PUBLIC_SIZE
from dpkit.papers.adadp.theorems import Theorem1
from dpkit.privacy import (
    DiagonalGaussian,
    Gaussian,
    Release,
    SampledGaussian,
    WithoutReplacementGaussian,
    gdp,
)
from dpkit.privacy.mechanisms import Floats

# beta, gamma', G and C (section IV)
BETA, HISTORY, THRESHOLD, NORM = 1.2, 0.9, 1e-6, 4.0
# Coordinates: one that a single record moves, and one that none does
ONLY, NOBODY = 2, 3
OTHERS = np.tile([1.0, 0.5, 0.0, 0.0], (99, 1))  # gradients of 99 records


def second_noise(first: Floats, *, expected: float) -> Floats:
    """Deviations of the second step's noise over sigma_*, (m,), by Algorithm 1's lines 6 to 23.

    The history is of a lot's mean; another scale of it, or noise on every example, leaves 0 as 0.

    Args:
        first: gradients of the first lot, (any number, m).
        expected: expected lot size L, > 0.
    """
    checks.positive(expected=expected)
    root = np.sqrt(1 - HISTORY) * np.abs(first.sum(axis=0)) / expected
    if root.var() > THRESHOLD:
        return math.sqrt(root.size) * BETA * root
    return np.full(root.size, NORM)


def epsilon(sample_rate: float, *, delta: float) -> float:
    """Epsilon of releasing two noised sums or more, from the two data sets.

    Infinite if, after the switch, the second step has noise at the record's coordinate and none
    where nobody has a gradient, only with the record in the first lot, and that is likelier than
    delta: then p <= e^epsilon 0 + delta for no epsilon. Else 0, which proves nothing.
    """
    # With one record more, and without
    lots = (np.vstack([OTHERS, [0.5, 0.5, 1.0, 0.0]]), OTHERS)
    noises = [second_noise(lot, expected=len(OTHERS)) for lot in lots]
    seen = [bool(one[ONLY] > 0 and one[NOBODY] == 0) for one in noises]
    return math.inf if seen == [True, False] and sample_rate > delta else 0.0


DELTA = ADADP.target_delta  # of Theorem 1's example as well
# After Theorem 1's proof
EXAMPLE_RATE, EXAMPLE_NOISE, EXAMPLE_STEPS = 600 / 60_000, 0.9, 1_800
# 0.5, with sigma_* 8, sigma_p 16 and lots of 600
HIGH_PRIVACY = ADADP.target_epsilon
HIGH_NOISE, HIGH_PCA_NOISE = ADADP.noise_multiplier, 16.0
MNIST_RATE = ADADP.lot / PUBLIC_SIZE
# Section IV-C; 40 epochs
CIFAR_NOISE, CIFAR_RATE, CIFAR_STEPS = 6.0, 2_000 / 50_000, 1_000
TRIALS = 1_000  # random releases on which Lemma 1 is tried
TABLE_1 = {  # data set -> (epsilon_D of DpSgd, epsilon_A of AdaDP) at each accuracy
    "MNIST": ((1.10, 1.61, 1.96, 5.48), (0.75, 0.78, 0.80, 1.40)),
    "CIFAR-10": ((0.89, 1.85, 4.75, 8.36), (0.62, 1.07, 2.13, 3.55)),
}
TABLE_1_DELTA = 1e-4


def lemma_1_exceeded() -> float:
    """Number of 1,000 random releases that meet Lemma 1's condition with a larger delta.

    Delta is computed from the loss itself, E[max(0, 1 - e^(epsilon - loss))] by quadrature over
    its normal law, not by the lemma's formula; the one Gaussian's is exact.
    """
    rng = np.random.default_rng(0)
    exceeded = 0
    for _ in range(TRIALS):
        dimensions = rng.integers(1, 6)
        sensitivities = rng.lognormal(0, 1, dimensions)
        stds = rng.lognormal(0, 1, dimensions)
        sigma = float(np.exp(rng.uniform(-1, 2)))
        # Of 1 / sigma_*^2; often all of it
        share = rng.choice([1.0, rng.uniform(0.1, 1)])
        fitted = example.to_one_level(
            list(sensitivities), list(stds), noise_multiplier=sigma / math.sqrt(share)
        )
        h = example.privacy_used(list(sensitivities), fitted)
        epsilon = float(rng.uniform(0, 4 / sigma))
        allowed = math.exp(gdp.log_delta(1 / sigma, epsilon))
        exceeded += not delta_of_loss(h, epsilon) <= allowed * (1 + 1e-9) + 1e-12
    return float(exceeded)


def delta_of_loss(h: float, epsilon: float) -> float:
    """Delta of a privacy loss of N(h / 2, h) by its definition, by Simpson's rule."""
    root = math.sqrt(h)
    low = (epsilon - h / 2) / root  # below it the loss is at most epsilon
    z = np.linspace(max(low, -9.0), max(low, -9.0) + 20.0, 4_001)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    heights = -np.expm1(np.minimum(epsilon - h / 2 - root * z, 0.0)) * density
    return float(simpson(heights, x=z))


def exponent_of_h() -> float:
    """The exponent of H in dA / dH beyond 1 / (4 sqrt(H)), by differences of A itself."""
    epsilon, points = 1.0, np.array([0.5, 2.0])
    beyond = []
    for h in points:
        step = 1e-4 * h
        upper, lower = (
            theorems.limits(float(at), epsilon=epsilon)[0] for at in (h + step, h - step)
        )
        beyond.append((upper - lower) / (2 * step) - 1 / (4 * math.sqrt(h)))
    return float(np.diff(np.log(beyond))[0] / np.diff(np.log(points))[0])


def least_slope() -> float:
    """The least derivative of the profile in H, over a grid, with the exponent as printed."""
    return min(
        theorems.profile_slope(float(h), epsilon=float(epsilon), exponent=theorems.PRINTED)
        for h in np.geomspace(0.25, 16, 25)
        for epsilon in np.linspace(0, 2, 9)
    )


def cosine_lead(*, noise_multiplier: float = example.NOISE_MULTIPLIER) -> float:
    """Mean cosine of the adaptive noise less that of the uniform noise, by quadrature.

    Both at the price of one Gaussian of `noise_multiplier`.
    """
    adaptive, uniform = (
        example.exact_mean_cosine(
            example.VALUES,
            example.to_one_level(
                example.SENSITIVITIES, example.PRINTED[name], noise_multiplier=noise_multiplier
            ),
        )
        for name in ("adaptive", "uniform")
    )
    return adaptive - uniform


@cache
def theorem_1(noise_multiplier: float, sample_rate: float) -> Theorem1:
    """Theorem 1 at a noise and a rate, computed once."""
    return Theorem1(noise_multiplier, sample_rate=sample_rate)


def example_epsilon() -> theorems.Best:
    """Theorem 1 on the paper's own example."""
    return theorem_1(EXAMPLE_NOISE, EXAMPLE_RATE).epsilon(EXAMPLE_STEPS, delta=DELTA)


EXAMPLE = [Release(SampledGaussian(EXAMPLE_NOISE, EXAMPLE_RATE), EXAMPLE_STEPS)]
FIXED_SIZE = [Release(WithoutReplacementGaussian(EXAMPLE_NOISE, EXAMPLE_RATE), EXAMPLE_STEPS)]


def footnote_difference() -> float:
    """The largest relative difference between footnote 1 and a Gaussian's own moments.

    The moments are integrals here, over the loss's normal density; their logs are linear in H.
    """
    worst = 0.0
    for epsilon, delta, moment in ((0.5, 1e-5, 80.0), (2.0, 1e-5, 12.0), (8.0, 1e-3, 1.0)):
        per_h = log_moment(0.5, moment) / 0.5
        solved = (moment * epsilon + math.log(delta)) / per_h
        printed = theorems.footnote_1(epsilon, delta=delta, moment=moment)
        worst = max(worst, abs(printed / solved - 1))
    return worst


def log_moment(h: float, moment: float) -> float:
    """log E[e^(moment loss)] of a privacy loss of N(h / 2, h), by quadrature."""
    root = math.sqrt(h)
    peak = moment * root  # where the integrand is largest

    def scaled(z: float) -> float:
        exponent = moment * root * z - z * z / 2 - peak * peak / 2
        return math.exp(exponent) / math.sqrt(2 * math.pi)

    area = quad(scaled, peak - 12, peak + 12, epsabs=0, epsrel=1e-12)[0]
    return moment * h / 2 + peak * peak / 2 + math.log(area)


def reduction(*data_sets: str) -> float:
    """Average of 1 - epsilon_A / epsilon_D over the rows of Table I."""
    rows = [pair for name in data_sets for pair in zip(*TABLE_1[name], strict=True)]
    return float(np.mean([1 - own / other for other, own in rows]))


def rdp_difference() -> float:
    """The largest relative gap of Renyi DP between sigma_* 1 and noise shaped to cost it."""
    s, orders = example.SENSITIVITIES, theorems.ORDERS
    shapes = (example.shaped(s, power=p, noise_multiplier=1) for p in example.POWERS.values())
    costs = [DiagonalGaussian(tuple(np.divide(one, s))).rdp(orders) for one in shapes]
    return float(np.abs(np.divide(costs, Gaussian(1.0).rdp(orders)) - 1).max())


def least_sum_power() -> float:
    """The p at which sigma_i ~ s_i^p has the least sum at one level, to 0.001."""
    of = partial(example.shaped, example.SENSITIVITIES, noise_multiplier=1)
    return min(np.arange(-1, 1, 0.001).tolist(), key=lambda power: sum(of(power=power)))


def table_1_epochs(name: str) -> list[list[float]]:
    """Epochs of DpSgd's and of AdaDP's runs of Table I, if Theorem 1 gave their epsilons."""
    noise, rate = {"MNIST": (3.0, MNIST_RATE), "CIFAR-10": (4.0, CIFAR_RATE)}[name]
    steps = partial(theorem_1(noise, rate).steps, delta=TABLE_1_DELTA)
    return [[steps(epsilon) * rate for epsilon in row] for row in TABLE_1[name]]


def least_delta(steps: int) -> float:
    """Theorem 1's delta_* after these steps at the high privacy level of MNIST."""
    per_order = steps * theorem_1(HIGH_NOISE, MNIST_RATE).step - HIGH_PRIVACY
    return math.exp(((theorems.ORDERS - 1) * per_order).min())


@cache
def high_privacy_steps(noise_multiplier: float = HIGH_NOISE) -> int:
    """Steps that Theorem 1 allows at the high privacy level of MNIST."""
    return theorem_1(noise_multiplier, MNIST_RATE).steps(HIGH_PRIVACY, delta=DELTA)


def high_privacy_epsilon(noise_multiplier: float) -> float:
    """Theorem 1's epsilon of as many steps at another noise."""
    theorem = theorem_1(noise_multiplier, MNIST_RATE)
    return theorem.epsilon(high_privacy_steps(), delta=DELTA).epsilon


def pca_epsilon(noise_multiplier: float, *, delta: float = DELTA) -> float:
    """The exact epsilon of DP-PCA alone, a record added or removed."""
    return gdp.epsilon([Release(pca.release(noise_multiplier))], delta=delta).epsilon


def stopping_epsilon() -> float:
    """Epsilon of the test images from the stopping time, on two sets that differ in one image.

    With one right answer less a run goes on, with certainty: "it stopped" has the chances 1 and 0.
    """
    stops = [correct / 10_000 >= 0.96 for correct in (9_600, 9_599)]
    return math.inf if stops[0] != stops[1] else 0.0

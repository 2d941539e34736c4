"""What is refused, by name and with what is allowed instead: parameters, ledgers, results.

Wrong numbers in each field of each mechanism are in test_contracts.py too.
"""

import math
import random
from functools import partial

import numpy as np
import pytest

from dpkit.privacy import SampledGaussian, as_drawn, calibrate, groups, schedules, tradeoff
from dpkit.privacy.accountants import composition, gdp, moments, pld, rdp
from dpkit.privacy.accountants.filters import RenyiFilter, best_order, budget
from dpkit.privacy.best_of import NumberOfRuns, best_of
from dpkit.privacy.ledger import Release, parallel
from dpkit.privacy.mechanisms import DiscreteGaussian, Gaussian, GaussianDp, GroupedGaussian
from dpkit.privacy.mechanisms.balls_and_bins import BallsAndBinsGaussian
from dpkit.privacy.mechanisms.base import NoGuarantee, Unsupported
from dpkit.privacy.mechanisms.discrete_gaussian import bernoulli_exp, discrete_laplace, sample
from dpkit.privacy.mechanisms.poisson_sampled import PoissonSampled
from dpkit.privacy.mechanisms.pure import Laplace, RandomizedResponse
from dpkit.privacy.mechanisms.sampled_gaussian import DiagonalGaussian, GroupSampledGaussian
from dpkit.privacy.mechanisms.truncated_poisson import TruncatedPoissonGaussian
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian, printed_bound
from dpkit.privacy.sampling import (
    SHUFFLED_AS_POISSON,
    FixedSizeBatches,
    PoissonSampling,
    ShuffledBatches,
    TruncatedPoisson,
    mechanism,
    sample_rate,
)
from dpkit.privacy.schedules import Constant, ExponentialDecay, Linear, StepDecay, noise_ledger

NAN, INF, REPLACE = math.nan, math.inf, "replace-one"
ONE, OTHER = [Release(Gaussian(1.0))], Release(Gaussian(1.0, REPLACE))
BY_EPSILON = [rdp.delta, pld.delta, moments.delta, gdp.delta]
BY_DELTA = [rdp.epsilon, pld.epsilon, moments.epsilon, gdp.epsilon]
BY_DELTA += [composition.basic, composition.advanced, partial(groups.epsilon, group_size=2)]
RUN = {"sample_rate": 0.1, "steps": 1, "delta": 1e-5}
ANY = random.Random(0)


@pytest.mark.parametrize("price", BY_DELTA)
def test_what_delta_and_counts_an_accountant_takes(price):
    for delta in (0.0, 1.0, NAN):
        if delta == 0 and price in (pld.epsilon, composition.basic):  # pure DP alone has a price
            assert price(ONE, delta=0.0).epsilon == INF
            continue
        with pytest.raises(ValueError, match=rf"delta must lie in \(0, 1\), ends.* got {delta}"):
            price(ONE, delta=delta)
    for count in (1.5, -1, NAN):
        with pytest.raises(ValueError, match=f"count must be an integer >= 0, got {count}"):
            price([Release(Gaussian(1.0), count)], delta=0.1)
    with pytest.raises(ValueError, match="ledger must hold Release"):
        price([Gaussian(1.0)], delta=0.1)
    with pytest.raises(ValueError, match="one adjacency, got add-remove and replace-one"):
        price([*ONE, OTHER], delta=0.1)


@pytest.mark.parametrize("price", BY_EPSILON)
@pytest.mark.parametrize("epsilon", [-1.0, NAN, INF])
def test_what_epsilon_an_accountant_takes(price, epsilon):
    with pytest.raises(ValueError, match=f"epsilon must be a finite number >= 0, got {epsilon}"):
        price(ONE, epsilon=epsilon)


class Broken(Gaussian):
    """A mechanism whose computations fail."""

    def rdp(self, orders):
        return np.full(np.shape(np.atleast_1d(orders)), NAN)

    def profile(self, epsilons):
        return np.full((2, len(epsilons)), NAN)

    def gaussian_dp(self):
        return GaussianDp(NAN, exact=True)


BROKEN = [Release(Broken(1.0))]


def filtered(**changed):
    return RenyiFilter(**{"order": 2.0, "budget": 1.0, "delta": 1e-5, **changed})


def target(epsilon, **changed):
    return calibrate.noise_multiplier(epsilon, **RUN | changed)


def exceeded(**changed):
    return moments.exceeded_at(ONE, **{"target_epsilon": 2.0, "target_delta": 1e-5, **changed})


def shuffled(noise=1.0, n=9, assume=(SHUFFLED_AS_POISSON,)):
    return mechanism(ShuffledBatches(3), noise_multiplier=noise, public_size=n, assume=assume)


def passes(n, delta):
    return ShuffledBatches(3).guarantee(noise_multiplier=1.0, public_size=n, steps=3, delta=delta)


def scheduled(schedule):
    return noise_ledger(schedule, steps=20, release=partial(SampledGaussian, sample_rate=0.01))


def unpriced(_):
    raise Unsupported("no price is known of this")


def drawn(way):
    return as_drawn.DrawnRun(1.0, 101, 100, 1).guarantee(way, delta=1e-5)


MECHANISMS = [
    (lambda: Gaussian(NAN), "noise_multiplier must be a finite number > 0, got nan"),
    (lambda: Gaussian(0.0), "noise_multiplier must be a finite number > 0, got 0.0"),
    (lambda: Gaussian("1"), "noise_multiplier must be a number, got '1'"),
    (lambda: Gaussian(1.0, "add"), "adjacency must be one of add-remove, replace-one"),
    (lambda: Gaussian(1.0).rdp([]), "orders must be a non-empty list"),
    (lambda: SampledGaussian(1.0, 3.0), r"sample_rate must lie in \[0, 1\], got 3.0"),
    (lambda: DiagonalGaussian(2.0), "noise_multipliers must be a non-empty tuple"),
    (lambda: DiagonalGaussian((1.0, NAN)), r"noise_multipliers\[1\] must be a finite"),
    (lambda: DiagonalGaussian((1e14,)), r"noise_multipliers\[0\] must lie in"),
    (lambda: DiagonalGaussian((1e-9, 1e-9)), "noise_multiplier must lie in"),
    (lambda: GroupedGaussian(1.0, 2.0), "groups must be an integer >= 1, got 2.0"),
    (lambda: GroupedGaussian((1.0,), 2), "one number for each of the 2 groups, got 1"),
    (lambda: GroupedGaussian(1.0, 2, 1.5), r"sample_rate must lie in \[0, 1\], got 1.5"),
    (lambda: GroupSampledGaussian(1.0, 0.1, 1.5), "group_size must be"),
    (lambda: GroupSampledGaussian(1.0, 0.1, 4097), "group_size must be"),
    (lambda: PoissonSampled(GroupSampledGaussian(1.0, 0.1, 3), 0.1), "must be of one record"),
    (lambda: PoissonSampled(TruncatedPoissonGaussian(1.0, 0.1, 2, 5), 0.1), "how many records"),
    (lambda: PoissonSampled(Laplace(1.0, REPLACE), 0.1), "of one record under add-remove"),
    (lambda: GroupSampledGaussian(2e6, 0.1, 2), "noise_multiplier must"),
    (lambda: Laplace(1e14), r"scale must lie in \[1e-9, 1e13\]"),
    (lambda: RandomizedResponse(1e10), "epsilon must lie in"),
    (lambda: RandomizedResponse(1.0, 1), "categories must be an integer >= 2, got 1"),
    (lambda: RandomizedResponse(1.0, 2.5), "categories must be an integer >= 2, got 2.5"),
    (lambda: RandomizedResponse(1.0, 2, "add-remove"), "adjacency must be one of replace-one"),
    (lambda: DiscreteGaussian(1.0, 1.5), "sensitivity must be an integer >= 1, got 1.5"),
    (lambda: DiscreteGaussian(1e10, 10**6), r"noise_multiplier \* sensitivity must be at most"),
    (lambda: sample(-1, variance=1, rng=ANY), "size must be an integer >= 0"),
    (lambda: sample(1, variance=0, rng=ANY), "variance must be an int or Fraction"),
    (lambda: sample(1, variance=0.5, rng=ANY), "Fraction > 0, got 0.5"),
    (lambda: sample(1, variance=NAN, rng=ANY), "Fraction > 0, got nan"),
    (
        lambda: sample(1, variance=1, rng=np.random.default_rng(1)),
        "rng must have randrange, got Generator",
    ),
    (lambda: discrete_laplace(0, rng=ANY), "scale must be an integer >= 1, got 0"),
    (lambda: bernoulli_exp(-1, 2, rng=ANY), "numerator must be an integer >= 0"),
    (lambda: bernoulli_exp(1, 0, rng=ANY), "denominator must be an integer >= 1"),
    (lambda: WithoutReplacementGaussian(1e14, 0.1), "noise_over_sensitivity must lie in"),
    (lambda: WithoutReplacementGaussian(1.0, 1.1), r"sample_rate must lie in \[0, 1\], got 1.1"),
    (
        lambda: printed_bound([2.5], noise_over_sensitivity=1.0, sample_rate=0.1),
        "orders must be integers here, got 2.5",
    ),
    (
        lambda: printed_bound([2], noise_over_sensitivity=1.0, sample_rate=0.0),
        "sample_rate must be a finite number > 0, got 0.0",
    ),
    (lambda: BallsAndBinsGaussian(1.0, 2, 0.0), "share must be a finite number > 0"),
    (lambda: BallsAndBinsGaussian(1.0, 2**41), "batches must lie in"),
    (lambda: TruncatedPoissonGaussian(1.0, 0.1, 0, 5), "most must be an integer >= 1"),
    (lambda: best_of(ONE, mean=1.0), "mean must lie in"),
    (lambda: best_of(ONE, mean=NAN), "mean"),
    (lambda: best_of(ONE, mean=2e6), "mean must lie in"),
    (lambda: best_of(ONE, mean=0.0, shape=INF), "mean must lie in"),
    (lambda: best_of(ONE, mean=5.0, shape=-1.0), "shape must be"),
    (lambda: best_of(ONE, mean=5.0, shape=NAN), "shape"),
    *((lambda u=u: NumberOfRuns(5.0).draw(u), "uniform must lie in") for u in (-0.1, 1.0, NAN)),
]

ACCOUNTANTS = [
    (lambda: parallel(), "at least one ledger"),
    (lambda: rdp.epsilon(ONE, delta=0.1, orders=[1.0]), "orders must be numbers in"),
    (
        lambda: rdp.epsilon(ONE, delta=0.1, conversion="best"),
        "conversion must be one of classic, improved, optimal; got 'best'",
    ),
    (lambda: pld.epsilon(ONE, delta=0.1, gap=NAN), "gap must lie"),
    (
        lambda: pld.epsilon([Release(Gaussian(1 + i / 1e6)) for i in range(4097)], delta=0.1),
        "round noise multipliers down",
    ),
    (lambda: moments.epsilon(ONE, delta=0.1, moments=0), "moments must be an integer >= 1"),
    (lambda: moments.epsilon(ONE, delta=0.1, moments=10**5), r"moments must lie in \[1, 4096"),
    (lambda: moments.curve(ONE, 2.5), "moments must be an integer >= 1"),
    (lambda: exceeded(target_epsilon=0.0), "target_epsilon must be a finite number > 0"),
    (lambda: exceeded(every=0), "every must be an integer >= 1"),
    (lambda: gdp.log_delta(NAN, 1.0), "mu must lie in"),
    (lambda: composition.compose(np.ones(1), np.ones(1), 0.0), r"slack must lie in \(0, 1\)"),
    (lambda: groups.epsilon(ONE, group_size=0, delta=1e-5), "group_size"),
    (lambda: tradeoff.from_profile([1.0], [0.1], [1.1]), r"type I errors in \[0, 1\]"),
    (lambda: tradeoff.from_profile([1.0], [0.1], [NAN]), "type I errors"),
    (lambda: pld.profile(ONE, [-1.0]), "epsilons must be a list of finite numbers >= 0"),
    (lambda: pld.profile(ONE, 1.0), "epsilons must be a list"),
    (lambda: tradeoff.from_profile([1.0], [0.1, 0.2], [0.5]), "lists of one length"),
    (lambda: tradeoff.from_profile([], [], [0.5]), "lists of one length"),
    (lambda: tradeoff.from_profile([-1.0], [0.1], [0.5]), "epsilons must be"),
    (lambda: tradeoff.from_profile([1.0], [NAN], [0.5]), "deltas must be"),
    (lambda: filtered(order=NAN), "order must be a finite number > 0, got nan"),
    (lambda: filtered(order=1.0), r"orders must be numbers in \(1, "),
    *(
        (lambda most=most: filtered(budget=most), "budget must be a finite number > 0, got")
        for most in (NAN, INF, 0.0)
    ),
    (lambda: filtered(delta=NAN), r"delta must lie in \(0, 1\).* got nan"),
    (lambda: filtered(conversion="best"), "conversion must be one of classic"),
    (lambda: filtered(adjacency="neighbour"), "adjacency must be one of"),
    (lambda: filtered().allows(Gaussian(1.0), 0), "count must be an integer >= 1, got 0"),
    *(
        (lambda n=n: filtered().charge(Gaussian(1.0), n), f"count must be an integer >= 1, got {n}")
        for n in (-3, NAN)
    ),
    (lambda: filtered().charge(Gaussian(1.0, REPLACE)), "adjacency of every release"),
    (lambda: filtered().allows(NoGuarantee("x", REPLACE)), "adjacency of every release"),
    (lambda: budget(0.5, delta=1e-5, order=1.5), "take a larger order, or best_order"),
    (lambda: budget(NAN, delta=1e-5, order=8), "target_epsilon must be .* got nan"),
    (lambda: RenyiFilter.for_target(NAN, delta=1e-5, order=8), "target_epsilon must be .* nan"),
    (lambda: best_order(NAN, delta=1e-5, ledger=ONE), "target_epsilon must be .* got nan"),
    (lambda: best_order(1.0, delta=1e-5, ledger=[]), "no order .*least: 0.0"),
    (lambda: best_order(1.0, delta=1e-5, ledger=[Release(NoGuarantee("x"))]), "least: inf"),
    (lambda: best_order(0.1, delta=1e-5, ledger=ONE, orders=[2, 3]), "order .*least: inf"),
    (lambda: target(-1), "target_epsilon must be a finite number > 0, got -1"),
    (lambda: target(1, sample_rate=1.1), r"sample_rate must lie in \[0, 1\], got 1.1"),
    (lambda: target(1, steps=-1), "steps must be an integer >= 0, got -1"),
    (lambda: target(1, delta=1.0), r"delta must lie in \(0, 1\)"),
    (lambda: target(1e-9, sample_rate=1, orders=[2]), r"no noise_multiplier below 2\^40 meets"),
    (lambda: calibrate.steps(1.0, mechanism=SampledGaussian(1.0, 0), delta=1e-5), "costs nothing"),
    (
        lambda: calibrate.steps(NAN, mechanism=Gaussian(1.0), delta=1e-5),
        "target_epsilon must be a finite number > 0, got nan",
    ),
]

BATCHES = [
    (lambda: sample_rate(PoissonSampling(600), public_size=599), "batch_size must be <= public_s"),
    *(  # infinitely many records would make every batch empty, and free
        (lambda n=n: sample_rate(PoissonSampling(600), public_size=n), "public_size must be an in")
        for n in (NAN, -1, 0, INF, 60_000.5)
    ),
    (lambda: TruncatedPoisson(6, 5), "most must be >= expected_batch_size, got 5 and 6"),
    (lambda: passes(9, NAN), "delta must lie in"),
    (lambda: passes(2, 1e-5), "expected_batch_size must be <= public_size"),
    *(
        (lambda way=way: drawn(way), "expected_batch_size must be <= public_size")
        for way in as_drawn.WAYS
    ),
    (lambda: shuffled(assume=("poisson",)), "assume must be one of shuffled batches priced as P"),
    (lambda: shuffled(assume=SHUFFLED_AS_POISSON), "assume must be a tuple"),
    (lambda: FixedSizeBatches(600, adjacency="add-remove"), "adjacency must be one of replace-one"),
    (lambda: PoissonSampling(6, adjacency="swap"), "adjacency must be one of add-remove, repl"),
    (lambda: ShuffledBatches(6, adjacency="swap"), "adjacency must be one of add-remove, repl"),
]

SCHEDULES = [
    *(
        (lambda n=n: schedules.values(Constant(1.0), steps=n), "steps must be an integer >= 0")
        for n in (-1, 2.5, NAN)
    ),
    (lambda: Constant(NAN), "value must be a finite number, got nan"),
    (lambda: Constant(INF), "value must be a finite number, got inf"),
    (lambda: Linear(NAN, 1.0, 5), "start must be a finite number, got nan"),
    (lambda: Linear(1.0, NAN, 5), "end must be a finite number, got nan"),
    (lambda: Linear(1.0, 1.0, NAN), "over must be >= 1"),
    (lambda: ExponentialDecay(NAN, 0.1), "start must be a finite number > 0, got nan"),
    (lambda: ExponentialDecay(1.0, NAN), "rate must be a finite number >= 0, got nan"),
    (lambda: ExponentialDecay(1.0, -0.1), "rate must be"),
    (lambda: schedules.TimeDecay(0.0, 0.1), "start must be a finite number > 0"),
    (lambda: schedules.TimeDecay(1.0, NAN), "rate must be"),
    (lambda: StepDecay(NAN, 0.5, 10), "start must be"),
    (lambda: StepDecay(1.0, NAN, 10), "factor must be"),
    (lambda: StepDecay(1.0, 1.5, 10), "factor must lie in"),
    *((lambda n=n: StepDecay(1.0, 0.5, n), "every must be an integer >= 1") for n in (0, NAN)),
    (lambda: scheduled(Linear(2.0, 0.0, over=10)), "step 10 .*noise_multiplier must be a finite"),
    (lambda: scheduled(lambda step: NAN if step == 3 else 1.0), "step 3 .* got nan"),
    (lambda: scheduled(lambda step: INF if step == 4 else 1.0), "step 4 .* got inf"),
    (lambda: scheduled(ExponentialDecay(1.0, 10.0)), r"step 3 .*\[1e-9, 1e13\]"),  # e^-30 is none
    (  # whatever prices it
        lambda: noise_ledger(Linear(3.0, 0.0, over=3), steps=9, release=lambda _: Gaussian(1.0)),
        "step 3 of the schedule: noise_multiplier must be",
    ),
]
UNKNOWN = [
    (lambda: gdp.mu(parallel(ONE)), "only Renyi DP is known"),
    (lambda: composition.basic(parallel(ONE), delta=0.1), "only Renyi DP is known"),
    (lambda: noise_ledger(Constant(1), steps=1, release=unpriced), r"step 0 .* no price is known"),
]
FAILED = [
    (lambda: gdp.mu(BROKEN), "must be >= 0, got nan"),
    (lambda: filtered().allows(Broken(1.0)), "not a number >= 0: nan"),
    (lambda: filtered().charge(Broken(1.0)), "not a number >= 0: nan"),
]
CASES = [(ValueError, *one) for one in (*MECHANISMS, *ACCOUNTANTS, *BATCHES, *SCHEDULES)]
CASES += [(Unsupported, *one) for one in UNKNOWN] + [(ArithmeticError, *one) for one in FAILED]


@pytest.mark.parametrize(("kind", "call", "message"), CASES, ids=[one[2] for one in CASES])
def test_bad_values_are_refused_with_their_name(kind, call, message: str):
    """What is not known is told from what is wrong, and both from what failed."""
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("kind", [PoissonSampling, ShuffledBatches, FixedSizeBatches])
def test_batches_are_numbers_of_records_and_a_step_needs_noise(kind):
    """Any type of integer will do."""
    for size in (0, -3, NAN, INF, 1.5, 64.0, True, "64", None):
        with pytest.raises(ValueError, match="expected_batch_size must be an integer >= 1, got"):
            kind(size)
    for integer in (int, np.int64, np.int32):
        assert sample_rate(kind(integer(60)), public_size=600) == 0.1
    run = {"public_size": 50, "assume": (SHUFFLED_AS_POISSON,)}
    for noise in (0.0, -1.0, NAN, INF):
        with pytest.raises(ValueError, match="noise_multiplier must be a finite number > 0"):
            mechanism(kind(5), noise_multiplier=noise, **run)


def test_a_failed_profile_is_an_infinite_epsilon():
    for rule in (composition.basic, composition.advanced):
        assert rule(BROKEN, delta=0.1).epsilon == INF

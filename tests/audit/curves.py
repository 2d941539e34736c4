"""Two worlds with a known trade-off curve: scores to draw, and the true epsilon at a delta."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import exp, log
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpkit.audit.scores import Scores
from dpkit.privacy import Gaussian, Laplace, Mechanism, RandomizedResponse, SampledGaussian, gdp
from dpkit.privacy.ledger import Release
from dpkit.privacy.numerics import bracket

ASKED: dict[str, Any] = {"delta": 1e-5, "adjacency": "add-remove"}
SURE = 1 - 1e-9
CHANCE = 1e-6  # that a test of a share fails although the share is as stated


@dataclass(frozen=True)
class Curve:
    """draw: (rng, n) -> n scores of each world; epsilon: delta -> the true one, nats."""

    name: str
    draw: Callable[[np.random.Generator, int], Scores]
    epsilon: Callable[[float], float]

    def canaries(self, rng: np.random.Generator, count: int) -> Scores:
        """Scores of canaries whose own fair coins decide which world each is in; both occur."""
        included = rng.random(count) < 0.5
        included[:2] = False, True  # of probability 1 but for 2^-(count - 1)
        scores = self.draw(rng, count)
        return Scores(scores.absent[~included], scores.present[included])


def of_mechanism(mechanism: Mechanism) -> Callable[[float], float]:
    """The least epsilon whose delta, in both directions, is at most the one asked."""

    def epsilon(delta: float) -> float:
        return bracket(lambda e: bool(mechanism.profile(np.array([e])).max() <= delta))[1]

    return epsilon


def gaussian(mu: float) -> Curve:
    """N(0, 1) and N(mu, 1)."""
    return Curve(
        f"Gaussian {mu:g}",
        lambda rng, n: Scores(rng.normal(size=n), rng.normal(size=n) + mu),
        lambda delta: gdp.epsilon([Release(Gaussian(1 / mu), 1)], delta=delta).epsilon,
    )


@cache
def mu_at(epsilon: float, delta: float = 1e-5) -> float:
    """The mu whose epsilon at delta is the one asked."""
    return bracket(lambda mu: mu > 0 and gaussian(mu).epsilon(delta) >= epsilon)[1]


def laplace(epsilon: float) -> Curve:
    """Laplace noise, scores clipped to where the loss varies: ties at both ends."""

    def draw(rng: np.random.Generator, n: int) -> Scores:
        both = (rng.laplace(size=n), rng.laplace(size=n) + epsilon)
        return Scores(*(np.clip(one, 0, epsilon) for one in both))

    return Curve(f"Laplace {epsilon:g}", draw, of_mechanism(Laplace(1 / epsilon)))


def sampled(noise: float, rate: float) -> Curve:
    """A Gaussian with a Poisson sample of the records."""

    def draw(rng: np.random.Generator, n: int) -> Scores:
        absent, present = rng.normal(scale=noise, size=(2, n))
        return Scores(absent, present + (rng.random(n) < rate))

    return Curve(f"sampled {rate:g}", draw, of_mechanism(SampledGaussian(noise, rate)))


def answers(epsilon: float) -> Curve:
    """Randomised response of two answers, as 0 and 1."""
    truth = 1 / (1 + exp(-epsilon))

    def draw(rng: np.random.Generator, n: int) -> Scores:
        lies, truths = rng.random((2, n)) < truth
        return Scores((~lies).astype(np.float64), truths.astype(np.float64))

    return Curve(f"answers {epsilon:g}", draw, of_mechanism(RandomizedResponse(epsilon)))


def worst(epsilon: float, delta: float) -> Curve:
    """The worst pair of (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015): four outcomes."""
    rest = (1 - delta) / (1 + exp(epsilon))
    chances = np.array([delta, rest, rest * exp(epsilon), 0.0])

    def draw(rng: np.random.Generator, n: int) -> Scores:
        both = (rng.choice(4, n, p=one).astype(np.float64) for one in (chances, chances[::-1]))
        return Scores(*both)

    def at(asked: float) -> float:
        if asked < delta:
            return np.inf
        return max(log(rest * exp(epsilon) + delta - asked) - log(rest), 0.0)

    return Curve(f"worst {epsilon:g}, {delta:g}", draw, at)


def null(name: str, draw: Callable[[np.random.Generator, int], np.ndarray]) -> Curve:
    """Two worlds of one law."""
    return Curve(name, lambda rng, n: Scores(draw(rng, n), draw(rng, n)), lambda delta: 0.0)


NULLS = [
    null("normal", lambda rng, n: rng.normal(size=n)),
    null("Cauchy", lambda rng, n: rng.standard_cauchy(n)),
    null("coin", lambda rng, n: rng.random(n) < 0.5),
    null("rare", lambda rng, n: rng.binomial(1, 0.002, n)),
    null("Poisson", lambda rng, n: rng.poisson(3.0, n)),
    null("constant", lambda rng, n: np.zeros(n)),
]
GAUSSIANS = [gaussian(mu_at(1.0)), gaussian(mu_at(4.0)), gaussian(3.0)]
OTHERS = [laplace(1.0), laplace(3.0), sampled(0.6, 0.1), answers(2.0), worst(1.0, 0.02)]


def allowed(repetitions: int, chance: float = 0.05) -> int:
    """Failures that as many repetitions have at most, but for a probability of CHANCE."""
    return int(binom.ppf(1 - CHANCE, repetitions, chance))


def some(curves: list[Curve], *, kept: list[Curve], fault: str) -> list[Any]:
    """The curves as parameters; those not kept are for `make slow`, where the fault is found."""
    marks = pytest.mark.slow(fault)
    return [pytest.param(one, id=one.name, marks=[] if one in kept else [marks]) for one in curves]

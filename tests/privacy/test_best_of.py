"""The best of several runs: against the exact law of the choice, and dp-accounting."""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from dpkit.privacy import Gaussian, Ledger, RandomizedResponse, Release, SampledGaussian, pld, rdp
from dpkit.privacy.best_of import BestOf, NumberOfRuns, best_of
from dpkit.privacy.mechanisms.base import Unsupported, from_atoms

LAWS = [(1.5, 1.0), (10.0, 1.0), (3.0, 0.0), (40.0, 0.0), (8.0, -0.7), (5.0, 2.5)]
DEAR = pytest.mark.slow("a Poisson number of runs charged too little at this mean alone")
POISSON = [(0.3, math.inf), (12.0, math.inf), pytest.param(1.0, math.inf, marks=DEAR)]
MANY = [pytest.param(mean, math.inf, marks=DEAR) for mean in (10.0, 100.0)]
RUN = [Release(SampledGaussian(1.0, 0.01), 1000)]


@dataclass(frozen=True)
class Finite:
    """One run with finitely many outputs, by score: its chances on both data sets."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    has_loss: bool = True
    adjacency: ClassVar = "add-remove"
    assumptions: ClassVar = ()

    def rdp(self, orders):
        return np.array([max(renyi(self.p, self.q, a), renyi(self.q, self.p, a)) for a in orders])

    def privacy_loss(self):
        if not self.has_loss:
            raise Unsupported("its privacy loss is not asked for")
        losses = np.log(self.p) - np.log(self.q)
        order = np.argsort(losses)
        return from_atoms(losses[order], np.array(self.p)[order], None)


def renyi(p, q, order):
    logs = order * np.log(p) + (1 - order) * np.log(q)
    return float(np.logaddexp.reduce(logs)) / (order - 1)


def generating(runs: NumberOfRuns, x: np.ndarray) -> np.ndarray:
    """E[x^K], from the laws' textbook forms."""
    if runs.shape == math.inf:
        return np.exp(runs.mean * (x - 1))
    if runs.shape == 0:
        return np.log1p(-(1 - runs.gamma) * x) / math.log(runs.gamma)
    left = (1 - (1 - runs.gamma) * x) ** -runs.shape - 1
    return left / (runs.gamma**-runs.shape - 1)


def chosen(chances, runs: NumberOfRuns) -> np.ndarray:
    """The chance that the best run has each output; the first is that there was no run."""
    below = np.minimum(np.concatenate([[0.0], np.cumsum(chances)]), 1.0)
    found = generating(runs, below)
    return np.concatenate([[found[0]], np.diff(found)])


@pytest.mark.parametrize(("mean", "shape"), LAWS + POISSON)
def test_no_choice_among_runs_costs_more_than_is_charged(mean, shape):
    """8 pairs of laws (3 for Poisson) at three orders each way: the exact divergence."""
    rng, runs = np.random.default_rng(5), NumberOfRuns(mean, shape)
    for _ in range(3 if shape == math.inf else 8):
        p = rng.dirichlet(np.full(6, 3.0))
        q = p * np.exp(rng.uniform(0.02, 2.0) * rng.choice([-1.0, 0.0, 1.0], 6))
        one = Finite(tuple(p), tuple(q / q.sum()), has_loss=bool(rng.integers(2)))
        orders = [1.3, 2.0, 8.0]
        charged = BestOf(Ledger.of([Release(one)]), runs).rdp(orders)
        worlds = [chosen(chances, runs) for chances in (one.p, one.q)]
        if shape != math.inf:
            worlds = [world[1:] for world in worlds]
        for order, most in zip(orders, charged, strict=True):
            for there, back in (worlds, worlds[::-1]):
                assert renyi(there, back, order) <= most + 1e-10


@pytest.mark.parametrize("order", [1.5, 4.0, 32.0])
def test_a_poisson_number_of_runs_costs_what_theorem_6_says(order: float):
    """Papernot, Steinke 2022, at one order, with the Gaussian's delta in closed form."""
    mean, epsilon = 12.0, math.log(order / (order - 1))
    below, above = stats.norm.cdf([0.5 - epsilon, -0.5 - epsilon])  # at noise multiplier 1
    delta = below - math.exp(epsilon) * above
    stated = order / 2 + mean * delta + math.log(mean) / (order - 1)
    one = Ledger.of([Release(Gaussian(1.0))])
    (charged,) = BestOf(one, NumberOfRuns(mean, math.inf)).rdp([order])
    assert stated <= charged <= stated * 1.01


@pytest.mark.parametrize(("mean", "shape"), LAWS + POISSON)
def test_the_number_of_runs_has_its_law(mean, shape):
    runs = NumberOfRuns(mean, shape)
    laws = {
        **{1.0: partial(stats.geom, runs.gamma), 0.0: partial(stats.logser, 1 - runs.gamma)},
        math.inf: partial(stats.poisson, mean),
    }
    if shape in laws:
        law = laws[shape]()
        assert law.mean() == pytest.approx(mean, rel=1e-9)
        for uniform in (0.0, 0.1, 0.5, 0.9, 0.999):
            drawn = runs.draw(uniform)
            assert law.cdf(drawn) >= uniform - 1e-12
            assert law.cdf(drawn - 1) <= uniform + 1e-12
    grid = (np.arange(20_000) + 0.5) / 20_000  # a rule of midpoints for the mean
    assert np.mean([runs.draw(u) for u in grid]) == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize(("mean", "shape"), [(10.0, 1.0), (10.0, 0.0), (30.0, 2.0)])
def test_dp_accounting_charges_the_same(mean, shape):
    dp_event = pytest.importorskip("dp_accounting.dp_event")
    peer = pytest.importorskip("dp_accounting.rdp")
    run = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    accountant = peer.RdpAccountant(orders=rdp.ORDERS)
    accountant.compose(
        dp_event.RepeatAndSelectDpEvent(dp_event.SelfComposedDpEvent(run, 1000), mean, shape)
    )
    found = rdp.epsilon(best_of(RUN, mean=mean, shape=shape), delta=1e-5, orders=rdp.ORDERS)
    assert found.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


def test_a_pure_run_costs_three_times_as_much():
    """Liu, Talwar 2019, Thm 1.3: the best of a geometric number of eps-DP runs is 3 eps-DP."""
    run = [Release(RandomizedResponse(0.5))]
    found = rdp.epsilon(best_of(run, mean=1000.0), delta=1e-12, orders=[2.0**20])
    assert 1.3 < found.epsilon < 1.55


@pytest.mark.parametrize(("mean", "shape"), [*LAWS, *MANY])
def test_a_choice_costs_more_than_a_run_and_more_runs_cost_more(mean, shape):
    one = rdp.epsilon(RUN, delta=1e-5).epsilon
    few = rdp.epsilon(best_of(RUN, mean=mean, shape=shape), delta=1e-5)
    many = rdp.epsilon(best_of(RUN, mean=3 * mean, shape=shape), delta=1e-5)
    assert one < few.epsilon < many.epsilon
    assert "stays secret" in few.assumptions[0]


def test_runs_that_read_no_record_cost_nothing_and_others_are_priced_by_renyi_alone():
    assert rdp.epsilon(best_of([], mean=10.0), delta=1e-5).epsilon == 0
    with pytest.raises(Unsupported, match="rdp alone prices it"):
        pld.epsilon(best_of(RUN, mean=10.0), delta=1e-5)

"""Algorithm 2: its rule against a listing, and what a tuned run spends, counted by hand.

No network is trained here: steps are stubs that note what they are given. The one statistical check
rejects at a p-value of 1e-8.
"""

from collections import namedtuple
from dataclasses import replace
from itertools import pairwise
from math import log, nan, sqrt

import numpy as np
import pytest
import torch
from refusals import refused
from scipy import stats
from truths import log_moment

from dpkit.papers.rdp_gan import adaptive, theorems
from dpkit.papers.rdp_gan.adaptive import FilterBudget, PaperBudget, tuned
from dpkit.papers.rdp_gan.settings import SETTINGS, GradientNoise, LossValueNoise, Tuning
from dpkit.privacy.accountants.filters import RenyiFilter
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant, ExponentialDecay
from dpkit.training import Data, Record, generator_on

CPU = torch.device("cpu")
EACH, BATCH, SIZE, ORDER = 3, 20, 200, 8
PUBLISHED = replace(
    SETTINGS, iterations=12, discriminator_steps=EACH, tuning=Tuning(0.5, 0.1, averaged=False)
)
REPAIRED = replace(
    PUBLISHED,
    noise=GradientNoise(Constant(2.0), 0.5),
    sampling=PoissonSampling(BATCH),
    tuning=Tuning(0.5, 0.1, averaged=False, count_noise=6.0),
)

Seen = namedtuple("Seen", ("noise", "index", "batch"))  # a step, as a stub was called


class Watch:
    """A budget that allows so many iterations and tests, and notes the order of events."""

    def __init__(self, iterations=10**6, tests=10**6):
        self.left = {"iteration": iterations, "test": tests}
        self.events = []
        self.settings = self.public_size = None

    def iteration(self, noise):
        return self.test("iteration", noise)

    def test(self, name="test", value=None):
        self.left[name] -= 1
        if self.left[name] < 0:
            return False
        self.events.append((name, value))
        return True


def data(records=SIZE, public_size=SIZE, seed=0):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (records,), generator=rng)
    return Data(torch.rand(records, 2, generator=rng), labels, public_size)


def run(settings, *, correct, budget, records=None, seed=0):
    """What `tuned` yields, and what its steps were given."""
    seen = []

    def step(gan, features, labels, *, settings, index, rng):
        noise = settings.noise.schedule(index // settings.discriminator_steps)
        seen.append(Seen(noise, index, len(features)))
        if isinstance(budget, Watch):
            budget.events.append(("step", index))
        return Record(index, len(features), 0.0, None, 0.0)

    counts = None if callable(correct) else iter(correct)
    records = data() if records is None else records
    if isinstance(budget, Watch):
        budget.settings, budget.public_size = settings, records.public_size
    asked = {"settings": settings, "budget": budget}
    asked["rng"] = generator_on(CPU, reproducible_seed=seed)
    asked["correct"] = correct if counts is None else lambda _: next(counts)
    return list(tuned(step, None, records, **asked)), seen


# The rule.


def listed(start, factor, threshold, scores, *, averaged):
    """Eqs. 17 and 18 as printed: sigma_0, sigma_1, ... with S_0 = 0."""
    s, sigma = [0.0, *scores], [start]
    for t in range(len(scores)):
        mean = sum(s[i] for i in range(1, t + 1)) / max(t, 1)  # eq. 18
        before = mean if averaged else s[t]
        improved = s[t + 1] - before >= threshold  # eq. 17
        sigma.append(sigma[t] if improved else factor * sigma[t])
    return sigma


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("threshold", [-0.2, 0.0, 0.05, 0.5])
def test_the_rule_is_the_papers_listing(averaged, threshold):
    rng = np.random.default_rng(3)
    kept = 0
    for _ in range(30):
        scores = (rng.integers(0, 17, size=8) / 16).tolist()
        tuning, noise = Tuning(0.5, threshold, averaged=averaged), 8.0
        found = [noise]
        for t in range(8):
            noise = tuning.next_noise(noise, scores[: t + 1])
            found.append(noise)
        assert found == listed(8.0, 0.5, threshold, scores, averaged=averaged)
        kept += sum(a == b for a, b in pairwise(found))
    assert 0 < kept < 240
    # what is no number lowers the noise, so that it costs more
    assert Tuning(0.5, threshold, averaged=averaged).next_noise(1.0, [nan]) == 0.5


BAD = {"factor": (0.0, 1.5, nan), "threshold": (nan, 2.0), "every": (0, 1.5)}
BAD["count_noise"] = (-1.0, nan, float("inf"))


test_bad_rules_are_refused = refused(
    *((name, bad, name) for name in BAD for bad in BAD[name]),
    call=lambda name, bad: Tuning(**{"factor": 0.5, "threshold": 0.0, name: bad}),
)


# The run.


def test_a_published_run_is_the_listing():
    """n_d steps an iteration at the iteration's noise, the accuracy read without noise."""
    counts = [40, 80, 82, 120, 60, 61, 62, 200, 1, 2, 3, 4]
    found, seen = run(PUBLISHED, correct=counts, budget=Watch())
    wanted = listed(10.0, 0.5, 0.1, [c / SIZE for c in counts], averaged=False)
    assert [one.noise for one in found] == wanted[:12]
    assert [one.accuracy for one in found] == [c / SIZE for c in counts]
    assert [one.iteration for one in found] == list(range(12))
    assert [s.index for s in seen] == list(range(36))
    assert [s.noise for s in seen] == [noise for noise in wanted[:12] for _ in range(EACH)]
    assert [one.record.step for one in found] == list(range(2, 36, 3))


def test_noise_starts_where_its_schedule_starts_and_falls_after_every_so_many_iterations():
    noise = LossValueNoise(ExponentialDecay(3.0, 0.4))
    settings = replace(PUBLISHED, noise=noise, tuning=Tuning(0.5, 0.5, every=5))
    found, seen = run(settings, correct=[0, 0], budget=Watch())
    assert [one.noise for one in found] == [3.0] * 5 + [1.5] * 5 + [0.75] * 2
    assert [s.noise for s in seen] == [one.noise for one in found for _ in range(EACH)]
    assert [i for i, one in enumerate(found) if one.accuracy is not None] == [4, 9]


def test_each_release_is_charged_before_it_is_made():
    budget = Watch(iterations=2)
    found, seen = run(REPAIRED, correct=lambda _: 0.0, budget=budget)
    assert [name for name, _ in budget.events] == ["iteration", *["step"] * 3, "test"] * 2
    assert (len(found), len(seen)) == (2, 6)
    charged = [value for name, value in budget.events if name == "iteration"]
    assert charged == [one.noise for one in found]


def test_the_accuracy_is_not_looked_at_before_its_charge_nor_after_a_refusal():
    """And every iteration that was trained is told."""
    looked, budget = [], Watch(tests=1)
    correct = lambda _: looked.append(len(budget.events)) or 0.0  # noqa: E731
    found, seen = run(REPAIRED, correct=correct, budget=budget)
    assert looked == [5]  # after one iteration, three steps and the test's charge
    assert len(seen) == EACH * len(found)


def renyi_by_hand(noise, order):
    return log_moment(order, noise, BATCH / SIZE) / (order - 1)


@pytest.mark.parametrize("threshold", [-1.0, 0.02, 1.0])
@pytest.mark.parametrize("records", [190, 200, 230])
def test_an_repaired_run_ends_before_it_overspends(threshold, records):
    """The charges by hand, from the noises of all steps; the next release would be too dear."""
    tuning = Tuning(0.8, threshold, every=2, count_noise=6.0)
    settings = replace(REPAIRED, tuning=tuning, iterations=200)
    kept = RenyiFilter(ORDER, 4.0, delta=1e-5)
    budget = FilterBudget(kept, settings, SIZE)
    signal = np.random.default_rng(5).uniform(0, 200, size=200)
    found, seen = run(settings, correct=signal, budget=budget, records=data(records))
    noises = [one.noise for one in seen[::EACH]]  # of each iteration that was trained
    assert [one.noise for one in found] == noises[: len(found)]
    accuracies = [one.accuracy for one in found if one.accuracy is not None]
    spent = sum(EACH * renyi_by_hand(noise, ORDER) for noise in noises)
    spent += len(accuracies) * ORDER / (2 * 6.0**2)
    assert kept.spent == pytest.approx(spent, rel=1e-9)
    assert spent <= 4.0
    assert 5 < len(noises) < 200
    if len(accuracies) < len(noises) // 2:  # the last test was too dear
        dearest = ORDER / (2 * 6.0**2)
    else:
        following = noises[-1]
        if len(noises) % 2 == 0:
            following = tuning.next_noise(following, accuracies)
        dearest = EACH * renyi_by_hand(following, ORDER)
    assert spent + dearest > 4.0


def test_what_is_tested_is_a_noisy_count_over_the_declared_size():
    settings = replace(REPAIRED, iterations=400, tuning=replace(REPAIRED.tuning, count_noise=6.0))
    found, _ = run(settings, correct=lambda _: 120.0, budget=Watch(), records=data(150))
    noise = np.array([SIZE * one.accuracy - 120.0 for one in found]) / 6.0
    assert stats.kstest(noise, "norm").pvalue > 1e-8
    assert len(set(noise)) == 400


def test_noises_follow_from_released_values_alone():
    """Neighbouring, and quite other, data: the same released accuracies, the same noises."""
    tuning = Tuning(0.5, 0.1, averaged=True, count_noise=1e-12)  # released: the counts themselves
    settings = replace(REPAIRED, tuning=tuning)
    counts = [0, *np.random.default_rng(1).integers(0, SIZE, size=11).tolist()]
    whole = data()
    without = Data(whole.features[1:], whole.labels[1:], SIZE)
    runs = [
        run(settings, correct=counts, budget=Watch(), records=records, seed=seed)
        for records, seed in ((whole, 0), (without, 0), (data(90, seed=4), 7))
    ]
    noises = [[one.noise for one in found] for found, _ in runs]
    assert noises[0] == noises[1] == noises[2]
    assert len(set(noises[0])) > 2
    assert noises[0] == listed(2.0, 0.5, 0.1, [c / SIZE for c in counts], averaged=True)[:12]
    batches = [[s.batch for s in seen] for _, seen in runs]
    assert batches[0] != batches[2]


FREE = replace(REPAIRED.tuning, count_noise=0.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (replace(REPAIRED, tuning=FREE), "count_noise must be"),
        *((replace(one, tuning=None), "use loop.train") for one in (REPAIRED, PUBLISHED)),
    ],
)
def test_an_accuracy_read_for_free_where_it_costs_and_a_run_without_rule_are_refused(
    settings, words
):
    budget = Watch()
    with pytest.raises(ValueError, match=words):
        run(settings, correct=lambda _: 0.0, budget=budget)
    assert not budget.events


def test_a_budget_of_another_run_or_of_theorem_4_prices_no_repaired_one():
    kept = RenyiFilter(ORDER, 4.0, delta=1e-5)
    for budget, words in (
        (PaperBudget(0.5, REPAIRED, SIZE, 0.3), "budget must be a FilterBudget"),
        (FilterBudget(kept, PUBLISHED, SIZE), "budget must be made of the run's own settings"),
        (FilterBudget(kept, REPAIRED, SIZE - 1), "got other settings, or public_size 199"),
    ):
        with pytest.raises(ValueError, match=words):
            run(REPAIRED, correct=[], budget=budget)


# The paper's own budget.


def cost_by_hand(noise, *, rate, moved, each):
    """Theorems 1 and 2 at order 2: eps = 2 q dS^2 / s^2, then 4 eps sqrt(2 n_d log(1 / delta))."""
    return 4 * (2 * rate * moved**2 / noise**2) * sqrt(2 * each * log(1e5))


@pytest.mark.parametrize("counts", [[0.0] * 300, list(range(66, 20_000, 66))])
def test_the_papers_budget_adds_up_theorem_4(counts):
    """Noise that falls at each test, and noise that stays: spent by hand, and one more too dear."""
    settings = replace(
        SETTINGS, iterations=300, tuning=Tuning(0.9, 0.001, averaged=False), target_epsilon=0.05
    )
    budget = PaperBudget.of(settings, 20_000, "census")
    assert budget.sensitivity == 0.3125  # Table II
    records = Data(torch.rand(20_000, 2), torch.zeros(20_000, dtype=torch.int64), 20_000)
    found, _ = run(settings, correct=counts, budget=budget, records=records)
    by_hand = {"rate": 64 / 20_000, "moved": 0.3125, "each": 5}
    costs = [cost_by_hand(one.noise, **by_hand) for one in found]
    assert budget.spent == pytest.approx(sum(costs), rel=1e-12)
    assert sum(costs) <= 0.05
    accuracies = [one.accuracy for one in found]
    following = settings.tuning.next_noise(found[-1].noise, accuracies)
    assert sum(costs) + cost_by_hand(following, **by_hand) > 0.05
    assert (found[-1].noise == 10.0) == (counts[-1] > 0)
    noises = [*(one.noise for one in found), following]
    setting = {"sample_rate": 64 / 20_000, "sensitivity": 0.3125, "discriminator_steps": 5}
    assert len(found) == theorems.iterations_within(0.05, noises, **setting, delta=1e-5)


def test_a_budget_of_the_paper_needs_a_total():
    with pytest.raises(ValueError, match="target_epsilon must be"):
        PaperBudget.of(replace(SETTINGS, target_epsilon=None), 20_000, "census")
    assert adaptive.LARGEST_LOSS == {"digits": 25.0, "census": 20.0}  # Table II, batch 64


def test_a_refusal_by_the_papers_budget_charges_nothing():
    """Too dear, or not covered by Theorem 2: as `theorems.iterations_within` counts."""
    for total, noise in ((1e-4, 10.0), (0.5, 1e-3), (1e9, 1e-3)):
        budget = PaperBudget(total, SETTINGS, 20_000, 0.3125)
        assert not budget.iteration(noise)
        assert budget.spent == 0.0
        assert budget.test()
        assert budget.iteration(100.0)
        spent = cost_by_hand(100.0, rate=64 / 20_000, moved=0.3125, each=5)
        assert budget.spent == pytest.approx(spent, rel=1e-12)

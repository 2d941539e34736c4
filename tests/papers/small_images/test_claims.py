"""The claims of small_images against peers, quadrature, closed forms and brute force.

Where something is drawn, its test says how often it would fail by chance; seeds are fixed.
"""

from dataclasses import replace
from functools import partial
from math import exp, inf, log, sqrt

import numpy as np
import pytest
from refusals import refused
from scipy.special import ndtr
from scipy.stats import norm

from dpkit.common.show import at_least, at_most
from dpkit.papers.claims import check, outcome
from dpkit.papers.small_images import adam, claims, prior_work
from dpkit.papers.small_images.prior_work import DIGIT_COUNTS, BeaulieuJones, Xie
from dpkit.papers.small_images.settings import FIGURE_2, ORDERS, PUBLIC_SIZE
from dpkit.privacy import Gaussian, Release, SampledGaussian, as_drawn, divergence, shuffled
from dpkit.privacy.accountants import pld, rdp

BY_ID = {claim.id.partition("/")[2]: claim for claim in claims.CLAIMS}


def test_a_verdict_turns_where_the_value_does():
    """Each failing claim would hold at what a reader believed, and each belief refuses infinity."""
    believed = {
        **{"shuffled-against-poisson": claims.spent(1.0), "zhang-groups-factor-10": 10.0},
        **{"xie-accountant": Xie(15).published_epsilon(), "adam-defaults": 0.9},
        **{"cifar10": 2.0, "xie-true-rate": Xie(5).published_epsilon()},
        "beaulieu-jones-noise-c-squared": claims.charged(),
    }
    assert outcome(BY_ID["clip-after-mean"], 1.0) == "fails"
    for name, value in believed.items():
        verdicts = [outcome(BY_ID[name], factor * value) for factor in (1, 1.2)]
        assert verdicts == ["holds", "fails"], name
    for name, claim in BY_ID.items():
        if check(claim).verdict == "holds" and name != "adam-clip-dependence-large-norm":
            assert outcome(claim, inf) == "fails"


def test_what_is_charged_is_only_computed_and_says_where_to_read_on():
    """Each claim of what a code charges names the claim of what the run costs."""
    charged = {
        "epsilon-at-40-epochs-0.5": "shuffled-against-poisson",
        "epsilon-at-40-epochs-1.0": "shuffled-against-poisson",
        "beaulieu-jones-add-remove": "beaulieu-jones-replace-one",
        **{"xie-epsilon-5": "xie-accountant", "xie-epsilon-15": "xie-accountant"},
    }
    for name, other in charged.items():
        assert f"see `{other}`" in BY_ID[name].says
        assert check(BY_ID[name]).verdict == "computed"
        wanted = "cannot be checked" if "replace" in other else "fails"
        assert check(BY_ID[other]).verdict == wanted


def test_what_is_said_of_a_replaced_record():
    """Its price lies around the claim's number: certified, and by the theorem; and 40 passes'."""
    claim = BY_ID["beaulieu-jones-replace-one"]
    ledger = BeaulieuJones().ledger(adjacency="replace-one")
    pair = pld.epsilon(ledger, delta=1e-5)
    assert f"between {pair.lower:.1f} and {pair.epsilon:.1f}, certified" in claim.explanation
    assert f"{claims.epsilon(ledger):.1f} by the theorem" in claim.explanation
    assert pair.lower < claim.compute() < pair.epsilon < rdp.epsilon(ledger, delta=1e-5).epsilon
    run = as_drawn.DrawnRun(1.0, 128, PUBLIC_SIZE, 40 * (PUBLIC_SIZE // 128))
    pair = run.guarantee("shuffled", delta=1e-5)
    said = f"between {at_least(pair.lower, 3)} and {at_most(pair.epsilon)}"
    assert said in BY_ID["shuffled-against-poisson"].explanation


def test_epsilons_are_those_of_opacus():
    """Its RDP at the paper's orders, converted here by Mironov 2017, Prop. 3."""
    opacus = pytest.importorskip("opacus.accountants.analysis.rdp")

    def theirs(noise, rate, steps):
        costs = opacus.compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=list(ORDERS))
        pairs = zip(ORDERS, costs, strict=True)
        return min(steps * cost + log(1e5) / (order - 1) for order, cost in pairs)

    for noise in FIGURE_2:
        assert claims.spent(noise) == pytest.approx(theirs(noise, 128 / 60_000, 18_760), rel=1e-6)
        curve = BY_ID[f"epsilon-at-40-epochs-{noise}"].curve
        assert curve is not None
        assert curve().y[-1] == claims.spent(noise)
    for name, noise in (("add-remove", 1.0), ("replace-one", 0.5)):
        found = check(BY_ID[f"beaulieu-jones-{name}"]).computed
        assert found == pytest.approx(theirs(noise, 1 / 6_000, 3_000_000), rel=1e-6)


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0])
def test_the_shuffled_bound_of_one_batch_is_the_exact_gaussian(noise: float):
    """With one batch nothing is hidden: shifts of 2 and 1, which one threshold tells apart best."""
    exact = claims.of_one_step(Gaussian(noise))
    found = shuffled.at_least(noise, batches=1, delta=1e-5)
    assert found == pytest.approx(exact, rel=1e-4)
    assert found <= exact


def test_the_shuffled_events_have_the_probabilities_that_are_taken():
    """20 batches, noise 1, threshold 2.5, 200,000 draws each: within 6 standard errors (2e-9)."""
    rng, wanted = np.random.default_rng(0), []
    for moved in (2.0, 1.0):
        sums = rng.standard_normal((200_000, 20))
        sums[np.arange(200_000), rng.integers(20, size=200_000)] += moved
        share = (sums.max(1) > 2.5).mean()
        wanted.append(1 - ndtr(2.5 - moved) * ndtr(2.5) ** 19)
        assert abs(share - wanted[-1]) < 6 * sqrt(wanted[-1] * (1 - wanted[-1]) / 200_000)
    assert shuffled.at_least(1.0, batches=20, delta=1e-5) >= log((wanted[0] - 1e-5) / wanted[1])


def test_the_shuffled_bound_is_above_the_poisson_price_and_below_what_is_proven():
    for noise, run in FIGURE_2.items():
        one_pass = shuffled.at_least(noise, batches=469, delta=1e-5)
        poisson = [Release(SampledGaussian(noise, 128 / 60_000), 469)]
        assert one_pass > pld.epsilon(poisson, delta=1e-5).epsilon
        proven = run.ledger(public_size=PUBLIC_SIZE, steps=468)
        assert one_pass < rdp.epsilon(proven, delta=1e-5).epsilon
    assert shuffled.at_least(50.0, batches=469, delta=0.9) == 0


ONES = np.ones((2, 2))
SIZES = {"steps": 1, "batch_size": 1, "dims": 1, "rng": np.random.default_rng(0)}

test_bad_values_are_refused = refused(
    (lambda: adam.updates(ONES, betas=(0.5, 1.0), eps=0.0), "betas must lie in"),
    (lambda: adam.updates(ONES, betas=(0.5, 0.9), eps=-1.0), "eps must be"),
    (lambda: adam.rmsprop(ONES, eps=float("nan")), "eps must be"),
    (lambda: adam.adagrad(ONES, eps=-1.0), "eps must be"),
    (lambda: list(adam.trajectory(**SIZES, shortest=0.0)), "shortest must be a finite number > 0"),
    (lambda: adam.Comparison().means(float("nan")), "max_grad_norm must be > 0 and finite"),
    (lambda: adam.normalised(0 * ONES), "has no direction"),
    (lambda: adam.difference(0 * ONES, ONES), "no relative difference"),
    (lambda: Xie(float("nan")), "noise_std must be a finite number > 0"),
    (lambda: Xie(5).published_epsilon(size=63), "size must be an integer >= 64, got 63"),
    (lambda: BeaulieuJones(max_grad_norm=0.0), "max_grad_norm must be a finite number > 0"),
    (lambda: prior_work.clipped_mean_moves(batch_size=0), "batch_size must be an integer >= 1"),
    (lambda: prior_work.groups_factor(0), "groups must be an integer >= 1, got 0"),
    (lambda: BeaulieuJones(records=0), "records must be an integer >= 1, got 0"),
    (lambda: BeaulieuJones().ledger(adjacency="both"), "adjacency must be one of"),  # type: ignore
    (lambda: shuffled.at_least(float("nan"), batches=2, delta=1e-5), "noise_multiplier"),
    (lambda: shuffled.at_least(1.0, batches=0, delta=1e-5), "batches must be an integer"),
    (lambda: shuffled.at_least(1.0, batches=2, delta=1.0), "delta must lie in"),
    error=(ValueError, ArithmeticError),
)


def renyi_on_a_line(a: float, b: float, other: float, *, rate: float, order: float) -> float:
    """D of (1-q) N(other) + q N(a) from (1-q) N(other) + q N(b), noise 1, by a fine sum."""
    x = np.linspace(-18 - 2 * order, 18 + 2 * order, 60_001)
    rest = log(1 - rate) - (x - other) ** 2 / 2
    p, q = (np.logaddexp(rest, log(rate) - (x - own) ** 2 / 2) for own in (a, b))
    inside = order * p + (1 - order) * q
    top = inside.max()
    total = np.exp(inside - top).sum() * (x[1] - x[0]) / sqrt(2 * np.pi)
    return (top + log(total)) / (order - 1)


@pytest.mark.parametrize("rate", [1 / 6_000, 0.1, 0.5])
@pytest.mark.parametrize("order", [2.0, 3.0, 8.0])
def test_the_worst_case_of_one_record_a_step(rate: float, order: float):
    """Clipped gradients in [-1, 1], noise 1; the record at 1, its replacement at -1.

    Wherever the others are, the divergence is at most the Poisson formula's at noise 1/2, which is
    attained where they are at -1, and below the theorem's bound for batches of a fixed size.
    Without the record the others alone are drawn from; the farther it lies, the dearer.
    """
    places = np.linspace(-1, 1, 11)
    found = [renyi_on_a_line(1, -1, place, rate=rate, order=order) for place in places]
    half = SampledGaussian(0.5, rate).rdp([order])[0]
    assert found[0] == pytest.approx(half, rel=1e-6, abs=1e-9)
    assert found[0] == max(found)
    run = BeaulieuJones(batch_size=1, records=round(1 / rate), epochs=7)
    assert half <= run.ledger(adjacency="replace-one")[0].mechanism.rdp([order])[0]
    base, left_out = divergence.normal(0, 1), []
    for distance in (0.5, 1.0, 2.0):
        mixed = divergence.mixture([1 - rate, rate], [base, divergence.normal(distance, 1)])
        left_out.append(divergence.renyi(mixed, base, order, low=-14, high=14 + 2 * order))
    assert left_out == sorted(left_out)
    assert left_out[-1] == pytest.approx(half, rel=1e-6, abs=1e-9)
    steps = 7 * round(1 / rate)
    assert run.ledger() == run.worst_case_ledger() == [(SampledGaussian(0.5, rate), steps)]


def test_one_record_turns_a_clipped_mean_and_their_run_is_as_published():
    for batch in (1, 2, 3, 40, 1_000, np.int64(64), 10**7, 10**400):
        assert prior_work.clipped_mean_moves(batch_size=batch) == pytest.approx(2.0, rel=1e-12)
    for batch in (1, 3, 40):  # gradients that are added up one by one, C = 1
        means = [sum([1.0] * (batch - 1), own) / batch for own in (3 * batch, -3 * batch)]
        ends = [mean / max(1.0, abs(mean)) for mean in means]
        assert ends == pytest.approx([1.0, -1.0])
    means = [np.mean(rows) for rows in ([-1e6, 1.0, 1.0], [1.0, 1.0])]  # as far if it is left out
    assert [mean / max(1.0, abs(mean) / 1e-4) for mean in means] == pytest.approx([-1e-4, 1e-4])
    for run, numbers in {
        BeaulieuJones(): (3_000_000, 1 / 6_000, 0.5),
        BeaulieuJones(batch_size=100): (30_000, 1 / 60, 0.5),  # whatever the batch
        BeaulieuJones(noise_times_norm_squared=True): (3_000_000, 1 / 6_000, 5e-5),
    }.items():
        assert (run.steps, run.sample_rate, run.true_noise_multiplier) == pytest.approx(numbers)


def test_a_replaced_record_moves_the_mean_twice_as_far_as_one_left_out():
    """In units of C / batch: of 2,000 pairs of clipped gradients the opposite ones differ most."""
    rng = np.random.default_rng(4)
    pairs = rng.standard_normal((2_000, 2, 3)) * 9
    pairs[0, 1] = -pairs[0, 0]
    clipped = pairs / np.maximum(np.linalg.norm(pairs, axis=2, keepdims=True), 1)
    moved = np.linalg.norm(clipped[:, 0] - clipped[:, 1], axis=1)
    assert check(BY_ID["mean-sensitivity"]).computed == pytest.approx(moved.max(), rel=1e-12)
    assert np.linalg.norm(clipped, axis=2).max() == pytest.approx(1.0)  # left out


def test_the_factors_of_dpgan():
    assert [prior_work.noise_too_small(batch) for batch in (1, 64, 256)] == [1, 8, 16]
    for groups in (5, 9):
        parts = np.random.default_rng(3).standard_normal((groups, 11))
        clipped = parts / np.linalg.norm(parts, axis=1, keepdims=True)
        assert prior_work.groups_factor(groups) == pytest.approx(np.linalg.norm(clipped))


def test_the_scripts_line_for_xie():
    for noise in (5.0, 10.0, 15.0):
        line = (2.0 * (64.0 / 60000.0)) * sqrt(25.0) / (noise / 13449.216)
        assert Xie(noise).published_epsilon() == pytest.approx(line, rel=1e-14)
    natural = Xie(5, steps_times_log=5 * log(1e5)).published_epsilon()
    assert natural == pytest.approx(Xie(5).published_epsilon() * sqrt(log(10)))
    assert (sum(DIGIT_COUNTS), len(DIGIT_COUNTS), DIGIT_COUNTS[5]) == (60_000, 10, 5_421)
    assert min(DIGIT_COUNTS) == 5_421
    ledger = replace(Xie(15), gradient_bound=15.0).ledger(size=5_421, iterations=10)
    assert ledger == [(SampledGaussian(1.0, 64 / 5_421), 50)]


def test_the_epsilon_of_one_step_is_exact():
    """Dong, Roth, Su 2022, Cor. 2.13, for a Gaussian; the tail of the loss for little noise."""
    found = claims.of_one_step(Gaussian(1.0))
    assert ndtr(0.5 - found) - exp(found) * ndtr(-0.5 - found) == pytest.approx(1e-5)
    step = Xie(15).ledger(size=PUBLIC_SIZE)[0].mechanism
    found = claims.of_one_step(step)
    assert step.profile([found]).max() <= 1e-5 < step.profile([found * (1 - 1e-6)]).max()
    # far off, delta is q times the upper tail of the loss, x / s + 1 / (2 s^2) + log(q)
    noise, rate = 15 / 13449.216, 64 / 60_000
    tail = norm.isf(1e-5 / rate) / noise + 1 / (2 * noise**2) + log(rate)
    assert found == pytest.approx(tail, rel=1e-4)
    assert exp(-found) == 0.0


# DP-Adam's updates by clip norm: a plain listing and torch's Adam


def test_a_made_up_run_is_what_it_says():
    rng = np.random.default_rng(1)
    made = list(adam.trajectory(steps=3, batch_size=40, dims=7, shortest=2.0, rng=rng))
    assert len(made) == 3
    for batch in made:
        norms = np.linalg.norm(batch.gradients, axis=1)
        assert batch.gradients.shape == (40, 7)
        assert 2.0 <= norms.min() < norms.max() <= 20.0
        wanted = sum(g / max(1.0, np.linalg.norm(g) / 5) for g in batch.gradients)
        wanted = (wanted + 0.7 * 5 * batch.noise) / 40
        found = adam.released(batch, max_grad_norm=5.0, noise_multiplier=0.7)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_the_clip_norm_cancels_exactly_where_every_gradient_is_longer():
    run = adam.Comparison()
    assert run.difference(1.0, 2.0, eps=0.0) < 1e-12
    assert run.difference(1.0, 1e-9, eps=0.0) < 1e-12
    # one gradient that is shorter than the larger norm is enough
    first = run.batches[0]
    norms = np.linalg.norm(first.gradients, axis=1, keepdims=True)
    shorter = np.where(np.arange(128)[:, None] == 0, first.gradients / norms, first.gradients)
    run.batches[0] = first._replace(gradients=shorter)
    assert run.difference(1.0, 2.0, eps=0.0) > 1e-4
    assert run.difference(0.5, 1.0, eps=0.0) < 1e-12


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "told", "ours"),
    [
        *(
            (
                "Adam",
                {"betas": (0.5, 0.9), "eps": eps},
                partial(adam.updates, betas=(0.5, 0.9), eps=eps),
            )
            for eps in (1e-8, 1e-3)
        ),
        *((name, {}, claims.METHODS[name]) for name in ("RMSprop", "Adagrad")),
    ],
)
def test_updates_are_those_of_pytorch(name: str, told, ours):
    torch = pytest.importorskip("torch")
    gradients = np.random.default_rng(2).standard_normal((30, 5)) * 0.01
    weights = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
    optimizer = getattr(torch.optim, name)([weights], lr=1.0, **told)
    for gradient, update in zip(gradients, ours(gradients), strict=True):
        before = weights.detach().clone()
        weights.grad = torch.from_numpy(gradient)
        optimizer.step()
        np.testing.assert_allclose((before - weights.detach()).numpy(), update, rtol=1e-9)


def test_eps_weighs_in_proportion_to_one_over_the_clip_norm():
    """|u_C - u| is eps / (C root + eps) of u, so ten times smaller C moves u ten times as far."""
    run = adam.Comparison()
    exact = run.updates(1.0, eps=0.0)
    off = [adam.difference(exact, run.updates(norm, eps=1e-8)) for norm in (1.0, 0.1, 0.01)]
    assert off[1] == pytest.approx(10 * off[0], rel=0.01)
    assert off[2] == pytest.approx(100 * off[0], rel=0.05)


def test_without_their_constants_all_methods_cancel_c():
    first, second, other = (claims.comparison().means(norm) for norm in (1.0, 0.1, 100.0))
    ways = {
        "RMSprop": partial(adam.rmsprop, eps=0.0),
        "Adagrad": partial(adam.adagrad, eps=0.0),
        "normalised gradients": adam.normalised,
    }
    found = claims.other_methods()
    for name, way in ways.items():
        assert adam.difference(way(first), way(second)) < 1e-12
        assert adam.difference(way(first), way(other)) > 0.1  # regime (ii)
        assert found[name] < 1e-3
    assert max(found, key=found.__getitem__) == "RMSprop"

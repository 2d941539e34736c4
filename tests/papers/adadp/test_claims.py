"""The claims of AdaDP against numbers found independently, and what its history gives away."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from truths import log_moment

from dpkit.common.show import interval
from dpkit.papers.adadp import claims, example, pca, recomputed, tables, theorems, trajectories
from dpkit.papers.adadp.recomputed import theorem_1
from dpkit.papers.claims import check
from dpkit.papers.experiments.store import load
from dpkit.privacy import as_drawn, divergence, gdp, pld, rdp

BY_ID = {claim.id.partition("/")[2]: claim for claim in claims.CLAIMS}


@pytest.mark.parametrize("name", ["beale-adadp", "beale-dpsgd", "other-functions"])
def test_evidence_of_settings_that_are_not_printed_has_every_value_asked_for(name: str):
    assert "not printed" in check(BY_ID[name]).explanation
    grid = trajectories.GRID._replace(starts=1, seeds=1, iterations=2)
    values = trajectories.trajectories(grid).values
    BY_ID[name].explained(values)
    assert math.isfinite(BY_ID[name].compute(values))


@pytest.mark.parametrize(("h", "epsilon"), [(0.01, 0.05), (1.0, 1.0), (1.0001, 1.0), (9.0, 2.0)])
def test_delta_of_a_loss_by_the_hockey_stick(h: float, epsilon: float):
    """Lemma 1 would notice a sum of 1.0001 in place of 1."""
    p, q = divergence.normal(math.sqrt(h), 1), divergence.normal(0, 1)
    exact = divergence.hockey_stick(p, q, epsilon, low=-12, high=16)
    assert recomputed.delta_of_loss(h, epsilon) == pytest.approx(exact, rel=1e-8)
    assert (exact > math.exp(gdp.log_delta(1.0, 1.0)) * (1 + 1e-6)) == (h > 1)


def test_a_mean_cosine_and_its_tolerance_of_three_standard_errors():
    """Each within four of its own errors: fails by chance in 1 of 5,000 seeds."""
    told = {"adaptive": 7, "uniform": 20, "inverse": 22}
    errors = []
    for name, noise in example.PRINTED.items():
        claim, found = BY_ID[f"cosine-{name}"], check(BY_ID[f"cosine-{name}"]).computed
        exact = example.exact_mean_cosine(example.VALUES, noise)
        assert abs(found - exact) < 4 * 0.66 / math.sqrt(claims.DRAWS)
        drawn = example.mean_cosine(example.VALUES, noise, draws=10_000, seed=1)
        errors.append(drawn.standard_error)
        away = abs(example.PRINTED_COSINES[name] - found) / errors[-1]
        assert away == pytest.approx(told[name], abs=0.8)
        assert f"{told[name]} standard errors" in claim.explanation
    assert 3 * max(errors) + 0.005 == pytest.approx(claims.COSINE_TOLERANCE, abs=5e-4)


def test_the_order_of_the_cosines_turns_where_noise_is_small():
    assert recomputed.cosine_lead() < 0 < recomputed.cosine_lead(noise_multiplier=0.1)
    one_price = [example.shaped((12, 6), power=p, noise_multiplier=1.0) for p in (1.0, 0.0)]
    for noise in (*one_price, *example.PRINTED.values()):
        value = example.exact_mean_cosine(example.VALUES, noise)
        assert f"{value:.3f}" in BY_ID["cosine-order"].explanation


def test_the_example_in_lots_of_a_fixed_size():
    """Above a lower end for Poisson lots, below Renyi DP; 2C apart as the claim says."""
    found = BY_ID["theorem-1-example-certified"].compute()
    assert pld.epsilon(recomputed.EXAMPLE, delta=1e-5).lower < found
    assert found < rdp.epsilon(recomputed.FIXED_SIZE, delta=1e-5).epsilon
    pair = as_drawn.DrawnRun(0.9, 600, 60_000, 1_800).guarantee("fixed", delta=1e-5)
    said = interval(pair.lower, pair.epsilon, 3).replace(" to ", " and ")
    assert f"between {said}" in BY_ID["theorem-1-example-certified"].explanation


def test_the_example_by_poisson_sampling_from_its_sum():
    """Integer order 6: E[(P / Q)^6] is a sum over how often the record is met."""
    exact = (1_800 * log_moment(6, 0.9, 0.01) + math.log(1e5)) / 5
    for name in ("theorem-1-example-poisson", "moments-needs-sigma-1"):
        assert BY_ID[name].compute() == pytest.approx(exact, rel=1e-9)
    tight = pld.epsilon(recomputed.EXAMPLE, delta=1e-5).epsilon
    assert tight == pytest.approx(3.064, abs=1e-3)


@pytest.mark.parametrize(("noise", "delta", "told"), [(7, 1e-5, ".502"), (4, 1e-5, ".926")])
def test_the_price_of_the_pca_by_solving_its_profile(noise: float, delta: float, told: str):
    found = recomputed.pca_epsilon(noise, delta=delta)
    p, q = divergence.normal(1 / noise, 1), divergence.normal(0, 1)
    assert divergence.hockey_stick(p, q, found, low=-12, high=12) == pytest.approx(delta, rel=1e-6)
    assert told in BY_ID["pca-share"].explanation
    assert f"{found:.3f}".endswith(told)


def test_numbers_within_explanations():
    steps, orders = recomputed.high_privacy_steps(), theorems.ORDERS
    rate = recomputed.MNIST_RATE
    first = pca.release(recomputed.HIGH_PCA_NOISE, adjacency="replace-one").rdp(orders)
    training = steps * theorem_1(recomputed.HIGH_NOISE, rate).step
    with_pca = (training + first + math.log(1e5) / (orders - 1)).min()
    at_6 = 1_800 * theorem_1(0.9, 0.01).step[4] + math.log(1e5) / 5
    joint = [1 / math.hypot(3 / (6 * 3), 6 / (6 * 6)), 6 / math.sqrt(3)]  # of two and three groups
    cifar = [theorem_1(z, 0.04).epsilon(1_000, delta=1e-5).epsilon for z in (6.0, *joint)]
    assert BY_ID["two-clip-norms"].compute() == pytest.approx(joint[0])
    table_1 = recomputed.pca_epsilon(6.0, delta=recomputed.TABLE_1_DELTA)
    # E_R[((P - Q) / R)^2] of three Gaussians of noise 1/2 that are 1 apart, two by two: by
    # E_R[P Q / R^2] = e^((p - r) (q - r) / noise^2); the means form an equilateral triangle
    moment_of_three = 2 * (math.exp(4) - math.exp(2))
    uses = [example.privacy_used((12, 6), noise) for noise in example.PRINTED.values()]
    for name, numbers in {
        "theorem-1-example": [f"{at_6:.2f}"],
        "pca-share": [f"{steps:,}", f"{with_pca:.2f}", f"{table_1:.3f}"],
        "local-clipping-sensitivity": [f"{steps:,}", f"{recomputed.high_privacy_epsilon(4.0):.2f}"],
        "two-clip-norms": [f"{one:.2f}" for one in (joint[1], *cifar)],
        "lemma-6-exponent": [f"{moment_of_three:.1f}"],
        "lemma-1-example": [*(f"{one:.4f}" for one in uses), f"{math.hypot(12, 6):.3f}"],
    }.items():
        assert [one for one in numbers if one not in BY_ID[name].explanation] == []


def test_reductions_by_hand():
    for name, rows in {
        "MNIST": (0.35 / 1.10, 0.83 / 1.61, 1.16 / 1.96, 4.08 / 5.48),
        "CIFAR-10": (0.27 / 0.89, 0.78 / 1.85, 2.62 / 4.75, 4.81 / 8.36),
    }.items():
        assert recomputed.reduction(name) == pytest.approx(sum(rows) / 4)


def test_shapes_of_one_level_have_one_renyi_divergence():
    """Of sigma_i ~ s_i^p at s = (2, 1), by a sum over each dimension, at order 3; and the kit's."""
    assert recomputed.rdp_difference() < 1e-12
    x = np.linspace(-12, 12, 801)
    for power in (1.0, 0.0, -1.0, 0.5):
        stds = np.array(example.shaped((2, 1), power=power, noise_multiplier=1.5))
        logs = [-(((x[:, None] - m * np.array([2, 1]) / stds) ** 2) / 2) for m in (0, 1)]
        totals = np.exp(3 * logs[1] - 2 * logs[0]).sum(0) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
        assert np.log(totals).sum() / 2 == pytest.approx(3 / (2 * 1.5**2), rel=1e-9)


@pytest.mark.torch
def test_what_least_sums_of_noise_look_like():
    """By bounded search over the ratio of the two deviations, and by the kit's DpOpt."""
    import torch

    from dpkit.papers.adadp.noise_shapes import optimal_shares

    for weights, power in (((1, 1), recomputed.least_sum_power()), ((12, 6), 1 / 3)):

        def total(ratio: float, weights=weights) -> float:
            stds = example.to_one_level((12, 6), (ratio, 1.0), noise_multiplier=1.0)
            return float(np.dot(weights, stds))

        found = minimize_scalar(total, bounds=(0.2, 5), method="bounded", options={"xatol": 1e-9})
        assert math.log2(found.x) == pytest.approx(power, abs=1e-3)
    first, second = optimal_shares(torch.tensor([12.0, 6.0]).double()).rsqrt().tolist()
    assert second / first == pytest.approx(2 ** (1 / 3), rel=0.01)  # as far as 50 steps come
    assert f"{second / first:.2f} times" in BY_ID["dpopt-inverse"].explanation


def test_lengths_and_deltas_are_the_last_and_first_that_eq_7_allows():
    """Each length by eq. 7 at that many steps, within, and at one more, beyond."""
    told = BY_ID["table-1-lengths"].explanation
    for name, noise, lot, size in (("MNIST", 3.0, 600, 60_000), ("CIFAR-10", 4.0, 2_000, 50_000)):
        one = theorem_1(noise, lot / size)
        rows = zip(recomputed.TABLE_1[name], recomputed.table_1_epochs(name), strict=True)
        for epsilons, epochs in rows:
            for epsilon, length in zip(epsilons, epochs, strict=True):
                steps = round(length * size / lot)
                ends = [one.epsilon(n, delta=1e-4).epsilon for n in (steps, steps + 1)]
                assert ends[0] <= epsilon < ends[1]
                assert f"{length:.1f}" in told
    for steps in (0, 1_000, 1_635, 1_636):
        found = recomputed.least_delta(steps)
        assert theorem_1(8.0, 0.01).epsilon(steps, delta=found).epsilon == pytest.approx(0.5)
        assert (found > 1e-5) == (steps == 1_636)
    assert f"{recomputed.least_delta(0):.1e}" == "2.1e-14" in BY_ID["delta-axis"].explanation
    bought = {z: theorem_1(z, 0.01).steps(0.5, delta=1e-5) for z in (2, 4, 5, 6, 7, 8)}
    lots = [theorem_1(8, n / 60_000).steps(0.5, delta=1e-5) for n in (300, 800, 1_000)]
    passed = [theorem_1(z, 0.01).steps(e, delta=1e-5) + 1 for z, e in ((8, 0.5), (4, 2), (2, 8))]
    assert f"({bought[4]}), and {bought.pop(2)}" in BY_ID["agd-noise-only-falls"].explanation
    for number in (*bought.values(), *lots, *passed):
        assert f"{number:,}" in BY_ID["delta-axis"].explanation


@pytest.mark.stored
def test_accuracies_of_stored_runs_within_explanations():
    base, told = load("adadp", "figure_2"), BY_ID["agd-noise-only-falls"].explanation
    rows = {row["method"]: row["0.5"]["mean"] for row in tables.levels(base)}
    for key in ("agd", "adadp"):
        assert f"{rows[tables.NAMES[key]]:.2f}" in told
    found = tables.figure_5(load("adadp", "figure_5"), base)
    rates = [row["mean"] for row in found if row["changed"] == "rate"]
    said = "{:.1f}, {:.1f}, {:.1f} and {:.1f} %".format(*rates)
    assert said in BY_ID["learning-rate-turn"].explanation


@pytest.mark.torch
@pytest.mark.slow("an iteration of one method or network whose time is no longer measured")
def test_the_time_of_an_iteration_is_measured_of_all_four_on_both_networks():
    values = trajectories.time_per_iteration(iterations=2).values
    methods = ("adadp", "dpsgd", "agd", "dpopt")
    names = [f"{data}_{method}" for data in ("mnist", "cifar10") for method in methods]
    assert set(values) == {*names, *(f"{name}_ratio" for name in names)}
    for name in names:
        alone = values[f"{name.partition('_')[0]}_dpsgd"]
        assert values[f"{name}_ratio"] == pytest.approx(values[name] / alone)
    assert "times as long" in BY_ID["time-per-iteration"].explained(values)


def test_the_printed_ratios_in_the_explanation_are_those_of_table_2():
    told = BY_ID["time-per-iteration"].explanation
    forms = ("(printed: {1:.0f} and {2:.0f})", "(printed: {0:.1f}, {1:.0f} and {2:.0f})")
    for row, form in zip(tables.SECONDS.values(), forms, strict=True):
        ratios = [row[name] / row["dpsgd"] for name in ("adadp", "agd", "dpopt")]
        assert form.format(*ratios) in told


@pytest.mark.torch
@pytest.mark.parametrize("size", [1, 3])
def test_noise_of_the_second_step_is_the_kits_own_after_a_lot_and_before_the_switch(size: int):
    """A lot of equal gradients has a history without variance, and does not switch."""
    import torch

    from dpkit.papers.adadp.noise_shapes import RawHistory

    lots = np.tile([[4.0, -1.0, 2.0, 0.5]], (size, 1)), np.full((size, 4), 3.0)
    for lot in lots:
        shape = RawHistory([torch.zeros(4)], noise_multiplier=8.0, max_grad_norm=4.0)
        square = torch.from_numpy(lot.sum(0) / 5.0).square().float()
        shape.see([torch.zeros(4)], lambda _, square=square: [square])
        found = 8.0 * recomputed.second_noise(lot, expected=5.0)
        np.testing.assert_allclose(
            found, np.ones(4) * np.asarray(shape.now().noise_stds[0]), rtol=1e-6
        )


def test_the_leak_where_a_record_is_rare_and_where_it_only_widens_noise():
    """Ten times as wide a noise with chance .01 has a larger delta than 1e-5 at epsilon 500."""
    assert [recomputed.epsilon(rate, delta=1e-5) for rate in (1e-6, 0.01)] == [0.0, math.inf]
    narrow = divergence.normal(0, 1)
    mixed = divergence.mixture([0.99, 0.01], [narrow, divergence.normal(0, 10)])
    assert divergence.hockey_stick(mixed, narrow, 500, low=-100, high=100) > 1e-5
    assert "above 500" in BY_ID["raw-history-leak"].explanation

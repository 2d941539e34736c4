"""The claims of AdaDP against numbers found independently, and what its history gives away."""

import math

import mpmath
import numpy as np
import pytest

from dpkit.common.show import interval
from dpkit.papers.adadp import claims, example, recomputed, tables, trajectories
from dpkit.papers.adadp.recomputed import theorem_1
from dpkit.papers.claims import check
from dpkit.privacy import Release, WithoutReplacementGaussian, as_drawn, divergence, gdp, pld, rdp

BY_ID = {claim.id.partition("/")[2]: claim for claim in claims.CLAIMS}
STANDS = {
    "lemma-1",
    "lemma-1-monotone",
    "lemma-1-example",
    "footnote-1",
    "theorem-1-example-poisson",
    "theorem-1-example-certified",
    "halves-the-cost",
    "table-1-mnist",
    "table-1-cifar-10",
}
COMPUTED = {"pca-share", "agd-uncharged-choice", "two-clip-norms", "delta-above-1-over-n"}


def test_ids_are_the_packages_and_different():
    assert len(BY_ID) == len(claims.CLAIMS)
    assert {claim.paper for claim in claims.CLAIMS} == {"adadp"}


@pytest.mark.parametrize("name", [n for n, c in BY_ID.items() if c.evidence is None])
def test_verdicts(name: str):
    verdict = check(BY_ID[name]).verdict
    wanted = "holds" if name in STANDS else "computed" if name in COMPUTED else "fails"
    assert verdict == wanted


@pytest.mark.parametrize("name", ["beale-adadp", "beale-dpsgd", "other-functions"])
def test_what_settings_decide_that_are_not_printed_is_not_judged(name: str):
    found = check(BY_ID[name])
    assert found.verdict == "cannot be checked"
    assert math.isfinite(found.computed)  # the evidence is there
    assert "not printed" in found.explanation


@pytest.mark.parametrize(("h", "epsilon"), [(0.01, 0.05), (1.0, 1.0), (9.0, 2.0)])
def test_delta_of_a_loss_by_the_hockey_stick(h: float, epsilon: float):
    p, q = divergence.normal(math.sqrt(h), 1), divergence.normal(0, 1)
    exact = divergence.hockey_stick(p, q, epsilon, low=-12, high=16)
    assert recomputed.delta_of_loss(h, epsilon) == pytest.approx(exact, rel=1e-8)


def test_lemma_1_would_notice_a_sum_that_is_too_large():
    above = recomputed.delta_of_loss(1.0001, 1.0)
    assert above > math.exp(gdp.log_delta(1.0, 1.0)) * (1 + 1e-6)


@pytest.mark.parametrize("name", example.PRINTED)
def test_a_mean_cosine_over_a_million_draws(name: str):
    """Within four standard errors of the exact value: fails by chance in 1 of 15,000 seeds."""
    found = check(BY_ID[f"cosine-{name}"]).computed
    exact = example.exact_mean_cosine(example.VALUES, example.PRINTED[name])
    assert abs(found - exact) < 4 * 0.66 / math.sqrt(claims.DRAWS)


def test_the_tolerance_of_a_mean_cosine_is_three_of_its_standard_errors():
    errors = {
        name: example.mean_cosine(example.VALUES, noise, draws=10_000, seed=1).standard_error
        for name, noise in example.PRINTED.items()
    }
    tolerance = 3 * max(errors.values()) + 0.005
    assert tolerance == pytest.approx(claims.COSINE_TOLERANCE, abs=5e-4)
    for name, told in {"adaptive": 7, "uniform": 20, "inverse": 22}.items():
        claim = BY_ID[f"cosine-{name}"]
        assert claim.stated is not None
        assert abs(claim.stated - check(claim).computed) / errors[name] == pytest.approx(
            told, abs=0.8
        )
        assert f"{told} standard errors" in claim.explanation


def test_the_order_of_the_cosines_turns_where_noise_is_small():
    assert recomputed.cosine_lead() < 0 < recomputed.cosine_lead(noise_multiplier=0.1)
    at_one_price = [
        example.exact_mean_cosine(
            example.VALUES,
            example.to_one_level(
                example.SENSITIVITIES, example.PRINTED[name], noise_multiplier=1.0
            ),
        )
        for name in ("adaptive", "uniform")
    ]
    for value in at_one_price:
        assert f"{value:.3f}" in BY_ID["cosine-order"].explanation


def test_the_example_of_theorem_1_at_the_printed_order():
    one = theorem_1(recomputed.EXAMPLE_NOISE, recomputed.EXAMPLE_RATE)
    at_6 = 1_800 * one.step[4] + math.log(1e5) / 5
    assert f"{at_6:.2f}" in BY_ID["theorem-1-example"].explanation


def test_the_example_in_lots_of_a_fixed_size():
    """Above a lower end for Poisson lots, below Renyi DP; 2C apart as the claim says."""
    found = recomputed.fixed_size_epsilon()
    fixed = [Release(WithoutReplacementGaussian(0.9, 0.01), 1_800)]
    assert pld.epsilon(recomputed.EXAMPLE, delta=1e-5).lower < found
    assert found < rdp.epsilon(fixed, delta=1e-5).epsilon
    pair = as_drawn.fixed(as_drawn.Run(0.9, 600, 60_000, 1_800), delta=1e-5)
    said = interval(pair.lower, pair.epsilon, 3).replace(" to ", " and ")
    assert f"between {said}" in BY_ID["theorem-1-example-certified"].explanation


def test_the_example_by_poisson_sampling_from_its_sum():
    """Integer order 6: E[(P / Q)^6] is a sum over how often the record is met."""
    with mpmath.workdps(40):
        q, s = mpmath.mpf(1) / 100, mpmath.mpf("0.9")
        total = mpmath.fsum(
            mpmath.binomial(6, k) * (1 - q) ** (6 - k) * q**k * mpmath.e ** (k * (k - 1) / 2 / s**2)
            for k in range(7)
        )
        exact = float((1_800 * mpmath.log(total) + mpmath.log(10**5)) / 5)
    assert recomputed.poisson_epsilon() == pytest.approx(exact, rel=1e-9)
    assert recomputed.moments_epsilon() == pytest.approx(exact, rel=1e-9)
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
    steps = recomputed.high_privacy_steps()
    told = {
        "pca-share": [f"{steps:,}", f"{recomputed.with_pca():.2f}"],
        "local-clipping-sensitivity": [f"{steps:,}", f"{recomputed.high_privacy_epsilon(4.0):.2f}"],
        "two-clip-norms": [
            f"{recomputed.joint_noise(3):.2f}",
            *(
                f"{recomputed.cifar_epsilon(noise):.2f}"
                for noise in (6.0, recomputed.joint_noise(2), recomputed.joint_noise(3))
            ),
        ],
        "lemma-6-exponent": [f"{recomputed.moment_of_three():.1f}"],
        "lemma-1-example": [
            f"{example.privacy_used(example.SENSITIVITIES, noise):.4f}"
            for noise in example.PRINTED.values()
        ]
        + [f"{math.hypot(12, 6):.3f}"],
    }
    for name, numbers in told.items():
        for number in numbers:
            assert number in BY_ID[name].explanation
    at_1e_4 = recomputed.pca_epsilon(6.0, delta=recomputed.TABLE_1_DELTA)
    assert f"{at_1e_4:.3f}" in BY_ID["pca-share"].explanation


def test_two_clip_norms_move_together():
    """A record at both clip norms, 3 and 6, with noise of 6 times each."""
    whitened = math.hypot(3 / (6 * 3), 6 / (6 * 6))
    assert recomputed.joint_noise(2) == pytest.approx(1 / whitened)


def test_reductions_by_hand():
    assert recomputed.reduction("MNIST") == pytest.approx(
        (0.35 / 1.10 + 0.83 / 1.61 + 1.16 / 1.96 + 4.08 / 5.48) / 4
    )
    assert recomputed.reduction("CIFAR-10") == pytest.approx(
        (0.27 / 0.89 + 0.78 / 1.85 + 2.62 / 4.75 + 4.81 / 8.36) / 4
    )


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
    for data, form in (
        ("mnist", "(printed: {1:.0f} and {2:.0f})"),
        ("cifar10", "(printed: {0:.1f}, {1:.0f} and {2:.0f})"),
    ):
        row = tables.SECONDS[data]
        ratios = [row[name] / row["dpsgd"] for name in ("adadp", "agd", "dpopt")]
        assert form.format(*ratios) in told


def drawn(records, *, rate: float, lots: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Lots as Algorithm 1, line 3, draws them."""
    return [records[rng.random(len(records)) < rate] for _ in range(lots)]


def test_the_history_gives_a_record_away_in_runs_of_the_algorithm():
    """Never without the record; with it, within five deviations of the chance that is computed.

    So by chance it fails in 1 of a million seeds.
    """
    rng = np.random.default_rng(0)
    runs, rate, lots = 400, 0.05, 15
    seen = {False: 0, True: 0}
    for with_record in seen:
        records = (
            np.concatenate([recomputed.OTHERS, recomputed.RECORD])
            if with_record
            else recomputed.OTHERS
        )
        for _ in range(runs):
            lot = drawn(records, rate=rate, lots=lots, rng=rng)
            sums = recomputed.released(lot, noise_multiplier=8.0, expected=5.0, rng=rng)
            seen[with_record] += recomputed.gives_away(sums)
    chance = recomputed.chance(rate, steps=lots)
    assert seen[False] == 0
    assert abs(seen[True] - runs * chance) < 5 * math.sqrt(runs * chance * (1 - chance))


def test_before_the_switch_there_is_the_noise_of_a_global_norm():
    """A lot of equal gradients has a history without variance, and never switches."""
    rng = np.random.default_rng(0)
    lots = [np.full((5, 4), 3.0)] * 4_000
    sums = recomputed.released(lots, noise_multiplier=2.0, expected=5.0, rng=rng)
    assert sums.std() == pytest.approx(2.0 * recomputed.NORM, rel=0.03)
    assert sums.mean() == pytest.approx(5 * recomputed.NORM / 2, abs=0.3)


def test_after_the_switch_noise_and_clipping_follow_the_history():
    rng = np.random.default_rng(0)
    lot = np.tile([[4.0, 1.0]], (10, 1))
    sums = np.stack(
        [
            recomputed.released([lot, lot], noise_multiplier=3.0, expected=10.0, rng=rng)[1]
            for _ in range(4_000)
        ]
    )
    bounds = 1.2 * np.sqrt(0.1) * np.array([4.0, 1.0])
    np.testing.assert_allclose(sums.std(axis=0), 3.0 * math.sqrt(2) * bounds, rtol=0.05)
    np.testing.assert_allclose(sums.mean(axis=0), 10 * bounds, atol=5 * 0.1)


def test_no_leak_is_computed_where_the_record_is_too_rarely_drawn():
    few = {"steps": 2, "delta": 1e-5, "noise_multiplier": 8.0}
    assert recomputed.epsilon(1e-6, **few) == 0.0
    assert recomputed.epsilon(0.01, **few) == math.inf


def test_wider_noise_against_the_hockey_stick():
    """The bound is below the true epsilon of the two laws, and not far below."""
    bound = recomputed.epsilon_of_wider_noise(3.0, sample_rate=0.01, delta=1e-5)
    narrow = divergence.normal(0, 1)
    mixed = divergence.mixture([0.99, 0.01], [narrow, divergence.normal(0, 3)])

    def delta(epsilon: float) -> float:
        return divergence.hockey_stick(mixed, narrow, epsilon, low=-30, high=30)

    assert delta(bound) > 1e-5 > delta(bound + 1.0)
    assert recomputed.epsilon_of_wider_noise(10.0, sample_rate=0.01, delta=1e-5) > 500
    assert "above 500" in BY_ID["raw-history-leak"].explanation


def test_the_evidence_names_every_value_that_an_explanation_asks_for():
    values = trajectories.trajectories(
        trajectories.GRID._replace(starts=1, seeds=1, iterations=2)
    ).values
    for name in ("beale-adadp", "beale-dpsgd", "other-functions"):
        BY_ID[name].explained(values)
        assert math.isfinite(BY_ID[name].compute(values))

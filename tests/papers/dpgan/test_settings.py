"""dpGAN's settings: Table 1, groups, what is added and charged, and what it really costs."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from refusals import refused
from truths import gaussian_epsilon

from dpkit.papers import dpgan
from dpkit.papers.dpgan import settings as settings_module
from dpkit.papers.dpgan import variants
from dpkit.papers.dpgan.grouping import (
    PublicClusters,
    TensorsClippedAtGroupBound,
    biases_together,
    is_bias,
)
from dpkit.papers.dpgan.settings import (
    PUBLISHED,
    TABLE_7,
    NoiseOverSqrtBatch,
    noise_from_budget,
    ungrouped,
)
from dpkit.privacy import SampledGaussian, calibrate, moments, pld, rdp
from dpkit.privacy.clipping import FlatClipping, GroupClipping
from dpkit.privacy.sampling import SHUFFLED_AS_POISSON

MNIST, REPAIRED = dpgan.MNIST, dpgan.REPAIRED
SIZE = MNIST.private_examples

TABLE_1 = [  # as printed: betas, epsilon, noise scale, groups, warm start; then a device's batch
    ("mnist", (0.5, 0.9), 4, "1.086", 5, 300, 64),
    ("celeba", (0.0, 0.9), 10, "0.543", 6, 800, 48),
    ("lsun-u", (0.0, 0.9), 10, "0.434", 7, 2_400, 64),
    ("lsun-l", (0.0, 0.9), 10, "0.434", 7, 2_000, 64),
]


@pytest.mark.parametrize("row", TABLE_1, ids=[row[0] for row in TABLE_1])
def test_table_1(row):
    name, betas, epsilon, noise, groups, warm_start, batch = row
    one = PUBLISHED[name]
    assert one.critic_optimizer.betas == one.generator_optimizer.betas == betas
    assert (one.target_epsilon, one.target_delta) == (epsilon, 1e-5)
    assert f"{one.noise_multiplier:.3f}" == noise
    assert settings_module.CLUSTERS[name] == groups
    assert (one.warm_start, one.expected_batch_size) == (warm_start, 4 * batch)
    assert (one.penalty_weight, one.critic_steps, one.devices) == (10, 4, 4)
    assert one.noise_divisor == pytest.approx(math.sqrt(batch / 4))
    on_one = replace(one, devices=1)  # there it is that of the published slip
    rule = NoiseOverSqrtBatch(1.0, 4 * batch)
    wrong = rule.noise_std(one.noise_multiplier)
    assert one.noise_multiplier / on_one.noise_divisor == pytest.approx(wrong)
    assert replace(one, noise_over_sqrt_batch=False).noise_divisor == REPAIRED.noise_divisor == 1
    share = one.public_examples / (one.public_examples + one.private_examples)
    assert share == pytest.approx(0.02, rel=1e-3)
    counted = {"mnist": 50_000, "celeba": 202_599, "lsun-l": 2_500_000}  # by the text
    whole = one.private_examples + one.public_examples
    assert whole == counted.get(name, whole)


@pytest.mark.parametrize(
    ("name", "tensors", "grouped"), [("mnist", 7, 5), ("celeba", 7, 5), ("lsun-l", 9, 7)]
)
def test_tensors_and_groups(name: str, tensors: int, grouped: int):
    settings = PUBLISHED[name]
    biases = is_bias(len(settings.critic_channels))
    assert settings.tensors == len(biases) == tensors
    assert sum(biases) == len(settings.critic_channels)
    assert ungrouped(settings).charged_groups == ungrouped(settings).parts == tensors
    assert settings.charged_groups == settings.parts == grouped
    assert isinstance(settings.clipping, GroupClipping)
    for group in range(grouped):  # no group holds a weight and anything else
        members = [b for b, g in zip(biases, settings.clipping.groups, strict=True) if g == group]
        assert members == [False] or all(members)
    wrong = replace(settings, clipping=PublicClusters(grouped, tensors, True))
    assert (wrong.charged_groups, wrong.parts) == (grouped, tensors)
    if name == "mnist":
        assert settings.clipping.groups == biases_together(is_bias(3)) == (0, 4, 1, 4, 2, 4, 3)


VARIANTS = {
    **{"basic": ungrouped(MNIST), "weights and biases": MNIST, "automatic": dpgan.SETTINGS},
    **{"celeba": PUBLISHED["celeba"], "lsun": PUBLISHED["lsun-l"]},
    "lsun automatic": replace(PUBLISHED["lsun-u"], clipping=PublicClusters(7, 9, True)),
    **{"repaired": REPAIRED, "small": dpgan.SMALL},
}


def rule_of(settings: settings_module.DpganSettings) -> GroupClipping | TensorsClippedAtGroupBound:
    """A step's clipping rule; public bounds are made up."""
    if isinstance(settings.clipping, PublicClusters):
        return settings.clipping.rule(np.geomspace(0.1, 3.0, settings.tensors).tolist())
    assert isinstance(settings.clipping, GroupClipping)
    return settings.clipping


@pytest.mark.parametrize("name", VARIANTS)
def test_ledgers_price_what_a_record_moves_over_the_noise_and_what_is_charged(name: str):
    """In units of each tensor's own noise, the clipped gradient of one record moves by 1 / z."""
    settings = VARIANTS[name]
    rule, size = rule_of(settings), settings.private_examples
    noise = np.array(settings.noise_stds(rule))[:, None]
    rng = np.random.default_rng(1)
    norms = rng.exponential(3.0, (settings.tensors, 2_001))
    norms[:, 0] = 1e6
    moved = np.sqrt(((rule.weights(norms) * norms / noise) ** 2).sum(axis=0))
    true = 1 / moved.max()
    (release,) = settings.poisson_ledger(public_size=size, steps=7)
    expected = SampledGaussian(true, settings.expected_batch_size / size)
    orders = [1.5, 2.0, 8.0]
    assert release.count == 7
    np.testing.assert_allclose(release.mechanism.rdp(orders), expected.rdp(orders), rtol=1e-9)
    if settings.sampling.assumptions:  # shuffled: a replaced record moves one batch of each pass
        batches = size // settings.expected_batch_size
        for steps, passes in ((0, 0), (1, 1), (batches, 1), (batches + 1, 2)):
            (proven,) = settings.ledger(public_size=size, steps=steps)
            assert (proven.count, proven.mechanism.adjacency) == (passes, "replace-one")
        wanted = np.array(orders) * (2 / true) ** 2 / 2
        np.testing.assert_allclose(proven.mechanism.rdp(orders), wanted, rtol=1e-9)
    else:
        assert settings.ledger(public_size=size, steps=7) == [release]
    (claimed,) = settings.claimed_ledger(public_size=size, steps=3)  # each group apart
    one = SampledGaussian(settings.noise_multiplier, settings.expected_batch_size / size)
    assert claimed.count == 3 * settings.charged_groups
    np.testing.assert_array_equal(claimed.mechanism.rdp(orders), one.rdp(orders))


def test_shuffled_batches_and_bounds_are_said_in_the_assumptions():
    (release,) = MNIST.poisson_ledger(public_size=SIZE, steps=1)
    assert SHUFFLED_AS_POISSON in release.mechanism.assumptions
    (proven,) = MNIST.ledger(public_size=SIZE, steps=1)
    assert SHUFFLED_AS_POISSON not in proven.mechanism.assumptions
    for one in (release, proven):
        assert any("fixed without the private data" in a for a in one.mechanism.assumptions)
    (repaired,) = REPAIRED.ledger(public_size=SIZE, steps=1)
    assert SHUFFLED_AS_POISSON not in repaired.mechanism.assumptions
    assert any("Poisson" in a for a in repaired.mechanism.assumptions)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_runs_are_as_long_as_table_7_says(name: str):
    both = ungrouped(PUBLISHED[name]), PUBLISHED[name]
    for settings, cell in zip(both, TABLE_7[name], strict=True):
        size = settings.private_examples
        assert settings.iterations_allowed(public_size=size) == cell
        steps = settings.steps_allowed(public_size=size)
        assert steps == 4 * cell
        charged = settings.claimed_ledger(public_size=size, steps=steps)
        assert settings.moments is not None
        spent = moments.epsilon(charged, delta=1e-5, moments=settings.moments).epsilon
        assert settings.target_epsilon < spent < settings.target_epsilon * 1.01
    assert dpgan.SETTINGS.steps_allowed(public_size=SIZE) == 3_120
    assert replace(MNIST, max_steps=100).steps_allowed(public_size=SIZE) == 100


def test_what_is_proven_of_the_published_run_in_closed_form():
    """Eleven passes are one Gaussian whose shift is mu = 2 sqrt(11) sqrt(7) 4 / 1.0859."""
    settings = variants.published("all", scale="reduced")
    pair = pld.epsilon(settings.ledger(public_size=SIZE), delta=1e-5)
    mu = 2 * math.sqrt(11 * 7) * 4 / MNIST.noise_multiplier
    exact = gaussian_epsilon(1 / mu, 1e-5)
    assert pair.lower <= exact <= pair.epsilon < exact * 1.001
    assert pair.adjacency == "replace-one"
    # at full length, if Poisson: groups of one batch, tensors at their group's bound, noise over 4
    ledger = dpgan.SETTINGS.poisson_ledger(public_size=SIZE, steps=3_120)
    assert pld.epsilon(ledger, delta=1e-5).lower > 1_000
    (proven,) = dpgan.SETTINGS.ledger(public_size=SIZE)
    assert proven.count == 17  # passes, of 191 batches, that 3,120 steps begin


def test_the_repaired_run_keeps_its_budget_with_the_least_noise():
    assert REPAIRED.steps_allowed(public_size=SIZE) == REPAIRED.max_steps == 4 * TABLE_7["mnist"][1]
    ledger = REPAIRED.ledger(public_size=SIZE)
    spent = rdp.epsilon(ledger, delta=REPAIRED.target_delta)
    assert REPAIRED.target_epsilon * 0.998 < spent.epsilon <= REPAIRED.target_epsilon
    assert pld.epsilon(ledger, delta=REPAIRED.target_delta).epsilon < spent.epsilon
    least = calibrate.noise_multiplier(
        4.0,
        sample_rate=256 / SIZE,
        steps=3_120,
        delta=1e-5,
        tolerance=1e-4,
        mechanism=lambda noise: (
            replace(REPAIRED, noise_multiplier=noise).ledger(public_size=SIZE, steps=1)[0].mechanism
        ),
    )
    assert least <= REPAIRED.noise_multiplier < least + 0.001
    less = replace(REPAIRED, noise_multiplier=REPAIRED.noise_multiplier - 0.002)
    assert less.steps_allowed(public_size=SIZE) < REPAIRED.max_steps


def test_without_noise_there_is_no_guarantee_and_a_run_may_have_no_steps_at_all():
    """No public examples, no warm start, and the steps of one that is left out."""
    none = replace(REPAIRED, public_examples=0, warm_start=0, max_steps=0)
    assert none.ledger(public_size=SIZE)[0].count == 0
    plain = dpgan.NON_PRIVATE
    assert rdp.epsilon(plain.ledger(public_size=SIZE), delta=1e-5).epsilon == math.inf
    assert plain.steps_allowed(public_size=SIZE) == 3_120
    with pytest.raises(ValueError, match="clipping must bound a record's gradient"):
        _ = plain.parts
    with pytest.raises(ValueError, match="clipping must bound a record's gradient"):
        _ = plain.charged_groups


def test_clusters_of_public_bounds():
    bounds = (1.0, 0.010, 2.0, 0.011, 4.0, 0.012, 8.0)
    jointly = PublicClusters(5, 7, False).rule(bounds)
    apart = PublicClusters(5, 7, True).rule(bounds)
    assert isinstance(jointly, GroupClipping)
    assert isinstance(apart, TensorsClippedAtGroupBound)
    assert jointly.groups == apart.groups
    assert jointly.groups[1] == jointly.groups[3] == jointly.groups[5]
    merged = math.sqrt(0.010**2 + 0.011**2 + 0.012**2)
    assert jointly.bounds[jointly.groups[1]] == pytest.approx(merged)
    assert jointly.sensitivity("add-remove") == pytest.approx(math.sqrt(sum(b * b for b in bounds)))
    assert apart.sensitivity("add-remove") > jointly.sensitivity("add-remove")
    assert apart.claimed_sensitivity("add-remove") == jointly.sensitivity("add-remove")


def test_small_is_the_same_method_with_fewer_records_and_steps():
    tiny = settings_module.small(MNIST, batch_size=16, steps=8)
    assert (tiny.expected_batch_size, tiny.max_steps, tiny.warm_start) == (16, 8, 2)
    assert tiny.noise_divisor == 1  # sqrt(4 / 4)
    assert tiny.chosen is None
    assert dpgan.SMALL.steps_allowed(public_size=1_437) == dpgan.SMALL.max_steps
    spent = rdp.epsilon(dpgan.SMALL.ledger(public_size=1_437), delta=1e-5).epsilon
    assert spent <= dpgan.SMALL.target_epsilon


def test_the_noise_formula():
    """Dwork, Roth 2014, Theorem A.1: c^2 >= 2 ln(1.25 / delta), sigma = c / epsilon."""
    for budget, delta in ((4.0, 1e-4), (0.5, 1e-6)):
        noise = noise_from_budget(budget, delta=delta)
        assert math.exp(-((noise * budget) ** 2) / 2) * 1.25 == pytest.approx(delta)
    assert f"{MNIST.noise_multiplier:.4f}" == "1.0859"


COUNTS = {"critic_steps": 0, "private_examples": 0, "public_examples": -1, "max_steps": -5}
COUNTS |= {"latent_size": 0, "moments": 0, "warm_start": 1.5}

test_bad_values_are_refused = refused(
    *((partial(replace, MNIST, **{name: COUNTS[name]}), f"{name} must") for name in COUNTS),
    (lambda: noise_from_budget(0.0), "epsilon must be a finite number > 0"),
    (lambda: noise_from_budget(1.0, delta=math.nan), r"delta must lie in \(0, 1\)"),
    (lambda: PublicClusters(8, 7, False), r"count must lie in \[1, 7\]"),
    (lambda: PublicClusters(0, 7, False), "count must be an integer >= 1"),
    (lambda: PublicClusters(5, 7, True).rule((1.0,) * 6), "bounds must hold 7 numbers, got 6"),
    (lambda: PublicClusters(2, 3, True).rule((1.0, math.nan, 1.0)), r"bounds\[1\] must be"),
    (lambda: replace(MNIST, devices=3), "devices must divide the batch of 256, got 3"),
    (lambda: replace(MNIST, noise_multiplier=math.nan), "noise_multiplier must be a finite"),
    (lambda: replace(MNIST, target_delta=1.0), r"target_delta must lie in \(0, 1\)"),
    (lambda: replace(MNIST, target_epsilon=math.nan), "target_epsilon must be a finite number"),
    (lambda: replace(MNIST, clipping=FlatClipping(1.0)), "clipping must be a grouping"),
    (lambda: replace(MNIST, critic_channels=()), r"len\(critic_channels\) must be .* got 0"),
    (lambda: replace(MNIST, critic_channels=(8, 0)), r"critic_channels\[1\] must be"),
    (lambda: replace(MNIST, generator_channels=()), r"len\(generator_channels\) must be"),
    (lambda: replace(MNIST, image_shape=(1, 28, math.nan)), r"image_shape\[2\] must be"),
    (lambda: MNIST.ledger(public_size=100), "declare the data set's public size"),
    (lambda: REPAIRED.iterations_allowed(public_size=SIZE), "moments must be those of"),
)


@pytest.mark.parametrize("settings", [REPAIRED, MNIST, dpgan.NON_PRIVATE])
@pytest.mark.parametrize("ledger", ["ledger", "poisson_ledger", "claimed_ledger"])
def test_a_number_of_steps_that_is_none_is_refused_at_once(
    settings: settings_module.DpganSettings, ledger: str
):
    with pytest.raises(ValueError, match="steps must be an integer >= 0, got"):
        getattr(settings, ledger)(public_size=SIZE, steps=math.nan)

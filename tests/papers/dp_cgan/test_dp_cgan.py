"""DP-CGAN: its step against a plain listing of Algorithm 1, its ledger, its table, attacks."""

from dataclasses import replace
from math import inf

import pytest
import torch

from dpkit.papers import dp_cgan as paper
from dpkit.papers.dp_cgan import attacks, claims, tables
from dpkit.papers.dp_cgan.settings import PUBLIC_SIZE, REPAIRED, SETTINGS, small
from dpkit.privacy import rdp
from dpkit.training import generator_on

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
VARIANTS = {
    **{"published": (SETTINGS, paper.step), "basic": (paper.BASIC, paper.basic_step)},
    "non-private": (paper.NON_PRIVATE, paper.step),
}
BY_ID = {target.id.partition("/")[2]: target for target in attacks.TARGETS}


def tiny(settings):
    return replace(small(settings, batch_size=5, steps=3), pixels=6, hidden=4, latent_size=3)


def new(settings):
    """A GAN, the same one each time, and a source of randomness for one step."""
    return paper.new_gan(settings, seed=0, device=CPU), generator_on(CPU, reproducible_seed=1)


def batch(settings):
    rng = torch.Generator().manual_seed(7)
    images = torch.rand(5, settings.pixels, generator=rng)
    return images, torch.randint(10, (5,), generator=rng)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_without_noise_is_the_listing_example_by_example(variant):
    settings, step = VARIANTS[variant]
    settings = replace(tiny(settings), noise_multiplier=0.0)
    images, labels = batch(settings)
    net, rng = new(settings)  # the listing's copy
    fakes = net.generator_net(2 * torch.rand(5, settings.latent_size, generator=rng) - 1, labels)
    parameters = list(net.discriminator.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    bound = inf if variant == "non-private" else settings.max_grad_norm
    for i in range(5):
        row, label = slice(i, i + 1), labels[i : i + 1]
        real = -torch.nn.functional.logsigmoid(net.discriminator(images[row], label)).sum()
        fake = -torch.nn.functional.logsigmoid(-net.discriminator(fakes[row].detach(), label)).sum()
        parts = [torch.autograd.grad(one, parameters) for one in (real, fake)]
        if variant == "basic":
            parts = [[r + f for r, f in zip(*parts, strict=True)]]
        for part in parts:  # Algorithm 1's clip, tensor by tensor as in the code
            clipped = [g / max(1.0, g.norm().item() / bound) for g in part]
            total = [t + g for t, g in zip(total, clipped, strict=True)]
    rate = settings.discriminator_optimizer.rate(0)
    expected = [p - rate * t / 5 for p, t in zip(parameters, total, strict=True)]

    gan, rng = new(settings)
    step(gan, images, labels, settings=settings, index=0, rng=rng)
    for found, wanted in zip(gan.discriminator.parameters(), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_repaired_step_never_reads_labels_for_its_fakes():
    settings = replace(tiny(REPAIRED), noise_multiplier=0.0)
    _, labels = batch(settings)
    outcomes = []
    for asked in (labels, (labels + 1) % 10):
        gan, rng = new(settings)
        before = [p.detach().clone() for p in gan.generator_net.parameters()]
        none = torch.empty(0, settings.pixels), asked[:0]
        paper.step(gan, *none, settings=settings, index=0, rng=rng)
        outcomes.append([p.detach().clone() for p in gan.generator_net.parameters()])
        assert any(not torch.equal(a, b) for a, b in zip(before, outcomes[-1], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))


def test_one_record_moves_the_released_gradient_by_no_more_than_the_sensitivity():
    """Add-remove: the discriminator's whole update with and without one extreme record."""
    settings = replace(tiny(REPAIRED), noise_multiplier=0.0)
    settings = replace(settings, discriminator_optimizer=paper.BASIC.discriminator_optimizer)
    images, labels = batch(settings)
    images[0] *= 1e3
    ends = []
    for first in (0, 1):
        gan, rng = new(settings)
        rows = images[first:], labels[first:]
        paper.step(gan, *rows, settings=settings, index=0, rng=rng)
        ends.append(torch.cat([p.detach().flatten() for p in gan.discriminator.parameters()]))
    moved = (ends[0] - ends[1]).norm() * settings.expected_batch_size
    moved /= settings.discriminator_optimizer.rate(0)
    assert moved <= settings.clipping.sensitivity("add-remove") * (1 + 1e-4)


def test_what_was_published_has_no_finite_price_and_what_is_repaired_keeps_its_budget():
    for settings in (SETTINGS, paper.BASIC, paper.NON_PRIVATE):
        ledger = settings.ledger(public_size=PUBLIC_SIZE, steps=1)
        assert rdp.epsilon(ledger, delta=1e-5).epsilon == inf
    steps = REPAIRED.steps_allowed(public_size=PUBLIC_SIZE)
    spent = rdp.epsilon(REPAIRED.ledger(public_size=PUBLIC_SIZE), delta=1e-5)
    assert spent.epsilon <= REPAIRED.target_epsilon
    if steps < REPAIRED.max_steps:
        more = REPAIRED.ledger(public_size=PUBLIC_SIZE, steps=steps + 1)
        assert rdp.epsilon(more, delta=1e-5).epsilon > REPAIRED.target_epsilon


def test_published_settings_are_the_papers_and_images_are_in_the_unit_range():
    settings = SETTINGS
    assert (settings.noise_multiplier, settings.max_grad_norm) == (1.12, 1.1)
    assert (settings.expected_batch_size, settings.target_delta) == (600, 1e-5)
    assert settings.steps_allowed(public_size=PUBLIC_SIZE) == 30_303
    gan, rng = new(settings)
    shapes = [tuple(p.shape) for p in gan.discriminator.parameters()]
    assert shapes == [(128, 794), (128,), (1, 128), (1,)]
    weight = gan.discriminator.body[0].weight
    assert weight.std().item() == pytest.approx((2 / 794) ** 0.5, rel=0.02)
    images = paper.generate(gan, torch.arange(10), settings=settings, rng=rng)
    assert images.shape == (10, 784)
    assert 0 <= images.min() <= images.max() <= 1


def test_the_table_sets_stored_means_beside_the_papers_numbers():
    values = {"published-seed0-lr": 0.8, "published-seed1-lr": 0.9, "repaired-seed0-mlp": 0.5}
    stored = {name: {"values": {"auroc_255": value}} for name, value in values.items()}
    found = {(row["column"], row["classifier"]): row for row in tables.table_1(stored)}
    published = found["DP-CGAN, as published", "LR"]
    assert published["mean"] == pytest.approx(85.0)
    shown = [published[name] for name in ("paper", "lowest", "highest", "seeds")]
    assert shown == [87.57, 80.0, 90.0, 2]
    assert found["DP-CGAN, repaired", "LR"]["mean"] is None
    assert found["DP-CGAN, repaired", "MLP"]["mean"] == 50.0


# Attacks: how far a record moves a step, and what follows for whole runs


def test_how_far_a_crafted_image_and_a_label_alone_move_a_step():
    """2C, nearly; a bias of one logit moves by less than 1, not by C = 1.1."""
    assert 0.97 < attacks.real_shift(SETTINGS) * claims.REAL_PART <= 1 + 1e-6
    assert attacks.real_shift(SETTINGS) > 1.5 / claims.CODE_NOISE
    absent, present = attacks.seen(SETTINGS, sure=True, raised=attacks.RAISED)
    assert attacks.white_box.shift(absent, present) < 1e-3  # the real part
    assert 1.5 / claims.CODE_NOISE < attacks.fake_shift(SETTINGS) <= (1 + 1e-6) / claims.REAL_PART
    repaired = attacks.real_shift(REPAIRED)
    assert repaired == pytest.approx(1 / REPAIRED.noise_multiplier, rel=1e-5)


@pytest.mark.slow("a repaired run whose generator shows a label after many steps")
def test_the_repaired_generator_does_not_show_the_label(measured):
    assert measured(BY_ID["generator-labels-repaired"], trials=10, seed=1) == 0

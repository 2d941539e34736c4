"""Eleven mistakes of a hand-written GAN step, each with the sentence that `check_step` has for it.

Each is one change of the same small conditional GAN, whose own step shows nothing.
"""

import re
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import nn

from dpkit.audit.training.step_check import check_step
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import SampledGaussian
from dpkit.training import (
    Conditional,
    Gan,
    called_fake,
    called_real,
    clipped_sum,
    noised,
    per_example,
    update,
)

pytestmark = pytest.mark.torch

BATCH, PIXELS, CLASSES, LATENT, CLIP, NOISE = 8, 6, 3, 4, 0.5, 1.1
FAKES = 5  # generated examples a step, a public number


@dataclass(frozen=True)
class Settings:
    clipping: FlatClipping

    def ledger(self, *, public_size, steps):
        return [Release(SampledGaussian(NOISE, BATCH / public_size), steps)]


def new_gan():
    hidden = nn.Sequential(nn.Linear(LATENT + CLASSES, 12), nn.BatchNorm1d(12), nn.ReLU())
    generator = Conditional(nn.Sequential(hidden, nn.Linear(12, PIXELS)), classes=CLASSES)
    body = nn.Sequential(nn.Linear(PIXELS + CLASSES, 12), nn.LeakyReLU(), nn.Linear(12, 1))
    critic = Conditional(body, classes=CLASSES)
    rates = torch.optim.Adam(generator.parameters()), torch.optim.SGD(critic.parameters(), 0.1)
    return Gan(generator, deepcopy(generator), critic, *rates)


def made(gan, labels, rng):
    return gan.generator_net(torch.randn(len(labels), LATENT, generator=rng), labels)


def public_labels(rng, count=FAKES):
    return torch.randint(CLASSES, (count,), generator=rng)


def clipped(gan, loss, features, labels):
    return clipped_sum(
        partial(per_example, gan.discriminator, loss), features, labels, rule=FlatClipping(CLIP)
    )


def critic_step(gan, features, labels, rng, *, noise_std=NOISE * CLIP, over=BATCH, fakes=None):
    if fakes is None:
        fake_labels = public_labels(rng)
        fakes = made(gan, fake_labels, rng).detach(), fake_labels
    real, fake = clipped(gan, called_real, features, labels), clipped(gan, called_fake, *fakes)
    noisy = noised(real.sums, noise_std=noise_std, rng=rng)
    means = [r / over + f / FAKES for r, f in zip(noisy, fake.sums, strict=True)]
    update(gan.discriminator_optimizer, real.parameters, means)


def generator_step(gan, labels, rng, *, also=lambda fakes: 0.0):
    fakes = made(gan, labels, rng)
    loss = called_real(gan.discriminator(fakes, labels)).mean() + also(fakes)
    parameters = list(gan.generator_net.parameters())
    update(gan.generator_optimizer, parameters, torch.autograd.grad(loss, parameters))


def right(gan, features, labels, *, rng, **given):
    critic_step(gan, features, labels, rng)
    generator_step(gan, public_labels(rng), rng)


def five_updates(gan, features, labels, *, rng, **given):
    for _ in range(5):
        critic_step(gan, features, labels, rng)
    generator_step(gan, public_labels(rng), rng)


def no_noise(gan, features, labels, *, rng, **given):
    critic_step(gan, features, labels, rng, noise_std=0.0)


def noise_over_batch(gan, features, labels, *, rng, **given):
    critic_step(gan, features, labels, rng, noise_std=NOISE * CLIP / BATCH)


def plain_backward(gan, features, labels, *, rng, **given):
    gan.discriminator_optimizer.zero_grad()
    called_real(gan.discriminator(features, labels)).mean().backward()
    gan.discriminator_optimizer.step()


def private_labels(gan, features, labels, *, rng, **given):
    critic_step(gan, features, labels, rng)
    generator_step(gan, labels, rng)


def feature_matching(gan, features, labels, *, rng, **given):
    critic_step(gan, features, labels, rng)
    centre = features.mean(0)
    generator_step(
        gan, public_labels(rng), rng, also=lambda fakes: (fakes.mean(0) - centre).square().sum()
    )


def statistics_of_private_labels(gan, features, labels, *, rng, **given):
    fakes = made(gan, labels[:FAKES], rng).detach()  # BatchNorm is in train()
    critic_step(gan, features, labels, rng, fakes=(fakes, public_labels(rng)))


def centred_batch(gan, features, labels, *, rng, **given):
    critic_step(gan, 100 * (features - features.mean(0)), labels, rng)


def other_records_as_fakes(gan, features, labels, *, rng, **given):
    critic_step(gan, features, labels, rng, fakes=(features.flip(0), labels.flip(0)))


def as_many_fakes(gan, features, labels, *, rng, **given):
    drawn = public_labels(rng, len(features))
    critic_step(gan, features, labels, rng, fakes=(made(gan, drawn, rng).detach(), drawn))


def over_the_batch(gan, features, labels, *, rng, **given):
    critic_step(gan, features, labels, rng, over=len(features))


def checked(step):
    rng = torch.Generator().manual_seed(3)
    features = torch.rand(BATCH, PIXELS, generator=rng)
    labels = torch.randint(CLASSES, (BATCH,), generator=rng)
    return check_step(step, new_gan, features, labels, settings=Settings(FlatClipping(CLIP)))


def test_the_right_step_shows_nothing():
    report = checked(right)
    assert report.findings == ()
    assert "This is no proof" in str(report)
    assert report.replaced == pytest.approx(1.343, rel=1e-3)
    assert report.dropped == pytest.approx(1, rel=1e-4)


UNNOISED = r"differ after the step where one record .*although noised\(\) returned the same"
SIZE = "differ after the step where one record is left out"
MISTAKES = {  # the kinds of its findings, and a part of each sentence
    five_updates: {
        "releases": r"called 5 times .* multiplier 0.492 in all, .* charges 1 \(.* 1.1 in all"
    },
    no_noise: {"noise": "called once in a step .noise multiplier 0 in all, for clip norm 0.5"},
    noise_over_batch: {"noise": "called once in a step .noise multiplier 0.138 in all, .* 1.1 in"},
    plain_backward: {
        "releases": "called 0 times in a step, and the ledger charges 1 .*; give it all clipped",
        "not noised": f"^discriminator .*{UNNOISED}",
        "batch size": SIZE,
    },
    private_labels: {
        "not noised": "^generator_net .* where one record has another label",
        "batch size": SIZE,
    },
    feature_matching: {"not noised": f"^generator_net .*{UNNOISED}", "batch size": SIZE},
    statistics_of_private_labels: {
        "not noised": "generator_net .* where one record has another label"
    },
    centred_batch: {"sensitivity": r"moves by \d+\.?\d* clip norms where one record"},
    other_records_as_fakes: {"not noised": f"^discriminator .*{UNNOISED}", "batch size": SIZE},
    as_many_fakes: {"batch size": f"discriminator .*{SIZE}"},
    over_the_batch: {"batch size": f"discriminator .*{SIZE}"},
}


# The others' kinds of findings have their quick tests in test_check_step.py.
QUICK = (no_noise, plain_backward, private_labels, as_many_fakes, over_the_batch)
NAMED = pytest.mark.slow("a mistake that is seen, and named as another one")


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=() if step in QUICK else NAMED) for step in MISTAKES],
    ids=lambda step: step.__name__,
)
def test_a_mistake_is_named(step):
    """The findings are of these kinds and no other, and each says what, how much, what to do."""
    found = checked(step).findings
    assert {kind for kind, _ in found} == MISTAKES[step].keys()
    for kind, sentence in found:
        assert re.search(MISTAKES[step][kind], sentence)
        assert re.search("; (give|compute|divide|make|clip)|: give noised", sentence), "a remedy"

"""RDP-GAN: every reading's step against a plain listing, and the repaired step against brute force.

Update rules are plain gradient descent here, so that an update shows its gradient, scale and all.
Fixed seeds. Each of the file's 12 statistical checks rejects at a p-value of 1e-8, so that right
code would fail with probability below 2e-7 together.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from draws import two_sided
from scipy import stats
from torch import nn
from torch.nn.functional import leaky_relu, one_hot, softplus

from dpkit.papers.rdp_gan import algorithm
from dpkit.papers.rdp_gan import settings as settings_module
from dpkit.papers.rdp_gan.settings import DP_GAN, OUTPUT_ERROR, SETTINGS, Dcgan, GradientNoise, Mlp
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant, ExponentialDecay, Linear
from dpkit.training import Data, Sgd, generator_on, train

CPU = torch.device("cpu")
LEAST_P = 1e-8
BATCH, CLASSES, FEATURES, LATENT, EACH = 5, 3, 6, 3, 2
RATES = Linear(1.0, 0.5, over=2)  # by generator iteration: 1, 0.75, 0.5
REPAIRED = replace(
    SETTINGS,
    noise=GradientNoise(Constant(0.0), 0.5),
    sampling=PoissonSampling(BATCH),
    label_scale=4.0,
    target_epsilon=None,
)
READINGS = {
    **{"loss-value": SETTINGS, "multiplicative": settings_module.MULTIPLICATIVE},
    **{"output-error": OUTPUT_ERROR, "dp-gan": DP_GAN},
}
STEPS = {**READINGS, "repaired": REPAIRED}
SMALL_RATES = ("generator_optimizer", "discriminator_optimizer")
SMALL = {
    **{"network": Mlp(4), "features": FEATURES, "latent_size": LATENT, "classes": CLASSES},
    **{"discriminator_steps": EACH, "iterations": 3},
    **dict.fromkeys(SMALL_RATES, Sgd(RATES)),
}


def source(seed):
    return generator_on(CPU, reproducible_seed=seed)


def new(settings):
    return algorithm.new_gan(settings, seed=0, device=CPU)


def tiny(settings, **changes):
    """Small networks, plain gradient descent whose rate falls from iteration to iteration."""
    drawn = replace(settings.sampling, expected_batch_size=BATCH)
    return replace(settings, **{"sampling": drawn, **SMALL, **changes})


def noisy(settings, schedule):
    return replace(settings, noise=replace(settings.noise, schedule=schedule))


def records(count=BATCH, seed=7, features=FEATURES):
    rng = torch.Generator().manual_seed(seed)
    rows = 2 * torch.rand(count, features, generator=rng) - 1
    return rows, torch.randint(CLASSES, (count,), generator=rng)


def weights(network):
    return [p.detach().clone() for p in network.parameters()]


def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors]).double()


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6)


def judged(parameters, rows, labels, scale=1.0):
    """The code's discriminator, written out: (batch,) logits."""
    w1, b1, w2, b2, w3, b3 = parameters
    told = torch.cat((rows, scale * one_hot(labels, CLASSES).to(rows)), 1)
    hidden = leaky_relu(leaky_relu(told @ w1.T + b1, 0.2) @ w2.T + b2, 0.2)
    return (hidden @ w3.T + b3)[:, 0]


def imagined(parameters, rng, count=BATCH):
    """The code's generator, written out: labels first, then latents, are drawn from `rng`."""
    labels = torch.randint(CLASSES, (count,), generator=rng)
    latents = torch.randn(count, LATENT, generator=rng)
    w1, b1, w2, b2, w3, b3 = parameters
    hidden = torch.relu(torch.cat((latents, one_hot(labels, CLASSES).to(latents)), 1) @ w1.T + b1)
    return torch.tanh(torch.relu(hidden @ w2.T + b2) @ w3.T + b3), labels


def stepped(settings, index, rows, labels, *, seed=1):
    gan = new(settings)
    now = {"settings": settings, "index": index, "rng": source(seed)}
    return gan, algorithm.step_of(settings)(gan, rows, labels, **now)


def runs(settings, gan, rows, labels, **more):
    """A record a step of training on these records, seed 1."""
    data, step = Data(rows, labels, len(rows)), algorithm.step_of(settings)
    return train(step, gan, data, settings=settings, rng=source(1), **more)


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("index", [0, 2, 3])  # 3: the end of iteration 1: the generator moves too
def test_each_published_step_is_its_listing(name, index):
    """Lines 6 to 12 of Algorithm 1, a reading each; noise and rates are iteration 0's and 1's."""
    stds = Linear(40.0, 20.0, over=2) if name == "dp-gan" else Linear(3.0, 1.0, over=2)
    std, rate = (stds.start, 1.0) if index == 0 else ((stds.start + stds.end) / 2, 0.75)
    settings = noisy(tiny(READINGS[name]), stds)
    if name == "dp-gan":
        settings = replace(settings, noise=settings_module.ParameterNoise(stds, 5.0))
    rows, labels = records()
    start = new(settings)
    d = [p.detach().requires_grad_() for p in start.discriminator.parameters()]
    g = [p.detach().requires_grad_() for p in start.generator_net.parameters()]

    rng = source(1)
    fakes, fake_labels = imagined(g, rng)
    logits, fake_logits = judged(d, rows, labels), judged(d, fakes.detach(), fake_labels)
    loss = softplus(-logits).mean() + softplus(fake_logits).mean()  # cross-entropy
    gradients = torch.autograd.grad(loss, d, retain_graph=True)
    after = [p.detach().clone() for p in d]
    if name == "loss-value":
        torch.randn((), generator=rng)  # its noise is drawn, and seen by no gradient
    elif name == "multiplicative":
        factor = 1 + std * torch.randn((), generator=rng) / loss.detach()
        gradients = [factor * one for one in gradients]
    elif name == "output-error":
        errors = torch.autograd.grad(loss, logits, retain_graph=True)[0]
        errors = errors + std * torch.randn(BATCH, 1, generator=rng)[:, 0] / BATCH
        real = torch.autograd.grad(logits, d, errors, retain_graph=True)
        fake = torch.autograd.grad(softplus(fake_logits).mean(), d)
        gradients = [r + f for r, f in zip(real, fake, strict=True)]
    else:
        after = [p + std * torch.randn(p.shape, generator=rng) for p in after]
        shrunk = [5 / p.norm() if p.norm() > 5 else 1.0 for p in after]
        assert any(s != 1.0 for s in shrunk)
        after = [p * s for p, s in zip(after, shrunk, strict=True)]
    after = [p - rate * one for p, one in zip(after, gradients, strict=True)]
    wanted = [p.detach() for p in g]
    if index == 3:
        fakes, fake_labels = imagined(g, rng)
        found = torch.autograd.grad(softplus(-judged(after, fakes, fake_labels)).mean(), g)
        wanted = [p - rate * one for p, one in zip(wanted, found, strict=True)]

    gan, record = stepped(settings, index, rows, labels)
    close(weights(gan.discriminator), after)
    close(weights(gan.generator_net), wanted)
    close(weights(gan.averaged_net), wanted)  # nothing is averaged where the paper averages nothing
    assert (record.step, record.batch_size, record.clipped) == (index, BATCH, 0.0)
    assert record.discriminator_loss == pytest.approx(loss.item(), rel=1e-5)
    assert (record.generator_loss is None) == (index != 3)


def test_the_released_generator_is_an_average_that_soon_forgets_the_first_weights():
    settings = tiny(REPAIRED, generator_decay=0.3)
    gan = new(settings)
    wanted = weights(gan.generator_net)
    rng = source(1)
    for index in range(2 * EACH):
        algorithm.repaired_step(gan, *records(), settings=settings, index=index, rng=rng)
        if index % EACH == EACH - 1:
            decay = min(0.3, (1 + index // EACH) / (10 + index // EACH))
            present = weights(gan.generator_net)
            wanted = [decay * a + (1 - decay) * b for a, b in zip(wanted, present, strict=True)]
            assert not equal(wanted, present)
        close(weights(gan.averaged_net), wanted)


# The repaired step.


def listed(settings, rows, labels, index=0):
    """Each example's gradient by itself, clipped, added up, over the *expected* batch size."""
    bound, scale = settings.noise.max_grad_norm, settings.label_scale or 1.0
    start = new(settings)
    d = [p.detach().requires_grad_() for p in start.discriminator.parameters()]
    fakes, fake_labels = imagined(list(start.generator_net.parameters()), source(1))
    total, scaled_down = [torch.zeros_like(p) for p in d], 0
    for inputs, told, sign in ((rows, labels, -1), (fakes.detach(), fake_labels, 1)):
        for i in range(len(inputs)):
            logit = judged(d, inputs[i : i + 1], told[i : i + 1], scale)
            gradient = torch.autograd.grad(softplus(sign * logit).sum(), d)
            norm = flat(gradient).norm().item()
            scaled_down += sign < 0 and norm > bound
            total = [t + g * min(1.0, bound / norm) for t, g in zip(total, gradient, strict=True)]
    rate = settings.discriminator_optimizer.rate(index // EACH)
    ends = [p.detach() - rate * t / BATCH for p, t in zip(d, total, strict=True)]
    return ends, scaled_down / max(len(rows), 1)


@pytest.mark.parametrize("count", [0, 1, 3, 9])
@pytest.mark.parametrize("bound", [0.5, 1.3, 1e6])
def test_without_noise_the_repaired_step_clips_example_by_example(count, bound, monkeypatch):
    """The batch drawn has `count` records and its expected size is 5, always divided by."""
    monkeypatch.setattr(algorithm, "MICROBATCH_SIZE", 4)  # in parts, as batches of thousands are
    settings = tiny(REPAIRED, noise=GradientNoise(Constant(0.0), bound))
    rows, labels = records(count)
    rows = rows * torch.linspace(0.1, 3, max(count, 1))[:count, None]
    wanted, share = listed(settings, rows, labels, index=2)
    gan, record = stepped(settings, 2, rows, labels)
    close(weights(gan.discriminator), wanted)
    assert (record.clipped, record.batch_size) == (pytest.approx(share), count)
    assert np.isfinite(record.discriminator_loss)


@pytest.mark.parametrize("network", [Mlp(4), Dcgan(2)])
def test_one_record_moves_the_update_by_at_most_the_clip_norm(network):
    """Add-remove, any record, added or removed: brute force over 30 of them, some extreme."""
    settings = tiny(REPAIRED, network=network, discriminator_optimizer=Sgd(Constant(1.0)))
    rows, labels = records(3)
    others, told = records(30, seed=8)
    others = others * torch.logspace(-3, 6, 30)[:, None]

    def end(extra):
        joined = torch.cat((rows, others[extra])), torch.cat((labels, told[extra]))
        return flat(stepped(settings, 0, *joined)[0].discriminator.parameters())

    before = end(slice(0, 0))
    moved = torch.stack([(end(slice(i, i + 1)) - before).norm() for i in range(30)]) * BATCH
    bound = settings.noise.rule.sensitivity("add-remove")
    assert bound == 0.5
    assert moved.max() <= bound * (1 + 1e-4)
    assert moved.max() >= bound * (1 - 1e-4)  # reached, or the test would see nothing


def test_the_noise_is_normal_on_every_coordinate_at_the_iterations_multiplier():
    """Of empty batches too: the noise alone is then released; N(0, (z C)^2) over 5, each step."""
    settings = tiny(REPAIRED, discriminator_optimizer=Sgd(Constant(1.0)))
    settings, steps = noisy(settings, lambda i: (3.0, 0.7)[i]), 30
    for index, multiplier in ((1, 3.0), (2, 0.7)):
        ends = []
        for seed in range(steps):
            one, silent = (
                stepped(made, index, *records(0), seed=seed)[0].discriminator.parameters()
                for made in (settings, noisy(settings, Constant(0.0)))
            )
            ends.append(flat(silent) - flat(one))
        z = torch.stack(ends).numpy() * BATCH / (multiplier * 0.5)  # (steps, coordinates)
        assert stats.kstest(z.ravel(), "norm").pvalue > LEAST_P
        assert two_sided(stats.chi2(z.size), float((z**2).sum())) > LEAST_P
        totals = [two_sided(stats.chi2(steps), float(t)) for t in (z**2).sum(0)]
        assert min(totals) * len(totals) > LEAST_P
        together = z.sum(1) / z.shape[1] ** 0.5  # of independent coordinates: normal again
        assert two_sided(stats.chi2(steps), float((together**2).sum())) > LEAST_P


def test_a_ledger_and_a_run_agree_on_the_number_of_releases():
    """One noisy update a step: steps run, and releases priced."""
    settings = noisy(tiny(REPAIRED), ExponentialDecay(2.0, 0.1))
    steps = [one.step // EACH for one in runs(settings, new(settings), *records(40))]
    priced = settings.ledger(public_size=40)
    spent = Counter(settings.noise.schedule(iteration) for iteration in steps)
    assert spent == {release.noise_multiplier: count for release, count in priced}


@pytest.mark.parametrize("name", STEPS)
def test_nothing_private_reaches_what_is_generated(name):
    """The generator is asked for labels and fed latents that no private record or label moves."""
    settings = noisy(tiny(STEPS[name]), Constant(1.0))
    asked = []
    for rows, labels in (records(), records(seed=9), (records()[0], records()[1] * 0)):
        gan = new(settings)
        gan.generator_net.register_forward_pre_hook(lambda _, inputs: asked.append(inputs))
        rng = source(1)
        algorithm.step_of(settings)(gan, rows, labels, settings=settings, index=1, rng=rng)
    assert len(asked) == 6  # for the discriminator's step and for the generator's
    for first, again in ((0, 2), (0, 4), (1, 3), (1, 5)):
        assert equal(asked[first], asked[again])
    assert not torch.equal(asked[0][0], asked[1][0])  # latents are drawn anew


@pytest.mark.parametrize("name", STEPS)
def test_labels_are_not_looked_at_where_records_have_none(name):
    settings = tiny(STEPS[name], classes=0)
    rows, labels = records()
    after = (stepped(settings, 1, rows, told)[0] for told in (labels, labels * 0 - 7))
    assert equal(*(weights(gan.discriminator) for gan in after))


# The networks.


@pytest.mark.parametrize("features", [4, 6, 9, 16, 20, 25, 42, 70, 90, 100, 784])
def test_the_texts_networks_use_every_feature_and_keep_examples_apart(features):
    settings = tiny(REPAIRED, network=Dcgan(2), features=features)
    gan = new(settings)
    for network in (gan.discriminator, gan.generator_net):
        kinds = {type(module).__name__ for module in network.modules()}
        assert not {kind for kind in kinds if "Norm" in kind or "Dropout" in kind}, kinds
    convolutions = [m for m in gan.discriminator.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 3  # section V-A2
    rows, labels = records(4, features=features)
    rows.requires_grad_()
    logits = gan.discriminator(rows, labels)
    assert logits.shape == (4, 1)
    for i in range(4):
        seen = torch.autograd.grad(logits[i].sum(), rows, retain_graph=True)[0]
        assert (seen[i] != 0).all()
        assert not seen[[j for j in range(4) if j != i]].any()
    other = gan.discriminator(rows, (labels + 1) % CLASSES)
    assert (other != logits).all()
    made = gan.generator_net(torch.randn(4, LATENT, generator=source(0)), labels)
    assert made.shape == (4, features)
    assert (made.std(0) > 0).all()


def test_new_networks_repeat_with_their_seed_and_leave_the_global_state_alone():
    settings, state = tiny(REPAIRED), torch.random.get_rng_state()
    first, again, other = (algorithm.new_gan(settings, seed=s, device=CPU) for s in (0, 0, 1))
    assert torch.equal(state, torch.random.get_rng_state())
    assert equal(weights(first.discriminator), weights(again.discriminator))
    assert not equal(weights(first.discriminator), weights(other.discriminator))
    assert equal(weights(first.averaged_net), weights(first.generator_net))
    pairs = zip(first.averaged_net.parameters(), first.generator_net.parameters(), strict=True)
    assert all(a.data_ptr() != b.data_ptr() for a, b in pairs)
    gan, sizes = new(SETTINGS), []  # as in the code
    for network in (gan.discriminator, gan.generator_net):
        sizes.append([tuple(p.shape) for p in network.parameters() if p.ndim == 2])
    assert sizes == [[(256, 794), (256, 256), (1, 256)], [(256, 110), (256, 256), (784, 256)]]


@pytest.mark.parametrize("network", [Mlp(4), Dcgan(2)])
def test_a_label_scale_of_0_hides_the_label_or_is_refused(network):
    settings = tiny(REPAIRED, network=network, features=9, label_scale=0.0)
    discriminator = new(settings).discriminator
    rows, labels = records(features=9)
    assert torch.equal(discriminator(rows, labels), discriminator(rows, (labels + 1) % CLASSES))


def test_records_of_categories_are_soft_while_training_and_drawn_as_codes():
    """Released codes follow each part's softmax: 3 and 2 labels, 4,000 draws, chi-squared."""
    outputs = torch.tensor([[0.3, -1.0, 1.2, 0.0, 0.8]]).expand(4000, 5)
    rng = source(3)
    soft = algorithm.shaped(outputs, (3, 2), rng=rng)
    assert soft.shape == (4000, 5)
    assert soft.min() >= 0
    codes = algorithm.drawn(outputs, (3, 2), rng=rng)
    assert (codes.dtype, codes.shape) == (torch.int64, (4000, 2))
    parts = zip(soft.split((3, 2), 1), codes.T, outputs[0].split((3, 2)), strict=True)
    for part, column, logits in parts:
        torch.testing.assert_close(part.sum(1), torch.ones(4000))
        expected = logits.softmax(0).double().numpy()
        for drawn in (part.argmax(1), column):  # the softened ones' leading label, and the codes
            counts = np.bincount(drawn.numpy(), minlength=len(logits))
            assert stats.chisquare(counts, expected * 4000 / expected.sum()).pvalue > LEAST_P


def test_images_are_released_in_their_range_from_the_averaged_generator():
    settings = tiny(REPAIRED)
    gan, labels, made = new(settings), torch.arange(9) % CLASSES, []
    for silent in ((), gan.generator_net.parameters(), gan.averaged_net.parameters()):
        with torch.no_grad():
            for p in silent:
                p.zero_()
        made.append(algorithm.generate(gan, labels, settings=settings, rng=source(0)))
    assert made[0].shape == (9, FEATURES)
    assert -1 <= made[0].min() <= made[0].max() <= 1
    assert torch.equal(made[0], made[1])
    assert not made[2].any()

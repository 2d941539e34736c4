"""A warm GAN starts as the moments' sampler, and a record moves its steps by the clip norm."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
from short_runs import BATCH, RECORDS, assert_covered, checked

from dpkit import datasets
from dpkit.synthesizers import class_moments
from dpkit.synthesizers.warm_gan.settings import calibrated
from dpkit.synthesizers.warm_gan.step import averaged, generate_from, new_gan, shifted, step
from dpkit.training import Checkpoints, Data, clipped_sum, generator_on, train

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
SMALL = {"latent_size": 2, "hidden": 8, "features": 8, "generator_batch": 32}


@cache
def records():
    digits = datasets.digits()
    images = np.asarray(digits.pixels, dtype=np.float32).reshape(-1, 14, 2, 14, 2).mean((2, 4))
    return images[:, None] / 255, np.asarray(digits.labels, dtype=np.int64)


@cache
def settings(**more):
    given = {"delta": 1e-5, "public_size": 1437, "classes": 10, "shape": (1, 14, 14)}
    given |= {"steps": 6, "batch_size": 40, "n_critic": 2}
    return calibrated(10, **given | SMALL | more)


@cache
def model(components=1):
    of = replace(settings().moments, components=components, noise_multiplier=0.01)
    return class_moments.fit(*records(), settings=of, rng=np.random.default_rng(3))


def new(components=1, **more):
    return new_gan(settings(**more), model(components), seed=0, device=CPU)


def rows(count):
    images, labels = (torch.from_numpy(part[:count]) for part in records())
    return images, labels


def latents(net, count, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(count, net.latent_size, generator=rng)


@pytest.mark.parametrize("components", [1, 2])
def test_the_start_is_the_sampler_of_the_moments(components):
    net = new(components).generator_net
    labels = torch.arange(10).repeat(4)
    z = latents(net, 40)
    images = net(z, labels).detach().numpy().reshape(40, -1)
    for image, draw, label in zip(images, z.double().numpy(), labels.tolist(), strict=True):
        own = model(components).components[label]
        chances = np.cumsum([one.count for one in own]) / sum(one.count for one in own)
        below = float(torch.special.ndtr(torch.tensor(draw[0])))
        one = own[int(np.searchsorted(chances, below))]
        expected = one.mean + one.factors @ draw[1 : 1 + one.factors.shape[1]]
        assert np.allclose(image, np.clip(expected, 0, 1), atol=1e-5)


def test_the_correction_learns_from_the_start():
    net = new().generator_net  # the first cosine is the mean of all pixels
    net(latents(net, 50), torch.arange(50) % 10).sum().backward()
    grads = {name: p.grad for name, p in net.named_parameters()}
    bias = grads["correction.body.2.bias"]
    assert bias is not None
    assert float(bias[0]) > 1


def test_the_average_over_copies_is_that_of_a_loop():
    critic = new().discriminator
    images, labels = rows(15)
    reals, labels = images.unflatten(0, (5, 3)), labels[:5]
    fakes = reals.flip(0) / 2
    gradients, losses = averaged(critic, "hinge", 3)(reals, fakes, labels)
    for i in range(5):
        answers = [critic(x[i], labels[i].repeat(3))[:, 0] for x in (reals, fakes)]
        loss = (torch.relu(1 - answers[0]) + torch.relu(1 + answers[1])).mean()
        wanted = torch.autograd.grad(loss, list(critic.parameters()))
        found = gradients.weighted_sum(torch.eye(5)[i : i + 1])
        assert losses[i].item() == pytest.approx(loss.item(), rel=1e-5)
        for ours, own in zip(found, wanted, strict=True):
            assert torch.allclose(ours, own, atol=1e-5)


@pytest.mark.parametrize("copies", [1, 3])
def test_one_extreme_record_moves_the_sum_by_at_most_the_clip_norm(copies):
    of = averaged(new().discriminator, "bce", copies)
    images, labels = rows(8 * copies)
    reals, labels = images.unflatten(0, (8, copies)).clone(), labels[:8]
    reals[-1] = 1e3
    whole, short = (
        clipped_sum(of, reals[:n], 1 - reals[:n], labels[:n], rule=settings().clipping)
        for n in (8, 7)
    )
    moved = sum((a - b).square().sum() for a, b in zip(whole.sums, short.sums, strict=True)) ** 0.5
    assert 0.99 < float(moved) <= 1 + 1e-5


@pytest.mark.parametrize(
    "copies",
    [1, pytest.param(2, marks=pytest.mark.slow("a copy that reads a record past the clip"))],
)
def test_steps_are_covered_by_what_they_charge(copies):
    """The last one trains the generator, which reads the critic alone."""
    given = {"public_size": RECORDS, "batch_size": BATCH, "steps": copies, "n_critic": copies}
    of = settings(copies=copies, shift=1, **given)
    told = {"settings": of, "charged": of.plan.ledger(copies), "steps": copies}
    told |= {"released": lambda gan: gan.averaged_net}
    start = model()
    made = partial(new_gan, of, start, seed=0, device=CPU)
    assert_covered(checked(step, made, rows(RECORDS), **told))


def test_a_batch_may_be_empty():
    rng = generator_on(CPU, reproducible_seed=1)
    for of in (settings(), settings(copies=2, shift=1)):
        assert step(new(), *rows(0), settings=of, index=0, rng=rng).batch_size == 0


def test_shifts_move_images_as_they_are():
    images = torch.zeros(200, 1, 6, 6)
    images[:, :, 2, 3] = 1
    moved = shifted(images, 1, rng=torch.Generator().manual_seed(0))
    places = {divmod(int(i), 6) for i in moved.flatten(1).argmax(1)}
    assert moved.sum((1, 2, 3)).eq(1).all()
    assert places == {(down, across) for down in (1, 2, 3) for across in (2, 3, 4)}
    # one of the 9 is missed with chance 9 (8/9)^200 < 1e-9


def test_a_run_that_stopped_goes_on_to_the_same_networks(tmp_path):
    data = Data(*rows(1437), 1437)

    def after(path, steps):
        gan, rng = new(), generator_on(CPU, reproducible_seed=5)
        kept = {"steps": steps, "checkpoint": Checkpoints(path)}
        list(train(step, gan, data, settings=settings(), rng=rng, **kept))
        return gan

    whole = after(tmp_path / "whole", 4)
    after(tmp_path / "parts", 2)
    parts = after(tmp_path / "parts", 4)
    nets = [gan.averaged_net for gan in (whole, parts, new())]
    seeds = [generator_on(CPU, reproducible_seed=7) for _ in nets]
    drawn = zip(nets, seeds, strict=True)
    images = [generate_from(net, [0, 5, 9], classes=10, rng=seed) for net, seed in drawn]
    assert (images[0].shape, images[0].dtype) == ((3, 1, 14, 14), np.float32)
    assert 0 <= images[0].min() < images[0].max() <= 1
    assert np.allclose(images[0], images[1], atol=1e-5)
    assert not np.allclose(images[0], images[2], atol=1e-5)

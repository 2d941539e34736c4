"""Small images: its networks, and its step against a plain listing of Algorithm 2."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from dpkit.papers import small_images as paper
from dpkit.papers.small_images import algorithm
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.sampling import PoissonSampling
from dpkit.training import generator_on

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
SIDE = 8
VARIANTS = {"published": paper.SETTINGS, "repaired": paper.REPAIRED}
VARIANTS |= {"non-private": paper.NON_PRIVATE}


def tiny(settings, **changes):
    sampling = type(settings.sampling)(5)
    small = {"capacity": 2, "side": SIDE, "latent_size": 3, "max_steps": 4, "target_epsilon": None}
    return replace(settings, **{"sampling": sampling, **small, **changes})


def images(count, *, seed=7):
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(count, 1, SIDE, SIDE, generator=rng) - 1


def run(settings, features, *, index=0, seed=1):
    """One step from the same weights and draws; the networks and the record."""
    gan = paper.new_gan(settings, seed=0, device=CPU)
    step = paper.step_of(settings)
    unused = torch.zeros(len(features), dtype=torch.int64)
    rng = generator_on(CPU, reproducible_seed=seed)
    return gan, step(gan, features, unused, settings=settings, index=index, rng=rng)


def released(gan):
    """What the critic's optimiser was given: the divided, noised sum."""
    return torch.cat([p.grad.flatten() for p in gan.discriminator.parameters()])


def test_networks_are_the_papers():
    gan = paper.new_gan(paper.SETTINGS, seed=0, device=CPU)
    nets = gan.discriminator, gan.generator_net
    judge, maker = ([tuple(p.shape) for p in net.parameters()] for net in nets)
    assert judge[::2] == [(32, 1, 5, 5), (64, 32, 5, 5), (128, 64, 5, 5), (1, 2048)]
    assert judge[1::2] == [(32,), (64,), (128,), (1,)]
    assert maker[:4] == [(2048, 128), (2048,), (2048,), (2048,)]
    assert maker[4::2] == [(128, 64, 5, 5), (64, 32, 5, 5), (32, 1, 5, 5)]
    assert maker[5::2] == [(64,), (32,), (1,)]
    judge, maker = (list(net.children()) for net in nets)
    assert [m.negative_slope for m in judge if isinstance(m, nn.LeakyReLU)] == [0.2] * 3
    assert [m.output_padding[0] for m in maker if isinstance(m, nn.ConvTranspose2d)] == [0, 1, 1]
    kinds = [type(m).__name__ for m in maker]
    assert kinds[:4] == ["Linear", "BatchNorm1d", "ReLU", "Unflatten"]
    assert kinds[5::2] == ["ReLU", "ReLU", "Tanh"]
    for settings in (paper.SETTINGS, *(tiny(paper.SETTINGS, side=side) for side in (8, 15, 28))):
        gan = paper.new_gan(settings, seed=0, device=CPU)
        made = paper.generate(gan, 2, settings=settings, rng=generator_on(CPU))
        assert made.shape == (2, 1, settings.side, settings.side)
        assert gan.discriminator(made).shape == (2, 1)


def loss_of(net, real, fake, mix):
    """One example's loss, and its gradient as tensors."""
    point = torch.lerp(fake, real, mix)[None].requires_grad_()
    (slope,) = torch.autograd.grad(net.discriminator(point).sum(), point, create_graph=True)
    loss = (net.discriminator(fake[None]) - net.discriminator(real[None])).sum()
    loss = loss + 10 * (slope.norm() - 1) ** 2
    gradient = torch.autograd.grad(loss, list(net.discriminator.parameters()))
    return loss.item(), gradient, torch.cat([g.flatten() for g in gradient]).norm().item()


def listing(settings, features, *, seed=1):
    """Algorithm 2 example by example, noise left out: its networks and the critic's mean gradient.

    The generator's step comes first; the critic's images come from the generator in eval mode.
    """
    net = paper.new_gan(settings, seed=0, device=CPU)
    rng = generator_on(CPU, reproducible_seed=seed)
    net.generator_optimizer.zero_grad()
    latents = torch.randn(settings.expected_batch_size, settings.latent_size, generator=rng)
    (-net.discriminator(net.generator_net(latents)).mean()).backward()
    net.generator_optimizer.step()

    generator = net.generator_net.eval()
    fakes = generator(torch.randn(len(features), settings.latent_size, generator=rng)).detach()
    mixing = torch.rand(len(features), generator=rng)
    total, losses, norms = [torch.zeros_like(p) for p in net.discriminator.parameters()], [], []
    bound = getattr(settings.clipping, "max_grad_norm", float("inf"))
    for one in zip(features, fakes, mixing, strict=True):
        loss, gradient, norm = loss_of(net, *one)
        total = [t + g / max(1.0, norm / bound) for t, g in zip(total, gradient, strict=True)]
        losses.append(loss)
        norms.append(norm)
    divisor = 5 if isinstance(settings.sampling, PoissonSampling) else len(features)
    return net, torch.cat([t.flatten() for t in total]) / divisor, losses, norms


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("count", [3, 5])
def test_a_step_without_noise_is_the_listing_example_by_example(variant, count, monkeypatch):
    monkeypatch.setattr(algorithm, "MICROBATCH_SIZE", 2)  # in parts, as large batches are
    settings = tiny(VARIANTS[variant], noise_multiplier=0.0)
    features = images(count)
    net, wanted, losses, norms = listing(settings, features)
    if variant != "non-private":  # so that some are clipped and some are not
        middle = FlatClipping(sorted(norms)[1] * 1.001)
        settings = replace(settings, clipping=middle)
        net, wanted, losses, _ = listing(settings, features)
    gan, record = run(settings, features)
    close = {"rtol": 0, "atol": 1e-5 * float(wanted.abs().max())}
    torch.testing.assert_close(released(gan), wanted, **close)
    pairs = zip(gan.generator_net.parameters(), net.generator_net.parameters(), strict=True)
    for found, other in pairs:
        torch.testing.assert_close(found, other, rtol=0, atol=1e-6)
    assert record.discriminator_loss == pytest.approx(sum(losses) / count, rel=1e-5)
    assert record.batch_size == count
    share = 0.0 if variant == "non-private" else (count - 2) / count
    assert record.clipped == pytest.approx(share)


def test_the_critic_is_moved_by_adam_with_the_codes_betas():
    settings = tiny(paper.SETTINGS)
    gan, other = (paper.new_gan(settings, seed=0, device=CPU) for _ in range(2))
    adam = torch.optim.Adam(other.discriminator.parameters(), lr=4e-4, betas=(0.5, 0.9))
    rng, labels = generator_on(CPU, reproducible_seed=1), torch.zeros(5, dtype=torch.int64)
    pairs = list(zip(other.discriminator.parameters(), gan.discriminator.parameters(), strict=True))
    for index in range(3):
        paper.step(gan, images(5, seed=index), labels, settings=settings, index=index, rng=rng)
        for mine, theirs in pairs:
            mine.grad = theirs.grad
        adam.step()
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-7)


@pytest.mark.parametrize("variant", ["published", "repaired"])
def test_noise_comes_once_in_units_of_the_clip_norm(variant):
    """Mean and mean square of 2,500 normals or more, six deviations: failure below 4e-9."""
    clipping = FlatClipping(3.0)
    settings = tiny(VARIANTS[variant], capacity=4, clipping=clipping, noise_multiplier=0.7)
    both = (replace(settings, noise_multiplier=z) for z in (0.7, 0.0))
    noisy, quiet = (released(run(one, images(4))[0]) for one in both)
    noise = (noisy - quiet) * settings.divisor(4) / (0.7 * 3.0)
    assert (count := len(noise)) > 2_500
    assert abs(noise.mean()) < 6 / count**0.5
    assert abs(noise.square().mean() - 1) < 6 * (2 / count) ** 0.5


def test_one_record_moves_the_released_sum_by_no_more_than_the_sensitivity():
    """Replace-one, with everything else and all draws the same: 2C, nearly reached."""
    settings = tiny(paper.SETTINGS, noise_multiplier=0.0)
    features, other = images(5), images(5)
    other[2] *= 1e3
    ends = [released(run(settings, batch)[0]) * 5 for batch in (features, other)]
    bound = settings.clipping.sensitivity("replace-one")
    assert 0 < (ends[0] - ends[1]).norm() <= bound * (1 + 1e-5)


def test_an_empty_poisson_batch_releases_noise_alone():
    settings = tiny(paper.REPAIRED, capacity=4)
    gan, record = run(settings, images(0))
    assert (record.batch_size, record.discriminator_loss, record.clipped) == (0, 0.0, 0.0)
    noise = released(gan) * 5 / settings.noise_std
    assert abs(noise.square().mean() - 1) < 6 * (2 / len(noise)) ** 0.5
    quiet, _ = run(replace(settings, noise_multiplier=0.0), images(0))
    assert not released(quiet).any()
    nets = quiet.generator_net, paper.new_gan(settings, seed=0, device=CPU).generator_net
    pairs = zip(*(net.parameters() for net in nets), strict=True)
    assert not any(torch.equal(a, b) for a, b in pairs)  # the generator moves all the same


def test_what_is_released_follows_the_generator_and_knows_no_batch():
    settings = tiny(paper.SETTINGS, critic_steps=3)
    losses = [run(settings, images(5), index=index)[1].generator_loss for index in range(6)]
    assert [loss is not None for loss in losses] == [True, False, False, True, False, False]
    gan, _ = run(settings, images(5))
    assert (gan.generator_net.training, gan.averaged_net.training) == (True, False)
    released_state, state = gan.averaged_net.state_dict(), gan.generator_net.state_dict()
    assert all(torch.equal(released_state[name], value) for name, value in state.items())
    assert state["1.running_mean"].any()  # the normalisation's means were copied too
    latents = torch.randn(4, 3, generator=generator_on(CPU, reproducible_seed=3))
    with torch.no_grad():
        together, alone = gan.averaged_net(latents), gan.averaged_net(latents[:1])
    torch.testing.assert_close(together[:1], alone)
    none = paper.generate(gan, 0, settings=settings, rng=generator_on(CPU, reproducible_seed=0))
    assert none.shape == (0, 1, SIDE, SIDE)


def test_what_is_watched_is_each_examples_loss_and_whole_norm():
    settings = tiny(paper.SETTINGS, noise_multiplier=0.0)
    features, (gan, _) = images(3), run(settings, images(5))
    rng, again = (generator_on(CPU, reproducible_seed=4) for _ in range(2))
    losses, norms = algorithm.watch(gan, features, settings=settings, rng=rng)
    fakes = paper.generate(gan, 3, settings=settings, rng=again)
    mixing = torch.rand(3, generator=again)
    for i, one in enumerate(zip(features, fakes, mixing, strict=True)):
        loss, _, norm = loss_of(gan, *one)
        found = losses[i].item(), norms[i].item()
        assert found == pytest.approx((loss, norm), rel=1e-4)

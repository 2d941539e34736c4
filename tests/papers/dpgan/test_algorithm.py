"""dpGAN's steps against plain listings example by example, their noise, and who reads what."""

import re
from dataclasses import replace
from math import inf, sqrt

import pytest
import torch
from scipy.stats import chi2

from dpkit.papers import dpgan as paper
from dpkit.papers.dpgan import algorithm
from dpkit.papers.dpgan.grouping import PublicBounds, PublicClusters, biases_together, is_bias
from dpkit.papers.dpgan.settings import CELEBA, LSUN_U, MNIST, ungrouped
from dpkit.privacy.clipping import GroupClipping, Unclipped
from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import Constant
from dpkit.training import Sgd, generator_on

CPU = torch.device("cpu")
SMALL = {
    **{"image_shape": (1, 9, 9), "critic_channels": (2, 3, 4), "generator_channels": (3, 2, 2)},
    **{"latent_size": 3, "warm_start": 2, "critic_optimizer": Sgd(Constant(1.0))},
}
SLOW = Sgd(Constant(1e-3))


def published(settings, *, batch=3, devices=1):
    sampling = ShuffledBatches(batch)
    return replace(settings, sampling=sampling, devices=devices, moments=None, **SMALL)


def repaired(clipping, *, batch=3):
    given = {"clipping": clipping, "sampling": PoissonSampling(batch), "max_steps": 8}
    return replace(paper.REPAIRED, **given, **SMALL)


GROUPS = biases_together(is_bias(3))
EACH = tuple(range(7))
LOW = (0.05, 0.02, 0.1, 0.3, 0.01)  # of five groups, so that clipping is felt
CASES = {
    "basic, published": published(
        replace(ungrouped(MNIST), clipping=GroupClipping((0.01,) * 7, EACH))
    ),
    "grouped, published": published(
        replace(MNIST, clipping=GroupClipping(LOW, GROUPS)), batch=4, devices=2
    ),
    "automatic, published": published(paper.SETTINGS),
    "basic, repaired": repaired(GroupClipping((0.03,) * 7, EACH)),
    "flat, repaired": repaired(GroupClipping((0.1,), (0,) * 7)),
    "grouped, repaired": repaired(GroupClipping(LOW, GROUPS)),
    "adaptive, repaired": repaired(PublicBounds(EACH)),
    "grouped, adaptive, repaired": repaired(PublicBounds(GROUPS)),
    "automatic, repaired": repaired(PublicClusters(5, 7, False)),
}


def images(count, *, seed=7):
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(count, 1, 9, 9, generator=rng) - 1


def gradient_of(net, parameters, real, fake, mix, weight):
    """Gradient of one example's loss (eq. 2), by autograd through the penalty."""
    point = (mix * real + (1 - mix) * fake).detach()[None].requires_grad_()
    (slope,) = torch.autograd.grad(net(point).sum(), point, create_graph=True)
    loss = net(fake[None]) - net(real[None]) + weight * (slope.norm() - 1) ** 2
    found = torch.autograd.grad(loss.sum(), parameters, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]


def partners(gan, count, settings, rng):
    """What the step draws, listed again: fakes in the batch's place, and the mixing."""
    fakes = gan.generator_net(
        torch.randn(settings.expected_batch_size, settings.latent_size, generator=rng)
    )
    fakes = fakes.detach()
    if isinstance(settings.sampling, PoissonSampling):
        fakes = fakes[torch.randint(settings.expected_batch_size, (count,), generator=rng)]
    return fakes[:count], torch.rand(count, generator=rng)


def bounds_and_groups(settings, public_gradients):
    """The step's bound for each group, the group of each tensor, and what is clipped together."""
    clipping = settings.clipping
    if isinstance(clipping, Unclipped):
        return [inf], (0,) * 7, True
    if isinstance(clipping, GroupClipping):
        return list(clipping.bounds), clipping.groups, True
    norms = [[g[t].norm().item() for g in public_gradients] for t in EACH]
    means = [sum(of_tensor) / len(of_tensor) for of_tensor in norms]
    if isinstance(clipping, PublicBounds):
        groups = clipping.groups
    else:  # Algorithm 2: merge the two of least ratio until `count` are left
        sets = [[t] for t in range(7)]
        bound = {t: means[t] for t in range(7)}
        while len(sets) > clipping.count:
            pairs = [(i, j) for i in range(len(sets)) for j in range(i + 1, len(sets))]

            def unlike(pair, sets=sets, bound=bound):
                one, other = (sqrt(sum(bound[t] ** 2 for t in sets[k])) for k in pair)
                return max(one, other) / min(one, other)

            i, j = min(pairs, key=unlike)
            sets[i] = sorted(sets[i] + sets[j])
            del sets[j]
        groups = tuple(next(i for i, s in enumerate(sets) if t in s) for t in range(7))
    members = [[t for t in EACH if groups[t] == g] for g in range(max(groups) + 1)]
    merged = [sqrt(sum(means[t] ** 2 for t in own)) for own in members]
    jointly = not (isinstance(clipping, PublicClusters) and clipping.each_tensor_at_group_bound)
    return merged, groups, jointly


def listing(settings, batch, public):
    """The step without noise in loops: the critic's new parameters, bounds and groups."""
    gan = algorithm.new_gan(settings, seed=0, device=CPU)
    net, rng = gan.discriminator, generator_on(CPU, reproducible_seed=1)
    parameters, weight = list(net.parameters()), settings.penalty_weight
    seen = []
    if not isinstance(settings.clipping, GroupClipping | Unclipped):
        chosen = public[torch.randperm(len(public), generator=rng)[: settings.expected_batch_size]]
        fakes, mixing = partners(gan, len(chosen), settings, rng)
        for one in zip(chosen, fakes, mixing, strict=True):
            seen.append(gradient_of(net, parameters, *one, weight))
    bounds, groups, jointly = bounds_and_groups(settings, seen)
    # as published: g_i / B is clipped, summed over a device's B, and devices are averaged
    divisor = (
        settings.expected_batch_size // settings.devices if settings.noise_over_sqrt_batch else 1
    )
    if seen:  # bounds of g_i / B
        bounds = [b / divisor for b in bounds]
    total = [torch.zeros_like(p) for p in parameters]
    fakes, mixing = partners(gan, len(batch), settings, rng)
    for one in zip(batch, fakes, mixing, strict=True):
        own = [g / divisor for g in gradient_of(net, parameters, *one, weight)]
        for t in range(7):
            together = [u for u in range(7) if groups[u] == groups[t]] if jointly else [t]
            joint = sqrt(sum(own[u].norm().item() ** 2 for u in together))
            total[t] = total[t] + own[t] / max(1.0, joint / bounds[groups[t]])
    share = settings.devices if settings.noise_over_sqrt_batch else settings.expected_batch_size
    after = [p - s / share for p, s in zip(parameters, total, strict=True)]
    return after, bounds, groups


def run(settings, batch, public, *, seed=1):
    gan = algorithm.new_gan(settings, seed=0, device=CPU)
    labels = torch.zeros(len(batch), dtype=torch.int64)
    now = {"settings": settings, "index": 0, "rng": generator_on(CPU, reproducible_seed=seed)}
    return gan, algorithm.step_of(settings, public)(gan, batch, labels, **now)


def same(one, other):
    """Whether two networks, or lists of tensors, are the same to the bit."""
    lists = [list(x.parameters()) if isinstance(x, torch.nn.Module) else x for x in (one, other)]
    return all(torch.equal(a, b) for a, b in zip(*lists, strict=True))


@pytest.mark.parametrize("name", [*CASES, "plain"])
def test_a_step_without_noise_is_the_listing_example_by_example(name: str):
    plain = {"clipping": Unclipped(), "sampling": ShuffledBatches(3)}
    settings = replace(CASES["grouped, repaired"], **plain) if name == "plain" else CASES[name]
    settings = replace(settings, noise_multiplier=0.0)
    batch, public = images(settings.expected_batch_size), images(5, seed=8)
    wanted, bounds, _ = listing(settings, batch, public)
    gan, record = run(settings, batch, public)
    for found, value in zip(gan.discriminator.parameters(), wanted, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-6)
    assert (record.clipped > 0) == (name != "plain")  # or this would compare plain sums
    assert name == "plain" or len(bounds) == settings.charged_groups


def bounds_of(settings, public, *, seed):
    """The step's bounds of g_i, by the functions that the listing above has confirmed."""
    clipping = settings.clipping
    if isinstance(clipping, GroupClipping):
        rule = algorithm.fixed_rule(settings)
    else:
        gan = algorithm.new_gan(settings, seed=0, device=CPU)
        rng = generator_on(CPU, reproducible_seed=seed)
        rule = clipping.rule(algorithm.public_bounds(gan, public, settings=settings, rng=rng))
    return [rule.bounds[g] for g in rule.groups]


@pytest.mark.parametrize("name", CASES)
def test_the_noise_of_each_tensor_is_as_published_or_as_it_should_be(name: str):
    """A step's update minus that of the same step without noise, over what is due.

    Squares add up to a chi-squared variable. Each of 63 is outside its two quantiles with
    probability 2e-9, so that the test fails by chance with probability below 2e-7.
    """
    settings, draws, z = CASES[name], 4, 0.7
    batch, public = images(settings.expected_batch_size), images(5, seed=8)
    squares = [0.0] * 7
    for seed in range(draws):
        ends = [
            run(replace(settings, noise_multiplier=noise), batch, public, seed=seed)[0]
            for noise in (z, 0.0)
        ]
        bounds = bounds_of(settings, public, seed=seed)
        pairs = zip(*(gan.discriminator.parameters() for gan in ends), strict=True)
        for t, (noisy, plain) in enumerate(pairs):
            if settings.noise_over_sqrt_batch:  # in units of g_i / B: z c / sqrt(B devices)
                device_batch = settings.expected_batch_size / settings.devices
                due = z * (bounds[t] / device_batch) / sqrt(settings.expected_batch_size)
            else:  # z c on the sum, then over the expected batch
                due = z * bounds[t] / settings.expected_batch_size
            squares[t] += ((noisy - plain) / due).double().square().sum().item()
    for t, parameter in enumerate(ends[0].discriminator.parameters()):
        law = chi2(draws * parameter.numel())
        assert law.ppf(1e-9) < squares[t] < law.isf(1e-9)


@pytest.mark.parametrize("name", [name for name in CASES if "repaired" in name])
def test_one_record_moves_the_update_by_no_more_than_is_priced(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    """Add-remove, in units of each tensor's bound; each record keeps the fake that it drew."""
    settings = replace(CASES[name], noise_multiplier=0.0)
    batch, public = images(4), images(5, seed=8)
    batch[3] *= 1e3
    bounds = bounds_of(settings, public, seed=1)
    mixing = torch.rand(4, generator=generator_on(CPU, reproducible_seed=2))
    fakes = images(4, seed=9)
    drawn = algorithm.partners

    def kept(gan, real, *rest):
        if len(real) == len(public[:3]) and torch.isin(real, public).all():
            return drawn(gan, real, *rest)
        return fakes[: len(real)], mixing[: len(real)]

    monkeypatch.setattr(algorithm, "partners", kept)
    one, other = (run(settings, batch[:n], public)[0] for n in (4, 3))
    pairs = zip(one.discriminator.parameters(), other.discriminator.parameters(), strict=True)
    moved = [(a - b).norm().item() * settings.expected_batch_size for a, b in pairs]
    total = sqrt(sum((m / b) ** 2 for m, b in zip(moved, bounds, strict=True)))
    assert 0.5 < total <= sqrt(settings.parts) * (1 + 1e-4)


def test_generated_partners_do_not_tell_the_private_batch():
    """The generator's batch norm sees as many codes whatever the batch holds."""
    settings, states = CASES["automatic, repaired"], []
    for count in (0, 1, 9):
        gan, _ = run(settings, images(count), images(5, seed=8))
        states.append([b.clone() for b in gan.generator_net.buffers()])
    assert all(same(states[0], other) for other in states[1:])


@pytest.mark.parametrize("name", [name for name in CASES if "repaired" in name])
def test_an_empty_batch_releases_noise_alone(name: str):
    settings, public = CASES[name], images(5, seed=8)
    start = algorithm.new_gan(settings, seed=0, device=CPU).discriminator
    quiet, record = run(replace(settings, noise_multiplier=0.0), images(0), public)
    assert (record.batch_size, record.discriminator_loss, record.clipped) == (0, 0.0, 0.0)
    assert same(quiet.discriminator, start)
    noisy, _ = run(settings, images(0), public)
    for found, before in zip(noisy.discriminator.parameters(), start.parameters(), strict=True):
        assert not torch.equal(found, before)


@pytest.mark.parametrize("name", [name for name in CASES if re.search("adaptive|automatic", name)])
def test_bounds_and_so_noise_do_not_move_with_the_private_batch(name: str, monkeypatch):
    """Nor with its size, to the last bit."""
    public, seen, noised = images(5, seed=8), [], algorithm.noised_each

    def noted(sums, *, noise_stds, rng):
        seen.append(tuple(noise_stds))
        return noised(sums, noise_stds=noise_stds, rng=rng)

    monkeypatch.setattr(algorithm, "noised_each", noted)
    for batch in (images(3), 100 * images(3, seed=3), images(1), images(0)):
        run(CASES[name], batch, public)
    assert seen == [seen[0]] * 4


def test_the_warm_start_is_plain_training_on_public_examples():
    """Its steps are the mean gradient's, and what it reads has the public examples' length."""
    settings = replace(CASES["automatic, repaired"], critic_steps=2, critic_optimizer=SLOW)
    public = images(5, seed=8)
    gan, start = (algorithm.new_gan(settings, seed=0, device=CPU) for _ in range(2))
    rng = generator_on(CPU, reproducible_seed=1)
    records = list(algorithm.warm_start(gan, public, settings=settings, rng=rng))
    assert len(records) == settings.warm_start * settings.critic_steps
    assert {r.batch_size for r in records} == {3}
    assert [r.generator_loss is None for r in records] == [True, False] * 2
    assert not same(start.generator_net, gan.generator_net)


def test_the_generators_step_follows_the_critic_uphill():
    settings = replace(
        CASES["grouped, repaired"],
        critic_steps=1,
        critic_optimizer=Sgd(Constant(0.0)),  # which stays as it is
        generator_optimizer=Sgd(Constant(0.5)),
    )
    gan = algorithm.new_gan(settings, seed=0, device=CPU)
    rng = generator_on(CPU, reproducible_seed=1)
    codes = torch.randn(64, 3, generator=generator_on(CPU, reproducible_seed=5))
    seen = []
    for index in range(21):
        with torch.no_grad():
            seen.append(gan.discriminator(gan.generator_net(codes)).mean().item())
        labels = torch.zeros(3, dtype=torch.int64)
        paper.basic_step(gan, images(3), labels, settings=settings, index=index, rng=rng)
    assert seen[-1] > seen[0]


@pytest.mark.parametrize(
    ("settings", "tensors", "shape"),
    [(MNIST, 7, (1, 28, 28)), (CELEBA, 7, (3, 48, 48)), (LSUN_U, 9, (3, 64, 64))],
    ids=["mnist", "celeba", "lsun"],
)
def test_networks_at_the_papers_sizes(settings, tensors, shape):
    with torch.device("meta"):
        gan = algorithm.new_gan(settings, seed=0, device=torch.device("meta"))
        critic, generator = gan.discriminator, gan.generator_net
        made = generator.eval()(torch.empty(2, 128))
        assert (made.shape, critic(made).shape) == ((2, *shape), (2, 1))
    named = dict(critic.named_parameters())
    assert len(named) == settings.tensors == tensors
    biases = tuple(name.endswith("bias") for name in named)
    assert biases == is_bias(len(settings.critic_channels))
    if settings is MNIST:  # as in the code
        kernels = [tuple(p.shape) for p in named.values() if p.ndim > 1]
        assert kernels == [(64, 1, 5, 5), (128, 64, 5, 5), (256, 128, 5, 5), (1, 4096)]
        kernels = [tuple(p.shape) for p in generator.parameters() if p.ndim > 1]
        assert kernels == [(4096, 128), (256, 128, 5, 5), (128, 64, 5, 5), (64, 1, 5, 5)]


def test_generated_images_depend_on_their_own_code_alone():
    settings = CASES["grouped, repaired"]
    gan = algorithm.new_gan(settings, seed=0, device=CPU)
    codes = torch.randn(7, 3, generator=generator_on(CPU, reproducible_seed=0))
    whole = algorithm.generate(gan.generator_net, codes)
    assert whole.shape == (7, 1, 9, 9)
    assert -1 <= whole.min() <= whole.max() <= 1
    alone = [algorithm.generate(gan.generator_net, code[None]) for code in codes]
    torch.testing.assert_close(whole, torch.cat(alone))
    assert gan.generator_net.training

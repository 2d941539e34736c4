"""check_step on the papers' steps, and on small ones that are wrong in one way each."""

from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from dpkit.audit.training.step_check import check_step
from dpkit.papers.dp_cgan import algorithm as dp_cgan
from dpkit.papers.dp_cgan import settings as dp_cgan_settings
from dpkit.papers.dpgan import algorithm as dpgan
from dpkit.papers.dpgan import settings as dpgan_settings
from dpkit.papers.rdp_gan import algorithm as rdp_gan
from dpkit.papers.rdp_gan import settings as rdp_gan_settings
from dpkit.papers.small_images import algorithm as small_images
from dpkit.papers.small_images import settings as small_images_settings
from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import DiscreteGaussian, Gaussian, SampledGaussian
from dpkit.privacy.mechanisms.no_guarantee import NoGuarantee
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian
from dpkit.privacy.sampling import PUBLIC_SIZE, Assuming, PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import Constant
from dpkit.private import PrivateGan
from dpkit.private import gan_step as private_gan
from dpkit.private.plan import LOSSES, gan_settings
from dpkit.training import Conditional, clipped_sum, noised, noised_each, per_example, update
from dpkit.training.gradients.same_draws import SameDraws

CPU = torch.device("cpu")
BATCH, CLIP, NOISE = 6, 0.25, 1.1


def uniform(*shape, seed=0):
    return 2 * torch.rand(shape, generator=torch.Generator().manual_seed(seed)) - 1


def labels(classes, batch=BATCH):
    return torch.randint(classes, (batch,), generator=torch.Generator().manual_seed(1))


# --- papers: a step, what makes its GAN, its batch and what else check_step is told ---


def of_dp_cgan(settings):
    settings = dp_cgan_settings.small(settings, batch_size=BATCH, steps=5)
    settings = replace(settings, pixels=16, hidden=16, latent_size=4)
    made = partial(dp_cgan.new_gan, settings, seed=0, device=CPU)
    return dp_cgan.step, made, uniform(BATCH, 16), labels(10), {"settings": settings}


def of_small_images():
    small = {"capacity": 2, "side": 8, "latent_size": 4, "critic_steps": 2}
    settings = replace(small_images_settings.REPAIRED, sampling=PoissonSampling(BATCH), **small)
    made = partial(small_images.new_gan, settings, seed=0, device=CPU)
    images = uniform(BATCH, 1, 8, 8)
    return small_images.step, made, images, labels(1), {"settings": settings, "steps": 2}


def of_dpgan():
    settings = replace(
        dpgan_settings.REPAIRED,
        sampling=PoissonSampling(BATCH),
        image_shape=(1, 9, 9),
        critic_channels=(2, 3, 4),
        generator_channels=(3, 2, 2),
        latent_size=3,
    )
    step = dpgan.step_of(settings, uniform(12, 1, 9, 9, seed=2))
    made = partial(dpgan.new_gan, settings, seed=0, device=CPU)
    told = {"settings": settings, "index": settings.critic_steps - 1}
    return step, made, uniform(BATCH, 1, 9, 9), labels(1), told


def of_rdp_gan(noise):
    settings = replace(
        rdp_gan_settings.SETTINGS,
        noise=noise,
        network=rdp_gan_settings.Mlp(4),
        features=6,
        latent_size=3,
        classes=3,
        discriminator_steps=3,
        sampling=PoissonSampling(BATCH),
    )
    made = partial(rdp_gan.new_gan, settings, seed=0, device=CPU)
    charged = Release(SampledGaussian(2.0, 0.01))  # this paper's ledger counts iterations of three
    told = {"settings": settings, "charged": charged, "sensitivity": 0.5, "steps": 3}
    return rdp_gan.step_of(settings), made, uniform(BATCH, 6), labels(3), told


def of_private_gan(loss):
    """Labels, batch normalisation in the generator, two critic steps to one of the generator."""
    generator = Conditional(nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8)), classes=3)
    critic = Conditional(
        nn.Sequential(nn.Linear(11, 5), nn.LeakyReLU(), nn.Linear(5, 1)), classes=3
    )
    told = {"epsilon": 8, "delta": 1e-5, "classes": 3, "loss": loss, "latent_size": 4}
    gan = PrivateGan(generator, critic, **told, n_critic=2, batch_size=BATCH, max_grad_norm=0.1)
    settings = gan_settings(gan, records=100, steps=4)

    def made():
        return private_gan.new_gan(deepcopy(generator), deepcopy(critic), settings)

    told = {"settings": settings, "public_size": 100, "sensitivity": 0.1, "steps": 2}
    return private_gan.step, made, uniform(BATCH, 8), labels(3), told


def checked(step, made, features, labels, told):
    return check_step(step, made, features, labels, **told)


REPAIRED = {
    "dp_cgan": of_dp_cgan(dp_cgan_settings.REPAIRED),
    "small_images": of_small_images(),
    "dpgan": of_dpgan(),
    "rdp_gan": of_rdp_gan(rdp_gan_settings.GradientNoise(Constant(2.0), 0.5)),
}
REPAIRED |= {f"PrivateGan, {loss}": of_private_gan(loss) for loss in LOSSES}


QUICK = ("dp_cgan", "PrivateGan, wasserstein")
ITS_OWN = pytest.mark.slow("a repaired step, of this paper or loss, that a record moves too far")


@pytest.mark.parametrize(
    "paper", [pytest.param(one, marks=() if one in QUICK else ITS_OWN) for one in REPAIRED]
)
def test_nothing_is_found_in_a_papers_repaired_step(paper):
    """A replaced record moves the sums by more than one clip norm, and by two at most."""
    report = checked(*REPAIRED[paper])
    assert report.findings == (), report
    assert 1.1 < report.replaced < 2.001
    assert 0.9 < report.dropped < 1.001


def test_the_published_dp_cgan_step_reads_private_labels():
    report = checked(*of_dp_cgan(dp_cgan_settings.SETTINGS))
    sentences = dict(report.findings)
    assert sentences.keys() == {"guarantee", "not noised", "batch size"}
    assert "generator is updated with the private batch's labels" in sentences["guarantee"]
    assert "generator_net (" in sentences["not noised"]
    assert "where one record has another label, although" in sentences["not noised"]


def test_the_published_dpgan_step_adds_less_noise_than_its_code_charges():
    """By sqrt(batch); and one group is charged where all five move: together by sqrt(6 * 5)."""
    _, _, images, unused, _ = of_dpgan()
    sizes = {"image_shape": (1, 9, 9), "critic_channels": (2, 3, 4), "latent_size": 3}
    settings = replace(
        dpgan_settings.MNIST,
        sampling=ShuffledBatches(BATCH),
        devices=1,
        moments=None,
        generator_channels=(3, 2, 2),
        **sizes,
    )
    made = partial(dpgan.new_gan, settings, seed=0, device=CPU)
    charged = Release(settings.charge(public_size=49_000))
    step = dpgan.step_of(settings, images)
    bound = BATCH * settings.clipping.sensitivity("add-remove")  # gradients are not yet divided
    told = {"settings": settings, "charged": charged, "sensitivity": bound}
    report = check_step(step, made, images, unused, **told)
    noise = settings.noise_multiplier
    found = sentence(report, "noise")
    assert f"noise multiplier {noise / 30**0.5:.3g} in all, for clip norm" in found
    assert f"charges 1 (noise multiplier {noise:.3g} in all)" in found
    assert 0.5 < report.dropped < 1.001


@pytest.mark.slow("statistics that tell the batch's size in a paper's own generator")
def test_batch_normalisation_over_a_fake_for_each_record_knows_how_many_there_are():
    step, made, images, unused, told = of_small_images()

    def in_training_mode():
        gan = made()
        gan.generator_net.eval = lambda: gan.generator_net
        return gan

    report = check_step(step, in_training_mode, images, unused, **told)
    found = sentence(report, "batch size")
    assert "generator_net (2 tensors) differ after the step where one record is left out" in found


def test_the_published_rdp_gan_step_noises_no_gradient():
    noise = rdp_gan_settings.LossValueNoise(Constant(10.0))
    kinds = {kind for kind, _ in checked(*of_rdp_gan(noise)).findings}
    assert kinds == {"releases", "not noised", "batch size"}


# --- one linear layer, so that each mistake is a line ---


class Priced:
    clipping = FlatClipping(CLIP)

    def ledger(self, *, public_size, steps):
        return [Release(SampledGaussian(NOISE, BATCH / public_size), steps)]


def new_pair(*layers):
    net = nn.Sequential(*layers, nn.Linear(3, 1))
    return net, torch.optim.SGD(net.parameters(), 0.1)


def sums_of(net, features, labels):
    def loss(net, features, labels):
        return per_example(net, lambda out: (out[:, 0] - 1).square(), features)

    return clipped_sum(partial(loss, net), features, labels, rule=FlatClipping(CLIP))


def right(pair, features, labels, *, settings, index, rng):
    net, optimizer = pair
    clipped = sums_of(net, features, labels)
    noisy = noised(clipped.sums, noise_std=NOISE * CLIP, rng=rng)
    update(optimizer, clipped.parameters, [total / BATCH for total in noisy])


def check(step, *, made=new_pair, settings=None, features=None, **told):
    features = uniform(BATCH, 3) if features is None else features
    return check_step(step, made, features, labels(3), settings=settings or Priced(), **told)


def sentence(report, kind):
    assert {found for found, _ in report.findings} == {kind}, report
    return report.findings[0].sentence


def test_nothing_is_found_in_the_right_step_nor_in_three_of_them():
    assert check(right).findings == check(right, steps=3).findings == ()


def by_coordinate(
    pair, features, labels, *, settings, index, rng, least=0.0, charged=NOISE, drawn=noised_each
):
    """With a bound of 0, that coordinate is always 0, and gets no noise."""
    net, optimizer = pair
    rule = PerCoordinateClipping((torch.tensor([[0.3, least, 0.1]]), torch.tensor([0.2])))
    of = partial(per_example, net, lambda out: (out[:, 0] - 1).square())
    clipped = clipped_sum(of, features, rule=rule, at_most=4)
    noisy = drawn(clipped.sums, noise_stds=rule.noise_stds(charged), rng=rng)
    update(optimizer, clipped.parameters, [total / BATCH for total in noisy])


def test_nothing_is_found_in_a_step_that_clips_by_coordinate():
    charged = Release(SampledGaussian(NOISE, 0.01))
    report = check(by_coordinate, settings=object(), charged=charged)
    assert report.findings == (), report
    assert 1.1 < report.replaced < 2.001
    assert 0.5 < report.dropped < 1.001


def test_half_the_noise_or_the_same_noise_on_coordinates_is_seen():
    def again(*args, rng, **told):
        return noised_each(*args, rng=torch.Generator().manual_seed(5), **told)

    charged = Release(SampledGaussian(NOISE, 0.01))
    half = partial(by_coordinate, charged=NOISE / 2)
    assert "sensitivity" in dict(check(half, settings=object(), charged=charged).findings)
    same = check(partial(by_coordinate, least=0.1, drawn=again), settings=object(), charged=charged)
    assert "two releases have the same noise" in sentence(same, "noise")


def test_dropout_masks_stay_with_their_records():
    """So that a record that is left out moves the sum by its own gradient alone."""
    report = check(right, made=lambda: new_pair(nn.Dropout(0.5)))
    assert report.findings == ()
    assert report.dropped == pytest.approx(1, rel=1e-3)


def test_a_fake_for_each_real_record_is_in_the_noised_sum():
    """Replaced, a record moves the sum by two clip norms at most; left out, by two, not by one."""

    def step(pair, features, labels, *, settings, index, rng):
        net, _ = pair
        fakes = 2 * torch.randn(features.shape, generator=rng)
        real, fake = sums_of(net, features, labels), sums_of(net, fakes, labels)
        both = [a + b for a, b in zip(real.sums, fake.sums, strict=True)]
        noised(both, noise_std=NOISE * CLIP, rng=rng)

    report = check(step)
    assert "where one record is left out, and 1 is charged" in sentence(report, "sensitivity")
    assert 1.1 < report.dropped <= 2.001


def test_two_runs_on_one_batch_differ():
    def step(pair, features, labels, *, settings, index, rng):
        right(pair, features, labels, settings=settings, index=index, rng=torch.Generator())

    counts = iter(range(100))

    def counting(pair, features, labels, *, settings, index, rng):
        right(pair, features, labels, settings=settings, index=index, rng=rng)
        pair[0][-1].bias.data.fill_(next(counts))

    with pytest.raises(ValueError, match="torch's default seed"):
        check(step)
    report = check(counting)
    assert "keep all that outlives a step in what new_gan returns" in sentence(report, "draws")
    assert report.runs == 2


def test_two_runs_on_one_batch_noise_other_sums():
    drawn = np.random.default_rng(0)

    def step(pair, features, labels, *, settings, index, rng):
        scaled = features * float(drawn.uniform())
        right(pair, scaled, labels, settings=settings, index=index, rng=rng)

    assert sentence(check(step), "draws").startswith("0 (4 tensors) differ between")


def test_a_record_that_is_left_out_may_not_be_comparable():
    """Where what the others draw hangs on their number: no finding, and the report says so."""

    def step(pair, features, labels, *, settings, index, rng):
        order = torch.randperm(len(features), generator=rng)
        right(pair, features[order], labels[order], settings=settings, index=index, rng=rng)

    assert "what one left out moves was not compared" in str(check(step))


def test_the_step_raises_for_one_record():
    def step(pair, features, labels, *, settings, index, rng):
        if features.abs().max() > 10:
            raise ValueError("too large")
        right(pair, features, labels, settings=settings, index=index, rng=rng)

    assert "lies far outside the domain (ValueError: too large)" in sentence(check(step), "stopped")


def test_the_noise_follows_the_batch():
    def step(pair, features, labels, *, settings, index, rng):
        net, _ = pair
        clipped = sums_of(net, features, labels)
        noised(clipped.sums, noise_std=NOISE * CLIP * float(features.abs().max() + 1), rng=rng)

    assert "noise_std (2 tensors) differ after the step where one" in str(check(step))


@pytest.mark.parametrize("steps", [1, 2])
def test_the_noise_is_the_same_in_every_step(steps):
    def step(pair, features, labels, *, settings, index, rng):
        fixed = torch.Generator().manual_seed(5)
        right(pair, features, labels, settings=settings, index=index, rng=fixed)

    assert "two releases have the same noise" in sentence(check(step, steps=steps), "noise")


def test_whether_a_sum_is_noised_follows_the_batch():
    def step(pair, features, labels, *, settings, index, rng):
        if features.abs().max() < 10:
            right(pair, features, labels, settings=settings, index=index, rng=rng)
        else:
            noised([torch.zeros(2)], noise_std=NOISE * CLIP, rng=rng)

    found = dict(check(step).findings)["not noised"]
    assert "noise_std (2 tensors) differ after the step where one record lies far outside" in found


@pytest.mark.parametrize("kept", ["attribute", "buffer", "rate", "gradient"])
def test_what_a_step_keeps_of_the_batch(kept):
    """In an attribute, a buffer, the learning rate, or in a gradient for the next optimiser."""

    def step(pair, features, labels, *, settings, index, rng):
        right(pair, features, labels, settings=settings, index=index, rng=rng)
        net, optimizer = pair
        if kept == "attribute":
            net.centre = features.mean(0)
        if kept == "buffer":
            net[-1].register_buffer("largest", features.max(), persistent=False)
        if kept == "rate":
            optimizer.param_groups[0]["lr"] = float(features.abs().mean())
        if kept == "gradient":
            net[-1].bias.grad = features.mean(0)[:1]

    found = dict(check(step).findings)
    owner = "1 (1 tensor)" if kept == "rate" else "0 (1 tensor)"
    assert found["not noised"].startswith(owner)


def test_noise_by_tensor_is_judged_by_the_noise():
    """Without a declared sensitivity: by how many of its deviations the sum moves."""

    def step(pair, features, labels, *, settings, index, rng, share=1.0):
        net, _ = pair
        clipped = sums_of(net, features, labels)
        stds = [share * NOISE * CLIP, 1.01 * share * NOISE * CLIP]
        noised_each(clipped.sums, noise_stds=stds, rng=rng)

    settings = type("Settings", (), {"ledger": Priced.ledger})()
    assert check(step, settings=settings).findings == ()
    little = check(partial(step, share=0.25), settings=settings)
    assert "over the charged noise multiplier) where one record" in sentence(little, "sensitivity")


def test_the_charge_may_be_given_and_more_than_one():
    def twice(pair, features, labels, *, settings, index, rng):
        right(pair, features, labels, settings=settings, index=index, rng=rng)
        right(pair, features, labels, settings=settings, index=index, rng=rng)

    assert check(twice, charged=[Release(Gaussian(NOISE), 2)]).findings == ()
    assert "called 2 times" in sentence(check(twice), "releases")
    undeclared = check(twice, settings=object(), charged=Release(Gaussian(NOISE)))
    assert "called 2 times" in dict(undeclared.findings)["releases"]


def test_without_a_guarantee_that_is_the_finding():
    none = NoGuarantee("no noise")
    for mechanism in (none, Assuming(none, ("a network that is not trained",))):
        assert "no noise" in sentence(check(right, charged=Release(mechanism)), "guarantee")


@pytest.mark.parametrize(
    "mechanism",
    [
        WithoutReplacementGaussian(NOISE / 2, 0.1),
        Assuming(Gaussian(NOISE, "replace-one"), (PUBLIC_SIZE,)),
    ],
)
def test_where_the_size_is_public_no_record_is_left_out(mechanism):
    def over_the_batch(pair, features, labels, *, settings, index, rng):
        right(
            pair, features[:, :3] / len(features), labels, settings=settings, index=index, rng=rng
        )

    report = check(over_the_batch, charged=Release(mechanism))
    assert report.findings == ()
    assert report.dropped != report.dropped  # NaN: nothing was compared


def test_the_report_raises_what_it_found():
    check(right).raise_if_found()
    with pytest.raises(
        ValueError,
        match=r"^noise: noised\(\) is called once .* 1\.1 in all.* charges 1 .* 2 in all",
    ):
        check(right, charged=Release(Gaussian(2.0))).raise_if_found()


def test_after_a_check_that_stopped_noise_is_noise_again():
    def step(pair, features, labels, *, settings, index, rng):
        noised([torch.zeros(9)], noise_std=1.0, rng=rng)
        raise KeyError("stopped")

    with pytest.raises(KeyError):
        check(step)
    rng = torch.Generator().manual_seed(1)
    (first,), (second,) = (noised([torch.zeros(9)], noise_std=1.0, rng=rng) for _ in range(2))
    assert not torch.equal(first, second)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="at least 2, got 1 and 6; give a small batch"):
        check(right, features=uniform(1, 3))
    with pytest.raises(ValueError, match="steps must be"):
        check(right, steps=0)
    with pytest.raises(ValueError, match="settings have no ledger; give charged="):
        check(right, settings=object())
    with pytest.raises(ValueError, match=r"Gaussian releases.*got DiscreteGaussian"):
        check(right, charged=Release(DiscreteGaussian(1.0)))


# --- the draws ---


def like(size, generator):
    return torch.randn_like(torch.zeros(size), generator=generator)


def in_place(size, generator):
    return torch.empty(size).uniform_(generator=generator)


def coins(size, generator):
    return torch.bernoulli(torch.full(size, 0.3), generator=generator)


def dropout(size, generator):
    with torch.random.fork_rng():
        torch.set_rng_state(generator.get_state())
        return nn.functional.dropout(torch.ones(size))


DRAWS = [torch.rand, torch.randn, partial(torch.randint, 9), like, in_place, coins, dropout]


@pytest.mark.parametrize("draw", DRAWS)
def test_each_example_keeps_its_draws_and_so_do_those_that_follow(draw):
    def both(rows):
        rng = torch.Generator().manual_seed(0)
        with SameDraws(rows=20):
            return draw((rows, 3), generator=rng), torch.rand(4, generator=rng)

    (all_rows, after), (fewer, after_fewer) = both(20), both(19)
    assert torch.equal(all_rows[:19], fewer)
    assert torch.equal(after, after_fewer)


def test_draws_differ_from_one_another_and_a_state_that_is_put_back_repeats_them():
    rng = torch.Generator().manual_seed(0)
    with SameDraws(rows=20) as draws:
        state = rng.get_state()
        first, second = torch.rand(3, generator=rng), torch.rand(3, generator=rng)
        rng.set_state(state)
        assert torch.equal(torch.rand(3, generator=rng), first)
    assert not torch.equal(first, second)
    assert draws.shapes == [(3,)] * 3

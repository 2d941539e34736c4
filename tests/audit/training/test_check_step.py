"""check_step on the papers' steps, and on small ones that are wrong in one way each."""

import re
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from torch import nn

from dpkit.audit.training.step_check import check_step
from dpkit.papers import dp_cgan, dpgan, rdp_gan, small_images
from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import DiscreteGaussian, Gaussian, SampledGaussian
from dpkit.privacy.mechanisms.base import NoGuarantee
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian
from dpkit.privacy.sampling import PUBLIC_SIZE, Assuming, PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import Constant
from dpkit.private import PrivateGan
from dpkit.private import gan_step as private_gan
from dpkit.private.plan import LOSSES, gan_settings
from dpkit.training import Conditional, clipped_sum, noised, noised_each, per_example, update
from dpkit.training.gradients.independence import SameDraws

CPU = torch.device("cpu")
BATCH, CLIP, NOISE = 6, 0.25, 1.1


def uniform(*shape, seed=0):
    return 2 * torch.rand(shape, generator=torch.Generator().manual_seed(seed)) - 1


def labels(classes, batch=BATCH):
    return torch.randint(classes, (batch,), generator=torch.Generator().manual_seed(1))


# --- papers: a step, what makes its GAN, its batch and what else check_step is told ---


def of_dp_cgan(settings):
    settings = dp_cgan.settings.small(settings, batch_size=BATCH, steps=5)
    settings = replace(settings, pixels=16, hidden=16, latent_size=4)
    made = partial(dp_cgan.new_gan, settings, seed=0, device=CPU)
    return dp_cgan.step, made, uniform(BATCH, 16), labels(10), {"settings": settings}


def of_small_images():
    small = {"capacity": 2, "side": 8, "latent_size": 4, "critic_steps": 2}
    settings = replace(small_images.settings.REPAIRED, sampling=PoissonSampling(BATCH), **small)
    made = partial(small_images.new_gan, settings, seed=0, device=CPU)
    images = uniform(BATCH, 1, 8, 8)
    return small_images.step, made, images, labels(1), {"settings": settings, "steps": 2}


def small_dpgan(settings, **changes):
    sizes = {"image_shape": (1, 9, 9), "critic_channels": (2, 3, 4), "latent_size": 3}
    settings = replace(settings, generator_channels=(3, 2, 2), **sizes, **changes)
    made = partial(dpgan.new_gan, settings, seed=0, device=CPU)
    step = dpgan.step_of(settings, uniform(12, 1, 9, 9, seed=2))
    return settings, (step, made, uniform(BATCH, 1, 9, 9), labels(1))


def of_dpgan():
    settings, parts = small_dpgan(dpgan.settings.REPAIRED, sampling=PoissonSampling(BATCH))
    return *parts, {"settings": settings, "index": settings.critic_steps - 1}


def of_rdp_gan(noise):
    small = {"network": rdp_gan.settings.Mlp(4), "features": 6, "latent_size": 3, "classes": 3}
    small |= {"discriminator_steps": 3, "sampling": PoissonSampling(BATCH)}
    settings = replace(rdp_gan.settings.SETTINGS, noise=noise, **small)
    made = partial(rdp_gan.new_gan, settings, seed=0, device=CPU)
    charged = Release(SampledGaussian(2.0, 0.01))  # this paper's ledger counts iterations of three
    told = {"settings": settings, "charged": charged, "sensitivity": 0.5, "steps": 3}
    return rdp_gan.step_of(settings), made, uniform(BATCH, 6), labels(3), told


def of_private_gan(loss):
    """Labels, batch normalisation in the generator, two critic steps to one of the generator."""
    generator = Conditional(nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8)), classes=3)
    body = nn.Sequential(nn.Linear(11, 5), nn.LeakyReLU(), nn.Linear(5, 1))
    critic = Conditional(body, classes=3)
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
    **{"dp_cgan": of_dp_cgan(dp_cgan.settings.REPAIRED), "small_images": of_small_images()},
    "dpgan": of_dpgan(),
    "rdp_gan": of_rdp_gan(rdp_gan.settings.GradientNoise(Constant(2.0), 0.5)),
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
    report = checked(*of_dp_cgan(dp_cgan.settings.SETTINGS))
    sentences = dict(report.findings)
    assert sentences.keys() == {"guarantee", "not noised", "batch size"}
    assert "generator is updated with the private batch's labels" in sentences["guarantee"]
    assert "generator_net (" in sentences["not noised"]
    assert "where one record has another label, although" in sentences["not noised"]


def test_the_published_dpgan_step_adds_less_noise_than_its_code_charges():
    """By sqrt(batch); and one group is charged where all five move: together by sqrt(6 * 5)."""
    changes = {"sampling": ShuffledBatches(BATCH), "devices": 1, "moments": None}
    settings, parts = small_dpgan(dpgan.settings.MNIST, **changes)
    (groups,) = settings.claimed_ledger(public_size=49_000, steps=1)
    charged = Release(groups.mechanism)  # of one of them
    bound = BATCH * settings.clipping.sensitivity("add-remove")  # gradients are not yet divided
    report = check_step(*parts, settings=settings, charged=charged, sensitivity=bound)
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
    noise = rdp_gan.settings.LossValueNoise(Constant(10.0))
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


def sums_of(net, features):
    of = partial(per_example, net, lambda out: (out[:, 0] - 1).square())
    return clipped_sum(of, features, rule=FlatClipping(CLIP))


def right(pair, features, labels, *, rng, noise: Any = NOISE, over: Any = BATCH, **given):
    net, optimizer = pair
    clipped = sums_of(net, features)
    noisy = noised(clipped.sums, noise_std=noise * CLIP, rng=rng)
    update(optimizer, clipped.parameters, [total / over for total in noisy])


def check(step, *, made=new_pair, settings=None, features=None, **told):
    features = uniform(BATCH, 3) if features is None else features
    return check_step(step, made, features, labels(3), settings=settings or Priced(), **told)


def sentence(report, kind):
    assert {found for found, _ in report.findings} == {kind}, report
    return report.findings[0].sentence


def test_nothing_is_found_in_the_right_step_nor_in_three_of_them():
    """Dropout masks stay with their records: left out, one moves the sum by its own gradient."""
    assert check(right).findings == check(right, steps=3).findings == ()
    report = check(right, made=lambda: new_pair(nn.Dropout(0.5)))
    assert (report.findings, report.dropped) == ((), pytest.approx(1, rel=1e-3))
    assert "This is no proof" in str(report)
    report.raise_if_found()


def by_coordinate(
    pair, features, labels, *, rng, least=0.0, charged=NOISE, drawn=noised_each, **given
):
    """With a bound of 0, that coordinate is always 0, and gets no noise."""
    net, optimizer = pair
    rule = PerCoordinateClipping((torch.tensor([[0.3, least, 0.1]]), torch.tensor([0.2])))
    of = partial(per_example, net, lambda out: (out[:, 0] - 1).square())
    clipped = clipped_sum(of, features, rule=rule, microbatch_size=4)
    noisy = drawn(clipped.sums, noise_stds=rule.noise_stds(charged), rng=rng)
    update(optimizer, clipped.parameters, [total / BATCH for total in noisy])


def test_noise_on_coordinates_is_judged_by_its_deviations():
    """Right, half of it, and the same for two sums."""

    def again(*args, rng, **told):
        return noised_each(*args, rng=torch.Generator().manual_seed(5), **told)

    told = {"settings": object(), "charged": Release(SampledGaussian(NOISE, 0.01))}
    report = check(by_coordinate, **told)
    assert report.findings == (), report
    assert 1.1 < report.replaced < 2.001
    assert 0.5 < report.dropped < 1.001
    half = check(partial(by_coordinate, charged=NOISE / 2), **told)
    assert "sensitivity" in dict(half.findings)
    same = check(partial(by_coordinate, least=0.1, drawn=again), **told)
    assert "two releases have the same noise" in sentence(same, "noise")


def a_fake_for_each_record(pair, features, labels, **given):
    """In the noised sum: left out, a record moves it by two clip norms, not by one."""
    fakes = 2 * torch.randn(features.shape, generator=given["rng"])
    pairs = zip(*(sums_of(pair[0], rows).sums for rows in (features, fakes)), strict=True)
    both = [real + fake for real, fake in pairs]
    noised(both, noise_std=NOISE * CLIP, rng=given["rng"])


def refuses_one_record(pair, features, labels, **given):
    if features.abs().max() > 10:
        raise ValueError("too large")
    right(pair, features, labels, **given)


def noise_of_the_batch(pair, features, labels, **given):
    std = NOISE * CLIP * float(features.abs().max() + 1)
    noised(sums_of(pair[0], features).sums, noise_std=std, rng=given["rng"])


def other_sums_for_one_record(pair, features, labels, **given):
    if features.abs().max() < 10:
        right(pair, features, labels, **given)
    else:
        noised([torch.zeros(2)], noise_std=NOISE * CLIP, rng=given["rng"])


def fixed_noise(pair, features, labels, **given):
    right(pair, features, labels, **given | {"rng": torch.Generator().manual_seed(5)})


def random_features(pair, features, labels, *, drawn=np.random.default_rng(0), **given):  # noqa: B008
    right(pair, features * float(drawn.uniform()), labels, **given)


def counting(pair, features, labels, *, counts=iter(range(100)), **given):  # noqa: B008
    right(pair, features, labels, **given)
    pair[0][-1].bias.data.fill_(next(counts))


def centred_batch(pair, features, labels, **given):
    right(pair, 100 * (features - features.mean(0)), labels, **given)


def over_the_batch(pair, features, labels, **given):
    right(pair, features, labels, over=len(features), **given)


def as_many_draws(pair, features, labels, **given):
    right(pair, features, labels, **given)
    pair[0][-1].bias.data += torch.randn(len(features), generator=given["rng"]).sum()


def plain_backward(pair, features, labels, **given):
    pair[1].zero_grad()
    (pair[0](features) - 1).square().mean().backward()
    pair[1].step()


def twice(pair, features, labels, **given):
    right(pair, features, labels, **given)
    right(pair, features, labels, **given)


def kept_of_the_batch(pair, features, labels, *, keep, **given):
    right(pair, features, labels, **given)
    keep(*pair, features)


KEPT = [  # in an attribute, a buffer, the learning rate, or in a gradient for the next optimiser
    (lambda net, _, x: setattr(net, "centre", x.mean(0)), 0),
    (lambda net, _, x: net[-1].register_buffer("largest", x.max(), persistent=False), 0),
    (lambda _, sgd, x: sgd.param_groups[0].update(lr=float(x.abs().mean())), 1),
    (lambda net, _, x: setattr(net[-1].bias, "grad", x.mean(0)[:1]), 0),
]
REMEDY = "; (give|compute|divide|clip|draw)"
WRONG = [
    (a_fake_for_each_record, "sensitivity", "where one record is left out, and 1 is charged"),
    (refuses_one_record, "stopped", r"lies far outside the domain \(ValueError: too large\)"),
    (noise_of_the_batch, "not noised", r"noise_std \(2 tensors\) differ after the step where one"),
    (other_sums_for_one_record, "not noised", r"noise_std \(2 .* one record lies far outside"),
    (fixed_noise, "noise", "two releases have the same noise"),
    (random_features, "draws", r"^0 \(4 tensors\) differ between"),
    (counting, "draws", "keep all that outlives a step in what new_gan returns"),
    (twice, "releases", r"called 2 times .*er 0.778 in all, .* charges 1 \(.* 1.1 in all"),
    (partial(right, noise=0.0), "noise", r"once in a step \(noise multiplier 0 in all, for clip"),
    (partial(right, noise=NOISE / BATCH), "noise", "multiplier 0.183 in all, .* 1.1 in all"),
    (centred_batch, "sensitivity", r"moves by \d+\.?\d* clip norms where one record"),
    (over_the_batch, "batch size", r"^0 \(4 tensors\) differ .* one record is left out"),
    (as_many_draws, "batch size", r"differ after the step where one record is left out"),
    *(
        (partial(kept_of_the_batch, keep=keep), "not noised", rf"^{owner} \(1 tensor\)")
        for keep, owner in KEPT
    ),
]


@pytest.mark.parametrize(("step", "kind", "said"), WRONG)
def test_a_step_that_is_wrong_in_one_way_is_told_so(step, kind, said):
    report = check(step)
    assert re.search(said, dict(report.findings)[kind]), report
    assert all(re.search(REMEDY, sentence) for _, sentence in report.findings)
    if kind != "not noised":
        assert {each for each, _ in report.findings} == {kind}
    if kind == "draws":
        assert report.runs == 2  # nothing else is compared
    if step is a_fake_for_each_record:
        assert 1.1 < report.dropped <= 2.001


def test_a_plain_backward_pass_is_told_all_that_is_wrong():
    found = dict(check(plain_backward).findings)
    assert found.keys() == {"releases", "not noised", "batch size"}
    assert "called 0 times in a step, and the ledger charges 1 " in found["releases"]


def test_noise_that_is_fixed_is_seen_in_one_of_many_steps_and_not_from_torchs_default_seed():
    assert "same noise" in sentence(check(fixed_noise, steps=2), "noise")
    with pytest.raises(ValueError, match="torch's default seed"):
        check(lambda *batch, **given: right(*batch, **given | {"rng": torch.Generator()}))


def test_a_record_that_is_left_out_may_not_be_comparable():
    """Where what the others draw hangs on their number: no finding, and the report says so."""

    def shuffling(pair, features, labels, **given):
        order = torch.randperm(len(features), generator=given["rng"])
        right(pair, features[order], labels[order], **given)

    assert "what one left out moves was not compared" in str(check(shuffling))


def test_noise_by_tensor_is_judged_by_the_noise():
    """Without a declared sensitivity: by how many of its deviations the sum moves."""

    def step(pair, features, labels, *, rng, share=1.0, **given):
        stds = [share * NOISE * CLIP, 1.01 * share * NOISE * CLIP]
        noised_each(sums_of(pair[0], features).sums, noise_stds=stds, rng=rng)

    settings = type("Settings", (), {"ledger": Priced.ledger})()
    assert check(step, settings=settings).findings == ()
    little = check(partial(step, share=0.25), settings=settings)
    assert "over the charged noise multiplier) where one record" in sentence(little, "sensitivity")


def test_the_charge_may_be_given_and_more_than_one():
    assert check(twice, charged=[Release(Gaussian(NOISE), 2)]).findings == ()
    undeclared = check(twice, settings=object(), charged=Release(Gaussian(NOISE)))
    assert "called 2 times" in dict(undeclared.findings)["releases"]
    none = NoGuarantee("no noise")
    for mechanism in (none, Assuming(none, ("a network that is not trained",))):
        assert "no noise" in sentence(check(right, charged=Release(mechanism)), "guarantee")
    said = r"^noise: noised\(\) is called once .* 1\.1 in all.* charges 1 .* 2 in all"
    with pytest.raises(ValueError, match=said):
        check(right, charged=Release(Gaussian(2.0))).raise_if_found()


def test_where_the_size_is_public_no_record_is_left_out():
    public = Assuming(Gaussian(NOISE, "replace-one"), (PUBLIC_SIZE,))
    for mechanism in (WithoutReplacementGaussian(NOISE / 2, 0.1), public):
        report = check(over_the_batch, charged=Release(mechanism))
        assert report.findings == ()
        assert np.isnan(report.dropped)  # nothing was compared


def test_after_a_check_that_stopped_noise_is_noise_again():
    def stopping(pair, features, labels, **given):
        noised([torch.zeros(9)], noise_std=1.0, rng=given["rng"])
        raise KeyError("stopped")

    with pytest.raises(KeyError):
        check(stopping)
    rng = torch.Generator().manual_seed(1)
    (first,), (second,) = (noised([torch.zeros(9)], noise_std=1.0, rng=rng) for _ in range(2))
    assert not torch.equal(first, second)


test_bad_input_is_refused = refused(
    ({"features": uniform(1, 3)}, "at least 2, got 1 and 6; give a small batch"),
    ({"steps": 0}, "steps must be"),
    ({"settings": object()}, "settings must have a ledger; or give charged="),
    ({"charged": Release(DiscreteGaussian(1.0))}, "Gaussian releases.*got DiscreteGaussian"),
    call=lambda told: check(right, **told),
)


# --- the draws ---


def dropout(size, generator):
    with torch.random.fork_rng():
        torch.set_rng_state(generator.get_state())
        return nn.functional.dropout(torch.ones(size))


DRAWS = {
    **{"rand": torch.rand, "randn": torch.randn, "randint": partial(torch.randint, 9)},
    "like": lambda size, generator: torch.randn_like(torch.zeros(size), generator=generator),
    "in place": lambda size, generator: torch.empty(size).uniform_(generator=generator),
    "coins": lambda size, generator: torch.bernoulli(torch.full(size, 0.3), generator=generator),
    "dropout": dropout,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
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

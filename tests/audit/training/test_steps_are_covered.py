"""The papers' steps, and PrivateGan's, under `check`: repaired ones, and as they were published."""

from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest
import torch
from short_runs import BATCH, RECORDS, assert_covered, checked
from torch import nn

from dpkit.papers import dp_cgan, rdp_gan, small_images
from dpkit.privacy import Release, SampledGaussian
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.private import PrivateGan
from dpkit.private import gan_step as private_gan
from dpkit.private.plan import LOSSES, gan_settings
from dpkit.training import Conditional, seeded

CPU = torch.device("cpu")
GENERATOR = {"released": lambda gan: gan.generator_net}
DRAWN = {"sampling": PoissonSampling(BATCH), "target_epsilon": 1e4}


def uniform(*shape, seed=0):
    return 2 * torch.rand(shape, generator=torch.Generator().manual_seed(seed)) - 1


def labels(classes):
    return torch.arange(RECORDS) % classes


def of_dp_cgan(settings):
    settings = dp_cgan.settings.small(settings, batch_size=BATCH, steps=5)
    settings = replace(settings, pixels=9, hidden=4, latent_size=3)
    new = partial(dp_cgan.new_gan, settings, seed=0, device=CPU)
    charged = settings.ledger(public_size=RECORDS, steps=2)
    told = {"settings": settings, "charged": charged, **GENERATOR}
    return dp_cgan.step, new, (uniform(RECORDS, 9), labels(10)), told


def of_small_images():
    small = {"capacity": 2, "side": 8, "latent_size": 4, "critic_steps": 2}
    settings = replace(small_images.settings.REPAIRED, **small, **DRAWN)
    new = partial(small_images.new_gan, settings, seed=0, device=CPU)
    charged = settings.ledger(public_size=RECORDS, steps=2)
    told = {"settings": settings, "charged": charged, **GENERATOR}
    return small_images.step, new, (uniform(RECORDS, 1, 8, 8), labels(1)), told


def of_rdp_gan(noise):
    small = {"network": rdp_gan.settings.Mlp(4), "features": 6, "latent_size": 3, "classes": 3}
    small |= {"discriminator_steps": 3, **DRAWN}
    settings = replace(rdp_gan.settings.SETTINGS, noise=noise, **small)
    new = partial(rdp_gan.new_gan, settings, seed=0, device=CPU)
    charged = Release(SampledGaussian(2.0, BATCH / RECORDS), 3)  # its ledger counts rounds of three
    told = {"settings": settings, "charged": charged, "steps": 3, **GENERATOR}
    return rdp_gan.step_of(settings), new, (uniform(RECORDS, 6), labels(3)), told


def of_private_gan(loss, n_critic=2):
    """Labels, batch normalisation in the generator, which is trained in the last step."""
    with seeded(0):
        generator = Conditional(nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8)), classes=3)
        body = nn.Sequential(nn.Linear(11, 5), nn.LeakyReLU(), nn.Linear(5, 1))
    critic = Conditional(body, classes=3)
    told = {"epsilon": 8, "delta": 1e-5, "classes": 3, "loss": loss, "latent_size": 4}
    told |= {"n_critic": n_critic, "batch_size": BATCH, "max_grad_norm": 0.1}
    gan = PrivateGan(generator, critic, **told)
    settings = gan_settings(gan, records=RECORDS, steps=n_critic)

    def new():
        return private_gan.new_gan(deepcopy(generator), deepcopy(critic), settings)

    told = {"settings": settings, "charged": settings.plan.ledger(n_critic)}
    told |= {"steps": n_critic, "released": lambda gan: gan.averaged_net}
    return private_gan.step, new, (uniform(RECORDS, 8), labels(3)), told


REPAIRED = {
    **{"dp_cgan": of_dp_cgan(dp_cgan.settings.REPAIRED), "small_images": of_small_images()},
    "rdp_gan": of_rdp_gan(rdp_gan.settings.GradientNoise(Constant(2.0), 0.5)),
}
REPAIRED |= {f"PrivateGan, {loss}": of_private_gan(loss) for loss in LOSSES}
QUICK = "PrivateGan, one step"
ITS_OWN = pytest.mark.slow("a repaired step, of this paper or loss, that a record moves too far")


@pytest.mark.parametrize("name", [QUICK, *(pytest.param(one, marks=ITS_OWN) for one in REPAIRED)])
def test_repaired_steps_are_covered_by_what_they_charge(name):
    step, new, data, told = REPAIRED.get(name) or of_private_gan("hinge", n_critic=1)
    assert_covered(checked(step, new, data, **told), share=0.65)  # not every gradient is clipped


def test_the_published_dp_cgan_gives_private_labels_to_the_generator():
    step, new, data, told = of_dp_cgan(dp_cgan.settings.SETTINGS)
    report = checked(step, new, data, **told | {"steps": 1})
    assert (report.verdict, report.charged) == ("broken", float("inf"))


def test_the_published_rdp_gan_noises_no_gradient():
    step, new, data, told = of_rdp_gan(rdp_gan.settings.LossValueNoise(Constant(10.0)))
    told |= {"steps": 1, "released": lambda gan: gan.discriminator}
    assert checked(step, new, data, **told).verdict == "broken"


@pytest.mark.slow("statistics that tell the batch's size in a paper's own generator")
def test_batch_normalisation_over_a_fake_for_each_record_knows_how_many_there_are():
    step, new, data, told = of_small_images()

    def in_training_mode():
        gan = new()
        gan.generator_net.eval = lambda: gan.generator_net
        return gan

    assert checked(step, in_training_mode, data, **told).verdict == "broken"

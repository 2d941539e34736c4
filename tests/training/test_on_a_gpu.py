"""Steps on a GPU that is not there (`claims_cuda`): what meets, who draws, who waits, how much.

An operation whose result decides what Python does next stops the queue of a GPU, and so does a copy
from memory that is not pinned. The Poisson draw is counted apart; the check of an earlier update's
weights, which waits for little that is queued, is not. Not seen are kernels, what cuDNN picks, a
GPU's rounding, memory and time; nor what torch decides in C++, where it takes ours for meta.

`PYTHONPATH=tests/training:tests/training/checkpoint:tests/private python -m test_on_a_gpu` prints
the numbers of operators anew, for `make format` to lay out.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from claims_cuda import CPU, CUDA, gpu
from per_example_tests import with_penalty
from small_networks import gan_of, pair
from tiny import Plain
from torch import Tensor, nn

from dpkit.metrics import judge
from dpkit.metrics import trained_on_synthetic as synthetic
from dpkit.papers import dp_cgan, dpgan, rdp_gan, small_images
from dpkit.papers.adadp import agd, algorithm
from dpkit.papers.adadp import settings as noises
from dpkit.papers.dpgan import scores
from dpkit.papers.dpgan.grouping import PublicBounds, biases_together, is_bias
from dpkit.papers.rdp_gan.settings import Dcgan, GradientNoise, Mlp
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.private import gan_step
from dpkit.private.plan import gan_settings
from dpkit.synthesizers import class_moments
from dpkit.synthesizers.warm_gan import step as warm
from dpkit.synthesizers.warm_gan.settings import calibrated
from dpkit.training import Data, clipped_sum, generator_on, noised, per_example, train, update
from dpkit.training.types import Record, Recorded

pytestmark = pytest.mark.filterwarnings("error::UserWarning")

TORCH = "2.13.0"  # whose operators were counted, in a run's second step and third
OPERATORS = {
    "dp_cgan": {"REPAIRED": 930, "SETTINGS": 898, "BASIC": 884},
    "small_images": {"REPAIRED": 2012, "SETTINGS": 2006, "NON_PRIVATE": 594},
    "dpgan": {"none": 542, "basic": 2016, "code": 2918, "apart": 3030, "all": 3006, "auto": 3006},
    "rdp_gan": {"loss": 463, "times": 475, "output": 477, "weights": 553, "dcgan": 376},
    "rdp_gan_repaired": {"mlp": 1119, "dcgan": 1284, "table": 1161},
    "adadp": {"flat": 478, "published": 794, "repaired": 878, "DpOpt": 2330, "AGD": 722},
    "private_gan": {"wasserstein": 1211, "hinge": 883, "bce": 891},
    "warm_gan": {"small": 1042},
    "ones_own": {"plain": 1164, "penalty": 2980},
    "learning": {"judge": 262, "synthetic": 138, "scores": 316},
    "sampling": {"dp_cgan": 34, "small_images": 30, "dpgan": 28, "rdp_gan": 36},
    "sampling_of_labels": {"private_gan": 34, "warm_gan": 110},
}
DRAW = "training/batches.py"  # its number of records decides the shapes of a Poisson step
ALLOWED = {"dpgan": 1, "adadp": 1, "learning": 1}  # waits a step; others need none
ALLOWED |= {"learning scores": 9, "sampling_of_labels": 2}  # new weights moved there; in and out
POISSON = PoissonSampling(5)
seeded = partial(generator_on, CUDA, reproducible_seed=0)
Made = tuple[Any, Any, Tensor, Any]  # a step, its model, features, settings


def images(side: int = 8, count: int = 60) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    return (2 * torch.rand(count, 1, side, side, generator=rng) - 1).to(CUDA)


def of_dp_cgan(name: str) -> Made:
    settings = replace(getattr(dp_cgan.settings, name), pixels=64, hidden=4)
    settings = dp_cgan.settings.small(settings, batch_size=5, steps=10)
    step = dp_cgan.basic_step if name == "BASIC" else dp_cgan.step
    gan = dp_cgan.new_gan(settings, seed=0, device=CUDA)
    return step, gan, images().flatten(1), settings


def of_small_images(name: str) -> Made:
    settings = getattr(small_images.settings, name)
    small = {"capacity": 2, "side": 8, "latent_size": 3, "max_steps": 10, "target_epsilon": None}
    settings = replace(settings, sampling=type(settings.sampling)(5), **small)
    gan = small_images.new_gan(settings, seed=0, device=CUDA)
    return small_images.step_of(settings), gan, images(), settings


DPGAN, EACH = dpgan.settings, tuple(range(7))
CLIPPINGS = {"apart": PublicBounds(EACH), "all": PublicBounds(biases_together(is_bias(3)))}


def of_dpgan(name: str) -> Made:
    published = {"none": DPGAN.NON_PRIVATE, "code": DPGAN.SETTINGS, "basic": DPGAN.MNIST}
    settings = published.get(name, DPGAN.REPAIRED)
    small = {"image_shape": (1, 8, 8), "critic_channels": (2, 3, 4), "latent_size": 3}
    small |= {"generator_channels": (3, 2, 2), "devices": 1, "critic_steps": 2, "max_steps": 10}
    small |= {"sampling": type(settings.sampling)(5), "private_examples": 60, "moments": None}
    small |= {"target_epsilon": 1e6, "clipping": CLIPPINGS.get(name, settings.clipping)}
    settings = replace(settings, noise_multiplier=20.0 * (name != "none"), **small)
    gan = dpgan.new_gan(settings, seed=0, device=CUDA)
    return dpgan.step_of(settings, images(count=10)), gan, images(), settings


RDP_GAN = rdp_gan.settings
READINGS = {"loss": RDP_GAN.SETTINGS, "times": RDP_GAN.MULTIPLICATIVE, "dcgan": RDP_GAN.DCGAN}
READINGS |= {"output": RDP_GAN.OUTPUT_ERROR, "weights": RDP_GAN.DP_GAN}
GRADIENT = {"noise": GradientNoise(Constant(5.0), 0.5), "sampling": POISSON}


def of_rdp_gan(name: str, settings: Any = None) -> Made:
    settings = settings or READINGS[name]
    side, network = (28, Dcgan(2)) if name == "dcgan" else (8, Mlp(4))
    small = {"network": network, "features": side**2, "latent_size": 3, "iterations": 5}
    small |= {"discriminator_steps": 2, "sampling": type(settings.sampling)(5)}
    settings = replace(settings, target_epsilon=None, **small)
    gan = rdp_gan.new_gan(settings, seed=0, device=CUDA)
    return rdp_gan.step_of(settings), gan, images(side).flatten(1), settings


def of_rdp_gan_repaired(name: str) -> Made:
    parts = {"parts": (30, 34), "classes": 0} if name == "table" else {}
    return of_rdp_gan(name, replace(RDP_GAN.SETTINGS, **GRADIENT, **parts))


NOISES = {"flat": noises.Flat(0.1), "repaired": noises.Repaired(0.1)}
NOISES |= {"DpOpt": noises.Optimised(0.1), "published": noises.Published(0.1, threshold=0.0)}


def of_adadp(name: str) -> Made:
    small = {"sampling": POISSON, "widths": (64, 6, 10), "pca_noise": None, "max_steps": 10}
    small |= {"noise_multiplier": 30.0, "target_epsilon": 1e4}
    if name == "AGD":
        settings, step, new = (
            replace(noises.AGD, public_size=60, **small),
            agd.step,
            agd.new_descent,
        )
    else:
        settings = replace(noises.ADADP, noise=NOISES[name], **small)
        step, new = algorithm.step, algorithm.new_classifier
    return step, new(settings, seed=0, device=CUDA), images().flatten(1), settings


def of_private_gan(name: str) -> Made:
    settings = gan_settings(gan_of(loss=name, n_critic=2, batch_size=5), records=60, steps=10)
    gan = gan_step.new_gan(*(net.to(CUDA) for net in pair()), settings)
    return gan_step.step, gan, images(), settings


SMALL = {"latent_size": 2, "hidden": 8, "features": 8, "generator_batch": 6, "n_critic": 2}


def of_warm_gan(_: str = "") -> Made:
    given = {"delta": 1e-5, "public_size": 60, "classes": 10, "shape": (1, 8, 8), "batch_size": 5}
    settings = calibrated(10, steps=10, **given, **SMALL)
    moments = replace(settings.moments, components=2, noise_multiplier=0.01)
    rng, labels = np.random.default_rng(0), np.arange(60) % 10
    model = class_moments.fit(rng.random((60, 1, 8, 8)), labels, settings=moments, rng=rng)
    return warm.step, warm.new_gan(settings, model, seed=0, device=CUDA), images(), settings


def of_ones_own(name: str) -> Made:
    """Clip, noise, update: as it should be, or with the fault `name`."""
    body = nn.Conv2d(1, 3, 3), nn.LeakyReLU(), nn.Flatten(), nn.Linear(108, 4), nn.ReLU()
    net = nn.Sequential(*body, nn.Linear(4, 1)).to(CPU if name == "network" else CUDA)
    gan = (net, optimizer) = net, torch.optim.SGD(net.parameters(), lr=0.1)

    def loss(out: Tensor) -> Tensor:
        losses = out.square().squeeze(1)
        if name == "item":
            losses = losses + 0 * losses.sum().item()
        return losses + torch.zeros(len(losses)) if name == "tensor" else losses

    def step(gan, features, labels, *, settings, index, rng):
        of, inputs, here = partial(per_example, net, loss), (features,), torch.Generator()
        drawn = here if name == "draw" else rng
        mixing = torch.rand(len(features), generator=drawn, device=features.device)
        if name == "penalty":
            of, inputs = partial(with_penalty, net), (features, features.flip(0), mixing)
        clipped = clipped_sum(of, *inputs, rule=FlatClipping(1.0), microbatch_size=3)
        noise = here.manual_seed(1) if name == "noise" else rng
        noisy = noised(clipped.sums, noise_std=1.0, rng=noise)
        update(optimizer, clipped.parameters, noisy)
        return Record(index, len(features), clipped.losses.mean(), None, clipped.weights.min())

    return step, gan, images(), Plain(sampling=POISSON)


def of_learning(name: str) -> Iterator:
    """Batches of a classifier, or of the discriminator behind the JS score."""
    labels, pixels = torch.arange(60, device=CUDA) % 10, images(28)
    if name == "judge":
        learning = judge.Learning("digits", width=2, hidden=4, epochs=1, batch_size=10)
        return judge.learn(judge.initial(learning, CUDA), pixels, labels, learning=learning)
    if name == "synthetic":
        protocol, net = synthetic.Protocol(batch_size=10), synthetic.cnn((1, 28, 28), 10)
        return synthetic.train(net.to(CUDA), pixels, labels, protocol=protocol, seed=0)
    settings = scores.Discriminating(iterations=1, batch_size=5, width=4)
    return (scores.told_apart(pixels, pixels, settings=settings, seed=i) for i in range(3))


def of_sampling(name: str) -> Iterator:
    """Calls of what draws from a released generator."""
    rng, papers = seeded(), {"dp_cgan": dp_cgan, "small_images": small_images, "rdp_gan": rdp_gan}
    _, gan, _, settings = globals()[f"of_{name}"]("loss" if name == "rdp_gan" else "REPAIRED")
    if name == "dpgan":
        codes = torch.randn(6, 3, generator=rng, device=CUDA)
        return (dpgan.generate(gan.generator_net, codes) for _ in range(3))
    wanted = 6 if name == "small_images" else torch.arange(6, device=CUDA)
    generate: Any = partial(papers[name].generate, gan, wanted, settings=settings, rng=rng)
    return (generate() for _ in range(3))


def of_sampling_of_labels(name: str) -> Iterator:
    """The same with labels that come in and images that go out."""
    if name == "warm_gan":
        net, given = of_warm_gan()[1].averaged_net, {"classes": 10, "rng": seeded()}
        return (warm.generate_from(net, range(6), **given) for _ in range(3))
    made: Any = gan_of()  # fitted to nothing
    made.generator_, made.settings_ = pair()[0].to(CUDA), {"classes": 10, "latent_size": [16]}
    return (made.sample(6) for _ in range(3))


def walked(family: str, name: str) -> tuple[int, list[Counter[str]]]:
    """Operators of the second step and the third, which check no network, and their waits."""
    counts, waits = [], []
    with gpu() as there:
        steps = globals()[f"of_{family}"](name)
        if isinstance(steps, tuple):
            step, model, features, settings = steps
            data = Data(features, torch.arange(60, device=CUDA) % 10, 60)
            steps = train(step, model, data, settings=settings, rng=seeded())
        for _ in range(3):
            there.count, there.waits = 0, Counter()
            record = next(steps)
            counts.append(there.count)
            waits.append(there.waits.copy())
            if isinstance(record, Recorded):
                assert record._asdict()
                assert (there.waits - waits[-1]).total() <= 1  # one transfer
    assert not there.faults
    return sum(counts[1:]), waits[1:]


def check_waits(family: str, name: str, waits: list[Counter[str]]) -> None:
    most = ALLOWED.get(f"{family} {name}", ALLOWED.get(family, 0))
    for seen in waits:
        draws = Counter({at: n for at, n in seen.items() if at.startswith(DRAW)})
        assert draws.total() <= 1
        assert (seen - draws).total() <= most, seen


@pytest.mark.parametrize(("family", "name"), [(f, n) for f, own in OPERATORS.items() for n in own])
def test_a_step(family, name):
    count, waits = walked(family, name)
    check_waits(family, name, waits)
    if torch.__version__.split("+")[0] == TORCH:
        assert count == pytest.approx(OPERATORS[family][name], rel=0.05)


MET = "of a tensor of the CPU and one of cuda:0"
FAULTS = {"draw": "by a generator of cpu", "noise": "training/noise.py", "network": MET}
FAULTS |= {"tensor": MET, "item": "test_on_a_gpu.py"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault):
    with pytest.raises((AssertionError, RuntimeError), match=FAULTS[fault]):
        check_waits("ones_own", fault, walked("ones_own", fault)[1])


if __name__ == "__main__":
    for family, own in OPERATORS.items():
        print(f"    {family!r}: { ({name: walked(family, name)[0] for name in own}) },")

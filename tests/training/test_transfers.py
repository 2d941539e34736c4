"""How often a step waits for its device, counted on a CPU that is taken for a GPU.

An operation whose result decides what Python does next stops the queue of a GPU. A step may ask
for the number of records in its batch (Poisson); dpGAN's bounds become numbers of Python, for which
they are read once; a record is read by who wants to know it, in one transfer. Nothing else waits,
but for the checks of a network, ever rarer.
"""

import copy
from collections import Counter
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from pathlib import Path
from traceback import extract_stack

import pytest
import torch
from per_example_tests import with_penalty
from tiny import Plain, networks
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import dpkit
from dpkit.papers import dp_cgan, dpgan, rdp_gan, small_images
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.training import clipped_sum, noise, optimizers, per_example
from dpkit.training.device import generator_on
from dpkit.training.gradients import Gradients, LayerPasses, layers
from dpkit.training.gradients.layers import KINDS
from dpkit.training.loop import train
from dpkit.training.noise import noised
from dpkit.training.optimizers import update
from dpkit.training.types import Data, Record

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
PACKAGE = f"{Path(dpkit.__file__).parent.as_posix()}/"  # a clone's own folder may be called so too
DECIDING = ("_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2", "is_nonzero")
READING = (Tensor.tolist, Tensor.cpu, Tensor.numpy)  # on a CPU without an operation
CHECK = "training/gradients/independence.py"  # of a network's 1st, 2nd, 4th, ... batch
DRAW = {"training/batches.py": 1}
BOUNDS = {"papers/dpgan/grouping.py": 1}
READ = {"training/device.py": 1}
POISSON = PoissonSampling(5)


class Operations(TorchDispatchMode):
    """Operations that ran, and those that a GPU would be waited for, by file."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.waits = 0, Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        name = func.overloadpacket.__name__
        if name in DECIDING or (name == "index" and _by_mask(args[1])):
            _note(self.waits)
        return func(*args, **(kwargs or {}))


class Readings(TorchFunctionMode):
    """Methods that read values."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in READING:
            _note(self.waits)
        return func(*args, **(kwargs or {}))


def _by_mask(indices) -> bool:
    return any(index is not None and index.dtype == torch.bool for index in indices)


def _note(waits: Counter) -> None:
    files = [Path(frame.filename).as_posix() for frame in extract_stack()]
    if not any("/torch/optim/" in file for file in files):  # Adam counts its steps on the CPU
        own = [file for file in files if file.startswith(PACKAGE)]
        waits[own[-1].removeprefix(PACKAGE) if own else "elsewhere"] += 1


@pytest.fixture
def gpu(monkeypatch):
    """Take the CPU for a GPU where the device decides which way is taken."""
    monkeypatch.setattr(layers, "waits_for", lambda x: True)
    monkeypatch.setattr(noise, "source", lambda rng: partial(noise._on_gpu, rng=rng))
    monkeypatch.setattr(optimizers, "_waits_for", lambda flag: True)
    monkeypatch.setattr(optimizers, "_on_its_way", lambda flag: lambda: True)


def waits(step, gan, features: Tensor, settings, *, read: bool = False) -> dict[str, int]:
    """The most of the last three of eight steps, by file, but for those that check a network."""
    data = Data(features, torch.arange(len(features)) % 10, len(features))
    rng = generator_on(CPU, reproducible_seed=0)
    records = train(step, gan, data, settings=settings, rng=rng)
    seen: list[Counter] = []
    for _ in range(8):
        with Operations() as operations, Readings() as readings:
            record = next(records)
            if read:
                _ = record.discriminator_loss, record.generator_loss, record.clipped
        seen.append(operations.waits + readings.waits)
    kept = [each for each in seen[5:] if CHECK not in each]
    assert kept
    return dict(reduce(or_, kept))


@pytest.fixture
def images() -> Tensor:
    rng = torch.Generator().manual_seed(0)
    return 2 * torch.rand(60, 1, 8, 8, generator=rng) - 1


@pytest.mark.parametrize("name", ["REPAIRED", "SETTINGS", "BASIC"])
@pytest.mark.usefixtures("gpu")
def test_dp_cgan(images, name):
    settings = dp_cgan.settings.small(getattr(dp_cgan.settings, name), batch_size=5, steps=10)
    settings = replace(settings, pixels=64, hidden=4)
    gan = dp_cgan.new_gan(settings, seed=0, device=CPU)
    step = dp_cgan.basic_step if name == "BASIC" else dp_cgan.step
    draw = DRAW if name == "REPAIRED" else {}
    assert waits(step, gan, images.flatten(1), settings) == draw
    assert waits(step, gan, images.flatten(1), settings, read=True) == draw | READ


@pytest.mark.parametrize("name", ["REPAIRED", "SETTINGS", "NON_PRIVATE"])
@pytest.mark.usefixtures("gpu")
def test_small_images(images, name):
    settings = getattr(small_images.settings, name)
    sampling = type(settings.sampling)(5)
    small = {"capacity": 2, "side": 8, "latent_size": 3, "max_steps": 10, "target_epsilon": None}
    settings = replace(settings, sampling=sampling, **small)
    gan = small_images.new_gan(settings, seed=0, device=CPU)
    draw = DRAW if isinstance(sampling, PoissonSampling) else {}
    found = waits(small_images.step_of(settings), gan, images, settings, read=True)
    assert found == draw | READ


@pytest.mark.parametrize(
    "name", ["SETTINGS", "MULTIPLICATIVE", "OUTPUT_ERROR", "DP_GAN", "REPAIRED"]
)
@pytest.mark.usefixtures("gpu")
def test_rdp_gan(images, name):
    settings = getattr(rdp_gan.settings, "SETTINGS" if name == "REPAIRED" else name)
    small = {"network": rdp_gan.settings.Mlp(4), "features": 64, "latent_size": 3, "iterations": 5}
    draw = DRAW if name == "REPAIRED" else {}
    if draw:
        gradient = rdp_gan.settings.GradientNoise(Constant(5.0), 0.5)
        small |= {"noise": gradient, "target_epsilon": None}
    small["sampling"] = POISSON if draw else type(settings.sampling)(5)
    settings = replace(settings, discriminator_steps=2, **small)
    gan = rdp_gan.new_gan(settings, seed=0, device=CPU)
    found = waits(rdp_gan.step_of(settings), gan, images.flatten(1), settings, read=True)
    assert found == draw | READ


@pytest.mark.parametrize("name", ["REPAIRED", "NON_PRIVATE"])
@pytest.mark.usefixtures("gpu")
def test_dpgan(images, name):
    settings, private = getattr(dpgan.settings, name), name == "REPAIRED"
    small = {"image_shape": (1, 8, 8), "critic_channels": (2, 3, 4), "latent_size": 3}
    small |= {"generator_channels": (3, 2, 2), "devices": 1, "critic_steps": 2, "max_steps": 10}
    noise, sampling = 20.0 * private, type(settings.sampling)(5)
    small |= {"private_examples": 60, "noise_multiplier": noise, "sampling": sampling}
    settings = replace(settings, **small)
    gan = dpgan.new_gan(settings, seed=0, device=CPU)
    found = waits(dpgan.step_of(settings, images[:10]), gan, images, settings, read=True)
    assert found == (READ | DRAW | BOUNDS if private else READ)


def general_step(gan, features, labels, *, settings, index, rng, penalty):
    """Clip, noise, update: what a step of one's own does."""
    net = gan.discriminator
    of, inputs = partial(per_example, net, lambda out: out.square().squeeze(1)), (features,)
    if penalty:
        of = partial(with_penalty, net)
        inputs = (features, torch.rand(features.shape), torch.rand(len(features)))
    clipped = clipped_sum(of, *inputs, rule=FlatClipping(1.0), microbatch_size=3)
    noisy = noised(clipped.sums, noise_std=1.0, rng=rng)
    update(gan.discriminator_optimizer, clipped.parameters, noisy)
    share = (clipped.weights < 1).float().mean()
    return Record(index, len(features), clipped.losses.mean(), None, share)


@pytest.mark.parametrize("penalty", [False, True])
@pytest.mark.usefixtures("gpu")
def test_a_step_of_ones_own(images, penalty):
    layers = nn.Conv2d(1, 3, 3), nn.LeakyReLU(), nn.Flatten(), nn.Linear(108, 4), nn.ReLU()
    net = nn.Sequential(*layers, nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    gan = networks()._replace(discriminator=net, discriminator_optimizer=optimizer)
    step, settings = partial(general_step, penalty=penalty), Plain(sampling=POISSON)
    found = waits(step, gan, images, settings, read=True)
    assert found == DRAW | READ


@pytest.mark.parametrize("last", [False, True])
def test_weights_that_are_not_finite_stop_training_without_a_wait(monkeypatch, last):
    monkeypatch.setattr(optimizers, "_waits_for", lambda flag: True)
    monkeypatch.setattr(optimizers, "_on_its_way", lambda flag: lambda: bool(flag))
    (weight,) = own = [nn.Parameter(torch.zeros(2))]
    optimizer, other = (torch.optim.SGD(own, lr=0.1) for _ in range(2))
    update(other, [weight], [torch.zeros(2)])  # each optimiser has its own look
    update(optimizer, own, [torch.tensor([0.0, torch.nan])])
    with pytest.raises(FloatingPointError, match="a weight is NaN or infinite"):
        optimizers.settle(optimizer) if last else update(optimizer, own, [torch.zeros(2)])


def passes(layer: nn.Module, shape: tuple[int, ...], *, apart: float, dtype: torch.dtype):
    """Two passes of a layer whose products cancel but for a part of size `apart`."""
    rng = torch.Generator().manual_seed(0)
    if isinstance(layer, nn.Embedding):
        a = torch.randint(layer.num_embeddings, (6, *shape), generator=rng)
        b, d = a, torch.randn(6, *shape, layer.embedding_dim, generator=rng, dtype=dtype)
    else:
        a = torch.randn(6, *shape, generator=rng, dtype=dtype)
        b = a + apart * torch.randn(a.shape, generator=rng, dtype=dtype)
        d = torch.randn(layer(a).shape, generator=rng, dtype=dtype)
    e = -d + apart * torch.randn(d.shape, generator=rng, dtype=dtype)
    return ((a, d), (b, e))


LAYERS = {
    "linear": (nn.Linear(40, 30), (40,)),
    "linear at 3 positions": (nn.Linear(40, 30), (3, 40)),
    "convolution, by Gram matrices": (nn.Conv2d(12, 16, 3), (12, 4, 4)),
    "convolution in groups": (nn.Conv2d(24, 16, 3, groups=2), (24, 3, 3)),
    "convolution, by products": (nn.Conv2d(1, 3, 3), (1, 8, 8)),
    "transposed convolution": (nn.ConvTranspose2d(16, 12, 3), (16, 2, 2)),
    "embedding": (nn.Embedding(7, 20), (5,)),
}


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-4, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.usefixtures("gpu")
def test_norms_without_a_look_at_values(name, dtype, apart):
    """Never below the norm, also where passes cancel; float32's as near as with a look."""
    layer, shape = LAYERS[name]
    layer, wide = copy.deepcopy(layer).to(dtype), copy.deepcopy(layer).double()
    kind, given = KINDS[type(layer)], passes(layer, shape, apart=apart, dtype=dtype)
    exact = [(a.double() if a.is_floating_point() else a, d.double()) for a, d in given]
    true, first, second = (
        kind.each(wide, some).flatten(1).norm(dim=1) for some in (exact, exact[:1], exact[1:])
    )
    with Operations() as operations:
        norms = kind.norms(layer, given).double()
    assert not operations.waits
    assert (norms >= true * (1 - 1e-6)).all()
    far = 1e-4 if dtype == torch.float32 else 20.0  # float64's bound may be that much too large
    assert (norms <= true + far * (first + second)).all()


@pytest.mark.usefixtures("gpu")
def test_a_gpu_takes_more_examples_at_a_time():
    layer = nn.Conv2d(16, 32, 3)
    a = torch.rand(500, 16, 8, 8)
    gradients = Gradients((LayerPasses(layer, ((a, torch.rand(500, 32, 6, 6)),)),))
    with Operations() as wide:
        norms = gradients.norms()
    with pytest.MonkeyPatch.context() as patch, Operations() as narrow:
        patch.setattr(layers, "waits_for", lambda x: False)
        assert torch.allclose(norms, gradients.norms(), rtol=1e-5)
    assert 5 * wide.count < narrow.count


@pytest.mark.parametrize("name", LAYERS)
def test_norms_and_sums_on_a_device_that_has_no_values(name):
    """On torch's meta device a look at a value is an error, and so is a tensor of the CPU."""
    layer, shape = LAYERS[name]
    given = passes(layer, shape, apart=1.0, dtype=torch.float32)
    there = tuple((a.to("meta"), d.to("meta")) for a, d in given)
    layer = copy.deepcopy(layer).to("meta")
    gradients = Gradients((LayerPasses(layer, there),))
    weights = FlatClipping(1.0).weights(gradients.norms())
    sums = gradients.weighted_sum(weights)
    assert [total.shape for total in sums] == [p.shape for p in layer.parameters()]
    assert all(total.is_meta for total in sums)

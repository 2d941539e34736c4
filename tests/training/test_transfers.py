"""Norms, sums and looks that a GPU is not waited for, on one that is not there (`claims_cuda`)."""

import copy
import math

import pytest
import torch
from claims_cuda import CUDA, gpu
from torch import nn

from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping
from dpkit.training import generator_on, noised_each, optimizers, update
from dpkit.training.gradients import Gradients, LayerPasses, layers
from dpkit.training.gradients.layers import KINDS


@pytest.mark.parametrize("last", [False, True])
def test_weights_that_are_not_finite_stop_training_without_a_wait(last):
    with gpu() as there:
        (weight,) = own = [nn.Parameter(torch.zeros(2, device=CUDA))]
        optimizer, other = (torch.optim.SGD(own, lr=0.1) for _ in range(2))
        nothing = [torch.zeros(2, device=CUDA)]
        update(other, [weight], nothing)  # each optimiser has its own look
        update(optimizer, own, [torch.log(nothing[0] - 1)])
        with pytest.raises(FloatingPointError, match="a weight is NaN or infinite"):
            optimizers.settle(optimizer) if last else update(optimizer, own, nothing)
        assert not there.waits


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_deviation_or_bound_that_is_wrong_leaves_no_sum_without_noise(bad):
    """Nobody looks at it on a GPU: its sum is not finite, which `update` refuses."""
    values = torch.tensor([1.0, bad, 0.0])
    with gpu() as there:
        sums, rng = [torch.ones(3, device=CUDA)], generator_on(CUDA, reproducible_seed=0)
        rule = PerCoordinateClipping((values.to(CUDA),))
        there.waits.clear()
        (noisy,) = noised_each(sums, noise_stds=[*rule.bounds], rng=rng)
        (none,) = noised_each(sums, noise_stds=rule.noise_stds(1.0), rng=rng)
        assert not there.waits
        assert not none.isfinite().any()
        assert noisy.isfinite().tolist() == [True, bad < 0, True]
        assert noisy[1] != 1  # a negative deviation is as large as its size
        with pytest.raises(ValueError, match=r"bounds\[0\] must hold finite numbers"):
            rule.sensitivity("add-remove")


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
@pytest.mark.parametrize("capability", [(9, 0), (7, 5)], ids=["fast in float64", "slow"])
def test_norms_and_sums_without_a_look_at_values(capability, name, dtype, apart, monkeypatch):
    """Never below the norm, also where passes cancel; float32's as near as with a look."""
    layer, shape = LAYERS[name]
    layer, wide = copy.deepcopy(layer).to(dtype), copy.deepcopy(layer).double()
    kind, given = KINDS[type(layer)], passes(layer, shape, apart=apart, dtype=dtype)
    exact = [(a.double() if a.is_floating_point() else a, d.double()) for a, d in given]
    true, first, second = (
        kind.each(wide, some).flatten(1).norm(dim=1) for some in (exact, exact[:1], exact[1:])
    )
    with gpu() as there:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
        layer, moved = layer.to(CUDA), tuple((a.to(CUDA), d.to(CUDA)) for a, d in given)
        gradients = Gradients((LayerPasses(layer, moved),))
        there.waits.clear()
        found = kind.norms(layer, moved)
        sums = gradients.weighted_sum(FlatClipping(1.0).weights(gradients.norms()))
        assert not there.waits
        assert not there.faults
        norms = found.cpu().double()
        assert [total.shape for total in sums] == [p.shape for p in layer.parameters()]
        assert all(total.device == CUDA for total in sums)
    assert (norms >= true * (1 - 1e-6)).all()
    far = 1e-4 if dtype == torch.float32 else 20.0  # float64's bound may be that much too large
    assert (norms <= true + far * (first + second)).all()


def test_a_gpu_takes_more_examples_at_a_time(monkeypatch):
    layer, rng = nn.Conv2d(16, 32, 3), torch.Generator().manual_seed(0)
    a, d = (torch.rand(500, *shape, generator=rng) for shape in ((16, 8, 8), (32, 6, 6)))
    with gpu() as there:
        gradients = Gradients((LayerPasses(layer.to(CUDA), ((a.to(CUDA), d.to(CUDA)),)),))
        there.count = 0
        wide, counted = gradients.norms().cpu(), there.count
        monkeypatch.setattr(layers, "waits_for", lambda x: False)
        there.count = 0
        assert torch.allclose(wide, gradients.norms().cpu(), rtol=1e-5)
        assert 5 * counted < there.count

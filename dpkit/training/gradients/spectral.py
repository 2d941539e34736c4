"""Spectral normalisation (Miyato et al. 2018) by one power iteration a step.

In training mode torch iterates in each pass, so that norms and sums would be of different weights.
The iteration reads weights alone, no example. So it is done before the pass, once for each value
of the weight, and not within it: neither parts of a batch nor several losses iterate further.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

_versions: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()


def iterate(network: nn.Module) -> None:
    """One power iteration in each normalised layer that trains, if its weight has changed."""
    for keeper, layer, name, weight in list(_normalised(network)):
        if not keeper.training or _versions.get(keeper) == weight._version:
            continue
        _versions[keeper] = weight._version
        with torch.no_grad():
            if hook := _hook(keeper):
                hook.compute_weight(layer, do_power_iteration=True)
            else:
                getattr(layer, name)  # torch computes it, and iterates, on reading


@contextmanager
def still(network: nn.Module) -> Iterator[None]:
    """No power iteration within: the weights are what the last one made of them."""
    training = [keeper for keeper, *_ in _normalised(network) if keeper.training]
    for keeper in training:
        keeper.training = False
    try:
        yield
    finally:
        for keeper in training:
            keeper.training = True


def _normalised(network: nn.Module) -> Iterator[tuple[nn.Module, nn.Module, str, Tensor]]:
    """Who iterates in training mode, the layer, and its weight's name and value."""
    for layer in network.modules():
        if hook := _hook(layer):
            yield layer, layer, hook.name, getattr(layer, f"{hook.name}_orig")
        for name, ways in getattr(layer, "parametrizations", {}).items():
            for way in ways:
                if isinstance(way, _SpectralNorm):
                    yield way, layer, name, ways.original


def _hook(layer: nn.Module) -> SpectralNorm | None:
    """The older form of spectral normalisation."""
    hooks = layer._forward_pre_hooks.values()
    return next((hook for hook in hooks if isinstance(hook, SpectralNorm)), None)

"""What a layer's per-example gradient is made of, without forming it.

A layer's weight gradient for one example is a sum of products of what the weight multiplies (its
features) and of the loss's gradient at its output. `KINDS` says, for each type of layer, how to
take norms and weighted sums of such products; `check` refuses what it does not list.
"""

from torch import nn

from dpkit.training.gradients.layers.convolutions import Conv2d, ConvTranspose2d
from dpkit.training.gradients.layers.others import Affine, Embedding
from dpkit.training.gradients.layers.products import Kind, Linear

__all__ = ["KINDS", "HalfPrecision", "MixesExamples", "UnsupportedLayer", "check", "refuse_mixing"]
KINDS: dict[type[nn.Module], Kind] = {
    nn.Linear: Linear(),
    nn.Conv2d: Conv2d(),
    nn.ConvTranspose2d: ConvTranspose2d(),
    nn.Embedding: Embedding(),
    **dict.fromkeys((nn.LayerNorm, nn.GroupNorm), Affine()),
    **dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), Affine()),
}


class UnsupportedLayer(TypeError):
    """A layer whose per-example gradients are not known as products, or are not defined."""


class HalfPrecision(TypeError):
    """Parameters in which a clipped sum would not keep to its bound."""


class MixesExamples(UnsupportedLayer):
    """A layer in which one example's output depends on the others of its batch."""


def check(network: nn.Module) -> None:
    """Refuse networks whose per-example gradients are not known as products.

    Raises:
        MixesExamples: batch normalisation, or running statistics, where one record's gradient is
            not defined.
        UnsupportedLayer: another layer with parameters, or parameters that two layers share.
    """
    refuse_mixing(network)
    owners: set[int] = set()
    for module in network.modules():
        if not (own := dict(module.named_parameters(recurse=False))):
            continue
        kind = KINDS.get(type(module))
        if kind is None or not own.keys() <= {"weight", "bias"}:
            raise UnsupportedLayer(f"per-example gradients of {module} are not known as products")
        if reason := kind.refused(module):
            raise UnsupportedLayer(f"{module} has no per-example gradients here: {reason}")
        if not all(parameter.requires_grad for parameter in own.values()):
            raise UnsupportedLayer(f"{module} has parameters that are frozen")
        places = {id(parameter) for parameter in own.values()}
        if places & owners:
            raise UnsupportedLayer(f"{module} shares a parameter with another layer")
        owners |= places


def refuse_mixing(network: nn.Module) -> None:
    """Refuse layers that mix the examples of a batch."""
    for module in network.modules():
        held = getattr(module, "running_mean", None) is not None  # what eval() would normalise by
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or not held):
            raise MixesExamples(
                f"{module} mixes the examples of a batch, so that one record's gradient is not "
                "defined; use layer, group or instance normalisation, or none, or keep it in "
                "eval() with running statistics of public data"
            )
        if module.training and getattr(module, "track_running_stats", False):
            raise MixesExamples(
                f"{module} keeps running statistics of private examples, without noise; "
                "set track_running_stats to False"
            )


def __dir__() -> list[str]:
    return __all__

"""Networks that several papers share, and losses of one example each from their logits."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus


class Conditional(nn.Module):
    """A network fed with its input and a label, joined: the CGAN of Mirza and Osindero 2014.

    Args:
        body: takes inputs with `classes` more features.
        classes: number of labels.
        label_scale: what stands for 1 in the one-hot label. Beside hundreds of pixels a label of 1
            is a small part of an example's gradient, which noise on a clipped sum drowns.
    """

    piecewise_linear = True  # beside its body: what a gradient penalty wants to know

    def __init__(self, body: nn.Module, *, classes: int, label_scale: float = 1.0) -> None:
        super().__init__()
        self.body = body
        self.classes = classes
        self.label_scale = label_scale

    def extra_repr(self) -> str:
        """The numbers that no parameter holds: a checkpoint compares networks by their repr."""
        return f"classes={self.classes}, label_scale={self.label_scale}"

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Args: inputs (batch, features), labels (batch,) int64."""
        # not functional.one_hot, which looks at the labels' values and so fails under vmap
        classes = torch.arange(self.classes, device=labels.device)
        one_hot = (labels.unsqueeze(1) == classes).to(inputs)
        return self.body(torch.cat((inputs, self.label_scale * one_hot), 1))


def mlp(
    widths: Sequence[int], *, last: nn.Module | None, rng: torch.Generator
) -> nn.Sequential:
    """Linear layers with ReLU between; weights N(0, 2 / fan_in), biases 0.

    Args:
        widths: input, hidden and output features.
        last: what follows the last layer, or None.
        rng: CPU generator of the initial weights.
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        linear = nn.Linear(fan_in, fan_out)
        with torch.no_grad():
            linear.weight.normal_(std=(2 / fan_in) ** 0.5, generator=rng)
            linear.bias.zero_()
        layers += [linear, nn.ReLU()]
    layers.pop()
    return nn.Sequential(*layers, *([last] if last is not None else []))


def called_real(logits: Tensor) -> Tensor:
    """Cross-entropy of the answer "real", shape (batch,): -log sigmoid(logit)."""
    return softplus(-logits).squeeze(-1)


def called_fake(logits: Tensor) -> Tensor:
    """Cross-entropy of the answer "fake", shape (batch,): -log(1 - sigmoid(logit))."""
    return softplus(logits).squeeze(-1)

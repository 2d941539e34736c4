"""Algorithm 1 of the paper and its rivals, as one step: clip, add noise of some shape, go along."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.papers.adadp import noise_shapes as shapes
from dpkit.papers.adadp.settings import AdadpSettings, Published, Repaired
from dpkit.training import clipped_sum, mlp, noised_each, per_example, set_rate, update
from dpkit.training.types import Recorded

# Examples at a time: no Poisson lot is too large for the memory
MICROBATCH_SIZE = 4096
SHAPES: Any = {
    "Flat": shapes.NoiseShape,
    "Published": shapes.RawHistory,
    "Repaired": shapes.ReleasedHistory,
    "Optimised": shapes.OptimisedNoise,
}


class AdadpLosses(nn.Module):
    """A classifier's cross-entropy of each row; labels are inputs, which keeps rows apart."""

    net: nn.Module

    def __init__(self, net: nn.Module, settings: Any = None) -> None:
        super().__init__()
        # Those that the model was made for
        self.net, self.settings = net, settings

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Args: features (batch, ...), labels (batch,) int64. Returns (batch,)."""
        return nn.functional.cross_entropy(self.net(features), labels, reduction="none")


class AdadpClassifier(NamedTuple):
    """A classifier, the shape of its noise, and its optimiser."""

    net: AdadpLosses
    shape: shapes.NoiseShape
    optimizer: torch.optim.Optimizer


class Numbers(NamedTuple):
    """The numbers of a classifier's record."""

    step: int
    batch_size: int
    loss: float
    clipped: float


class AdadpRecord(Recorded):
    """A step's measurements: the lot's mean loss and clipped share."""

    _form = Numbers

    loss: float  # mean cross-entropy of the lot, before the step
    clipped: float  # share of the lot whose gradient was clipped


def new_classifier(
    settings: AdadpSettings, *, seed: int, device: torch.device
) -> AdadpClassifier:
    """A network of the settings' widths (section IV-A), with the noise and optimiser they name."""
    rng = torch.Generator().manual_seed(seed)
    net = mlp(settings.widths, last=None, rng=rng).to(device)
    return with_noise(AdadpLosses(net, settings), settings)


def with_noise(losses: AdadpLosses, settings: AdadpSettings) -> AdadpClassifier:
    """The network of these losses, with the noise and the optimiser that the settings name."""
    noise, parameters = settings.noise, list(losses.parameters())
    checks.one_of((*SHAPES,), noise=type(noise).__name__)
    own, shape = dict(vars(noise)), SHAPES[type(noise).__name__]
    if isinstance(noise, Published):
        own |= {"of": own.pop("history"), "scale": noise.more_noise(settings.lot)}
        del own["noise_on"]
    elif isinstance(noise, Repaired):
        own["lot"] = settings.lot
    made = shape(parameters, noise_multiplier=settings.noise_multiplier, **own)
    return AdadpClassifier(losses, made, settings.optimizer.build(parameters))


def step(
    model: AdadpClassifier,
    features: Tensor,
    labels: Tensor,
    *,
    settings: AdadpSettings,
    index: int,
    rng: torch.Generator,
) -> AdadpRecord:
    """One iteration of Algorithm 1: gradients clipped, summed, noised, averaged, and gone along.

    The lot, features (batch, features) and labels, may be empty; rng draws the noise.

    Raises:
        ValueError: the model was made for other settings.
    """
    check_made_for(settings, model.net.settings)
    shaped = model.shape.now()  # lines 7, 9, 12
    of = partial(per_example, model.net, itself)  # lines 4, 5
    # Line 10, or 16
    clipped = clipped_sum(
        of, features, labels, rule=shaped.rule, microbatch_size=MICROBATCH_SIZE
    )
    # Line 13, or 18; line 23 reads the raw gradients
    noisy = noised_each(clipped.sums, noise_stds=shaped.noise_stds, rng=rng)
    model.shape.see(noisy, partial(raw_squares, model.net, (features, labels), settings.lot))
    set_rate(model.optimizer, settings.optimizer.rate(index))
    means = [n / settings.lot for n in noisy]
    update(model.optimizer, clipped.parameters, means)  # lines 22, 25, 26
    kept = (clipped.weights < 1).double().mean().nan_to_num()
    losses = clipped.losses
    return AdadpRecord(index, len(features), losses.sum().double() / max(len(losses), 1), kept)


def check_made_for(settings: Any, own: Any) -> None:
    """Refuse a model made for other settings: they price another noise."""
    if own != settings:
        raise ValueError(f"settings must be the model's own, {own}; got {settings}")


def itself(losses: Tensor) -> Tensor:
    """The loss itself."""
    return losses


def raw_squares(
    losses: nn.Module, rows: Sequence[Tensor], lot: int, of: shapes.Squared
) -> list[Tensor]:
    """(g_t)^2 of line 23, of gradients without clipping or noise: no guarantee covers it."""
    checks.one_of(("mean", "sum", "example"), of=of)
    parameters = [p for p in losses.parameters() if p.requires_grad]
    if of == "example":
        gradients, _ = per_example(losses, itself, *rows)
        squares = [torch.zeros_like(p) for p in parameters]
        for full in gradients.each():
            for total, one in zip(squares, full, strict=True):
                total += one.square().sum(0) / lot
        return squares
    total = losses(*rows).sum() / (lot if of == "mean" else 1)
    found = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    return [g.square() for g in found]


def accuracy(net: nn.Module, features: Tensor, labels: Tensor) -> float:
    """Share of records that the network classifies correctly, in [0, 1]."""
    with torch.no_grad():
        named = [net(part).argmax(1) for part in features.split(MICROBATCH_SIZE)]
    return (torch.cat(named) == labels).double().mean().item()

"""AGD (Lee and Kifer 2018): a noisy gradient, a noisy choice of the step along it, falling noise.

Its gradient may be no direction of descent. Then 0 is the best step, the noise of all later steps
falls, and gradients at the same weights are averaged (their section 4). The kit's form for lots:

- One lot a step, one release of its gradient, one of the candidates. Where 0 wins, the next lot's
  gradient is averaged with this one's, by the inverse of their variances; the paper draws on the
  same records again, until some candidate wins.
- The candidates' noisy minimum is that of a vector with Gaussian noise, and argmin takes it from
  there; the paper adds other noise to find the least alone. See `AgdSettings` for the price.
- Rates are those of plain gradient descent; the paper takes unit gradients and adapts its rates.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dpkit.papers.adadp.algorithm import (
    MICROBATCH_SIZE,
    AdadpLosses,
    AdadpRecord,
    check_made_for,
    itself,
)
from dpkit.papers.adadp.settings import AgdSettings
from dpkit.privacy import RenyiFilter
from dpkit.privacy.clipping import FlatClipping
from dpkit.training import clipped_sum, mlp, noised, per_example, set_rate, update


class AgdMemory(nn.Module):
    """AGD's state, all of it released, in buffers, which a checkpoint keeps; counts on the CPU.

    Args:
        net: the network that is trained.
        settings: of the run.
    """

    falls: Tensor  # () int64: how often the noise fell
    # () float64: sum of 1 / z_g^2 of the gradients in the mean
    precision: Tensor
    used: Tensor  # (levels,) int64: steps charged at each noise

    def __init__(self, net: nn.Module, settings: AgdSettings) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("falls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("precision", torch.zeros((), dtype=torch.float64))
        self.register_buffer("used", torch.zeros(settings.levels, dtype=torch.int64))
        for i, p in enumerate(p for p in net.parameters() if p.requires_grad):
            self.register_buffer(f"mean_{i}", torch.zeros_like(p).detach())

    def means(self) -> list[Tensor]:
        """The mean of the noisy gradients at the present weights, in place."""
        return [one for name, one in self.named_buffers() if name.startswith("mean_")]

    def spent(self) -> RenyiFilter:
        """The run's filter, all steps so far charged."""
        budget = self.settings.budget(public_size=self.settings.public_size)
        for level, count in enumerate(self.used.tolist()):
            if count:
                budget.charge(self.settings.release(level), count)
        return budget

    def charged(self) -> float | None:
        """The next step's z_g, once the step is charged; None, and nothing charged, if too much."""
        level, settings = int(self.falls), self.settings
        if not self.spent().allows(settings.release(level)):
            return None
        self.used[level] += 1
        return settings.gradient_noise(level)

    def averaged(self, noisy: list[Tensor], noise: float) -> list[Tensor]:
        """The mean with one more gradient, weighted by the inverse of its noise's variance."""
        self.precision += noise**-2
        share = noise**-2 / float(self.precision)
        return [mean.lerp_(one, share) for mean, one in zip(self.means(), noisy, strict=True)]

    def see(self, rate: float) -> None:
        """After a step: forget the gradients of old weights, or let the noise fall."""
        if rate:
            self.precision.zero_()
        else:
            self.falls += int(self.falls) < self.settings.levels - 1


class Descent(NamedTuple):
    """A network that gives each row's loss, AGD's state, and plain gradient descent."""

    net: nn.Module  # `Losses` of one
    memory: AgdMemory
    optimizer: torch.optim.Optimizer


def new_descent(settings: AgdSettings, *, seed: int, device: torch.device) -> Descent:
    """A classifier of the settings' widths (section IV-A)."""
    rng = torch.Generator().manual_seed(seed)
    losses = AdadpLosses(mlp(settings.widths, last=None, rng=rng)).to(device)
    optimizer = torch.optim.SGD(losses.parameters(), lr=0.0)
    return Descent(losses, AgdMemory(losses, settings), optimizer)


def step(
    model: Descent,
    features: Tensor,
    labels: Tensor,
    *,
    settings: AgdSettings,
    index: int,
    rng: torch.Generator,
) -> AdadpRecord:
    """Take one step of AGD; with the budget spent, release nothing and only record the loss.

    Arguments as `algorithm.step`, settings as the memory's.

    Raises:
        ValueError: the model was made for other settings.
    """
    check_made_for(settings, model.memory.settings)
    noise = model.memory.charged()
    if noise is None:
        with torch.no_grad():
            losses = model.net(features, labels)
        return AdadpRecord(index, len(features), losses.double().mean().nan_to_num(), 0.0)
    rule, of = FlatClipping(settings.max_grad_norm), partial(per_example, model.net, itself)
    clipped = clipped_sum(of, features, labels, rule=rule, microbatch_size=MICROBATCH_SIZE)
    noisy = noised(clipped.sums, noise_std=noise * settings.max_grad_norm, rng=rng)
    mean = model.memory.averaged([n / settings.lot for n in noisy], noise)
    changes = changes_of_loss(model.net, mean, features, labels, settings=settings)
    std = settings.choice_noise * settings.max_change
    (noisy_changes,) = noised([changes], noise_std=std, rng=rng)
    least, best = min(zip(noisy_changes.tolist(), settings.rates, strict=True))
    rate = best if least < 0 else 0.0
    set_rate(model.optimizer, rate)
    update(model.optimizer, clipped.parameters, mean)
    model.memory.see(rate)
    kept = (clipped.weights < 1).double().mean().nan_to_num()
    return AdadpRecord(index, len(features), clipped.losses.double().mean().nan_to_num(), kept)


@torch.no_grad()
def changes_of_loss(
    net: nn.Module,
    gradient: list[Tensor],
    features: Tensor,
    labels: Tensor,
    *,
    settings: AgdSettings,
) -> Tensor:
    """The change of the lot's loss by a step of each rate: sums of clipped changes, (rates,).

    A loss that is not a number counts as one that rose.
    """
    most = settings.max_change
    totals = gradient[0].new_zeros(len(settings.rates))
    own = {name: p for name, p in net.named_parameters() if p.requires_grad}
    for rows in zip(
        features.split(MICROBATCH_SIZE), labels.split(MICROBATCH_SIZE), strict=True
    ):
        now = net(*rows)
        for i, rate in enumerate(settings.rates):
            pairs = zip(own.items(), gradient, strict=True)
            moved = {name: p - rate * g for (name, p), g in pairs}
            change = torch.func.functional_call(net, moved, rows) - now
            totals[i] += change.nan_to_num(nan=most).clamp(-most, most).sum()
    return totals

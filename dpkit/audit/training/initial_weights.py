"""Worst-case initial weights: the released model alone, by DP-SGD, tells of one record.

DP-SGD's guarantee holds whatever the initial weights are. So the attacker chooses some at which
all other records are learned already, so that their gradients are next to 0, and the target's
gradient is longer than C, in one direction, through all steps: what training then adds to the
target's margin is that record's part and noise (Annamalai, De Cristofaro, NeurIPS 2024, section 4).
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpkit.audit.scores import Scores, check_rng
from dpkit.audit.training.canaries import dp_sgd, mixed, seed
from dpkit.common import checks
from dpkit.datasets import Images
from dpkit.private.plan import Plan
from dpkit.training import generator_on, seeded

LEARNING_RATE = 4.0  # of SGD along means, as in the paper's code
SHARPER = 20.0  # times the learned weights: softmax is then 0 or 1 but for a few records
STEPS, RATE = 300, 0.5  # of training on public records


class Case(NamedTuple):
    """The attacker's choices: everything but the noise, and whether the target is present.

    others: features (records, pixels) and labels (records,), which the attacker knows.
    target: features (1, pixels) and a label (1,).
    weights: initial ones, public.
    """

    others: tuple[Tensor, Tensor]
    target: tuple[Tensor, Tensor]
    weights: dict[str, Tensor]


def blank_target(
    rng: np.random.Generator, *, records: int = 1000, images: Images | None = None
) -> Case:
    """Logistic regression on `records` images; the target is a blank one.

    The initial weights are learned on the remaining images, which are public, and made sharper. The
    target's label is the one that they find least likely of a blank image.

    Args:
        rng: splits the images, and draws weights to learn from.
        records: number of the others.
        images: by default all digits, 1,797.

    Raises:
        ValueError: there are no images left to learn from.
    """
    records = checks.whole(1, records=records)
    features, labels = mixed(rng, images, records=records)
    model = _learned(features[records:], labels[records:], start=seed(rng))
    unlikely = model.bias.detach().argmin()[None]  # a blank image's logits are the biases
    return Case(
        (features[:records], labels[:records]),
        (torch.zeros(1, features.shape[1]), unlikely),
        {name: tensor.clone() for name, tensor in model.state_dict().items()},
    )


def final_losses(rng: np.random.Generator, trials: int, *, case: Case, plan: Plan) -> Scores:
    """Minus the target's loss under the final model, in runs without it and with it.

    Each run is DP-SGD by the release of `dpkit.Private`, from the same initial weights.

    Args:
        rng: draws batches and noise.
        trials: runs in each world.
        case: records, target and initial weights.
        plan: steps, sampling, clipping and noise, of the others' public number.

    Raises:
        ValueError: trials is not an integer >= 1.
    """
    check_rng(rng)
    trials = checks.whole(1, trials=trials)
    worlds = (case.others, tuple(map(torch.cat, zip(case.others, case.target, strict=True))))
    losses = _Losses(nn.Linear(case.others[0].shape[1], len(case.weights["bias"])))
    start = {f"model.{name}": tensor for name, tensor in case.weights.items()}
    noise = generator_on(torch.device("cpu"), reproducible_seed=seed(rng))

    def one(rows: tuple[Tensor, ...]) -> float:
        for _ in dp_sgd(
            losses, rows, start=start, plan=plan, learning_rate=LEARNING_RATE, rng=noise
        ):
            pass  # the attacker sees the final model alone
        with torch.no_grad():
            return -float(losses(*case.target))

    return Scores(*(np.array([one(rows) for _ in range(trials)]) for rows in worlds))


class _Losses(nn.Module):
    """Cross entropy of each row."""

    def __init__(self, model: nn.Linear) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(self.model(features), labels, reduction="none")


def _learned(features: Tensor, labels: Tensor, *, start: int) -> nn.Linear:
    """Logistic regression on public records, without noise, sharper in the end."""
    with seeded(start):
        model = nn.Linear(features.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        cross_entropy(model(features), labels).backward()
        optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= SHARPER
    return model

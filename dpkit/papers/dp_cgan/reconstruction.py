"""Which labels a private batch had, read off an update of a conditional generator.

A generator that is fed one-hot labels has a column of first-layer weights for each. A label that
no example of its update has leaves its column's gradient at exactly 0; any other moves it. So where
a generator is updated on the labels of the private batch, whoever sees it before and after knows
which labels the batch had, however much noise the critic got.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpkit.audit.scores import check_rng
from dpkit.audit.training import white_box
from dpkit.common import checks


class Reconstructed(NamedTuple):
    """How many of the answers to "does the batch have this label?" were right.

    share: right ones among all, over batches and labels.
    chance: the share that always answering each label's more frequent answer gets.
    answers: number of them.
    """

    share: float
    chance: float
    answers: int


def labels_seen(before: Tensor, after: Tensor, *, columns: Sequence[int]) -> NDArray[np.bool_]:
    """Which labels an update used: those whose columns have moved.

    Exact for any plain SGD step and for Adam's first; later steps of Adam also move, by momentum,
    the columns of labels of earlier batches.

    Args:
        before, after: the generator's first-layer weights around its update, (units, inputs).
        columns: of the inputs that hold the one-hot label, label by label.

    Returns:
        (labels,) bool.

    Raises:
        ValueError: the weights are not two matrices of one shape, or have no such columns.
    """
    if before.ndim != 2 or before.shape != after.shape:
        raise ValueError(
            "before and after must be first-layer weights (units, inputs) of one shape, got "
            f"{tuple(before.shape)} and {tuple(after.shape)}"
        )
    wanted = [checks.whole(0, columns=column) for column in columns]
    if not all(column < before.shape[1] for column in wanted):
        raise ValueError(f"columns must be below {before.shape[1]} inputs, got {wanted}")
    return (before != after).any(0)[wanted].cpu().numpy()


def of_step(
    step: Callable[..., Any],
    new_gan: Callable[[], Any],
    features: Tensor,
    labels: Tensor,
    *,
    settings: Any,
    weights: str,
    columns: Sequence[int],
    batch: int,
    batches: int,
    rng: np.random.Generator,
) -> Reconstructed:
    """Answer, for many batches, which labels each has, from the generator before and after a step.

    Args:
        step, new_gan, settings: as `white_box.once` takes them.
        features, labels: records to draw batches from, (records, ...) and (records,).
        weights: name of the generator's first-layer weights in a `Run`, such as
            "generator_net.body.0.weight".
        columns: as `labels_seen`.
        batch: records a batch; few, so that not every batch has every label.
        batches: that are drawn, >= 1.
        rng: draws the batches and what the steps draw.

    Raises:
        ValueError: a number is out of range, or the networks have no such weights.
    """
    check_rng(rng)
    batch, batches = checks.whole(1, batch=batch, batches=batches)
    guesses, truth = [], []
    for _ in range(batches):
        chosen = rng.choice(len(labels), size=batch, replace=False)
        rows = white_box.Batch(features[chosen], labels[chosen])
        seed = int(rng.integers(1, 2**31))
        run = white_box.once(step, new_gan, rows, settings=settings, seed=seed)
        if weights not in run.before:
            raise ValueError(f"weights must be one of {', '.join(run.before)}, got {weights!r}")
        guesses.append(labels_seen(run.before[weights], run.after[weights], columns=columns))
        truth.append(np.isin(np.arange(len(columns)), rows.labels.cpu().numpy()))
    return _compared(np.array(guesses), np.array(truth))


def _compared(guesses: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Reconstructed:
    """Of two tables (batches, labels)."""
    often = truth.mean(0)
    chance = float(np.maximum(often, 1 - often).mean())
    return Reconstructed(float((guesses == truth).mean()), chance, truth.size)

"""The batches of a run: drawn as privacy/sampling.py describes, with the data's rows.

What data `train` refuses is said here, too.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpkit.common import checks
from dpkit.privacy import sampling as ways
from dpkit.training.device import draws_put_back
from dpkit.training.gradients.independence import (
    Extent,
    Watched,
    extents,
    moved_by,
    now_and_then,
    set_up,
)
from dpkit.training.types import Data

AT_ONCE = 2**24  # numbers of the data looked at together before training
PUBLIC = (
    "let it read those rows alone (and copies of public ones), and standardise by public numbers "
    "(dpkit.private.Standardised) or by what the budget covers (NoisyStandardised)"
)
PERMUTED = (ways.ShuffledBatches, ways.FixedSizeBatches)
OF_PUBLIC_SIZE = (ways.TruncatedPoisson, ways.WithReplacement, *PERMUTED)
_TAKEN = (torch.float32, torch.float64, torch.int32, torch.int64)  # by networks as they are


class Rows:
    """The rows of each batch, on rng's device, as a step is given them.

    The transform may not read the data's memory itself, nor what else lies at places in `memory`.

    Raises:
        TypeError: data are of another type, or features or labels are not arrays.
        ValueError: features and labels differ in length, lie neither on the CPU nor on rng's
            device, or are of types that networks do not take (and have no transform).
    """

    def __init__(
        self, data: Any, *, rng: torch.Generator, memory: Sequence[Extent] = ()
    ) -> None:
        if not isinstance(data, Data):
            raise TypeError(
                f"data must be a dpkit.training.Data, got {type(data).__name__}: batches are drawn "
                "by the settings' sampling, on which the privacy rests, not by a loader; give "
                "Data(features, labels, public_size) of all records (arrays on disk may be "
                "memory-mapped)"
            )
        arrays = {"features": data.features, "labels": data.labels}
        for name, values in arrays.items():
            try:
                arrays[name] = values if isinstance(values, Tensor) else over(values)
            except (TypeError, ValueError) as error:
                own = isinstance(values, np.ndarray)
                of = f"an array of {values.dtype}" if own else type(values)
                raise TypeError(
                    f"data.{name} must be a tensor or a numpy array of numbers, got {of} ({error})"
                ) from error
        self.data = data._replace(**arrays)
        self._device = rng.device
        self._memory = [*memory, *extents(self.data.features, self.data.labels)]
        self._calls = 0  # of the transform, with an example and others
        _check_alike(self.data, rng.device)
        if data.transform is not None:
            features = self.data.features
            set_up(
                data.transform, features.new_empty((4, *features.shape[1:]), device=rng.device)
            )

    def check_finite(self) -> None:
        """Refuse records that are NaN or infinite as steps would be given them.

        All are read once, a part at a time. ValueError names the first such row, which is no
        release: do not publish it.
        """
        plain = self.data.transform is None

        def given(part: Tensor) -> Tensor:
            # a transform may work in place
            return self._transformed(self._moved(part.clone()))

        with draws_put_back(self._device):
            row = not_finite(self.data.features, given=None if plain else given)
        if row is not None:
            raise ValueError(
                f"data.features has a record that is NaN or infinite (row {row}, counted from 0"
                f"{'' if plain else ', after transform'}), from which no "
                "gradient follows; fill such values with a fixed one, or leave the record out "
                f"(nothing was drawn); {checks.TO_YOURSELF}"
            )

    def at(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Features, transformed, and labels of the records with these indices."""
        features, labels = self.data.features, self.data.labels
        # one transfer, if any
        at = {x.device: chosen.to(x.device) for x in (features, labels)}
        drawn, own = (self._moved(x[at[x.device]]) for x in (features, labels))
        return self._transformed(drawn), own

    def _moved(self, rows: Tensor) -> Tensor:
        if rows.device.type == self._device.type:
            return rows
        return rows.pin_memory().to(self._device, non_blocking=True)

    def _transformed(self, rows: Tensor) -> Tensor:
        if self.data.transform is None:
            return rows
        if not len(rows):  # which not every transform takes
            return self._made(rows.new_zeros((1, *rows.shape[1:])))[:0]
        self._calls += len(rows) > 1
        due = len(rows) > 1 and self._calls & (self._calls - 1) == 0  # at calls 1, 2, 4, 8 ...
        watched = Watched("the transform", self._memory, remedy=PUBLIC)
        with watched if due or now_and_then() else nullcontext():
            if due and moved_by(self._once, (rows,), self._once(rows)) is not None:
                raise ValueError(
                    "transform gives an example another value where other examples are replaced "
                    "or left out, so that one record would move the gradients of others: use fixed "
                    "and public numbers, not a batch's mean or size, and torch's generators alone"
                )
            return self._made(rows)

    def _once(self, rows: Tensor) -> Tensor:
        """The transform of a copy, with the same draws each time."""
        with draws_put_back(self._device):
            return self._made(rows.clone()).clone()  # it may reuse memory of its own

    def _made(self, rows: Tensor) -> Tensor:
        made: Any = rows if self.data.transform is None else self.data.transform(rows)
        if not isinstance(made, Tensor) or made.shape[:1] != rows.shape[:1]:
            raise ValueError(
                f"transform must return a tensor with a row for each of {len(rows)} examples, got "
                f"{tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__}"
            )
        return made


def not_finite(features: Tensor, *, given: Callable[[Tensor], Tensor] | None) -> int | None:
    """The row of the first record that is NaN or infinite, as `given` (None: as it is)."""
    start, looked_at = 0, features.is_floating_point() or given is not None
    rows = max(AT_ONCE // max(features[:1].numel(), 1), 1)
    for part in features.split(rows) if looked_at and len(features) else ():
        finite = (given(part) if given else part).reshape(len(part), -1).isfinite().all(1)
        if not finite.all():
            return start + int(finite.int().argmin())
        start += len(part)
    return None


def over(array: Any) -> Tensor:
    """A tensor over an array's memory, which is not read; nobody writes to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _check_alike(data: Data, device: torch.device) -> None:
    features, labels = data.features, data.labels
    if features.ndim < 1 or labels.ndim < 1 or len(features) != len(labels):
        raise ValueError(
            "data must have a label for each record, got features "
            f"{tuple(features.shape)} and labels {tuple(labels.shape)}; without labels give "
            "torch.zeros(records, dtype=torch.int64)"
        )
    for name, values in (("features", features), ("labels", labels)):
        same = (values.device.type, values.get_device()) == (device.type, device.index or 0)
        if values.device.type != "cpu" and not same:
            raise ValueError(
                f"data.{name} lie on {values.device} and rng on {device}; leave them on the CPU, "
                f"or make rng with generator_on(torch.device({str(values.device)!r}))"
            )
    if labels.dtype != torch.int64:
        raise ValueError(f"data.labels must be int64, got {labels.dtype}; call long() on them")
    if data.transform is None and features.dtype not in _TAKEN:
        raise ValueError(
            f"data.features are {features.dtype}, which networks do not take; give Data a "
            "transform, such as a function of x that returns x.float() / 127.5 - 1"
        )


def batches(
    sampling: ways.Sampling, *, size: int, public_size: int, rng: torch.Generator
) -> Iterator[Tensor]:
    """Indices of one batch after another, without end.

    Args:
        sampling: how batches are drawn.
        size: number of records, which decides what indices exist, nothing else.
        public_size: declared size, from which the sample rate follows.
        rng: generator on the device where the data lies.

    Yields:
        int64 indices, shape (batch,). A Poisson batch may be empty, or far larger than expected
        (`clipped_sum` takes it in parts).

    Raises:
        TypeError: no batches are known for such sampling, or rng is on "mps", which has no float64.
        ValueError: a batch is larger than the data set, or what is drawn asks for a public number
            of records, and there are not public_size.
    """
    kind = type(sampling)
    if kind not in (ways.PoissonSampling, ways.BallsAndBins, *OF_PUBLIC_SIZE):
        raise TypeError(f"sampling has no batches here, got {sampling!r}; use PoissonSampling")
    rate, batch = (
        ways.sample_rate(sampling, public_size=public_size),
        sampling.expected_batch_size,
    )
    if kind is ways.PoissonSampling:
        return _poisson(rate, size, rng)
    if kind is ways.BallsAndBins:
        return _thrown(public_size // batch, size, rng)
    # of another size, records are met more often than is priced
    if size != public_size:
        raise ValueError(
            f"batches by {kind.__name__} are drawn from public_size records, got {public_size} and "
            f"{size} records: their number is public there; declare it, or use PoissonSampling"
        )
    if isinstance(sampling, ways.TruncatedPoisson):
        return _cut(sampling.most, rate, size, rng)
    if kind is ways.WithReplacement:
        return _again(batch, size, rng)
    return _permuted(
        batch, size, rng, last=size - batch if kind is ways.ShuffledBatches else 0
    )


def _uniform(size: int, rng: torch.Generator) -> Tensor:
    # float64: a float32 draw has 2^-24 steps, a visible error in a rate of 1e-4
    return torch.rand(size, generator=rng, device=rng.device, dtype=torch.float64)


def _poisson(rate: float, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    while True:
        # their number decides the shapes of a step: the one that a GPU is waited for
        yield (_uniform(size, rng) < rate).nonzero().squeeze(1)


def _cut(most: int, rate: float, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    for drawn in _poisson(rate, size, rng):
        kept = torch.randperm(len(drawn), generator=rng, device=rng.device)[:most]
        yield drawn[kept] if len(drawn) > most else drawn


def _again(batch: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield (_uniform(batch, rng) * size).long().clamp(max=size - 1)


def _thrown(bins: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Each record in one of a pass's batches, chosen at random."""
    while True:
        own = (_uniform(size, rng) * bins).long().clamp(max=bins - 1)
        yield from own.argsort().split(own.bincount(minlength=bins).tolist())


def _permuted(batch: int, size: int, rng: torch.Generator, *, last: int) -> Iterator[Tensor]:
    """Each permutation's batches that begin at `last` at most: short ones are dropped."""
    while True:
        order = torch.randperm(size, generator=rng, device=rng.device)
        for start in range(0, last + 1, batch):
            yield order[start : start + batch]

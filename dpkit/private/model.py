"""Private training of one network, in your own loop."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.private import saved
from dpkit.private.budget import Budget, check_budget
from dpkit.private.data import (
    Transform,
    checksum,
    data_for,
    extreme_places,
    held_in,
    published,
    settled,
    tensors,
)
from dpkit.private.networks import (
    CHANGED,
    Weights,
    check_network,
    check_no_records,
    check_optimizer,
    guard,
    hold,
    own_step,
    try_step,
)
from dpkit.private.plan import calibrated
from dpkit.private.release import (
    MICROBATCH_SIZE,
    CurrentBatch,
    PerExampleOf,
    RowLoss,
    itself,
    released,
)
from dpkit.private.statement import statement
from dpkit.training import clipped_sum, generator_on, per_example, update
from dpkit.training.batches import PUBLIC, Rows, batches
from dpkit.training.device import check_alone, floats, precision
from dpkit.training.gradients.independence import (
    Watched,
    code_of,
    extents,
    now_and_then,
    undisturbed,
)
from dpkit.training.optimizers import settle


class BudgetSpent(RuntimeError):
    """A step beyond those that the budget was planned for."""


class Private:
    """Train a network under differential privacy (DP-SGD), in your own loop.

        from torch import nn, optim
        from dpkit import Private, datasets

        data, net = datasets.digits(), nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))
        sgd = optim.SGD(net.parameters(), lr=0.5)
        private = Private(net, sgd, data, epsilon=8, delta=1e-5, steps=200, batch_size=256)
        for x, y in private:
            private.step(lambda x, y: nn.CrossEntropyLoss(reduction="none")(net(x), y), x, y)
        print(private.statement())

    Each step is one release: gradients are clipped example by example, summed, noised, and divided
    by `batch_size`; the optimiser steps along that. The noise is the least with which all steps
    together cost at most epsilon, by the certified accountant, under add-remove adjacency.
    `tqdm(private)` shows a bar.

    Only what `step` does to the network is private: what the loop computes of a batch outside of it
    must not be released, nor train another network, nor decide when the loop stops or which
    learning rate it takes. A batch stays on hand until a step has used it, as it was drawn; change
    it by `transform` or within the loss, of which it is checked that they mix no rows and read no
    other records (docs/limits.md says what is not seen).

    Args:
        net: of layers that keep examples apart; on one device.
        optimizer: of torch, over the parameters of `net`. From here on `step` alone steps it.
        data: tensors, arrays, one Dataset, DataLoader or Images (see `dpkit.private.data.tensors`).
        epsilon, delta: the budget, in nats, under add-remove adjacency.
        steps: releases, for which the noise is calibrated.
        batch_size: records a batch on average: each enters each batch by itself. A batch may be
            empty.
        max_grad_norm: L2 norm to which each example's gradient is clipped.
        public_size: declared number of records; by default that of the data, then taken as public,
            as the statement says.
        transform: of the first tensor of each batch, row by row, on the network's device; a
            `Standardised` or `NoisyStandardised`, for example (`private.transform` then has the
            numbers that were released). Where it is None, bytes of three dimensions or more,
            which are images, become floats by x / 127.5 - 1, and other whole numbers int64.
        budget: adds up the runs on these data (see `Budget`). This run is charged to it as a whole
            before its first release, when its loss and optimiser have been tried (on no rows, if
            the first batch is empty: that is a release of noise).
        reproducible_seed: of batches and noise; None takes the system's entropy. A reader who
            knows the seed can remove the noise, as the statement says; after two runs with one
            seed, anybody can.
        microbatch_size: examples at a time, for the memory.

    Raises:
        ValueError: a number is out of range, data hold NaN, or the optimiser is of another network.
        TypeError: data, network or optimiser of a kind that is not trained here.
        OverBudget: the run would exceed the budget.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: torch.optim.Optimizer,
        *data: Any,
        epsilon: float,
        delta: float,
        steps: int,
        batch_size: int,
        max_grad_norm: float = 1.0,
        public_size: int | None = None,
        transform: Transform | None = None,
        budget: Budget | None = None,
        reproducible_seed: int | None = None,
        microbatch_size: int = MICROBATCH_SIZE,
    ) -> None:
        check_budget(budget)
        check_network(net, "net")
        check_optimizer(optimizer, net)
        self._data = tensors(*data)
        self._microbatch_size = checks.whole(1, microbatch_size=microbatch_size)
        self.plan = calibrated(
            epsilon,
            delta=delta,
            steps=steps,
            batch_size=batch_size,
            records=len(self._data[0]),
            public_size=public_size,
            max_grad_norm=max_grad_norm,
            seeded=reproducible_seed is not None,
            scaling_noise=getattr(transform, "scaling_noise", None),
        )
        self.net, self.optimizer, self.steps_done = net, optimizer, 0
        self._parameter = next(p for p in net.parameters() if p.requires_grad)
        check_alone()
        self._rng = generator_on(self._parameter.device, reproducible_seed=reproducible_seed)
        size = self.plan.public_size
        every = torch.arange(len(self._data[0]))  # a batch comes with its records' places
        self.transform = settled(transform, self._data[0], public_size=size, rng=self._rng)
        held = data_for(
            self._data[0],
            every,
            like=self._parameter,
            public_size=size,
            transform=self.transform,
        )
        self._held = held_in(*data)  # kept, or their memory might be reused
        memory = extents(held.features, *self._data, *self._held)
        self._first = Rows(held, rng=self._rng, memory=memory)
        check_no_records(net, self._data)
        self._draws = batches(
            self.plan.sampling,
            size=len(every),
            public_size=self.plan.public_size,
            rng=self._rng,
        )
        self._drawn, self._losses = CurrentBatch(self._data), dict[Any, RowLoss]()
        self._weights, self._memory = Weights(net), memory
        self._tried = set[Any]()  # names of losses
        self._measured: list[tuple[Any, ...]] = []
        guard(optimizer)
        self._budget = budget
        self._run = {"data": checksum(self._data), "seed": reproducible_seed} if budget else {}
        if self._budget is not None:
            self._budget.check(self.plan.ledger(), **self._run)
            if self.plan.scaling_noise is not None:  # `transform` shows its release
                self._budget.reserve(self.plan.ledger(), **self._run)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """Batches, as tuples of tensors on the network's device, until the budget is spent.

        An unused batch comes first, whoever drew it.

        Raises:
            RuntimeError: a pass of the loop made no step, so that the loop would not end.
        """
        while self.steps_done < self.plan.steps:
            done = self.steps_done
            with self._drawn.alone():
                if not self._drawn.unused:
                    self._drawn.next(self._rows(next(self._draws)))
                rows = self._drawn.rows
            yield rows
            if self.steps_done == done:
                raise RuntimeError(
                    "no step was made on the last batch: call private.step(loss, x, y) once in "
                    "each pass of the loop, for an empty batch too; it ends when the budget is "
                    "spent"
                )

    def __len__(self) -> int:
        """Steps that are left, for tqdm."""
        return self.plan.steps - self.steps_done

    def _rows(self, chosen: Tensor) -> tuple[Tensor, ...]:
        first, places = self._first.at(chosen)
        moved = [
            part[places.to(part.device)].to(self._parameter.device) for part in self._data[1:]
        ]
        typed = [x.to(self._parameter.dtype) if x.is_floating_point() else x for x in moved]
        return tuple(row.contiguous() for row in (first, *typed))

    @torch.enable_grad()
    def step(self, loss: Callable[..., Tensor], *rows: Tensor) -> None:
        """One release: a step of the optimiser along the noised mean of clipped gradients.

        It is charged before it runs.

        Args:
            loss: loss(*rows) -> (batch,), a number for each row, computed by `net`.
            rows: tensors of the batch just drawn, or views of their rows, such as x.flatten(1).

        Raises:
            BudgetSpent: all planned steps were made.
            RuntimeError: the batch was already used.
            TypeError: the loss is no function, or takes other arguments.
            ValueError: the rows are not of the batch, or the loss is not one number a row.
        """
        if not callable(loss):
            raise TypeError(
                f"loss must be a function of rows, such as lambda x, y: cross_entropy(net(x), y, "
                f"reduction='none'), got {type(loss).__name__}"
            )
        with self._drawn.alone():
            if not self.steps_done < self.plan.steps:
                raise BudgetSpent(
                    f"all {self.plan.steps} planned steps are spent: give larger steps= from the "
                    "start"
                )
            rows, name = tuple(self._drawn.take(rows)), code_of(loss)
            # one module for all functions of the same code, whose checks are remembered
            whole = self._losses.setdefault(name, RowLoss(self.net, loss))
            whole.of_rows = loss
            self._release(name, whole, *rows)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Private cannot be copied or sent to another process: both would draw the same "
            "noise, whose difference shows the records; make a new one"
        )

    def _look(
        self, name: Any, loss: RowLoss, of: PerExampleOf, *rows: Tensor
    ) -> AbstractContextManager[Any]:
        """Try all that a step will run, before its charge: each loss once, then now and then.

        No loss, network or optimiser may read where records lie. `name` is a loss's code, `of`
        gives its gradients. Returns the watch over the optimiser's step.
        """
        first = name not in self._tried
        if not len(rows[0]) or not (first or now_and_then()):
            return nullcontext()
        few = [row[: self._microbatch_size] for row in rows]
        places = [*self._memory, *extents(*self._drawn.rows)]
        stepping = Watched("the optimizer", places, remedy="let it compute no gradient itself")
        if first:
            with Watched("the loss", self._memory, remedy=PUBLIC):
                loss.tried(self._drawn, *few)
        with Watched("the loss", self._memory, remedy=PUBLIC), undisturbed(self.net):
            clipped_sum(
                of, *few, rule=self.plan.clipping, microbatch_size=self._microbatch_size
            )
        if first:
            self._on_extreme_labels(loss, few)
            if not self._tried:
                with stepping, own_step(self.optimizer):  # a subclass may call its parent's
                    try_step(self.optimizer)
            self._tried.add(name)
        return stepping

    def _on_extreme_labels(self, loss: RowLoss, rows: Sequence[Tensor]) -> None:
        """The same rows, of these records: finds labels out of range before the run."""
        for part in extreme_places(self._data).split(len(rows[0])):
            several = part[torch.arange(len(self._drawn.rows[0])) % len(part)]
            try:
                with self._drawn.exchanged(self._rows(several)), undisturbed(self.net):
                    loss(*rows)
            except (RuntimeError, IndexError, ValueError) as error:
                raise ValueError(
                    f"the loss does not run on the records with the smallest and largest labels: "
                    f"{error}; {checks.TO_YOURSELF}; this step was not charged"
                ) from error

    def _release(self, name: Any, loss: RowLoss, *rows: Tensor) -> None:
        """A step that is sure to run, charged before it does."""
        hold(self.net)  # though the loop calls net.train()
        of = partial(per_example, loss, itself)
        watched = self._look(name, loss, of, *rows)
        settle(self.optimizer)
        self._weights.look()
        reserved = self.steps_done or self.plan.scaling_noise is not None
        if self._budget is not None and not reserved:
            self._budget.reserve(self.plan.ledger(), **self._run)
        self._drawn.unused = False
        self.steps_done += 1
        with precision(tf32=False):
            found = released(
                of, *rows, plan=self.plan, rng=self._rng, microbatch_size=self._microbatch_size
            )
        self.optimizer.zero_grad()
        with own_step(self.optimizer), watched:
            update(self.optimizer, found.parameters, found.means)
        self._weights.leave(found.parameters, found.means)
        self._measured.append(
            (self.steps_done, len(rows[0]), found.loss, found.clipped, found.not_finite)
        )

    @property
    def curves(self) -> pd.DataFrame:
        """Step, batch size, loss, shares of examples clipped and of those counted as zero.

        They are PRIVATE, without noise: do not release them. A stop or a learning rate that
        follows from them makes the statement false, as `statement` says.
        """
        names = ("step", "batch_size", "loss", "clipped", "not_finite")
        columns = pd.Index(names, name="private")  # which is printed over them
        return pd.DataFrame([floats(*row) for row in self._measured], columns=columns)

    @property
    def ledger(self) -> list[Release]:
        """The releases so far."""
        return self.plan.ledger(self.steps_done)

    def guarantee(self, *, planned: bool = False) -> Guarantee:
        """The certified bound on the releases so far, or on all that are planned.

        That of so far holds where the number of steps was fixed beforehand; the plan's also where
        released values decided when to stop, and neither where records or `curves` did.
        """
        return self.plan.guarantee(None if planned else self.steps_done)

    def statement(
        self, *, unit: str = "one training example", tried: int | None = None
    ) -> str:
        """The sentences that a paper should carry, of the whole plan.

        What they assume, and what the kit cannot see, is in docs/limits.md.

        Args:
            unit: of privacy: what one record is.
            tried: with how many settings, these included, the records were trained on: then the
                statement says what all of them cost. None: it does not.
        """
        settle(self.optimizer)
        self._weights.look()
        ended = (  # the same wherever a loop ended
            "The price is that of all planned steps. It covers training that ended before them "
            "where released values or public numbers alone decided that, not where records, or "
            "losses that were not released, did."
        )
        if not self.steps_done:
            ended = "No step was made yet; the price is that of all that are planned."
        return statement(
            self.plan,
            unit=unit,
            ended=ended,
            assume=[CHANGED] * self._weights.changed,
            tried=tried,
        )

    def save(self, path: str | Path, *, unit: str = "one training example") -> None:
        """Write the network with its statement and price: a safetensors file to be published.

        `dpkit.private.saved.load(path, net)` reads it.

        Args:
            path: of the file; its folder must exist.
            unit: as `statement`.
        """
        if not self.steps_done:
            raise ValueError("no step was made yet: train before the network is saved")
        check_no_records(self.net, self._data)
        words = published(self.transform, self.plan)
        words["statement"] = self.statement(unit=unit)
        saved.save(path, self.net, plan=self.plan, words=words)

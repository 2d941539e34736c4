"""Private synthetic tables: fit a data frame with a public schema, sample rows."""

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from dpkit.common import checks
from dpkit.privacy import pld
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.private.budget import Budget, check_budget
from dpkit.private.one_release import Price, generator, size_of
from dpkit.private.schema import Schema
from dpkit.private.statement import ALL_RECORDS, counted
from dpkit.synthesizers import marginals

if TYPE_CHECKING:
    import pandas as pd


class PrivateTable(BaseEstimator):
    """A synthesizer for tables: noisy counts of all pairs of columns, or a private GAN.

        table = PrivateTable({"age": range(17, 91), "sex": ["female", "male"]}, epsilon=1)
        table.fit(frame).sample(1000)

    By "marginals" (`synthesizers.marginals`), `fit` is one Gaussian release of all two-way counts;
    rows are drawn from a tree in which every column depends on the target and on at most one column
    more. It needs no torch, and comes closer to the census than "gan", a `PrivateGan` of one-hot
    rows: at epsilon 1 the columns' shares are off by 1 % against 11 % on average (1,000 steps).

    Another `fit` costs epsilon again. The fitted object holds no records, so that it may be
    released (by joblib or pickle, say) where no seed was given.

    Attributes:
        model_: what was released.
        guarantee_: its price.

    Args:
        columns: what each column may hold, by its name: a list of categories, (low, high), (low,
            high, bins), range(low, high + 1) or range(low, high + 1, width); or a sequence of
            `Categorical` and `Binned`, or a `TableEncoder`, such as `dpkit.datasets.ADULT_8` (see
            `dpkit.private.schema.Schema`). It is public knowledge and never read off the records.
        epsilon, delta: of one fit, in nats, under add-remove adjacency.
        method: "marginals" or "gan".
        target: of marginals, the column that all others depend on, such as what is to be predicted;
            the last one where it is None.
        steps, batch_size: of a GAN.
        public_size: declared number of records; where it is None that of the data is taken as
            public, as the statement says.
        reproducible_seed: of the noise, and of a GAN's first weights; None takes the operating
            system's entropy. Who knows the seed takes the noise off again, and the statement says
            so; from two fits with one seed anybody can.

    Raises:
        TypeError, ValueError: columns that do not say what they hold, or make no table.
    """

    def __init__(
        self,
        columns: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        method: str = "marginals",
        target: str | None = None,
        steps: int = 1000,
        batch_size: int = 128,
        public_size: int | None = None,
        reproducible_seed: int | None = None,
    ) -> None:
        Schema(columns)  # refused here where they make no table, and again by `fit`
        self.model_: Any
        self.guarantee_: Guarantee
        self.columns = columns
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.target = target
        self.steps = steps
        self.batch_size = batch_size
        self.public_size = public_size
        self.reproducible_seed = reproducible_seed

    def fit(self, frame: "pd.DataFrame", *, budget: Budget | None = None) -> "PrivateTable":
        """Release a model of the table.

        Args:
            frame: a row for each record.
            budget: adds up the runs on this frame, whatever their bins and method (see `Budget`,
                whose `data` names it where runs take other columns of it).

        Raises:
            TypeError: no data frame, or columns that do not say what they hold.
            ValueError: a number is out of range, or a cell is missing, of no category, or outside
                its bounds: column, row, value and remedy are named.
            OverBudget: the run would exceed the budget; nothing was charged then.
        """
        check_budget(budget)
        checks.one_of(("marginals", "gan"), method=self.method)
        schema = Schema(self.columns)
        fitted = self._marginals if self.method == "marginals" else self._gan
        codes = schema.codes(frame)
        own = budget and replace(budget, path=budget.file, data=budget.data or _checksum(frame))
        self.model_, ledger = fitted(schema, codes, own)
        self.guarantee_ = pld.epsilon(ledger, delta=self.delta)
        self._price = Price(
            ledger,
            self.guarantee_,
            ALL_RECORDS if self.method == "marginals" else "Poisson",
            (counted(len(frame)),) if self.public_size is None else (),
            self.reproducible_seed is not None,
        )
        self._schema = schema
        return self

    def _marginals(
        self, schema: Schema, codes: np.ndarray, budget: Budget | None
    ) -> tuple[Any, list[Release]]:
        names, sizes = schema.encoder.names, schema.sizes
        if len(sizes) < 2:
            raise ValueError(
                f"columns: there is {names[0]} alone, and marginals count pairs of columns: add "
                'another, or take method="gan"'
            )
        target = names[-1] if self.target is None else self.target
        checks.one_of(names, target=target)
        epsilon = checks.positive(epsilon=self.epsilon)
        settings = marginals.settings_for(
            epsilon, delta=self.delta, sizes=sizes, target=names.index(target)
        )
        size = size_of(len(codes), public_size=self.public_size, delta=self.delta)
        rng = generator(self.reproducible_seed, stream=0)
        if budget is not None:
            seed = self.reproducible_seed
            budget.reserve(settings.ledger(), data=str(budget.data), seed=seed)
        model = marginals.fit(codes, settings=settings, public_size=size, rng=rng)
        return model, settings.ledger()

    def _gan(
        self, schema: Schema, codes: np.ndarray, budget: Budget | None
    ) -> tuple[Any, list[Release]]:
        from dpkit.private import table_gan

        if self.target is not None:
            raise ValueError('a GAN has no target: leave it out, or take method="marginals"')
        model = table_gan.fit(
            schema.encoder.one_hot(codes),
            sizes=schema.sizes,
            steps=self.steps,
            budget=budget,
            epsilon=self.epsilon,
            delta=self.delta,
            batch_size=self.batch_size,
            public_size=self.public_size,
            reproducible_seed=self.reproducible_seed,
        )
        return model, model.plan.ledger()

    def sample(self, n: int = 1000, *, reproducible_seed: int | None = None) -> "pd.DataFrame":
        """Draw `n` synthetic rows, which costs nothing; numbers are uniform within their bins.

        Args:
            n: number of rows.
            reproducible_seed: None takes the operating system's entropy.

        Raises:
            NotFittedError: there is no model yet.
            ValueError: n is not an integer >= 0.
        """
        self._check_fitted()
        rng = generator(reproducible_seed, stream=1)
        return self._schema.frame(self.model_.sample(n, rng=rng), rng)

    def guarantee(self) -> Guarantee:
        """The certified bound on what `fit` released."""
        self._check_fitted()
        return self.guarantee_

    def statement(self, *, unit: str = "one row of the table") -> str:
        """The sentences that a paper should carry.

        What they assume, and what the kit cannot see, is in docs/limits.md.

        Args:
            unit: of privacy: what one record is.
        """
        self._check_fitted()
        return self._price.statement(unit=unit)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError("there is no model yet: call fit(frame) first")


def _checksum(frame: "pd.DataFrame") -> str:
    """SHA-256 of the cells as they are given, whatever a schema makes of them."""
    from pandas.util import hash_pandas_object

    rows: Any = hash_pandas_object(frame, index=False)  # pyright: ignore[reportCallIssue]
    return sha256(repr(list(frame.columns)).encode() + rows.to_numpy().tobytes()).hexdigest()

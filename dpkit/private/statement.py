"""The price of a fit or run, and the sentences that a paper should carry about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from dpkit.common import checks
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.privacy.statement import statement as sentence
from dpkit.privacy.statement import tuning
from dpkit.private.plan import Plan

ALL_RECORDS = "none (all records)"  # are in the release
SEEDED = (
    "Noise was drawn from a fixed seed: reproducible by anyone who knows it; not for publication "
    "of private data."
)
SETTINGS = "settings and initial weights do not depend on the records"
INDEPENDENT = (
    "initial weights, buffers, transform and settings (learning rates too, as training goes on) do "
    "not depend on the records; neither the preparation of a record, nor its loss or the fake "
    "beside it, depends on another record"
)


def statement(
    plan: Plan,
    *,
    unit: str,
    classes: int | None = None,
    ended: str = "",
    assume: Sequence[str] = (),
    tried: int | None = None,
) -> str:
    """Epsilon, delta, adjacency, unit, method and sampling, and what else is assumed.

    Args:
        plan: of the run, whose price is stated.
        unit: of privacy: what one record is.
        classes: number of labels, which is taken as public; None without labels.
        ended: a sentence on where the run ended, if it may end early.
        assume: what else is assumed: a phrase each.
        tried: runs of which this is one; None: not said.
    """
    assumed = [INDEPENDENT, *assume]
    if not plan.declared:
        assumed.append(counted(plan.public_size))
    if classes is not None:
        assumed.append(f"the number of classes, {classes}, is public")
    sampling = "Poisson"
    if plan.scaling_noise is not None:
        sampling = f"{ALL_RECORDS} and Poisson"
        assumed.append("the bounds low and high of the features are public")
    price = Price(plan.ledger(), plan.guarantee(), sampling, tuple(assumed), plan.seeded)
    return price.statement(unit=unit, more=ended, tried=tried)


def counted(records: int) -> str:
    """The assumption on an undeclared number of records."""
    return f"the number of records, {records}, is public"


@dataclass(frozen=True)
class Price:
    """The price of a fit and its assumptions, which nothing set later changes.

    sampling: how batches were drawn.
    assumed: what must be true beside the guarantee's own assumptions.
    seeded: whether noise was drawn from a seed.
    """

    ledger: list[Release]
    guarantee: Guarantee
    sampling: str
    assumed: tuple[str, ...]
    seeded: bool

    def statement(self, *, unit: str, more: str = "", tried: int | None = None) -> str:
        """As `Priced.statement`; `more`: a sentence on what was done besides, or nothing."""
        said = {"unit": unit, "sampling": self.sampling, "assume": self.assumed}
        if tried is not None:
            said["tuning"] = tuning(self.ledger, delta=self.guarantee.delta, tried=tried)
        words = sentence(self.guarantee, self.ledger, **said)
        return " ".join(part for part in (words, more, SEEDED if self.seeded else "") if part)


class Priced(BaseEstimator):
    """A synthesizer whose fit is priced as a whole."""

    _price: Price
    _call = "fit(x, y)"

    def guarantee(self) -> Guarantee:
        """The certified bound on all that `fit` released."""
        return self._fitted()._price.guarantee

    def statement(self, *, unit: str = "one labelled image", tried: int | None = None) -> str:
        """The sentences that a paper should carry.

        What they assume, and what the kit cannot see, is in docs/limits.md.

        Args:
            unit: of privacy: what one record is.
            tried: with how many settings, these included, such a model was fitted to these records:
                then the statement says what all of them cost. None: it does not.
        """
        return self._fitted()._price.statement(unit=unit, tried=tried)

    def _priced(
        self,
        ledger: list[Release],
        guarantee: Guarantee,
        sampling: str,
        records: int,
        *public: str,
    ) -> None:
        """State what was fitted to so many records; `public` is assumed beside their number."""
        own: Any = self  # with arguments that all of them have
        assumed = [SETTINGS, *public]
        if own.public_size is None:
            assumed.insert(1, counted(records))
        seeded = own.reproducible_seed is not None
        self._price = Price(ledger, guarantee, sampling, tuple(assumed), seeded)

    def _fitted(self) -> Self:
        if not hasattr(self, "_price"):
            raise NotFittedError(f"there is no model yet: call {self._call} first")
        return self


def generator(seed: int | None, *, stream: int) -> np.random.Generator:
    """A generator from the system's entropy or a seed: noise and samples share no draws.

    Raises:
        ValueError: the seed is not an integer >= 0.
    """
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng([checks.whole(reproducible_seed=seed), stream])

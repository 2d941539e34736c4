"""A budget over several runs on one data set, kept in a file."""

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpkit.common import checks, files
from dpkit.privacy import Guarantee, Ledger, Releases, Unsupported, filters, pld

NOTE = (
    "What runs on one data set have reserved of its privacy budget. Keep it with the data; without "
    "it nobody knows what was spent."
)


@dataclass(frozen=True)
class Budget:
    """Epsilon and delta of all runs on one data set, reserved before each run.

    A later run may be chosen after an earlier one was seen, so a Renyi filter adds up the costs
    (`dpkit.privacy.filters`; Feldman, Zrnic 2021, Thm 4.3), at one order, which the first run's
    plan decides before anything is released. That is less tight than a run's own epsilon: a first
    run that fits by the certified accountant alone is allowed, and none after it.

    What is reserved is not given back. The file names the data by a checksum, so that two data sets
    do not share a budget; order of records and type of numbers count.

    Args:
        path: of the JSON file, which the first run makes; its folder must exist. A link leads to
            the file itself; a relative path starts where the Budget is made.
        epsilon: nats, > 0, and delta, in (0, 1): of all runs together. Both are fixed by the first.
        data: name or checksum of the data set, where runs encode it in ways of their own or read
            parts of it; None: a checksum of what a run is given.

    Raises:
        ValueError: epsilon or delta is out of range, or data is no text, or empty.
    """

    path: Path | str
    epsilon: float
    delta: float
    data: str | None = None

    def __post_init__(self) -> None:
        if self.data is not None and not (isinstance(self.data, str) and self.data):
            raise ValueError(f"data must be a data set's name, or None, got {self.data!r:.80}")
        checks.positive(epsilon=self.epsilon)
        checks.between(0, 1, delta=self.delta)
        object.__setattr__(self, "_absolute", os.path.abspath(self.path))

    @property
    def file(self) -> Path:
        """The budget's file, links and folders resolved."""
        return Path(os.path.realpath(vars(self)["_absolute"]))

    def check(
        self, ledger: Releases, *, data: str, run: str | None = None, seed: int | None = None
    ) -> None:
        """Raise what `reserve` would raise for a run now; nothing is charged."""
        self._planned(Ledger.of(ledger), self.data or data, run, seed)

    def reserve(
        self, ledger: Releases, *, data: str, run: str | None = None, seed: int | None = None
    ) -> None:
        """Charge a run before it begins; it is on disk when this returns.

        Args:
            ledger: all that the run will release.
            data: checksum of the data set, where the budget has none of its own.
            run: name of the run: under the same name, resumed, it is not charged again.
            seed: the reproducible seed that the run's noise follows from, if one was given.

        Raises:
            OverBudget: the total would exceed the budget; nothing was charged then.
            ValueError: the file is of other data or another budget, or damaged, or has several
                names; or an earlier run had the same seed, and so the same noise.
        """
        path = self.file
        if not path.parent.is_dir():
            raise ValueError(f"the folder of the budget file, {path.parent}, does not exist")
        lacking = "a budget file needs fcntl, which this system lacks; add up by hand"
        with files.locked(path.with_name(path.name + ".lock"), lacking=lacking):
            stored, made = self._planned(Ledger.of(ledger), self.data or data, run, seed)
            if all(made is not one for one in stored["runs"]):
                stored["runs"].append(made)
                files.write_bytes(path, json.dumps(stored, indent=1).encode(), private=True)

    def _planned(
        self, ledger: Ledger, data: str, run: str | None, seed: int | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The file's content, and the run as it is or would be there."""
        stored = self._read() or self._opened(ledger, data)
        if (stored["epsilon"], stored["delta"]) != (self.epsilon, self.delta):
            raise ValueError(
                f"{self.path} is a budget of epsilon {checks.short(stored['epsilon'])} at delta "
                f"{checks.short(stored['delta'])}, fixed by its first run, got "
                f"{checks.short(self.epsilon)} and {checks.short(self.delta)}"
            )
        if stored["data"] != data:
            raise ValueError(
                f"{self.path} is the budget of another data set, or of the same records in another "
                "order, part or scale. Of the same records give all runs one Budget with "
                "data='its name' from the start; give other records another file"
            )
        if stored["adjacency"] != ledger.adjacency:
            raise ValueError(
                f"{self.path} counts under {stored['adjacency']}, the run under {ledger.adjacency}"
            )
        words = [[repr(mechanism), count] for mechanism, count in ledger.releases]
        for one in stored["runs"]:
            if run is not None and one["name"] == run and one["ledger"] == words:
                return stored, one
        digest = None if seed is None else sha256(f"{seed}".encode()).hexdigest()
        if digest is not None and digest in (one.get("seed") for one in stored["runs"]):
            raise ValueError(
                f"reproducible_seed is that of an earlier run in {self.path}: two releases with "
                "the same noise give it away; give each run another seed, or none"
            )
        cost = _cost(ledger, stored["order"])
        made = {"name": run, "ledger": words, "renyi": cost, "seed": digest}
        if stored["whole"] and not stored["runs"]:
            return stored, made
        limit, total = Fraction(self._limit(stored)), _total(stored)
        left = 0.0 if stored["whole"] else float(limit - total)
        if stored["whole"] or not (cost < math.inf and total + Fraction(cost) <= limit):
            raise filters.OverBudget(
                f"the run costs {checks.short(cost, 4)} nats at order {stored['order']:.4g}, and "
                f"{checks.short(left, 4)} of the budget (epsilon {checks.short(self.epsilon)} at "
                f"delta {checks.short(self.delta)}) in {self.path} are left after "
                f"{len(stored['runs'])} runs: take a smaller epsilon, or stop here"
            )
        return stored, made

    def share_spent(self) -> float:
        """The part of the budget that is reserved, between 0 and 1."""
        stored = self._read()
        if stored is None:
            return 0.0
        limit = Fraction(self._limit(stored))
        return 1.0 if stored["whole"] else float(_total(stored) / limit)

    def guarantee(self) -> Guarantee:
        """The guarantee over all runs charged here, now or later: the budget itself."""
        stored = self._read()
        adjacency = stored["adjacency"] if stored else "add-remove"
        how = f"Renyi filter at order {stored['order']:.6g}" if stored else "Renyi filter"
        return Guarantee(
            self.epsilon,
            self.delta,
            0.0,
            adjacency,
            "one run, pld" if stored and stored["whole"] else f"{how} (Feldman, Zrnic 2021)",
            (filters.ADAPTIVE, "every run on these data is charged here"),
        )

    def _opened(self, ledger: Ledger, data: str) -> dict[str, Any]:
        """The file's content before the first run, which depends on no data."""
        order = filters.best_order(self.epsilon, delta=self.delta, ledger=ledger)
        stored = {
            "note": NOTE,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "data": data,
            "adjacency": ledger.adjacency,
            "order": order,
            "whole": False,
            "runs": [],
        }
        if not _cost(ledger, order) <= self._limit(stored):
            with suppress(Unsupported):
                whole = pld.epsilon(ledger, delta=self.delta).epsilon <= self.epsilon
                stored["whole"] = whole  # no other run fits after it
        return stored

    def _limit(self, stored: dict[str, Any]) -> float:
        return filters.budget(self.epsilon, delta=self.delta, order=stored["order"])

    def _read(self) -> dict[str, Any] | None:
        if self.file.exists() and self.file.stat().st_nlink > 1:
            raise ValueError(
                f"the budget file {self.path} has several names (hard links), each of which would "
                "become a budget of its own: keep one, and a copy as a backup"
            )
        try:
            stored = json.loads(self.file.read_text(encoding="utf-8"))
            for one in stored["runs"]:
                checks.non_negative(renyi=one["renyi"])
            checks.positive(order=stored["order"], epsilon=stored["epsilon"])
            return stored
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"the budget file {self.path} is damaged ({error}); restore its newest copy"
            ) from error


def _cost(ledger: Ledger, order: float) -> float:
    """Nats of Renyi divergence at the order."""
    return float(ledger.rdp([order])[0])


def _total(stored: dict[str, Any]) -> Fraction:
    return sum((Fraction(one["renyi"]) for one in stored["runs"]), Fraction(0))


def check_budget(budget: Any) -> None:
    """Refuse (TypeError) what is no Budget, such as an epsilon."""
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(
            f"budget must be a Budget('budget.json', epsilon=..., delta=...), got {budget!r:.80}"
        )

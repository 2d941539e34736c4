"""What --accountant, --adjacency, --conversion and --ledger mean together."""

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from dpkit.common import checks
from dpkit.privacy.accountants.moments import MOST_MOMENTS
from dpkit.privacy.ledger import Guarantee, Release, Releases
from dpkit.privacy.mechanisms import ADJACENCIES, Adjacency, Mechanism, SampledGaussian

ACCOUNTANTS = ("rdp", "pld", "moments", "gdp")  # modules of dpkit.privacy.accountants
OVER_CLIP_NORM = "noise standard deviation / clip norm C"


class Pricing(NamedTuple):
    """An accountant with its options, as a user chose them; None: not for this accountant."""

    accountant: str
    adjacency: Adjacency
    conversion: str | None

    @property
    def price(self) -> Callable[..., Guarantee]:
        """The accountant's `epsilon`, imported on demand."""
        return import_module(f"dpkit.privacy.accountants.{self.accountant}").epsilon

    @property
    def options(self) -> dict[str, Any]:
        """What `price` takes beside ledger and delta."""
        return {"conversion": self.conversion} if self.accountant == "rdp" else {}

    def epsilon(self, ledger: Releases, delta: float) -> Guarantee:
        """The ledger's price at `delta`."""
        return self.price(ledger, delta=delta, **self.options)

    def floor(self, delta: float) -> float:
        """The epsilon that no noise gets below, as the moments end; 0 for other accountants."""
        return -math.log(delta) / MOST_MOMENTS if self.accountant == "moments" else 0.0

    def edge(self, found: Guarantee) -> str:
        """Say that the first or last moment decided, and what may prove less; or ""."""
        ends = {"1": "smallest", checks.short(MOST_MOMENTS): "largest"}
        order = found.method.rpartition(" ")[2]
        if self.accountant != "moments" or order not in ends or not found.epsilon > 0:
            return ""
        return (
            f"order {order} is the {ends[order]} that was tried, and accountant pld may prove "
            f"less; no noise brings epsilon below {checks.short(self.floor(found.delta), 4)} here"
        )

    def step(self, noise_multiplier: float, sample_rate: float) -> Mechanism:
        """One step of training on Poisson batches, its noise over the clip norm C."""
        checks.positive(noise_multiplier=noise_multiplier)
        return SampledGaussian(noise_multiplier, sample_rate, self.adjacency)


def accountant_of(ledger: str | None) -> str | None:
    """pld for the files that dpkit itself writes, as it plans and states runs by it."""
    own = (".safetensors", ".ledger.json")
    return "pld" if ledger is not None and Path(ledger).name.endswith(own) else None


def chosen(accountant: str | None, adjacency: str | None, conversion: str | None) -> Pricing:
    """The choice that these options make; None: not given.

    Raises:
        ValueError: a name is unknown, or a conversion is given for another accountant than rdp.
    """
    accountant = "rdp" if accountant is None else accountant
    checks.one_of(ACCOUNTANTS, accountant=accountant)
    adjacency = "add-remove" if adjacency is None else adjacency
    checks.one_of(ADJACENCIES, adjacency=adjacency)
    if conversion is not None and accountant != "rdp":
        raise ValueError(
            "--conversion belongs to accountant rdp, which converts from Renyi DP; got accountant "
            f"{accountant}: leave --conversion out"
        )
    rule = (conversion or "improved") if accountant == "rdp" else None
    return Pricing(accountant, cast(Adjacency, adjacency), rule)


def steps_of(
    pricing: Pricing,
    *,
    ledger: str | None,
    noise_multiplier: float | None,
    sample_rate: float | None,
    steps: int | None,
) -> list[Release]:
    """The releases of a run: those of a ledger file, or equal steps.

    Raises:
        ValueError: both are given, or neither in full; or a value is bad.
        OSError: the file cannot be read.
    """
    options = {
        "--noise-multiplier": noise_multiplier,
        "--sample-rate": sample_rate,
        "--steps": steps,
    }
    given = [name for name, value in options.items() if value is not None]
    if ledger is not None:
        if given:
            raise ValueError(
                f"--ledger says noise, rate and number of all steps; leave out {_listed(given)}, "
                "or leave out --ledger"
            )
        from dpkit.commands import ledger_file

        return ledger_file.read(ledger, pricing.adjacency)
    if noise_multiplier is None or sample_rate is None or steps is None:
        missing = [f"'{name}'" for name in options if name not in given]
        raise ValueError(
            f"Missing option {_listed(missing)}; or give --ledger, a file of steps."
        )
    checks.whole(steps=steps)
    return [Release(pricing.step(noise_multiplier, sample_rate), steps)]


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

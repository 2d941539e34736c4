"""The privacy statement of a paper or a released model."""

from collections.abc import Sequence
from contextlib import suppress
from math import isfinite

from dpkit.common import __version__, checks
from dpkit.common.show import at_most, counted, short
from dpkit.privacy.accountants import pld, rdp
from dpkit.privacy.best_of import best_of
from dpkit.privacy.ledger import Guarantee, Ledger, Release, Releases
from dpkit.privacy.mechanisms import (
    Gaussian,
    SampledGaussian,
    Unsupported,
    WithoutReplacementGaussian,
)
from dpkit.privacy.risk import risk
from dpkit.privacy.sampling import Assuming

WITHOUT_REPLACEMENT = "batches of a fixed size drawn without replacement"
# what one release is called, its noise and the noise's name, and how its batch is drawn
_KINDS = {
    SampledGaussian: ("step", "noise_multiplier", "noise multiplier", "Poisson"),
    WithoutReplacementGaussian: (
        "step",
        "noise_over_sensitivity",
        "noise / sensitivity",
        WITHOUT_REPLACEMENT,
    ),
    Gaussian: ("release", "noise_multiplier", "noise multiplier", "none (all records)"),
}


def statement(
    guarantee: Guarantee,
    ledger: Releases,
    *,
    unit: str = "one training example",
    sampling: str = "not stated",
    tuning: str = "not charged",
    assume: Sequence[str] = (),
    told: str | None = None,
) -> str:
    """State epsilon, delta, adjacency, unit, releases, accountant, version, sampling, tuning, risk.

    Args:
        guarantee: an accountant's, of `ledger`.
        ledger: all releases.
        unit: what one record is.
        sampling: how batches were really drawn.
        tuning: whether the choice of hyperparameters was charged.
        assume: what else must be true, after the guarantee's own assumptions: a phrase each.
        told: its risk; None: the ledger's, where pld prices it.

    Raises:
        ValueError: epsilon is not finite, or an approximation and no upper bound; or guarantee and
            ledger differ in adjacency.
    """
    ledger = Ledger.of(ledger)
    if not is_upper_bound(guarantee):
        raise ValueError(
            f"guarantee must be an upper bound, got an approximation, {guarantee.method}, which "
            "can lie below the truth; use pld, which is tight, or rdp"
        )
    if not isfinite(guarantee.epsilon):
        raise ValueError("no finite epsilon is proven for this run, so there is none to state")
    if ledger.releases and ledger.adjacency != guarantee.adjacency:
        raise ValueError(
            f"guarantee is under {guarantee.adjacency} and ledger under {ledger.adjacency}; give "
            "the ledger of this guarantee"
        )
    kinds: dict[type, list[Release]] = {}
    for one, count in ledger.releases:  # the guarantee lists what is assumed
        bare = Release(one.one if isinstance(one, Assuming) else one, count)
        kinds.setdefault(type(bare.mechanism), []).append(bare)
    done = []
    for kind, part in kinds.items():
        noun, noise, name, _ = _KINDS.get(kind, ("release", "", "", ""))
        words = counted(sum(release.count for release in part), noun)
        words += f" with {name} {_range(part, noise)}" if noise else f" by {kind.__name__}"
        if noun == "step":
            words += f" and sample rate {_range(part, 'sample_rate')}"
        done.append(words)
    drawn = " and ".join(
        _KINDS[kind][-1] if kind in _KINDS else kind.__name__ for kind in kinds
    )
    if told is None:
        with suppress(Unsupported, ArithmeticError):  # what pld prices has a certified risk
            told = str(risk(ledger)) if done else ""
    assumed = "; ".join([*guarantee.assumptions, *assume])
    return (
        f"Training satisfies ({at_most(guarantee.epsilon)}, {short(guarantee.delta)})-differential "
        f"privacy under {guarantee.adjacency} adjacency, the unit of privacy being {unit}: "
        f"{' and '.join(done) or 'no release'}, accounted by dpkit {__version__} "
        f"({guarantee.method}). "
        f"Sampling assumed: {drawn or 'none'}; sampling used: {sampling}. "
        f"Tuning of hyperparameters: {tuning}."
        + (f" {told}." if told else "")
        + (f" Assumed: {assumed}." if assumed else "")
    )


def tuning(ledger: Releases, *, delta: float, tried: int) -> str:
    """What it cost to choose among `tried` runs, each of this ledger: `statement`'s `tuning`.

    Raises:
        ValueError: tried is not an integer >= 1, or as `pld.epsilon`.
    """
    ledger, tried = Ledger.of(ledger), checks.whole(1, tried=tried)
    if tried == 1:
        return "no other settings were tried on these records"
    every = pld.epsilon([Release(one, tried * n) for one, n in ledger.releases], delta=delta)
    best = rdp.epsilon(best_of(ledger, mean=tried), delta=delta)
    return (
        f"{tried} settings were tried on these records, at this price each; all runs together cost"
        f" epsilon {at_most(every.epsilon)} at delta {short(delta)}; had their number been random "
        f"and secret (mean {tried}), the best alone would have cost {at_most(best.epsilon)}"
    )


def is_upper_bound(guarantee: Guarantee) -> bool:
    """Return whether epsilon is an upper bound, by the guarantee's method."""
    return "approximation" not in guarantee.method


def _range(releases: list[Release], field: str) -> str:
    values = [getattr(release.mechanism, field) for release in releases]
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"

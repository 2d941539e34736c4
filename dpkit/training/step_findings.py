"""What `check_step` looks for in the runs it compares, and the sentences that say so."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import inf, isnan, nan, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpkit import checks
from dpkit.privacy.ledger import Ledger, Releases
from dpkit.privacy.mechanisms import Gaussian, SampledGaussian, WithoutReplacementGaussian
from dpkit.privacy.mechanisms.no_guarantee import NoGuarantee
from dpkit.privacy.sampling import Assuming
from dpkit.training.step_runs import Noised, Run, differing, row

REMEDIES = {
    "not noised": "compute them from what noised() returns, public numbers and fresh draws",
    "batch size": "divide by the expected batch size, and generate a fixed number of examples",
}
Pair = tuple[str, Run, Run]  # how a record differs; without, and with that difference
ROUGH = 1.001  # what rounding in float32 may add to a clipped sum
FEW, ALIKE = 4, 0.05  # coordinates that are compared; deviations, above the noise's own grid


class Finding(NamedTuple):
    """One thing that a ledger does not cover, and what to do about it.

    kind: "guarantee", "draws", "stopped", "releases", "noise", "sensitivity", "not noised" or
        "batch size".
    """

    kind: str
    sentence: str


class Price(NamedTuple):
    """What one step is charged."""

    count: int
    noise: float  # multiplier of the one release that costs as much; NaN without a guarantee
    hides_participation: bool
    reason: str  # why there is no guarantee
    clip_norm: float  # declared distance that adding a record moves the sum by; NaN: none is

    def declared_noise(self, releases: Sequence[Noised]) -> float:
        """Multiplier of a step's noise, by the clip norm; NaN without one, or with many noises."""
        stds = row(releases, "stds").unique().tolist()
        return stds[0] / self.clip_norm / sqrt(len(releases)) if len(stds) == 1 else nan

    def moves(self, base: Run, other: Run) -> Iterator[float]:
        """How far what is noised moved in each step, in clip norms.

        In deviations of the noise, times its multiplier: the declared one, or the one charged.
        """
        for one, two in zip(base.releases, other.releases, strict=True):
            a, b = row(one, "sums"), row(two, "sums")
            if a.shape == b.shape:
                gaps = torch.where(a == b, 0.0, (a - b) / row(one, "stds")).nan_to_num(nan=inf)
                noise = self.declared_noise(one)
                yield float(gaps.norm()) * (self.noise if isnan(noise) else noise)


def price(
    settings: Any, charged: Releases | None, sensitivity: float | None, *, public_size: int
) -> Price:
    """What a step costs, by what was given or by the settings' ledger (ValueError: neither)."""
    if charged is None and not hasattr(settings, "ledger"):
        raise ValueError("settings have no ledger; give charged=[Release(mechanism)]")
    own = settings.ledger(public_size=public_size, steps=1) if charged is None else charged
    charges = Ledger.of(own).releases
    releases = [(_plain(mechanism), times) for mechanism, times in charges]
    inverse = sum(times / _multiplier(mechanism) ** 2 for mechanism, times in releases)
    bound = getattr(getattr(settings, "clipping", None), "sensitivity", lambda _: nan)
    norm = bound("add-remove") if sensitivity is None else checks.positive(sensitivity=sensitivity)
    return Price(
        count=sum(times for _, times in releases),
        noise=1 / sqrt(inverse) if releases else inf,
        hides_participation=all(getattr(one, "hides_participation", False) for one, _ in charges),
        reason="; ".join(one.reason for one, _ in releases if isinstance(one, NoGuarantee)),
        clip_norm=norm if 0 < norm < inf else nan,
    )


def _plain(mechanism: Any) -> Any:
    return _plain(mechanism.mechanism) if isinstance(mechanism, Assuming) else mechanism


def _multiplier(mechanism: Any) -> float:
    """Noise standard deviation over the clip norm; NaN without a guarantee."""
    if isinstance(mechanism, NoGuarantee):
        return nan
    if isinstance(mechanism, WithoutReplacementGaussian):
        return 2 * mechanism.noise_over_sensitivity  # a replaced record moves the sum by 2 norms
    one = getattr(mechanism, "one", mechanism)  # for all groups or coordinates
    if isinstance(one, SampledGaussian | Gaussian):
        return one.noise_multiplier
    raise ValueError(f"charged must hold Gaussian releases, got {type(mechanism).__name__}")


def at_price(base: Run, price: Price) -> Iterator[Finding]:
    """Whether what is noised is noised as often, and as much, as is charged."""
    if price.reason:
        yield Finding("guarantee", f"the ledger of these settings has no price: {price.reason}")
        return
    for releases in base.releases:
        calls, noise = len(releases), price.declared_noise(releases)
        little = noise * ROUGH < price.noise
        many = calls > price.count and not noise * ROUGH >= price.noise
        if little or many or (price.count and not calls):
            times = "once" if calls == 1 else f"{calls} times"
            own = f" (noise multiplier {noise:.3g} in all, for clip norm {price.clip_norm:.3g})"
            yield Finding(
                "noise" if 0 < calls <= price.count else "releases",
                f"noised() is called {times} in a step{own if little else ''}, and the ledger "
                f"charges {price.count} (noise multiplier {price.noise:.3g} in all); give it all "
                "clipped sums at once, noise_std=noise_multiplier * clip norm, and divide what it "
                "returns",
            )


def at_noise_drawn(base: Run, other_seed: Run) -> Iterator[Finding]:
    """Whether each release has noise of its own, another one for another seed."""
    releases = [calls for run in (base, other_seed) for calls in run.releases]
    each = [[row([call], of) for of in Noised._fields] for calls in releases for call in calls]
    noises = [(noisy - total) / std for total, std, noisy in each]
    if any(_alike(a, b) for a, b in combinations(noises, 2)):
        yield Finding(
            "noise",
            "two releases have the same noise, so that their difference has none; draw it from "
            "rng, which goes on from step to step",
        )


def _alike(a: Tensor, b: Tensor) -> bool:
    gaps = a[: len(b)] - b[: len(a)]
    gaps = gaps[~gaps.isnan()]  # NaN where there is no noise
    return len(gaps) >= FEW and bool(gaps.square().mean() < ALIKE**2)


def draws(changed: Sequence[str]) -> Finding:
    """Two runs on one batch are not alike."""
    return Finding(
        "draws",
        f"{_listed(changed)} differ between two runs on the same batch; draw all random numbers "
        "from rng, and keep all that outlives a step in what new_gan returns. Nothing else was "
        "compared",
    )


def stopped(how: str, error: Exception) -> Finding:
    """The step runs on the batch, and not on its neighbour."""
    return Finding(
        "stopped",
        f"the step raises where one record {how} ({type(error).__name__}: {error}), and whether a "
        "run goes on must not depend on one record; clip it, or refuse it before training",
    )


def at_rest(kind: str, pairs: Sequence[Pair], *, rough: float = 0.0) -> Iterator[Finding]:
    """Whether all that was not noised is the same: to the bit, or to a share of its change."""
    differ = [(name, how) for how, a, b in pairs for name in differing(a, b, rough=rough)]
    if differ:
        names, hows = (list(dict.fromkeys(each)) for each in zip(*differ, strict=True))
        yield Finding(
            kind,
            f"{_listed(names)} differ after the step where one record {', or '.join(hows)}, "
            f"although noised() returned the same; {REMEDIES[kind]}",
        )


def at_movement(
    pairs: Sequence[Pair], price: Price, *, allowed: float
) -> tuple[float, list[Finding]]:
    """How far a record moves what is noised, at most (NaN: unknown), and a finding if too far."""
    moved = [(by, how) for how, base, run in pairs for by in price.moves(base, run)]
    by, how = max((one for one in moved if not isnan(one[0])), default=(nan, ""))
    unit = " (deviations of the noise over the charged noise multiplier)"
    finding = Finding(
        "sensitivity",
        f"what is noised moves by {by:.3g} clip norms{unit if isnan(price.clip_norm) else ''} "
        f"where one record {how}, and {allowed:g} is charged; clip all that depends on a record "
        "together, let it depend on no other record, and noise the sum before it is divided",
    )
    return by, [finding] if by > allowed * ROUGH else []


def _listed(names: Sequence[str]) -> str:
    """How many tensors of which network or optimiser."""
    owners = Counter(name.partition(".")[0] or "a tensor" for name in names)
    return ", ".join(
        f"{owner} ({count} tensor{'s'[: count > 1]})" for owner, count in owners.items()
    )

"""What `check_step` looks for in the runs it compares, and the sentences that say so."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import inf, isnan, nan, sqrt
from typing import Any, NamedTuple

import torch

from dpkit import checks
from dpkit.privacy.ledger import Ledger, Releases
from dpkit.privacy.mechanisms import (
    DiagonalGaussian,
    Gaussian,
    GroupedGaussian,
    SampledGaussian,
    WithoutReplacementGaussian,
)
from dpkit.privacy.mechanisms.no_guarantee import NoGuarantee
from dpkit.privacy.sampling import Assuming
from dpkit.training.step_runs import Neighbour, Noised, Run, differing

LEFT_OUT = "is left out"
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


class Compared(NamedTuple):
    """A batch and its neighbour, and what the step did on each."""

    neighbour: Neighbour
    base: Run
    run: Run

    def moves(self, price: Price, clip_norm: float | None) -> float:
        """How far what is noised moved, in clip norms; NaN where the two cannot be compared.

        By the declared clip norm, or by the noise: its deviation over the noise multiplier. Without
        a record it can be compared where what was drawn for the others is the same.
        """
        if self.neighbour.how == LEFT_OUT and self.base.shapes != self.run.shapes:
            return nan
        steps = zip(self.base.releases, self.run.releases, strict=True)
        return max((_moves(a, b, price, clip_norm) for a, b in steps), default=nan)


def price(settings: Any, charged: Releases | None, *, public_size: int) -> Price:
    """What a step costs, by what was given or by the settings' ledger (ValueError: neither)."""
    if charged is None and not hasattr(settings, "ledger"):
        raise ValueError("settings have no ledger; give charged=[Release(mechanism)]")
    own = settings.ledger(public_size=public_size, steps=1) if charged is None else charged
    releases = Ledger.of(own).releases
    hides = all(getattr(one.mechanism, "hides_participation", False) for one in releases)
    inverse, count = 0.0, 0
    for mechanism, times in releases:
        if isinstance(mechanism, NoGuarantee):
            return Price(times, nan, hides, mechanism.reason)
        inverse, count = inverse + times / _multiplier(mechanism) ** 2, count + times
    return Price(count, 1 / sqrt(inverse) if count else inf, hides, "")


def _multiplier(mechanism: Any) -> float:
    """Noise standard deviation over the clip norm."""
    while isinstance(mechanism, Assuming):
        mechanism = mechanism.mechanism
    if isinstance(mechanism, GroupedGaussian):
        mechanism = mechanism.one
    if isinstance(mechanism, WithoutReplacementGaussian):
        return 2 * mechanism.noise_over_sensitivity  # a replaced record moves the sum by 2 norms
    if not isinstance(mechanism, SampledGaussian | Gaussian | DiagonalGaussian):
        raise ValueError(
            "charged must hold Gaussian releases, whose noise can be compared with the step's, got "
            f"{type(mechanism).__name__}"
        )
    return mechanism.noise_multiplier


def clip_norm(settings: Any, sensitivity: float | None) -> float | None:
    """What is declared of a record that is added; None where nothing is."""
    if sensitivity is not None:
        return checks.positive(sensitivity=sensitivity)
    declared = getattr(getattr(settings, "clipping", None), "sensitivity", None)
    norm = declared("add-remove") if declared else inf
    return norm if 0 < norm < inf else None


def _moves(
    base: Sequence[Noised], other: Sequence[Noised], price: Price, clip_norm: float | None
) -> float:
    pairs = list(zip(base, other, strict=False))
    if clip_norm and all(one.std is not None for one in base):
        return max((_distance(a, b) for a, b in pairs), default=0.0) / clip_norm
    return sqrt(sum(_distance(a, b, in_noise=True) ** 2 for a, b in pairs)) * price.noise


def _distance(a: Noised, b: Noised, *, in_noise: bool = False) -> float:
    """L2, of tensors that both have; in deviations of the noise; infinite where a sum is."""
    squares = 0.0
    for one, other, std in zip(a.sums, b.sums, a.stds, strict=False):
        if one.shape == other.shape:
            gap = (one.double() - other.double()).cpu()
            unit = std if in_noise else torch.ones(())
            squares += float(torch.where(gap == 0, 0.0, gap / unit).square().sum())
    return inf if isnan(squares) else sqrt(squares)


def at_price(base: Run, price: Price, clip_norm: float | None) -> Iterator[Finding]:
    """Whether what is noised is noised as often, and as much, as is charged."""
    if price.reason:
        yield Finding("guarantee", f"the ledger of these settings has no price: {price.reason}")
        return
    for releases in base.releases:
        one = _of_one_step(releases, price, clip_norm)
        if one is not None:
            yield one
            return


def _of_one_step(
    releases: Sequence[Noised], price: Price, clip_norm: float | None
) -> Finding | None:
    calls = f"noised() is called {len(releases)} times in a step and the ledger charges"
    if not releases and price.count:
        return Finding("releases", f"{calls} {price.count}: give noised() the clipped sums")
    if any(one.bare for one in releases):
        remedy = "give noise_std=noise_multiplier * clip norm"
        return Finding("noise", f"noise of standard deviation 0: no epsilon holds; {remedy}")
    stds = [one.std for one in releases]
    if clip_norm is None or None in stds:
        if len(releases) <= price.count:
            return None
        remedy = "make one release a step, or charge each"
        return Finding("releases", f"{calls} {price.count}; {remedy}")
    noise = 1 / sqrt(sum((clip_norm / std) ** 2 for std in stds if std)) if stds else inf
    if noise * ROUGH >= price.noise:
        return None
    if len(releases) > price.count:
        together = f"together one release with noise multiplier {noise:.3g}, not {price.noise:.3g}"
        remedy = "make one release a step, or charge each"
        return Finding("releases", f"{calls} {price.count}: {together}; {remedy}")
    return Finding(
        "noise",
        f"noise of standard deviation {stds[0]:.3g} on a sum that a record moves by "
        f"{clip_norm:.3g} is a noise multiplier of {noise:.3g}, and {price.noise:.3g} is charged; "
        "give noise_std=noise_multiplier * clip norm, and divide what is noised",
    )


def at_noise_drawn(base: Run, other_seed: Run) -> Iterator[Finding]:
    """Whether each release has noise of its own, another one for another seed."""
    first, second = ([call for step in run.releases for call in step] for run in (base, other_seed))
    pairs = [*zip(first, second, strict=False), *combinations(first, 2)]
    if any(_same_noise(a, b) for a, b in pairs):
        yield Finding(
            "noise",
            "two releases have the same noise, so that their difference has none; draw it from "
            "rng, which goes on from step to step",
        )


def _same_noise(one: Noised, other: Noised) -> bool:
    pairs = zip(one.noise(), other.noise(), strict=False)
    gaps = [(a - b).square() for a, b in pairs if a.shape == b.shape]
    flat = torch.cat([gap[~gap.isnan()] for gap in gaps]) if gaps else torch.ones(0)
    return len(flat) >= FEW and bool(flat.mean() < ALIKE**2)


def draws(changed: Sequence[str]) -> Finding:
    """Two runs on one batch are not alike."""
    return Finding(
        "draws",
        f"{_listed(changed)} differ between two runs on the same batch: draw all random numbers "
        "from rng, and keep all that outlives a step in what new_gan returns. Nothing else was "
        "compared",
    )


def stopped(how: str, error: Exception) -> Finding:
    """The step runs on the batch, and not on its neighbour."""
    return Finding(
        "stopped",
        f"the step raises where one record {how} ({type(error).__name__}: {error}): whether a run "
        "goes on must not hang on one record; clip it, or refuse it before training",
    )


def at_noise(pairs: Sequence[Compared]) -> Iterator[Finding]:
    """Whether the noise, or how often it is added, hangs on the records."""
    for (how, *_), base, run in pairs:
        for a, b in zip(base.releases, run.releases, strict=True):
            if [[s.shape for s in one.sums] for one in a] != [
                [s.shape for s in one.sums] for one in b
            ]:
                remedy = "noise the same sums whatever the records are"
                yield Finding("releases", f"other sums are noised where one record {how}; {remedy}")
                return
            if any(
                not (one == two).all()
                for x, y in zip(a, b, strict=True)
                for one, two in zip(x.stds, y.stds, strict=True)
            ):
                remedy = "take noise_std from public numbers"
                yield Finding(
                    "noise",
                    f"the noise is {_size(b):.6g} where one record {how}, and {_size(a):.6g} on "
                    f"the batch itself; {remedy}",
                )
                return


def _size(releases: Sequence[Noised]) -> float:
    return max(float(std.max()) for one in releases for std in one.stds)


def at_bits(pairs: Sequence[Compared]) -> Iterator[Finding]:
    """Whether what was not noised is the same to the bit where a record is replaced."""
    differ = [(pair.neighbour.how, differing(pair.base, pair.run)) for pair in pairs]
    changed = sorted({name for _, names in differ for name in names})
    if changed:
        hows = list(dict.fromkeys(how for how, names in differ if names))
        yield Finding(
            "not noised",
            f"{_listed(changed)} differ after the step where one record {', or '.join(hows)}, "
            "although noised() returned the same; compute them from what noised() returns, from "
            "public numbers and from fresh draws",
        )


def at_size(pairs: Sequence[Compared]) -> Iterator[Finding]:
    """Whether anything but the sums knows how many records the batch holds."""
    for pair in pairs:
        if names := differing(pair.base, pair.run, sizes_differ=True):
            yield Finding(
                "batch size",
                f"{_listed(names)} depend on how many records the batch holds, which the price "
                "takes to be hidden; divide by the expected batch size, and generate a fixed "
                "number of examples",
            )


def farthest(pairs: Sequence[Compared], price: Price, clip_norm: float | None) -> tuple[float, str]:
    """How far a record moves what is noised at most, and which; NaN where nothing is comparable."""
    moved = [(pair.moves(price, clip_norm), pair.neighbour.how) for pair in pairs]
    return max((one for one in moved if not isnan(one[0])), default=(nan, ""))


def at_movement(
    by: float, how: str, *, allowed: float, clip_norm: float | None
) -> Iterator[Finding]:
    """Whether a record moves what is noised by more than is charged."""
    if by > allowed * ROUGH:
        neighbour = "left out" if allowed == 1 else "replaced"
        unit = " (deviations of the noise over the charged noise multiplier)"
        yield Finding(
            "sensitivity",
            f"what is noised moves by {by:.3g} clip norms{'' if clip_norm else unit} where one "
            f"record {how}, and {allowed:g} is charged for a record that is {neighbour}; clip all "
            "that depends on a record together, let it depend on no other record, and noise the "
            "sum before it is divided",
        )


def _listed(names: Sequence[str]) -> str:
    """How many tensors of which network or optimiser."""
    owners = Counter(name.partition(".")[0] or "a tensor" for name in names)
    return ", ".join(
        f"{owner} ({count} tensor{'s'[: count > 1]})" for owner, count in owners.items()
    )

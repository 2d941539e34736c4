"""Check a hand-written step: the changes by one record, in its noised sums and elsewhere.

On each neighbouring batch, `noised` returns what it returned on the batch itself. What still
differs after the step has read the private records another way.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import inf, isnan, nan, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpkit.audit.training.white_box import Noised, StepTrace, differing, neighbours, once, row
from dpkit.common import checks
from dpkit.privacy.ledger import Ledger, Releases
from dpkit.privacy.mechanisms import Gaussian, SampledGaussian, WithoutReplacementGaussian
from dpkit.privacy.mechanisms.base import NoGuarantee
from dpkit.privacy.sampling import Assuming
from dpkit.training.device import in_one_order

ROUNDING = 1e-3  # of a change: batches of other sizes are added up in another order
ROUGH = 1.001  # what rounding in float32 may add to a clipped sum
FEW, ALIKE = 4, 0.05  # coordinates that are compared; deviations, above the noise's own grid
ANY_SIZE = 10**9  # the rate plays no part here
SENTENCES = {
    "guarantee": "the ledger of these settings has no price: {reason}",
    "draws": "{names} differ between two runs on the same batch; draw all random numbers from rng, "
    "and keep all that outlives a step in what new_gan returns. Nothing else was compared",
    "stopped": "the step raises where one record {how} ({error}), and whether a run goes on must "
    "not depend on one record; clip it, or refuse it before training",
    "releases": "noised() is called {times} in a step{own}, and the ledger charges {count} (noise "
    "multiplier {noise:.3g} in all); give it all clipped sums at once, noise_std=noise_multiplier "
    "* clip norm, and divide what it returns",
    "noise": "two releases have the same noise, so that their difference has none; draw it from "
    "rng, which goes on from step to step",
    "sensitivity": "what is noised moves by {by:.3g} clip norms{unit} where one record {how}, and "
    "{allowed:g} is charged; clip all that depends on a record together, let it depend on no other "
    "record, and noise the sum before it is divided",
    "not noised": "{names} differ after the step where one record {how}, although noised() "
    "returned the same; compute them from what noised() returns, public numbers and fresh draws",
    "batch size": "{names} differ after the step where one record {how}, although noised() "
    "returned the same; divide by the expected batch size, and generate a fixed number of examples",
}
# how a record differs; without, and with that difference
Pairs = list[tuple[str, StepTrace, StepTrace]]


class StepFinding(NamedTuple):
    """One thing that a ledger does not cover, and what to do about it.

    kind: "guarantee", "draws", "stopped", "releases", "noise", "sensitivity", "not noised" or
        "batch size".
    """

    kind: str
    sentence: str


@dataclass(frozen=True)
class StepReport:
    """The result of `check_step`. It describes the batch: do not release that of a real one.

    findings: empty where nothing was found, which is no proof that there is nothing.
    replaced: how far replacing a record moved what is noised, at most, in clip norms; 2 is charged.
    dropped: the same of leaving a record out; 1 is charged. NaN where it could not be compared.
    runs: how often the step was run.
    """

    findings: tuple[StepFinding, ...]
    replaced: float
    dropped: float
    runs: int

    def __str__(self) -> str:
        if self.findings:
            return "\n".join(f"{kind}: {sentence}" for kind, sentence in self.findings)
        left_out = f"and one left out by {self.dropped:.3g} of 1"
        if isnan(self.dropped):
            left_out = "and what one left out moves was not compared"
        return (
            f"nothing found in {self.runs} runs: a replaced record moved what is noised by "
            f"{self.replaced:.3g} clip norms of the 2 that are charged, {left_out}. This is no "
            "proof: other records, weights or steps may show more"
        )

    def raise_if_found(self) -> None:
        """Raise ValueError with every sentence, if there is one."""
        if self.findings:
            raise ValueError(str(self))


@in_one_order()
def check_step(
    step: Callable[..., Any],
    new_gan: Callable[[], Any],
    features: Tensor,
    labels: Tensor,
    *,
    settings: Any,
    charged: Releases | None = None,
    sensitivity: float | None = None,
    public_size: int = ANY_SIZE,
    index: int = 0,
    steps: int = 1,
    seed: int = 0,
) -> StepReport:
    """Run `step` on neighbouring batches with the same draws, and compare what it leaves.

    At three places of the batch a record is replaced: by a corner of the domain, its mirror image,
    a point far outside, a copy of another record, another label. Where the price hides who takes
    part, the last record is also left out. Some twenty runs: take a small batch, and the CPU. The
    step's return value is not compared: a Record is as private as the batch.

    Args:
        step: called as `train` calls it: (gan, features, labels, settings=, index=, rng=). All
            randomness from rng or torch's global generator, all noise from `noised`.
        new_gan: makes what step is given first. All that outlives a step belongs there: the tensors
            of networks, optimisers, containers and attributes in it are compared.
        features, labels: one batch of at least 2 records, (batch, ...); made-up ones do as well.
        settings: given to step.
        charged: what one step costs; settings.ledger(public_size=, steps=1) by default.
        sensitivity: L2 distance that adding a record is declared to move the sum by: the clip norm;
            settings.clipping's by default, else it is judged by the noise alone.
        public_size: declared number of records, where the settings are of one alone.
        index: of the first step.
        steps: consecutive steps on the same batch, such as all from one update of the generator to
            the next.
        seed: of initial weights and draws.

    Raises:
        ValueError: fewer than 2 records, a number is out of range, or nothing says what is charged.
            What step raises on the batch as it is passes through.
    """
    checks.whole(1, steps=steps)
    checks.whole(index=index)
    if not len(features) == len(labels) >= 2:
        raise ValueError(
            "features and labels must hold as many records each, at least 2, got "
            f"{len(features)} and {len(labels)}; give a small batch"
        )
    price = _price(settings, charged, sensitivity, public_size=public_size)
    rows, indices = len(features), range(index, index + steps)
    of = partial(once, step, new_gan, settings=settings, indices=indices, rows=rows)
    base, again = (of((features, labels), seed=seed) for _ in range(2))
    found = list(_at_price(base, price))
    if unlike := list(_at_rest("draws", [("", base, again)])):
        return StepReport((*found, *unlike), nan, nan, runs=2)

    found += _at_noise_drawn(base, of((features, labels), seed=seed + 1))
    beside = [*neighbours(features, labels, seed=seed)]
    if price.hides_participation:
        beside.append(("is left out", rows, features[:-1], labels[:-1]))
    ran = []
    for how, place, *batch in beside:
        try:
            ran.append((how, place, of(batch, seed=seed, like=base)))
        except Exception as error:
            found.append(
                StepFinding(
                    "stopped",
                    SENTENCES["stopped"].format(
                        how=how, error=f"{type(error).__name__}: {error}"
                    ),
                )
            )
    replaced = [(how, base, other) for how, place, other in ran if place < rows]
    shorter = [(how, base, other) for how, place, other in ran if place == rows]
    with_it = [base, *(other for _, place, other in ran if place == rows - 1)]
    dropping = [
        (how, longer, other)
        for how, _, other in shorter
        for longer in with_it
        if longer.shapes == other.shapes  # the same draws
    ]
    found += _at_rest("not noised", replaced)
    found += _at_rest("batch size", shorter, rough=ROUNDING)
    moved, replacing = _at_movement(replaced, price, allowed=2.0)
    dropped, leaving_out = _at_movement(dropping, price, allowed=1.0)
    findings = dict.fromkeys([*found, *replacing, *leaving_out])  # each once
    return StepReport(tuple(findings), moved, dropped, runs=3 + len(beside))


class _Price(NamedTuple):
    """The charge for one step."""

    count: int
    noise: float  # multiplier of the one release that costs as much; NaN without a guarantee
    hides_participation: bool
    reason: str  # why there is no guarantee
    clip_norm: float  # declared distance that adding a record moves the sum by; NaN: none is

    def declared_noise(self, releases: Sequence[Noised]) -> float:
        """Multiplier of a step's noise, by the clip norm; NaN without one, or of many noises."""
        stds = row(releases, "stds").unique().tolist()
        return stds[0] / self.clip_norm / sqrt(len(releases)) if len(stds) == 1 else nan


def _price(
    settings: Any, charged: Releases | None, sensitivity: float | None, *, public_size: int
) -> _Price:
    """The charge for a step, as given or by the settings' ledger (ValueError: neither)."""
    if charged is None and not hasattr(settings, "ledger"):
        raise ValueError("settings must have a ledger; or give charged=[Release(mechanism)]")
    own = settings.ledger(public_size=public_size, steps=1) if charged is None else charged
    charges = Ledger.of(own).releases
    releases = [(_plain(mechanism), times) for mechanism, times in charges]
    inverse = sum(times / _multiplier(mechanism) ** 2 for mechanism, times in releases)
    bound = getattr(getattr(settings, "clipping", None), "sensitivity", lambda _: nan)
    norm = (
        bound("add-remove")
        if sensitivity is None
        else checks.positive(sensitivity=sensitivity)
    )
    return _Price(
        count=sum(times for _, times in charges),
        noise=1 / sqrt(inverse) if charges else inf,
        hides_participation=all(
            getattr(one, "hides_participation", False) for one, _ in charges
        ),
        reason="; ".join(one.reason for one, _ in releases if isinstance(one, NoGuarantee)),
        clip_norm=norm if 0 < norm < inf else nan,
    )


def _plain(mechanism: Any) -> Any:
    return _plain(mechanism.one) if isinstance(mechanism, Assuming) else mechanism


def _multiplier(mechanism: Any) -> float:
    """Noise standard deviation over the clip norm; NaN without a guarantee."""
    if isinstance(mechanism, NoGuarantee):
        return nan
    if isinstance(mechanism, WithoutReplacementGaussian):
        # a replaced record moves the sum by 2 norms
        return 2 * mechanism.noise_over_sensitivity
    one = getattr(mechanism, "one", mechanism)  # for all groups or coordinates
    if isinstance(one, SampledGaussian | Gaussian):
        return one.noise_multiplier
    raise ValueError(f"charged must hold Gaussian releases, got {type(mechanism).__name__}")


def _at_price(base: StepTrace, price: _Price) -> Iterator[StepFinding]:
    """Compare the number of releases, and their noise, with the charge."""
    if isnan(price.noise):
        yield StepFinding("guarantee", SENTENCES["guarantee"].format(reason=price.reason))
        return
    for releases in base.releases:
        calls, noise = len(releases), price.declared_noise(releases)
        as_often = min(price.count, 1) <= calls <= price.count
        little = noise * ROUGH < price.noise
        if little or (isnan(noise) and not as_often):
            own = (
                f" (noise multiplier {noise:.3g} in all, for clip norm {price.clip_norm:.3g})"
            )
            said = SENTENCES["releases"].format(
                times="once" if calls == 1 else f"{calls} times",
                own=own * little,
                **price._asdict(),
            )
            yield StepFinding("noise" if as_often else "releases", said)


def _at_noise_drawn(base: StepTrace, other_seed: StepTrace) -> Iterator[StepFinding]:
    """Check that each release has noise of its own, another one for another seed."""
    each = [call for run in (base, other_seed) for calls in run.releases for call in calls]
    noises = [(row([one], "noisy") - row([one], "sums")) / row([one], "stds") for one in each]
    for a, b in combinations(noises, 2):
        gaps = a[: len(b)] - b[: len(a)]
        gaps = gaps[~gaps.isnan()]  # NaN where there is no noise
        if len(gaps) >= FEW and gaps.square().mean() < ALIKE**2:
            yield StepFinding("noise", SENTENCES["noise"])


def _at_rest(kind: str, pairs: Pairs, *, rough: float = 0.0) -> Iterator[StepFinding]:
    """Check that all without noise is the same: bit for bit, or to a share of its change."""
    differ = [(name, how) for how, a, b in pairs for name in differing(a, b, rough=rough)]
    if differ:
        names, hows = map(dict.fromkeys, zip(*differ, strict=True))
        owners = Counter(name.partition(".")[0] or "a tensor" for name in names)
        listed = [f"{owner} ({n} tensor{'s'[: n > 1]})" for owner, n in owners.items()]
        yield StepFinding(
            kind, SENTENCES[kind].format(names=", ".join(listed), how=", or ".join(hows))
        )


def _at_movement(
    pairs: Pairs, price: _Price, *, allowed: float
) -> tuple[float, list[StepFinding]]:
    """The largest shift of a step's noised sums by a record (NaN: unknown); findings.

    In deviations of the noise, times its multiplier: the declared one, or the one charged.
    """
    moved = [(nan, "")]
    for how, base, other in pairs:
        for one, two in zip(base.releases, other.releases, strict=True):
            a, b = row(one, "sums"), row(two, "sums")
            if a.shape == b.shape:
                gaps = torch.where(a == b, 0.0, (a - b) / row(one, "stds")).nan_to_num(nan=inf)
                noise = price.declared_noise(one)
                moved.append(
                    (float(gaps.norm()) * (price.noise if isnan(noise) else noise), how)
                )
    by, how = max((one for one in moved if not isnan(one[0])), default=moved[0])
    unit = " (deviations of the noise over the charged noise multiplier)" * isnan(
        price.clip_norm
    )
    said = SENTENCES["sensitivity"].format(by=by, unit=unit, how=how, allowed=allowed)
    return by, [StepFinding("sensitivity", said)] if by > allowed * ROUGH else []

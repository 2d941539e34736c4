"""Check a hand-written step: what does one record change beside its noised sums, and those how far?

The step runs on a batch and on neighbouring batches with the same weights and the same draws. On
each neighbour, `noised` returns what it returned on the batch itself. Whatever still differs after
the step has read the private records another way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isnan, nan
from typing import Any

from torch import Tensor

from dpkit import checks
from dpkit.privacy.ledger import Releases
from dpkit.training import step_findings as look
from dpkit.training.step_findings import Finding
from dpkit.training.step_runs import differing, neighbours, run

ROUNDING = 1e-3  # of a change: batches of other sizes are added up in another order
ANY_SIZE = 10**9  # the rate at which records are drawn plays no part here


@dataclass(frozen=True)
class StepReport:
    """What `check_step` saw. It describes the batch: do not release that of a real one.

    findings: empty where nothing was found, which is no proof that there is nothing.
    replaced: how far replacing a record moved what is noised, at most, in clip norms; 2 is charged.
    dropped: the same of leaving a record out; 1 is charged. NaN where it could not be compared.
    runs: how often the step was run.
    """

    findings: tuple[Finding, ...]
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
    price = look.price(settings, charged, sensitivity, public_size=public_size)
    indices = range(index, index + steps)
    of = partial(run, step, new_gan, settings, indices=indices, rows=len(features))
    base = of(features, labels, seed=seed)
    found = list(look.at_price(base, price))
    if changed := differing(base, of(features, labels, seed=seed)):
        return StepReport((*found, look.draws(changed)), nan, nan, runs=2)

    found += look.at_noise_drawn(base, of(features, labels, seed=seed + 1))
    beside = [*neighbours(features, labels, seed=seed)]
    if price.hides_participation:
        beside.append(("is left out", -1, features[:-1], labels[:-1]))
    ran = []
    for how, place, *batch in beside:
        try:
            ran.append((how, place, of(*batch, seed=seed, like=base)))
        except Exception as error:
            found.append(look.stopped(how, error))
    replaced = [(how, base, other) for how, place, other in ran if place >= 0]
    shorter = [(how, base, other) for how, place, other in ran if place < 0]
    with_it = [base, *(other for _, place, other in ran if place == len(features) - 1)]
    dropping = [(how, longer, other) for how, _, other in shorter for longer in with_it]
    dropping = [pair for pair in dropping if pair[1].shapes == pair[2].shapes]  # the same draws
    found += look.at_rest("not noised", replaced)
    found += look.at_rest("batch size", shorter, rough=ROUNDING)
    moved, replacing = look.at_movement(replaced, price, allowed=2.0)
    dropped, leaving_out = look.at_movement(dropping, price, allowed=1.0)
    findings = dict.fromkeys([*found, *replacing, *leaving_out])
    return StepReport(tuple(findings), moved, dropped, runs=3 + len(beside))

"""The kit's own training as targets: `Private`, and its step.

Both are private as proven: no attack may find more. They measure the part of a proven epsilon that
canaries can show.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkit import datasets
from dpkit.audit import bounds, one_run
from dpkit.audit.scores import Scores
from dpkit.papers.targets.target import DELTA, Target
from dpkit.privacy.ledger import Guarantee
from dpkit.private.plan import calibrated

COINS = "each candidate's inclusion is an independent fair coin"


@dataclass(frozen=True)
class TrainedRun:
    """The request for a run, which decides noise and price.

    Args:
        epsilon: nats, under add-remove at `DELTA`.
        steps: releases.
        rate: probability that a record is in a batch.
        records: public number of records; `rate` times it is a whole number.
    """

    epsilon: float
    steps: int
    rate: float
    records: int

    def plan(self) -> Any:
        """Noise, sampling and steps, as `Private` plans them."""
        batch_size = round(self.rate * self.records)
        asked = {"delta": DELTA, "steps": self.steps, "batch_size": batch_size}
        return calibrated(
            self.epsilon, **asked, records=self.records, public_size=self.records
        )

    def proven(self) -> Guarantee:
        """The certified accountant's bound on all its steps."""
        return self.plan().guarantee()

    def settings(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {
            "asked_epsilon": self.epsilon,
            "steps": self.steps,
            "sampling_rate": self.rate,
            "public_size": self.records,
            "data": "scikit-learn's digits",
        }


# 1,000 records beside the canaries
CANARIES = TrainedRun(8.0, 32, 0.8, 1000 + 10_000)
ALONE = TrainedRun(8.0, 4, 1.0, 101)


def canaries_in_one_run(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of twice as many canaries in one `Private` run."""
    from dpkit.audit.training import canaries

    run, included = CANARIES, one_run.coins(rng, 2 * trials)
    asked = {"epsilon": run.epsilon, "delta": DELTA, "steps": run.steps, "rate": run.rate}
    return canaries.release_scores(canaries.dirac(rng, included, **asked))


def one_canary(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of as many runs in each world, with one canary or without."""
    from dpkit.audit.training import canaries

    return canaries.one_canary(rng, trials, plan=ALONE.plan())


def _target(name: str, run: TrainedRun, **rest: Any) -> Target:
    return Target(
        f"training/{name}",
        version="mechanism",
        proven=run.proven,
        settings=run.settings() | rest.pop("settings", {}),
        data=lambda: {"digits": datasets.digits().checksum},
        **rest,
    )


TARGETS = (
    _target(
        "dirac-canaries",
        CANARIES,
        says="all releases of one run of Private, plain SGD on Poisson batches",
        where="private/model.py",
        attack="sees every release; each canary's clipped gradient is C along a weight of its own",
        scores=canaries_in_one_run,
        trials=5000,
        bound=one_run.one_run,
        assumes=(COINS,),
        settings={"canaries": 10_000},
    ),
    _target(
        "one-canary",
        ALONE,
        says="all releases of a short run by Private's step, plain SGD on full batches",
        where="private/release.py",
        attack="sees every release of many runs; the one canary's clipped gradient is C along a "
        "weight of its own",
        scores=one_canary,
        trials=1000,
        bound=bounds.gaussian,
    ),
)

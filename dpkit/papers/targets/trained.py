"""The kit's own training as targets: `Private`, its step, and `PrivateGan`.

All of it is private as proven: no attack may find more. They measure the part of a proven epsilon
that an attacker can show: much by canaries, next to nothing from a generator of ordinary records.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpkit.audit import bounds, one_run
from dpkit.audit.scores import Scores
from dpkit.papers.targets.target import DELTA, Target
from dpkit.privacy.ledger import Guarantee
from dpkit.private.plan import calibrated

COINS = "each candidate's inclusion is an independent fair coin"
PRIVATE, STEP, GAN = "private/model.py", "private/release.py", "private/gan.py"


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

    def asked(self) -> dict[str, Any]:
        """The request in the form of attacks on training."""
        return {
            "epsilon": self.epsilon,
            "delta": DELTA,
            "steps": self.steps,
            "rate": self.rate,
        }

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
GENERATOR = TrainedRun(8.0, 300, 0.1, 1200)
SAMPLES = 2000  # generated


def canaries_in_one_run(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of twice as many canaries in one `Private` run."""
    from dpkit.audit.training import canaries

    included = one_run.coins(rng, 2 * trials)
    return canaries.release_scores(canaries.dirac(rng, included, **CANARIES.asked()))


def one_canary(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of as many runs in each world, with one canary or without."""
    from dpkit.audit.training import canaries

    return canaries.one_canary(rng, trials, plan=ALONE.plan())


def generator_critic(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of twice as many candidates of one run of `PrivateGan`'s step."""
    from dpkit.audit.training import generators

    return generators.critic_scores(generators.on_half(rng, 2 * trials, **GENERATOR.asked()))


def generator_nearest(rng: np.random.Generator, trials: int) -> Scores:
    """As `generator_critic`, by nearest samples."""
    from dpkit.audit.training import generators

    trained = generators.on_half(rng, 2 * trials, **GENERATOR.asked())
    return generators.nearest_scores(rng, trained, samples=SAMPLES)


def _target(name: str, run: TrainedRun, **rest: Any) -> Target:
    return Target(
        f"training/{name}",
        version="mechanism",
        proven=run.proven,
        settings=run.settings() | rest.pop("settings", {}),
        **rest,
    )


_one_run = partial(_target, bound=one_run.one_run, assumes=(COINS,))
TARGETS = (
    _one_run(
        "dirac-canaries",
        CANARIES,
        says="all releases of one run of Private, plain SGD on Poisson batches",
        where=PRIVATE,
        attack="sees every release; each canary's clipped gradient is C along a weight of its own",
        scores=canaries_in_one_run,
        trials=5000,
        settings={"canaries": 10_000},
    ),
    _target(
        "one-canary",
        ALONE,
        says="all releases of a short run by Private's step, plain SGD on full batches",
        where=STEP,
        attack="sees every release of many runs; the one canary's clipped gradient is C along a "
        "weight of its own",
        scores=one_canary,
        trials=1000,
        bound=bounds.gaussian,
    ),
    _one_run(
        "generator-critic-score",
        GENERATOR,
        says="generator and critic of one run of PrivateGan on ordinary records",
        where=GAN,
        attack="takes the critic's score of each candidate (LOGAN); such attacks are loose",
        scores=generator_critic,
        trials=600,
        settings={"candidates": 1200},
    ),
    _one_run(
        "generator-nearest-sample",
        GENERATOR,
        says="the released generator of one run of PrivateGan on ordinary records",
        where=GAN,
        attack="compares each candidate's distance to the nearest generated image with that to the "
        "nearest of a public reference (DOMIAS); such attacks are loose",
        scores=generator_nearest,
        trials=600,
        settings={"candidates": 1200, "generated_samples": SAMPLES},
    ),
)

"""A few steps of the kit's own loop, as `check` takes them, and its verdict."""

import torch

from dpkit.audit import Report, check
from dpkit.privacy import pld
from dpkit.training import Data, generator_on, train

DELTA, BATCH, RECORDS = 1e-5, 4, 8


def checked(step, new_model, data, *, settings, charged, released, steps=2) -> Report:
    """`check` steps of which `released(model)` is given out, at the epsilon that is charged."""

    def run(records):
        seed = int(torch.randint(2**31, ()))  # another one in each of check's worlds, by its seed
        rng = generator_on(torch.device("cpu"), reproducible_seed=seed)
        model, own = new_model(), Data(*records, len(records[0]))
        list(train(step, model, own, settings=settings, rng=rng, steps=steps))
        return released(model)

    claimed = min(100.0, pld.epsilon(charged, delta=DELTA).epsilon)  # inf is no claim
    return check(run, data, claimed=claimed, delta=DELTA)


def assert_covered(report: Report, *, share: float = 0.95) -> None:
    """Nothing gets past the noise, and the worst record tried costs nearly what is charged."""
    assert report.verdict == "covered", report
    assert report.charged > share * report.claimed

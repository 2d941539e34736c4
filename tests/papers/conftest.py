"""Claims, attacks and runs of a paper ask for the same ledgers: each price counts once."""

from collections.abc import Callable

import numpy as np
import pytest


@pytest.fixture(autouse=True, scope="module")
def prices(each_ledger_is_priced_once: None) -> None:
    """What the accountant says of a ledger is kept for the next test."""


@pytest.fixture(scope="session")
def measured() -> Callable[..., float]:
    """A target -> the epsilon that its bound shows, by scores of its own or by those given."""

    def shown(target, *, trials=10, seed=0, scores=None) -> float:
        rng = np.random.default_rng(seed)
        scores = target.scores(rng, trials) if scores is None else scores
        assert np.shape(scores) == (2, trials)
        assert np.isfinite(scores).all()
        given = {"delta": target.delta, "adjacency": target.adjacency, "rng": rng}
        return target.bound(*scores, **given).epsilon

    return shown

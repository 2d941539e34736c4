"""Lower bounds on epsilon against jax-privacy's auditor: the same scores, values and times.

What it says of fixed counts is stored in tests/audit/peer_values.json, for the tests; asked again
only when its version or the question changes. It is no dependency: where it is not installed,
nothing is compared and a sentence says so.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from bench import Row, against

from dpkit.audit import bounds, one_run
from dpkit.common.records import read_json, write_json

STORE = Path(__file__).resolve().parents[1] / "audit" / "peer_values.json"
PEER = "jax-privacy"
DELTA, LEVEL = 1e-5, 0.05
ASKED: dict[str, Any] = {"delta": DELTA, "adjacency": "add-remove"}
MU = 0.9249  # epsilon 4 at delta 1e-5
DRAWS = 10_000  # a world; canaries, for one run
SEEDS = 24  # of the values that are printed, by their median


class Counted(NamedTuple):
    """Scores above the threshold in each world; in one run, canaries guessed "in"."""

    absent: int
    false_positives: int
    present: int
    true_positives: int

    @property
    def name(self) -> str:
        return f"{self.false_positives} of {self.absent}, {self.true_positives} of {self.present}"

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """(absent, present), 1 above the threshold of 1/2 and 0 below."""
        absent, present = np.zeros(self.absent), np.zeros(self.present)
        absent[: self.false_positives], present[: self.true_positives] = 1, 1
        return absent, present


COUNTED = (
    *(Counted(500, 0, 500, 50), Counted(500, 250, 500, 260)),
    *(Counted(1_000, 3, 1_000, 120), Counted(1_000, 900, 1_000, 999)),
    *(Counted(5_000, 20, 5_000, 600), Counted(5_000, 300, 5_000, 700)),
    *(Counted(50_000, 10, 50_000, 3_000), Counted(50_000, 20_000, 50_000, 22_000)),
)


def auditing() -> Any:
    """The peer's module."""
    return import_module("jax_privacy.auditing")


def theirs(scores: tuple[np.ndarray, np.ndarray], strategy: Any) -> dict[str, Callable[[], float]]:
    """What the peer can be asked of scores, by our names."""
    one = auditing().CanaryScoreAuditor(scores[1], scores[0])  # it sorts once, before any question
    how = {"threshold_strategy": strategy}
    return {
        "clopper_pearson": lambda: one.epsilon_clopper_pearson(LEVEL, DELTA, False, **how),
        "one_run": lambda: one.epsilon_one_run(LEVEL, DELTA, **how),
        "one_run_fdp": lambda: one.epsilon_one_run_fdp(LEVEL, DELTA, **how),
        "gaussian": lambda: one.epsilon_from_gdp(LEVEL, DELTA),
    }


def answer(counted: Counted) -> dict[str, float]:
    """The peer's epsilons at the one threshold."""
    asked = theirs(counted.scores(), auditing().Explicit(0.5))
    names = ("clopper_pearson", "one_run", "one_run_fdp")
    return {name: float(asked[name]()) for name in names}


def stored() -> dict[str, Any]:
    """The stored answers, by the counts' names; `question` says to what."""
    return read_json(STORE) if STORE.exists() else {"question": {}, "answers": {}}


def update() -> None:
    """Ask about all counts if anything changed, and store the answers."""
    known, question = stored(), {PEER: version(PEER), "delta": DELTA, "level": LEVEL}
    if known["question"] != question or set(known["answers"]) != {one.name for one in COUNTED}:
        answers = {one.name: answer(one) for one in COUNTED}
        content = {"question": question, "answers": answers}
        content["computed_with"] = {name: version(name) for name in ("numpy", "scipy")}
        write_json(STORE, content)


def drawn(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores of two worlds, or of canaries with their own coins: (absent, present)."""
    rng = np.random.default_rng(seed)
    if not name.startswith("one_run"):
        return rng.normal(size=DRAWS), rng.normal(size=DRAWS) + MU
    included = rng.random(DRAWS) < 0.5
    scores = rng.normal(size=DRAWS) + MU * included
    return scores[~included], scores[included]


OURS: dict[str, Any] = {
    **{"clopper_pearson": bounds.clopper_pearson, "likelihood_ratio": bounds.likelihood_ratio},
    **{"one_run": one_run.one_run, "one_run_fdp": one_run.one_run_fdp, "gaussian": bounds.gaussian},
}
COMPARED = {name: name for name in OURS} | {"likelihood_ratio": "clopper_pearson"}


def contenders(name: str, seed: int) -> dict[str, Callable[[], float]]:
    """Both ways to bound epsilon by the same scores, with a split of a tenth where they split."""
    scores = drawn(name, seed)
    rng = np.random.default_rng(seed)
    return {
        "dpkit": lambda: OURS[name](*scores, **ASKED, rng=rng).epsilon,
        "peer": lambda: theirs(scores, auditing().Split(0.1, seed))[COMPARED[name]](),
    }


def rows() -> Iterator[Row]:
    """One row a bound; its name has the median epsilons of both, of a true 4."""
    try:
        peer = f"{PEER} {version(PEER)}"
    except PackageNotFoundError:
        print(f"audit: {PEER} is not installed (pip install {PEER}), so nothing is compared")
        return
    update()
    for name in OURS:
        found = {who: [] for who in ("dpkit", "peer")}
        for seed in range(SEEDS):
            for who, ask in contenders(name, seed).items():
                found[who].append(ask())
        label = f"{name}: {median(found['dpkit']):.2f}, peer {median(found['peer']):.2f}"
        both = contenders(name, 0)
        yield against(label, both["dpkit"], peer, both["peer"], repeats=3)

"""Tables: the marginals of `PrivateTable` beside MST and AIM, by one protocol.

All are told each column's categories and the number of records; one row of ours is told as well
that income is to be predicted. `comparison.peers` runs the others, by the Python of `DPKIT_PEERS`.
"""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpkit import datasets
from dpkit.common.progress import Progress
from dpkit.common.records import describe
from dpkit.datasets import ADULT_8
from dpkit.papers.comparison import peers
from dpkit.papers.comparison.tables import TABULAR_EPSILONS, run_name
from dpkit.papers.experiments import store
from dpkit.papers.experiments.store import Part, Result, Values, part_name
from dpkit.privacy import pld
from dpkit.synthesizers import marginals
from dpkit.synthesizers.marginals import MarginalsSettings

DELTA = 1e-5
SIZES = tuple(column.size for column in ADULT_8.columns)
TARGETS = {"marginals_target": len(SIZES) - 1, "marginals": None}  # income, or none is told


def plan_table(
    data: str, *, scale: str, seeds: int, device: str, progress: Progress
) -> list[Part]:
    """What a table of each method teaches a classifier, and how near its shares come.

    Args:
        data: "adult" (of `datasets.adult_8`) or "census"; at the scales "reduced" and "small" the
            census, without MST and AIM.
        scale: "paper" or "reduced" (20,000 records), or "small" (500).
        seeds: runs of each method; those of MST and AIM do not repeat.
    """
    del device, progress
    full = scale == "paper"
    rows, where = 500 if scale == "small" else 20_000, data if full else "census"
    methods = ("real", *TARGETS, "mst", "aim") if full else ("real", *TARGETS)
    asked = product(range(seeds), TABULAR_EPSILONS if full else (1.0,), methods)
    return [
        _part(where, rows, method, epsilon, seed)
        for seed, epsilon, method in asked
        if method != "real" or epsilon == 1
    ]


def _part(data: str, rows: int, method: str, epsilon: float, seed: int) -> Part:
    known: Values = {"method": method, "records": rows}
    scored = partial(_score, data, rows, seed)
    if method == "real":
        return Part(part_name(method, seed), known, seed, partial(scored, _resampled))
    known |= {"epsilon": epsilon, "delta": DELTA}
    if method in TARGETS:
        target = TARGETS[method]
        ours = marginals.settings_for(epsilon, delta=DELTA, sizes=SIZES, target=target)
        known["method"] = describe(ours)
        make, prices = partial(_fitted, ours), partial(_price, ours)
    else:
        known["packages"] = peers.PEERS
        make, prices = partial(peer_rows, method, epsilon=epsilon), partial(_claim, epsilon)
    name = part_name(run_name(method, epsilon), seed)
    return Part(name, known, seed, partial(scored, make, prices), prices=prices)


def _claim(epsilon: float, _: Values) -> Values:
    """A peer's epsilon, as its package has it: not checked here."""
    return {"epsilon_claimed": epsilon, "delta": DELTA, "method": "its package's own"}


def _price(ours: MarginalsSettings, _: Values) -> Values:
    return store.priced(pld.epsilon(ours.ledger(), delta=DELTA), claimed=None)


def _resampled(codes: np.ndarray, *, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(codes, len(codes))


def _fitted(ours: MarginalsSettings, codes: np.ndarray, *, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    model = marginals.fit(codes, settings=ours, public_size=len(codes), rng=rng)
    return model.sample(len(codes), rng=rng)


def _score(
    data: str,
    rows: int,
    seed: int,
    make: Callable[..., np.ndarray],
    prices: Callable[[Values], Values] = dict,
) -> Result:
    """Draw as many rows as there are records, and score them."""
    load = datasets.adult_8 if data == "adult" else datasets.census
    frames = {split: load(split=split) for split in ("train", "test")}
    train, test = (ADULT_8.codes(frame)[:rows] for frame in frames.values())
    found = scores(make(train, seed=seed), train, test, seed=seed)
    checksums = {f"{data} {split}": one.attrs["checksum"] for split, one in frames.items()}
    return Result(found | prices(found), checksums, "cpu")


def peer_rows(method: str, codes: np.ndarray, *, epsilon: float, seed: int) -> np.ndarray:
    """As many rows of a peer's model as records of codes (records, columns of ADULT_8).

    Raises:
        ValueError: `DPKIT_PEERS` is no program.
        RuntimeError: the peer failed; the message ends as its own does.
    """
    python = which(os.environ.get("DPKIT_PEERS", ""))
    if python is None:
        wanted = " ".join(f"{name}=={one}" for name, one in peers.PEERS.items())
        raise ValueError(
            "DPKIT_PEERS must name a Python: by `python -m venv peers; "
            f"peers/bin/pip install {wanted}`, DPKIT_PEERS=peers/bin/python"
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        np.savez(path, codes=codes, sizes=SIZES)
        words = (peers.__file__, method, epsilon, DELTA, seed, path)
        told = subprocess.run([python, *map(str, words)], capture_output=True, text=True)
        if told.returncode:
            raise RuntimeError(f"{method} failed: {told.stderr[-1_000:]}")
        return np.load(path.with_suffix(".npy"))


def scores(made: np.ndarray, train: np.ndarray, test: np.ndarray, *, seed: int) -> Values:
    """AUROC on `test` of two classifiers of income that `made` teaches; distance to `train`.

    The mean total variation over columns, and over pairs of columns, in [0, 1]. A table with one
    income teaches nothing: .5. All are codes of ADULT_8, (rows, 8).
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    from dpkit.papers.rdp_gan import tasks  # which needs torch

    columns = [
        tasks.total_variation(made[:, i], train[:, i], size) for i, size in enumerate(SIZES)
    ]
    found = {
        "one_way": float(np.mean(columns)),
        "two_way": tasks.pair_distance(made, train, SIZES),
    }
    (seen, incomes), (unseen, truth) = map(tasks.split_income, (made, test))
    classifiers: dict[str, Any] = {
        "logistic": LogisticRegression(max_iter=1_000),
        "boosting": HistGradientBoostingClassifier(random_state=seed),
    }
    if len(np.unique(incomes)) == 1:
        return found | dict.fromkeys(classifiers, 0.5)
    return found | {
        name: float(roc_auc_score(truth, one.fit(seen, incomes).predict_proba(unseen)[:, 1]))
        for name, one in classifiers.items()
    }

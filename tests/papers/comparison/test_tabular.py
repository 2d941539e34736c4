"""Tables of several synthesizers: scores, parts and prices, and how the peers are run."""

import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from dpkit import datasets
from dpkit.common.progress import silent
from dpkit.datasets import ADULT_8
from dpkit.papers.comparison import peers, tables, tabular
from dpkit.papers.comparison.experiments import PLANS

ONCE = {"seeds": 1, "device": "cpu", "progress": silent}
CENSUS = [datasets.census(split=split, rows=2_000) for split in ("train", "test")]
TRAIN, TEST = map(ADULT_8.codes, CENSUS)


def test_parts_of_the_small_scale_have_a_ceiling_and_a_price():
    parts = {one.name: one.compute().values for one in PLANS["adult"](**ONCE, scale="small")}
    assert list(parts) == ["real-seed0", "marginals_target-eps1-seed0", "marginals-eps1-seed0"]
    scores = [values[name] for values in parts.values() for name in tables.TABULAR_SCORES]
    assert 0 <= min(scores) <= max(scores) <= 1
    real, *private = parts.values()
    assert "epsilon_proven" not in real
    for values in private:
        assert 0.99 < values["epsilon_proven"] <= 1
        assert real["two_way"] < values["two_way"]
    rows = tables.tabular_rows({name: {"values": values} for name, values in parts.items()})
    assert [row["epsilon"] for row in rows] == [None, 1, 1]


def test_distances_are_those_of_cross_tables():
    made = np.random.default_rng(1).permuted(TRAIN, axis=0)  # columns as they are, no pairs
    found = tabular.scores(made, TRAIN, TEST, seed=0)
    assert found["one_way"] == 0
    crossed = [
        [pd.crosstab(a[:, i], a[:, j]) for a in (made, TRAIN)] for i, j in combinations(range(8), 2)
    ]
    apart = [one.sub(other, fill_value=0).fillna(0).abs().sum(axis=None) for one, other in crossed]
    assert found["two_way"] == pytest.approx(np.mean(apart) / 2 / 2_000)


def test_what_records_teach_is_more_than_what_one_income_or_any_does():
    told = tabular.scores(TRAIN, TRAIN, TEST, seed=0)
    alike, mixed = TRAIN.copy(), TRAIN.copy()
    alike[:, -1] = 0
    np.random.default_rng(0).shuffle(mixed[:, -1])
    for name in ("logistic", "boosting"):
        assert told[name] > 0.8
        assert tabular.scores(alike, TRAIN, TEST, seed=0)[name] == 0.5
        assert abs(tabular.scores(mixed, TRAIN, TEST, seed=0)[name] - 0.5) < 0.15


def test_rows_are_drawn_from_joint_shares():
    joint = np.array([[[0.0, 3], [1, 2]], [[2, 2], [0, 0]]])
    rows = peers.drawn(joint, 40_000, rng=np.random.default_rng(0))
    found = np.histogramdd(rows, bins=[np.arange(3) - 0.5] * 3)[0] / 40_000
    np.testing.assert_allclose(found, joint / 10, atol=0.012)  # 5 standard errors: 5e-6
    assert not found[joint == 0].any()


def test_peers_run_by_a_python_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("DPKIT_PEERS", str(tmp_path / "python"))
    with pytest.raises(ValueError, match=r"DPKIT_PEERS must name a Python: .*synth==1\.0\.8"):
        tabular.peer_rows("mst", TRAIN, epsilon=1.0, seed=0)
    monkeypatch.setenv("DPKIT_PEERS", sys.executable)
    with pytest.raises(RuntimeError, match=r"(?s)mst failed: .*smartnoise-synth"):
        tabular.peer_rows("mst", TRAIN, epsilon=1.0, seed=0)
    echo = "numpy.save(sys.argv[-1][:-1] + 'y', numpy.load(sys.argv[-1])['codes'][::-1])"
    (tmp_path / "echo.py").write_text(f"import numpy, sys\n{echo}\n")
    monkeypatch.setattr(peers, "__file__", str(tmp_path / "echo.py"))
    np.testing.assert_array_equal(tabular.peer_rows("aim", TRAIN, epsilon=1.0, seed=0), TRAIN[::-1])

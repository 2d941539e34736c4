"""Tables of several synthesizers: scores, parts and prices, and how the peers are run."""

import sys

import numpy as np
import pandas as pd
import pytest

from dpkit import datasets
from dpkit.common.progress import silent
from dpkit.datasets import ADULT_8
from dpkit.papers.comparison import peers, tables, tabular
from dpkit.papers.comparison.experiments import PLANS

ONCE = {"seeds": 1, "device": "cpu", "progress": silent}
TRAIN, TEST = (
    ADULT_8.codes(datasets.census(split=split, rows=2_000)) for split in ("train", "test")
)


def test_parts_of_the_small_scale_have_a_ceiling_and_a_price():
    parts = {one.name: one.compute().values for one in PLANS["adult"](**ONCE, scale="small")}
    assert list(parts) == ["real-seed0", "marginals_target-eps1-seed0", "marginals-eps1-seed0"]
    assert all(
        0 <= values[name] <= 1 for values in parts.values() for name in tables.TABULAR_SCORES
    )
    real, *private = parts.values()
    assert "epsilon_proven" not in real
    for values in private:
        assert 0.99 < values["epsilon_proven"] <= 1
        assert real["two_way"] < values["two_way"]
    rows = tables.tabular_rows({name: {"values": values} for name, values in parts.items()})
    assert [row["epsilon"] for row in rows] == [None, 1.0, 1.0]


def test_distances_are_those_of_cross_tables():
    made = np.random.default_rng(1).permuted(TRAIN, axis=0)  # columns as they are, no pairs
    found = tabular.scores(made, TRAIN, TEST, seed=0)
    assert found["one_way"] == 0
    distances = []
    for one in range(8):
        for other in range(one):
            both = [pd.crosstab(a[:, one], a[:, other]) for a in (made, TRAIN)]
            apart = both[0].sub(both[1], fill_value=0).fillna(0)
            distances.append(apart.abs().to_numpy().sum() / 2 / 2_000)
    assert found["two_way"] == pytest.approx(np.mean(distances))


def test_what_records_teach_is_more_than_what_one_income_or_any_does():
    told = tabular.scores(TRAIN, TRAIN, TEST, seed=0)
    alike = TRAIN.copy()
    alike[:, -1] = 0
    mixed = TRAIN.copy()
    mixed[:, -1] = np.random.default_rng(0).permutation(mixed[:, -1])
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
    monkeypatch.delenv("DPKIT_PEERS", raising=False)
    with pytest.raises(ValueError, match=r"DPKIT_PEERS is not set: .*smartnoise-synth==1\.0\.8"):
        tabular.peer_rows("mst", TRAIN, epsilon=1.0, seed=0)
    monkeypatch.setenv("DPKIT_PEERS", sys.executable)
    with pytest.raises(RuntimeError, match=r"(?s)mst failed: .*smartnoise-synth"):
        tabular.peer_rows("mst", TRAIN, epsilon=1.0, seed=0)
    echo = tmp_path / "echo"
    words = "import numpy, sys\n_, _, *known, path = sys.argv\nprint(known)\n"
    words += 'numpy.save(path[:-1] + "y", numpy.load(path)["codes"][::-1])\n'
    echo.write_text(f"#!{sys.executable}\n{words}")
    echo.chmod(0o700)
    monkeypatch.setenv("DPKIT_PEERS", str(echo))
    np.testing.assert_array_equal(tabular.peer_rows("aim", TRAIN, epsilon=1.0, seed=0), TRAIN[::-1])

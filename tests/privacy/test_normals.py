"""Noise for numpy: its law, also where the tail begins, and the grid that it is rounded to."""

import numpy as np
import pytest
from draws import rng
from scipy import stats

from dpkit.privacy import normals

LEAST_P = 1e-8  # of two tests on fixed seeds, which right noise fails with probability 2e-8


def test_what_is_released_lies_on_a_grid_that_the_records_do_not_move():
    sums = rng(10).standard_normal(2_000) * 40
    noisy = normals.noised(sums, noise_std=3.0, rng=rng(11))
    alone = normals.noised(0 * sums, noise_std=3.0, rng=rng(11))
    assert (noisy * 16 == np.round(noisy * 16)).all()  # 1/16: 2 / 2^5
    assert np.abs(noisy - alone - sums).max() <= 1 / 16
    assert (normals.noised(sums, noise_std=0.0, rng=rng()) == sums).all()
    with pytest.raises(ValueError, match=r"noise_std must be >= 0 and finite, got nan"):
        normals.noised(sums, noise_std=np.nan, rng=rng())


def test_the_law_goes_on_where_the_tail_begins(monkeypatch):
    for tail in (0.3, 2.5):
        monkeypatch.setattr(normals, "TAIL", tail)
        draws = normals.standard_normals(100_000, rng=rng(12))
        assert stats.kstest(draws, "norm").pvalue > LEAST_P

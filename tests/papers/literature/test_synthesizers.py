"""Findings on synthesizers of tables, computed in another way."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from truths import log_moment

from dpkit.papers.literature import synthesizers as findings

PAIRS = [*product((0, 1), repeat=2)]


def test_the_recipe_of_tensorflow_privacy_gives_what_is_said():
    steps = math.ceil(20 * 30_000 / 128)
    one = {k: log_moment(k + 1, 1.0, 128 / 30_000) for k in range(4, 63)}
    said = min((steps * one[k] + math.log(1e6)) / k for k in one)
    assert said == pytest.approx(findings.ONE_NUMBER.stated, abs=1e-4)


@pytest.mark.torch
def test_functions_made_in_a_loop_draw_one_number():
    from torch import autograd, eye, nn, randn

    first = nn.Linear(3, 4)
    net = nn.Sequential(first, nn.LeakyReLU(), nn.Linear(4, 1))
    plain = [autograd.grad(net(one), first.weight)[0] for one in eye(3)]
    for w in net.parameters():
        w.register_hook(lambda g: g + randn(w.shape))  # noqa: B023
    for k in range(3):  # the record's category
        noisy = autograd.grad(net(eye(3)[k]), first.weight)[0]
        assert (noisy - plain[k]).std() < 1e-6
        assert noisy.std(0).argmax() == k  # all other columns are alike
    assert findings.ONE_NUMBER.compute() == math.inf


@pytest.mark.parametrize("p", [2, 10])
def test_the_farthest_second_moments_by_ascent(p: int):
    """Signs of the difference, then the best vectors for them."""
    found = []
    for x, y in np.random.default_rng(p).normal(size=(50, 2, p)):
        for _ in range(50):
            signs = np.where(np.outer(x, x) >= np.outer(y, y), 1, -1)
            y, *_, x = np.linalg.eigh(signs)[1].T
        found.append(np.abs(np.outer(x, x) - np.outer(y, y)).sum())
    epsilon = max(found) / (2 * math.sqrt(p))
    assert epsilon == pytest.approx(findings.of_covariance(p))


def test_a_mean_of_unit_vectors_moves_most_to_the_opposite():
    rows = np.random.default_rng(0).normal(size=(50, 100))
    rows[0] = np.where(rows[0] > 0, 1, -1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    moved = [abs(rows[0] - one).sum() / 50 for one in (*rows, *-rows)]
    assert np.argmax(moved) == 50
    assert max(moved) / (10 / 50) == pytest.approx(findings.MEAN.compute())


def test_noisy_columns_and_tables_cost_twice_epsilon():
    losses, both = [], product(PAIRS, PAIRS)
    for first, second in (([*PAIRS, one], [*PAIRS, other]) for one, other in both):
        ones = np.mean(first, axis=0) - np.mean(second, axis=0)
        cells = [first.count(cell) - second.count(cell) for cell in PAIRS]
        shares = 2 * abs(ones).sum() / (2 / 5 / 0.5)
        losses.append(shares + abs(np.array(cells)).sum() / (1 / 0.5))
    assert max(losses) == pytest.approx(findings.BUDGET.compute())


def test_the_default_seeds_noise_can_be_subtracted():
    for shares in ([0.5, 0.5], [0.499, 0.501], [0.1, 0.9]):
        stored = shares + np.random.RandomState(0).laplace(0, 0.004, 2)
        stored /= stored.sum()
        again = np.random.RandomState(0).laplace(0, 0.004, 2)
        found = stored * (1 + again.sum()) - again
        assert found == pytest.approx(shares, abs=1e-9)
    assert findings.SEED.compute() == math.inf


def test_tables_of_privbayes_move_by_two_counts_each():
    rows = np.repeat([[0] * 10, [1] * 10], 3, axis=0)
    scale, moved = 2 * (10 - 3) / (10_000 * 0.5), 0
    for chosen in [(0, 1, 2), *((0, 1, 2, child) for child in range(3, 10))]:
        was, left = (Counter(map(tuple, one[:, chosen])) for one in (rows, rows[1:]))
        moved += 2 * (was - left).total()
    assert moved / scale == pytest.approx(findings.TABLES.compute())


@pytest.mark.parametrize(("scale", "share"), [(0.0028, 1.0), (32.0, 0.5154)])
def test_a_lone_combination_shows(scale: float, share: float):
    """Within 6 standard errors (2e-9)."""
    noise = np.random.default_rng(0).laplace(scale=scale, size=10_000)
    assert (noise > -1).mean() == pytest.approx(share, abs=0.03)
    assert findings.OBSERVED.compute() == math.inf


def test_covariances_have_the_noise_of_others():
    """Of five records one is replaced; all are at ranges' ends."""
    w, found = [1.0, 100.0, 10.0], []
    scales = [6 * 2 / 5 * w[i] * w[j] for i in range(3) for j in range(i, 3)]
    ends = [*product(*((0, width) for width in w))]
    for x, y, m in product(ends, repeat=3):
        moved = np.cov(np.transpose([x, m, m, m, m])) - np.cov(np.transpose([y, m, m, m, m]))
        listed = [moved[i, j] for i in range(3) for j in range(i + 1)]
        found.append((np.abs(listed) / scales).sum())
    assert max(found) == pytest.approx(findings.ORDER.compute())

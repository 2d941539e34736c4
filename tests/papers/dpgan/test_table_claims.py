"""The claims on dpGAN's tables and on its analysis, from numbers typed from the text, and scipy."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import root_scalar
from scipy.spatial.distance import jensenshannon
from scipy.stats import norm

from dpkit.papers.claims import check, outcome
from dpkit.papers.dpgan import claims
from dpkit.papers.dpgan.variants import CONFIGURATIONS

BY_ID = {claim.id.removeprefix("dpgan/"): claim for claim in claims.CLAIMS}

ALONE = {"lsun": (0.538, 0.650, 0.665, 0.733), "mnist": (0.720, 0.824, 0.874, 0.909, 0.934)}
BOTH = {
    "lsun": ((0.615, 0.661, 0.699, 0.755), (0.571, 0.669, 0.695, 0.737)),
    "mnist": ((0.567, 0.802, 0.824, 0.895, 0.923), (0.569, 0.747, 0.835, 0.884, 0.903)),
}


def test_layouts_by_trying_all_tables_of_marks():
    """Rows as bits; every choice of five rows beside the empty one, with their order left out."""
    found = {
        frozenset(rows)
        for rows in product(range(1, 16), repeat=5)
        if len(set(rows)) == 5
        and sorted(row.bit_count() for row in rows) == [1, 1, 2, 2, 3]
        and [sum(row >> bit & 1 for row in rows) for bit in range(4)] == [3, 1, 4, 1]
    }
    bit = {name: 1 << place for place, name in enumerate(claims.STRATEGIES)}
    theirs = {
        frozenset(sum(bit[name] for name in row) for row in rows if row)
        for rows in claims.layouts()
    }
    assert theirs == found
    assert len(found) == 2
    assert check(BY_ID["table-9"]).computed == sum(0b1110 in rows for rows in found) == 0
    without_both = [rows for rows in found if not any(row & 3 == 3 for row in rows)]
    assert [max(rows, key=int.bit_count) for rows in without_both] == [0b1101]
    assert check(BY_ID["table-9"]).verdict == "cannot be checked"  # it rests on lost names


def test_the_kit_runs_the_layout_that_is_left():
    kinds = {"tensors": set(), "biases": {"weight/bias"}, "clusters": {"automatic"}}
    ours = {
        frozenset(
            kinds[one.grouping]
            | ({"estimation"} if one.adaptive else set())
            | ({"warm start"} if one.warm else set())
        )
        for name, one in CONFIGURATIONS.items()
        if name not in ("warm", "all")
    }
    assert ours in [set(rows) for rows in claims.layouts()]


def test_ratios_of_table_7():
    ratios = [780 / 560, 4070 / 2910, 19300 / 15010, 31670 / 24630]
    assert check(BY_ID["almost-doubles"]).computed == pytest.approx(sum(ratios) / 4, rel=1e-12)
    said = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    assert said in BY_ID["almost-doubles"].explanation
    assert outcome(BY_ID["almost-doubles"], 1.8) == "holds"


@pytest.mark.parametrize(
    ("name", "of", "cells", "verdict"),
    [
        ("steadily-outperforms", "lsun", 8, "holds"),
        ("steadily-outperforms-mnist", "mnist", 10, "fails"),
    ],
)
def test_cells_in_which_generated_images_help(name: str, of: str, cells: int, verdict: str):
    gains = np.array(BOTH[of]) - np.array(ALONE[of])
    found = check(BY_ID[name])
    assert gains.size == cells == found.claim.stated
    assert (found.computed, found.verdict) == ((gains > 0).sum(), verdict)
    ranges = [gains.ravel()] if of == "lsun" else list(-gains)
    for least, most in ((min(one), max(one)) for one in ranges):
        assert f"{100 * least:.1f} to {100 * most:.1f}" in found.explanation


def test_six_per_cent_in_points_and_of_the_accuracy():
    points, relative = BY_ID["more-than-6-per-cent"], BY_ID["more-than-6-per-cent-relative"]
    assert check(points).computed == pytest.approx(0.033, abs=1e-9)
    assert check(relative).computed == pytest.approx(33 / 538, rel=1e-9)
    assert (check(points).verdict, check(relative).verdict) == ("fails", "holds")
    assert f"{100 * (0.669 / 0.650 - 1):.1f} %" in relative.explanation


def js(sure: float) -> float:
    """Of scipy, whose function is the root of the divergence."""
    return float(jensenshannon([sure, 1 - sure], [0.5, 0.5], base=2)) ** 2


def test_how_sure_a_discriminator_is_at_a_score():
    text = BY_ID["js-near-its-maximum"].explanation
    most = js(1.0)
    assert f"{most:.4f}".removeprefix("0") in text
    for score in (0.25, 0.29):
        alike = root_scalar(lambda sure, score=score: js(sure) - score, bracket=(0.5, 1.0)).root
        assert f"{100 * alike:.1f} %" in text
        # the least average: some images as unsure as can be, the others sure
        low = np.linspace(0.5, alike, 1_001)
        mixed = [1 - (1 - one) * (most - score) / (most - js(one)) for one in low]
        found = claims.sure_at_least(score)
        assert found == pytest.approx(min(mixed), abs=1e-9)
    assert f"{100 * claims.sure_at_least(0.25):.1f} %" in text
    assert check(BY_ID["js-near-its-maximum"]).computed == claims.sure_at_least(0.29)
    assert outcome(BY_ID["js-near-its-maximum"], 0.7) == "holds"


def test_the_noise_that_the_lemma_needs():
    noises = [math.sqrt(2 * math.log(1.25e4)) / share for share in (4, 8, 10)]
    found = check(BY_ID["theorem-3.1-conditions"])
    assert found.computed == pytest.approx(min(noises), rel=1e-12)
    for noise in noises:
        assert f"{noise:.3f}".removeprefix("0") in found.explanation
    # the largest integer below sigma^2 ln(1 / (q sigma))
    bound = noises[0] ** 2 * math.log(49_000 / 256 / noises[0])
    assert f"moments up to {int(bound)}" in found.explanation
    assert outcome(found.claim, 1.086) == "holds"


def test_a_sampled_batch_by_quadrature():
    """Delta of (1-q) N(0) + q N(1) against N(0), the larger of both directions, from densities."""
    q, noise = 256 / 2_450_000, math.sqrt(2 * math.log(1.25e4)) / 10
    epsilon = claims.of_a_batch()

    def mixed(x: float) -> float:
        return float((1 - q) * norm.pdf(x, 0, noise) + q * norm.pdf(x, 1, noise))

    def above(x: float) -> float:
        return mixed(x) - math.exp(epsilon) * float(norm.pdf(x, 0, noise))

    delta = quad(lambda x: max(above(x), 0.0), 0, 6, limit=500, epsabs=1e-16)[0]
    assert delta == pytest.approx(q * 1e-4, rel=1e-6)
    other = quad(
        lambda x: max(norm.pdf(x, 0, noise) - math.exp(epsilon) * mixed(x), 0.0), -3, 3, limit=500
    )[0]
    assert other <= delta


def test_the_linear_theorem_at_epsilon_10():
    q, claim = 256 / 2_450_000, BY_ID["linear-subsampling"]
    assert claim.stated == pytest.approx((math.e - 1) * q * 10, rel=1e-12)
    exact = math.log(1 - q + q * math.exp(10))
    assert f"it is {exact:.2f}" in claim.explanation
    assert check(claim).computed > exact > 500 * 1.72 * q * 10
    assert outcome(claim, 0.001) == "holds"


@pytest.mark.stored
def test_the_stored_generator_stood_still():
    found = check(BY_ID["generator-step"])
    assert (found.computed, found.verdict) == (0.0, "fails")
    assert outcome(found.claim, 1e-4) == "holds"
    assert "4e-04" in found.explanation or "0.0004" in found.explanation


@pytest.mark.torch
def test_a_generator_that_is_trained_moves():
    """Adam's first step is its rate, 2e-4, in every weight."""
    values = claims.generator_moves(iterations=1).values
    assert values["snapshot"] == 0.0
    assert values["trained"] == pytest.approx(2e-4, rel=1e-2)

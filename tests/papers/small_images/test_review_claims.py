"""What small_images says of others, and what stored curves answer, by PyTorch and plain loops."""

import json
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest

from dpkit.common import paths
from dpkit.papers.claims import check, outcome
from dpkit.papers.small_images import adam, claims, findings

BY_ID = {claim.id.removeprefix("small_images/"): claim for claim in claims.CLAIMS}
STORED = paths.results_dir() / "small_images"


def column(table: str, part: str, name: str) -> list[float]:
    """As it lies in the file."""
    record = json.loads((STORED / table / "reduced" / f"{part}.json").read_text())
    return record["values"]["curve"][name]


def test_verdicts_and_where_they_turn():
    found = {
        "classifier-accuracy": ("holds", 0.98),
        "adam-defaults": ("fails", 0.9),
        "xie-algorithm-published": ("fails", float("inf")),
        "cifar10": ("fails", 2.0),
        "other-normalising-optimisers": ("holds", 0.1),
        "large-networks-clip-more": ("fails", 0.1),
    }
    for name, (verdict, otherwise) in found.items():
        assert check(BY_ID[name]).verdict == verdict
        assert outcome(BY_ID[name], otherwise) != verdict
    assert {check(one).verdict for one in findings.CURVES[1:]} == {"cannot be checked"}


def test_numbers_typed_from_the_sources():
    found = {name: check(BY_ID[name]).computed for name in ("adam-defaults", "cifar10")}
    assert found == {"adam-defaults": 0.5, "cifar10": 1.0}  # code: betas (0.5, 0.9)
    line = 2.0 * (64.0 / 60000.0) * sqrt(25.0) / (5.0 / 13449.216)
    assert check(BY_ID["xie-algorithm-published"]).computed == pytest.approx(line, rel=1e-12)
    right = check(BY_ID["classifier-accuracy"]).computed * 10_000
    assert right == pytest.approx(9_957, abs=1e-6)  # of 10,000 test images


@pytest.mark.torch
@pytest.mark.parametrize("name", ["RMSprop", "Adagrad"])
def test_updates_are_those_of_pytorch(name: str):
    torch = pytest.importorskip("torch")
    gradients = np.random.default_rng(1).standard_normal((30, 5))
    weights = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
    optimizer = getattr(torch.optim, name)([weights], lr=1.0)
    theirs = []
    for gradient in gradients:
        before = weights.detach().clone()
        weights.grad = torch.from_numpy(gradient)
        optimizer.step()
        theirs.append((before - weights.detach()).numpy())
    ours = claims.METHODS[name](gradients)
    assert np.allclose(ours, theirs, rtol=1e-9, atol=0)


def test_without_their_constants_all_methods_cancel_c():
    made = adam.Comparison(shortest=2.0)
    first, second, other = (made.means(norm) for norm in (1.0, 0.1, 100.0))
    ways = {
        "RMSprop": lambda means: adam.rmsprop(means, eps=0.0),
        "Adagrad": lambda means: adam.adagrad(means, eps=0.0),
        "normalised gradients": adam.normalised,
    }
    for name, way in ways.items():
        assert adam.difference(way(first), way(second)) < 1e-12
        assert adam.difference(way(first), way(other)) > 0.1  # regime (ii)
        assert claims.other_methods()[name] < 1e-3
    largest = max(claims.other_methods(), key=claims.other_methods().__getitem__)
    assert largest == "RMSprop"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: adam.rmsprop(np.ones((2, 2)), decay=1.0), ValueError, "decay must lie in"),
        (lambda: adam.rmsprop(np.ones((2, 2)), eps=float("nan")), ValueError, "eps must be"),
        (lambda: adam.adagrad(np.ones((2, 2)), eps=-1.0), ValueError, "eps must be"),
        (lambda: adam.normalised(np.zeros((2, 2))), ArithmeticError, "has no direction"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.stored
def test_every_gradient_looked_at_is_clipped_at_every_capacity():
    parts = [("figure_3", f"capacity-{c}-seed0") for c in (8, 32, 64)]
    parts += [("common", f"base-seed{seed}") for seed in range(3)]
    for table, part in parts:
        assert set(column(table, part, "clipped")) == {1.0}
        assert min(column(table, part, "smallest_norm")) > 1.0  # C
    assert check(BY_ID["large-networks-clip-more"]).computed == 0.0


@pytest.mark.stored
def test_norms_by_capacity():
    text = BY_ID["norm-grows-with-capacity"].explanation
    ends = {c: column("figure_3", f"capacity-{c}-seed0", "median_norm")[7] for c in (8, 64)}
    assert column("figure_3", "capacity-8-seed0", "steps")[7] == 2_000
    assert check(BY_ID["norm-grows-with-capacity"]).computed == pytest.approx(ends[64] / ends[8])
    assert f"{ends[64]:.0f} and {ends[8]:.0f}" in text
    at_16 = sorted(column("common", f"base-seed{seed}", "median_norm")[7] for seed in range(3))
    assert "{:.0f}, {:.0f} and {:.0f}".format(*at_16) in text


def jumps(table: str, part: str) -> float:
    """The spread of the last six scores' five jumps, over the scores' mean, by plain sums."""
    late = column(table, part, "inception")[6:]
    steps = [after - before for before, after in pairwise(late)]
    middle = sum(steps) / 5
    return sqrt(sum((step - middle) ** 2 for step in steps) / 5) / (sum(late) / 6)


@pytest.mark.stored
def test_fluctuations_and_crossings_by_plain_loops():
    good = [("common", f"base-seed{seed}") for seed in range(3)]
    good += [("figure_1", f"norm-0.1-seed{seed}") for seed in range(3)]
    poor = {
        one: jumps(*one) for one in [("figure_1", "norm-100-seed0"), ("figure_2", "noise-1-seed0")]
    }
    others = [
        jumps(*one)
        for one in [*good, ("figure_2", "noise-0.8-seed0"), ("figure_2", "noise-0.9-seed0")]
    ]
    claim = BY_ID["sub-optimal-fluctuates"]
    assert check(claim).computed == sum(a > b for a in poor.values() for b in others)
    for value in (*poor.values(), min(others), max(others)):
        assert f"{value:.2f}".removeprefix("0") in claim.explanation
    low = column("figure_1", "norm-100-seed0", "inception")
    crossed = 0
    for table, part in good:
        high = column(table, part, "inception")
        above = [i for i in range(12) if low[i] > high[i]]
        crossed += bool(above) and 11 not in above
        assert all(low[i] < min(1.8, high[i] + 0.4) and 250 * (i + 1) <= 1_250 for i in above)
    assert check(BY_ID["characteristics-cross"]).computed == crossed
    ends = column("figure_2", "noise-1-seed0", "epsilon_claimed")[-1]
    assert ends < 1.3 < column("figure_2", "noise-0.9-seed0", "epsilon_claimed")[0]

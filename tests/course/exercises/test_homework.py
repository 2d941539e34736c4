"""Homework: each fault is run, and what it does to noise and sensitivity is measured."""

import math

import numpy as np
import pytest

from dpkit.course.exercises import homework
from dpkit.course.exercises.homework import FAULTS, Homework, HomeworkSettings
from dpkit.privacy import Release, SampledGaussian, pld

DIRECTIONS = np.array([[1.0, 0, 0, 0], [1, 1, 1, 1], [-1, -1, 1, 1]])
LENGTHS = np.concatenate([np.geomspace(1e-2, 1e2, 81), [0.5]])
RECORDS = [length * d / np.linalg.norm(d) for d in DIRECTIONS for length in LENGTHS]
COUNTED = [n for n, f in FAULTS.items() if math.isfinite(f.covered(HomeworkSettings(1, 2)))]


class Noise:
    """A generator by which every record is drawn, and whose noise is `size` deviations."""

    def __init__(self, size: float) -> None:
        self.size = size

    def random(self, count):
        return np.zeros(count)

    def normal(self, mean, deviation, size=None):
        return self.size * deviation * np.ones(size or ())


def task(name: str, *, steps: int = 1, noise: float = 1.25) -> Homework:
    return Homework(name, HomeworkSettings(noise, FAULTS[name].clip_norm, steps=steps))


def published(one: Homework, records, rng, *, right: bool = False):
    """All numbers that the run publishes, one row a step; the gradient of a record is itself."""
    space = {"np": np, "SampledGaussian": SampledGaussian, "Release": Release, "pld": pld}
    exec(one.right if right else one.code, space)
    records = np.asarray(records).reshape(-1, 4)
    history = space["train"](records, lambda weights, record: record, rng)
    rows = [np.append(*row) if isinstance(row, tuple) else row for row in history[1:]]
    return np.array(rows), space["charged"]


def measured(one: Homework, *, right: bool = False) -> float:
    """The smallest noise multiplier of one step over all records, coordinates scaled alike."""
    none = published(one, [], Noise(0.0), right=right)[0][0]
    noisy = np.abs(published(one, [], Noise(1.0), right=right)[0][0] - none)
    moved = [published(one, [r], Noise(0.0), right=right)[0][0] - none for r in RECORDS]
    return 1 / max(np.linalg.norm(move / noisy) for move in moved)


@pytest.mark.parametrize("name", COUNTED)
def test_the_price_is_that_of_the_noise_that_is_measured(name):
    one = task(name)
    fault, charged = one.fault, one.settings.noise_multiplier
    assert measured(one, right=True) == pytest.approx(charged, rel=1e-9)
    assert measured(one) == pytest.approx(charged / fault.covered(one.settings), rel=1e-3)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_costs_more_than_is_charged(name):
    one = task(name, steps=500)
    _, charged = published(task(name), [], Noise(0.0))
    assert one.epsilon > 1.2 * charged()
    if name == "a tenth of the steps":
        _, charged = published(one, [], Noise(0.0))
        assert one.epsilon > 1.2 * charged()


def test_what_has_no_finite_epsilon_shows_the_record():
    one = task("a known seed")  # its noise is taken off
    assert np.array_equal(*(published(one, [], Noise(size))[0] for size in (0.0, 1.0)))
    one = task("one coordinate without noise")
    a, b = (published(one, r, Noise(5.0))[0][0] for r in ([], [[1.0, 0, 0, 0]]))
    assert published(one, [], Noise(0.0))[0][0][0] == a[0] != b[0]
    one = task("noise every other step", steps=2)
    quiet, noisy = (published(one, [], Noise(size))[0] for size in (0.0, 1.0))
    assert np.array_equal(np.diff(noisy, axis=0), np.diff(quiet, axis=0))
    one = task("stopped by a private loss", steps=5)
    lengths = [len(published(one, size * np.ones((1, 4)), Noise(1.0))[0]) for size in (0, 9)]
    assert lengths == [5, 1]


@pytest.mark.parametrize("name", FAULTS)
def test_line_and_epsilon_are_judged(name, capsys):
    one = task(name, steps=500)
    line = one.lines[0]
    shown = {math.inf: "none"}.get(one.epsilon, f"{one.epsilon:.3g}")
    assert one.judge(line=line, epsilon=shown).endswith(": yes.")
    assert one.judge(line=line, epsilon=one.epsilon * 1.1 if shown != "none" else 9).endswith("no.")
    told = one.judge(line=line, epsilon=one.charged)
    assert told.endswith("no, that is what was charged.")
    assert "no. Which line" in one.judge(line=8, epsilon=shown)
    for odd in ("abc", "", None, ..., 0, 99, 2.5, True, math.nan, 10**400, [line]):
        assert one.judge(line=odd, epsilon=shown).startswith("line must be a number in 1..")
    for odd in ("much", "", None, ..., -1, True, math.nan, 10**400, [3.0]):
        assert f"Line {line}: yes. epsilon must be " in one.judge(line=line, epsilon=odd)
    assert one.judge(line=f" {line}", epsilon=shown) == one.judge(line=line, epsilon=shown)
    one.check(line, shown)
    one.solution()
    assert one.fault.why in capsys.readouterr().out
    assert f"\n{line:2} " in repr(one)
    assert one.fault.why not in repr(one)


def test_one_name_always_draws_the_same_and_others_draw_others():
    assert repr(homework.draw("Ann")) == repr(homework.draw("Ann"))
    drawn = [homework.draw(str(i)) for i in range(200)]
    assert {one.name for one in drawn} == set(FAULTS)
    assert len({repr(one) for one in drawn}) > 60

"""How long a table will take: counted by a clock that the steps themselves move."""

import json
from functools import partial
from pathlib import Path

import pytest

from dpkit.experiments.estimate import BRIEF, LONG, Estimate, duration, estimate, seconds_a_step
from dpkit.experiments.part import Part, Result, Work


class Clock:
    """Seconds that only steps spend."""

    def __init__(self) -> None:
        self.now, self.steps = 0.0, 0

    def __call__(self) -> float:
        return self.now

    def work(self, what, left, *costs, **more):
        """Steps that take `costs`, the last one for ever."""

        def trial():
            for index in range(10_000):
                self.now += costs[min(index, len(costs) - 1)]
                self.steps += 1
                yield None

        return Work(what, left, trial, **more)


def part(name, *work):
    def compute() -> Result:
        raise AssertionError("an estimate computes no part")

    return Part(name, {}, 0, compute, (lambda: list(work)) if work else None)


def found(clock, *parts, stored=()):
    return estimate("figure_1", parts, stored=stored, device="cpu", clock=clock)


def test_steps_that_are_left_times_what_one_takes_after_the_first():
    clock = Clock()
    answer = found(clock, part("a", clock.work("x", 100, 0.9, 0.25)), part("b"))
    assert answer == Estimate("figure_1", 2, 0, 1, pytest.approx(25.0), "cpu")
    assert clock.steps <= 5


def test_stored_parts_are_neither_tried_nor_counted():
    clock = Clock()
    parts = (part("a", clock.work("x", 100, 0.1)), part("b", clock.work("y", 10, 0.5)))
    answer = found(clock, *parts, stored={"a"})
    assert (answer.stored, answer.seconds) == (1, pytest.approx(5.0))
    assert str(answer).startswith("figure_1: 2 parts, 1 stored; the other takes about 5 seconds")
    before = clock.steps
    assert str(found(clock, *parts, stored={"a", "b"})) == "figure_1: 2 parts, all stored"
    assert clock.steps == before


def test_like_steps_are_tried_once_and_what_is_done_not_at_all():
    clock = Clock()
    one, other = clock.work("x", 100, 0.1), clock.work("x", 40, 0.1)
    alone = found(Clock(), part("a"))
    assert (alone.seconds, alone.unknown) == (0.0, 1)
    first = found(clock, part("a", one))
    tried = clock.steps
    both = found(clock, part("a", one), part("b", other))
    assert clock.steps == 2 * tried
    assert both.seconds - first.seconds == pytest.approx(4.0)
    assert found(clock, part("a", clock.work("x", 0, 0.1))).seconds == 0
    assert clock.steps == 2 * tried


def test_what_steps_leave_to_others_is_made_once():
    clock = Clock()
    shared = clock.work("classifier", 100, 0.1, once="classifier.safetensors")
    assert found(clock, part("a", shared), part("b", shared)).seconds == pytest.approx(10.0)


def test_a_long_step_is_measurement_enough_after_one_to_warm_up():
    clock = Clock()
    assert seconds_a_step(clock.work("x", 1, LONG + 1), clock=clock) == pytest.approx(LONG + 1)
    assert clock.steps == 2
    warmed = clock.work("x", 1, LONG + 1, 0.01)
    assert seconds_a_step(warmed, clock=clock) == pytest.approx(0.01)


def test_steps_that_grow_long_are_not_tried_further():
    clock = Clock()
    assert seconds_a_step(clock.work("x", 1, 0.1, LONG), clock=clock) == pytest.approx(LONG)
    assert clock.steps == 2


def test_a_trial_may_end_early():
    clock = Clock()
    work = Work("x", 1, lambda: iter([None]))
    assert seconds_a_step(work, clock=clock) == 0.0
    short = clock.work("x", 1, 0.05)
    few = Work("x", 1, lambda: (step for _, step in zip(range(2), short.trial(), strict=False)))
    assert seconds_a_step(few, clock=clock) == pytest.approx(0.05)


def test_dearer_steps_have_their_share():
    clock = Clock()
    costs = (0.1, *(0.1, 0.1, 0.1, 0.5) * 50)  # the first warms up
    mean = seconds_a_step(clock.work("x", 1, *costs, every=4), clock=clock)
    assert mean == pytest.approx(0.2)
    assert clock.now >= BRIEF


def test_what_is_said():
    said = Estimate("figure_3", 12, 4, 0, 5.1 * 3600, "cpu")
    assert str(said) == (
        "figure_3: 12 parts, 4 stored; the other 8 take about 5.1 hours on cpu "
        "(from a few steps of each)"
    )
    assert "2 of the other 8 take" in str(said._replace(unknown=6))
    assert str(said._replace(unknown=6)).endswith("for 6 there is no estimate")
    none = str(said._replace(stored=0, unknown=12))
    assert none == "figure_3: 12 parts, none stored; there is no estimate of the time for the 12"
    one = str(Estimate("figure_3", 1, 0, 0, 60.0, "cpu"))
    assert one.startswith("figure_3: 1 part, none stored; it takes about 60 seconds on cpu")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 seconds"),
        (1.0, "1 second"),
        (45, "45 seconds"),
        (100, "1.7 minutes"),
        (1_200, "20 minutes"),
        (5.1 * 3_600, "5.1 hours"),
        (3.2 * 86_400, "3.2 days"),
    ],
)
def test_durations(seconds, said):
    assert duration(seconds) == said


def test_estimating_a_private_run_writes_nothing(tmp_path: Path, monkeypatch):
    pytest.importorskip("torch")
    from dpkit.experiments import run
    from dpkit.papers import small_images as paper
    from dpkit.papers.small_images.experiments import Curve

    monkeypatch.setattr(run, "cache_dir", lambda: tmp_path)
    settings = paper.reduced(paper.SETTINGS, capacity=2)
    curve = Curve.of("base", settings, 0, 250, device="cpu", records="digits", images=64)
    answer = estimate("figure_1", [curve.part], stored=(), device="cpu")
    assert answer.unknown == 0
    assert answer.seconds > 0
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def planned(monkeypatch):
    """A table of four parts, one without an estimate: what reproduces it, and what is computed."""
    pytest.importorskip("torch")
    from dpkit.experiments import reproduce as module
    from dpkit.papers.dp_cgan import experiments

    clock, computed = Clock(), []

    def made(name, work):
        def compute() -> Result:
            computed.append(name)
            return Result({}, {}, "cpu")

        return Part(name, {}, 0, compute, work)

    works = [clock.work("run", 1_000, 1.0)]
    parts = [made(f"run-seed{seed}", lambda: works) for seed in range(3)] + [made("fit", None)]
    monkeypatch.setitem(experiments.PLANS, "table_1", lambda **_: parts)
    monkeypatch.setattr(module, "estimate", lambda *a, **k: estimate(*a, **k, clock=clock))
    return partial(module.reproduce, plans=experiments.PLANS), computed, clock


@pytest.mark.torch
def test_it_is_told_before_the_first_part_is_computed(planned, tmp_path):
    reproduce, computed, _ = planned
    asked = {"scale": "reduced", "device": "cpu", "results": tmp_path}
    told = []

    def heard(answer):
        told.append((answer, len(computed), len(list(tmp_path.rglob("*")))))

    next(reproduce("dp_cgan", "table_1", **asked, estimated=heard))
    assert told[-1] == (Estimate("table_1", 4, 0, 1, 3_000.0, "cpu"), 0, 0)
    list(reproduce("dp_cgan", "table_1", **asked, estimated=heard))
    assert told[-1][0] == Estimate("table_1", 4, 1, 1, 2_000.0, "cpu")
    assert computed == ["run-seed0", "run-seed1", "run-seed2", "fit"]
    list(reproduce("dp_cgan", "table_1", **asked, estimated=heard))
    assert told[-1][0] == Estimate("table_1", 4, 4, 0, 0.0, "cpu")
    again = {"parts": ["run-seed1"], "recompute": True}
    next(reproduce("dp_cgan", "table_1", **asked, **again, estimated=heard))
    assert told[-1][0] == Estimate("table_1", 1, 0, 0, 1_000.0, "cpu")


@pytest.mark.torch
def test_nothing_is_tried_where_nobody_listens(planned, tmp_path):
    reproduce, computed, clock = planned
    list(reproduce("dp_cgan", "table_1", scale="reduced", device="cpu", results=tmp_path))
    assert (len(computed), clock.steps) == (4, 0)


@pytest.mark.torch
@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_says_it_first_and_json_stays_json(
    planned, tmp_path, monkeypatch, capsys, as_json
):
    from dpkit.__main__ import main
    from dpkit.experiments import store

    monkeypatch.setattr(store, "results_dir", lambda: tmp_path)
    line = "reproduce dp_cgan table_1 --scale reduced --device cpu" + " --json" * as_json
    with pytest.raises(SystemExit) as left:
        main(line.split())
    assert left.value.code == 0
    out, err = capsys.readouterr()
    said = "table_1: 4 parts, none stored; 3 of the 4 take about 50 minutes on cpu"
    assert (err if as_json else out).startswith(said)
    if as_json:
        assert len(json.loads(out)) == 4
    else:
        assert len(out.splitlines()) == 1 + 4

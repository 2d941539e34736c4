"""A crash at any point loses no charge, and the run goes on to the same bit."""

import json
import multiprocessing
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import tiny
import torch
from tiny import POISSON, SHUFFLED, STEPS, Run, charged_now, networks, run_until_death, whole_run

from dpkit.training.checkpoint import Checkpoints, ledger, read_saved, spent
from dpkit.training.checkpoint.ledger import ledger_path
from dpkit.training.types import Record

WITHIN = pytest.mark.slow("a death within an epoch that costs a batch or its charge")


@pytest.fixture(scope="module")
def uninterrupted():
    """The run that nothing interrupts, by its settings."""
    return cache(lambda settings: whole_run(settings=settings))


@pytest.mark.parametrize("settings", [POISSON, SHUFFLED], ids=["poisson", "shuffled"])
@pytest.mark.parametrize("stop", range(1, STEPS + 1))
def test_a_run_that_was_closed_goes_on_to_the_same_bit(place, settings, stop, uninterrupted):
    whole = uninterrupted(settings)
    first = Run(place, settings=settings)
    yielded = [next(first.records) for _ in range(stop)]
    first.records.close()
    assert spent(place.path) == stop  # what was reserved beyond it is given back
    second = Run(place, settings=settings, seed=5, gan=networks(seed=5)).all()
    assert yielded + second.yielded == whole.yielded
    assert second.done == list(range(stop, STEPS))
    assert whole.state() == second.state()
    assert spent(place.path) == STEPS


@pytest.mark.parametrize("settings", [POISSON, pytest.param(SHUFFLED, marks=WITHIN)])
def test_a_death_at_every_single_point_costs_no_charge_and_no_bit(tmp_path, settings):
    """Every call that writes to the disk and every step's begin and end is a place to die once."""
    whole = whole_run(settings=settings).state()
    dies_at, ended = 0, None
    while ended is None:
        dies_at += 1
        place = Checkpoints(tmp_path / str(dies_at) / "gan.checkpoint", every=3, reserve=4)
        ended, computed = run_until_death(place, dies_at, settings)
        assert charged_now(place) >= computed
        seed = 1 if place.path.exists() else 0  # once there is a checkpoint it does not matter
        assert whole == Run(place, settings=settings, seed=seed).all().state()
        assert spent(place.path) == STEPS
    assert dies_at > 2 * STEPS + 5 * 7  # each step's begin and end, five calls for each of 7 files


def test_deaths_upon_deaths(tmp_path):
    """Chains of lives that end at random points; the seed is fixed, nothing is left to odds."""
    whole = whole_run().state()
    chance = random.Random(0)
    lives = 0
    for chain in range(6):
        place = Checkpoints(tmp_path / str(chain) / "gan.checkpoint", every=3, reserve=4)
        computed, ended = 0, None
        while ended is None:
            ended, reached = run_until_death(place, chance.randrange(1, 45), POISSON)
            computed, lives = max(computed, reached), lives + 1
            assert charged_now(place) >= computed
        assert whole == ended
        assert spent(place.path) == STEPS
    assert lives > 12


@pytest.mark.slow("a checkpoint or a charge that is lost where a process ends amid a system call")
def test_kill_9_at_twenty_moments(tmp_path):
    """A run of 60 steps on the digits, killed for good 20 times; what the run reported is charged.

    The script prints what it saw; which moments they are depends on the machine, what must hold
    does not.
    """
    script = Path(__file__).with_name("killed.py")
    run = [sys.executable, str(script), str(tmp_path)]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    saw = json.loads(ended.stdout)
    assert len(saw["kills"]) >= 20
    for kill in saw["kills"]:
        assert kill["charged"] >= kill["done"], kill
    assert sum(0 < kill["done"] < 60 for kill in saw["kills"]) >= 10  # most came in the middle
    assert saw["finished"]
    for finished in saw["finished"]:
        assert finished == saw["uninterrupted"]
    assert saw["uninterrupted"]["spent"] == 60
    # of all lives together: each block of noise serves one step's release, and each has its own
    assert all(len(steps) == 1 for steps in saw["steps_of_blocks"])
    assert len(saw["steps_of_blocks"]) % 60 == 0


@pytest.mark.parametrize("error", [FloatingPointError, KeyboardInterrupt])
def test_an_error_in_a_step_leaves_the_last_checkpoint_and_the_charge(place, error):
    def fails(index, *, done):
        if index == 5 and done:  # the weights are changed, and the step is not done
            raise error

    with pytest.raises(error):
        Run(place, watch=fails).all()
    assert (read_saved(place.path).step, spent(place.path)) == (3, STEPS)
    assert whole_run().state() == Run(place).all().state()


def test_dropout_is_repeated_and_torchs_global_state_is_left_alone(place):
    whole = whole_run(gan=networks(dropout=0.5))
    tiny.killed_in(place, 5, gan=networks(dropout=0.5))
    gan = networks(dropout=0.5)
    torch.rand(7)
    before = torch.get_rng_state()
    again = Run(place, gan=gan).all()
    assert again.done == [3, 4, 5, 6, 7]
    assert torch.equal(before, torch.get_rng_state())
    assert whole.state() == again.state()
    assert whole.state() != whole_run().state()


def draws_globally(gan, features, labels, *, settings, index, rng):
    gan.discriminator._seen.append((index, torch.randn(3)))
    return Record(index, len(features), 0.0, None, 0.0)


def test_steps_that_leave_the_rng_alone_draw_other_noise(place):
    """A shuffled epoch of three batches moves the rng once."""
    run = Run(place, by=draws_globally, settings=SHUFFLED).all()
    assert len({noise for _, drawn in run.seen for noise in drawn.tolist()}) == 3 * STEPS


# How it ends, and who may


def test_fewer_and_more_steps(place):
    Run(place, steps=6).all()
    assert Run(place, steps=6).all().done == []
    with pytest.raises(ValueError, match="at least the 6 that the checkpoint has done, got 5"):
        next(Run(place, steps=5).records)
    with pytest.raises(ValueError, match="between 0 and the 8 that the settings' budget allows"):
        next(Run(place, steps=9).records)
    last = Run(place).all()
    assert last.done == [6, 7]
    assert whole_run().state() == last.state()
    assert spent(place.path) == STEPS


def test_a_shorter_end_after_a_crash_does_not_lower_the_charge(place):
    """The lost process may have computed all that it reserved: none of it is given back."""
    with pytest.MonkeyPatch.context() as patch:
        machine = tiny.Machine(patch)
        first = Run(place, watch=machine.watch)
        for _ in range(5):
            next(first.records)
        machine.dies_at = 0
        with pytest.raises(tiny.Killed):
            first.records.close()
    assert spent(place.path) == STEPS
    assert Run(place, steps=5).all().done == [3, 4]
    assert spent(place.path) == STEPS


def test_a_second_run_at_one_path_is_refused(place):
    first = Run(place)
    next(first.records)
    with pytest.raises(RuntimeError, match="another run trains with the checkpoint"):
        next(Run(place).records)
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()

    def try_to_lock():
        try:
            with ledger.locked(place.path):
                answer.put("locked")
        except RuntimeError:
            answer.put("RuntimeError")

    other = context.Process(target=try_to_lock)
    other.start()
    other.join()
    assert answer.get() == "RuntimeError"
    first.records.close()
    next(Run(place).records)


def test_a_forked_copy_of_a_run_neither_goes_on_nor_stores(place, monkeypatch):
    run = Run(place)
    next(run.records)
    files = place.path, ledger_path(place.path)
    stored = [path.read_bytes() for path in files]
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="a forked process"):
        next(run.records)
    assert stored == [path.read_bytes() for path in files]


def test_a_copy_forked_within_a_step_does_not_store(place, monkeypatch):
    def forks(index, *, done):
        if index == 2 and done:
            monkeypatch.setattr("os.getpid", lambda: -1)

    with pytest.raises(RuntimeError, match="a forked process cannot continue"):
        Run(place, watch=forks).all()
    assert read_saved(place.path).step == 0


# Between two steps


def use_rng(run):
    torch.rand(3, generator=run.rng)


def adam_of(run):
    return run.gan.discriminator_optimizer


def momentum(run):
    return next(iter(adam_of(run).state.values()))["exp_avg"]


@pytest.mark.parametrize(
    ("meddle", "words"),
    [
        (use_rng, "the rng changed"),
        (lambda run: run.gan.discriminator[0].weight.detach().mul_(2), "weights, .* changed"),
        (lambda run: run.gan.averaged_net.eval(), "modes .* changed"),
        (lambda run: adam_of(run).param_groups[0].update(lr=0.2), "optimisers' settings changed"),
        (lambda run: run.gan.discriminator[0].weight.data.mul_(2), "weights"),
        (lambda run: momentum(run).zero_(), "weights, .* optimisers' states changed"),
        (lambda run: torch.set_num_threads(2), "threads changed"),
    ],
)
def test_what_changes_between_two_steps_ends_the_run_before_the_next(place, meddle, words):
    run = Run(place)
    for _ in range(5):
        next(run.records)
    meddle(run)
    with pytest.raises(RuntimeError, match=words):
        next(run.records)
    assert (run.done, read_saved(place.path).step) == (list(range(5)), 3)
    torch.set_num_threads(1)
    assert whole_run().state() == Run(place).all().state()
    assert spent(place.path) == STEPS


def test_values_that_are_not_numbers_are_not_taken_for_changed(place):
    gan = networks()
    gan.averaged_net[0].weight.data.fill_(float("nan"))
    assert len(Run(place, gan=gan).all().done) == STEPS


def test_the_rng_may_be_used_after_the_last_step(place):
    for steps in (4, STEPS):
        run = Run(place, steps=steps)
        for record in run.records:
            if record.step == steps - 1:
                use_rng(run)
    last = Run(place).all()  # whose rng is as the last step left it
    assert whole_run().state() == last.state()

"""Checkpoints: a crash at any point loses no charge, and the run goes on to the same bit."""

import json
import multiprocessing
import os
import random
import signal
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from dpkit.papers import dp_cgan as paper
from dpkit.privacy import rdp
from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches
from dpkit.training import reservation
from dpkit.training.checkpoint import Checkpoints, charged_steps, spent
from dpkit.training.device import generator_on
from dpkit.training.loop import train
from dpkit.training.reservation import ledger_path
from dpkit.training.saved import read_saved
from dpkit.training.types import Data

pytestmark = pytest.mark.torch


CPU = torch.device("cpu")
STEPS = 7
SETTINGS = replace(
    paper.settings.small(paper.REPAIRED, batch_size=8, steps=STEPS),
    pixels=12, hidden=5, noise_multiplier=4.0,
)  # fmt: skip
# Three batches an epoch: a crash may come in the middle of one, and between two.
SHUFFLED = replace(
    paper.settings.small(paper.SETTINGS, batch_size=12, steps=STEPS), pixels=12, hidden=5
)
ALLOWED = paper.settings.Settings.steps_allowed
EACH = pytest.mark.parametrize("settings", [SETTINGS, SHUFFLED], ids=["poisson", "shuffled"])


def data(seed=0, size=40, public_size=40):
    rng = torch.Generator().manual_seed(seed)
    features = torch.rand(size, 12, generator=rng)
    return Data(features, torch.randint(10, (size,), generator=rng), public_size=public_size)


def told(gan, *args, index, **keywords):
    """What every run is given as its step: one function of a module, whatever it then does."""
    step, done = gan.discriminator.told
    record = step(gan, *args, index=index, **keywords)
    done.append(index)
    return record


class Run:
    """A run with what it reports, and what its networks and optimisers end as."""

    def __init__(
        self, place=None, *, settings=SETTINGS, seed=0, steps=None, step=paper.step, on=None
    ):
        self.gan = paper.new_gan(settings, seed=seed, device=CPU)
        self.rng = generator_on(CPU, seed=seed)
        self.done = []  # indices of the steps that were computed, told from inside the step

        self.gan.discriminator.told = step, self.done

        self.records = train(
            told, self.gan, data() if on is None else on, settings=settings, rng=self.rng,
            steps=steps, checkpoint=place,
        )  # fmt: skip

    def all(self):
        self.told = list(self.records)
        return self

    def state(self):
        """Everything that training changes, as one flat dict of tensors and numbers."""
        found = {"rng": self.rng.get_state()}
        for name in self.gan._fields:
            flatten(name, getattr(self.gan, name).state_dict(), found)
        return found


def flatten(name, value, found):
    if isinstance(value, dict):
        for key, item in value.items():
            flatten(f"{name}.{key}", item, found)
    elif isinstance(value, list | tuple):
        for key, item in enumerate(value):
            flatten(f"{name}.{key}", item, found)
    else:
        found[name] = value


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        same = torch.equal(value, second[name]) if torch.is_tensor(value) else value == second[name]
        assert same, name


@pytest.fixture
def place(tmp_path):
    return Checkpoints(tmp_path / "run" / "gan.checkpoint", every=3, reserve=4)


def whole_run(settings=SETTINGS, steps=None):
    """The run that nothing interrupts, elsewhere; every crash below must end as it does."""
    with TemporaryDirectory() as folder:
        return Run(Checkpoints(Path(folder) / "whole"), settings=settings, steps=steps).all()


def test_where_and_how_often_a_run_is_stored_does_not_matter(place):
    whole, stored = whole_run(), Run(place).all()
    assert whole.told == stored.told
    assert len(whole.state()) > 30
    assert_same(whole.state(), stored.state())
    assert spent(place.path) == STEPS
    assert charged_steps(place.path) == [range(STEPS)]


@pytest.fixture(scope="module", autouse=True)
def one_thread_and_one_calibration():
    """Runs are tiny and many: threads only cost, and so does asking for the same budget again."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper.settings.Settings, "steps_allowed", cache(ALLOWED))
        yield
    torch.set_num_threads(threads)


@EACH
@pytest.mark.parametrize("stop", range(1, STEPS + 1))
def test_a_run_that_was_closed_goes_on_to_the_same_bit(place, settings, stop):
    whole = whole_run(settings)
    first = Run(place, settings=settings)
    told = [next(first.records) for _ in range(stop)]
    first.records.close()
    assert spent(place.path) == stop  # what was reserved beyond it is given back
    second = Run(place, settings=settings, seed=5).all()  # weights and rng of another seed
    assert told + second.told == whole.told
    assert second.done == list(range(stop, STEPS))
    assert_same(whole.state(), second.state())
    assert spent(place.path) == STEPS


def test_the_ledger_follows_from_what_is_on_disk(place):
    Run(place).all()
    ledger = SETTINGS.ledger(public_size=40, steps=spent(place.path))
    direct = SETTINGS.ledger(public_size=40, steps=STEPS)
    assert rdp.epsilon(ledger, delta=1e-5) == rdp.epsilon(direct, delta=1e-5)


class Killed(BaseException):
    """What no handler of the code is meant to catch."""


class Machine:
    """Dies at its n-th event: a call that reaches the disk, or the begin or end of a step.

    Once dead it reaches the disk no more, so that handlers on the way out change nothing, as after
    SIGKILL. Two calls with nothing between them are one place to die, not two.
    """

    def __init__(self, monkeypatch, dies_at):
        self.events, self.dies_at, self.computed = 0, dies_at, 0
        for name in ("open", "fsync", "replace"):
            monkeypatch.setattr(reservation.os, name, self.wrapped(getattr(os, name)))
        self.step = self.wrapped(paper.step, counts=True)

    def event(self):
        self.events += 1
        if self.dies_at is not None and self.events >= self.dies_at:
            raise Killed

    def wrapped(self, call, counts=False):
        def wrapper(*args, **keywords):
            self.event()
            result = call(*args, **keywords)
            if counts:
                self.computed = max(self.computed, keywords["index"] + 1)
                self.event()
            return result

        return wrapper


def run_until_death(place, dies_at, settings, seed=0):
    """(all that was trained, or None where it died; steps computed) of one life."""
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(patch, dies_at)
        run = Run(place, settings=settings, seed=seed, step=machine.step)
        try:
            return run.all().state(), machine.computed
        except Killed:
            return None, machine.computed


def charged_now(place):
    return spent(place.path) if ledger_path(place.path).exists() else 0


@pytest.mark.parametrize(("settings", "stride"), [(SETTINGS, 1), (SHUFFLED, 4)])
def test_a_death_at_every_single_point_costs_no_charge_and_no_bit(tmp_path, settings, stride):
    """Every call that reaches the disk and every step's begin and end is a place to die once."""
    whole = whole_run(settings).state()
    dies_at = 1
    while True:
        place = Checkpoints(tmp_path / str(dies_at) / "gan.checkpoint", every=3, reserve=4)
        ended, computed = run_until_death(place, dies_at, settings)
        assert charged_now(place) >= computed
        seed = 1 if place.path.exists() else 0  # once there is a checkpoint it does not matter
        assert_same(whole, Run(place, settings=settings, seed=seed).all().state())
        assert spent(place.path) == STEPS
        if ended is not None:
            break
        dies_at += stride
    assert dies_at > 2 * STEPS + 5 * 7  # each step's begin and end, five calls for each of 7 files


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first if "net" in name)


def test_deaths_upon_deaths(tmp_path):
    """Chains of lives that end at random points; the seed is fixed, nothing is left to odds."""
    whole = whole_run().state()
    chance = random.Random(0)
    lives = 0
    for chain in range(12):
        place = Checkpoints(tmp_path / str(chain) / "gan.checkpoint", every=3, reserve=4)
        computed, ended = 0, None
        while ended is None:
            ended, reached = run_until_death(place, chance.randrange(1, 45), SETTINGS)
            computed, lives = max(computed, reached), lives + 1
            assert charged_now(place) >= computed
        assert_same(whole, ended)
        assert spent(place.path) == STEPS
    assert lives > 24


@pytest.mark.slow
def test_kill_9_at_twenty_moments(tmp_path):
    """A run of 60 steps on the digits, killed for good 20 times; what the run reported is charged.

    The script prints what it saw; which moments they are depends on the machine, what must hold
    does not.
    """
    script = Path(__file__).with_name("killed.py")
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert len(found["kills"]) >= 20
    for kill in found["kills"]:
        assert kill["charged"] >= kill["done"], kill
    assert sum(0 < kill["done"] < 60 for kill in found["kills"]) >= 10  # most came in the middle
    assert found["finished"]
    for finished in found["finished"]:
        assert finished == found["uninterrupted"]
    assert found["uninterrupted"]["spent"] == 60


# What is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": replace(SETTINGS, noise_multiplier=5.0)}, r"settings\.noise_multiplier \("),
        ({"settings": replace(SETTINGS, sampling=PoissonSampling(9))}, r"settings\.sampling"),
        ({"settings": SHUFFLED}, r"settings\.sampling"),
        ({"on": data(seed=1)}, "these differ: data;|these differ: data\\."),
        ({"on": data(size=39)}, "these differ: data\\."),
        ({"on": data()._replace(features=data().features.double())}, "these differ: data\\."),
        ({"on": data(public_size=41)}, r"public_size \(stored 40, now 41\)"),
    ],
)  # fmt: skip
def test_another_run_is_refused_and_nothing_is_lost(place, changes, words):
    first = Run(place)
    next(first.records)
    first.records.close()
    before = {path.name: path.read_bytes() for path in place.path.parent.iterdir()}
    for after_loss in ("stop", "charge again"):
        other = Run(replace(place, after_loss=after_loss), **changes)
        with pytest.raises(ValueError, match=words):
            next(other.records)
    assert before == {path.name: path.read_bytes() for path in place.path.parent.iterdir()}


def test_another_network_or_optimiser_is_refused(place):
    Run(place, steps=2).all()
    other = Run(place)
    other.gan.generator_net.register_buffer("more", torch.zeros(3))
    with pytest.raises(ValueError, match=r"gan\.generator_net .* more \(3,\) float32"):
        next(other.records)
    other = Run(place)
    sgd = torch.optim.SGD(other.gan.discriminator.parameters(), lr=0.1)
    gan = other.gan._replace(discriminator_optimizer=sgd)
    records = train(
        paper.step, gan, data(), settings=SETTINGS, rng=other.rng, checkpoint=place
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"stored .*Adam of \[4\] tensors, now .*SGD of \[4\]"):
        next(records)


def test_settings_that_no_other_process_can_compare_are_refused(place):
    def rate(step):
        return 0.1

    adam = replace(SETTINGS.generator_optimizer, rate=rate)
    run = Run(place, settings=replace(SETTINGS, generator_optimizer=adam))
    with pytest.raises(ValueError, match=r"settings\.generator_optimizer must be a value .*rate"):
        next(run.records)


def broken(place, how):
    content = place.path.read_bytes()
    if how == "cut":
        content = content[: len(content) // 2]
    elif how == "empty":
        content = b""
    elif how == "a bit":
        content = content[:-900] + bytes([content[-900] ^ 1]) + content[-899:]
    elif how == "header":
        content = content.replace(b"checkpoint 2", b"checkpoint 9")
    elif how == "gone":
        place.path.unlink()
        return
    place.path.write_bytes(content)


@pytest.mark.parametrize("how", ["cut", "empty", "a bit", "header", "gone"])
def test_a_damaged_checkpoint_is_refused_and_charged_again_only_when_told(place, how):
    first = Run(place)
    for _ in range(5):
        next(first.records)
    first.records.close()
    broken(place, how)
    damaged = place.path.read_bytes() if place.path.exists() else None
    with pytest.raises(ValueError, match=r"damaged|is gone") as error:
        next(Run(place).records)
    assert "Steps charged here: 5" in str(error.value)
    assert "after_loss='charge again'" in str(error.value)
    assert spent(place.path) == 5
    assert damaged == (place.path.read_bytes() if place.path.exists() else None)

    again = Run(replace(place, after_loss="charge again"))
    with pytest.warns(UserWarning, match="5 steps stay charged; the 2 that follow"):
        again.all()
    assert again.done == [0, 1]  # the budget of 7 counts both
    assert spent(place.path) == STEPS
    if damaged is not None:
        assert place.path.with_name(place.path.name + ".lost1").read_bytes() == damaged
    # its noise is not that of the lost run, though its seed is
    assert not same(whole_run(steps=2).state(), again.state())
    # the run that was charged again is complete, and may be asked for again
    assert Run(place).all().done == []
    broken(place, how)
    with pytest.raises(ValueError, match="none is left to run again"):
        next(Run(replace(place, after_loss="charge again")).records)
    assert spent(place.path) == STEPS


def test_the_budget_counts_both_runs_after_a_loss(place):
    Run(place, steps=4).all()
    place.path.unlink()
    again = Run(replace(place, after_loss="charge again"), steps=7)
    with pytest.raises(ValueError, match=r"between 0 and the 3 .* beside the 4 charged to what"):
        next(again.records)
    assert spent(place.path) == 4


@pytest.mark.parametrize("dies_at", range(2, 24, 2))  # the first event is the lock's
def test_a_death_while_charging_again_costs_no_charge(place, dies_at):
    Run(place, steps=4).all()
    place.path.unlink()
    anyway = replace(place, after_loss="charge again")
    with pytest.warns(UserWarning, match="4 steps stay charged"):
        _, computed = run_until_death(anyway, dies_at, SETTINGS)
    assert spent(place.path) >= 4 + computed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **keywords: None)
        last = Run(anyway).all()
    assert spent(place.path) == STEPS
    assert last.done == list(range(3 - len(last.done), 3))


def test_noise_that_cannot_be_repeated_goes_on_from_the_weights_only_when_told(place, monkeypatch):
    """Here another version of torch: of the 6 steps reserved, 4 are stored and 2 charged again."""
    place = replace(place, every=4, reserve=6)
    settings = replace(SETTINGS, max_steps=10)
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(patch, None)
        first = Run(place, step=machine.step, settings=settings)
        for _ in range(5):
            next(first.records)
        machine.dies_at = 0
        with pytest.raises(Killed):
            first.records.close()
    assert spent(place.path) == 6
    monkeypatch.setattr("dpkit.training.identity.torch.__version__", "0.0")
    with pytest.raises(
        ValueError, match=r"cannot be repeated as they were: torch \(stored .*, now 0\.0\)"
    ):
        next(Run(place, settings=settings).records)
    again = Run(replace(place, after_loss="charge again"), settings=settings)
    with pytest.warns(UserWarning, match="6 steps stay charged; the 4 that follow"):
        again.all()
    assert again.done == [4, 5, 6, 7]
    assert spent(place.path) == 10


def test_a_checkpoint_of_before_a_loss_is_not_gone_on_with(place):
    Run(place, steps=2).all()
    old = place.path.read_bytes()
    place.path.unlink()
    with pytest.warns(UserWarning, match="2 steps stay charged"):
        Run(replace(place, after_loss="charge again"), steps=3).all()
    assert spent(place.path) == 5
    place.path.write_bytes(old)
    with pytest.raises(ValueError, match="older than steps that were charged again"):
        next(Run(place).records)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"id": "I"}', '{"id": "I", "charged": [[0, -1]], "of": {}}',
     '{"id": "I", "charged": [[0, 2.5]], "of": {}}', '{"id": "I", "charged": [[0, 2]]}',
     '{"id": "I", "charged": [[0, NaN]], "of": {}}', '{"id": "I", "charged": [], "of": {}}',
     '{"id": "I", "charged": [[1, 2]], "of": {}}', '{"id": "I", "charged": [[0, 1, 2]], "of": {}}',
     '{"id": "I", "charged": [[0, 2], [1, 0]], "of": {}}', '{"charged": [[0, 2]], "of": {}}',
     '{"id": 7, "charged": [[0, 2]], "of": {}}'],
)  # fmt: skip
def test_a_damaged_ledger_is_refused(place, content):
    Run(place, steps=2).all()
    identity = json.loads(ledger_path(place.path).read_text())["id"]
    ledger_path(place.path).write_text(content.replace("I", identity))
    with pytest.raises(ValueError, match=r"ledger .* is damaged"):
        spent(place.path)
    with pytest.raises(ValueError, match=r"ledger .* is damaged"):
        next(Run(place).records)


def test_a_ledger_that_is_gone_is_no_ledger_of_zero(place):
    with pytest.raises(FileNotFoundError, match="no ledger lies at"):
        spent(place.path)
    Run(place, steps=2).all()
    ledger_path(place.path).unlink()
    with pytest.raises(ValueError, match=r"ledger\.json is gone"):
        spent(place.path)
    with pytest.raises(ValueError, match=r"ledger\.json is gone"):
        next(Run(place).records)


def test_a_ledger_that_knows_less_than_the_checkpoint_is_refused(place):
    run = Run(place)
    next(run.records)
    old = ledger_path(place.path).read_bytes()
    run.all()
    ledger_path(place.path).write_bytes(old)
    with pytest.raises(ValueError, match="has done more than the ledger beside it knows of"):
        next(Run(place).records)


def test_code_in_a_checkpoint_is_not_run(place, tmp_path):
    import hashlib
    import io

    Run(place, steps=2).all()
    header = place.path.read_bytes().partition(b"\n")[0]

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    buffer = io.BytesIO()
    torch.save({"of": Evil()}, buffer)
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest().encode()
    place.path.write_bytes(header[:-64] + digest + b"\n" + content)
    with pytest.raises(ValueError, match="holds what is not read"):
        next(Run(place).records)
    assert not (tmp_path / "made").exists()


# How it ends, and who may


def test_fewer_and_more_steps(place):
    Run(place, steps=6).all()
    assert Run(place, steps=6).all().done == []
    with pytest.raises(ValueError, match="at least the 6 that the checkpoint has done, got 5"):
        next(Run(place, steps=5).records)
    with pytest.raises(ValueError, match="between 0 and the 7 that the settings' budget allows"):
        next(Run(place, steps=8).records)
    last = Run(place).all()
    assert last.done == [6]
    assert_same(whole_run().state(), last.state())
    assert spent(place.path) == STEPS


def test_a_complete_run_restores_what_it_trained(place):
    whole = Run(place).all()
    again = Run(place, seed=3).all()
    assert again.told == []
    assert_same(whole.state(), again.state())


def test_a_shorter_end_after_a_crash_does_not_lower_the_charge(place):
    """The lost process may have computed all that it reserved: none of it is given back."""
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(patch, None)
        first = Run(place, step=machine.step)
        for _ in range(5):
            next(first.records)
        machine.dies_at = 0
        with pytest.raises(Killed):
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
    other = context.Process(target=try_to_lock, args=(place.path, answer))
    other.start()
    other.join()
    assert answer.get() == "RuntimeError"
    first.records.close()
    next(Run(place).records)


def try_to_lock(path, answer):
    try:
        with reservation.locked(path):
            answer.put("locked")
    except RuntimeError:
        answer.put("RuntimeError")


def test_a_forked_copy_of_a_run_neither_goes_on_nor_stores(place, monkeypatch):
    run = Run(place)
    next(run.records)
    stored = place.path.read_bytes(), ledger_path(place.path).read_bytes()
    monkeypatch.setattr("dpkit.training.checkpoint.os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="a forked process"):
        next(run.records)
    assert stored == (place.path.read_bytes(), ledger_path(place.path).read_bytes())


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_waits_for_its_step_and_a_second_one_does_not(place, times):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    usual = signal.getsignal(signal.SIGINT)

    def interrupted(*args, index, **keywords):
        if index == 4:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        return paper.step(*args, index=index, **keywords)

    run = Run(place, step=interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.all()
    assert signal.getsignal(signal.SIGINT) is usual
    done = 5 if times == 1 else 3  # the half of a step is not stored: the last whole one is
    assert read_saved(place.path).step == done
    assert spent(place.path) == (5 if times == 1 else STEPS)
    assert_same(whole_run().state(), Run(place).all().state())


def test_an_error_in_a_step_leaves_the_last_checkpoint_and_the_charge(place):
    def fails(*args, index, **keywords):
        if index == 5:
            raise FloatingPointError("a gradient is NaN or infinite")
        return paper.step(*args, index=index, **keywords)

    with pytest.raises(FloatingPointError):
        Run(place, step=fails).all()
    assert read_saved(place.path).step == 3
    assert spent(place.path) == STEPS
    assert_same(whole_run().state(), Run(place).all().state())


def test_the_files_are_their_owners_alone_and_say_why(place):
    Run(place, steps=2).all()
    for path in (place.path, ledger_path(place.path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    header = place.path.read_bytes().partition(b"\n")[0].decode()
    assert "PRIVATE" in header
    assert "do not release it" in header
    names = {path.name for path in place.path.parent.iterdir()}
    assert names == {"gan.checkpoint", "gan.checkpoint.ledger.json", "gan.checkpoint.lock"}


def test_a_file_that_a_kill_left_half_written_is_no_hindrance(place):
    Run(place, steps=2).all()
    place.path.with_name(f".{place.path.name}.part").write_bytes(b"half")
    Run(place).all()
    assert spent(place.path) == STEPS
    assert not place.path.with_name(f".{place.path.name}.part").exists()


@pytest.mark.parametrize(
    "bad", [{"every": 0}, {"every": float("nan")}, {"reserve": 0}, {"after_loss": "go on"}]
)
def test_bad_places_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Checkpoints("here", **bad)


def test_the_shuffled_sampling_has_epochs_of_three_batches():
    """What the crash tests lean on."""
    assert isinstance(SHUFFLED.sampling, ShuffledBatches)
    assert 40 // SHUFFLED.expected_batch_size == 3

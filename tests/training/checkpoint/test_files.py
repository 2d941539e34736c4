"""Files that are damaged, lost or another run's are refused, and stay as they are."""

import hashlib
import io
import json
import os
import shutil
import stat
from contextlib import nullcontext

import pytest
import torch
from tiny import STEPS, Plain, Run, killed_in

from dpkit.commands.ledger_file import read
from dpkit.privacy import Laplace, Release, SampledGaussian
from dpkit.training.checkpoint import Checkpoints, spent
from dpkit.training.checkpoint.ledger import ledger_path, lock_path

BROKEN = {
    "cut": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-900] + bytes([content[-900] ^ 1]) + content[-899:],
    "of an older version": lambda content: content.replace(b"checkpoint 4", b"checkpoint 3"),
    "empty": lambda content: b"",
}


def contents(place):
    return {path.name: path.read_bytes() for path in place.path.parent.iterdir()}


@pytest.mark.parametrize("how", [*BROKEN, "lost"])
def test_a_damaged_or_lost_checkpoint_is_refused_and_its_charges_stay(place, how):
    killed_in(place, 5)
    content = place.path.read_bytes()
    place.path.unlink() if how == "lost" else place.path.write_bytes(BROKEN[how](content))
    before = contents(place)
    with pytest.raises(ValueError, match=r"(damaged|is gone).* cannot continue after the 8 steps"):
        next(Run(place).records)
    assert (contents(place), spent(place.path)) == (before, STEPS)
    place.path.write_bytes(content)
    assert Run(place).all().done[0] == 3


def test_code_in_a_checkpoint_is_not_run(place, tmp_path):
    Run(place, steps=2).all()
    header = place.path.read_bytes().partition(b"\n")[0]

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save({"fingerprint": Evil()}, buffer := io.BytesIO())
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest().encode()
    place.path.write_bytes(header[:-64] + digest + b"\n" + content)
    with pytest.raises(ValueError, match="cannot be read"):
        next(Run(place).records)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "7", '{"id": "I"}', '{"charged": 2}', '{"id": 7, "charged": 2}'),
        *('{"id": "short", "charged": 2}', '{"id": "I", "charged": [[0, 2]]}'),
        *(f'{{"id": "I", "charged": {steps}}}' for steps in ("-1", "2.5", "NaN", "true")),
    ],
)
def test_a_damaged_ledger_is_refused(place, content):
    Run(place, steps=2).all()
    identity = json.loads(ledger_path(place.path).read_text())["id"]
    ledger_path(place.path).write_text(content.replace("I", identity))
    for ask in (lambda: spent(place.path), lambda: next(Run(place).records)):
        with pytest.raises(ValueError, match=r"ledger .* is damaged"):
            ask()


def test_a_ledger_that_is_gone_is_no_ledger_of_zero(place):
    with pytest.raises(FileNotFoundError, match="there is no ledger at"):
        spent(place.path)
    Run(place, steps=2).all()
    ledger_path(place.path).unlink()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"ledger\.json is gone.* moved away"):
            next(Run(place).records)
        with pytest.raises(ValueError, match=r"ledger\.json is gone"):
            spent(place.path)
        place.path.unlink(missing_ok=True)  # without either file the lock says
    lock_path(place.path).unlink()
    assert len(Run(place).all().done) == STEPS


@pytest.mark.parametrize("both", [False, True])
def test_older_copies_of_ledger_and_checkpoint_do_not_lower_the_charge(place, both):
    run = Run(place)
    next(run.records)
    old = contents(place)
    run.all()
    for path in (ledger_path(place.path), place.path)[: 1 + both]:
        path.write_bytes(old[path.name])
    words = "counts 4 steps, fewer than the 8 that were charged .*; restore the newest copy"
    for ask in (lambda: next(Run(place).records), lambda: spent(place.path)):
        with pytest.raises(ValueError, match=words):
            ask()
    lock_path(place.path).unlink()  # then the checkpoint says
    if not both:
        with pytest.raises(ValueError, match="has done 8 steps, and its ledger counts"):
            next(Run(place).records)


def test_a_checkpoint_of_another_run_beside_a_ledger_is_refused(tmp_path):
    a, b, c = (Checkpoints(tmp_path / name / "it") for name in "abc")
    Run(a, steps=2).all()
    Run(b, steps=6, seed=1).all()
    shutil.copy(a.path, b.path)
    with pytest.raises(ValueError, match="of another run than the ledger beside it"):
        Run(b, seed=1).all()
    shutil.copy(ledger_path(a.path), ledger_path(b.path))  # both: then the lock says
    for ask in (lambda: Run(b).all(), lambda: spent(b.path)):
        with pytest.raises(ValueError, match="of another run than the one that began here"):
            ask()
    c.path.parent.mkdir()  # without its lock a run may be moved
    shutil.copy(a.path, c.path)
    shutil.copy(ledger_path(a.path), ledger_path(c.path))
    assert Run(c).all().done == list(range(2, STEPS))


@pytest.mark.parametrize("at_close", [False, True])
def test_a_lock_that_is_deleted_ends_the_run_before_the_next_charge(place, at_close):
    """Another run may then begin beside it: the ledger counts the steps of the longer one."""
    first = Run(place)
    next(first.records)
    lock_path(place.path).unlink()
    second = Run(place)
    next(second.records)
    if not at_close:
        with pytest.raises(RuntimeError, match=r"gan\.checkpoint\.lock was deleted or replaced"):
            list(first.records)
    with pytest.raises(RuntimeError, match="deleted") if at_close else nullcontext():
        first.records.close()
    second.records.close()
    assert spent(place.path) >= max(len(first.done), len(second.done))


def test_a_ledger_that_is_changed_ends_the_run_before_the_next_charge(place):
    run = Run(place)
    next(run.records)
    ledger = ledger_path(place.path)
    ledger.write_text(json.dumps(json.loads(ledger.read_text()) | {"charged": 5}))
    with pytest.raises(RuntimeError, match=r"ledger\.json was changed while this run trained"):
        list(run.records)
    assert len(run.done) < 4


def test_a_torn_lock_is_mended_and_a_file_that_a_kill_left_half_written_is_no_hindrance(place):
    Run(place, steps=2).all()
    lock_path(place.path).write_text("12ab")
    half = place.path.with_name(f".{place.path.name}.part")
    half.write_bytes(b"half")
    Run(place).all()
    identity = json.loads(ledger_path(place.path).read_text())["id"]
    assert lock_path(place.path).read_text().startswith(identity + " ")
    assert spent(place.path) == STEPS
    assert not half.exists()


def test_the_files_are_their_owners_alone_and_say_why(place):
    Run(place, steps=2).all()
    for path in (place.path, ledger_path(place.path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    header = place.path.read_bytes().partition(b"\n")[0].decode()
    assert "PRIVATE" in header
    assert "do not release it" in header
    names = {"gan.checkpoint", "gan.checkpoint.ledger.json", "gan.checkpoint.lock"}
    assert contents(place).keys() == names


def test_bad_places_are_refused():
    for name, value in (("every", 0), ("every", float("nan")), ("reserve", 0)):
        with pytest.raises(ValueError, match=name):
            Checkpoints("here", **{name: value})


# What the charged steps release, and cost


class Priced(Plain):
    """Two releases a step."""

    def ledger(self, *, public_size, steps):
        return [Release(SampledGaussian(1.5, 4 / public_size), 2 * steps)]


class OfOtherReleases(Plain):
    def ledger(self, *, public_size, steps):
        return [Release(Laplace(1.5), steps)]


class OfOtherArguments(Plain):
    def ledger(self):
        return []


def test_reserved_steps_are_priced_and_unused_ones_given_back(place):
    killed_in(place, 3, settings=Priced())
    assert read(ledger_path(place.path)) == [Release(SampledGaussian(1.5, 0.2), 8)]
    Run(place, settings=Priced(), steps=7).all()
    assert read(ledger_path(place.path)) == [Release(SampledGaussian(1.5, 0.2), 14)]


@pytest.mark.parametrize("settings", [Plain(), OfOtherReleases(), OfOtherArguments()])
def test_where_no_row_describes_a_step_only_its_number_is_stored(place, settings):
    Run(place, settings=settings, steps=2).all()
    assert "rows" not in json.loads(ledger_path(place.path).read_text())
    with pytest.raises(ValueError, match=r"counts 2 charged steps and does not say"):
        read(ledger_path(place.path))

"""What training in one place has charged: on disk before the steps run, never below the truth."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from dpkit import checks

try:
    import fcntl
except ImportError:  # there is none on Windows
    fcntl = None

_NOTE = (
    "Steps charged to a privacy budget, reserved before they run: from, and up to but without, of "
    "each run. Keep it with its checkpoint."
)
_IDENTITY = 32  # characters


class Charged(NamedTuple):
    """Steps charged in one place, over all runs that began there.

    identity: random, of this place alone; its checkpoint bears it too.
    ranges: the first step that a run charged and the one after its last, done or not. There is one
        pair for the first run, and one more each time that steps were charged again.
    """

    identity: str
    ranges: tuple[tuple[int, int], ...] = ((0, 0),)

    @property
    def run(self) -> int:
        """0 for the first run, one more each time that steps were charged again."""
        return len(self.ranges) - 1

    @property
    def start(self) -> int:
        """The first step of the present run."""
        return self.ranges[-1][0]

    @property
    def reserved(self) -> int:
        """The present run has charged its steps below this one."""
        return self.ranges[-1][1]

    @property
    def total(self) -> int:
        """All steps charged."""
        return sum(len(indices) for indices in self.steps)

    @property
    def steps(self) -> list[range]:
        """The indices that each run has charged."""
        return [range(*ends) for ends in self.ranges]

    def up_to(self, end: int) -> "Charged":
        """The same, with the present run's steps below `end` charged."""
        return self._replace(ranges=(*self.ranges[:-1], (self.start, end)))

    def again(self, start: int) -> "Charged":
        """The same, with a run from `start` on that has charged nothing so far."""
        return self._replace(ranges=(*self.ranges, (start, start)))


def spent(path: Path | str) -> int:
    """Number of steps charged by training with its checkpoint at `path`, read from disk.

    It is never below what was run. It is what was run where training ended, or was closed; after a
    crash it counts the whole block that was reserved, until training goes on and passes it. The
    ledger follows where every step costs the same:
    `settings.ledger(public_size=data.public_size, steps=spent(path))`. Where the noise follows a
    schedule, price the steps of `charged_steps`: a step that was charged again counts twice.

    Raises:
        FileNotFoundError: nothing was trained there.
        ValueError: the ledger is damaged, or gone while its checkpoint or lock is there.
    """
    return _read(path).total


def charged_steps(path: Path | str) -> list[range]:
    """Indices of the steps that each run at `path` has charged, read from disk; see `spent`.

    The first range is of the first run; each time that steps were charged again another follows,
    which may name the same indices: they were released again, with other noise. A schedule `noise`
    is priced by `[Release(mechanism(noise(i))) for steps in charged_steps(path) for i in steps]`.

    Raises:
        FileNotFoundError: nothing was trained there.
        ValueError: the ledger is damaged, or gone while its checkpoint or lock is there.
    """
    return _read(path).steps


def _read(path: Path | str) -> Charged:
    charged = read_charged(Path(path), None)
    if charged is None:
        raise FileNotFoundError(
            f"no ledger lies at {ledger_path(Path(path))}; give the path of Checkpoints"
        )
    return charged


def ledger_path(path: Path) -> Path:
    """The file beside a checkpoint that says what is charged."""
    return path.with_name(path.name + ".ledger.json")


def lock_path(path: Path) -> Path:
    """The file beside a checkpoint that one process locks, and that says which run began there."""
    return path.with_name(path.name + ".lock")


def read_charged(path: Path, priced: Mapping[str, str] | None) -> Charged | None:
    """What is charged to the checkpoint at `path`, or None where no training began.

    Args:
        path: the checkpoint's.
        priced: by name, what the price of a step follows from; all must be as stored; None to
            read without the comparison.

    Raises:
        ValueError: the ledger is damaged, of another run, of other settings, or gone while its
            checkpoint is there, or the lock of a run that began.
    """
    ledger, began = ledger_path(path), _began(path)
    try:
        text = ledger.read_bytes()
    except FileNotFoundError:
        if path.exists() or began:
            raise ValueError(
                f"{ledger} is gone, and with it what training at {path} has charged; restore it "
                f"from a copy, or add by hand what it spent and begin anew: at another path, or "
                f"here once {path} and {lock_path(path)} are moved away"
            ) from None
        return None
    try:
        stored: dict[str, Any] = json.loads(text)
        charged = Charged(stored["id"], tuple((a, b) for a, b in stored["charged"]))
        _check(charged)
        unlike = differing(stored["of"], stored["of"] if priced is None else priced)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the ledger {ledger} is damaged ({error}); restore it from a copy: what was spent "
            "cannot be told without it"
        ) from error
    if began not in ("", "?", charged.identity):
        raise ValueError(
            f"{ledger} is of another run than the one that began here (as {lock_path(path)} says), "
            "whose charges it does not count; restore the ledger of this one"
        )
    if unlike:
        raise other_run(ledger, unlike)
    return charged


def _check(charged: Charged) -> None:
    if not (isinstance(charged.identity, str) and len(charged.identity) == _IDENTITY):
        raise ValueError(f"id is {charged.identity!r}")
    if not charged.ranges or charged.ranges[0][0] != 0:
        raise ValueError("the first run's steps are missing")
    for start, end in charged.ranges:
        checks.whole(start=start, end=end)
        checks.whole(steps=end - start)


def _began(path: Path) -> str:
    """Identity of the run that began at `path` by its lock; "" for none, "?" if it is torn."""
    try:
        words = lock_path(path).read_text(errors="replace").split(" ")
    except FileNotFoundError:
        return ""
    return words[0] if len(words[0]) in (0, _IDENTITY) else "?"


def mark_begun(path: Path, charged: Charged) -> None:
    """Put on disk, in the lock, that a run began at `path`: its files cannot vanish in silence."""
    if _began(path) == charged.identity:
        return
    handle = os.open(lock_path(path), os.O_WRONLY)
    with os.fdopen(handle, "w") as file:
        file.write(f"{charged.identity} began here; its ledger counts what it spent.\n")
        file.flush()
        os.fsync(file.fileno())


def write_charged(path: Path, charged: Charged, priced: Mapping[str, str]) -> None:
    """Put on disk what is charged to the checkpoint at `path`; it is there when this returns."""
    content = {
        "note": _NOTE, "id": charged.identity, "charged": charged.ranges, "of": dict(priced)
    }  # fmt: skip
    write_whole(ledger_path(path), (json.dumps(content, indent=1) + "\n").encode())


def differing(stored: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """What is not the same in two descriptions, in words, without the values of private ones."""
    names = sorted(
        name for name in stored.keys() | present.keys() if stored.get(name) != present.get(name)
    )
    return [
        name if name in ("data", "code") else f"{name} {_both(stored.get(name), present.get(name))}"
        for name in names
    ]


def _both(stored: str | None, present: str | None) -> str:
    """Both values; of long ones, what surrounds the place where they begin to differ."""
    parts = [str(stored), str(present)]
    at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*parts, strict=False)))
    if max(map(len, parts)) > 400:
        parts = [f"...{part[max(at - 60, 0) : at + 140]}..." for part in parts]
    return f"(stored {parts[0]}, now {parts[1]})"


def other_run(path: Path, unlike: list[str]) -> ValueError:
    """The error of a file that belongs to another run."""
    return ValueError(
        f"{path} is of another run; these differ: {'; '.join(unlike)}. Train as it was begun, or "
        "give Checkpoints another path, whose steps cost on top of those charged here"
    )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads: whole and on disk, or not at all.

    There is one writer at a time (`locked`), so what a killed one left is overwritten.
    """
    temporary = path.with_name(f".{path.name}.part")
    temporary.unlink(missing_ok=True)
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name itself
    finally:
        os.close(folder)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else trains with the checkpoint at `path` inside the block.

    Raises:
        RuntimeError: somebody does.
        ValueError: the system has no lock that ends with its process (Windows).
    """
    if fcntl is None:
        raise ValueError("checkpoints need fcntl, which this system lacks; train without them")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"another run trains with the checkpoint {path}; wait for its end, or give "
                "another path (a run of this process ends with its iterator's close())"
            ) from None
        yield
    finally:
        os.close(handle)  # without unlocking: a fork's copy must not free its parent's

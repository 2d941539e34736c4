"""What training in one place has charged: on disk before the steps run, never below the truth."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from dpkit import checks

try:
    import fcntl
except ImportError:  # there is none on Windows
    fcntl = None

_NOTE = "Steps charged to a privacy budget, reserved before they run. Keep it with its checkpoint."


class Charged(NamedTuple):
    """Steps charged in one place, over all runs that began there.

    run: 0 for the first run, one more each time that steps were charged again.
    earlier: steps that stay charged beside those of this run.
    reserved: steps of this run that are charged, done or not: those with a lower index.
    """

    run: int = 0
    earlier: int = 0
    reserved: int = 0

    @property
    def total(self) -> int:
        """All steps charged."""
        return self.earlier + self.reserved


def spent(path: Path | str) -> int:
    """Number of steps charged by training with its checkpoint at `path`, read from disk.

    It is never below what was run. It is what was run where training ended, or was closed; after a
    crash it counts the whole block that was reserved, until training goes on and passes it. The
    ledger follows: `settings.ledger(public_size=data.public_size, steps=spent(path))`.

    Raises:
        FileNotFoundError: nothing was trained there.
        ValueError: the ledger is damaged, or gone while its checkpoint is there.
    """
    charged = read_charged(Path(path), None)
    if charged is None:
        raise FileNotFoundError(
            f"no ledger lies at {ledger_path(Path(path))}; give the path of Checkpoints"
        )
    return charged.total


def ledger_path(path: Path) -> Path:
    """The file beside a checkpoint that says what is charged."""
    return path.with_name(path.name + ".ledger.json")


def read_charged(path: Path, priced: Mapping[str, str] | None) -> Charged | None:
    """What is charged to the checkpoint at `path`, or None where no training began.

    Args:
        path: the checkpoint's.
        priced: by name, what the price of a step follows from; all must be as stored; None to
            read without the comparison.

    Raises:
        ValueError: the ledger is damaged, of other settings, or gone while its checkpoint is there.
    """
    ledger = ledger_path(path)
    try:
        text = ledger.read_bytes()
    except FileNotFoundError:
        if path.exists():
            raise ValueError(
                f"{ledger} is gone, and with it what {path} has charged; restore it from a copy, "
                "or move the checkpoint away and add by hand what it spent"
            ) from None
        return None
    try:
        stored: dict[str, Any] = json.loads(text)
        charged = Charged(*(stored[name] for name in Charged._fields))
        checks.whole(**charged._asdict())
        unlike = [] if priced is None else differing(stored["of"], priced)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the ledger {ledger} is damaged ({error}); restore it from a copy: what was spent "
            "cannot be told without it"
        ) from error
    if unlike:
        raise other_run(ledger, unlike)
    return charged


def write_charged(path: Path, charged: Charged, priced: Mapping[str, str]) -> None:
    """Put on disk what is charged to the checkpoint at `path`; it is there when this returns."""
    content = {"note": _NOTE, **charged._asdict(), "of": dict(priced)}
    write_whole(ledger_path(path), (json.dumps(content, indent=1) + "\n").encode())


def differing(stored: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """What is not the same in two descriptions, in words, without the values of private ones."""
    names = sorted(
        name for name in stored.keys() | present.keys() if stored.get(name) != present.get(name)
    )
    return [
        name if name == "data" else f"{name} (stored {stored.get(name)}, now {present.get(name)})"
        for name in names
    ]


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
    lock = path.with_name(path.name + ".lock")
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
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

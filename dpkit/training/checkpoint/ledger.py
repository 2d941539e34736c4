"""Write-ahead log of charged steps: after a crash it may over-count, never under-count."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from dpkit.common import checks, files
from dpkit.privacy.ledger import rows as as_rows

_CHECKPOINT = b"dpkit checkpoint"  # how the file of a checkpoint begins
_NOTE = (
    "Number of steps charged to a privacy budget, reserved before they run, and what they release. "
    "Keep it with its checkpoint. Its price: python -m dpkit epsilon --ledger THIS_FILE --delta D"
)


class Charged(NamedTuple):
    """The steps charged by one run: 0, 1, ... below `steps`, done or reserved.

    identity: random; also in the checkpoint and the lock, which shows that they belong together
    """

    identity: str  # 32 hexadecimal digits
    steps: int = 0


def spent(path: Path | str) -> int:
    """Number of steps charged by training with its checkpoint at `path`, read from disk.

    It is never below the steps that ran. It equals them where training ended or was closed; after a
    crash it counts the whole block that was reserved, until training goes on and passes it. The
    ledger follows: `settings.ledger(public_size=data.public_size, steps=spent(path))`.

    Raises:
        FileNotFoundError: nothing was trained there.
        ValueError: the ledger is damaged, or gone while its checkpoint or lock is there.
    """
    charged = read_charged(Path(path))
    if charged is None:
        raise FileNotFoundError(
            f"there is no ledger at {ledger_path(Path(path))}; give the path of Checkpoints"
        )
    return charged.steps


def ledger_path(path: Path) -> Path:
    """Path of the ledger beside a checkpoint."""
    return path.with_name(path.name + ".ledger.json")


def lock_path(path: Path) -> Path:
    """Path of the lock beside a checkpoint, which names the run and counts its charges."""
    return path.with_name(path.name + ".lock")


def read_charged(path: Path) -> Charged | None:
    """The charges of the checkpoint at `path`, or None where no training began.

    Raises:
        ValueError: the ledger is damaged, of another run than the lock, an older copy than the lock
            knows, or gone while its checkpoint is there, or the lock of a run that began; or what
            lies at the path is no checkpoint.
    """
    _check_place(path)
    ledger, began = ledger_path(path), _began(path)
    try:
        text = ledger.read_bytes()
    except FileNotFoundError:
        if path.exists() or began.identity:
            raise ValueError(
                f"{ledger} is gone, and with it what training at {path} has charged; restore "
                f"its newest copy, or add by hand what it spent and start a new run: at another "
                f"path, or here once {path} and {lock_path(path)} are moved away"
            ) from None
        return None
    try:
        stored = json.loads(text)
        charged = Charged(stored["id"], stored["charged"])
        if not re.fullmatch("[0-9a-f]{32}", charged.identity):
            raise ValueError("its id is invalid")
        checks.whole(charged=charged.steps)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"the ledger {ledger} is damaged ({error}); restore its newest copy: without it "
            "nobody knows what was spent"
        ) from error
    # a shorter one is torn
    if len(began.identity) == 32 and began.identity != charged.identity:
        raise ValueError(
            f"{ledger} is of another run than the one that began here (as {lock_path(path)} says), "
            "so it does not count that run's steps; restore the ledger of this one"
        )
    if charged.steps < began.steps:
        raise ValueError(
            f"{ledger} counts {charged.steps} steps, fewer than the {began.steps} that were "
            f"charged (as {lock_path(path)} says): it is an older copy; restore the newest copy"
        )
    return charged


def rows_of(settings: Any, *, public_size: int, steps: int) -> list[dict[str, Any]] | None:
    """The releases of `steps` steps by `settings.ledger(public_size=, steps=)`.

    None where the settings have no such ledger, or rows cannot say what it holds.
    """
    ledger: Any = getattr(settings, "ledger", None)
    if (
        not callable(ledger)
        or not {"public_size", "steps"} <= signature(ledger).parameters.keys()
    ):
        return None
    try:
        found: Any = ledger(public_size=public_size, steps=steps)
        return as_rows(found)
    except ValueError:  # no price, or none for so few steps: training goes on
        return None


def write_charged(
    path: Path, charged: Charged, *, lock: int, rows: list[dict[str, Any]] | None = None
) -> None:
    """Write the charges of the checkpoint at `path`; they are on disk when this returns.

    The lock, an open file, counts them too, and at no moment more than the ledger does. Rows say
    what the charged steps release.
    """
    if charged.steps < _began(path).steps:
        mark(lock, charged)
    content: dict[str, Any] = {"note": _NOTE, "id": charged.identity, "charged": charged.steps}
    if rows is not None:
        content["rows"] = rows
    text = json.dumps(content, indent=1) + "\n"
    files.write_bytes(ledger_path(path), text.encode(), private=True)
    mark(lock, charged)


def check_alone(path: Path, charged: Charged, *, lock: int) -> None:
    """Refuse to write where the lock is not the open one, or the ledger another's.

    Raises:
        RuntimeError: the lock was deleted or replaced, or the ledger does not say `charged`.
    """
    file = lock_path(path)
    if not (file.exists() and os.path.samestat(os.fstat(lock), file.stat())):
        raise RuntimeError(
            f"{file} was deleted or replaced while this run trained, so another may train at "
            f"{path}; nothing more is written: end all runs there, then resume with new networks"
        )
    if read_charged(path) != charged:
        raise RuntimeError(
            f"{ledger_path(path)} was changed while this run trained, and no longer counts its "
            f"{charged.steps} charged steps; restore its newest copy, then resume with new networks"
        )


def _began(path: Path) -> Charged:
    """The lock's entry of the run that began at `path`.

    The identity is empty where none did, and short where a crash tore it; then no step is counted.
    """
    with suppress(FileNotFoundError):
        words = lock_path(path).read_text(errors="replace").split()
        if words:
            steps = words[1] if len(words) > 1 and words[1].isdecimal() else 0
            return Charged(words[0], int(steps))
    return Charged("")


def _check_place(path: Path) -> None:
    """Refuse a folder, and where no run began a file that is no checkpoint."""
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder, and is no checkpoint of dpkit; give a file's path"
        )
    if not path.exists() or ledger_path(path).exists() or _began(path).identity:
        return
    with path.open("rb") as file:
        if file.read(len(_CHECKPOINT)) != _CHECKPOINT:
            raise ValueError(
                f"{path} is no checkpoint of dpkit; give another path, where no file is"
            )


def mark(lock: int, charged: Charged) -> None:
    """Write the charges into the lock, in place: its file must stay the same."""
    text = (
        f"{charged.identity} {charged.steps:015} steps charged; the lock of a run: keep it.\n"
    )
    if os.pread(lock, len(text), 0) != text.encode():
        os.pwrite(lock, text.encode(), 0)
        os.fsync(lock)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold an exclusive lock on the checkpoint at `path`: its open file.

    Raises:
        RuntimeError: another run holds it.
        ValueError: the system has no lock that ends with its process (Windows); or what lies at
            the path is no checkpoint.
    """
    _check_place(path)  # before a lock lies beside another's file
    path.parent.mkdir(parents=True, exist_ok=True)
    lacking = "checkpoints need fcntl, which this system lacks; train without them"
    busy = (
        f"another run trains with the checkpoint {path}; wait for its end, or give another path (a "
        "run of this process ends with its iterator's close()); do not delete "
        f"{lock_path(path)}, or steps run that no ledger counts"
    )
    with files.locked(lock_path(path), lacking=lacking, busy=busy) as handle:
        yield handle

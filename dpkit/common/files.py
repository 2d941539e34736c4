"""Places of files, written whole or not at all, and by one process at a time."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parent


def results_dir() -> Path:
    """The folder of stored results: `data/results` of the checkout, else the wheel's own copy."""
    checkout = CHECKOUT / "data" / "results"
    return checkout if checkout.is_dir() else PACKAGE / "_results"


def cache_dir() -> Path:
    """The folder of what can be made anew: $DPKIT_CACHE, the checkout's or the user's cache."""
    if own := os.environ.get("DPKIT_CACHE"):
        return Path(own).expanduser().absolute()
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / "data" / "cache"
    import pooch

    return Path(pooch.os_cache("dpkit"))


def write_bytes(path: Path, content: bytes, *, private: bool = False) -> Path:
    """Write a file, making its folder: whole and on disk, or not at all.

    Args:
        path: readers see the old file there, or the new one.
        content: of the file.
        private: for its owner alone, by one writer at a time (`locked`), who overwrites what a
            killed one left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if private:
        temporary = path.with_name(f".{path.name}.part")
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    else:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o600 if private else 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # which a full disk does not name
        raise
    if os.name == "posix":  # Windows opens no folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name itself
        finally:
            os.close(folder)
    return path


@contextmanager
def locked(lock: Path, *, lacking: str, busy: str | None = None) -> Iterator[int]:
    """Hold an exclusive lock, which ends with its process: its open file, the owner's alone.

    Args:
        lock: path of the lock itself; it is made, and what it holds stays as it is.
        lacking: what to say where the system has no such lock (Windows).
        busy: what to say where another process holds it; None: wait.

    Raises:
        ValueError: the system lacks fcntl.
        RuntimeError: another process holds it.
    """
    try:
        import fcntl
    except ImportError:
        raise ValueError(lacking) from None
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise RuntimeError(busy) from None
        yield handle
    finally:
        os.close(handle)  # without unlocking: a fork's copy must not free its parent's


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold what makes `path` to one process of this machine; look again inside for it.

    The others wait. The system takes the lock back from a process that dies. Machines that share a
    folder of results but not the cache do not see each other's locks: both may make the file, which
    is written whole; the second leaves it as it is.
    """
    from filelock import FileLock

    digest = sha256(str(path.resolve()).encode()).hexdigest()[:16]
    lock = cache_dir() / "locks" / f"{digest}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        yield

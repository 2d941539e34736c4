"""One process at a time makes a file: the others wait for it, and find it made."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from dpkit.common.paths import cache_dir


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold what makes `path` to one process of this machine; look again whether it is there inside.

    The operating system takes the lock back from a process that dies. Machines that share a folder
    of results but not the cache do not see each other's locks: both may make the file, which is
    written whole, and whoever comes second leaves it as it is.
    """
    from filelock import FileLock

    digest = sha256(str(path.resolve()).encode()).hexdigest()[:16]
    lock = cache_dir() / "locks" / f"{digest}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        yield

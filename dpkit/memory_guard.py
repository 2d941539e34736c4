"""How much memory is left to this machine or container, and a refusal before a cell overruns it.

A kernel that asks for more than its container may have is killed without a word, and all that was
in it is lost. `require(400)` before a heavy cell raises a sentence instead.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpkit import checks

MEGABYTE = 1_000_000  # bytes
REMEDY = (
    "Shut down kernels that are no longer needed (in JupyterLab: Kernel, Shut Down All Kernels),"
    " open this notebook alone and run it from the top, or run it where there is more memory."
)


class TooLittleMemory(MemoryError):
    """What comes next would not fit into the memory that is left."""


@dataclass(frozen=True)
class Memory:
    """One limit on memory and what counts against it, in MB (10^6 bytes).

    `used` leaves out cached files that no process has mapped: the system gives those back.
    """

    limit: float
    used: float
    source: str  # who sets the limit: "cgroup v2", "cgroup v1" or "this machine"

    @property
    def left(self) -> float:
        """What may still be asked for, in MB; 0 where the limit is overrun already."""
        return max(0.0, self.limit - self.used)


def memory(root: Path = Path("/")) -> Memory | None:
    """The limit under which least is left; None where the system does not say (not Linux).

    It reads the machine's memory and every memory cgroup, v1 and v2, that this process is
    in, up to the hierarchy's root: a container's limit lies in one of them.

    Args:
        root: the folder in which `proc` and `sys` are found.

    Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
    """
    found = [*_machine(root), *_version_2(root), *_version_1(root)]
    return min(found, key=lambda each: each.left, default=None)


def shortage(megabytes: float, *, what: str = "this cell", now: Memory | None = None) -> str | None:
    """A sentence with a remedy where `megabytes` more do not fit, else None.

    Args:
        megabytes: what is needed beyond what is in use, in MB (10^6 bytes), > 0.
        what: what needs it, as the sentence's subject.
        now: the memory to compare with; `memory()` where None. Nothing known, nothing short.

    Raises:
        ValueError: megabytes is no finite number > 0.
    """
    checks.positive(megabytes=megabytes)
    now = memory() if now is None else now
    if now is None or megabytes <= now.left:
        return None
    return (
        f"{what} needs about {megabytes:.0f} MB, and {now.left:.0f} MB are left of the"
        f" {now.limit:.0f} MB that {now.source} allows. {REMEDY}"
    )


def require(megabytes: float, *, what: str = "this cell", now: Memory | None = None) -> None:
    """Raise TooLittleMemory where `megabytes` more do not fit; arguments as for `shortage`."""
    if sentence := shortage(megabytes, what=what, now=now):
        raise TooLittleMemory(sentence)


def _machine(root: Path) -> Iterator[Memory]:
    """The machine's memory as /proc/meminfo has it (in KiB)."""
    values = _numbers(root / "proc" / "meminfo")
    total, free = values.get("MemTotal"), values.get("MemAvailable")
    if total is not None and free is not None:
        yield Memory(_megabytes(total * 1024), _megabytes((total - free) * 1024), "this machine")


def _version_2(root: Path) -> Iterator[Memory]:
    """Each cgroup v2 above this process that sets a limit; `memory.max` holds bytes or "max"."""
    for folder in _folders(root, "", root / "sys" / "fs" / "cgroup"):
        limit, usage = _number(folder / "memory.max"), _number(folder / "memory.current")
        stat = _numbers(folder / "memory.stat")
        if limit is not None and usage is not None:
            given_back = _unmapped(stat, "inactive_file", "active_file", "file_mapped")
            yield Memory(_megabytes(limit), _megabytes(usage - given_back), "cgroup v2")


def _version_1(root: Path) -> Iterator[Memory]:
    """Each cgroup v1 above this process that sets a limit; about 2^63 bytes mean none."""
    for folder in _folders(root, "memory", root / "sys" / "fs" / "cgroup" / "memory"):
        limit = _number(folder / "memory.limit_in_bytes")
        usage = _number(folder / "memory.usage_in_bytes")
        stat = _numbers(folder / "memory.stat")
        if limit is not None and usage is not None and limit < 2**60:
            names = ("total_inactive_file", "total_active_file", "total_mapped_file")
            yield Memory(
                _megabytes(limit), _megabytes(usage - _unmapped(stat, *names)), "cgroup v1"
            )


def _folders(root: Path, controller: str, mount: Path) -> Iterator[Path]:
    """This process's folder under `mount` and all above it up to `mount`, as far as they are seen.

    In a container /proc/self/cgroup may name a path of the host's that is not there: `mount` then
    is the container's own cgroup.
    """
    lines = re.findall(r"^\d+:(.*?):/*(.*)$", _text(root / "proc/self/cgroup"), re.MULTILINE)
    for controllers, path in lines:
        if controller in controllers.split(","):
            folder = Path(os.path.normpath(mount / path))
            if not folder.is_relative_to(mount):  # "/../..": above what this container sees
                folder = mount
            yield from (each for each in (folder, *folder.parents) if each.is_relative_to(mount))


def _unmapped(stat: dict[str, int], inactive: str, active: str, mapped: str) -> int:
    """Bytes of cached files that no process has mapped, from a cgroup's memory.stat."""
    return max(0, stat.get(inactive, 0) + stat.get(active, 0) - stat.get(mapped, 0))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """The one whole number that a file holds; None where it holds something else or is missing."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _numbers(path: Path) -> dict[str, int]:
    """The lines `name number` or `name: number kB` of a file."""
    pairs = re.findall(r"^([\w()]+):?\s+(\d+)\b", _text(path), re.MULTILINE)
    return {name: int(value) for name, value in pairs}


def _megabytes(size: int) -> float:
    return size / MEGABYTE

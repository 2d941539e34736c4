"""How much memory is left to this machine or container, and a refusal before a cell overruns it.

A kernel that asks for more than its container may have is killed without a word, and all that was
in it is lost. `require(400)` before a heavy cell raises a sentence instead.
"""

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
    source: str  # who sets the limit: "cgroup v2" or "this machine"

    @property
    def left(self) -> float:
        """What may still be asked for, in MB; 0 where the limit is overrun already."""
        return max(0.0, self.limit - self.used)


def memory(root: Path = Path("/")) -> Memory | None:
    """The limit under which least is left; None where the system does not say (not Linux).

    It reads the machine's memory and that of every cgroup (of version 2) that this process is in,
    up to the hierarchy's root: a container's limit lies in one of them.

    Args:
        root: the folder in which `proc` and `sys` are found.

    Source: the kernel's Documentation/admin-guide/cgroup-v2.rst.
    """
    found = [*_machine(root), *_cgroups(root)]
    return min(found, key=lambda each: each.left, default=None)


def require(megabytes: float, *, what: str = "this cell", now: Memory | None = None) -> None:
    """Raise TooLittleMemory where `megabytes` more do not fit.

    Args:
        megabytes: what is needed beyond what is in use, in MB (10^6 bytes), > 0.
        what: what needs it, as the sentence's subject.
        now: the memory to compare with; `memory()` where None. Nothing known, nothing short.

    Raises:
        ValueError: megabytes is no finite number > 0.
    """
    checks.positive(megabytes=megabytes)
    now = memory() if now is None else now
    if now is not None and megabytes > now.left:
        raise TooLittleMemory(
            f"{what} needs about {megabytes:.0f} MB, and {now.left:.0f} MB are left of the"
            f" {now.limit:.0f} MB that {now.source} allows. {REMEDY}"
        )


def _machine(root: Path) -> Iterator[Memory]:
    """The machine's memory as /proc/meminfo has it (in KiB)."""
    values = _numbers(root / "proc" / "meminfo")
    if {"MemTotal", "MemAvailable"} <= values.keys():
        total, free = (values[name] * 1024 / MEGABYTE for name in ("MemTotal", "MemAvailable"))
        yield Memory(total, total - free, "this machine")


def _cgroups(root: Path) -> Iterator[Memory]:
    """Each cgroup that sets a limit, from this process's own up to the root.

    In a container /proc/self/cgroup may name a path of the host's that is not there: the root is
    the container's own then.
    """
    mount = root / "sys" / "fs" / "cgroup"
    own = re.findall(r"^0::/*(.*)$", _text(root / "proc/self/cgroup"), re.MULTILINE)
    names = own[0].split("/") if own and ".." not in own[0] else []
    for depth in range(len(names) + 1):
        folder = mount.joinpath(*names[:depth])
        limit, usage = (_text(folder / f"memory.{name}").strip() for name in ("max", "current"))
        if limit.isdecimal() and usage.isdecimal():  # else "max", which is none
            stat = _numbers(folder / "memory.stat")
            files = stat.get("inactive_file", 0) + stat.get("active_file", 0)
            used = int(usage) - max(0, files - stat.get("file_mapped", 0))
            yield Memory(int(limit) / MEGABYTE, used / MEGABYTE, "cgroup v2")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _numbers(path: Path) -> dict[str, int]:
    """The lines `name number` or `name: number kB` of a file."""
    pairs = re.findall(r"^([\w()]+):?\s+(\d+)\b", _text(path), re.MULTILINE)
    return {name: int(value) for name, value in pairs}

"""A guard that refuses a cell for which a machine or container has too little memory.

The system kills a kernel that outgrows its container, without a word and with all that was in it.
`require(400)` before a heavy cell raises a sentence instead.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from dpkit.common import checks


class TooLittleMemory(MemoryError):
    """The memory that is left is too little for the next step."""


class Memory(NamedTuple):
    """A limit on memory, what is left of it, both in MB (10^6 bytes), and its source.

    Cached files that no process has mapped do not count: the system gives those back.
    """

    limit: float
    left: float
    source: str


def memory(root: Path = Path("/")) -> Memory | None:
    """The limit under which least is left; None where the system does not say (not Linux).

    It reads the memory of the machine and of every cgroup (version 2) of this process, one of which
    has a container's limit (the kernel's Documentation/admin-guide/cgroup-v2.rst). `root` is the
    folder of `proc` and `sys`.
    """
    found = []
    machine = {name: int(kib) * 1024 / 1e6 for name, kib in _lines(root / "proc/meminfo")}
    if "MemAvailable" in machine:
        found.append(Memory(machine["MemTotal"], machine["MemAvailable"], "this machine"))
    # A container may see the host's name, which leads nowhere: the root is the container's.
    group = root.joinpath("sys/fs/cgroup", *_lines(root / "proc/self/cgroup", r"^0::/*(.*)$"))
    for folder in (group, *group.parents):
        limit, used = (
            _lines(folder / f"memory.{name}", r"^\d+$") for name in ("max", "current")
        )
        if limit and used:  # else there is none
            stat = Counter({name: int(size) for name, size in _lines(folder / "memory.stat")})
            cached = max(0, stat["inactive_file"] + stat["active_file"] - stat["file_mapped"])
            left = max(0, int(limit[0]) - int(used[0]) + cached)
            found.append(Memory(int(limit[0]) / 1e6, left / 1e6, "cgroup v2"))
    return min(found, key=lambda each: each.left, default=None)


def require(megabytes: float, *, what: str = "this cell", now: Memory | None = None) -> None:
    """Raise TooLittleMemory where `megabytes` more do not fit.

    Args:
        megabytes: memory needed beyond that in use, in MB (10^6 bytes), > 0.
        what: the message's subject.
        now: the memory to compare with; `memory()` where None. Nothing known, nothing short.

    Raises:
        ValueError: megabytes is not finite and > 0.
    """
    checks.positive(megabytes=megabytes)
    now = now or memory()
    if now and megabytes > now.left:
        raise TooLittleMemory(
            f"{what} needs about {megabytes:.0f} MB, and {now.left:.0f} MB are left of the"
            f" {now.limit:.0f} MB that {now.source} allows. Shut down other kernels (in JupyterLab:"
            " Kernel, Shut Down All Kernels) and run this notebook from the top, or run it on a"
            " machine with more memory."
        )


def _lines(path: Path, form: str = r"^([\w()]+):?\s+(\d+)\b") -> list[Any]:
    """The matches of lines of a form, by default `name number` or `name: number kB`."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return re.findall(form, text, re.MULTILINE)

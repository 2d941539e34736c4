"""How much memory is left to this machine or container, and a refusal before a cell overruns it.

A kernel that asks for more than its container may have is killed without a word, and all that was
in it is lost. `require(400)` before a heavy cell raises a sentence instead.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from dpkit.common import checks


class TooLittleMemory(MemoryError):
    """What comes next would not fit into the memory that is left."""


class Memory(NamedTuple):
    """One limit on memory and what is left of it, in MB (10^6 bytes); and who sets it.

    Cached files that no process has mapped do not count: the system gives those back.
    """

    limit: float
    left: float
    source: str


def memory(root: Path = Path("/")) -> Memory | None:
    """The limit under which least is left; None where the system does not say (not Linux).

    It reads the machine's memory and that of every cgroup (of version 2) that this process is in: a
    container's limit lies in one of them. (The kernel's Documentation/admin-guide/cgroup-v2.rst.)
    `root` is the folder in which `proc` and `sys` are found.
    """
    found = []
    machine = {name: int(kib) * 1024 / 1e6 for name, kib in _lines(root / "proc/meminfo")}
    if "MemAvailable" in machine:
        found.append(Memory(machine["MemTotal"], machine["MemAvailable"], "this machine"))
    # In a container the name may be of the host's, and lead nowhere: the root is the container's.
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
        megabytes: what is needed beyond what is in use, in MB (10^6 bytes), > 0.
        what: what needs it, as the sentence's subject.
        now: the memory to compare with; `memory()` where None. Nothing known, nothing short.

    Raises:
        ValueError: megabytes is no finite number > 0.
    """
    checks.positive(megabytes=megabytes)
    now = now or memory()
    if now and megabytes > now.left:
        raise TooLittleMemory(
            f"{what} needs about {megabytes:.0f} MB, and {now.left:.0f} MB are left of the"
            f" {now.limit:.0f} MB that {now.source} allows. Shut down kernels that are no longer"
            " needed (in JupyterLab: Kernel, Shut Down All Kernels), open this notebook alone and"
            " run it from the top, or run it where there is more memory."
        )


def _lines(path: Path, form: str = r"^([\w()]+):?\s+(\d+)\b") -> list[Any]:
    """What stands in the lines of such a form, by default `name number` or `name: number kB`."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return re.findall(form, text, re.MULTILINE)

"""How much memory is left to this machine or container, and a refusal before a cell overruns it.

A kernel that asks for more than its container may have is killed without a word, and all that was
in it is lost. `require(400)` before a heavy cell raises a sentence instead.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dpkit import checks

MEGABYTE = 1_000_000  # bytes
REMEDY = (
    "Shut down kernels that are no longer needed (in JupyterLab: Kernel, Shut Down All Kernels),"
    " open this notebook alone and run it from the top, or run it where there is more memory."
)


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

    Args:
        root: the folder in which `proc` and `sys` are found.
    """
    return min([*_machine(root), *_cgroups(root)], key=lambda each: each.left, default=None)


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
    values = _numbers(root / "proc" / "meminfo")  # KiB
    if {"MemTotal", "MemAvailable"} <= values.keys():
        total, left = (values[name] * 1024 / MEGABYTE for name in ("MemTotal", "MemAvailable"))
        yield Memory(total, left, "this machine")


def _cgroups(root: Path) -> Iterator[Memory]:
    """Each that sets a limit. In a container the name may be of the host's: the root is its own."""
    own = re.findall(r"^0::/*(.*)$", _text(root / "proc/self/cgroup"), re.MULTILINE)
    place = Path("/") / (own[0] if own and ".." not in own[0] else "")
    for folder in (
        root / "sys/fs/cgroup" / each.relative_to("/") for each in (place, *place.parents)
    ):
        limit, used = (_text(folder / f"memory.{name}").strip() for name in ("max", "current"))
        if limit.isdecimal() and used.isdecimal():  # else "max", which is none
            stat = {"inactive_file": 0, "active_file": 0, "file_mapped": 0}
            stat |= _numbers(folder / "memory.stat")
            cached = stat["inactive_file"] + stat["active_file"] - stat["file_mapped"]
            left = (int(limit) - int(used) + max(0, cached)) / MEGABYTE
            yield Memory(int(limit) / MEGABYTE, max(0.0, left), "cgroup v2")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _numbers(path: Path) -> dict[str, int]:
    """The lines `name number` or `name: number kB` of a file."""
    pairs = re.findall(r"^([\w()]+):?\s+(\d+)\b", _text(path), re.MULTILINE)
    return {name: int(value) for name, value in pairs}

"""Stored results: JSON written by programs, whole or not at all, with provenance."""

import json
import math
import os
import platform
import subprocess
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from dpkit.common import __version__
from dpkit.common.files import CHECKOUT, PACKAGE, write_bytes

# Relative: how near calibrated settings are to stored ones
SETTINGS = 1e-4
SCALES = ("paper", "reduced", "small")


def write_json(path: Path, content: Any) -> Path:
    """Write `content` to `path` atomically: readers see the old file or the new one."""
    text = json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n"
    return write_bytes(path, text.encode())


def read_json(path: Path) -> Any:
    """The content of one stored record.

    Raises:
        ValueError: the file is not whole JSON, which names the file and how to make it anew.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"stored record {path} is not valid JSON ({error}); delete it and reproduce it"
        ) from error


def json_number(value: float | None) -> float | str | None:
    """A number as the kit's JSON has it: a number, null, or "inf" (never NaN)."""
    if value is None:
        return None
    if value != value:
        raise ValueError("a NaN cannot be stored or printed as a result")
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return float(value)


def alike(one: Any, other: Any, *, within: float = 1e-6) -> bool:
    """Whether two JSON values agree: floats within a relative `within`, all else exactly.

    The last digits of a calibrated noise are the processor's; some more are the accountant's, where
    its answer's width has changed since it was stored (`SETTINGS`).
    """
    same = partial(alike, within=within)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=within)
    return one == other


def describe(value: Any) -> Any:
    """Settings as JSON values: each dataclass by its name and the fields that are not None."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = {field.name: describe(getattr(value, field.name)) for field in fields(value)}
        given = {name: one for name, one in shown.items() if one is not None}
        return {"type": type(value).__name__, **given}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    return value


def code_version() -> str:
    """The commit the code runs from (with `+changed` if package files differ), else the version.

    A copy without .git has the commit from DPKIT_CODE, where that is set.
    """
    if not (CHECKOUT / ".git").exists():
        return os.environ.get("DPKIT_CODE", __version__)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(CHECKOUT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    try:
        head = git("rev-parse", "--short=12", "HEAD").strip()
        changed = git("status", "--porcelain", "--", PACKAGE.name)
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return head + ("+changed" if changed else "")


def provenance(
    *,
    settings: dict[str, Any],
    seed: int | None,
    data: dict[str, str],
    device: str,
    wall_seconds: float,
    scale: str,
) -> dict[str, Any]:
    """The provenance of a stored result.

    Args:
        settings: everything that was set, as JSON values.
        seed: the seed of the run, None where nothing is random.
        data: data set name -> sha256 of what was read.
        device: "cpu" or the name of the accelerator.
        wall_seconds: wall time of the run itself.
        scale: "paper" (the paper's own size), "reduced" or "small" (of seconds, no data set).

    Raises:
        ValueError: scale is none of the three.
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    packages = {}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "settings": settings,
        "seed": seed,
        "data": data,
        "code": code_version(),
        "device": device,
        "wall_seconds": round(wall_seconds, 2),
        "scale": scale,
        "python": platform.python_version(),
        "packages": packages,
    }

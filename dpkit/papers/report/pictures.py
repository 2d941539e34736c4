"""Pictures of stored parts as PNG: sample images, and curves along training."""

import struct
import zlib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from dpkit.papers.experiments.store import Stored

SHOWN = 20  # images of a part, at most
AXES = {"steps": "step", "iterations": "iteration"}
SCORES = {"inception": "inception score", "accuracy": "accuracy"}
TOGETHER = 6  # curves a figure


class Drawn(NamedTuple):
    """A PNG and what it shows in words."""

    png: bytes
    words: str


def samples(images: np.ndarray, words: str) -> Drawn:
    """The first stored sample images side by side, dark on white.

    Args:
        images: uint8 (images, height, width).
        words: what they are.
    """
    return Drawn(png(255 - np.concatenate(list(images[:SHOWN]), axis=1)), words)


def png(grey: np.ndarray) -> bytes:
    """Grey levels, uint8 (height, width), as a PNG file (RFC 2083)."""
    height, width = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)  # no line is filtered
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def curves(stored: Stored, of: str) -> list[Drawn]:
    """Scores along training of a table's first seeds, a few runs a figure.

    Empty where no part has a curve of two points, or matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        return []
    found = {name.rpartition("-seed")[0]: one for name, one in _curves(stored)}
    names = list(found)
    chosen = (names[start : start + TOGETHER] for start in range(0, len(names), TOGETHER))
    return [_drawn({name: found[name] for name in some}, of) for some in chosen]


def _curves(stored: Stored) -> Iterator[tuple[str, tuple[str, str, Mapping[str, Any]]]]:
    """Of each part of seed 0 that has one: its name, and what the curve's axes are."""
    for name, part in sorted(stored.items()):
        curve = part["values"].get("curve", {})
        along = next((key for key in AXES if len(curve.get(key, ())) > 1), None)
        score = next((key for key in SCORES if key in curve), None)
        if name.endswith("-seed0") and along and score:
            yield name, (along, score, curve)


def _drawn(some: dict[str, tuple[str, str, Mapping[str, Any]]], of: str) -> Drawn:
    from dpkit.common import plots

    along, score, _ = next(iter(some.values()))
    drawn, (ax,) = plots.figure(width=7.6, height=3.0)
    plots.lines(
        ax,
        {name: (curve[along], curve[score]) for name, (along, score, curve) in some.items()},
        x=AXES[along],
        y=SCORES[score],
    )
    words = f"{of}: {SCORES[score]} by {AXES[along]} of {', '.join(some)} (seed 0)"
    return Drawn(plots.picture(drawn, words).png(), words)

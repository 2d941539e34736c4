"""Where the parts of a table are stored, and how they are read back."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from dpkit.common.files import cache_dir, results_dir, write_bytes
from dpkit.common.records import SCALES, read_json


def folder(paper: str, table: str, *, scale: str, results: Path | None = None) -> Path:
    """The folder of one table's parts at one scale.

    By default among the kit's own results; small ones, which are made in seconds, in the cache.

    Raises:
        ValueError: scale is none of `records.SCALES`.
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    own = cache_dir() / "results" if scale == "small" else results_dir()
    return (results or own) / paper / table / scale


def load(
    paper: str, table: str, *, scale: str = "paper", results: Path | None = None
) -> dict[str, dict[str, Any]]:
    """All stored parts of a table, by name; empty where nothing is stored."""
    paths = sorted(folder(paper, table, scale=scale, results=results).glob("*.json"))
    return {path.stem: read_json(path) for path in paths}


def save_images(path: Path, images: np.ndarray) -> Path:
    """Sample images, uint8 (images, height, width), in a compressed .npz without pickle."""
    if images.dtype != np.uint8 or images.ndim != 3:
        raise ValueError(f"images must be uint8 (n, h, w), got {images.dtype} {images.shape}")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=images)
    return write_bytes(path, buffer.getvalue())


def load_images(
    paper: str, table: str, part: str, *, scale: str = "paper", results: Path | None = None
) -> np.ndarray:
    """The sample images stored beside a part, uint8 (images, height, width)."""
    path = folder(paper, table, scale=scale, results=results) / f"{part}.npz"
    if not path.exists():
        raise FileNotFoundError(
            f"no stored images at {path}; make them with "
            f"`python -m dpkit reproduce {paper} {table} --scale {scale}`"
        )
    with np.load(path, allow_pickle=False) as stored:
        return stored["images"]

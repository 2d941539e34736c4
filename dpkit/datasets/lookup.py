"""Folders in which data may lie: `$DPKIT_DATA/<folder>`, then `data/cache/<folder>`."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dpkit.common.files import cache_dir
from dpkit.datasets.sources import File, Source

FORMS = ("", ".gz", ".xz")
SPLITS = ("train", "test")


class DataNotFound(FileNotFoundError):
    """A data set is in none of the places looked in, and could not be downloaded."""


class Place(NamedTuple):
    """A folder in which a set's files may lie, and the rule that led there."""

    rule: str  # "DPKIT_DATA" | "cache"
    folder: Path


def check_split(split: str) -> str:
    """Return `split` itself. Raises ValueError unless it is "train" or "test"."""
    if split not in SPLITS:
        raise ValueError(f"split must be 'train' or 'test', got {split!r}")
    return split


def data_root() -> Path | None:
    """Absolute path of the folder that DPKIT_DATA names; None if it is unset or empty.

    Raises:
        DataNotFound: the variable names something that is not a folder.
    """
    value = os.environ.get("DPKIT_DATA", "")
    if not value:
        return None
    folder = Path(value).expanduser().resolve()
    if not folder.is_dir():
        raise DataNotFound(
            f"DPKIT_DATA is set to {value!r}, but {folder} is not a folder; "
            "correct the variable, or unset it to use the cache"
        )
    return folder


def places(wanted: Source) -> Iterator[Place]:
    """The folders in which `wanted` may lie, existing or not, in the order of look-up."""
    root = data_root()
    if root is not None:
        yield from (Place("DPKIT_DATA", root / folder) for folder in wanted.folders)
    yield from (Place("cache", cache_dir() / folder) for folder in wanted.folders)


def form(folder: Path, file: File) -> Path | None:
    """The path of `file` in `folder` as it is stored there: plain, .gz or .xz; None if absent."""
    for suffix in FORMS:
        path = folder / (file.name + suffix)
        if path.is_file():
            return path
    return None


def missing(folder: Path, files: Iterable[File]) -> list[str]:
    """The names among `files` that `folder` holds in no form."""
    return [file.name for file in files if form(folder, file) is None]


def find(wanted: Source, files: tuple[File, ...]) -> Place | None:
    """The first place that holds all of `files`; None if there is none."""
    return next((place for place in places(wanted) if not missing(place.folder, files)), None)

"""Paths of a data set's files: where they lie already, or in the cache after a download."""

from pathlib import Path

from dpkit.common.files import cache_dir
from dpkit.datasets.fetch import download
from dpkit.datasets.lookup import DataNotFound, check_split, find, form, missing, places
from dpkit.datasets.sources import File, Source


def locate(wanted: Source, split: str) -> list[tuple[File, Path]]:
    """Find each file of a split and its path; download the set if it lies nowhere yet.

    Raises:
        DataNotFound: the set lies nowhere and has no download; the message has three remedies.
        ValueError: a download came with the wrong checksum.
    """
    files = wanted.split(check_split(split))
    place = find(wanted, files)
    if place is not None:
        folder = place.folder
    else:
        try:
            folder = download(wanted.name)
        except OSError as error:  # no server delivered, or the cache cannot be written
            raise DataNotFound(_not_found(wanted, files, error)) from error
    found = [(file, form(folder, file)) for file in files]
    return [(file, path) for file, path in found if path is not None]


def _not_found(wanted: Source, files: tuple[File, ...], reason: Exception) -> str:
    looked = []
    for _, folder in places(wanted):
        lacks = missing(folder, files)
        looked.append(f"{folder} (lacks {', '.join(lacks)})" if folder.is_dir() else f"{folder}")
    names = " or ".join(f"{folder}/" for folder in wanted.folders)
    return (
        f"{wanted.name} is not in {', '.join(looked)}, and its download failed ({reason}). "
        f"Three ways to get it: (1) set DPKIT_DATA to a folder that holds {names}; "
        f"(2) put {', '.join(file.name for file in files)} (plain, .gz or .xz) in "
        f"{cache_dir() / wanted.folders[0]}; "
        f"(3) with a network, run: python -m dpkit data get {wanted.name}"
    )

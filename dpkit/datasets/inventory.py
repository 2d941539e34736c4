"""An inventory of the data sets: where each one lies, and whether its checksums agree."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpkit.datasets import sources
from dpkit.datasets.census import census
from dpkit.datasets.files import DataNotFound, find, form, missing, places, read
from dpkit.datasets.images import digits
from dpkit.datasets.sources import DataSource, File, source


def status() -> list[dict[str, Any]]:
    """Return one row per data set, without reading any file.

    Keys: name; found ("DPKIT_DATA", "cache", the package that ships the set, or None where no place
    holds all of its files); path (absolute, or None); missing (file names lacking in the first
    folder that exists); bytes (on disk if found, else of the download); terms; origin.

    Raises:
        DataNotFound: DPKIT_DATA is set, but not to a folder.
    """
    return [_row(wanted) for wanted in sources.SOURCES]


def _row(wanted: DataSource) -> dict[str, Any]:
    row: dict[str, Any] = {"name": wanted.name, "found": None, "path": None, "missing": []}
    place = find(wanted, wanted.files) if wanted.folders else None
    if not wanted.folders:
        row |= {"found": wanted.shipped, "bytes": 0}
    elif place is not None:
        paths = [form(place.folder, file) for file in wanted.files]
        size = sum(path.stat().st_size for path in paths if path is not None)
        row |= {"found": place.rule, "path": str(place.folder), "bytes": size}
    else:
        row["bytes"] = sum(item.size for item in wanted.downloads)
        incomplete = [folder for _, folder in places(wanted) if folder.is_dir()]
        row["missing"] = missing(incomplete[0], wanted.files) if incomplete else []
    return row | {"terms": wanted.terms, "origin": wanted.origin}


def verify(name: str | None = None) -> list[dict[str, Any]]:
    """Compare the checksums of all files of one set, or of every set that is here.

    Every folder in the look-up that holds a file of the set is read: a bad copy is found even
    behind a good one.

    Returns:
        One row per file: name (of the set), file, path (None for what a package ships),
        expected and found (sha256 of the decompressed content; found is None where the file is
        missing), ok.

    Raises:
        ValueError: unknown name.
        DataNotFound: the named set is nowhere; or DPKIT_DATA is set, but not to a folder.
    """
    wanted = sources.SOURCES if name is None else (source(name),)
    rows = [row for one in wanted for row in _verify(one)]
    if name is not None and not rows:
        looked = ", ".join(str(folder) for _, folder in places(wanted[0]))
        raise DataNotFound(
            f"{name} is in none of {looked}; to get it run: python -m dpkit data get {name}"
        )
    return rows


def _verify(wanted: DataSource) -> Iterator[dict[str, Any]]:
    if not wanted.folders:  # the checksum of what a package ships is computed anew
        for file in wanted.files:
            anew = (
                census(split=file.split).attrs["checksum"]
                if wanted.name == sources.CENSUS.name
                else digits(split=file.split).checksum
            )
            yield _checked(wanted, file, None, anew)
    for _, folder in places(wanted):
        if len(missing(folder, wanted.files)) < len(wanted.files):
            for file in wanted.files:
                path = form(folder, file)
                found = read(path)[1:] if path is not None else (None, None)
                yield _checked(wanted, file, path or folder / file.name, *found)


def _checked(
    wanted: DataSource,
    file: File,
    path: Path | None,
    found: str | None,
    stopped: object = None,
) -> dict[str, Any]:
    return {
        "name": wanted.name,
        "file": file.name,
        "path": None if path is None else str(path),
        "expected": file.sha256,
        "found": found,
        "ok": stopped is None and found == file.sha256,
    }

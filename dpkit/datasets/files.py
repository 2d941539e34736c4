"""A data set's files: found where they lie, else downloaded, never believed before checksums agree.

Folders in which data may lie are `$DPKIT_DATA/<folder>`, then `data/cache/<folder>`.
"""

import gzip
import hashlib
import http.client
import io
import lzma
import os
import tarfile
import urllib.request
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dpkit.common.files import cache_dir
from dpkit.common.records import write_bytes
from dpkit.datasets.sources import DataSource, Download, File, source

FORMS = ("", ".gz", ".xz")
SPLITS = ("train", "test")
CHUNK = 1 << 22  # bytes
TIMEOUT = 30  # seconds without a byte


class DataNotFound(FileNotFoundError):
    """A data set is in no place looked in, and could not be downloaded."""


class DownloadFailed(OSError):
    """No server delivered the file: no network, a refusal, or an interruption."""


class DataFolder(NamedTuple):
    """A folder in which a set's files may lie, and the rule that led there."""

    rule: str  # "DPKIT_DATA" | "cache"
    folder: Path


def check_split(split: str) -> str:
    """Return `split` itself. Raises ValueError unless it is "train" or "test"."""
    if split not in SPLITS:
        raise ValueError(f"split must be 'train' or 'test', got {split!r}")
    return split


def places(wanted: DataSource) -> Iterator[DataFolder]:
    """The folders in which `wanted` may lie, existing or not, in the order of look-up.

    Raises:
        DataNotFound: DPKIT_DATA names something that is not a folder.
    """
    if value := os.environ.get("DPKIT_DATA", ""):
        root = Path(value).expanduser().resolve()
        if not root.is_dir():
            raise DataNotFound(
                f"DPKIT_DATA is set to {value!r}, but {root} is not a folder; "
                "correct the variable, or unset it to use the cache"
            )
        yield from (DataFolder("DPKIT_DATA", root / folder) for folder in wanted.folders)
    yield from (DataFolder("cache", cache_dir() / folder) for folder in wanted.folders)


def form(folder: Path, file: File) -> Path | None:
    """The path of `file` in `folder`: plain, .gz or .xz; None if absent."""
    paths = (folder / (file.name + suffix) for suffix in FORMS)
    return next((path for path in paths if path.is_file()), None)


def missing(folder: Path, files: Iterable[File]) -> list[str]:
    """The names among `files` that `folder` holds in no form."""
    return [file.name for file in files if form(folder, file) is None]


def find(wanted: DataSource, files: tuple[File, ...]) -> DataFolder | None:
    """The first place that holds all of `files`; None if there is none."""
    return next((place for place in places(wanted) if not missing(place.folder, files)), None)


def locate(wanted: DataSource, split: str) -> list[tuple[File, Path]]:
    """Find each file of a split and its path; download the set if it lies nowhere yet.

    Raises:
        DataNotFound: the set lies nowhere and has no download; the message has three remedies.
        ValueError: a download came with the wrong checksum.
    """
    files = wanted.split(check_split(split))
    place = find(wanted, files)
    try:
        folder = download(wanted.name) if place is None else place.folder
    except OSError as error:  # no server delivered, or the cache cannot be written
        looked = [
            str(folder)
            + (f" (lacks {', '.join(missing(folder, files))})" if folder.is_dir() else "")
            for _, folder in places(wanted)
        ]
        names = " or ".join(f"{folder}/" for folder in wanted.folders)
        raise DataNotFound(
            f"{wanted.name} is not in {', '.join(looked)}, and its download failed ({error}). "
            f"Three ways to get it: (1) set DPKIT_DATA to a folder that holds {names}; "
            f"(2) put {', '.join(file.name for file in files)} (plain, .gz or .xz) in "
            f"{cache_dir() / wanted.folders[0]}; "
            f"(3) with a network, run: python -m dpkit data get {wanted.name}"
        ) from error
    found = [(file, form(folder, file)) for file in files]
    return [(file, path) for file, path in found if path is not None]


def read(path: Path) -> tuple[bytearray, str, Exception | None]:
    """The decompressed content of a plain, .gz or .xz file, its sha256, and what stopped it.

    Where decompression fails, content and checksum are those of the part that came before.
    """
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    content, digest, stopped = bytearray(), hashlib.sha256(), None
    try:
        with opener(path, "rb") as file:
            while chunk := file.read(CHUNK):
                content += chunk
                digest.update(chunk)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        stopped = error
    return content, digest.hexdigest(), stopped


def read_verified(path: Path, *, sha256: str) -> bytearray:
    """The decompressed content of `path`.

    Raises:
        ValueError: the content's sha256 is not `sha256`; the message has both, and the path.
    """
    content, found, stopped = read(path)
    if stopped is None and found == sha256:
        return content
    what = "is corrupted" if stopped is None else f"is truncated or corrupted ({stopped})"
    raise ValueError(
        f"{path.resolve()} {what}: expected sha256 {sha256}, found {found} "
        f"over {len(content)} bytes of content; replace this file by a good copy"
    )


def download(name: str, *, base_url: str | None = None, progressbar: bool = False) -> Path:
    """Download the files of a data set into its cache folder, and return that folder.

    Files that are there and good are left alone. Each download is held in memory, and a file is
    written only when its sha256 agrees.

    Args:
        name: the data set, such as "mnist".
        base_url: fetch from below this address rather than from the set's own.
        progressbar: show one on standard error.

    Raises:
        ValueError: unknown name; or what was served has the wrong sha256 (what lay in the folder
            before stays).
        DownloadFailed: no server delivered; nothing was changed.
    """
    wanted = source(name)
    if not wanted.downloads:
        raise ValueError(f"{name} ships with {wanted.shipped}; there is nothing to download")
    folder = cache_dir() / wanted.folders[0]
    for item in wanted.downloads:
        archive = item.name.endswith(".tar.gz")
        plain = item.name.removesuffix(".gz")
        files = {file.name: file for file in wanted.files if archive or file.name == plain}
        found = ((form(folder, file), file) for file in files.values())
        if all(path and read(path)[1:] == (file.sha256, None) for path, file in found):
            continue
        content = _fetched(item, wanted.urls if base_url is None else (base_url,), progressbar)
        parts = _members(item.name, content, files) if archive else {item.name: content}
        for name, part in parts.items():
            write_bytes(folder / name, part)
            forms = {name.removesuffix(".gz") + suffix for suffix in FORMS}
            for other in forms - {name}:  # any copy beside the good one
                (folder / other).unlink(missing_ok=True)
    return folder


def _fetched(item: Download, urls: tuple[str, ...], progressbar: bool) -> bytes:
    """One file's verified content, from the first server that delivers it whole."""
    from tqdm import tqdm

    failures: list[str] = []
    wrong: ValueError | None = None
    for url in (f"{base.rstrip('/')}/{item.name}" for base in urls):
        request = urllib.request.Request(url, headers={"User-Agent": "dpkit"})
        content = bytearray()
        try:
            with (
                urllib.request.urlopen(request, timeout=TIMEOUT) as response,
                tqdm(
                    desc=item.name,
                    total=item.size,
                    unit="B",
                    unit_scale=True,
                    disable=not progressbar,
                ) as bar,
            ):
                while len(content) <= item.size and (chunk := response.read(1 << 16)):
                    content += chunk  # of a longer file no more is read
                    bar.update(len(chunk))
                total = int(response.headers.get("Content-Length") or item.size)
            if len(content) < min(total, item.size):
                raise ConnectionError(
                    f"interrupted after {len(content)} of {total} bytes; run the same command again"
                )
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{url}: {getattr(error, 'reason', None) or error}")
            continue
        found = hashlib.sha256(content).hexdigest()
        if found == item.sha256:
            return bytes(content)
        wrong = ValueError(
            f"{url} was served with the wrong content: expected sha256 {item.sha256}, "
            f"found {found}; the download was deleted and no file was changed"
        )
    raise wrong or DownloadFailed("; ".join(failures))


def _members(name: str, archive: bytes, files: Iterable[str]) -> dict[str, bytes]:
    """The set's files in a verified .tar.gz by their names, and nothing else."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            own = Path(member.name).name
            stream = tar.extractfile(member) if own in files else None
            if stream is not None:
                found[own] = stream.read()
    if lacks := [file for file in files if file not in found]:
        raise ValueError(f"{name} lacks {', '.join(lacks)}")
    return found

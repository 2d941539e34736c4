"""Downloads: resumed where they broke off, verified before files get their final names."""

import hashlib
import http
import http.client
import logging
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpkit.common.files import cache_dir
from dpkit.datasets.content import CHUNK, read_verified
from dpkit.datasets.lookup import form
from dpkit.datasets.sources import Download, File, Source, source

TIMEOUT = 30  # seconds without a byte


class DownloadFailed(OSError):
    """No server delivered the file: no network, a refusal, or an interruption."""


def download(name: str, *, base_url: str | None = None, progressbar: bool = False) -> Path:
    """Download the files of a data set into its cache folder, and return that folder.

    Files that are there and good are left alone; a download that broke off goes on where it
    stopped, if the server allows it. A file gets its final name only when its sha256 agrees.

    Args:
        name: the data set, such as "mnist".
        base_url: fetch from below this address rather than from the set's own.
        progressbar: show one on standard error.

    Raises:
        ValueError: unknown name; or what was served has the wrong sha256 (it is deleted, and what
            lay in the folder before stays).
        DownloadFailed: no server delivered; a part that came is kept aside, to go on from.
    """
    wanted = source(name)
    if not wanted.downloads:
        raise ValueError(f"{name} ships with {wanted.shipped}; there is nothing to download")
    folder = cache_dir() / wanted.folders[0]
    urls = wanted.urls if base_url is None else (base_url,)
    for item in wanted.downloads:
        archive = item.name.endswith(".tar.gz")
        provides = wanted.files if archive else _provided(wanted, item)
        if all(_good(folder, file) for file in provides):
            continue
        # An archive is fetched beside the folder and removed once its members are out.
        path = (folder.parent / ".parts" if archive else folder) / item.name
        _retrieve(item, path, urls, progressbar)
        folder.mkdir(parents=True, exist_ok=True)
        if archive:
            _extract(path, wanted, folder)
            path.unlink()
        else:
            _drop_other_forms(folder, provides, keep=path)
    return folder


def _provided(wanted: Source, item: Download) -> tuple[File, ...]:
    return tuple(file for file in wanted.files if item.name in (file.name, file.name + ".gz"))


def _good(folder: Path, file: File) -> bool:
    path = form(folder, file)
    if path is None:
        return False
    try:
        read_verified(path, sha256=file.sha256)
    except ValueError:
        return False
    return True


def _drop_other_forms(folder: Path, files: tuple[File, ...], *, keep: Path) -> None:
    """Remove every other copy of `files` (plain, .gz or .xz) beside a good download."""
    for file in files:
        while (path := form(folder, file)) is not None and path != keep:
            path.unlink()


def _retrieve(item: Download, path: Path, urls: tuple[str, ...], progressbar: bool) -> None:
    """Fetch one file to `path`, from the first server that delivers it whole."""
    import pooch

    failures: list[str] = []
    wrong: ValueError | None = None
    part = cache_dir() / ".parts" / f"{item.sha256[:16]}-{item.name}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    for base in urls:
        url = f"{base.rstrip('/')}/{item.name}"
        resumed: Any = Resumed(part, item, progressbar=progressbar)
        try:
            with _quiet(pooch):
                pooch.retrieve(
                    url,
                    known_hash=f"sha256:{item.sha256}",
                    fname=path.name,
                    path=path.parent,
                    downloader=resumed,
                )
            return
        except ValueError as error:
            wrong = error
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{url}: {getattr(error, 'reason', None) or error}")
    for folder in (path.parent, part.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    raise wrong or DownloadFailed("; ".join(failures))


@contextmanager
def _quiet(pooch: Any) -> Iterator[None]:
    """Keep pooch's log off standard error: the caller shows progress, or nothing."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class Resumed:
    """A downloader for pooch: keeps a partial download, asks for the rest by HTTP Range."""

    def __init__(self, part: Path, item: Download, *, progressbar: bool) -> None:
        self.part, self.item, self.progressbar = part, item, progressbar

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        """Fetch `url` into `output_file`, which pooch then checks again and renames.

        Raises:
            ValueError: wrong content, which is deleted.
            OSError: the server refused or the connection broke; what came is kept.
        """
        have = self.part.stat().st_size if self.part.exists() else 0
        if have != self.item.size:
            try:
                self._fetch(url, have if have < self.item.size else 0)
            except urllib.error.HTTPError as error:
                if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    raise
                self._fetch(url, 0)  # this server's file is shorter: what came is of no use
        found = _sha256(self.part)
        if found != self.item.sha256:
            self.part.unlink()
            raise ValueError(
                f"{url} was served with the wrong content: expected sha256 {self.item.sha256}, "
                f"found {found}; the download was deleted and no file was changed"
            )
        os.replace(self.part, output_file)

    def _fetch(self, url: str, have: int) -> None:
        request = urllib.request.Request(url, headers={"User-Agent": "dpkit"})
        if have:
            request.add_header("Range", f"bytes={have}-")
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            resumed = response.status == 206 and str(
                response.headers.get("Content-Range", "")
            ).startswith(f"bytes {have}-")
            start = have if resumed else 0
            length = response.headers.get("Content-Length")
            total = self.item.size if length is None else start + int(length)
            with open(self.part, "r+b" if resumed else "wb") as file, self._bar(start) as bar:
                file.seek(start)
                while chunk := response.read(1 << 16):
                    file.write(chunk)
                    bar.update(len(chunk))
                    if file.tell() > self.item.size:
                        break  # more than the file has: its checksum will say so
                received = file.tell()
        if received < min(total, self.item.size):
            raise ConnectionError(
                f"interrupted after {received} of {total} bytes; "
                "run the same command again to go on from there"
            )

    def _bar(self, start: int) -> Any:
        from tqdm import tqdm

        return tqdm(
            desc=self.item.name,
            total=self.item.size,
            initial=start,
            unit="B",
            unit_scale=True,
            disable=not self.progressbar,
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _extract(archive: Path, wanted: Source, folder: Path) -> None:
    """Extract the set's files from a verified .tar.gz by name, and nothing else."""
    files = {file.name: file for file in wanted.files}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            file = files.pop(Path(member.name).name, None)
            stream = tar.extractfile(member) if file is not None else None
            if file is None or stream is None:
                continue
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{file.name}.")
            path = Path(temporary)
            try:
                with os.fdopen(handle, "wb") as target:
                    while chunk := stream.read(CHUNK):
                        target.write(chunk)
                path.chmod(0o644)
                read_verified(path, sha256=file.sha256)
                os.replace(path, folder / file.name)
            finally:
                path.unlink(missing_ok=True)
            _drop_other_forms(folder, (file,), keep=folder / file.name)
    if files:
        raise ValueError(f"{archive.name} lacks {', '.join(files)}")

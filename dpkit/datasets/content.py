"""Reading a data file whole: decompressed, and never believed before its checksum agrees."""

import gzip
import hashlib
import lzma
import zlib
from pathlib import Path

CHUNK = 1 << 22  # bytes


def read(path: Path) -> tuple[bytearray, str, Exception | None]:
    """The decompressed content of a plain, .gz or .xz file, its sha256, and what stopped it.

    Where decompression fails, content and checksum are those of the part that came before.
    """
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    content, digest = bytearray(), hashlib.sha256()
    try:
        with opener(path, "rb") as file:
            while chunk := file.read(CHUNK):
                content += chunk
                digest.update(chunk)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        return content, digest.hexdigest(), error
    return content, digest.hexdigest(), None


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

"""Small files in the right formats, with sources whose checksums are theirs, and a server for them.

Every test here sees an empty cache of its own and no DPKIT_DATA; downloads reach a closed port.
"""

import gzip
import hashlib
import lzma
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkit.common import files
from dpkit.datasets import sources
from dpkit.datasets.sources import DataSource, Download

CLOSED = "http://127.0.0.1:9/"  # nobody listens on the discard port
PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, in a checkout of the test's own; not made yet."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    monkeypatch.setattr(files, "CHECKOUT", checkout)
    monkeypatch.delenv("DPKIT_DATA", raising=False)
    offline = tuple(x._replace(urls=(CLOSED,) if x.urls else ()) for x in sources.SOURCES)
    monkeypatch.setattr(sources, "SOURCES", offline)
    return checkout / "data" / "cache"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder DPKIT_DATA names."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("DPKIT_DATA", str(folder))
    return folder


@pytest.fixture
def expect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., DataSource]:
    """expect(name, contents, served): let a set's checksums be those of these files, downloads."""

    def change(name: str, contents: dict[str, bytes], served: Any = ()) -> DataSource:
        old, served = sources.source(name), dict(served)
        kept = [file for file in old.files if file.name in contents]
        files = tuple(file._replace(sha256=sha256(contents[file.name])) for file in kept)
        downloads = tuple(Download(item, sha256(b), len(b)) for item, b in served.items())
        new = old._replace(files=files, downloads=downloads or old.downloads)
        rest = tuple(new if source.name == name else source for source in sources.SOURCES)
        monkeypatch.setattr(sources, "SOURCES", rest)
        return new

    return change


@pytest.fixture
def store() -> Callable[..., None]:
    """store(folder, contents, form): write files plain, as .gz or as .xz."""

    def write(folder: Path, contents: dict[str, bytes], form: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / (name + form)).write_bytes(PACK[form](content))

    return write


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def mnist_files() -> dict[str, bytes]:
    """The four files of an MNIST of 6 training and 3 test images, each 28x28."""
    rng, contents = np.random.default_rng(0), {}
    for prefix, n in (("train", 6), ("t10k", 3)):
        pixels = rng.integers(256, size=(n, 28, 28), dtype=np.uint8)
        contents[f"{prefix}-images-idx3-ubyte"] = idx(pixels)
        contents[f"{prefix}-labels-idx1-ubyte"] = idx(np.arange(n, dtype=np.uint8))
    return contents


@dataclass
class Server:
    """What the loopback server serves, how it fails, and what it was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None  # bytes of a body after which the connection breaks
    asked: list[str] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    """An HTTP server on a free port of loopback."""
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            served.asked.append(name)
            if (body := served.files.get(name)) is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: served.cut_after])

        def log_message(self, *args: object) -> None:
            """Keep the test's output to the test."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield served
    http.shutdown()
    http.server_close()
    thread.join()

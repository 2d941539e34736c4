"""Small files in the right formats, with sources whose checksums are theirs, and a server for them.

Every test here sees an empty cache of its own and no DPKIT_DATA; downloads reach a closed port.
"""

import gzip
import hashlib
import lzma
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from dpkit.common import files
from dpkit.datasets import sources
from dpkit.datasets.sources import DataSource, Download, File

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
    offline = tuple(
        source._replace(urls=(CLOSED,) if source.urls else ()) for source in sources.SOURCES
    )
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

    def change(
        name: str, contents: dict[str, bytes], served: dict[str, bytes] | None = None
    ) -> DataSource:
        old = sources.source(name)
        files = tuple(
            File(file.name, file.split, sha256(contents[file.name]))
            for file in old.files
            if file.name in contents
        )
        downloads = tuple(
            Download(item, sha256(content), len(content))
            for item, content in (served or {}).items()
        )
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
    rng = np.random.default_rng(0)
    contents = {}
    for prefix, n in (("train", 6), ("t10k", 3)):
        contents[f"{prefix}-images-idx3-ubyte"] = idx(
            rng.integers(256, size=(n, 28, 28), dtype=np.uint8)
        )
        contents[f"{prefix}-labels-idx1-ubyte"] = idx(np.arange(n, dtype=np.uint8))
    return contents


class Server:
    """What the loopback server serves, how it fails, and what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut_after: int | None = None  # bytes of a body after which the connection breaks
        self.asked: list[str] = []
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.lstrip("/")
        self.asked.append(name)
        if name not in self.files:
            handler.send_error(404)
            return
        body = self.files[name]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.cut_after])


@pytest.fixture
def server() -> Iterator[Server]:
    """An HTTP server on a free port of loopback."""
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *args: object) -> None:
            """Keep the test's output to the test."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(
        target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    yield served
    http.shutdown()
    http.server_close()
    thread.join()

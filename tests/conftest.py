"""What holds for every test: no real data, no network beyond this machine, repeatable examples."""

import os
import socket
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from dpkit.__main__ import main
from dpkit.common import files
from dpkit.privacy.accountants import pld

for name in ("DPKIT_DATA", "DPKIT_CACHE"):
    os.environ.pop(name, None)  # results must not depend on it
os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("dpkit", deadline=None, derandomize=True, database=None)
settings.load_profile("dpkit")

HERE = Path(__file__).parent
ALL_NEED_TORCH = (HERE / "training", HERE / "papers" / "experiments")  # folders of tests
NEEDS_TORCH = "\npytestmark = pytest.mark.torch\n"  # stands in others that import it at the top


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out, where torch is absent, the files that need it as a whole."""
    if find_spec("torch") is not None or not collection_path.match("test_*.py"):
        return None
    all_do = any(map(collection_path.is_relative_to, ALL_NEED_TORCH))
    return all_do or NEEDS_TORCH in collection_path.read_text(encoding="utf-8") or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs torch; refuse a slow test that names no fault that it alone would catch."""
    for item in items:
        if any(map(item.path.is_relative_to, ALL_NEED_TORCH)):
            item.add_marker("torch")
        for mark in item.iter_markers("slow"):
            if not (mark.args and len(str(mark.args[0])) > 10):
                raise pytest.UsageError(f"{item.nodeid}: slow(fault) names no fault")


_connect = socket.socket.connect


def _connect_here_only(self: socket.socket, address: Any) -> None:
    """Refuse to leave this machine: a test that needs a server starts its own on loopback."""
    if self.family in (socket.AF_INET, socket.AF_INET6):
        host = str(address[0])
        if host not in ("localhost", "::1") and not host.startswith("127."):
            raise ConnectionRefusedError(f"tests do not use the network, tried {host}")
    _connect(self, address)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _connect_here_only)


@pytest.fixture
def results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of results/."""
    monkeypatch.setattr(files, "results_dir", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def dpkit(capsys: pytest.CaptureFixture[str]):
    """Run a command line in this process: (exit code, stdout, stderr)."""

    def run(line: str, *more: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([*line.split(), *more])
        out, err = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, out, err

    return run


_priced = cache(pld._epsilon)


@pytest.fixture(scope="module")
def each_ledger_is_priced_once() -> Iterator[None]:
    """For tests that ask for the same prices over and over, and doubt none of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pld, "_epsilon", _priced)
        yield

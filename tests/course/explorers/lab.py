"""A JupyterLab of one's own in a real browser: one notebook, run from top to bottom."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest
from PIL import Image

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
]
HANDLE = ".widget-slider .noUi-handle"
TOKEN = "a-token-of-this-test"
RUN_ALL = """async () => {
    const app = window.jupyterapp;
    await app.restored;
    while (!app.shell.currentWidget?.sessionContext) await new Promise(r => setTimeout(r, 50));
    const panel = app.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    await app.commands.execute('notebook:run-all-cells');
    return panel.sessionContext.session.kernel.id;
}"""


def pixels(png: bytes) -> np.ndarray:
    """A picture in grey, (height, width)."""
    return np.asarray(Image.open(BytesIO(png)).convert("L"), dtype=float)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a screen; where there is none, a test that wants it is skipped."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium here: browser tests are skipped")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def lab(notebook: Path, folder: Path) -> Iterator[str]:
    """JupyterLab over a copy of the notebook; its address, with the token.

    Args:
        notebook: copied into the folder, so that nothing is written beside it.
        folder: empty; also the home of this Lab.
    """
    root, home = folder / "root", folder / "home"
    root.mkdir()
    home.mkdir()
    shutil.copy(notebook, root)
    port = free_port()
    own = {
        name: str(home / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    own["JUPYTERLAB_SETTINGS_DIR"] = str(home / "settings")
    environment = {**os.environ, **own, "HOME": str(home), "OMP_NUM_THREADS": "1"}
    environment.pop("DPKIT_DATA", None)
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"),
        *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}"),
        *("--LabApp.expose_app_in_browser=True", "--ServerApp.port_retries=0"),
    ]
    with (folder / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=root)
    try:
        _answers(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, folder / "lab.log")
        yield f"http://127.0.0.1:{port}/lab/tree/{notebook.name}?token={TOKEN}&reset"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def _answers(address: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(300):
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended:\n{log.read_text()[-2000:]}")
        try:
            with urlopen(address, timeout=2):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()[-2000:]}")


def run_all(page: Any, address: str) -> None:
    """Open the notebook and run it; returns when every cell has run."""
    page.goto(address, timeout=90_000)
    page.wait_for_function("() => window.jupyterapp", timeout=60_000)
    page.evaluate(RUN_ALL)


def explorers(page: Any) -> dict[str, Any]:
    """The boxes of the explorers that have run, by title; cells out of view are scrolled to."""
    found = {}
    cells = page.locator(".jp-CodeCell")
    for index in range(cells.count()):
        cell = cells.nth(index)
        cell.scroll_into_view_if_needed()
        box = cell.locator(".jp-OutputArea-output .widget-vbox").first
        if "_repr_" in (cell.text_content() or "") or "dpkit.course.explorers" not in (
            cell.text_content() or ""
        ):
            continue
        box.wait_for(timeout=30_000)
        found[box.locator("h3").first.text_content()] = box
    return found


def keys(box: Any) -> tuple[str, str]:
    """The keys that move the first slider away from its nearer end, and back."""
    handle = box.locator(HANDLE)
    if handle.count() == 0:
        return "", ""
    now, high = (handle.first.get_attribute(f"aria-value{one}") for one in ("now", "max"))
    keys = "ArrowRight", "ArrowLeft"
    return keys[::-1] if float(now) == float(high) else keys

"""Build and start what binder/ describes as mybinder.org does, and ask the server.

`python tests/contracts/binder_check.py` (or `make binder-check`): a copy of the checkout becomes
the home folder. A fresh virtual environment of the Python in binder/runtime.txt gets
binder/requirements.txt from pip, then binder/postBuild runs, then `binder/start jupyter lab`.
Checked: every installed package has its pinned version; the server answers, refuses strangers,
serves the first notebook and ends kernels with their tabs; a kernel has one thread and no CUDA;
every notebook runs. Not checked: the image, in which a notebook server is installed beforehand.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
BINDER = CHECKOUT / "binder"
UNPINNED = {"dpkit", "pip"}  # the checkout itself, and the environment's own
FIRST = "notebooks/00_start_here.ipynb"
TRACKER = "@jupyterlab/notebook-extension:tracker"
START_SECONDS = 120


def python_version() -> str:
    """Return the version of Python that binder/runtime.txt asks for, such as 3.11.

    Raises:
        ValueError: runtime.txt holds something else than python-3.MINOR.
    """
    text = (BINDER / "runtime.txt").read_text(encoding="utf-8").strip()
    found = re.fullmatch(r"python-(3\.\d+)", text)
    if found is None:
        raise ValueError(f"binder/runtime.txt must hold python-3.MINOR, got {text!r}")
    return found[1]


def pins(text: str) -> dict[str, SpecifierSet]:
    """Return what a text such as constraints.txt pins for binder's Python, by canonical name."""
    here = {"python_version": python_version()}
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    read = [Requirement(line) for line in lines if line and not line.startswith("#")]
    held = [one for one in read if one.marker is None or one.marker.evaluate(here)]
    return {canonicalize_name(one.name): one.specifier for one in held}


def not_as_pinned(installed: dict[str, str], pinned: dict[str, SpecifierSet]) -> list[str]:
    """Return those installed packages, name to version, that have no pin or another version."""
    return [
        f"{name} {version}"
        for name, version in installed.items()
        if name not in UNPINNED
        and not pinned.get(canonicalize_name(name), SpecifierSet("<0")).contains(version)
    ]


def an_interpreter() -> str:
    """Return the path of binder's Python, or of this one, said aloud, where that is not at hand."""
    version = python_version()
    find = [CHECKOUT / ".ci" / "find-python", version]
    found = subprocess.run(find, capture_output=True, text=True).stdout.strip()
    if not found:
        here = "{}.{}".format(*sys.version_info)
        print(f"Python {version} of binder/runtime.txt is not at hand: checking with {here}.")
    return found or sys.executable


def copy_checkout(target: Path) -> None:
    """Copy what git follows, as it lies in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (CHECKOUT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, target / name)  # with its time, as pairs are opened by it


def environment_of(folder: Path) -> dict[str, str]:
    """An environment in which HOME and everything of Jupyter's lie under `folder`."""
    own = ("JUPYTER", "IPYTHON", "PYTHON", "OMP_", "DPKIT", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
        kept[f"JUPYTER_{name}"] = str(folder / "jupyter" / name.lower())
    path = f"{folder / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return kept | {"HOME": str(folder / "home"), "PATH": path}


def asked(url: str, token: str = "", method: str = "GET") -> requests.Response:
    """The answer to a request, of one whom the server knows if there is a token."""
    headers = {"Authorization": f"token {token}"} if token else {}
    return requests.request(method, url, headers=headers, timeout=60)


@contextmanager
def server(folder: Path, token: str):
    """The address of a Lab server started by binder/start; its process is ended afterwards."""
    as_root = ["--allow-root"] if hasattr(os, "getuid") and os.getuid() == 0 else []
    options = ["--no-browser", "--ip=127.0.0.1", "--port=0", f"--IdentityProvider.token={token}"]
    command = ["binder/start", "jupyter", "lab", *options, *as_root]
    home, environment = folder / "home", environment_of(folder)
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
        try:
            yield wait_for(folder, process)
        finally:
            process.terminate()
            process.wait(timeout=60)


def wait_for(folder: Path, process: subprocess.Popen) -> str:
    """The address of the server, as soon as it has written it down and answers."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        for path in (folder / "jupyter" / "runtime_dir").glob("jpserver-*.json"):
            try:
                address = json.loads(path.read_text())["url"]
                asked(f"{address}api")
                return address
            except (ValueError, KeyError, requests.ConnectionError):
                pass  # written or listening in a moment
        time.sleep(0.2)
    raise RuntimeError(f"the server did not start:\n{(folder / 'server.log').read_text()}")


def ask_a_kernel(folder: Path, address: str, token: str) -> str:
    """What a new kernel of the server says about its threads and where dpkit lies."""
    kernel = asked(f"{address}api/kernels", token, "POST").json()["id"]
    code = """
import os, sys
from pathlib import Path
import torch, dpkit
from dpkit.course.memory_guard import memory
inside = Path(dpkit.__file__).is_relative_to(Path.home()) and Path(sys.prefix).name == "env"
print(torch.get_num_threads(), os.environ["OMP_NUM_THREADS"], inside, torch.version.cuda, memory())
"""
    from jupyter_client.blocking.client import BlockingKernelClient

    file = folder / "jupyter" / "runtime_dir" / f"kernel-{kernel}.json"
    client = BlockingKernelClient(connection_file=str(file))
    client.load_connection_file()
    client.start_channels()
    said: list[str] = []

    def note(message: dict[str, Any]) -> None:
        content = message["content"]
        said.append(content.get("text") or content.get("evalue") or "")

    try:
        client.wait_for_ready(timeout=60)
        client.execute_interactive(code, timeout=120, output_hook=note)
    finally:
        client.stop_channels()
    return "".join(said).strip()


def check(folder: Path) -> list[tuple[str, bool]]:
    """Every question to the running server with whether it was answered as it should be."""
    token = secrets.token_hex(16)
    with server(folder, token) as address:
        setting = asked(f"{address}lab/api/settings/{TRACKER}", token)
        schema = setting.json()["schema"] if setting.ok else {}
        override = schema.get("properties", {}).get("kernelShutdown", {}).get("default")
        opened = asked(f"{address}api/contents/{FIRST}?content=1", token)
        tree = asked(f"{address}lab/tree/{FIRST}", token)
        said = ask_a_kernel(folder, address, token)
        return [
            ("the server answers", asked(f"{address}api/status", token).ok),
            ("a stranger is refused", asked(f"{address}api/status").status_code == 403),
            ("Lab opens at the first notebook", tree.ok),
            (f"the first notebook opens: status {opened.status_code}", opened.ok),
            (f"kernels end with their tabs: {override}", override is True),
            (f"a kernel has one thread, dpkit, no CUDA: {said}", said.startswith("1 1 True None")),
        ]


def run_notebooks(folder: Path) -> list[tuple[str, bool]]:
    """Run every notebook from top to bottom as the environment's kernel does."""
    answers, home, environment = [], folder / "home", environment_of(folder)
    for notebook in sorted((home / "notebooks").glob("*.ipynb")):
        command = ["binder/start", "jupyter", "execute", str(notebook)]
        ran = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
        if ran.returncode:
            print(ran.stderr[-1500:])
        answers.append((f"{notebook.stem} runs", ran.returncode == 0))
    return answers


def build(folder: Path) -> list[tuple[str, bool]]:
    """Install what binder/ asks for; the answer is whether all of it has its pinned version."""
    began, home, environment = time.monotonic(), folder / "home", environment_of(folder)

    def run(*command: str, **options: Any) -> str:
        done = subprocess.run(command, cwd=home, env=environment, check=True, text=True, **options)
        return done.stdout

    copy_checkout(home)
    run(an_interpreter(), "-m", "venv", str(folder / "env"))
    run("python", "-m", "pip", "install", "-q", "--no-cache-dir", "-r", "binder/requirements.txt")
    print(f"requirements.txt installed after {time.monotonic() - began:.0f} s", flush=True)
    run("binder/postBuild")
    print(f"postBuild done after {time.monotonic() - began:.0f} s", flush=True)
    listed = json.loads(run("python", "-m", "pip", "list", "--format=json", stdout=subprocess.PIPE))
    installed = {one["name"]: one["version"] for one in listed}
    pinned = pins((home / "constraints.txt").read_text(encoding="utf-8"))
    others = not_as_pinned(installed, pinned)
    return [(f"{len(installed)} packages, not as pinned: {others or 'none'}", not others)]


def main() -> int:
    """Build, start, ask; 0 where every answer is as it should be."""
    with tempfile.TemporaryDirectory(prefix="binder-", ignore_cleanup_errors=True) as name:
        folder, began = Path(name).resolve(), time.monotonic()
        answers = build(folder) + check(folder) + run_notebooks(folder)
        for question, good in answers:
            print(f"{'ok  ' if good else 'FAIL'} {question}")
        print(f"{time.monotonic() - began:.0f} s in all")
    return 0 if all(good for _, good in answers) else 1


if __name__ == "__main__":
    sys.exit(main())

"""binder/: all it installs is pinned, the hooks do what they say, links lead there."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import binder_check
import pytest
import readme
from binder_check import BINDER, CHECKOUT, TRACKER
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

HOOKS = ("postBuild", "start")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="the hooks are for POSIX shells")


def names_of(lines: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines}


def test_the_requirements_are_those_of_pyproject_and_pinned():
    """pip takes the path of the pins from the folder of requirements.txt, wherever it runs."""
    text = (BINDER / "requirements.txt").read_text(encoding="utf-8")
    assert text == readme.binder_requirements(), "run `make readme`"
    option, *required = (line for line in text.splitlines() if not line.startswith("#"))
    flag, path = option.split()
    assert flag == "-c"
    assert (BINDER / path).samefile(CHECKOUT / "constraints.txt")
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["train"], *extras["notebooks"]]
    needed, named = names_of(lines) - {"dpkit"}, names_of(required)
    assert needed - named == {"torch"}, "postBuild installs torch, and torch alone"
    pinned = binder_check.pins((BINDER / path).read_text(encoding="utf-8"))
    assert {pin.operator for name in needed | named for pin in pinned[name]} == {"=="}


def test_pins_are_those_for_the_python_of_binder_and_packages_of_other_versions_are_named():
    text = "# a comment\n\nA.b==1  # why\nbeta==1b2\n"
    text += "c==2; python_version >= '3.11'\nc==1; python_version < '3.11'\n"
    pinned = binder_check.pins(text)
    wanted = {"a-b": "==1", "beta": "==1b2", "c": "==2"}
    assert pinned == {name: SpecifierSet(pin) for name, pin in wanted.items()}
    assert SpecifierSet(PROJECT["requires-python"]).contains(binder_check.python_version())
    installed = {"c": "2+cpu", "a_b": "1.0", "beta": "1b2", "pip": "23", "dpkit": "0.1"}
    assert binder_check.not_as_pinned(installed, pinned) == []
    installed |= {"a_b": "1.1", "triton": "3"}
    assert binder_check.not_as_pinned(installed, pinned) == ["a_b 1.1", "triton 3"]


def test_nothing_else_lies_in_binder():
    """With a binder/ folder its files alone are read, and environment.yml before all others."""
    ours = {"README.md", "requirements.txt", "runtime.txt", *HOOKS}
    assert {path.name for path in BINDER.iterdir()} == ours


@posix
@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_can_be_run(hook: str):
    path = BINDER / hook
    assert os.access(path, os.X_OK)
    assert path.read_bytes().startswith(b"#!/bin/sh\n")
    assert b"\r" not in path.read_bytes()
    if (CHECKOUT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-s", f"binder/{hook}"]
        listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
        assert listed.stdout.startswith("100755 ")


@posix
def test_start_leaves_one_thread_and_becomes_the_command():
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    say = f"import os, sys; print(*(os.environ[n] for n in {names!r}), os.getpid(), *sys.argv[1:])"
    command = [BINDER / "start", sys.executable, "-c", say, "two words", "$HOME"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.communicate(timeout=60)[0] == f"1 1 1 {process.pid} two words $HOME\n"


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., tuple[subprocess.CompletedProcess[str], list[str]]]:
    """Return a function: postBuild's result, with a python that only writes down its arguments.

    Its argument is a shell pattern: a command of python that it matches fails.
    """
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(
        '#!/bin/sh\necho "$PWD: $*" >>"$CALLS"\n'
        'case "$*" in *get_app_dir*) echo "$LAB";; $FAIL) exit 1;; esac\n'
    )
    python.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    names = {"CALLS": str(tmp_path / "calls"), "LAB": str(tmp_path / "a lab"), "PATH": path}

    def run(failing: str = "none"):
        how = {"cwd": tmp_path, "capture_output": True, "text": True}
        result = subprocess.run([BINDER / "postBuild"], env=names | {"FAIL": failing}, **how)
        calls = (tmp_path / "calls").read_text().splitlines()
        return result, [call for call in calls if "pip install" in call]

    return run


@posix
def test_post_build_takes_the_cpu_build_of_torch_and_then_dpkit_alone(build, tmp_path: Path):
    """And kernels end with their tabs."""
    result, calls = build()
    assert result.returncode == 0, result.stderr
    torch, dpkit = calls
    assert torch.startswith(f"{CHECKOUT}: -m uv pip install ")  # wherever it is called from
    python = f"--python {tmp_path / 'bin' / 'python'}"
    assert torch.endswith(f"{python} --torch-backend cpu -c constraints.txt torch")
    assert dpkit.startswith(f"{CHECKOUT}: -m pip install ")
    assert "--no-deps" in dpkit.split()
    assert dpkit.endswith("--editable .")
    assert result.stderr == ""
    settings = tmp_path / "a lab" / "settings" / "overrides.json"
    assert json.loads(settings.read_text()) == {
        TRACKER: {"kernelShutdown": True},
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"},
    }


@posix
def test_post_build_says_when_torch_has_to_come_from_pip(build):
    result, calls = build(failing="-m uv pip install *")
    assert result.returncode == 0, result.stderr
    assert "uv could not install torch's CPU build" in result.stderr
    _, torch, dpkit = calls
    assert torch.startswith(f"{CHECKOUT}: -m pip install ")
    assert torch.endswith(" -c constraints.txt torch")
    assert dpkit.endswith("--editable .")


@posix
@pytest.mark.parametrize("failing", ["*pip install *torch", "*--editable ."])
def test_post_build_fails_where_torch_or_dpkit_cannot_be_installed(build, tmp_path, failing):
    result, _ = build(failing)
    assert result.returncode != 0
    assert not (tmp_path / "a lab").exists()


@pytest.mark.parametrize(
    "address", ["hub.com/a-b/dp_kit", "hub.com/a-b/dp_kit.git/", "lab.com/a-b/dp_kit"]
)
def test_links_lead_to_the_notebook_at_the_release(address: str):
    project = {"version": "1.2.3", "urls": {"repository": f"https://git{address}"}}
    names = ["00_a.ipynb", "01_b.ipynb"]
    links = re.findall(r"\]\(([^)]+)\)", readme.launch_links(project, names))
    badge, *launch = (urlparse(link) for link in links if "colab" not in link)
    assert badge.path == "/badge_logo.svg"
    assert {link.netloc for link in (badge, *launch)} == {"mybinder.org"}
    there = "gh/a-b/dp_kit" if "hub" in address else "gl/a-b%2Fdp_kit"
    assert [link.path for link in launch] == [f"/v2/{there}/v1.2.3"] * 2
    wanted = [[f"lab/tree/notebooks/{name}"] for name in names]
    assert [parse_qs(link.query)["urlpath"] for link in launch] == wanted
    blobs = [f"/github/a-b/dp_kit/blob/v1.2.3/notebooks/{name}" for name in names]
    colab = ["/assets/colab-badge.svg", *blobs] if "hub" in address else []
    assert [urlparse(link).path for link in links if "colab" in link] == colab


@pytest.mark.parametrize("address", ["https://example.org/a/b", "https://github.com/a", "a/b"])
def test_an_address_that_binder_cannot_build_from_is_refused(address: str):
    """Without one, no link is drawn."""
    assert readme.launch_links({"version": "0.1.0"}, ["00_a.ipynb"]) == ""
    with pytest.raises(ValueError, match=r"\[project.urls\] repository must be https"):
        readme.launch_links({"version": "1", "urls": {"repository": address}}, [])

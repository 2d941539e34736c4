"""The set-up: pins agree with the declared dependencies; what is missing is named with a remedy."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LINES = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
REQUIREMENTS = [item for item in map(Requirement, LINES) if item.name != "dpkit"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for POSIX shells")


def pins() -> dict[str, str]:
    """Canonical name -> version of every line of constraints.txt."""
    lines = (CHECKOUT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line.strip() and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_every_dependency_is_pinned_within_its_range(requirement: Requirement):
    version = pins()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


def a_folder_of_commands(folder: Path, *names: str) -> Path:
    """A folder to be the whole PATH, with links to these commands."""
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def venv(target: Path, version: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHON"}
    return subprocess.run(
        [".ci/venv", str(target), version, "test"],
        cwd=CHECKOUT,
        env=kept | {"MAKECMDGOALS": "lab"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@posix
def test_a_missing_interpreter_is_named_with_its_remedy(tmp_path: Path):
    result = venv(tmp_path / "venv", "3.99")
    assert result.returncode == 1
    assert "no python3.99 was found" in result.stderr
    assert "apt-get install python3.99 python3.99-venv" in result.stderr
    assert "make lab PYTHON=" in result.stderr


@posix
def test_a_missing_venv_module_is_named_with_its_remedy(tmp_path: Path):
    bare = script(
        tmp_path, "bare", f'case "$*" in *ensurepip*) exit 1;; esac\nexec "{sys.executable}" "$@"'
    )
    result = venv(tmp_path / "venv", "3.11", PYTHON=str(bare))
    assert result.returncode == 1
    version = "{}.{}".format(*sys.version_info)
    assert f"apt-get install python{version}-venv" in result.stderr


@posix
def test_an_interpreter_that_does_not_run_is_refused(tmp_path: Path):
    result = venv(tmp_path / "venv", "3.11", PYTHON=str(script(tmp_path, "broken", "exit 127")))
    assert result.returncode == 1
    assert "is not a Python of version 3.11 or newer that runs" in result.stderr


@posix
def test_a_shim_that_does_not_run_is_passed_over(tmp_path: Path):
    """`python3.x` may be on the PATH and not work while `python3` is of the version wanted."""
    folder = a_folder_of_commands(tmp_path, "sh", "ls")
    version = "{}.{}".format(*sys.version_info)
    script(folder, f"python{version}", "exit 127")
    working = script(folder, "python3", f'exec "{sys.executable}" "$@"')
    result = subprocess.run(
        [CHECKOUT / ".ci" / "find-python", version],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.strip() == str(working)


@posix
def test_help_lists_what_make_can_do():
    if shutil.which("make") is None:
        pytest.skip("make is not at hand")
    result = subprocess.run(["make"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  make ([\w-]+)", result.stdout, re.MULTILINE)
    assert {"lab", "test", "notebooks", "bench", "format", "help"} <= set(listed)

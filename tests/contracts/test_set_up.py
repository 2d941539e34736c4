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

import dpkit

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LINES = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
REQUIREMENTS = [item for item in map(Requirement, LINES) if item.name != "dpkit"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for POSIX shells")


@pytest.mark.parametrize("python", ["3.11.2", "3.12.0", "3.13.0", "3.14.0"])
def test_every_dependency_has_one_pin_within_its_range(python: str):
    """Under each Python: a line may hold for some alone (`; python_version < "3.12"`)."""
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    text = (CHECKOUT / "constraints.txt").read_text()
    pins = [Requirement(one) for one in text.splitlines() if one.strip() and one[0] != "#"]
    lines = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(here)]
    names = [canonicalize_name(pin.name) for pin in lines]
    assert len(names) == len(set(names))
    versions = {name: str(pin.specifier) for name, pin in zip(names, lines, strict=True)}
    for item in REQUIREMENTS:
        version = versions.get(canonicalize_name(item.name), "")
        assert re.fullmatch(r"==[\w.]+", version), item
        assert item.specifier.contains(version[2:]), item


def test_the_package_says_the_version_that_is_installed():
    assert dpkit.__version__ == PROJECT["version"]


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


def run(*command: str | Path, cwd: Path | str = CHECKOUT, **environment: str):
    """What a script prints in this environment alone."""
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def found(folder: Path, version: str = "", home: Path | None = None) -> str:
    """What .ci/find-python prints where `folder` is the PATH; its own rules know /usr/bin too."""
    command = (".ci/find-python", *([version] if version else []))
    return run(*command, PATH=str(folder), HOME=str(home or folder)).stdout.strip()


def stand_in(folder: Path, name: str, version: str, lacks: str = "nothing") -> Path:
    """An interpreter that says it is of this version, and may lack a module."""
    return script(
        folder,
        name,
        f'case "$2" in *{lacks}*) exit 1;; esac\n'
        f"""exec "{sys.executable}" -c "import sys, collections
v = collections.namedtuple('v', 'major minor micro')({version.replace(".", ", ")})
sys.version_info, sys.argv = v, ['-c', '$3']
$2" """,
    )


def where_none_is_found(folder: Path, archive: str) -> subprocess.CompletedProcess[str]:
    """`make lab` in a copy whose find-python finds nothing, with this `apt-cache`."""
    copy, commands = folder / "copy", folder / "bin"
    (copy / ".ci").mkdir(parents=True, exist_ok=True)
    commands.mkdir()
    shutil.copy(CHECKOUT / ".ci" / "venv", copy / ".ci")
    script(copy / ".ci", "find-python", "exit 1")
    a_folder_of_commands(commands, "sh", "env")
    script(commands, "apt-cache", archive)
    return run(".ci/venv", ".venv", "test", cwd=copy, PATH=str(commands), MAKECMDGOALS="lab")


@posix
@pytest.mark.parametrize(
    ("archive", "remedy"),
    [
        ('[ "$2" = python3.12-venv ]', "apt-get install python3.12 python3.12-venv"),
        ('[ "$2" = python3.11-venv ]', "apt-get install python3.11 python3.11-venv"),
        ("exit 1", "apt-get update, then make lab again"),
        ("[ $2 = python3 ]", "uv python install 3.13"),
    ],
    ids=["the archive has one", "the oldest alone", "no lists yet", "the archive has none"],
)
def test_a_missing_interpreter_is_named_with_its_remedy(tmp_path: Path, archive: str, remedy: str):
    """An old environment, such as one that an editor made, is not taken for an interpreter."""
    old = tmp_path / "copy" / ".venv" / "bin"
    old.mkdir(parents=True)
    script(old, "python", 'case "$*" in *version_info*) exit 1;; esac')
    result = where_none_is_found(tmp_path, archive)
    assert result.returncode == 1
    for words in ("needs Python 3.11.2 to 3.13", "and none was found", remedy, "make lab PYTHON="):
        assert words in result.stderr


@posix
@pytest.mark.parametrize(
    ("lacks", "remedy"),
    [
        ("*ensurepip*", "apt-get install python{}.{}-venv".format(*sys.version_info)),
        ("*", "is not a Python of version 3.11.2 or newer that runs"),
    ],
    ids=["no module venv", "does not run"],
)
def test_a_python_that_cannot_make_an_environment_is_named(tmp_path: Path, lacks, remedy):
    text = f'case "$*" in {lacks}) exit 1;; esac\nexec "{sys.executable}" "$@"'
    asked = os.environ | {"MAKECMDGOALS": "lab", "PYTHON": str(script(tmp_path, "bare", text))}
    result = run(".ci/venv", str(tmp_path / "venv"), "test", **asked)
    assert result.returncode == 1
    assert remedy in result.stderr


@posix
def test_a_shim_that_does_not_run_is_passed_over(tmp_path: Path):
    """`python3.x` may be on the PATH and not work while `python3` is of the version wanted."""
    folder = a_folder_of_commands(tmp_path, "sh")
    version = "{}.{}".format(*sys.version_info)
    script(folder, f"python{version}", "exit 127")
    working = script(folder, "python3", f'exec "{sys.executable}" "$@"')
    assert found(folder, version) == str(working)


@posix
def test_the_newest_is_taken_and_one_that_is_too_old_is_not(tmp_path: Path):
    folder = a_folder_of_commands(tmp_path, "sh")
    stand_in(folder, "python3.12", "3.12.1")
    newest = stand_in(folder, "python3.13", "3.13.0")
    stand_in(folder, "python3", "3.11.1")
    assert found(folder) == str(newest)
    assert found(folder, "3.12") == str(folder / "python3.12")
    newest.unlink()
    assert found(folder) == str(folder / "python3.12")
    stand_in(folder, "python3.13", "3.13.0", lacks="ensurepip")
    assert found(folder, "3.13") == str(folder / "python3.13"), "named with its remedy"
    assert found(folder) == str(folder / "python3.12"), "it can make environments"


@posix
def test_what_uv_and_pyenv_keep_is_found_where_the_path_has_none(tmp_path: Path):
    (tmp_path / "bin").mkdir()
    folder = a_folder_of_commands(tmp_path / "bin", "sh")
    for place in ("share/uv/python/cpython-3.14.2-linux/bin", "bin"):
        home = tmp_path / f"home of {place.partition('/')[0]}"
        kept = home / ".local" / place
        kept.mkdir(parents=True)
        python = stand_in(kept, "python3.14", "3.14.2")
        assert found(folder, "3.14", home) == str(python)


@posix
def test_help_lists_what_make_can_do():
    if shutil.which("make") is None:
        pytest.skip("make is not at hand")
    listed = re.findall(r"^  make ([\w-]+)", run("make", **os.environ).stdout, re.MULTILINE)
    assert {"lab", "test", "notebooks", "bench", "format", "help"} <= set(listed)

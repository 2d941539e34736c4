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


def pins() -> list[Requirement]:
    """The lines of constraints.txt."""
    lines = (CHECKOUT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("python", ["3.11.2", "3.12.0", "3.13.0", "3.14.0"])
def test_every_dependency_has_one_pin_within_its_range(python: str):
    """Under each Python: a line may hold for some alone (`; python_version < "3.12"`)."""
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    lines = [pin for pin in pins() if pin.marker is None or pin.marker.evaluate(here)]
    names = [canonicalize_name(pin.name) for pin in lines]
    assert len(names) == len(set(names))
    versions = {name: str(pin.specifier) for name, pin in zip(names, lines, strict=True)}
    wrong = [
        str(item)
        for item in REQUIREMENTS
        if not re.fullmatch(r"==[\w.]+", versions.get(canonicalize_name(item.name), ""))
        or not item.specifier.contains(versions[canonicalize_name(item.name)][2:])
    ]
    assert wrong == []


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


def venv(target: Path, python: Path) -> subprocess.CompletedProcess[str]:
    asked = os.environ | {"MAKECMDGOALS": "lab", "PYTHON": str(python)}
    return run(".ci/venv", str(target), "test", **asked)


def found(folder: Path, version: str = "", home: Path | None = None) -> str:
    """What .ci/find-python prints where `folder` is the PATH; its own rules know /usr/bin too."""
    command = (CHECKOUT / ".ci" / "find-python", *([version] if version else []))
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
        ('[ "$2" = python3.14-venv ]', "apt-get install python3.14 python3.14-venv"),
        ("exit 1", "apt-get update, then make lab again"),
        ("[ $2 = python3 ]", "uv python install 3.13"),
    ],
    ids=["the archive has one", "the newest alone", "no lists yet", "the archive has none"],
)
def test_a_missing_interpreter_is_named_with_its_remedy(tmp_path: Path, archive: str, remedy: str):
    result = where_none_is_found(tmp_path, archive)
    assert result.returncode == 1
    assert "needs Python 3.11.2 or newer" in result.stderr
    assert remedy in result.stderr
    assert "make lab PYTHON=" in result.stderr


@posix
def test_an_old_environment_is_not_taken_for_an_interpreter(tmp_path: Path):
    """Such as one that an editor made: the newest Python at hand makes it anew."""
    old = tmp_path / "copy" / ".venv" / "bin"
    old.mkdir(parents=True)
    script(old, "python", 'case "$*" in *version_info*) exit 1;; esac')
    result = where_none_is_found(tmp_path, "exit 1")
    assert "and none was found" in result.stderr


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
    result = venv(tmp_path / "venv", script(tmp_path, "bare", text))
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


@posix
def test_one_that_can_make_environments_comes_before_a_newer_one(tmp_path: Path):
    folder = a_folder_of_commands(tmp_path, "sh")
    stand_in(folder, "python3.13", "3.13.0", lacks="ensurepip")
    assert found(folder, "3.13") == str(folder / "python3.13"), "named with its remedy"
    able = stand_in(folder, "python3.12", "3.12.1")
    assert found(folder) == str(able)


@posix
def test_what_uv_and_pyenv_keep_is_found_where_the_path_has_none(tmp_path: Path):
    folder = tmp_path / "bin"
    folder.mkdir()
    a_folder_of_commands(folder, "sh")
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
    result = subprocess.run(["make"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  make ([\w-]+)", result.stdout, re.MULTILINE)
    assert {"lab", "test", "notebooks", "bench", "format", "help"} <= set(listed)

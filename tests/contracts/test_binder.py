"""binder/: the pins are those of constraints.txt, the hooks do what they say, links lead there."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, urlparse

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
BINDER = CHECKOUT / "binder"
HOOKS = ("postBuild", "start")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TRACKER = "@jupyterlab/notebook-extension:tracker"
posix = pytest.mark.skipif(sys.platform == "win32", reason="the hooks are for POSIX shells")


def sibling(name: str) -> ModuleType:
    """A script beside this file, imported."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


binder_check = sibling("binder_check")
readme = sibling("readme")


def constraints() -> dict[str, str]:
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line.strip() and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_pin_is_that_of_the_constraints():
    pins = binder_check.pins()
    assert pins["torch"] == constraints()["torch"]
    assert {name: constraints().get(name) for name in pins} == pins


def test_everything_that_the_notebooks_need_is_pinned():
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["train"], *extras["notebooks"]]
    names = {canonicalize_name(Requirement(line).name) for line in lines} - {"dpkit"}
    assert names - set(binder_check.pins()) == set()


def test_python_pip_and_a_torch_without_cuda_come_from_conda_forge():
    text = (BINDER / "environment.yml").read_text(encoding="utf-8")
    assert "channels:\n  - conda-forge\n  - nodefaults\n" in text
    assert "  - python=3.11\n  - pip\n" in text
    assert re.search(r"^  - pytorch=[\d.]+=cpu\*$", text, re.MULTILINE)
    assert "matplotlib-base" in text, "matplotlib itself would bring a window system"


def test_a_line_without_an_exact_pin_is_refused():
    text = "dependencies:\n  - python=3.11\n  - pip\n  - numpy>=2\n"
    with pytest.raises(ValueError, match="numpy>=2"):
        binder_check.pins(text)


def test_nothing_else_lies_in_binder():
    """With a binder/ folder its files alone are read: a requirements.txt elsewhere would not be."""
    assert {path.name for path in BINDER.iterdir()} == {"README.md", "environment.yml", *HOOKS}


@posix
@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_can_be_run(hook: str):
    path = BINDER / hook
    assert os.access(path, os.X_OK)
    assert path.read_bytes().startswith(b"#!/bin/sh\n")
    assert b"\r" not in path.read_bytes()
    if (CHECKOUT / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(
            ["git", "ls-files", "-s", f"binder/{hook}"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert listed.startswith("100755 ")


@posix
def test_start_leaves_one_thread_and_becomes_the_command():
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    say = f"import os, sys; print(*(os.environ[n] for n in {names!r}), os.getpid(), *sys.argv[1:])"
    process = subprocess.Popen(
        [BINDER / "start", sys.executable, "-c", say, "two words", "$HOME"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.communicate(timeout=60)[0] == f"1 1 1 {process.pid} two words $HOME\n"


@pytest.fixture
def built(tmp_path: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """postBuild's answer with a python that only writes down how it was called, and the folder."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(
        '#!/bin/sh\necho "$PWD: $*" >>"$CALLS"\n'
        'case "$*" in *get_app_dir*) echo "$LAB";; "-m pip install"*) exit "$PIP";; esac\n'
    )
    python.chmod(0o755)
    result = subprocess.run(
        [BINDER / "postBuild"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "PIP": "0",
            "CALLS": str(tmp_path / "calls"),
            "LAB": str(tmp_path / "a lab"),
        },
    )
    return result, tmp_path


@posix
def test_post_build_installs_dpkit_alone(built):
    result, folder = built
    assert result.returncode == 0, result.stderr
    calls = (folder / "calls").read_text().splitlines()
    installs = [call for call in calls if "pip install" in call]
    assert len(installs) == 1
    assert installs[0].startswith(f"{CHECKOUT}: ")  # wherever it is called from
    assert "--no-deps" in installs[0].split()
    assert installs[0].endswith("--editable .")


@posix
def test_post_build_ends_kernels_with_their_tabs(built):
    settings = built[1] / "a lab" / "settings" / "overrides.json"
    assert json.loads(settings.read_text()) == {TRACKER: {"kernelShutdown": True}}


@posix
def test_post_build_fails_where_dpkit_cannot_be_installed(built):
    _, folder = built
    shutil.rmtree(folder / "a lab")
    result = subprocess.run(
        [BINDER / "postBuild"],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PIP": "1",
            "CALLS": str(folder / "calls"),
            "LAB": str(folder / "a lab"),
        },
    )
    assert result.returncode != 0
    assert not (folder / "a lab").exists()


def test_without_an_address_no_link_is_drawn():
    assert readme.launch_links({"version": "0.1.0"}, ["00_a.ipynb"]) == ""


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("https://github.com/some-one/dp_kit", "/v2/gh/some-one/dp_kit/v1.2.3"),
        ("https://github.com/some-one/dp_kit.git/", "/v2/gh/some-one/dp_kit/v1.2.3"),
        ("https://gitlab.com/some-one/dp_kit", "/v2/gl/some-one%2Fdp_kit/v1.2.3"),
    ],
)
def test_links_lead_to_the_notebook_at_the_release(address: str, path: str):
    project = {"version": "1.2.3", "urls": {"repository": address}}
    links = re.findall(r"\]\(([^)]+)\)", readme.launch_links(project, ["00_a.ipynb", "01_b.ipynb"]))
    badge, *launch = (urlparse(link) for link in links if "colab" not in link)
    assert badge.path == "/badge_logo.svg"
    assert {link.netloc for link in (badge, *launch)} == {"mybinder.org"}
    colab = [urlparse(link) for link in links if "colab" in link]
    blob = "/github/some-one/dp_kit/blob/v1.2.3/notebooks"
    wanted = ["/assets/colab-badge.svg", f"{blob}/00_a.ipynb", f"{blob}/01_b.ipynb"]
    assert [link.path for link in colab] == (wanted if "github" in address else [])
    assert [link.path for link in launch] == [path, path]
    assert [parse_qs(link.query)["urlpath"] for link in launch] == [
        ["lab/tree/notebooks/00_a.ipynb"],
        ["lab/tree/notebooks/01_b.ipynb"],
    ]


@pytest.mark.parametrize("address", ["https://example.org/a/b", "https://github.com/a", "a/b"])
def test_an_address_that_binder_cannot_build_from_is_refused(address: str):
    with pytest.raises(ValueError, match=r"\[project.urls\] repository must be https"):
        readme.launch_links({"version": "1", "urls": {"repository": address}}, [])

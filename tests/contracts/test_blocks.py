"""Code that README, the pages and docstrings show runs as it is printed, in an empty folder.

Python blocks of a page run one after another in one process: later ones may use names of earlier
ones. `wheel_check.py` runs README's once more, each alone and away from the checkout.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from dpkit.__main__ import app

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("*.md", "*/README.md", "docs/**/*.md", "dpkit/**/*.md")
PATHS = [path for of in PLACES for path in ROOT.glob(of)]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PATHS}
FENCE = re.compile(r"^ *```(.*)\n((?:.*\n)*?) *```$", re.MULTILINE)
INLINE = re.compile(r"`python -m (dpkit [^`]+)`")
PRINTED = re.compile(r"^print\(.*\)  # (.*\d.*)$", re.MULTILINE)  # with a number: what is printed
SKIPPED = {  # commands, and why
    "python -m dpkit data get mnist": "a download",
    "python -m dpkit data verify": "it reads all that was ever downloaded",
}


def blocks(text: str) -> list[str]:
    """The Python blocks of a page."""
    return [dedent(code) for language, code in FENCE.findall(text) if language[:2] == "py"]


def commands(text: str) -> list[str]:
    """The command lines of dpkit in a page's other fences."""
    others = "".join(code for language, code in FENCE.findall(text) if language[:2] != "py")
    lines = re.findall(r"^python -m dpkit .*", others, re.MULTILINE)
    return [shlex.join(shlex.split(line, comments=True)) for line in lines]


def examples() -> list[str]:
    """The code in docstrings."""
    found = []
    for path in sorted((ROOT / "dpkit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_":
                parts = (ast.get_docstring(node) or "").split("\n\n")
                found += ["\n\n".join(dedent(part) for part in parts if part[:4] == "    ")]
    return [text for text in found if called(text)]


def called(text: str) -> bool:
    """Whether a text is Python that calls something with a name for an argument."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Call) and node.keywords for node in nodes)


def run(folder: Path, *words: str | Path) -> str:
    """What Python prints in an empty folder, without a network."""
    empty, nowhere = folder / "empty", "http://127.0.0.1:9"
    empty.mkdir()
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder)}
    own |= {"http_proxy": nowhere, "https_proxy": nowhere}
    done = subprocess.run(
        [sys.executable, *words], cwd=empty, env=os.environ | own, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ran(folder: Path, shown: list[str]) -> str:
    """What pieces of code print, one after another in one process."""
    script = folder / "shown.py"
    script.write_text("\n".join(shown), encoding="utf-8")
    return run(folder, script)


ALONE = {"docs/training.md": 3}  # first blocks of a page that need no other
WITH_CODE = [
    pytest.param(name, marks=[pytest.mark.torch] if "torch" in "".join(blocks(text)) else [])
    for name, text in PAGES.items()
    if blocks(text)
]


@pytest.mark.parametrize("page", WITH_CODE)
def test_a_pages_python_runs_and_prints_what_its_comments_say(page: str, tmp_path: Path):
    shown = blocks(PAGES[page])[ALONE.get(page, 0) :]
    printed = ran(tmp_path, shown).splitlines()
    assert set(PRINTED.findall("\n".join(shown))) <= set(printed)


@pytest.mark.torch
@pytest.mark.slow("a script of docs/training.md that does not run alone; two train a network")
@pytest.mark.parametrize("script", range(ALONE["docs/training.md"]))
def test_a_whole_script_of_training_md_runs_alone(script: int, tmp_path: Path):
    ran(tmp_path, blocks(PAGES["docs/training.md"])[script : script + 1])


README = PAGES["README.md"]
COMMANDS = {line for text in PAGES.values() for line in commands(text)}


@pytest.mark.parametrize("line", sorted(COMMANDS - SKIPPED.keys()))
def test_a_command_runs(line: str, tmp_path: Path):
    assert run(tmp_path, *shlex.split(line)[1:])


def test_the_command_in_readmes_first_lines_prints_what_they_say(tmp_path: Path):
    text = " ".join(README.split())
    ((line, said),) = re.findall(
        r"`(python -m dpkit epsilon [^`]+)` prints epsilon `([^`]+)`", text
    )
    assert run(tmp_path, *shlex.split(line)[1:]).startswith(f"epsilon {said} at delta 1e-5")


def test_commands_within_sentences_have_such_names_and_options():
    """`--help` comes last: names and options before it are read first, and nothing runs."""
    lines = {line for text in PAGES.values() for line in INLINE.findall(" ".join(text.split()))}
    assert len(lines) > 10
    for line in sorted(lines):
        words = [word for word in shlex.split(line)[1:] if word != "..."]
        assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0, line


@pytest.mark.torch
@pytest.mark.slow("an example in a docstring that does not run; it trains four networks")
def test_the_code_in_docstrings_runs(tmp_path: Path):
    shown = examples()
    assert len(shown) >= 6
    printed = ran(tmp_path, shown).splitlines()
    assert set(PRINTED.findall("\n".join(shown))) <= set(printed)


def test_commands_that_are_skipped_are_still_shown():
    assert SKIPPED.keys() <= COMMANDS

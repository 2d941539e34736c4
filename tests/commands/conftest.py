"""A command line that is run in this process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def answer(dpkit):
    """Run a command line that succeeds, with --json: what it prints, decoded."""

    def run(line: str, *more: str):
        code, out, err = dpkit(line, *more, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


@pytest.fixture
def refused(dpkit):
    """Run a command line that is wrong: its one line of error."""

    def run(line: str, *more: str) -> str:
        code, out, err = dpkit(line, *more)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return run


@pytest.fixture
def interpreter():
    """Run code in an interpreter of its own: what it prints."""

    def run(code: str) -> str:
        checkout, line = Path(__file__).resolve().parents[2], [sys.executable, "-c", code]
        done = subprocess.run(line, cwd=checkout, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run

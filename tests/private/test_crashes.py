"""A PrivateGan that ends early resumes bit for bit, and is charged once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import killed_gan
import pytest

from dpkit.private import gan

HERE = Path(__file__).parent


class Ended(BaseException):
    """What no handler of the code is meant to catch."""


def ends() -> None:
    raise Ended


def test_a_fit_that_ended_goes_on_to_the_same_generator_and_is_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    places = {name: (tmp_path / f"{name}.pt", tmp_path / f"{name}.json") for name in ("one", "two")}
    monkeypatch.setattr(gan, "watched", killed_gan.ended_after(7, ends))
    with pytest.raises(Ended):
        killed_gan.fitted(*places["one"])
    monkeypatch.undo()
    whole = killed_gan.fitted(*places["two"])
    assert killed_gan.fitted(*places["one"]) == whole
    assert (whole["spent"], whole["runs"]) == (12, 1)


def by_a_process(folder: Path, kill_after: int) -> dict | None:
    """What the process reports, or None where it was killed as asked."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, HERE / "killed_gan.py", folder / "run.pt", folder / "budget.json"]
    ended = subprocess.run(
        [*command, str(kill_after)],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if kill_after:
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        return None
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.slow("a charge or a lock that only a process's clean end writes or gives back")
def test_a_killed_fit_goes_on_to_the_same_generator_and_is_charged_once(tmp_path: Path):
    whole = by_a_process(tmp_path / "whole", 0)
    assert by_a_process(tmp_path / "killed", 7) is None
    assert by_a_process(tmp_path / "killed", 0) == whole
    assert whole is not None
    assert (whole["spent"], whole["runs"]) == (12, 1)

"""A PrivateGan that is killed goes on with the same bits, and is charged once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def fitted(folder: Path, kill_after: int) -> dict | None:
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


@pytest.mark.slow
def test_a_killed_fit_goes_on_to_the_same_generator_and_is_charged_once(tmp_path: Path):
    whole = fitted(tmp_path / "whole", 0)
    assert fitted(tmp_path / "killed", 7) is None
    assert fitted(tmp_path / "killed", 0) == whole
    assert whole is not None
    assert (whole["spent"], whole["runs"]) == (12, 1)

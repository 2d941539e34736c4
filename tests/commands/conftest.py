"""A command line that is run in this process."""

import pytest

from dpkit import __main__ as command_line


@pytest.fixture
def dpkit(capsys: pytest.CaptureFixture[str]):
    """Run a command line in this process: (exit code, stdout, stderr)."""

    def run(line: str, *more: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            command_line.main([*line.split(), *more])
        out, err = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, out, err

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

"""A pytest plugin: nbval compares numbers as numbers, and says how many and how closely.

Each number in an output is compared within the tolerance of its cell, the words around it to the
letter (`numbers_apart`). Pictures and widgets' views are not compared, as before.

Each process's kernels have settings of their own and a second chance to start: kernels that start
at the same moment may meet at the same port, or at the same new history file; one of them dies
before it says a word. That tells nothing about a notebook.
"""

import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import nbval.kernel
import numbers_apart
import pytest
from nbval.plugin import IPyNbCell

KEY = "numbers compared"
as_text = IPyNbCell.sanitize
STARTS = 3  # of a kernel, at most
FOLDER = pytest.StashKey[tempfile.TemporaryDirectory]()
start_once = nbval.kernel.start_new_kernel


class Output(str):
    """An output's text, equal to another if words agree and numbers are within the tolerance."""

    cell: IPyNbCell
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        tolerance = numbers_apart.tolerance_of(self.cell.cell.metadata.get("tags", []))
        apart = numbers_apart.apart(self, other)
        self.cell.user_properties.append((KEY, (tolerance, apart.numbers, apart.furthest)))
        return apart.within(tolerance)

    def __ne__(self, other: object) -> bool:
        return not self == other


def sanitize(self: IPyNbCell, s: Any) -> Any:
    """What nbval compares: as its own, of a kind that compares numbers as numbers."""
    text = as_text(self, s)
    if not isinstance(text, str):
        return text
    output = Output(text)
    output.cell = self
    return output


def start_new_kernel(*args, **options):
    """As nbval's; tried again where the kernel dies before its first reply."""
    for _ in range(STARTS - 1):
        try:
            return start_once(*args, **options)
        except RuntimeError as error:
            if "Kernel died before replying" not in str(error):
                raise
    return start_once(*args, **options)


def pytest_configure(config: pytest.Config) -> None:
    """An empty IPython folder for this process: none of the user's start-up files either."""
    folder = tempfile.TemporaryDirectory(prefix="ipython-", ignore_cleanup_errors=True)
    config.stash[FOLDER] = folder
    os.environ["IPYTHONDIR"] = folder.name
    nbval.kernel.start_new_kernel = start_new_kernel
    IPyNbCell.sanitize = sanitize
    config.pluginmanager.register(Summary())


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[FOLDER].cleanup()


class Summary:
    """Lines under the tests' own: how many numbers were compared, and how far apart they were."""

    def __init__(self) -> None:
        # (cell, its tolerance) -> (numbers, how far apart) of each output; "" is all cells of 1e-6
        self.seen: dict[tuple[str, float], list[tuple[int, float]]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        path, _, cell = report.nodeid.partition("::")
        compared: list[Any] = [value for key, value in report.user_properties if key == KEY]
        for tolerance, numbers, furthest in compared:
            usual = tolerance == numbers_apart.TOLERANCE
            name = "" if usual else f"{Path(path).stem} {cell}"
            self.seen[name, tolerance].append((numbers, furthest))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for (name, tolerance), outputs in sorted(self.seen.items()):
            count, furthest = sum(n for n, _ in outputs), max(apart for _, apart in outputs)
            terminalreporter.write_line(
                f"{count:6,} numbers within {tolerance:g}, furthest apart {furthest:.1g}  {name}"
            )

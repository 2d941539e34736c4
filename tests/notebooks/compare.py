"""Run stored notebooks again with nbval and compare every output with the stored one.

`python tests/notebooks/compare.py [-n WORKERS] [folder]`; cells tagged `nbval-skip` are not run,
outputs of cells tagged `nbval-ignore-output` are not compared. Numbers are compared as numbers,
within 1e-6 of the larger one, or within X in a cell tagged `tolerance=X`.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pairs import NOTEBOOKS

CHECKOUT = Path(__file__).resolve().parents[2]
SANITIZE = CHECKOUT / "tests" / "nbval_sanitize.cfg"
CELL_TIMEOUT = 300  # seconds


def command(folder: Path, workers: int) -> list[str]:
    """The pytest call; `--dist loadscope` keeps the cells of one notebook in one process."""
    spread = ["-n", str(workers), "--dist", "loadscope"] if workers > 1 else []
    return [
        *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
        *("-p", "compare_numbers", "--nbval", "--nbval-current-env"),
        *("--nbval-sanitize-with", str(SANITIZE)),
        *(f"--nbval-cell-timeout={CELL_TIMEOUT}", *spread, str(folder)),
    ]


def compare(
    folder: Path = NOTEBOOKS, workers: int = 1, variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Compare all notebooks of a folder; the return code is 0 where every output agrees."""
    environment = os.environ | variables | {"PYTEST_ADDOPTS": ""}
    environment.pop("DPKIT_DATA", None)
    # where the plugin lies, and this checkout's dpkit, whichever is installed
    environment["PYTHONPATH"] = f"{Path(__file__).resolve().parent}{os.pathsep}{CHECKOUT}"
    return tests_of(command(folder, workers), environment)


def tests_of(command: list[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What a run of pytest says and returns."""
    said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=CHECKOUT, env=env, check=False, **said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", dest="workers", type=int, default=1)
    parser.add_argument("folder", type=Path, nargs="?", default=NOTEBOOKS)
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"folder must be a folder of notebooks, got {arguments.folder}")
    result = compare(arguments.folder, arguments.workers)
    print(result.stdout, end="")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())

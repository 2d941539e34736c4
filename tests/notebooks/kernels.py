"""A pytest plugin: each process's kernels have settings of their own and a second chance to start.

Kernels that start at the same moment may meet at the same port, or at the same new history file;
one of them dies before it says a word. That tells nothing about a notebook.
"""

import os
import tempfile

import nbval.kernel
import pytest

STARTS = 3
FOLDER = pytest.StashKey[tempfile.TemporaryDirectory]()
start_once = nbval.kernel.start_new_kernel


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


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[FOLDER].cleanup()

"""What to install where a module is missing, read from dpkit's own metadata."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires

DISTRIBUTIONS = {"PIL": "pillow"}  # what brings a module of another name


def remedy(module: str) -> str:
    """Return the command that installs a module, in the range that dpkit declares for it.

    It names the module's own distribution: pip finds that whether dpkit came from an index, a file
    or a checkout.
    """
    name = DISTRIBUTIONS.get(module, module)
    try:
        declared = requires("dpkit") or []
    except PackageNotFoundError:  # a checkout on the path
        declared = []
    for line in declared:
        if (found := re.match(rf"{re.escape(name)}(?P<range>[<>=!~][^;\s]*)", line)) is not None:
            return f"pip install '{name}{found['range']}'"
    return f"pip install {name}"


@contextmanager
def remedied() -> Iterator[None]:
    """Let the error of a missing module say how to install it; its name and type stay.

    Raises:
        ModuleNotFoundError: a module that is not dpkit's own is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in ("", "dpkit", *sys.stdlib_module_names):  # a Python may lack _lzma
            error.msg = f"No module named {error.name!r}; install it: {remedy(module)}"
        raise

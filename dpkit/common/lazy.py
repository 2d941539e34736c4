"""Packages whose names are imported on demand, as most need torch.

And what to install where a module is missing, by dpkit's own metadata.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

Attributes = tuple[Callable[[str], Any], Callable[[], list[str]]]
DISTRIBUTIONS = {"PIL": "pillow"}  # what brings a module of another name


def on_demand(package: str) -> Attributes:
    """Return `__getattr__` and `__dir__` of a package: of its imports under `if TYPE_CHECKING:`.

    dpkit itself gives its parts too.

    Args:
        package: full name, such as "dpkit.private".
    """
    homes = {
        name.name: str(one.module)
        for node in ast.parse(inspect.getsource(sys.modules[package])).body
        if isinstance(node, ast.If)
        for one in node.body
        if isinstance(one, ast.ImportFrom)
        for name in one.names
    }
    return given(package, homes | (_modules(package) if package == "dpkit" else {}))


def given(package: str, homes: Mapping[str, str]) -> Attributes:
    """Return `__getattr__` and `__dir__` of a package that gives the names of its modules.

    Args:
        package: full name, such as "dpkit.private".
        homes: the module of each name; the package itself where the name is a module.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(homes)}")
        with remedied():
            if homes[name] == package:
                return import_module(f"{package}.{name}")
            return getattr(import_module(homes[name]), name)

    return get, lambda: sorted(homes)


def of_modules(package: str, **homes: str) -> Attributes:
    """Return `__getattr__` and `__dir__` of a package that has modules, and names of theirs."""
    return given(package, _modules(package) | homes)


def _modules(package: str) -> dict[str, str]:
    """The names of a package's modules, each with the package as its home."""
    return {module.name: package for module in iter_modules(sys.modules[package].__path__)}


def of_paper(package: str) -> Attributes:
    """Return `__getattr__` and `__dir__` of a paper's package, or of one laid out like it.

    Besides its `__all__` it has CLAIMS, its modules, and what its module `algorithm` defines.

    Args:
        package: full name, such as that of a published method.
    """

    def get(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with remedied():
            if name == "CLAIMS":
                return import_module(f"{package}.claims").CLAIMS
            if find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")
            return getattr(import_module(f"{package}.algorithm"), name)

    def listed() -> list[str]:
        names = {"CLAIMS", *sys.modules[package].__all__, *_modules(package)}
        with suppress(ModuleNotFoundError):  # of torch
            names |= {n for n, x in vars(get("algorithm")).items() if _defined_in(package, x)}
        return sorted(names)

    return get, listed


def _defined_in(package: str, value: Any) -> bool:
    """Whether a public function or class is of the package's module `algorithm`."""
    own = getattr(value, "__module__", None) == f"{package}.algorithm"
    return own and not getattr(value, "__name__", "_").startswith("_")


def remedy(module: str) -> str:
    """Return the command that installs a module, by the smallest extra of dpkit.

    pip keeps the installed dpkit, be it from an index, a file or a checkout. A module that no
    extra brings is named itself, in its declared range.
    """
    name = DISTRIBUTIONS.get(module, module)
    try:
        declared = requires("dpkit") or []
    except PackageNotFoundError:  # a checkout on the path
        declared = []
    wanted = re.compile(rf"({re.escape(name)}[<>=!~][^;\s]*)(?:; extra == '(.+)')?")
    found = [match.groups() for line in declared if (match := wanted.match(line))]
    if not found:
        return f"pip install {name}"
    if not (extras := [extra for _, extra in found if extra]):
        return f"pip install '{found[0][0]}'"
    least = min(
        extras, key=lambda extra: sum(f"extra == '{extra}'" in one for one in declared)
    )
    return f"pip install 'dpkit[{least}]'"


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

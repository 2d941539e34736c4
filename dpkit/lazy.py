"""Attributes of a paper's package that are imported when they are asked for: most need torch."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy(package: str, name: str) -> Any:
    """Look up CLAIMS, one of the package's modules, or what its module `algorithm` defines.

    Args:
        package: full name, such as "dpkit.papers.dp_cgan".
        name: of the attribute that is asked for.

    Raises:
        AttributeError: the package has nothing of that name.
    """
    if name.startswith("_"):
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    if name == "CLAIMS":
        return import_module(f"{package}.claims").CLAIMS
    if find_spec(f"{package}.{name}") is not None:
        return import_module(f"{package}.{name}")
    return getattr(import_module(f"{package}.algorithm"), name)

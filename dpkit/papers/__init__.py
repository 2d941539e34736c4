"""The papers the kit knows. Adding one adds a package beside these and its name here."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

__all__ = ["PAPERS", "named", "plans_of", "with_claims"]
PAPERS: tuple[ModuleType, ...] = tuple(
    import_module(f"{__name__}.{name}")
    for name in ("dp_cgan", "dpgan", "rdp_gan", "small_images", "adadp")
)


def with_claims() -> tuple[ModuleType, ...]:
    """The papers, and the ledger of findings in the literature after them: all that have CLAIMS."""
    return (*PAPERS, import_module(f"{__name__}.literature"))


def named(name: str, among: tuple[ModuleType, ...] | None = None) -> ModuleType:
    """Return the paper's package by its name.

    Args:
        name: such as "dp_cgan".
        among: where to look; PAPERS if not given.

    Raises:
        ValueError: there is none of that name, and the message lists those there are.
    """
    papers = {paper.NAME: paper for paper in (PAPERS if among is None else among)}
    if name in papers:
        return papers[name]
    known = ", ".join(papers).replace("ledger", "ledger (later literature)")
    raise ValueError(f"paper must be one of {known}; got {name!r}")


def plans_of(name: str, among: tuple[ModuleType, ...] | None = None) -> Mapping[str, Any]:
    """Return what can be reproduced of a paper: a function that plans its parts, by table.

    Args and errors are those of `named`.
    """
    return import_module(f"{named(name, among).__name__}.experiments").PLANS


def __dir__() -> list[str]:
    return [*__all__, *(module.name for module in iter_modules(__path__))]

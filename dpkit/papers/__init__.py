"""The papers of the kit. A new one is a package beside these and a name here."""

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
    """Return the papers, then the ledger of later literature: all packages with CLAIMS."""
    return (*PAPERS, import_module(f"{__name__}.literature"))


def named(name: str, among: tuple[ModuleType, ...] | None = None) -> ModuleType:
    """Return the paper's package by its name.

    Args:
        name: such as "dp_cgan".
        among: where to look; PAPERS if not given.

    Raises:
        ValueError: unknown name; the message lists the known ones.
    """
    papers = {paper.NAME: paper for paper in (PAPERS if among is None else among)}
    if name in papers:
        return papers[name]
    known = ", ".join(papers).replace("ledger", "ledger (later literature)")
    raise ValueError(f"paper must be one of {known}; got {name!r}")


def plans_of(name: str, among: tuple[ModuleType, ...] | None = None) -> Mapping[str, Any]:
    """Return a paper's plans: for each table the function that plans its parts.

    Args and errors are those of `named`.
    """
    return import_module(f"{named(name, among).__name__}.experiments").PLANS


def __dir__() -> list[str]:
    return [*__all__, *(module.name for module in iter_modules(__path__))]

"""The later literature: claims of others' methods and code, one file a finding.

Every module here holds a `CLAIM`, made by `claims.finding`, and is found by itself.
"""

from importlib import import_module
from pkgutil import iter_modules

from dpkit.papers.claims import Claim

__all__ = ["CLAIMS", "NAME", "NOTEBOOK", "TITLE", "collected"]
NAME = "ledger"
TITLE = "Later literature (methods, libraries, accountants)"
NOTEBOOK = "06_how_guarantees_break"


def collected() -> tuple[Claim, ...]:
    """The claim of each file, by name.

    Raises:
        ValueError: a file holds a claim of another name.
    """
    names = sorted(module.name for module in iter_modules(__path__))
    claims = tuple(import_module(f"{__name__}.{name}").CLAIM for name in names)
    for name, claim in zip(names, claims, strict=True):
        if claim.id != f"{NAME}/{name.replace('_', '-')}":
            raise ValueError(
                f"{name}.py must hold the claim {name.replace('_', '-')}: {claim.id}"
            )
    return claims


CLAIMS = collected()


def __dir__() -> list[str]:
    return [*__all__, *(module.name for module in iter_modules(__path__))]

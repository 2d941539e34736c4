"""The later literature: claims of others' methods and code, one file a kind.

Every module here holds claims, made by `claims.finding`, and is found by itself.
"""

from importlib import import_module
from pkgutil import iter_modules

from dpkit.papers.claims import Claim

__all__ = ["CLAIMS", "NAME", "NOTEBOOK", "TITLE", "collected"]
NAME = "ledger"
TITLE = "Later literature (methods, libraries, accountants)"
NOTEBOOK = "06_how_guarantees_break"


def collected() -> tuple[Claim, ...]:
    """The claims of all files, by id.

    Raises:
        ValueError: a file holds no claim, or a claim of an id that another has.
    """
    claims: dict[str, Claim] = {}
    for name in sorted(module.name for module in iter_modules(__path__)):
        held = vars(import_module(f"{__name__}.{name}")).values()
        found = {one.id: one for one in held if isinstance(one, Claim)}
        if not found or found.keys() & claims:
            raise ValueError(
                f"{name}.py must hold claims, each of an id of its own: {[*found]}"
            )
        claims |= found
    return tuple(sorted(claims.values(), key=lambda one: one.id.replace("-", "_")))


CLAIMS = collected()


def __dir__() -> list[str]:
    return [*__all__, *(module.name for module in iter_modules(__path__))]

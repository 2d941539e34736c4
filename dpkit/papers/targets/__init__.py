"""All targets of attacks: each paper's systems, and those of no paper."""

from importlib import import_module

from dpkit import papers
from dpkit.papers.targets.target import Target

__all__ = ["chosen", "targets"]
OWN = (
    "dpkit.papers.targets.sampling",
    "dpkit.papers.targets.trained",
    "dpkit.papers.targets.releases",
)


def targets() -> tuple[Target, ...]:
    """Every target, the papers' first, each paper's main run before its variants."""
    modules = [*(f"{paper.__name__}.attacks" for paper in papers.PAPERS), *OWN]
    return tuple(target for name in modules for target in import_module(name).TARGETS)


def chosen(name: str) -> tuple[Target, ...]:
    """Return the target of that id, or those of that group ("dp_cgan"), or all ("all").

    Raises:
        ValueError: none; the message lists the groups, or the group's targets.
    """
    every = targets()
    found = tuple(one for one in every if name in (one.id, one.group, "all"))
    if found:
        return found
    group = name.partition("/")[0]
    names = [one.id for one in every if one.group == group] or list(
        dict.fromkeys(one.group for one in every)
    )
    raise ValueError(f"target must be one of {', '.join(names)}; got {name!r}")


def __dir__() -> list[str]:
    return __all__

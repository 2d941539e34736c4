"""The papers the kit knows. Adding one adds a package beside these and its name to PAPERS."""

from types import ModuleType

from dpkit.papers import dp_cgan, dpgan, rdp_gan, small_images

PAPERS: tuple[ModuleType, ...] = (dp_cgan, dpgan, rdp_gan, small_images)


def named(name: str) -> ModuleType:
    """The paper's package by its name.

    Raises:
        ValueError: there is none of that name, and the message lists those there are.
    """
    papers = {paper.NAME: paper for paper in PAPERS}
    if name in papers:
        return papers[name]
    known = ", ".join(papers)
    raise ValueError(f"paper must be one of {known}; got {name!r}")

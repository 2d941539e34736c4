"""A finding: a claim of a published method, library or paper, with the place of its source."""

from dataclasses import dataclass
from typing import Any

from dpkit.papers.claims import Claim


@dataclass(frozen=True)
class Source:
    """The place where something is said, or done by code.

    Args:
        work: what it is, with authors and year, such as "DP-MERF (Harder, Adamczewski, Park 2021)".
        place: "owner/name commit, path:lines" of public code, or section, theorem or table.
        unread: what could not be read there; "" where all of it was.

    Raises:
        ValueError: work or place is empty.
    """

    work: str
    place: str
    unread: str = ""

    def __post_init__(self) -> None:
        for name, text in (("work", self.work), ("place", self.place)):
            if not text.strip():
                raise ValueError(f"{name} of a source must say something, got {text!r}")

    def __str__(self) -> str:
        return f"{self.work}: {self.place}"


def finding(name: str, source: Source, *, explanation: str, **claim: Any) -> Claim:
    """The claim `ledger/<name>`; it cannot be checked where the source could not be read.

    Args:
        name: in words joined by "-"; its file is called so, with "_".
        source: where it was read.
        explanation, claim: as `Claim` has them; what was not read is added to the explanation.

    Raises:
        ValueError: the source was not read, but the kind is not "unchecked"; and as `Claim`.
    """
    if source.unread:
        if claim.get("kind") != "unchecked":
            raise ValueError(
                f"{name}: kind must be 'unchecked', got {claim.get('kind')!r}, for its source was "
                f"not read ({source.unread})"
            )
        explanation = f"{explanation} Not read: {source.unread}."
    return Claim(id=f"ledger/{name}", where=str(source), explanation=explanation, **claim)

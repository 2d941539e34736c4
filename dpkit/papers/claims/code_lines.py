"""A line of code or a formula that a claim is about: as it was, as it should be, what differs."""

from dataclasses import dataclass
from typing import Literal

from dpkit.common import checks

Cause = Literal[
    "sensitivity",
    "noise",
    "sampling",
    "uncharged",
    "accounting",
    "formula",
    "evaluation",
    "floating point",
]
CAUSES: dict[Cause, str] = {  # of what a claim is about -> in words
    "sensitivity": "a record moves what is released farther than the noise is for",
    "noise": "the noise is smaller, or elsewhere, than the charge takes it to be",
    "sampling": "batches are drawn in another way than the charge takes them to be",
    "uncharged": "private records are read, and nothing is charged",
    "accounting": "costs are added up, or tested, in a way that misses some",
    "formula": "a formula is misprinted, or holds only under conditions that are not met",
    "evaluation": "a score is measured in another way than it is read",
    "floating point": "a computer's numbers are not the real numbers of a proof",
}
MOST_LINES = 3  # of code beside a claim


@dataclass(frozen=True)
class Code:
    """The line of code, or the formula, that a claim is about: as it was, and as it should be.

    Both in this kit's words and names, one to three short lines each; not quoted from anywhere.

    Args:
        was: as it was published.
        should: what makes the claim true, or the true one in its place.
        cause: what lies between the two, of CAUSES.

    Raises:
        ValueError: lines are missing or too many, both are the same, or the cause is unknown.
    """

    was: str
    should: str
    cause: Cause

    def __post_init__(self) -> None:
        checks.one_of(tuple(CAUSES), cause=self.cause)
        for name, text in (("was", self.was), ("should", self.should)):
            lines = text.splitlines()
            if not (1 <= len(lines) <= MOST_LINES and all(line.strip() for line in lines)):
                raise ValueError(f"{name} must be 1 to {MOST_LINES} lines of code, got {text!r}")
        if self.was == self.should:
            raise ValueError(f"was and should must differ, got {self.was!r} twice")

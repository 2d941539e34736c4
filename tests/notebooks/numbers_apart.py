"""Compare two texts number by number: the words identical, each number within a tolerance.

Other processors add in another order, so the last digits of a sum are theirs. A number's sign, its
third digit, its place and the words around it are not.
"""

import math
import re
from typing import NamedTuple

TOLERANCE = 1e-6  # relative, of every number unless its cell or table says otherwise
MOST = 0.5  # above it a comparison says nothing
PLACE = "\0"
# A sign belongs to a number unless it joins two, as in 3-5; digits inside a word are the word's, as
# are those of a version such as 1.10.3.
NUMBER = re.compile(
    r"(?<![\w.])(?:(?<![\w)\]])[-+])?"
    r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?(?!\w|\.\d)"
)


class Apart(NamedTuple):
    """How far two texts are apart.

    words: whether all but the numbers is identical, and as many numbers stand in it.
    numbers: how many were compared, 0 where the words differ.
    furthest: the largest relative difference of two numbers; inf where two counts differ.
    """

    words: bool
    numbers: int
    furthest: float

    def within(self, tolerance: float) -> bool:
        """Whether the words agree and no two numbers are further apart; NaN never is."""
        return self.words and self.furthest <= tolerance


def apart(reference: str, found: str) -> Apart:
    """How far a text is from a reference.

    A number without a point or an exponent in both texts is a count, and counts are equal or not.
    """
    if NUMBER.sub(PLACE, reference) != NUMBER.sub(PLACE, found):
        return Apart(False, 0, 0.0)
    pairs = list(zip(NUMBER.findall(reference), NUMBER.findall(found), strict=True))
    return Apart(True, len(pairs), max((_relative(*pair) for pair in pairs), default=0.0))


def _relative(reference: str, found: str) -> float:
    """|a - b| / max(|a|, |b|) of two numbers, 0 where they are equal; never NaN."""
    if reference == found:
        return 0.0
    if not any(mark in reference + found for mark in ".eE"):
        return math.inf
    a, b = (float(text.replace(",", "")) for text in (reference, found))
    lost = any(
        not math.isfinite(value) or (value == 0 and re.search("[1-9]", text.split("e")[0]))
        for value, text in ((a, reference), (b, found))
    )
    if lost:  # beyond what a float holds
        return math.inf
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b))


def tolerance_of(tags: list[str]) -> float:
    """The relative tolerance that a cell's tag `tolerance=0.05` states; the default without one.

    Raises:
        ValueError: a tag states no number above the default and up to MOST, or two tags do.
    """
    stated = [tag.partition("=")[2] for tag in tags if tag.startswith("tolerance=")]
    if not stated:
        return TOLERANCE
    try:
        (value,) = map(float, stated)
    except ValueError:
        value = float("nan")
    if not TOLERANCE < value <= MOST:
        raise ValueError(
            f"a cell has at most one tag tolerance=X with X above {TOLERANCE:g} and at most "
            f"{MOST:g}, got {', '.join(stated)}"
        )
    return value

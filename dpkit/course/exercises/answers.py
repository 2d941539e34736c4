"""Numbers as readers write them."""

import math
import re
from typing import Any

THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
EITHER = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # thousands, or three decimals
WITHOUT_END = {"none", "infinity", "infinite", "no finite epsilon", "\N{INFINITY}"}


def as_number(answer: Any) -> float:
    """The number that is meant: a Python, NumPy or torch number, a Guarantee, or text.

    Text may have thousands separators ("1,108"), a decimal comma ("0,87") or a per cent sign
    ("10.5 %" is 0.105); "none" is an infinite epsilon.

    Raises:
        ValueError: it is no number, or NaN.
    """
    value = getattr(answer, "epsilon", answer)
    if isinstance(value, str):
        value = _read(value)
    if isinstance(value, bool):
        raise ValueError(f"A number is asked for, got {answer!r}.")
    try:
        number = float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"A number is asked for, got {answer!r}.") from None
    if math.isnan(number):
        raise ValueError("A number is asked for, got nan.")
    return number


def readings(answer: Any) -> tuple[float, ...]:
    """What an answer may mean: "1,108" is 1108 or, with a decimal comma, 1.108.

    Raises:
        ValueError: as `as_number`.
    """
    number = as_number(answer)
    if isinstance(answer, str) and EITHER.fullmatch(answer.strip()):
        return number, as_number(answer.replace(",", "."))
    return (number,)


def _read(text: str) -> Any:
    text = text.strip().casefold().replace("_", "").replace("\N{MINUS SIGN}", "-")
    if text in WITHOUT_END:
        return math.inf
    if text.endswith("%"):
        part = _read(text.removesuffix("%"))
        return float(part) / 100
    if THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    return text.replace(",", ".")

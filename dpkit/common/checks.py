"""Refuse bad numbers where they enter; every check is written so that NaN fails it.

Each check returns what it was given as Python's own int or float (a tuple of several values): a
scalar of numpy with 16 or 32 bits would compute in as many.
"""

import math
from collections.abc import Callable
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

TO_YOURSELF = "this tells of private records: keep it to yourself"  # what quotes one ends so


def plain(value: Any) -> Any:
    """A number, or each number of a tuple, as Python's own int or float; else the value itself."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(plain, value))
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else _float(value)


def plain_fields(instance: Any) -> None:
    """Make the numbers of a frozen dataclass Python's own: the first line of `__post_init__`."""
    for field in fields(instance):
        object.__setattr__(instance, field.name, plain(getattr(instance, field.name)))


def positive(**values: Any) -> Any:
    """Each value is a finite number > 0 (ValueError otherwise: parameter, value, what may be)."""
    return _each(values, lambda x: 0 < x < math.inf, "be a finite number > 0")


def non_negative(**values: Any) -> Any:
    """Each value is a finite number >= 0 (ValueError otherwise)."""
    return _each(values, lambda x: 0 <= x < math.inf, "be a finite number >= 0")


def in_range(low: float, high: float, **values: Any) -> Any:
    """Each value lies in the closed interval [low, high] (ValueError otherwise)."""
    return _each(values, lambda x: low <= x <= high, f"lie in [{low}, {high}]")


def between(low: float, high: float, **values: Any) -> Any:
    """Each value lies in the open interval (low, high) (ValueError otherwise)."""
    return _each(values, lambda x: low < x < high, f"lie in ({low}, {high}), ends excluded")


def whole(minimum: int = 0, **values: Any) -> Any:
    """Each value is an integer >= minimum (ValueError otherwise)."""
    for name, value in values.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, Integral)
            or not int(value) >= minimum
        ):
            raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")
    found: Any = tuple(map(int, values.values()))
    return found[0] if len(found) == 1 else found


def one_of(allowed: tuple[str, ...], **values: Any) -> None:
    """Each value is one of the names in `allowed` (ValueError otherwise, which lists them)."""
    for name, value in values.items():
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def array(**values: Any) -> None:
    """Refuse (TypeError) masked and sparse arrays, which would be misread."""
    for name, part in values.items():
        if hasattr(part, "mask") and hasattr(part, "filled"):
            raise TypeError(
                f"{name} is a masked array, whose mask would be ignored: drop such records, or "
                f"fill them in by {name}.filled(...)"
            )
        dense = "toarray" if hasattr(part, "toarray") else "to_dense"
        layout = str(getattr(part, "layout", "torch.strided"))
        if layout != "torch.strided" or (hasattr(part, "nnz") and dense == "toarray"):
            raise TypeError(f"{name} is sparse, and must be dense: pass {name}.{dense}()")


def short(value: float, digits: int = 6) -> str:
    """A number in words, in `digits` significant digits: "0.5", "10,000", "1e-5"."""
    rounded = float(f"{value:.{digits}g}") + 0.0
    mantissa, e, power = f"{rounded:,.{max(digits, 6)}g}".partition("e")
    return f"{mantissa}e{int(power)}" if e else mantissa


def _each(values: dict[str, Any], allowed: Callable[[float], bool], must: str) -> Any:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError(f"{name} must be a number, got {value!r}")
        if not allowed(_float(value)):
            raise ValueError(f"{name} must {must}, got {value}")
    found: Any = tuple(map(_float, values.values()))
    return found[0] if len(found) == 1 else found


def _float(value: Any) -> float:
    """The number as a float, infinite where it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf

"""Refuse bad numbers where they enter; every check is written so that NaN fails it."""

import math
from numbers import Integral, Real
from typing import Any


def _real(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)


def positive(**values: Any) -> None:
    """Each value is a finite number > 0.

    Raises:
        ValueError: names the parameter, its value and what is allowed.
    """
    for name, value in values.items():
        if not (_real(name, value) > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be a finite number > 0, got {value}")


def non_negative(**values: Any) -> None:
    """Each value is a finite number >= 0 (ValueError otherwise)."""
    for name, value in values.items():
        if not (_real(name, value) >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be a finite number >= 0, got {value}")


def in_range(low: float, high: float, **values: Any) -> None:
    """Each value lies in the closed interval [low, high] (ValueError otherwise)."""
    for name, value in values.items():
        if not low <= _real(name, value) <= high:
            raise ValueError(f"{name} must lie in [{low}, {high}], got {value}")


def between(low: float, high: float, **values: Any) -> None:
    """Each value lies in the open interval (low, high) (ValueError otherwise)."""
    for name, value in values.items():
        if not low < _real(name, value) < high:
            raise ValueError(f"{name} must lie in ({low}, {high}), ends excluded, got {value}")


def whole(minimum: int = 0, **values: Any) -> None:
    """Each value is an integer >= minimum (ValueError otherwise)."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or not int(value) >= minimum:
            raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")


def one_of(allowed: tuple[str, ...], **values: Any) -> None:
    """Each value is one of the names in `allowed` (ValueError otherwise, which lists them)."""
    for name, value in values.items():
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")

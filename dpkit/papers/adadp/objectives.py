"""Smooth test functions of two variables, on which section III-B compares trajectories.

Names, formulas and domains are those of Wikipedia's "Test functions for optimization", which the
paper cites as [31]. Each is written in operations that are analytic in both variables, so that its
gradient follows from the function itself (`gradient`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpkit.privacy.mechanisms import Floats

TINY = 1e-30  # of the step into the complex plane: its error, of order TINY^2, is below rounding


class Objective(NamedTuple):
    """A function to minimise.

    name: as Wikipedia has it.
    value: f(x, y) of numbers or arrays of one shape, real or complex.
    low, high: corners of the domain that is usually searched.
    least: where it is least, one of the places where it is; None if it has no least value.
    """

    name: str
    value: Callable[[Any, Any], Any]
    low: tuple[float, float]
    high: tuple[float, float]
    least: tuple[float, float] | None


def gradient(objective: Objective, at: Floats) -> Floats:
    """The gradient at points (..., 2), of the same shape, exact but for rounding.

    f(x + ih) = f(x) + ih f'(x) + O(h^2) of an analytic f (Squire, Trapp 1998), without the
    difference that loses digits.
    """
    x, y = at[..., 0], at[..., 1]
    step = TINY * 1j
    slopes = objective.value(x + step, y + 0j), objective.value(x + 0j, y + step)
    return np.stack([slope.imag / TINY for slope in slopes], axis=-1)


def _beale(x: Any, y: Any, *, last: int = 2) -> Any:
    return (1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** last


def _beale_as_printed(x: Any, y: Any) -> Any:
    return _beale(x, y, last=3)


def _rosenbrock(x: Any, y: Any) -> Any:
    return 100 * (y - x**2) ** 2 + (1 - x) ** 2


def _himmelblau(x: Any, y: Any) -> Any:
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


def _booth(x: Any, y: Any) -> Any:
    return (x + 2 * y - 7) ** 2 + (2 * x + y - 5) ** 2


def _matyas(x: Any, y: Any) -> Any:
    return 0.26 * (x**2 + y**2) - 0.48 * x * y


def _sphere(x: Any, y: Any) -> Any:
    return x**2 + y**2


def _mccormick(x: Any, y: Any) -> Any:
    return np.sin(x + y) + (x - y) ** 2 - 1.5 * x + 2.5 * y + 1


def _camel(x: Any, y: Any) -> Any:
    return 2 * x**2 - 1.05 * x**4 + x**6 / 6 + x * y + y**2


def _styblinski_tang(x: Any, y: Any) -> Any:
    return (x**4 - 16 * x**2 + 5 * x + y**4 - 16 * y**2 + 5 * y) / 2


def _goldstein_price(x: Any, y: Any) -> Any:
    first = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
    second = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
    return (1 + (x + y + 1) ** 2 * first) * (30 + (2 * x - 3 * y) ** 2 * second)


def _rastrigin(x: Any, y: Any) -> Any:
    return 20 + sum(z**2 - 10 * np.cos(2 * np.pi * z) for z in (x, y))


def _levi(x: Any, y: Any) -> Any:
    first = np.sin(3 * np.pi * x) ** 2 + (x - 1) ** 2 * (1 + np.sin(3 * np.pi * y) ** 2)
    return first + (y - 1) ** 2 * (1 + np.sin(2 * np.pi * y) ** 2)


def _square(name: str, value: Callable[[Any, Any], Any], side: float, *least: float) -> Objective:
    """An objective on [-side, side]^2, least at `least`; without it, below every bound."""
    ends = (-side, -side), (side, side)
    return Objective(name, value, *ends, (least[0], least[1]) if least else None)


# The paper cubes the last term of Beale's function, which so falls below every bound
BEALE_AS_PRINTED = _square("Beale as printed", _beale_as_printed, 4.5)
BEALE = _square("Beale", _beale, 4.5, 3.0, 0.5)
OBJECTIVES = (
    BEALE_AS_PRINTED,
    BEALE,
    _square("Rosenbrock", _rosenbrock, 4.5, 1.0, 1.0),  # Wikipedia names no domain
    _square("Himmelblau", _himmelblau, 5.0, 3.0, 2.0),
    _square("Booth", _booth, 10.0, 1.0, 3.0),
    _square("Matyas", _matyas, 10.0, 0.0, 0.0),
    _square("sphere", _sphere, 4.5, 0.0, 0.0),
    Objective("McCormick", _mccormick, (-1.5, -3.0), (4.0, 4.0), (-0.547197551, -1.547197551)),
    _square("three-hump camel", _camel, 5.0, 0.0, 0.0),
    _square("Styblinski-Tang", _styblinski_tang, 5.0, -2.903534028, -2.903534028),
    _square("Goldstein-Price", _goldstein_price, 2.0, 0.0, -1.0),
    _square("Rastrigin", _rastrigin, 5.12, 0.0, 0.0),
    _square("Levi 13", _levi, 10.0, 1.0, 1.0),
)

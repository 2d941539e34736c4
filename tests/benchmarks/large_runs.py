"""The true epsilon of six large runs to 35 digits of arithmetic: writes large_runs.json (minutes).

delta(e) is the inverse Laplace transform of M(z)^T / (z (z + 1)), M(z) = E[exp(z L)], on a line
Re z = t (Zhu, Dong, Wang 2022, Lemma 30 has the same by characteristic functions). M is the
trapezoidal rule in x; with twice as many points delta moves by less than 1e-5 of itself, because
losses that turn too fast for it are rare. Frequencies 2 pi / width apart add
delta(e + k width) exp(t k width): for k = -1 less than e^-40, for k = 1 what is checked.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

Real: Any = mp.mpf

STORED = Path(__file__).parents[1] / "privacy/large_runs.json"
RUNS = [  # sample rate, noise, releases, delta; t, frequencies, points of x for a noise
    ("1e-7", "0.6", 10**7, "1e-10", "6", 12000, 12),
    ("1e-7", "1", 10**7, "1e-10", "16", 9000, 12),
    ("1e-5", "0.5", 10**6, "1e-5", "2", 6000, 12),
    ("1e-5", "0.5", 10**6, "1e-10", "2", 6000, 12),
    ("4.1e-6", "0.8", 10**6, "1e-10", "8", 2500, 12),
    ("1e-7", "0.5", 10**7, "1e-10", "3.5", 8400, 36),
]


def hockey_stick(
    rate: str, noise: str, releases: int, t: str, frequencies: int, fine: int, side: int
) -> Callable[[Any], Any]:
    """delta(epsilon) of one direction: a record removed (side 1), or added (-1)."""
    q, s, line = Real(rate), Real(noise), Real(t)
    width = 40 / line
    step, moments = s / fine, [mp.mpc(0)] * frequencies
    for j in range(-12 * fine, int((1 + line + 12 * s) / step) + 1):
        x = j * step
        mixture = 1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))
        loss = side * mp.log(mixture)
        term = mp.npdf(x, 0, s) * step * (mixture if side > 0 else 1) * mp.exp(line * loss)
        turn = mp.expj(2 * mp.pi / width * loss)
        for k in range(frequencies):
            moments[k] += term
            term *= turn
    points = [mp.mpc(line, 2 * mp.pi * k / width) for k in range(frequencies)]
    terms = [m**releases / (z * (z + 1)) for m, z in zip(moments, points, strict=True)]
    least = s * s * (mp.log(mp.expm1(width) / q)) + Real(1) / 2  # x of a loss of the width
    rare = q * mp.ncdf((1 - least) / s) + mp.ncdf(-least / s)
    if not releases * rare * mp.exp(40) < 1e-15:
        raise ArithmeticError(f"t = {t} is too much: losses of {width} are not rare enough")
    if not abs(terms[-1]) < 1e-18 * abs(terms[0]):
        raise ArithmeticError(f"{frequencies} frequencies are too few: the last is {terms[-1]}")

    def delta(epsilon: Any) -> Any:
        parts = [(a * mp.exp(-z * epsilon)).real for a, z in zip(terms, points, strict=True)]
        return (2 * mp.fsum(parts) - parts[0]) / width

    return delta


def epsilon(run: tuple[Any, ...], digits: int = 7) -> Any:
    """The larger of both directions, by bisection to a relative 10^-digits."""
    rate, noise, releases, target, t, frequencies, fine = run
    curves = [hockey_stick(rate, noise, releases, t, frequencies, fine, side) for side in (1, -1)]
    low, high = Real(0), Real(8)
    while high - low > high * Real(10) ** -digits:
        middle = (low + high) / 2
        exceeds = max(curve(middle) for curve in curves) > Real(target)
        low, high = (middle, high) if exceeds else (low, middle)
    return high


if __name__ == "__main__":
    with mp.workdps(35):
        found = []
        for run in RUNS:
            found.append([*run, mp.nstr(epsilon(run), 7)])
            print(found[-1], file=sys.stderr, flush=True)
    STORED.write_text("[\n" + ",\n".join(f"  {json.dumps(one)}" for one in found) + "\n]\n")

"""The true epsilon of hard runs to 50 digits of arithmetic: rewrites large_runs.json (ten minutes).

delta(e) is the inverse Laplace transform of M(z)^T / (z (z + 1)), M(z) = E[exp(z L)], on a line
Re z = t (Zhu, Dong, Wang 2022, Lemma 30 has the same by characteristic functions). Where draws are
rare, M(z)^T does not decay, as most sums of losses S are nearly the same. A factor that falls
smoothly from 1 to 0 averages delta over distances at which those sums are not, and over which delta
is smooth: two such factors must agree. Losses above a bound need no transform: a sum with one of
them exceeds e. Frequencies 2 pi / width apart add delta(e + k width) exp(t k width): nothing for
k > 0, and for k < 0 all of P - exp(e) Q. Nothing here is dpkit's.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from scipy.special import logsumexp

Real: Any = mp.mpf
functions = (mp.exp, mp.log, mp.expm1, mp.log1p, mp.erfc)
exp, log, expm1, log1p, erfc = (np.frompyfunc(one, 1, 1) for one in functions)

# Rows of noise, sample rate, releases, delta, epsilon (in a new row any within a tenth), and the
# width that the certified pair may have, relative to its lower end.
STORED = Path(__file__).parents[1] / "privacy/large_runs.json"


def masses(run: list[Any], side: int, most: Any, slope: Any, fine: float) -> tuple[Any, Any]:
    """Of the trapezoidal rule: its masses under P (side 1) or Q (-1), and log(P / Q).

    It is uniform in y, of which log(P / Q) is like exp(y), from y = 0 on like slope y, up to most.
    """
    s, q = Real(run[0]), Real(run[1])
    step = min(Real("0.18"), Real("0.4") / s) / fine
    ends = [q * mp.exp((2 * x - 1) / (2 * s * s)) for x in (-14 * s, 1 + 14 * s)]
    low, high = (mp.log(mp.expm1(mp.log1p(one) / slope)) for one in ends)
    y = np.arange(int(low / step) - 1, int(min(high, most / slope + 5) / step) + 1)
    y = y.astype(object) * step
    more = expm1(slope * log1p(exp(y)))  # q exp((2 x - 1) / (2 s^2))
    x, loss = s * s * log(more / q) + Real(1) / 2, log1p(more - q)
    found = exp(-x * x / (2 * s * s) + max(side, 0) * loss) * s / mp.sqrt(2 * mp.pi)
    return found * step * slope * (more + 1) / more / (1 + exp(-y)), loss


def hockey_stick(run: list[Any], side: int, fine: float = 1, wide: int = 1) -> Callable[[Any], Any]:
    """delta(e), e near the run's epsilon, of a record removed (side 1) or added (-1)."""
    steps, target, near = int(run[2]), Real(run[3]), Real(run[4])
    fastest = fine * 36 * mp.sqrt(mp.log(Real(10) ** 10 / target)) / near
    bound, width = (2 + fine / 5) * near * wide, (5 + fine) * near * wide
    own, loss = masses(run, side, bound + near, 8 / fastest, fine)
    kept = own * erfc((loss - bound) / (near / 10)) / 2
    beyond, loss = own - kept, side * loss
    beyond[-1] += abs(1 - own.sum())

    # What is neglected: E[(1 - exp(e - S))+] <= E[exp(u (S - e))], and for u <= -1 with e - S.
    f, g, h = (one.astype(float) for one in (kept, beyond, loss))
    e, limit = float(near), float(mp.log(target)) - 23
    up = np.geomspace(0.01, 1e4, 100) / e
    down = -up[up >= 1]
    with np.errstate(all="ignore"):
        rise, fall = (steps * np.log1p(np.expm1(np.outer(u, h)) @ f) for u in (up, down))
        u, powers = (down, fall) if side > 0 else (up, rise)
        one_beyond = powers - u * e + logsumexp(np.outer(u, h), 1, steps * g)
        if not np.nanmin(one_beyond) < limit and wide < 100:
            return hockey_stick(run, side, fine, 2 * wide)

        def aliases(w: float) -> Any:
            return max(np.nanmin(rise - up * (e + w)) + 2, np.nanmin(fall - down * (e - w)) - 2)

        while not aliases(float(width)) < limit and width < 1000 * near * wide:
            width *= 1.25
        if not max(np.nanmin(one_beyond), aliases(float(width))) < limit:
            raise ArithmeticError(f"{run}: neither {wide} nor {width} is wide enough")

    mass, other = kept.sum() ** steps, (kept * exp(-loss)).sum() ** steps
    term, turn = kept * exp(2 / width * loss), exp(mp.mpc(0, 2 * mp.pi / width) * loss)
    points, terms, filters = [], [], []
    for k in range(int(fastest * width / (2 * mp.pi))):
        z = mp.mpc(2, 2 * mp.pi * k) / width
        points.append(z)
        terms.append(term.sum() ** steps / (z * (z + 1)) * (2 if k else 1) / width)
        filters.append([mp.erfc(18 * (z.imag / fastest - c)) / 2 for c in (0.6, 0.45)])
        if abs(terms[-1]) < 1e-20 * target / (k + 1):
            break
        term = term * turn

    def delta(epsilon: Any) -> Any:
        parts = [(a * mp.exp(-z * epsilon)).real for a, z in zip(terms, points, strict=True)]
        one, two = np.array(parts) @ np.array(filters)
        if not abs(one - two) < 1e-9 * target:
            raise ArithmeticError(f"{run}: two filters give {one} and {two}")
        aliased = mass / mp.expm1(2) - other * mp.exp(epsilon) / mp.expm1(2 + width)
        return one - aliased + (1 - mass - mp.exp(epsilon) * (1 - other) if side > 0 else 0)

    return delta


def epsilon(run: list[Any], fine: float = 1) -> Any:
    """Where the larger of both directions' delta is the run's."""
    target, near = Real(run[3]), Real(run[4])
    most = -run[2] * mp.log1p(-Real(run[1]))  # from here on an added record's delta is 0
    curves = [hockey_stick(run, side, fine) for side in ((1, -1) if near < 2 * most else (1,))]

    def excess(e: Any) -> Any:
        return mp.log(max(curve(e) for curve in curves) / target)

    return mp.findroot(excess, (near, near * Real("1.01")), solver="secant", tol=1e-22)


if __name__ == "__main__":
    with mp.workdps(50):
        found = []
        for run in json.loads(STORED.read_text()):
            one, two = (epsilon(run, fine) for fine in (1, 1.4))
            if not abs(one - two) < 1e-9 * one:
                raise ArithmeticError(f"{run}: coarse {one}, fine {two}")
            found.append([*run[:4], mp.nstr(two, 10), *run[5:]])
            print(found[-1], file=sys.stderr, flush=True)
    STORED.write_text("[\n" + ",\n".join(f"  {json.dumps(one)}" for one in found) + "\n]\n")

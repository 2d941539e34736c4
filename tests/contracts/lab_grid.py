"""Write docs/lab/grid.js: certified pairs on a grid, rounded outwards, for the Lab's accountant.

`python tests/contracts/lab_grid.py` takes about a minute; a test compares some of its points.
"""

import json
import math
from itertools import product
from pathlib import Path

from dpkit.common.files import write_bytes
from dpkit.common.show import at_least, at_most
from dpkit.privacy import Release, SampledGaussian, pld

FILE = Path(__file__).resolve().parents[2] / "docs" / "lab" / "grid.js"
DELTA = 1e-5
NOISE = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
RATE = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2)
STEPS = (1, 10, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


def pair(noise: float, rate: float, steps: int) -> tuple[float, float | None]:
    """The certified pair in four digits, rounded outwards; None where the upper one is infinite."""
    found = pld.epsilon([Release(SampledGaussian(noise, rate), steps)], delta=DELTA)
    ends = at_least(found.lower), at_most(found.epsilon)
    lower, upper = (float(end.replace(",", "")) for end in ends)
    return lower, None if math.isinf(upper) else upper


def text() -> str:
    """The file: one JavaScript object, its arrays in the order noise, rate, steps."""
    pairs = [pair(*point) for point in product(NOISE, RATE, STEPS)]
    lower, upper = zip(*pairs, strict=True)
    fields = {"delta": DELTA, "noise": NOISE, "rate": RATE, "steps": STEPS}
    content = json.dumps({**fields, "lower": lower, "upper": upper}, separators=(",", ":"))
    written = "// Written by tests/contracts/lab_grid.py."
    return f"{written}\nvar Lab = Lab || {{}};\nLab.grid = {content};\n"


if __name__ == "__main__":
    write_bytes(FILE, text().encode())

"""Homework: twenty lines of DP-SGD with one fault each, to find and to price.

`task = homework.draw("Ann")` is always the same for one name; `print(task)` shows the code,
`task.check(line=12, epsilon=3.4)` the verdict, `task.solution()` the fault.
"""

import math
import random
import reprlib
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from dpkit.course.exercises.sheet import as_number, readings
from dpkit.privacy import Release, SampledGaussian, pld

CODE = '''\
NOISE_MULTIPLIER, CLIP_NORM, BATCH, PUBLIC_SIZE, STEPS = {settings}


def train(records, gradient, rng):
    """DP-SGD; the weights after every step are published."""
    weights = np.zeros(4)
    history = [weights]
    for step in range(STEPS):
        drawn = rng.random(len(records)) < BATCH / PUBLIC_SIZE
        total = np.zeros(4)
        for record in records[drawn]:
            g = gradient(weights, record)
            total += g * min(1.0, CLIP_NORM / max(np.linalg.norm(g), 1e-12))
        noise = rng.normal(0.0, NOISE_MULTIPLIER * CLIP_NORM, size=4)
        weights = weights - 0.1 * (total + noise) / BATCH
        history.append(weights)
    return history


def charged():
    step = SampledGaussian(NOISE_MULTIPLIER, BATCH / PUBLIC_SIZE)
    return pld.epsilon([Release(step, STEPS)], delta=1e-5).epsilon
'''


class HomeworkSettings(NamedTuple):
    """The numbers of a run."""

    noise_multiplier: float
    clip_norm: float
    batch: int = 16
    public_size: int = 2_000
    steps: int = 1_000


class Fault(NamedTuple):
    """`right` in CODE becomes `wrong`.

    `covered` is the charged noise multiplier over the true one (infinite: no guarantee).
    """

    right: str
    wrong: str
    why: str
    covered: Callable[[HomeworkSettings], float]
    clip_norm: float = 2.0


FAULTS = {
    "noise without the clip norm": Fault(
        "rng.normal(0.0, NOISE_MULTIPLIER * CLIP_NORM, size=4)",
        "rng.normal(0.0, NOISE_MULTIPLIER, size=4)",
        "One record moves the sum by CLIP_NORM, and the noise does not follow it.",
        lambda run: run.clip_norm,
    ),
    "a variance for a deviation": Fault(
        "rng.normal(0.0, NOISE_MULTIPLIER * CLIP_NORM, size=4)",
        "rng.normal(0.0, (NOISE_MULTIPLIER * CLIP_NORM) ** 0.5, size=4)",
        "normal takes a standard deviation; its root is too small where it is above 1.",
        lambda run: (run.noise_multiplier * run.clip_norm) ** 0.5,
    ),
    "noise over the root of the batch": Fault(
        "(total + noise) / BATCH",
        "(total + noise / BATCH**0.5) / BATCH",
        "The noise is divided once more, by the root of 16.",
        lambda run: run.batch**0.5,
    ),
    "a known seed": Fault(
        "noise = rng.normal(",
        "noise = np.random.default_rng(step).normal(",
        "Everybody can draw the same noise and take it off: no finite epsilon.",
        lambda run: math.inf,
    ),
    "one coordinate without noise": Fault(
        "(total + noise) / BATCH",
        "(total + noise * (np.arange(4) > 0)) / BATCH",
        "The first coordinate is published without noise: no finite epsilon.",
        lambda run: math.inf,
    ),
    "noise every other step": Fault(
        "(total + noise) / BATCH",
        "(total + (noise if step % 2 == 0 else 0.0)) / BATCH",
        "Every other step is published without noise: no finite epsilon.",
        lambda run: math.inf,
    ),
    "coordinates clipped one by one": Fault(
        "g * min(1.0, CLIP_NORM / max(np.linalg.norm(g), 1e-12))",
        "np.clip(g, -CLIP_NORM, CLIP_NORM)",
        "Four coordinates of CLIP_NORM each: a record moves the sum by twice CLIP_NORM.",
        lambda run: 4**0.5,
    ),
    "the square of the norm": Fault(
        "max(np.linalg.norm(g), 1e-12)",
        "max(np.sum(g**2), 1e-12)",
        "A gradient of length sqrt(CLIP_NORM) is not shortened, and is longer than CLIP_NORM < 1.",
        lambda run: run.clip_norm**-0.5,
        clip_norm=0.25,
    ),
    "two views of a record": Fault(
        "for record in records[drawn]:",
        "for record in np.concatenate([records[drawn], records[drawn][:, ::-1]]):",
        "Each record adds two clipped gradients, one of itself and one of its mirror image.",
        lambda run: 2.0,
    ),
    "stopped by a private loss": Fault(
        "history.append(weights)",
        "history.append(weights)\n"
        "        if sum(gradient(weights, r).sum() for r in records) > 4:\n            break",
        "Where the run ends depends on the records without noise: no finite epsilon.",
        lambda run: math.inf,
    ),
    "an uncharged mean": Fault(
        "history.append(weights)",
        "mean = total.sum() / 4**0.5 + rng.normal(0.0, NOISE_MULTIPLIER * CLIP_NORM)\n"
        "        history.append((weights, mean))",
        "A second noisy number of the same batch: both move together, by the root of 2.",
        lambda run: 2**0.5,
    ),
    "a tenth of the steps": Fault(
        "[Release(step, STEPS)]",
        "[Release(step, STEPS // 10)]",
        "Every step is a release, and only one in ten is charged.",
        lambda run: 1.0,
    ),
}


class Homework:
    """One fault in one run: `code` is the student's text, `right` the same without the fault."""

    def __init__(self, name: str, settings: HomeworkSettings) -> None:
        """Put this fault into a run with these numbers."""
        self.name = name
        self.settings = settings
        self.fault = FAULTS[name]
        self.right = CODE.format(settings=", ".join(f"{value:_}" for value in settings))
        self.code = self.right.replace(self.fault.right, self.fault.wrong)

    @property
    def lines(self) -> list[int]:
        """The wrong lines of `code`, counted from 1."""
        right = self.right.splitlines()
        found = enumerate(self.code.splitlines(), start=1)
        return [number for number, line in found if line not in right]

    @cached_property
    def epsilon(self) -> float:
        """The certified cost at delta 1e-5 under add-remove; infinite where no guarantee holds."""
        covered = self.fault.covered(self.settings)
        return math.inf if math.isinf(covered) else self._price(covered, self.settings.steps)

    @cached_property
    def charged(self) -> float:
        """The epsilon that the run's own `charged` gives."""
        return self._price(
            1.0, self.settings.steps // (10 if "STEPS // 10" in self.code else 1)
        )

    def _price(self, covered: float, steps: int) -> float:
        run = self.settings
        step = SampledGaussian(run.noise_multiplier / covered, run.batch / run.public_size)
        return pld.epsilon([Release(step, steps)], delta=1e-5).epsilon

    def check(self, line: object, epsilon: object) -> None:
        """Print whether line and epsilon are right: "none" is an epsilon that does not exist."""
        print(self.judge(line=line, epsilon=epsilon))

    def judge(self, *, line: object, epsilon: object) -> str:
        """Return the text that `check` prints."""
        last = len(self.code.splitlines())
        wanted = f"line must be a number in 1..{last}, as it stands at the left of the line"
        try:
            place = as_number(line)
        except ValueError:
            place = math.nan
        if place not in range(1, last + 1):
            return f"{wanted}, got {reprlib.repr(line)}."
        said = f"Line {place:.0f}"
        if place not in self.lines:
            return f"{said}: no. Which line lets one record move more than the noise covers?"
        try:
            number = min(readings(epsilon), key=lambda one: abs(one - self.epsilon))
        except ValueError:
            number = -1.0
        if number < 0:
            wanted = 'a number >= 0, or "none" where no finite epsilon covers the run'
            return f"{said}: yes. epsilon must be {wanted}, got {reprlib.repr(epsilon)}."
        told = f"{said}: yes. Epsilon {number:.4g}:"
        if math.isclose(number, self.epsilon, rel_tol=0.02):
            return f"{told} yes."
        charged = math.isclose(number, self.charged, rel_tol=0.02)
        return f"{told} no{', that is what was charged' if charged else ''}."

    def solution(self) -> None:
        """Print the fault, its line and its price."""
        print(
            f"Line {self.lines[0]}: {self.name}. {self.fault.why} Epsilon {self.epsilon:.4g}."
        )

    def __repr__(self) -> str:
        numbered = enumerate(self.code.splitlines(), start=1)
        return "\n".join(f"{number:2} {line}".rstrip() for number, line in numbered)


def draw(name: str) -> Homework:
    """Draw a student's homework: another name gives other numbers and mostly another fault."""
    rng = random.Random(name)
    fault = rng.choice(list(FAULTS))
    noise, steps = rng.choice([1.1, 1.25, 1.4]), rng.choice([500, 1_000, 2_000])
    return Homework(fault, HomeworkSettings(noise, FAULTS[fault].clip_norm, steps=steps))

"""Algorithm 2's rule: less noise whenever the test accuracy stops improving (eqs. 17 and 18)."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from dpkit.common import checks


@dataclass(frozen=True)
class Tuning:
    """When to test, and by how much to lower the noise.

    Args:
        factor: k in (0, 1], by which the noise is multiplied.
        threshold: tau, the improvement of the accuracy (in [0, 1]) below which that happens.
        averaged: compare with the mean of all earlier accuracies (eq. 18), not with the last.
        every: generator iterations from one test to the next.
        count_noise: standard deviation of the noise on the number of correct answers that is
            tested; 0 as published, where the accuracy is read for free.
    """

    factor: float
    threshold: float
    averaged: bool = True
    every: int = 1
    count_noise: float = 0.0

    def __post_init__(self) -> None:
        checks.positive(factor=self.factor)
        checks.in_range(0, 1, factor=self.factor)
        checks.in_range(-1, 1, threshold=self.threshold)
        checks.whole(1, every=self.every)
        checks.non_negative(count_noise=self.count_noise)

    def next_noise(self, noise: float, accuracies: Sequence[float]) -> float:
        """The noise after the last of `accuracies`: as it is, or multiplied by `factor`.

        Args:
            noise: standard deviation, or multiplier, so far.
            accuracies: of all tests up to now, in [0, 1]; S_0 = 0 goes before them.
        """
        earlier = [0.0, *accuracies[:-1]]
        # eq. 18's mean is over tests 1 to t, S_0 left out where there is another
        reference = fmean(earlier[1:] or earlier) if self.averaged else earlier[-1]
        improved = accuracies[-1] - reference >= self.threshold
        return noise if improved else self.factor * noise

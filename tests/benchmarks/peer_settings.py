"""200 settings to compare accountants on: corner cases, plain Gaussians, replace-one, a product."""

import itertools
from typing import Any, NamedTuple

from dpkit.privacy import Adjacency, Gaussian, Release, SampledGaussian


class Setting(NamedTuple):
    """`steps` releases of a Gaussian with Poisson samples, at `delta`."""

    sample_rate: float
    noise_multiplier: float
    steps: int
    delta: float = 1e-5
    adjacency: Adjacency = "add-remove"

    @property
    def name(self) -> str:
        rate, noise, steps, delta, adjacency = self
        return f"q {rate!r}, noise {noise!r}, steps {steps}, delta {delta!r}, {adjacency}"

    @property
    def noise_over_sensitivity(self) -> float:
        """For peers that know no adjacency: replace-one moves a sum by 2 clip norms."""
        return self.noise_multiplier / (2 if self.adjacency == "replace-one" else 1)

    def ledger(self) -> list[Release]:
        """What dpkit accounts for."""
        if self.sample_rate == 1:
            return [Release(Gaussian(self.noise_multiplier, self.adjacency), self.steps)]
        mechanism = SampledGaussian(self.noise_multiplier, self.sample_rate, self.adjacency)
        return [Release(mechanism, self.steps)]


CORNERS = [
    Setting(0.01, 1.1, 10_000),  # A
    Setting(0.01, 0.5, 1_000),  # B
    Setting(64 / 60_000, 1.0, 60_000),  # C
    Setting(256 / 60_000, 1.1, 14_062),  # 60 epochs of MNIST: three correct epsilons
    Setting(1e-4, 0.3, 1_000),  # where the CLT reports 3.47 of 8.21
    Setting(0.2, 1.0, 500),
    Setting(0.01, 20.0, 1),  # decided by orders beyond 1,000
    Setting(0.4, 12.0, 1),  # where fractional orders cancel
    *(Setting(0.4, 12.0, 1_000), Setting(0.1, 1.0, 1)),
    Setting(0.5, 0.8, 10_000),  # a large epsilon
    *(Setting(0.2, 0.5, 1_000), Setting(0.9, 2.0, 100), Setting(0.99, 1.0, 10)),
    *(Setting(1e-4, 1.0, 1_000_000), Setting(1e-5, 0.5, 1_000_000)),
    *(Setting(1e-3, 8.0, 1_000_000), Setting(0.01, 1.1, 10_000, delta=1e-12)),
    *(Setting(64 / 60_000, 1.0, 60_000, delta=1e-12), Setting(0.2, 1.0, 500, delta=1e-12)),
    *(Setting(0.01, 1.1, 10_000, delta=1e-15), Setting(0.01, 1.1, 10_000, delta=0.1)),
    Setting(0.01, 0.5, 1, delta=0.5),
    # as in the papers, and in what they compare with
    *(Setting(0.01, 1.12, 3_000), Setting(600 / 60_000, 0.9, 1_800)),
    *(Setting(128 / 60_000, 0.5, 18_760), Setting(128 / 60_000, 1.0, 18_760)),
    *(Setting(256 / 49_000, 1.086, 3_120), Setting(64 / 60_000, 0.45, 898)),
    *(Setting(128 / 60_000, 1.0, 450_000), Setting(512 / 60_000, 2.0, 174_000)),
    Setting(1 / 6_000, 1.0, 3_000_000),
]


def _grid() -> list[Setting]:
    """200 settings: corner cases, plain Gaussians, replace-one, and a product."""
    plain = [
        Setting(1.0, noise, steps, delta, adjacency)
        for noise, steps, delta, adjacency in itertools.product(
            (0.5, 1.0, 4.0, 30.0), (1, 100), (1e-5, 1e-9), ("add-remove", "replace-one")
        )
    ]
    replaced = [
        Setting(rate, noise, steps, 1e-5, "replace-one")
        for rate, noise, steps in itertools.product((0.01, 0.3), (0.8, 1.5, 4.0), (1, 1_000))
    ]
    product = itertools.product(
        (0.001, 0.01, 0.1), (0.6, 0.8, 1.3, 2.0, 5.0), (1, 30, 1_000, 20_000), (1e-5, 1e-8)
    )
    one_epoch = [Setting(1 / n, noise, n) for n in (20, 200) for noise in (0.7, 1.5)]
    both = [*CORNERS, *plain, *replaced, *(Setting(*one) for one in product), *one_epoch]
    return list(dict.fromkeys(both))


GRID = _grid()
MECHANISMS = tuple(
    sorted({s[:2] for s in GRID if s.adjacency == "add-remove" and s.sample_rate < 1})
)


def subject_name(subject: Any) -> str:
    """The name of a setting, or of the sampled Gaussian (q, noise) of a curve."""
    return subject.name if isinstance(subject, Setting) else "q {!r}, noise {!r}".format(*subject)

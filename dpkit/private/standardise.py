"""Standardised features: by public constants, or by a mean and deviation that are released first.

The mean of the data is a function of every record: taken without noise, it would carry each record
into every batch. Noised it is one more release of the same budget.
"""

from dataclasses import asdict, dataclass
from math import prod, sqrt
from typing import Any

import torch
from torch import Tensor

from dpkit.common import checks
from dpkit.private.plan import Plan
from dpkit.training import noised

LEAST = 0.05  # deviation, of half the range between the bounds: noise may leave less
AT_ONCE = 2**22  # numbers that are added up together


@dataclass(frozen=True)
class Standardised:
    """(x - mean) / std of each row, a `transform` of `Private` and of `PrivateGan`.

    Args:
        mean, std: numbers, or one for each feature, as tuples or nested tuples of a row's shape;
            std > 0. They must not follow from the records.

    Raises:
        ValueError: std is not > 0.
    """

    mean: Any
    std: Any

    def __post_init__(self) -> None:
        if not (torch.as_tensor(self.std) > 0).all():
            raise ValueError(f"std must be > 0, got {self.std!r:.80}")

    def __call__(self, rows: Tensor) -> Tensor:
        rows = rows if rows.is_floating_point() else rows.to(torch.get_default_dtype())
        return (rows - torch.as_tensor(self.mean).to(rows)) / torch.as_tensor(self.std).to(rows)


@dataclass(frozen=True)
class NoisyStandardised:
    """As `Standardised`, by a noisy mean and deviation of each feature, which the budget covers.

        Private(net, optimizer, x, y, transform=NoisyStandardised(low=0, high=100), ...)

    The run's first release: each record, cut to [low, high], adds its values and their squares,
    scaled to [-1, 1], to one sum of 2 d numbers, to which Gaussian noise is added (Dwork, Roth
    2014, Thm A.1; priced by its exact profile). A record moves it by at most sqrt(2 d) in L2 norm,
    under add-remove; the mean is off by noise_multiplier sqrt(2 d) / records, in units of half the
    range. For test data and samples, `private.transform` and a fitted `gan.transform_` are then the
    `Standardised` by released numbers, which stand in a saved file, too.

    Args:
        low, high: public bounds of a feature, for all or one for each; not read off the records.
        noise_multiplier: of the release, noise standard deviation / sensitivity.

    Raises:
        ValueError: low is not below high, or noise_multiplier not > 0.
    """

    low: Any
    high: Any
    noise_multiplier: float = 10.0

    def __post_init__(self) -> None:
        checks.positive(noise_multiplier=self.noise_multiplier)
        if not (torch.as_tensor(self.low) < torch.as_tensor(self.high)).all():
            raise ValueError(f"low must be below high, got {self.low!r:.80} and {self.high!r:.80}")

    @property
    def scaling_noise(self) -> float:
        """Of the release, as the plan of a run holds it."""
        return self.noise_multiplier

    def _released(
        self, features: Tensor, *, public_size: int, rng: torch.Generator
    ) -> Standardised:
        """The transform by one noisy release of all features (records, ...)."""
        middle, half = self._range(features)
        size = prod(features.shape[1:])
        total = torch.zeros(2, *features.shape[1:], dtype=torch.float64)
        for part in features.split(max(AT_ONCE // max(size, 1), 1)):
            unit = ((part.cpu().double() - middle) / half).clamp(-1, 1)
            total += torch.stack((unit.sum(0), (2 * unit.square() - 1).sum(0)))
        std = self.noise_multiplier * sqrt(2 * size)
        (noisy,) = noised([total.to(rng.device)], noise_std=std, rng=rng)
        mean, square = (noisy / public_size).cpu()
        variance = (square + 1) / 2 - mean.square()
        spread = variance.clamp(min=LEAST**2).sqrt()
        return Standardised(
            _tuples(middle + half * mean.clamp(-1, 1)), _tuples((half * spread).expand(mean.shape))
        )

    def _range(self, features: Tensor) -> tuple[Tensor, Tensor]:
        low, high = (torch.as_tensor(x, dtype=torch.float64) for x in (self.low, self.high))
        return (low + high) / 2, (high - low) / 2


def _tuples(values: Tensor) -> Any:
    """Nested tuples of a tensor, which can be compared and stored."""
    return tuple(map(_tuples, values)) if values.ndim else float(values)


def settled(transform: Any, features: Tensor, *, public_size: int, rng: torch.Generator) -> Any:
    """A transform as it is, or by its release, which the plan holds (`plan.scaling_of`)."""
    if not isinstance(transform, NoisyStandardised):
        return transform
    return transform._released(features, public_size=public_size, rng=rng)


def published(transform: Any, plan: Plan) -> dict[str, Any]:
    """What a saved file tells of a transform: the numbers that were released for it, if any."""
    return {} if plan.scaling_noise is None else {"standardised": asdict(transform)}


def left_behind(rows: Tensor) -> Tensor:
    """Stands for a transform that was not pickled with a fitted GAN (ValueError)."""
    raise ValueError(
        "transform stays behind when a fitted PrivateGan is pickled, as it may hold records: "
        "set_params(transform=...) before another fit"
    )

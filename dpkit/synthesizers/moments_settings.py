"""What is measured of labelled images by their class moments, its noise and its price."""

from dataclasses import dataclass, replace
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from dpkit.common import checks
from dpkit.privacy import calibrate, pld
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import Gaussian
from dpkit.privacy.mechanisms.base import NoGuarantee, check_noise
from dpkit.synthesizers.cosines import cosines

FIRST_SHARE = 0.2  # of mu^2: what the first of two releases takes
MOST = 64  # components of a class, however many records there are
ENOUGH = 1_500  # records a component times mu: fewer, and noise hides what tells components apart


@dataclass(frozen=True)
class MomentsSettings:
    """What is measured of labelled images, and with how much noise.

    A record of features z (its lowest cosine frequencies, a public orthonormal basis), scaled down
    to |z| <= C where it is longer, adds (w0, w1 z / C, w2 z z' / C^2) to the sums of its class.

    Args:
        classes: number of labels 0, 1, ..., which is public.
        shape: of an image, (channels, height, width), with values in [0, 1].
        noise_multiplier: noise standard deviation / `sensitivity`; 0 for none, which is not
            private. Of both releases together, where there are two.
        clip_norm: C, in the images' unit; public, never read off the records.
        weights: (w0, w1, w2) of count, mean and second moment, each > 0.
        frequencies: of cosines along each side that are kept; None keeps all.
        components: Gaussians a class.

    Raises:
        ValueError: a number is out of range.
    """

    classes: int
    shape: tuple[int, ...]
    noise_multiplier: float
    clip_norm: float = 9.5
    weights: tuple[float, float, float] = (0.05, 0.3, 1.0)
    frequencies: int | None = 14
    components: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "weights", tuple(self.weights))
        checks.whole(1, classes=self.classes, components=self.components)
        if len(self.shape) != 3:
            raise ValueError(f"shape must be (channels, height, width), got {self.shape}")
        checks.whole(1, channels=self.shape[0], height=self.shape[1], width=self.shape[2])
        if self.frequencies is not None:
            checks.whole(1, frequencies=self.frequencies)
        checks.positive(clip_norm=self.clip_norm)
        if len(self.weights) != 3:
            raise ValueError(f"weights must be of count, mean, second moment, got {self.weights}")
        checks.positive(**{f"weights[{i}]": weight for i, weight in enumerate(self.weights)})
        checks.non_negative(noise_multiplier=self.noise_multiplier)
        if self.noise_multiplier:
            check_noise(self.noise_multiplier)

    @property
    def basis(self) -> NDArray[np.float64] | None:
        """Orthonormal rows, (features, pixels); None where all pixels are kept as they are."""
        return cosines(self.shape, self.frequencies)

    @property
    def features(self) -> int:
        """Numbers of an image that are measured."""
        return prod(self.shape) if self.basis is None else len(self.basis)

    @property
    def sensitivity(self) -> float:
        """L2, under add-remove: a record of norm C adds sqrt(w0^2 + w1^2 + w2^2) to one class.

        |z z'| in Frobenius norm is |z|^2. Off the diagonal the two equal entries of a symmetric
        matrix are one number times sqrt(2), so that the norm of what is released is that one.
        """
        return sqrt(sum(weight**2 for weight in self.weights))

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on what is released, where that is one release."""
        return self.noise_multiplier * self.sensitivity

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Of each release in turn; what they cost together is what one at noise_multiplier does."""
        if self.components == 1:
            return (self.noise_multiplier,)
        shares = FIRST_SHARE, 1 - FIRST_SHARE
        return tuple(self.noise_multiplier / sqrt(share) for share in shares)

    def ledger(self) -> list[Release]:
        """What `fit` releases, whatever the records: one Gaussian or two, under add-remove."""
        if not self.noise_multiplier:
            return [Release(NoGuarantee("no noise is added"))]
        return [Release(Gaussian(noise)) for noise in self.noise_multipliers]


def settings_for(
    target_epsilon: float,
    *,
    delta: float,
    classes: int,
    shape: tuple[int, ...],
    public_size: int,
    components: int | None = None,
) -> MomentsSettings:
    """The settings with the least noise for an epsilon, certified by the PLD accountant.

    Weights, frequencies and components were chosen on distorted images of scikit-learn's digits;
    the clip norm is a guess that suits images as bright as MNIST's.

    Args:
        target_epsilon: nats, > 0, under add-remove; what the settings cost is at most this.
        delta: in (0, 1).
        classes, shape: as `MomentsSettings`.
        public_size: declared number of records.
        components: Gaussians a class; None takes as many as `ENOUGH` allows.

    Raises:
        ValueError: bad input, or a target that no noise between 2^-20 and 2^40 meets.
    """
    checks.whole(1, public_size=public_size, classes=classes)
    noise = calibrate.gaussian_noise_multiplier(target_epsilon, delta=delta)
    if components is None:
        components = min(max(1, round(public_size / classes / noise / ENOUGH)), MOST)
    settings = MomentsSettings(classes, shape, noise, components=components)
    while pld.epsilon(settings.ledger(), delta=delta).epsilon > target_epsilon:  # by its rounding
        settings = replace(settings, noise_multiplier=settings.noise_multiplier * (1 + 1e-6))
    return settings

"""DP-MERF's release: each class's mean embedding in random Fourier features, noised once.

Harder, Adamczewski, Park 2021 (AISTATS), "DP-MERF: Differentially private mean embeddings with
random features for practical privacy-preserving data generation". Records x are embedded by phi(x),
random features of a Gaussian kernel; with one-hot labels y, the sum of phi(x) y' is all that is
released. `dpkit.synthesizers.feature_matching` trains a generator to match it. Works without torch.

Where we depart from the paper: there the mean over m records is noised, under replace-one, where it
moves by 2 / m at most (their section 4). Here it is the sum, under add-remove, where it moves by
exactly 1: a mean over a private number of records would show that number. What is divided by
afterwards is a number that was declared.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit.common import checks
from dpkit.privacy import calibrate, normals
from dpkit.synthesizers.records import NoisedRelease, checked

Floats = NDArray[np.float64]
FEATURES = 10_000  # of the paper's images
LENGTH_SCALE = sqrt(105.0)  # of its code for MNIST, in pixels' units; 105 is its square there
AT_ONCE = 2**22  # numbers of an embedding that are held at a time


@dataclass(frozen=True)
class FeaturesSettings(NoisedRelease):
    """The release of labelled images, and its noise.

    Args:
        classes: number of labels, public.
        shape: of an image, (channels, height, width), public.
        noise_multiplier: noise standard deviation of each number, whose sum moves by 1 in norm;
            0 for none, which is not private.
        features: length of an embedding, even: cosines and sines of half as many frequencies.
        length_scale: of the kernel exp(-|x - x'|^2 / (2 length_scale^2)), pixels in [0, 1]. It is
            not read off the records: the paper's code has sqrt(105) for MNIST, sqrt(127) for
            Fashion-MNIST.
        seed: of the frequencies, which are public.

    Raises:
        ValueError: a number is out of range, features is odd, or a noise_multiplier is neither 0
            nor in [1e-9, 1e13].
    """

    classes: int
    shape: tuple[int, ...]
    noise_multiplier: float
    features: int = FEATURES
    length_scale: float = LENGTH_SCALE
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        checks.plain_fields(self)
        checks.whole(1, classes=self.classes)
        checks.whole(3, dimensions_of_shape=len(self.shape))
        checks.whole(1, **{f"shape[{i}]": size for i, size in enumerate(self.shape)})
        checks.whole(2, features=self.features)
        if self.features % 2:
            raise ValueError(f"features must be even, cosines and sines, got {self.features}")
        checks.positive(length_scale=self.length_scale)
        checks.whole(seed=self.seed)
        super().__post_init__()

    @property
    def sensitivity(self) -> float:
        """L2, under add-remove: every embedding has norm 1, and stands in its class alone."""
        return 1.0

    def frequencies(self) -> Floats:
        """(features / 2, pixels), normal of deviation 1 / length_scale: of a Gaussian kernel."""
        return _frequencies(self.seed, self.features // 2, prod(self.shape), self.length_scale)


@lru_cache(maxsize=4)
def _frequencies(seed: int, count: int, pixels: int, scale: float) -> Floats:
    found = np.random.default_rng(seed).standard_normal((count, pixels)) / scale
    found.flags.writeable = False
    return found


def settings_for(
    target_epsilon: float, *, delta: float, classes: int, shape: tuple[int, ...], **others: Any
) -> FeaturesSettings:
    """The settings with the least noise for an epsilon, as by `class_moments.settings_for`."""
    return FeaturesSettings(
        classes,
        shape,
        calibrate.gaussian_noise_multiplier(target_epsilon, delta=delta),
        **others,
    )


def release(
    images: ArrayLike,
    labels: ArrayLike,
    *,
    settings: FeaturesSettings,
    rng: np.random.Generator,
) -> Floats:
    """Noised sums of the classes' embeddings, (features, classes); it costs `settings.ledger()`.

    Images are in [0, 1], (records, channels, height, width); labels are (records,), integers below
    `classes`. Raises: as `class_moments.fit`.
    """
    return normals.noised(
        embedded_sums(images, labels, settings=settings), noise_std=settings.noise_std, rng=rng
    )


def embedded_sums(
    images: ArrayLike, labels: ArrayLike, *, settings: FeaturesSettings
) -> Floats:
    """Sums of the classes' embeddings before noise, (features, classes).

    Raises:
        ValueError: as `release`.
    """
    rows, codes = checked(images, labels, classes=settings.classes, shape=settings.shape)
    at_once = max(AT_ONCE // settings.features, 1)
    sums = np.zeros((settings.features, settings.classes))
    for start in range(0, len(rows), at_once):
        part = slice(start, start + at_once)
        one_hot = np.eye(settings.classes)[codes[part]]
        sums += embedded(rows[part], settings.frequencies()).T @ one_hot
    return sums


def embedded(rows: NDArray[Any], frequencies: Floats) -> Floats:
    """phi(x) of each row, (records, features), of norm 1 up to rounding in double precision.

    Cosines and sines at each frequency, over the root of their number (Rahimi, Recht 2007):
    cos^2 + sin^2 is 1 at any angle. Angles are double too: a product of matrices rounds a row
    otherwise where other rows are beside it, and of many records that must not add up.
    """
    angles = rows.astype(np.float64) @ frequencies.T
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / sqrt(len(frequencies))

"""Class moments: noisy count, mean and second moment of each class, sampled as Gaussians.

One Gaussian release is all that reads the records. The second moment alone is that of Dwork,
Talwar, Thakurta, Zhang 2014 ("Analyze Gauss", Alg. 1); eigenvalues, factors and images are
post-processing. With several components a class, a first release of the same kind says where they
lie, as private EM does in many rounds (Park, Foulds, Choudhary, Welling 2017). Works without torch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit.synthesizers.components import partition
from dpkit.synthesizers.moments_settings import MomentsSettings, settings_for
from dpkit.synthesizers.moments_sums import Floats, Sums, in_parts, noised, sums
from dpkit.synthesizers.records import checked, checked_labels

__all__ = ["Component", "MomentsModel", "MomentsSettings", "fit", "settings_for"]


class Component(NamedTuple):
    """A Gaussian of images: mean + factors @ z, z standard normal, cut off at 0 and 1."""

    count: float  # of records, noisy, at least 1
    mean: Floats  # (pixels,)
    factors: Floats  # (pixels, directions)


@dataclass(frozen=True, eq=False)
class MomentsModel:
    """What `fit` releases: it follows from noisy sums and public values alone.

    components: for each class its Gaussians.
    """

    settings: MomentsSettings
    components: tuple[tuple[Component, ...], ...]

    def sample(self, labels: ArrayLike, *, rng: np.random.Generator) -> NDArray[np.float32]:
        """An image of each label, (labels, channels, height, width) in [0, 1].

        Raises:
            ValueError: labels are not integers in 0 .. classes - 1.
        """
        wanted = checked_labels(labels, classes=self.settings.classes)
        images = np.empty((len(wanted), prod(self.settings.shape)), dtype=np.float32)
        for label, components in enumerate(self.components):
            rows = np.flatnonzero(wanted == label)
            chances = np.array([one.count for one in components])
            which = rng.choice(len(components), size=len(rows), p=chances / chances.sum())
            for index, one in enumerate(components):
                for part in in_parts(rows[which == index]):
                    normal = rng.normal(size=(len(part), one.factors.shape[1]))
                    images[part] = np.clip(one.mean + normal @ one.factors.T, 0, 1)
        return images.reshape(-1, *self.settings.shape)


def fit(
    images: ArrayLike, labels: ArrayLike, *, settings: MomentsSettings, rng: np.random.Generator
) -> MomentsModel:
    """A model of the images, which costs `settings.ledger()`.

    Args:
        images: in [0, 1], (records, channels, height, width); records may be 0.
        labels: (records,), integers below `classes`.
        rng: of the noise, which `dpkit.privacy.normals` adds.

    Raises:
        ValueError: another shape, or an image with a value that is NaN or outside [0, 1].
    """
    pixels, classes = checked(images, labels, classes=settings.classes, shape=settings.shape)
    groups = classes
    if settings.components > 1:
        first = _release(pixels, classes, settings.classes, 0, settings, rng)
        near = partition([c.mean for c in first], [c.factors for c in first], settings.components)
        groups = classes * settings.components + near(pixels, classes)
    count = settings.classes * settings.components
    found = _release(pixels, groups, count, -1, settings, rng)
    own = [
        found[start : start + settings.components] for start in range(0, count, settings.components)
    ]
    return MomentsModel(settings, tuple(map(tuple, own)))


def _release(
    pixels: NDArray[np.floating],
    groups: NDArray[np.int64],
    count: int,
    index: int,
    settings: MomentsSettings,
    rng: np.random.Generator,
) -> list[Component]:
    """The Gaussian of each group, from its noised sums."""
    std = settings.noise_multipliers[index] * settings.sensitivity
    noisy = release(pixels, groups, count, std=std, settings=settings, rng=rng)
    return list(components_from(noisy, std, settings=settings))


def release(
    pixels: NDArray[np.floating],
    groups: NDArray[np.int64],
    count: int,
    *,
    std: float,
    settings: MomentsSettings,
    rng: np.random.Generator,
) -> Sums:
    """Noised sums of each group, which are all that a model is made from.

    Args:
        pixels, groups, count: as `moments_sums.sums`.
        std: of the noise; a noise multiplier times `settings.sensitivity`.
    """
    true = sums(pixels, groups, count, settings=settings)
    return noised(true, std, settings.weights, rng)


def components_from(noisy: Sums, std: float, *, settings: MomentsSettings) -> Iterator[Component]:
    """Gaussians with the noisy moments: post-processing, which sees no record.

    Directions whose variance is within the noise's own are dropped: eigenvalues of a symmetric
    matrix of noise, of standard deviation s off the diagonal, reach 2 s sqrt(features) (Wigner).

    Raises:
        ValueError: a sum that is not finite.
    """
    if not all(np.isfinite(part).all() for part in noisy):
        raise ValueError("noisy sums must be finite, got NaN or infinity")
    floor = 2 * std / settings.weights[2] / sqrt(2) * sqrt(settings.features)
    for count, first, second in zip(*noisy, strict=True):
        size = max(float(count), 1.0)
        mean = first / size
        values, vectors = np.linalg.eigh(second / size - np.outer(mean, mean))
        keep = values > floor / size
        factors = vectors[:, keep] * np.sqrt(np.maximum(values[keep], 0))
        basis = settings.basis
        if basis is not None:
            mean, factors = mean @ basis, basis.T @ factors
        yield Component(size, mean * settings.clip_norm, factors * settings.clip_norm)

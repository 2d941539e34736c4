"""Sums of count, features and their products, clipped record by record, and their noise."""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpkit.privacy import normals
from dpkit.synthesizers.moments_settings import MomentsSettings

Floats = NDArray[np.float64]
AT_ONCE = 2_000  # records that are multiplied, or images that are sampled, together


class Sums(NamedTuple):
    """What noise is added to, for each of `groups` (classes, or components of all classes)."""

    counts: Floats  # (groups,)
    firsts: Floats  # (groups, features), of z / C
    seconds: Floats  # (groups, features, features), of z z' / C^2; symmetric


def sums(
    pixels: NDArray[np.floating],
    groups: NDArray[np.int64],
    count: int,
    *,
    settings: MomentsSettings,
) -> Sums:
    """Each group's sums of 1, z / C and z z' / C^2: what `release` noises, in double precision.

    Args:
        pixels: (records, pixels).
        groups: (records,), below `count`.
    """
    features = settings.features
    total = Sums(
        np.zeros(count), np.zeros((count, features)), np.zeros((count, features, features))
    )
    for group in range(count):
        for part in in_parts(np.flatnonzero(groups == group)):
            z = clipped(pixels[part], settings=settings)
            total.counts[group] += len(z)
            total.firsts[group] += z.sum(0)
            total.seconds[group] += z.T @ z
    return total


def clipped(pixels: NDArray[np.floating], *, settings: MomentsSettings) -> Floats:
    """z / C of each image, (images, features), scaled down to a norm of 1 where it is longer."""
    z = np.asarray(pixels, dtype=np.float64)
    if settings.basis is not None:
        z = z @ settings.basis.T
    z = z / settings.clip_norm
    norms = np.sqrt(np.square(z).sum(1, keepdims=True))
    return z / np.maximum(norms, 1)


def noised(
    true: Sums, std: float, weights: tuple[float, float, float], rng: np.random.Generator
) -> Sums:
    """The sums with Gaussian noise of standard deviation `std` on (w0 count, w1 first, w2 second).

    Of the second moment that is noise on an orthonormal basis of symmetric matrices: `std` on the
    diagonal, std / sqrt(2) on both of two equal entries.
    """
    counts, firsts, seconds = (std / weight for weight in weights)
    above = (slice(None), *np.triu_indices(true.seconds.shape[-1], 1))
    noisy = np.zeros_like(true.seconds)
    noisy[above] = normals.noised(true.seconds[above], noise_std=seconds / sqrt(2), rng=rng)
    noisy += noisy.transpose(0, 2, 1)
    diagonal = np.einsum("gii->gi", true.seconds)
    np.einsum("gii->gi", noisy)[:] = normals.noised(diagonal, noise_std=seconds, rng=rng)
    return Sums(
        normals.noised(true.counts, noise_std=counts, rng=rng),
        normals.noised(true.firsts, noise_std=firsts, rng=rng),
        noisy,
    )


def in_parts(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Runs of at most `AT_ONCE` of these rows."""
    return [rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]

"""A two-dimensional mixture of Gaussians: small enough to see what a GAN learns and drops."""

import numpy as np


def gaussian_ring(
    n: int,
    *,
    rng: np.random.Generator,
    modes: int = 8,
    radius: float = 2.0,
    std: float = 0.05,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw from equally likely Gaussians whose means lie evenly on a circle about the origin.

    Args:
        n: how many points to draw, at least 0.
        rng: the source of randomness.
        modes: how many Gaussians, at least 1.
        radius: of the circle of means, > 0.
        std: standard deviation of each Gaussian, in both directions, > 0.

    Returns:
        points float64 (n, 2), and the mode each was drawn from, int64 (n,).

    Raises:
        ValueError: a number is out of range.
    """
    if not n >= 0:
        raise ValueError(f"n must be >= 0, got {n}")
    if not modes >= 1:
        raise ValueError(f"modes must be >= 1, got {modes}")
    for name, value in (("radius", radius), ("std", std)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be > 0 and finite, got {value}")
    labels = rng.integers(modes, size=n)  # (n,)
    angles = 2 * np.pi * labels / modes  # (n,) radians
    means = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)  # (n, 2)
    return means + std * rng.standard_normal((n, 2)), labels

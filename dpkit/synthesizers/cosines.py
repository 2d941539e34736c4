"""The lowest cosine frequencies of an image: a public basis in which most of an image lies."""

from functools import cache

import numpy as np
from scipy.fft import dct


@cache
def cosines(shape: tuple[int, ...], frequencies: int | None) -> np.ndarray | None:
    """Orthonormal rows, (features, pixels): products of cosines along both sides of each channel.

    Noise on a matrix of few features has small eigenvalues: a quarter of the pixels halves them.

    Args:
        shape: (channels, height, width).
        frequencies: kept along each side, the lowest first; None, or all there are, keeps the
            pixels as they are.

    Returns:
        None where the pixels are kept.
    """
    channels, *sides = shape
    if frequencies is None or frequencies >= max(sides):
        return None
    along = [np.asarray(dct(np.eye(side), norm="ortho", axis=0))[:frequencies] for side in sides]
    return np.kron(np.eye(channels), np.kron(*along))

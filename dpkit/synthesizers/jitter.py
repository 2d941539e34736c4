"""Turns, shifts and enlarges sampled images a little: post-processing, which costs nothing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import affine_transform

from dpkit.common import checks


@dataclass(frozen=True)
class Jitter:
    """The largest changes, each drawn uniformly and anew for each image.

    Args:
        degrees: of rotation, in [0, 180].
        shift: along each side, as a share of it, in [0, 0.5].
        zoom: relative change of size, in [0, 0.5].

    Raises:
        ValueError: a number is out of range.
    """

    degrees: float = 10.0
    shift: float = 0.05
    zoom: float = 0.1

    def __post_init__(self) -> None:
        checks.in_range(0, 180, degrees=self.degrees)
        checks.in_range(0, 0.5, shift=self.shift, zoom=self.zoom)

    def __call__(self, images: NDArray, *, rng: np.random.Generator) -> NDArray[np.float32]:
        """The images, changed; what comes in from outside is 0.

        Args:
            images: (n, channels, height, width).
        """
        draws = rng.uniform(-1, 1, size=(len(images), 4))
        sides = np.array(images.shape[2:])
        changed = np.empty(images.shape, dtype=np.float32)
        for image, (turn, zoom, *shifts), result in zip(images, draws, changed, strict=True):
            angle = np.deg2rad(self.degrees * turn)
            turned = np.array(
                [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            )
            matrix = turned / (1 + self.zoom * zoom)
            middle = (sides - 1) / 2
            offset = middle - matrix @ middle + self.shift * sides * shifts
            for channel, plane in zip(image, result, strict=True):
                affine_transform(channel, matrix, offset, output=plane, order=1)
        return changed

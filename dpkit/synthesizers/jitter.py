"""Moves sampled images a little, as their class allows: post-processing, which costs nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.fft import idctn
from scipy.ndimage import map_coordinates

from dpkit.common import checks

BENDS = 4  # half waves along each side, at most, that bend an image


@dataclass(frozen=True)
class Jitter:
    """Changes that are drawn anew for each image: the first three uniformly, up to these sizes.

    Args:
        turn: in degrees, in [0, 180].
        shift: along each side, as a share of it, in [0, 0.5].
        size: relative change of size, in [0, 0.5].
        bend: deviation of smooth displacements, as a share of a side, in [0, 0.5].
        mirror: chance of left and right changing places, in [0, 1].

    Raises:
        ValueError: a number is out of range.
    """

    turn: float = 10.0
    shift: float = 0.05
    size: float = 0.1
    bend: float = 0.0
    mirror: float = 0.0

    def __post_init__(self) -> None:
        checks.in_range(0, 180, turn=self.turn)
        checks.in_range(0, 0.5, shift=self.shift, size=self.size, bend=self.bend)
        checks.in_range(0, 1, mirror=self.mirror)

    @classmethod
    def of(cls, names: Iterable[str]) -> "Jitter":
        """The changes of these names alone: usual sizes of each, which no data chose."""
        usual = {**vars(cls()), "bend": 0.03, "mirror": 0.5}
        return cls(**{f.name: usual[f.name] if f.name in names else 0.0 for f in fields(cls)})

    def __call__(
        self, images: NDArray, *, rng: np.random.Generator, outside: float = 0.0
    ) -> NDArray[np.float32]:
        """The images, changed.

        Args:
            images: (n, channels, height, width).
            outside: what comes in from there, in [0, 1]; in colour it is the nearest pixel.
        """
        draws = rng.uniform(-1, 1, size=(len(images), 4))
        mirrored = (
            rng.random(len(images)) < self.mirror if self.mirror else [False] * len(images)
        )
        sides = np.array(images.shape[2:])
        middle = (sides - 1) / 2
        places = np.asarray(np.indices(tuple(sides))) - middle[:, None, None]
        changed = np.empty(images.shape, dtype=np.float32)
        mode = "nearest" if images.shape[1] == 3 else "constant"
        for index, (turn, zoom, *shifts) in enumerate(draws):
            angle = np.deg2rad(self.turn * turn)
            turned = np.array(
                [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            )
            at = np.tensordot(turned / (1 + self.size * zoom), places, 1)
            at += (middle + self.shift * sides * shifts)[:, None, None]
            if self.bend:
                at += self.bend * sides[:, None, None] * self._bends(rng, sides)
            source = images[index, :, :, ::-1] if mirrored[index] else images[index]
            for channel, plane in zip(source, changed[index], strict=True):
                map_coordinates(channel, at, output=plane, order=1, mode=mode, cval=outside)
        return changed

    def _bends(self, rng: np.random.Generator, sides: NDArray) -> NDArray[np.float64]:
        """Displacements along both sides, (2, height, width), of mean square about 1."""
        waves = np.zeros((2, *sides))
        few = np.minimum(BENDS, sides)
        waves[:, : few[0], : few[1]] = rng.normal(size=(2, *few))
        scale = np.sqrt(sides.prod() / few.prod())
        return idctn(waves, axes=(1, 2), norm="ortho") * scale

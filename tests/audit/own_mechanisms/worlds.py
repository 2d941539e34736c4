"""Two neighbouring data sets, each as it is seen through a release: what an attacker tells apart.

A world runs the mechanism, as its definition says, and knows the density of what comes out. Neither
uses the mechanism's price, so that attacks check prices rather than repeat them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.privacy.mechanisms import Floats


@dataclass(frozen=True)
class World:
    """One data set, seen through a release of `width` numbers.

    Args:
        width: numbers that one trial releases, >= 1.
        draw: (rng, trials) -> outputs (trials, width), by running the mechanism.
        log_density: outputs (trials, width) -> (trials,), less a constant that the neighbour's
            world leaves out as well; -inf where this data set never gives an output.

    Raises:
        ValueError: width is not an integer >= 1.
    """

    width: int
    draw: Callable[[np.random.Generator, int], Floats]
    log_density: Callable[[Floats], Floats]

    def __post_init__(self) -> None:
        checks.whole(1, width=self.width)


class Worlds(NamedTuple):
    """A data set without the record, and its neighbour with it (in the other's place)."""

    absent: World
    present: World

    def draw(self, rng: np.random.Generator, trials: int, *, present: bool) -> Floats:
        """Draw outputs, (trials, width), in one of the two worlds."""
        return (self.present if present else self.absent).draw(rng, trials)

    def loss(self, outputs: Floats) -> Floats:
        """The privacy loss log(density with the record / density without it), (trials,)."""
        return self.present.log_density(outputs) - self.absent.log_density(outputs)

    def swapped(self) -> "Worlds":
        """The other direction: what was without the record is called the world with it.

        Epsilon covers both directions; where a pair is no mirror image of itself, they leak
        unequally.
        """
        return Worlds(self.present, self.absent)


def unmoved(world: World) -> Worlds:
    """A release that the record does not touch."""
    return Worlds(world, world)


def repeated(worlds: Worlds, count: int) -> Worlds:
    """`count` >= 1 releases with fresh randomness, side by side: (trials, count * width)."""
    checks.whole(1, count=count)
    return Worlds(*(_repeated(world, count) for world in worlds))


def together(parts: Sequence[Worlds]) -> Worlds:
    """Independent releases about the same two data sets, their outputs side by side.

    Raises:
        ValueError: there are none.
    """
    if not parts:
        raise ValueError("parts must hold at least one release's worlds, got none")
    return Worlds(_together([p.absent for p in parts]), _together([p.present for p in parts]))


def _repeated(world: World, count: int) -> World:
    width = world.width

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        return world.draw(rng, trials * count).reshape(trials, count * width)

    def log_density(outputs: Floats) -> Floats:
        return world.log_density(outputs.reshape(-1, width)).reshape(-1, count).sum(axis=1)

    return World(count * width, draw, log_density)


def _together(worlds: list[World]) -> World:
    cuts = np.cumsum([world.width for world in worlds])

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        return np.concatenate([world.draw(rng, trials) for world in worlds], axis=1)

    def log_density(outputs: Floats) -> Floats:
        shares = np.split(outputs, cuts[:-1], axis=1)
        each = [world.log_density(share) for world, share in zip(worlds, shares, strict=True)]
        return np.sum(each, axis=0)

    return World(int(cuts[-1]), draw, log_density)

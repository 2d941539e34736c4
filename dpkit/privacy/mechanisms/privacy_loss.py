"""The distribution of a mechanism's privacy loss, as cell masses: what a PLD accountant adds up."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
UNIT = 2.0**-53
LEAST_MASS = 1e-200  # below it a mass may have lost its digits
ROUNDING = 6.3e-13  # relative, of any mass above it: what `rounding` is there, at most


def rounding(masses: Floats) -> Floats:
    """The relative error, at most, of masses beyond an edge: it grows with the tail's exponent.

    A normal tail at z has the relative error of z times z^2, which is about 2 |log mass|.
    """
    exponents = np.frexp(np.maximum(masses, LEAST_MASS))[1]  # -log(mass) <= log(2) (1 - exponent)
    return UNIT * (24.0 + 8.4 * (1 - exponents))


class PrivacyLoss(NamedTuple):
    """The loss log(dP/dQ) of a pair (P, Q) that dominates every pair of neighbours.

    The pair is for one direction, "a record removed"; the other direction is (Q, P), whose loss
    has the opposite sign (Zhu, Dong, Wang 2022, Def. 7).

    masses: increasing finite edges (n,) -> (2, n + 1): the mass under P (row 0) and Q (row 1) of
        the losses in (-inf, e_0], (e_0, e_1], ..., (e_{n-1}, inf). The mass beyond an edge, summed
        from either side, is off by a relative `rounding` at most, beside what moving the edge by a
        relative 16 UNIT would do; below LEAST_MASS only its size is right.
    lattice: (offset, spacing) where all of the loss's atoms lie at offset + k * spacing, or None.
    attained: the loss of a pair that two neighbours have, where none have the dominating one: lower
        bounds are of this. None where the dominating pair is itself attained.
    family, parameters: masses is family(*parameters, edges), where parameters may be columns (m, 1)
        and edges (m, n): the masses are then (2, m, n + 1), m losses side by side (`stacked`).
    """

    masses: Callable[[Floats], Floats]
    lattice: tuple[float, float] | None = None
    attained: "PrivacyLoss | None" = None
    family: Callable[..., Floats] | None = None
    parameters: tuple[float | Floats, ...] = ()


def of_family(family: Callable[..., Floats], *parameters: float | Floats) -> PrivacyLoss:
    """The loss of a family without atoms, or losses, one for each row of the parameters."""
    return PrivacyLoss(partial(family, *parameters), family=family, parameters=parameters)


def stacked(losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Losses of one family as one, whose edges have a row for each; or the only loss as it is."""
    first = losses[0]
    if len(losses) == 1:
        return first
    if first.family is None or any(loss.family is not first.family for loss in losses):
        raise ValueError("losses side by side must be of one family")
    columns = np.array([loss.parameters for loss in losses], dtype=np.float64).T[..., None]
    return of_family(first.family, *columns)


def from_atoms(losses: Floats, p: Floats, lattice: tuple[float, float] | None) -> PrivacyLoss:
    """Finitely many losses (increasing), each of mass p under P and p * exp(-loss) under Q."""
    q = p * np.exp(-losses)

    def masses(edges: Floats) -> Floats:
        cells = np.searchsorted(edges, losses, side="left")
        size = edges.size + 1
        return np.stack([np.bincount(cells, w, minlength=size).astype(float) for w in (p, q)])

    return PrivacyLoss(masses, lattice)


def normal_masses(z: Floats) -> Floats:
    """Mass of N(0, 1) below z_0, between neighbours and above z_{n-1}: (..., n + 1), z (..., n)."""
    beyond = np.zeros((*z.shape[:-1], z.shape[-1] + 2))
    beyond[..., 1:-1] = ndtr(-np.abs(z))  # beyond z, on z's own side
    upper = np.ones(beyond.shape, dtype=bool)
    upper[..., 0], upper[..., 1:-1] = False, z > 0
    left, right = beyond[..., :-1], beyond[..., 1:]
    straddling = ~upper[..., :-1] & upper[..., 1:]
    one_side = np.where(upper[..., 1:], left - right, right - left)
    return np.where(straddling, 1.0 - left - right, one_side)

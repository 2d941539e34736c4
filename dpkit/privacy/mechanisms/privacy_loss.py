"""The distribution of a mechanism's privacy loss, as cell masses: what a PLD accountant adds up."""

from collections.abc import Callable
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
    """

    masses: Callable[[Floats], Floats]
    lattice: tuple[float, float] | None = None
    attained: "PrivacyLoss | None" = None


def from_atoms(losses: Floats, p: Floats, lattice: tuple[float, float] | None) -> PrivacyLoss:
    """Finitely many losses (increasing), each of mass p under P and p * exp(-loss) under Q."""
    q = p * np.exp(-losses)

    def masses(edges: Floats) -> Floats:
        cells = np.searchsorted(edges, losses, side="left")
        size = edges.size + 1
        return np.stack([np.bincount(cells, w, minlength=size).astype(float) for w in (p, q)])

    return PrivacyLoss(masses, lattice)


def normal_masses(z: Floats) -> Floats:
    """Mass of N(0, 1) below z_0, between neighbours and above z_{n-1}: (n + 1,), z increasing."""
    tails = ndtr(-np.abs(z))  # beyond z, on z's own side
    beyond = np.concatenate([[0.0], tails, [0.0]])
    upper = np.concatenate([[False], z > 0, [True]])
    left, right = beyond[:-1], beyond[1:]
    straddling = ~upper[:-1] & upper[1:]
    return np.where(straddling, 1.0 - left - right, np.where(upper[1:], left - right, right - left))

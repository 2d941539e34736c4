"""Any mechanism on a Poisson sample of the records."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    UNIT,
    UNKNOWN,
    WHOLE_SUM,
    Adjacency,
    Floats,
    Mechanism,
    PrivacyLoss,
    as_epsilons,
    at_all,
    unknown,
)


@dataclass(frozen=True)
class PoissonSampled:
    """A mechanism on a sample that each record enters independently with chance sample_rate.

    With (P, Q) the mechanism's pair for a record removed, (1-q) Q + q P against Q dominates (Zhu,
    Dong, Wang 2022, Thm 11). For a Gaussian that is SampledGaussian, which knows more prices.

    Args:
        mechanism: of the sample, under add-remove.
        sample_rate: q, in (0, 1].

    Raises:
        ValueError: the mechanism is not under add-remove, not of one record or needs a public
            number of them, or sample_rate is not in (0, 1].
    """

    mechanism: Mechanism
    sample_rate: float
    adjacency: ClassVar[Adjacency] = "add-remove"
    hides_participation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.in_range(0, 1, sample_rate=checks.positive(sample_rate=self.sample_rate))
        own = self.mechanism
        whole = getattr(own, "adjacency", None) == "add-remove" and not isinstance(own, type)
        if not whole or hasattr(own, "group_size"):
            raise ValueError(
                f"mechanism must be of one record under add-remove, got {own!r}: no price of "
                "its sample is known here"
            )
        if not getattr(own, "hides_participation", False):
            raise ValueError(
                f"mechanism must hide how many records take part, got {own!r}: a sample has a "
                "random number of them"
            )

    @property
    def assumptions(self) -> tuple[str, ...]:
        drawn = "Poisson sampling: every record enters each sample independently"
        return (*self.mechanism.assumptions, drawn, WHOLE_SUM)

    @property
    def known_dp(self) -> tuple[float, float]:
        epsilon, delta = getattr(self.mechanism, "known_dp", UNKNOWN)
        return float(np.log1p(self.sample_rate * np.expm1(epsilon))), self.sample_rate * delta

    def profile(self, epsilons: ArrayLike) -> Floats:
        """`amplified`, and below 0 by the other direction."""
        q = self.sample_rate
        return at_all(as_epsilons(epsilons), lambda size: amplified(self.mechanism, size, q))

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of the mixture against Q, which grows with the mechanism's own."""
        q, own = self.sample_rate, self.mechanism.privacy_loss()
        if q == 1:
            return own

        def masses(edges: Floats, of: PrivacyLoss = own) -> Floats:
            above = edges[edges > np.log1p(-q)]
            p, other = of.masses(tilt(above, q))
            found = np.zeros((2, edges.size + 1))
            found[:, edges.size - above.size :] = (1 - q) * other + q * p, other
            return found

        blur = own.blur - 16 * UNIT * float(np.log(q))
        attained = own.attained and PrivacyLoss(
            lambda edges: masses(edges, own.attained or own), blur=blur
        )
        return PrivacyLoss(masses, attained=attained, blur=blur)

    rdp = unknown(
        "of a Poisson sample of an arbitrary mechanism no Renyi DP is known; use accountant pld"
    )
    gaussian_dp = unknown("no mu of a Poisson sample of an arbitrary mechanism is known")


def amplified(mechanism: Mechanism, eps: Floats, q: float) -> Floats:
    """The profile on a Poisson sample, at epsilons >= 0: q times the whole's at a larger epsilon.

    With R = (1-q) Q + q P: R - e^eps Q = q (P - c Q), c = 1 + (e^eps - 1) / q, and
    Q - e^eps R = (1 - e^eps (1 - q)) Q - e^eps q P (Balle, Barthe, Gaboardi 2018, Thm 2).
    """
    if q == 1:
        return mechanism.profile(eps)
    removed = q * mechanism.profile(tilt(eps, q))[0]
    back = np.where(eps < -np.log1p(-q), -tilt(-eps, q), np.inf)
    # 1 - e^eps (1 - q) = q e^(eps - back)
    added = q * np.exp(eps - back) * mechanism.profile(back)[1]
    return np.stack([removed, added])


def tilt(loss: Floats, q: float | Floats) -> Floats:
    """log((e^loss - 1 + q) / q): P's loss against Q where the mixture's is `loss` > log(1-q).

    So (1-q) Q + q P - e^loss Q = q (P - e^tilt Q).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near = np.expm1(np.minimum(loss, 30.0)) / q
        found = np.log1p(near)
        if (far := loss > 30).any():
            x, r = loss[far], np.full(loss.shape, q)[far]
            found[far] = x - np.log(r) + np.log1p((r - 1) * np.exp(-x))
        # close to the least loss, log(1-q), near is close to -1 and has lost its digits
        if (low := ~(near > -0.5)).any():
            x, r = loss[low], np.full(loss.shape, q)[low]
            found[low] = np.log((1 - r) / r * np.expm1(np.minimum(x - np.log1p(-r), 700.0)))
    return found

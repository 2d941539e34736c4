"""The trade-off curve that a privacy profile, delta as a function of epsilon, allows.

The trade-off curve f is the least type II error of
any test of "the record is absent" against "it is present" (or the reverse), as a function of its
type I error: f(alpha) = 1 - alpha shows nothing, f = 0 everything (Dong, Roth, Su 2022).
"""

import numpy as np
from numpy.typing import ArrayLike

from dpkit.privacy.mechanisms import Floats


def from_profile(epsilons: ArrayLike, deltas: ArrayLike, alphas: ArrayLike) -> Floats:
    """The least type II error that (epsilon, delta) pairs allow at each alpha: (alphas,).

    Of a ledger's profile (`pld.profile`) it is a lower bound on what any test has, either way; more
    epsilons, up to log(1 / the smallest alpha > 0), make the curve higher, never wrong.

    f(alpha) = max over the pairs of max(0, 1 - delta - e^epsilon alpha,
    e^-epsilon (1 - delta - alpha)) (Wasserman, Zhou 2010, Thm 2.4; Dong, Roth, Su 2022, Prop. 2.5).

    Raises:
        ValueError: epsilons and deltas are not lists of one length > 0, an epsilon is not >= 0, a
            delta or alpha not in [0, 1].
    """
    types_1 = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if types_1.ndim != 1 or not ((types_1 >= 0) & (types_1 <= 1)).all():
        raise ValueError(f"alphas must be a list of type I errors in [0, 1], got {alphas}")
    eps, delta = np.asarray(epsilons, dtype=np.float64), np.asarray(deltas, dtype=np.float64)
    if not (eps.shape == delta.shape and eps.ndim == 1 and eps.size):
        raise ValueError(
            f"epsilons and deltas must be lists of one length > 0, got {eps.shape}, {delta.shape}"
        )
    if not (eps >= 0).all():
        raise ValueError(f"epsilons must be numbers >= 0, got {eps[~(eps >= 0)][0]}")
    if not ((delta >= 0) & (delta <= 1)).all():
        raise ValueError(f"deltas must be numbers in [0, 1], got {deltas}")
    eps, left = eps[:, None], 1 - delta[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        steep = left - np.where(types_1 > 0, np.exp(eps) * types_1, 0.0)
    flat = np.exp(-eps) * (left - types_1)
    return np.maximum(0.0, np.maximum(steep, flat)).max(axis=0)

"""Basic and advanced composition, of each release's (epsilon, delta) alone.

Each release is first read off its exact profile at a share of delta; then the pairs are added up.
For comparison: accountants that keep the whole curve (`rdp`, `pld`) prove smaller epsilons.
"""

import math

import numpy as np

from dpkit.common import checks
from dpkit.privacy import numerics
from dpkit.privacy.ledger import Guarantee, Ledger, Releases
from dpkit.privacy.mechanisms import Floats, Mechanism
from dpkit.privacy.mechanisms.base import UNKNOWN

BASIC = "basic composition (Dwork, Roth 2014, Thm 3.16)"
ADVANCED = "advanced composition (Kairouz, Oh, Viswanath 2015, Thm 3.5)"
SLACKS = 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99  # of delta
LARGEST_EPSILON = 1e21  # a release that needs more counts as unbounded
ROUNDED_DOWN = 1 - 1e-12  # of shares, so that they add up to at most delta
ROUNDED_UP = 1 + 2.0**-51  # of delta: it and what is stated are decimals, each rounded


def basic(ledger: Releases, *, delta: float) -> Guarantee:
    """The sum of each release's epsilon at its share of `delta`.

    Releases of pure DP take no share; each of the others takes the same. At delta 0 pure DP alone
    has a finite epsilon, and no accountant proves less.

    Args:
        ledger: releases under one adjacency, whose mechanisms know their profile.
        delta: in [0, 1).

    Raises:
        ValueError: delta is not in [0, 1), a count is not an integer >= 0, or adjacencies are
            mixed.
        Unsupported: a mechanism's profile is not known.
    """
    ledger = Ledger.of(ledger)
    delta = checks.between(0, 1, delta=delta) if delta != 0 else 0.0
    epsilon, least = stated(ledger)
    if not least <= delta * ROUNDED_UP:
        epsilon = math.inf
    if delta > 0:
        epsilons, counts = _at(ledger, delta)
        epsilon = min(epsilon, float(counts @ epsilons))
    return ledger.guarantee(epsilon=epsilon, delta=delta, method=BASIC)


def advanced(ledger: Releases, *, delta: float) -> Guarantee:
    """The least epsilon of heterogeneous advanced composition, or that of `basic` where it is less.

    Pairs (e_i, d_i) and a slack s compose, at delta = 1 - (1 - s) prod(1 - d_i), to the lesser of
    the sum of all e_i and, L being the lesser of log(1 / s) and log(e + sqrt(sum e_i^2) / s),

        sum e_i tanh(e_i / 2) + sqrt(2 L sum e_i^2)

    (Kairouz, Oh, Viswanath 2015, Thm 3.5). The slack's share of delta is the best of ten, or all
    of it where each release is of pure DP. Arguments and errors as `basic`.
    """
    ledger, delta = Ledger.of(ledger), checks.between(0, 1, delta=delta)
    epsilons, counts = _at(ledger, delta)
    found, method = float(counts @ epsilons), BASIC
    log_kept = math.log1p(-delta)  # of 1 - delta = (1 - s) prod(1 - d_i)
    for share in (1.0,) if _pure(ledger).max(initial=0) < math.inf else SLACKS:
        slack = -math.expm1(share * log_kept) * ROUNDED_DOWN
        # prod(1 - d_i) >= 1 - sum d_i
        value = compose(*_at(ledger, -math.expm1((1 - share) * log_kept)), slack)
        if value < found:
            found, method = value, f"{ADVANCED}, slack {checks.short(share)} of delta"
    return ledger.guarantee(epsilon=found, delta=delta, method=method)


def stated(ledger: Ledger) -> tuple[float, float]:
    """The sums of releases' `known_dp`, epsilon and delta; (inf, 0) where one has none."""
    known = [(*getattr(one, "known_dp", UNKNOWN), n) for one, n in ledger.releases]
    return sum(n * e for e, _, n in known), sum(n * d for _, d, n in known)


def _pure(ledger: Ledger) -> Floats:
    """Each part's epsilon of pure DP, inf where it has none: (parts,)."""
    known = [getattr(one, "known_dp", UNKNOWN) for one, _ in ledger.releases]
    return np.array([e if d == 0 else math.inf for e, d in known])


def _least_epsilon(mechanism: Mechanism, delta: float) -> float:
    """The least epsilon with a delta <= `delta` both ways, from the private side."""

    def private(epsilon: float) -> bool:
        return bool((mechanism.profile([epsilon]) <= delta).all())  # NaN is not private

    return numerics.bracket(private, tolerance=1e-12, largest=LARGEST_EPSILON)[1]


def _at(ledger: Ledger, spent: float) -> tuple[Floats, Floats]:
    """Each part's epsilon where the deltas add up to `spent` or less, and its count."""
    epsilons, counts = _pure(ledger), np.array([float(n) for _, n in ledger.releases])
    others = np.flatnonzero(epsilons == math.inf)
    each = spent / max(counts[others].sum(), 1.0) * ROUNDED_DOWN
    for i in others if each > 0 else ():
        epsilons[i] = _least_epsilon(ledger.releases[i].mechanism, each)
    return epsilons, counts


def compose(epsilons: Floats, counts: Floats, slack: float) -> float:
    """Theorem 3.5's epsilon of `counts` releases at each of `epsilons`, shapes (n,), at a slack.

    Raises:
        ValueError: slack is not in (0, 1).
    """
    checks.between(0, 1, slack=slack)
    if not np.isfinite(epsilons).all():
        return math.inf
    squares = float(counts @ epsilons**2)
    log = min(-math.log(slack), math.log(math.e + math.sqrt(squares) / slack))
    spread = math.sqrt(2 * log * squares)
    return min(
        float(counts @ epsilons), float(counts @ (epsilons * np.tanh(epsilons / 2))) + spread
    )

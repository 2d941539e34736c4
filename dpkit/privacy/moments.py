"""The moments accountant as published (Abadi et al. 2016): integer orders, numerical integration.

The log moment of order lambda is alpha(lambda) = log E[exp(lambda * loss)], the larger of both
directions; lambda times the Renyi divergence of order lambda + 1. Releases add up, and

    delta = min over lambda of exp(alpha(lambda) - lambda * epsilon)      (Abadi et al. 2016, Thm 2)

The integral is taken over the privacy loss itself, cell by cell, so it knows no mechanism: inside a
cell the masses under both measures are known, the mass between is moved to the cell's two ends
with both kept (which bounds a moment from above) and to one point with both kept (Jensen's
inequality, from below); cells are split until the two bounds agree.
"""

from collections.abc import Callable

import numpy as np

from dpkit import checks
from dpkit.privacy.ledger import Guarantee, Ledger, adjacency_of, assumptions_of, checked
from dpkit.privacy.mechanisms import Floats, Mechanism

MOST_MOMENTS = 32  # "it suffices to compute lambda <= 32" (Abadi et al. 2016, section 3.2)
TOLERANCE = 1e-6  # relative, of a log moment
LOST_TOLERANCE = 1e-4  # the same, where the mass under the second measure has lost its digits
MOST_CELLS, MOST_ROUNDS = 400_000, 30
TINY = 1e-300  # masses below it have lost digits
LEAST = 5e-324  # the least positive number: a mass that vanished may be as large
FAR = 2.0**20  # nats; mass beyond it counts as infinite loss

Masses = Callable[[Floats], Floats]


def curve(ledger: Ledger, moments: int = MOST_MOMENTS) -> tuple[Floats, Floats]:
    """(lambdas, alpha): the ledger's log moments in nats at lambda = 1..moments, (moments,) each.

    Raises:
        ValueError: moments is not an integer >= 1, or the ledger is bad or mixes adjacencies.
        Unsupported: a mechanism does not know its privacy loss.
        ArithmeticError: a moment came out as NaN or negative.
    """
    checks.whole(1, moments=moments)
    adjacency_of(ledger)
    lambdas, total = np.arange(1.0, moments + 1), np.zeros(moments)
    counts: dict[Mechanism, int] = {}
    for mechanism, count in checked(ledger):
        counts[mechanism] = counts.get(mechanism, 0) + count
    for mechanism, count in counts.items():
        if count:  # 0 * inf is not a number
            total = total + count * log_moments(mechanism, moments)
    if not (total >= 0).all():
        raise ArithmeticError(f"the ledger's log moments are not numbers >= 0: {total}")
    return lambdas, total


def epsilon(
    ledger: Ledger,
    *,
    delta: float,
    moments: int = MOST_MOMENTS,
    assumptions: tuple[str, ...] = (),
) -> Guarantee:
    """The smallest epsilon that moments 1..moments prove at `delta` (Abadi et al. 2016, Thm 2).

    Args:
        ledger: releases under one adjacency, whose mechanisms know their privacy loss.
        delta: in (0, 1).
        moments: the largest order lambda; 32 as published.
        assumptions: further ones to state beside those of the mechanisms.

    Raises:
        ValueError: delta is not in (0, 1), or as `curve`.
    """
    checks.between(0, 1, delta=delta)
    lambdas, alpha = curve(ledger, moments)
    found = (alpha - np.log(delta)) / lambdas
    best = int(np.argmin(found))
    value = float(found[best]) if alpha.any() else 0.0  # 0: nothing depends on the data
    return _guarantee(ledger, value, delta, lambdas[best], assumptions)


def delta(
    ledger: Ledger,
    *,
    epsilon: float,
    moments: int = MOST_MOMENTS,
    assumptions: tuple[str, ...] = (),
) -> Guarantee:
    """The smallest delta that the moments prove at `epsilon` >= 0 (arguments as `epsilon`)."""
    checks.non_negative(epsilon=epsilon)
    lambdas, alpha = curve(ledger, moments)
    logs = alpha - lambdas * epsilon
    best = int(np.argmin(logs))
    value = max(float(np.exp(min(logs[best], 0.0))), LEAST) if alpha.any() else 0.0
    return _guarantee(ledger, epsilon, value, lambdas[best], assumptions)


def _guarantee(
    ledger: Ledger, epsilon: float, delta: float, order: float, assumptions: tuple[str, ...]
) -> Guarantee:
    method = f"moments accountant (Abadi et al. 2016, Thm 2), moment {order:.0f}"
    told = (*assumptions_of(ledger), *assumptions)
    return Guarantee(epsilon, 0.0, delta, adjacency_of(ledger), method, told)


def exceeded_at(
    ledger: Ledger,
    *,
    target_epsilon: float,
    target_delta: float,
    every: int = 1,
    moments: int = MOST_MOMENTS,
) -> int:
    """The first iteration, of those at multiples of `every`, whose delta is above the target.

    `ledger` is one iteration's. A training loop that tests its budget every so often stops there,
    at the first test that fails, so already beyond its budget.

    Raises:
        ValueError: bad input, or a ledger that costs nothing and so never exceeds a target.
    """
    checks.positive(target_epsilon=target_epsilon)
    checks.between(0, 1, target_delta=target_delta)
    checks.whole(1, every=every)
    lambdas, alpha = curve(ledger, moments)
    if not alpha.any():
        raise ValueError("the ledger costs nothing: no number of iterations exceeds the target")
    # exceeded when iterations * alpha(lambda) > lambda epsilon + log(delta) for every lambda
    allowed = (lambdas * target_epsilon + np.log(target_delta)) / alpha
    return every * (int(np.floor(max(allowed.max(), 0.0) / every)) + 1)


def log_moments(mechanism: Mechanism, moments: int = MOST_MOMENTS) -> Floats:
    """alpha(lambda) of one release at lambda = 1..moments, the larger direction: (moments,).

    An upper bound, at most 1e-6 of its value above the exact one; 1e-4 where only losses count so
    rare that the second measure's mass is lost, more where the tail beyond the last edge counts.
    Rounding adds some 1e-15 / loss (1e-6 where losses are 1e-9). That tail begins where the mass
    falls below 1e-300, and is bounded by its slope there, so it must be log-concave, continuous or
    on the loss's lattice. `inf` where losses are infinite, and where the slope does not outweigh
    lambda: for a Gaussian above some 37 noise multipliers, on a lattice of spacing s above 744 / s.

    Raises:
        Unsupported: the mechanism does not know its privacy loss.
    """
    checks.whole(1, moments=moments)
    masses, lattice = mechanism.privacy_loss()
    spacing = lattice[1] if lattice else 0.0

    def reverse(edges: Floats) -> Floats:  # the next number below keeps cells open on the left
        return masses(np.nextafter(-edges[::-1], -np.inf))[::-1, ::-1]

    above, below, lambdas = _reach(masses), _reach(reverse), np.arange(1.0, moments + 1)
    removed = _direction(masses, -below[1], above, spacing, lambdas)
    return np.maximum(removed, _direction(reverse, -above[1], below, spacing, lambdas))


def _tail(masses: Masses, loss: float) -> float:
    """The mass of larger losses under the first measure."""
    return float(masses(np.array([loss]))[0, -1])


def _reach(masses: Masses) -> tuple[float, float]:
    """Losses (low, high) within 0.1 % of each other, the tail > TINY at low and <= TINY at high."""
    if _tail(masses, 0.0) == 0:
        return 0.0, 0.0
    high = 1.0 if _tail(masses, 0.0) > TINY else FAR
    while high < FAR and _tail(masses, high) > TINY:
        high *= 2
    if high == FAR:
        return FAR, np.inf
    while high > TINY and _tail(masses, high / 2) <= TINY:
        high /= 2
    low = high / 2
    while high > low * 1.001:
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(masses, middle) > TINY else (low, middle)
    return low, high


def _direction(
    masses: Masses, low: float, above: tuple[float, float], spacing: float, lambdas: Floats
) -> Floats:
    """log E_P[exp(lambda * loss)] at each lambda, P in the row 0 of `masses`: (len(lambdas),).

    With Q in row 1 and A the moment, A - 1 = E_Q[exc(loss)] (see `_log_excess`): a sum of terms
    >= 0, so that a moment close to 1 keeps the digits of A - 1.
    """
    beyond = _beyond(masses, above, spacing, lambdas)
    if above[1] == np.inf:
        return beyond
    halves, upper, last = 2.0 ** -np.arange(40), beyond, np.inf
    edges = np.unique(np.concatenate([max(low, -FAR) * halves, [0.0], above[1] * halves]))
    for _ in range(MOST_ROUNDS):
        upper, errors = _bounds(edges, masses, lambdas + 1)
        errors[:, beyond > upper + np.log(TOLERANCE)] = 0.0  # the tail rules: no cell will help
        left, before = errors.sum(axis=0).max(), edges.size
        if left <= 1 or before > MOST_CELLS:
            break
        edges = _split(edges, errors)
        if 0.9 * last < left < 10 and edges.size < 1.01 * before:  # the rest is rounding
            break
        last = left
    return np.logaddexp(0.0, np.logaddexp(upper, beyond))


def _beyond(masses: Masses, above: tuple[float, float], spacing: float, lambdas: Floats) -> Floats:
    """log of a bound on E_P[exp(lambda * loss)] beyond the last edge, (len(lambdas),).

    A tail whose log is concave falls, beyond an edge, at least as fast as before it; on a lattice
    it does so in steps, up to one spacing late: tail(x) <= tail(high) exp(-slope (x - high - s)).
    """
    low, high = above
    if high in (0, np.inf):  # no loss is above 0, or some count as infinite
        return np.full_like(lambdas, np.inf if high else -np.inf)
    last = np.log(max(_tail(masses, high), LEAST))
    fall = np.log(_tail(masses, low)) - last
    slope = fall / (high - low + spacing) * (1 - 1e-6)  # its rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = last + lambdas * (high + spacing) + np.log(slope) - np.log(slope - lambdas)
    return np.where(slope > lambdas, bound, np.inf)


def _bounds(edges: Floats, masses: Masses, orders: Floats) -> tuple[Floats, Floats]:
    """log of A - 1 from above, (orders,), and the error of each cell, (cells, orders).

    The cells are the losses in (-inf, e_0], (e_0, e_1], ..., (e_{n-2}, e_{n-1}], 0 being an edge.
    The excess is convex in exp(loss): a cell's is at most its chord, so that of the mass moved to
    both ends, and at least that of the mass at the one loss that keeps both masses (Jensen). The
    error is the difference, in shares of what is allowed in all.
    """
    nodes = np.concatenate([[-np.inf], edges])
    left, right = nodes[:-1], edges
    p, q = masses(edges)[:, :-1]
    width, positive, lost = -np.expm1(left - right), left >= 0, q < TINY
    with np.errstate(all="ignore"):
        # the part of p that moves right, and of q that moves left
        p_right = np.where(lost, p, np.clip((p - q * np.exp(left)) / width, 0.0, p))
        q_left = np.where(p < TINY, q, np.clip((q - p * np.exp(-right)) / width, 0.0, q))
        # logs of masses under Q, in P's digits where the loss is positive and Q small
        to_left = np.where(positive, np.log(p - p_right) - left, np.log(q_left))
        to_right = np.where(positive, np.log(p_right) - right, np.log(q - q_left))
        middle = np.where(lost, left, np.log(p) - np.log(q))
        middle = np.clip(np.where(np.isnan(middle), left, middle), left, right)
        at_middle = np.where(positive, np.log(p) - middle, np.log(q))
    excess = _log_excess(nodes, orders)
    at_nodes = np.logaddexp(np.append(to_left, -np.inf), np.append(-np.inf, to_right))
    total = _log_sum(at_nodes[:, None] + excess)
    alpha = np.logaddexp(0.0, total)
    with np.errstate(all="ignore"):
        allowed = np.log(TOLERANCE) + alpha + np.log(alpha)  # alpha = log(A) moves by dA / A
        ends = np.exp(to_left[:, None] + excess[:-1] - allowed)
        ends += np.exp(to_right[:, None] + excess[1:] - allowed)
        inside = np.exp(at_middle[:, None] + _log_excess(middle, orders) - allowed)
        errors = np.nan_to_num(np.maximum(ends - inside, 0.0))
    errors[lost] *= TOLERANCE / LOST_TOLERANCE  # they fall with the cell's width only
    return total, errors


def _split(edges: Floats, errors: Floats) -> Floats:
    """The edges with each cell but the first, which is unbounded, cut into equal parts.

    The error of a cell falls with the square of its parts: the fewest parts for a total of 1 are
    in proportion to the error's cube root.
    """
    root = np.cbrt(errors)
    wanted = np.minimum(root.max(axis=1) * np.sqrt(root.sum(axis=0).max()), 32)[1:]
    parts = np.maximum(np.round(wanted), 1).astype(int)
    if (parts == 1).all():
        parts = np.ceil(np.maximum(wanted, 1)).astype(int)
    first = np.repeat(np.cumsum(parts) - parts, parts)
    share = (np.arange(parts.sum()) - first) / np.repeat(parts, parts)
    left, width = np.repeat(edges[:-1], parts), np.repeat(np.diff(edges), parts)
    return np.unique(np.append(left + share * width, edges[-1]))


def _log_excess(losses: Floats, orders: Floats) -> Floats:
    """log(exp(a l) - 1 - a (exp(l) - 1)), where the difference is >= 0: (losses, orders)."""
    tilt = losses[:, None] * orders
    loss, order = (np.broadcast_to(x, tilt.shape) for x in (losses[:, None], orders))
    large, small = tilt > 30, np.abs(tilt) < 0.1
    usual = ~(large | small)
    out = np.empty_like(tilt)
    with np.errstate(divide="ignore"):
        out[usual] = np.log(np.expm1(tilt[usual]) - order[usual] * np.expm1(loss[usual]))
        t, a = tilt[large], order[large]
        out[large] = t + np.log1p((a - 1) * np.exp(-t) - a * np.exp(loss[large] - t))
        t, a = tilt[small], order[small]
        series = np.zeros_like(t)
        for k in range(10, 1, -1):  # sum over k >= 2 of (1 - a^(1-k)) t^k / k!
            series = (series + (1 - a ** (1 - k))) * (t / k)
        out[small] = np.log(series * t)
    return out


def _log_sum(terms: Floats) -> Floats:
    """log of the sum of exp(terms) down the columns."""
    top = terms.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(terms - top).sum(axis=0))

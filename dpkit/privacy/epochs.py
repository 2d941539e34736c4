"""What epochs of balls-and-bins batches cost, by the better of two proofs."""

from dpkit.privacy.accountants import pld
from dpkit.privacy.ledger import Guarantee, Ledger, Release
from dpkit.privacy.mechanisms.balls_and_bins import BallsAndBinsGaussian
from dpkit.privacy.mechanisms.sampled_gaussian import SampledGaussian


def epsilon(epoch: BallsAndBinsGaussian, *, epochs: int, delta: float) -> Guarantee:
    """The epsilon of `epochs` epochs, as a proven pair, never above that of one batch an epoch.

    A record enters one batch of an epoch at most, so that an epoch costs no more than that batch.
    This is the smaller price where rounding hides the other: at a tiny delta or little noise.

    Raises:
        ValueError: epochs is not an integer >= 0, or delta is not in (0, 1).
    """
    ledger = Ledger.of([Release(epoch, epochs)])
    found = pld.epsilon(ledger, delta=delta)
    one = SampledGaussian(epoch.noise_multiplier, epoch.share)
    other = pld.epsilon([Release(one, epochs)], delta=delta)
    if not other.epsilon < found.epsilon:
        return found
    method = f"one batch an epoch: {other.method}"
    return ledger.guarantee(epsilon=other.epsilon, delta=delta, lower=found.lower, method=method)

"""The published code's budget: how much noise, and how long a run it then allows (Table 7)."""

from functools import cache
from math import log, sqrt

from dpkit.common import checks
from dpkit.privacy import moments as accountant
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import Mechanism

BUDGET_DELTA = 1e-4  # of the one release that the noise formula is about
EVERY = 10  # iterations from one test of the budget to the next
# data set -> iterations before and after grouping, as printed
TABLE_7: dict[str, tuple[int, int]] = {
    "mnist": (560, 780),
    "celeba": (2910, 4070),
    "lsun-l": (15010, 19300),
    "lsun-u": (24630, 31670),
}


def noise_from_budget(epsilon: float, *, delta: float = BUDGET_DELTA) -> float:
    """The noise multiplier of the scripts: sqrt(2 ln(1.25 / delta)) / epsilon.

    Dwork, Roth 2014, Theorem A.1, which proves (epsilon, delta)-DP of one release for epsilon < 1.
    """
    checks.positive(epsilon=epsilon)
    checks.between(0, 1, delta=delta)
    return sqrt(2 * log(1.25 / delta)) / epsilon


@cache
def iterations(
    charged: Mechanism, *, times: int, target_epsilon: float, target_delta: float, moments: int
) -> int:
    """The iteration at which the code's loop ends and prints its number.

    The moments accountant adds up what is charged; every tenth iteration, delta at the target
    epsilon is compared with the target delta, and the first test that finds it above ends the run.
    (The code counts from 0, so it has then made one iteration more than it prints. No cell of the
    table hinges on that one.)

    Args:
        charged: one charge, as the code has it: noise z, sample rate batch / private records.
        times: charges an iteration: critic steps times groups.
        target_epsilon: in nats.
        target_delta: in (0, 1).
        moments: the largest moment; all integers from 1 are used.

    Raises:
        ValueError: as `dpkit.privacy.accountants.moments.exceeded_at`.
    """
    return accountant.exceeded_at(
        [Release(charged, times)],
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        every=EVERY,
        moments=moments,
    )

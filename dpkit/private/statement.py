"""The sentences that a paper should carry about a private run."""

from dpkit import __version__
from dpkit.privacy.ledger import Guarantee
from dpkit.private.plan import Plan

SEEDED = (
    "Noise was drawn from a fixed seed: reproducible by anyone who knows it; not for publication "
    "of private data."
)


def statement(plan: Plan, *, done: int, unit: str) -> str:
    """Epsilon, delta, adjacency, unit, method and sampling, and what else is assumed.

    Args:
        plan: of the run. Its price holds wherever the run was stopped, also where what was seen
            decided when; that of the steps done would not.
        done: steps that were charged.
        unit: of privacy: what one record is.
    """
    parts = [_sentence(plan, plan.guarantee(), unit)]
    if done < plan.steps:
        parts.append(f"{done} of these steps ran; the price is that of all that were planned.")
    if not plan.declared:
        parts.append(f"The number of records, {plan.public_size}, is taken as public.")
    if plan.seeded:
        parts.append(SEEDED)
    return " ".join(parts)


def _sentence(plan: Plan, guarantee: Guarantee, unit: str) -> str:
    (release,) = plan.ledger()
    return (
        f"Training satisfies ({guarantee.epsilon:.4f}, {guarantee.delta:g})-differential privacy "
        f"under {guarantee.adjacency} adjacency, the unit of privacy being {unit}: "
        f"{release.count} steps with noise multiplier {plan.noise_multiplier:g} and sample rate "
        f"{plan.batch_size / plan.public_size:g}, accounted by dpkit {__version__} "
        f"({guarantee.method}). Sampling assumed: Poisson; sampling used: Poisson. "
        "Tuning of hyperparameters: not charged."
    )

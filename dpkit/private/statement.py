"""The sentences that a paper should carry about a private run."""

from dpkit.privacy.statement import statement as sentence
from dpkit.private.plan import Plan

SEEDED = (
    "Noise was drawn from a fixed seed: reproducible by anyone who knows it; not for publication "
    "of private data."
)


def counted(records: int) -> str:
    """What is assumed of a number of records that nobody declared."""
    return f"the number of records, {records}, is public"


def statement(plan: Plan, *, done: int, unit: str) -> str:
    """Epsilon, delta, adjacency, unit, method and sampling, and what else is assumed.

    Args:
        plan: of the run. Its price holds wherever the run was stopped, also where what was seen
            decided when; that of the steps done would not.
        done: steps that were charged.
        unit: of privacy: what one record is.
    """
    assume = () if plan.declared else (f"the number of records, {plan.public_size}, is public",)
    parts = [
        sentence(plan.guarantee(), plan.ledger(), unit=unit, sampling="Poisson", assume=assume)
    ]
    if done < plan.steps:
        parts.append(f"{done} of these steps ran; the price is that of all that were planned.")
    if plan.seeded:
        parts.append(SEEDED)
    return " ".join(parts)

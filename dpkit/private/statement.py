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


def statement(plan: Plan, *, done: int, unit: str, classes: int | None = None) -> str:
    """Epsilon, delta, adjacency, unit, method and sampling, and what else is assumed.

    Args:
        plan: of the run. Its price holds wherever the run was stopped, also where what was seen
            decided when; that of the steps done would not.
        done: steps that were charged.
        unit: of privacy: what one record is.
        classes: number of labels, which is taken as public; None without labels.
    """
    assume = [] if plan.declared else [counted(plan.public_size)]
    if classes is not None:
        assume.append(f"the number of classes, {classes}, is public")
    parts = [
        sentence(plan.guarantee(), plan.ledger(), unit=unit, sampling="Poisson", assume=assume)
    ]
    if not done:
        parts.append("No step was made yet; the price is that of all that are planned.")
    elif done < plan.steps:
        parts.append(f"{done} of these steps ran; the price is that of all that were planned.")
    if plan.seeded:
        parts.append(SEEDED)
    return " ".join(parts)

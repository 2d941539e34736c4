"""The sentences that a paper should carry about a private run."""

from collections.abc import Sequence

from dpkit.privacy.statement import statement as sentence
from dpkit.private.plan import Plan

ALL_RECORDS = "none (all records)"  # are in the release
SEEDED = (
    "Noise was drawn from a fixed seed: reproducible by anyone who knows it; not for publication "
    "of private data."
)


def counted(records: int) -> str:
    """What is assumed of a number of records that nobody declared."""
    return f"the number of records, {records}, is public"


INDEPENDENT = (
    "initial weights, buffers, transform and settings (learning rates too, as training goes on) do "
    "not depend on the records; neither the preparation of a record, nor its loss or the fake "
    "beside it, depends on another record"
)


def ended(plan: Plan, done: int, *, is_public: bool) -> str:
    """The sentence on where a loop of the user's own ended: the same wherever it did.

    That not all steps ran, and how many did, may tell of records: it is said only where the user
    states that released values decided it.
    """
    if not done:
        return "No step was made yet; the price is that of all that are planned."
    if is_public:
        return (
            f"Released values or public numbers alone ended training after {done} of "
            f"{plan.steps} steps; the price is that of all."
        )
    return (
        "The price is that of all planned steps. It covers training that ended before them where "
        "released values or public numbers alone decided that, not where records, or losses that "
        "were not released, did."
    )


def statement(
    plan: Plan,
    *,
    unit: str,
    classes: int | None = None,
    ended: str = "",
    assume: Sequence[str] = (),
) -> str:
    """Epsilon, delta, adjacency, unit, method and sampling, and what else is assumed.

    Args:
        plan: of the run, whose price is stated.
        unit: of privacy: what one record is.
        classes: number of labels, which is taken as public; None without labels.
        ended: a sentence on where the run ended, if it may end early (see `ended`).
        assume: what else is assumed: a phrase each.
    """
    assumed = [INDEPENDENT, *assume]
    if not plan.declared:
        assumed.append(counted(plan.public_size))
    if classes is not None:
        assumed.append(f"the number of classes, {classes}, is public")
    sampling = "Poisson"
    if plan.scaling_noise is not None:
        sampling = f"{ALL_RECORDS} and Poisson"
        assumed.append("the bounds low and high of the features are public")
    words = sentence(plan.guarantee(), plan.ledger(), unit=unit, sampling=sampling, assume=assumed)
    return " ".join(part for part in (words, ended, SEEDED if plan.seeded else "") if part)

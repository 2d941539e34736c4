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
    "not depend on the records"
)


def statement(
    plan: Plan,
    *,
    done: int,
    unit: str,
    classes: int | None = None,
    stop_is_public: bool = False,
    assume: Sequence[str] = (),
) -> str:
    """Epsilon, delta, adjacency, unit, method and sampling, and what else is assumed.

    Args:
        plan: of the run. Its price covers a run that released values, or public numbers, stopped
            earlier; that of the steps done would not, nor does either cover a stop that records or
            unreleased losses decided.
        done: steps that were charged.
        unit: of privacy: what one record is.
        classes: number of labels, which is taken as public; None without labels.
        stop_is_public: whether how many steps were done may be said.
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
    parts = [
        sentence(plan.guarantee(), plan.ledger(), unit=unit, sampling=sampling, assume=assumed)
    ]
    if not done:
        parts.append("No step was made yet; the price is that of all that are planned.")
    elif done < plan.steps:
        parts.append(
            f"Released values or public numbers alone ended training after {done} of these steps; "
            "the price is that of all that were planned."
            if stop_is_public
            else "Training may have ended before all of these steps were made; the price covers "
            "that where released values or public numbers alone decided it, not where records, or "
            "losses that were not released, did."
        )
    if plan.seeded:
        parts.append(SEEDED)
    return " ".join(parts)

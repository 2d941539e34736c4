"""What the paper's tables, remarks and settings say of epsilons, losses and iterations."""

import math
from functools import partial

from dpkit.claims import Claim, Kind
from dpkit.papers.rdp_gan import accounting, recomputed
from dpkit.papers.rdp_gan.recomputed import ADULT, MNIST, TABLE_2, TOTAL, Column, Decay
from dpkit.papers.rdp_gan.settings import DELTA, GENERATOR_STEPS, SIGMA

PAPER = "rdp_gan"
one = partial(Claim, paper=PAPER)
STEP = accounting.theorem_1(
    2, sample_rate=ADULT.setting["sample_rate"], sensitivity=ADULT.sensitivity, noise_std=SIGMA
)
TEXT_TOTAL = {
    column.data: accounting.theorem_4(
        generator_steps=GENERATOR_STEPS, noise_std=SIGMA, **column.setting
    )
    for column in (ADULT, MNIST)
}
SIX = accounting.theorem_4(6, generator_steps=GENERATOR_STEPS, noise_std=SIGMA, **ADULT.setting)
NEEDED = accounting.noise_for(TOTAL, generator_steps=GENERATOR_STEPS, **ADULT.setting)


def sensitivity_claim(column: Column) -> Claim:
    """One printed C / |X| of Table II."""
    return one(
        id=f"{PAPER}/table-2-{column.data.lower()}-{column.batch}",
        where="text: Table II, its last two rows; eq. 13",
        says=f"With C {column.largest_loss:g} and batches of {column.batch}, the sensitivity "
        f"C / |X| on {column.data} is {column.printed}.",
        stated=column.printed,
        kind="equals",
        tolerance=1e-4,  # a unit of the last digit: some are cut off, not rounded
        compute=lambda: column.sensitivity,
        explanation=f"Eq. 13 gives {column.largest_loss:g} / {column.batch}; {column.note}.",
    )


def iterations_claim(
    name: str, column: Column, said: str, printed: int, kind: Kind, **fields: object
) -> Claim:
    """A number of iterations of Table IV (MNIST) or V (Adult)."""
    table, number = ("IV", 4) if column is MNIST else ("V", 5)
    return one(
        id=f"{PAPER}/table-{number}-{name}",
        where=f"text: Table {table}; section V-E, Theorem 4",
        says=f"{said} {printed} iterations on {column.data}, from noise 10 on.",
        stated=float(printed),
        kind=kind,
        **fields,  # type: ignore[arg-type]
    )


def decay_claim(table: tuple[Decay, ...], index: int, column: Column) -> Claim:
    """What a noise schedule affords."""
    decay = table[index]
    costs = [recomputed.cost(other) for other in table]
    same = recomputed.cost(decay)
    return iterations_claim(
        f"{decay.name}-iterations", column,
        f"Within a total epsilon of 0.5, the schedule {decay.name} affords", decay.printed,
        "equals", tolerance=1.0,
        compute=partial(recomputed.scheduled_iterations, decay.schedule, column),
        curve=partial(recomputed.iterations_by_noise, decay),
        explanation="Computed by Theorem 4 at order 2, eq. 13's sensitivity and batch 64. Whatever "
        f"these are, the {decay.printed} iterations cost {same:.3g} times the first one, and the "
        f"three schedules' printed iterations from {min(costs):.3g} to {max(costs):.3g} times: one "
        "budget cannot end all three, if t counts iterations from 0 (and Step lowers the noise at "
        "every 100th).",
    )  # fmt: skip


def tuning_claim(column: Column, factor: float, printed: int) -> Claim:
    """What the rule of eq. 17 affords at best."""
    return iterations_claim(
        "ant-iterations", column,
        f"Within a total epsilon of 0.5, the tuned noise (k {factor}, threshold 0.5) affords",
        printed, "at least", compute=partial(recomputed.most_tuned_iterations, column, factor),
        explanation="Eq. 17 keeps the noise only after a rise of the accuracy by the threshold, "
        "which within [0, 1] happens at most twice before a fall: counted is the best case, by "
        "Theorem 4 at order 2. Against the mean of eq. 18 it is fewer; a threshold of half a per "
        "cent, if that is meant, allows many more.",
    )  # fmt: skip


TABLES = (
    *(sensitivity_claim(column) for column in TABLE_2),
    one(
        id=f"{PAPER}/sigma-10-is-0.5",
        where="text: section V-E, first paragraph",
        says="A total epsilon of 0.5 over 1,000 iterations means noise 10.",
        stated=TOTAL,
        kind="equals",
        tolerance=0.05,
        compute=lambda: TEXT_TOTAL["Adult"],
        explanation="Theorems 1 to 4 at noise 10 (Adult, batch 64, C 20, n_d 5, order 2) give "
        f"this; 0.5 needs noise {NEEDED:.3g} only. No order is named: order 6 gives {SIX:.3f}, and "
        "exactly 0.5 comes out at order 6.27 or 1.19. "
        f"On MNIST (C 25) order 2 gives {TEXT_TOTAL['MNIST']:.3f}.",
    ),
    one(
        id=f"{PAPER}/loss-values-at-sigma-10",
        where="text: sections V-A3 and V-E, Theorem 4",
        says="The noisy loss values of 1,000 iterations at noise 10 cost 0.5 in total (noise on "
        "the mean of a batch, as eq. 13 has it).",
        stated=TOTAL,
        kind="at most",
        compute=lambda: recomputed.bounds_on_adult(GENERATOR_STEPS).epsilon,
        explanation="5,000 Poisson-sampled Gaussian releases (Adult, batch 64), if C 20 bounded "
        "every loss and nothing but the noisy values were released: a certified upper bound. "
        "Summing epsilons by the iteration is loose enough to make up for Theorem 2. The updates, "
        "however, do not pass through these values.",
    ),
    one(
        id=f"{PAPER}/summed-loss-values-at-sigma-10",
        where="text: eq. 8 and Algorithm 1, line 9, against eq. 13",
        says="The same, with the noise on the sum of a batch's losses, as eq. 8 writes it.",
        stated=TOTAL,
        kind="at most",
        compute=lambda: recomputed.bounds_on_sums(GENERATOR_STEPS).lower,
        explanation="A sum of losses up to C 20 moves by 20, not by 20/64, so that noise 10 is a "
        "noise multiplier of 0.5: computed is a proven lower bound. The text has both forms; if "
        "eq. 8's sum is a misprint for the mean, the claim above applies.",
    ),
    one(
        id=f"{PAPER}/remark-3",
        where="text: Remark 3",
        says="With delta 1e-5 and epsilon 1, Theorem 2's condition gives n <= 11.5.",
        stated=11.5,
        kind="equals",
        tolerance=0.05,
        compute=partial(accounting.most_steps, 1.0, delta=DELTA),
        explanation="log(1e5) / 1^2. The epsilon of the condition is the Renyi epsilon of one "
        "discriminator step, though, and n counts such steps.",
    ),
    one(
        id=f"{PAPER}/remark-3-condition",
        where="text: Remark 3",
        says="Runs of more than 1,000 iterations cannot meet Theorem 2's condition, so that "
        "epsilons are summed.",
        stated=float(GENERATOR_STEPS),
        kind="at most",
        compute=partial(accounting.most_steps, STEP, delta=DELTA),
        explanation=f"At noise 10 (Adult, batch 64, order 2) a step's Renyi epsilon is {STEP:.3g}, "
        "not the 1 that the remark takes as its premise: the condition holds for this many steps.",
    ),
    one(
        id=f"{PAPER}/cross-entropy-bounded",
        where="text: sections III-C1 and V-A2",
        says="A sigmoid as the last layer bounds the cross-entropy by a C that can be measured.",
        stated=None,
        kind="in words",
        believed=math.isfinite,
        compute=recomputed.largest_cross_entropy,
        explanation="A sigmoid's cross-entropy is log(1 + e^x) of the logit x, which grows without "
        "end; the largest loss seen in training depends on the private records. (torch's BCELoss "
        "happens to cut losses off at 100.)",
    ),
    one(
        id=f"{PAPER}/adaptive-reads-test-data",
        where="text: Algorithm 2, line 15; eqs. 17 and 18",
        says="Tuning the noise by the accuracy on a validation set adds nothing to the total.",
        stated=TOTAL,
        kind="at most",
        compute=recomputed.tuning_epsilon,
        explanation="Run on two validation sets of 10,000 records that differ in one (5,000 or "
        "4,999 right answers at the first test), the rule gives other noise scales with "
        "certainty: no finite epsilon covers those records. Noisy counts, charged, repair it.",
    ),
    *(decay_claim(recomputed.TABLE_4, index, MNIST) for index in range(3)),
    tuning_claim(MNIST, 0.8, 868),
    *(decay_claim(recomputed.TABLE_5, index, ADULT) for index in range(3)),
    tuning_claim(ADULT, 0.7, 845),
)

"""Table 1 and what the text concludes from it, beside the stored runs."""

import math
from functools import cache, partial

import numpy as np
from scipy.special import stdtrit

from dpkit.papers.claims import Claim, Code
from dpkit.papers.dp_cgan.tables import CLASSIFIERS, PRINTED, TITLES
from dpkit.papers.experiments import store
from dpkit.papers.experiments.store import values

PAPER = "dp_cgan"
COLUMNS = {"cgan": "cgan", "published": "dp-cgan", "basic_dp": "basic-dp"}  # with seeds -> in ids
BY_EPSILON = "They were trained for as many steps as the code's charge of 9.6 allows."
LENGTHS = {
    "cgan": "They were trained for 10,000 steps; the text does not say for how many.",
    "published": BY_EPSILON,
    "basic_dp": BY_EPSILON,
}
NAMES = {"lr": "Logistic regression", "mlp": "An MLP"}


@cache
def aurocs(column: str, classifier: str) -> tuple[float, ...]:
    """Of the stored seeds, in per cent, tested as the paper's code does."""
    parts = values(store.load(PAPER, "table_1"), column, classifier)
    return tuple(100 * one["auroc_255"] for one in parts)


def nearest(column: str, classifier: str) -> float:
    """The value within the range of the seeds that is nearest to the printed one."""
    found = aurocs(column, classifier)
    return min(max(PRINTED[column][classifier], min(found)), max(found))


def next_seed(column: str, classifier: str, *, coverage: float = 0.95) -> tuple[float, float]:
    """Ends of Student's interval for the value of one more seed."""
    found = np.array(aurocs(column, classifier))
    n = len(found)
    half = float(stdtrit(n - 1, (1 + coverage) / 2)) * found.std(ddof=1) * math.sqrt(1 + 1 / n)
    return float(found.mean() - half), float(found.mean() + half)


def advantage(classifier: str, *, coverage: float = 0.95) -> tuple[float, float, float]:
    """Mean AUROC of DP-CGAN less that of basic DP, and the ends of Welch's interval, in points."""
    ours, other = (np.array(aurocs(column, classifier)) for column in ("published", "basic_dp"))
    parts = [found.var(ddof=1) / len(found) for found in (ours, other)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(ours) - 1) + parts[1] ** 2 / (len(other) - 1))
    half = float(stdtrit(freedom, (1 + coverage) / 2)) * math.sqrt(sum(parts))
    mean = float(ours.mean() - other.mean())
    return mean, mean - half, mean + half


def below_real(classifier: str) -> float:
    """Printed AUROC on real data less that of DP-CGAN, in points."""
    return PRINTED["real"][classifier] - PRINTED["published"][classifier]


def counts_epsilon() -> float:
    """Of publishing how many records each class has, for two data sets that differ in a record.

    They are published as they are, so the event "the first set's counts" has probabilities 1 and 0.
    """
    labels = np.array([0, 1, 1, 2])
    counts = [np.bincount(given, minlength=10).tolist() for given in (labels, labels[:-1])]
    return 0.0 if counts[0] == counts[1] else math.inf


def cell(column: str, classifier: str) -> Claim:
    """A printed cell of Table 1 against the range of the stored seeds.

    The text ends private training by its epsilon, and does not say when that of the CGAN ends.
    """
    found, (low, high) = aurocs(column, classifier), next_seed(column, classifier)
    return Claim(
        id=f"{PAPER}/table-1-{COLUMNS[column]}-{classifier}",
        where=f"text: Table 1, {TITLES[column]}",
        says=f"{NAMES[classifier]} trained on its samples reaches an AUROC of "
        f"{PRINTED[column][classifier]:.2f} %.",
        kind="unchecked",
        stated=PRINTED[column][classifier],
        compute=partial(nearest, column, classifier),
        explanation=f"Computed is what comes nearest in the range of {len(found)} stored seeds, "
        f"{min(found):.1f} to {max(found):.1f} (by the paper's protocol). They do not decide: a "
        f"fourth would lie between {low:.0f} and {min(high, 100.0):.0f} (95 %, if normal). "
        f"{LENGTHS[column]}",
    )


ADVANTAGES = {name: advantage(name) for name in CLASSIFIERS}

TABLE_1 = (
    *(cell(column, classifier) for column in COLUMNS for classifier in CLASSIFIERS),
    Claim(
        id=f"{PAPER}/beats-basic-dp",
        where="text: section 5, on Table 1; abstract",
        says="At the same epsilon, DP-CGAN trains better classifiers than a CGAN with basic DP "
        "(87.57 against 83.42 and 88.16 against 83.29).",
        kind="unchecked",
        compute=lambda: min(found[0] for found in ADVANTAGES.values()),
        explanation="Three stored seeds of each lean that way and do not decide: the difference is "
        + " and ".join(
            f"{mean:+.1f} points ({low:+.0f} to {high:+.0f}) for {name.upper()}"
            for name, (mean, low, high) in ADVANTAGES.items()
        )
        + ", with Welch's 95 % intervals. The two differ in the learning rate as well, and no "
        "finite epsilon covers either. Computed is the smaller difference.",
    ),
    Claim(
        id=f"{PAPER}/about-5-per-cent",
        where="text: section 5, on Table 1",
        says="Classifiers trained on DP-CGAN's samples are about 5 % below those trained on real "
        "data.",
        kind="equals",
        stated=5.0,
        tolerance=1.0,
        compute=lambda: max(map(below_real, CLASSIFIERS)),
        explanation=f"Of the printed cells: {below_real('lr'):.2f} points for logistic regression, "
        f"and {below_real('mlp'):.2f} for the MLP (computed: the larger). It is true of one "
        "classifier of the two.",
    ),
    Claim(
        id=f"{PAPER}/class-counts-released",
        where="text: section 5, the evaluation; code: generation from the training labels",
        says="Samples with the labels of the training data are covered by epsilon 9.6.",
        kind="at most",
        stated=9.6,
        compute=counts_epsilon,
        explanation="Each class then has as many samples as it has records, exactly. A record more "
        "is a sample more, with certainty, so that no finite epsilon covers it. Classes of equal "
        "size, or noisy counts, repair it.",
        code=Code(was="labels = train.labels", should="labels = arange(n) % 10", cause="uncharged"),
    ),
)

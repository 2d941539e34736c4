"""The paper's tables from stored runs, beside their printed cells."""

from collections.abc import Mapping
from functools import partial
from itertools import product
from math import log2
from typing import Any

from dpkit.papers.dpgan.variants import ARMS, CONFIGURATIONS, Configuration
from dpkit.papers.experiments.store import (
    Rows,
    Shown,
    Stored,
    joined,
    lead,
    mean,
    spread,
    values,
)

# The text's surviving numbers: cells of Tables 2, 4 and 8 to 10 are lost, but for those that
# sentences repeat.
PRINTED: dict[str, dict[Any, Any]] = {
    # setting, thousands of labels -> accuracy; "" is the supervised baseline. Table 5, LSUN-L
    "table_5": {
        "": {5: 0.538, 15: 0.650, 25: 0.665, 50: 0.733},
        "gan": {5: 0.615, 15: 0.661, 25: 0.699, 50: 0.755},
        "dpgan": {5: 0.571, 15: 0.669, 25: 0.695, 50: 0.737},
    },
    # setting -> labels -> accuracy. Table 6, MNIST (LSUN's rows are Table 5's)
    "table_6": {
        "": {100: 0.720, 200: 0.824, 300: 0.874, 500: 0.909, 1_000: 0.934},
        "gan": {100: 0.567, 200: 0.802, 300: 0.824, 500: 0.895, 1_000: 0.923},
        "dpgan": {100: 0.569, 200: 0.747, 300: 0.835, 500: 0.884, 1_000: 0.903},
    },
    # section 5.4: the score without any optimisation, and with several; shown at the row of most
    # marks, as the text does not name one ("all", the code's last script, is none of the table's)
    "table_9": {"none": 6.59, "grouping-adaptive-warm": 8.64},
    # section 5.3, Table 4, LSUN-U: JS scores; which of them is whose, is lost
    "table_4": {"gan": 0.25, "dpgan": 0.29},
    # section 5.3, Table 2, MNIST: real images' inception score minus dpGAN's is less than this
    "table_2": {"real minus dpgan": 1.32},
}


def gains(table: str, setting: str) -> list[float]:
    """Accuracy of the semi-supervised classifier minus that of the supervised one, by labels."""
    alone = PRINTED[table][""]
    return [accuracy - alone[labels] for labels, accuracy in PRINTED[table][setting].items()]


def ahead(table: str) -> int:
    """Cells of a table, of GAN and dpGAN, in which the semi-supervised classifier is better."""
    return sum(gain > 0 for setting in ("gan", "dpgan") for gain in gains(table, setting))


LABELS = tuple(PRINTED["table_6"][""])  # of Table 6, MNIST
MOST = 1.5 - 0.75 * log2(3)  # 0.3113 bits: the JS score of a discriminator that is sure
TITLES = {
    "real": "Real images",
    "gan": "GAN",
    "public": "GAN of the public images alone",
    "all-published": "dpGAN, as published",
    "all-matched": "dpGAN repaired, at the epsilon that the published run costs if Poisson",
    "all-repaired": "dpGAN repaired, at the epsilon that is claimed",
}
ONE_CLIP = "one-clip", Configuration("one", False, False)  # `variants.others`
OTHERS = (
    (ONE_CLIP, "on-sum"),
    (ONE_CLIP, "on-examples"),
    (("all", CONFIGURATIONS["all"]), "snapshot"),
)
SHARE = 0.2  # p in both tables of classifiers


def table_2(stored: Stored, *, score: str = "inception") -> Rows:
    """Rows of Table 2 on MNIST: a score's mean and range over seeds; one run's epsilons (`_row`).

    Args:
        stored: parts by name, from `experiments.store.load("dpgan", "table_2")`.
        score: one of the stored scores, such as "inception" or "js" (Table 4, of MNIST taken as
            unlabelled: the paper's are of CelebA and LSUN-U).
    """
    real = [stored["real"]["values"]] if "real" in stored else []
    return [
        {"setting": title, **_row(real if key == "real" else values(stored, key), score)}
        for key, title in TITLES.items()
    ]


def table_5() -> Rows:
    """Rows of Table 5, LSUN-L, as printed. The kit has no LSUN: nothing is measured."""
    printed = PRINTED["table_5"]
    return [
        {
            "setting": setting,
            "labels": 1_000 * thousands,
            "share": SHARE,
            "paper, supervised": printed[""][thousands],
            "paper, semi-supervised": accuracy,
        }
        for setting in ("gan", "dpgan")
        for thousands, accuracy in printed[setting].items()
    ]


def table_6(stored: Stored) -> Rows:
    """Rows of Table 6, MNIST: accuracy of the supervised and the semi-supervised classifier.

    Args:
        stored: parts by name, from `experiments.store.load("dpgan", "table_6")`.
    """
    printed = PRINTED["table_6"]
    return [
        {
            "setting": title,
            "labels": labels,
            "share": SHARE,
            "paper, supervised": printed[""][labels],
            "paper": printed["gan" if key == "gan" else "dpgan"][labels],
            "supervised": mean(one["accuracy"] for one in alone),
            **_row(values(stored, f"{key}-n{labels}"), "accuracy"),
        }
        for key, title in TITLES.items()
        if key not in ("real", "public")
        for labels in LABELS
        for alone in (values(stored, f"supervised-n{labels}"),)
    ]


def table_9(stored: Stored, *, score: str = "inception") -> Rows:
    """Rows of Table 9: each configuration in each arm, with one run's epsilons (`_row`).

    Args:
        stored: parts by name, of "table_9" and, for the last configuration, "table_2".
        score: one of the stored scores; "js" is Table 10, of MNIST taken as unlabelled.
    """
    printed = PRINTED["table_9"] if score == "inception" else {}
    runs = [*product(CONFIGURATIONS.items(), ARMS), *OTHERS]
    return [
        {
            "configuration": name,
            **chosen._asdict(),
            "arm": arm,
            "paper": printed.get(name),
            **_row(values(stored, f"{name}-{arm}"), score),
        }
        for (name, chosen), arm in runs
    ]


def leads(stored: Stored) -> Rows:
    """The lead in inception score of all optimisations, as published, over four other runs.

    Keys: over, and those of `store.lead`. Parts are those of `table_9`.
    """
    scores = {
        key: [one["inception"] for one in values(stored, key)]
        for key in ("all-published", "none-published", "all-matched", "public", "gan")
    }
    ours = scores.pop("all-published")
    names = {**TITLES, "none-published": "dpGAN without optimisations, as published"}
    return [{"over": names[key], **lead(ours, own)} for key, own in scores.items()]


def _row(runs: list[Mapping[str, Any]], score: str) -> dict[str, Any]:
    """Mean and range of one score, and the epsilons, which all seeds share; delta is 1e-5.

    `epsilon if Poisson` is certified, add-remove, of Poisson batches; `epsilon proven` is certified
    of the batches that were drawn, under `adjacency`.
    """
    some = runs[0] if runs else {}
    if any(score not in one for one in runs):
        names = sorted(name for name, value in some.items() if isinstance(value, float))
        raise ValueError(f"score must be one of {', '.join(names)}, got {score!r}")
    return {
        **spread([one[score] for one in runs]),
        "epsilon claimed": some.get("epsilon_claimed"),
        "epsilon if Poisson": some.get("epsilon_if_poisson"),
        "epsilon proven": some.get("epsilon_proven"),
        "adjacency": some.get("adjacency"),
    }


SHOWN = (
    Shown("Table 2: inception scores of digits", ("table_2",), table_2),
    Shown("Table 4, as of digits: JS scores", ("table_2",), partial(table_2, score="js")),
    Shown(
        "Table 6: classifiers of few labels, alone and with generated images",
        ("table_6",),
        table_6,
        units=dict.fromkeys(("paper, supervised", "paper", "supervised", "mean"), "accuracy"),
    ),
    Shown(
        "Table 9: inception scores, the optimisations one by one",
        ("table_9", "table_2"),
        joined(table_9),
    ),
    Shown(
        "Table 10, as of digits: JS scores, the optimisations one by one",
        ("table_9", "table_2"),
        joined(partial(table_9, score="js")),
    ),
)

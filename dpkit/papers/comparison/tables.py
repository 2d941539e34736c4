"""The comparison's stored parts as rows: accuracy, and likeness to real images, by method."""

from itertools import product
from typing import Any

import numpy as np

from dpkit.papers.comparison.published import PUBLISHED
from dpkit.papers.experiments.rows import Shown, Stored, joined, mean, spread, values

Row = dict[Any, Any]  # words, and a value for each epsilon
EPSILONS = (0.5, 1.0, 3.0, 10.0)
TITLES = {
    "moments": "class moments",
    "moments_jittered": "class moments, jittered",
    "random_features": "DP-MERF",
    "warm_start_jittered": "half of the budget on class moments, jittered",
    "warm_gan": "warm-started GAN",
    "warm_gan_jittered": "warm-started GAN, jittered",
    "warm_gan_large": "warm-started GAN, large",
    "warm_gan_large_jittered": "warm-started GAN, large, jittered",
    "dp_cgan": "DP-CGAN, repaired",
    "wgan_gp": "DP-WGAN-GP",
}


# a GAN, and what it is held against: its own start, and class moments of the same budget
STARTED = (
    ("warm_gan_jittered", "warm_start_jittered"),
    ("warm_gan_jittered", "moments_jittered"),
    ("warm_gan", "moments"),
    ("warm_gan_large_jittered", "moments_jittered"),
    ("warm_gan_large", "moments"),
)


def run_name(method: str, epsilon: float, *, bench: bool = False) -> str:
    """What the parts of a method at an epsilon are named after."""
    return f"{method}-{'bench-' if bench else ''}eps{epsilon:g}"


def accuracies(stored: Stored, *, network: str = "cnn", bench: bool = False) -> list[Row]:
    """A row a method: at each epsilon mean, lowest and highest over seeds, in per cent.

    Args:
        stored: parts by name, from `experiments.store.load("comparison", data)`.
        network: "cnn", "mlp" or "logistic".
        bench: of the runs on 55,000 records at delta 1.6658e-6.
    """
    return [
        {
            "method": title,
            "key": method,
            **{
                epsilon: spread(
                    [
                        100 * one[f"{network}_accuracy"]
                        for one in values(stored, run_name(method, epsilon, bench=bench))
                    ]
                )
                for epsilon in EPSILONS
            },
        }
        for method, title in TITLES.items()
    ]


def likeness(stored: Stored, epsilon: float) -> list[Row]:
    """A row a method: means over seeds of its likeness to real images at an epsilon."""
    rows = []
    for method, title in TITLES.items():
        found = values(stored, run_name(method, epsilon), "likeness")
        if found:
            names = ("classifier_fid", "precision", "recall", "inception_score")
            means = {name: mean(one[name] for one in found) for name in names}
            rows.append({"method": title, **means, "seeds": len(found)})
    return rows


def gains(stored: Stored, *, coverage: float = 0.95) -> list[Row]:
    """What a GAN's steps add to its start: differences of the CNN's mean accuracy, with intervals.

    Each GAN is held against its start, which cost half as much, and against the start's method with
    all of the budget. The interval is Welch's, of seeds as independent normal numbers: with three
    of each it is wide.

    Args:
        stored: parts by name, as for `accuracies`.
        coverage: of each interval, in (0, 1).

    Returns:
        rows of method, beside, epsilon, difference, low and high (in percentage points) and the
        seeds of both; those alone where both have two or more.
    """
    from scipy.stats import ttest_ind

    rows = []
    for (gan, start), epsilon in product(STARTED, EPSILONS):
        both = [
            [100 * one["cnn_accuracy"] for one in values(stored, run_name(method, epsilon))]
            for method in (gan, start)
        ]
        if min(map(len, both)) > 1:
            low, high = ttest_ind(*both, equal_var=False).confidence_interval(coverage)
            known = {"method": TITLES[gan], "beside": TITLES[start], "epsilon": epsilon}
            found = {"difference": float(np.mean(both[0]) - np.mean(both[1]))}
            found |= {"low": low, "high": high, "seeds": tuple(map(len, both))}
            rows.append(known | found)
    return rows


def published(data: str) -> list[Row]:
    """Rows of published figures for a data set, in the order of their accuracy at epsilon 10."""
    rows = [
        {
            "method": one.method,
            "kind": one.kind,
            "protocol": one.protocol,
            **{epsilon: one.accuracies[data].get(epsilon) for epsilon in EPSILONS},
        }
        for one in PUBLISHED
        if data in one.accuracies
    ]
    return sorted(rows, key=lambda row: row[10.0])


def shown(stored: Stored) -> list[Row]:
    """Rows of a report: mean accuracies of the CNN at each epsilon, in per cent."""
    return [
        {
            "method": row["method"],
            **{f"epsilon {epsilon:g}": row[epsilon]["mean"] for epsilon in EPSILONS},
            "seeds": max(row[epsilon]["seeds"] for epsilon in EPSILONS),
        }
        for row in accuracies(stored)
    ]


SHOWN = tuple(
    Shown(
        f"Accuracy of a CNN trained on synthetic images, tested on real ones: {title}",
        (data, f"{data}_large"),
        joined(shown),
        {f"epsilon {epsilon:g}": "accuracy, %" for epsilon in EPSILONS},
    )
    for data, title in (("mnist", "MNIST"), ("fashion_mnist", "Fashion-MNIST"))
)

"""The comparison's stored parts as rows, and published accuracies beside them.

Published ones, of private generators on MNIST and Fashion-MNIST, are quoted with source and
protocol, not measured here. Protocols differ: compare a row with others of the same
protocol only. Methods whose public code has no finite epsilon are left out.
"""

from itertools import product
from typing import Any, NamedTuple

from dpkit.papers.experiments.store import Shown, Stored, lead, mean, spread, values

Row = dict[Any, Any]  # words, and a value for each epsilon
EPSILONS = (0.5, 1.0, 3.0, 10.0)
TITLES = {
    "private_images": "PrivateImages",
    "moments": "class moments",
    "moments_jittered": "class moments, jittered",
    "random_features": "DP-MERF",
    "warm_start_jittered": "half of the budget on class moments, jittered",
    "warm_gan": "warm-started GAN",
    "warm_gan_jittered": "warm-started GAN, jittered",
    "dp_cgan": "DP-CGAN, repaired",
    "wgan_gp": "DP-WGAN-GP",
}


# a GAN, and its baselines: its own start, and class moments of the same budget
STARTED = (
    ("warm_gan_jittered", "warm_start_jittered"),
    ("warm_gan_jittered", "moments_jittered"),
    ("warm_gan", "moments"),
)


TABULAR = {
    "real": "the records, drawn with replacement",
    "marginals_target": "PrivateTable, told the target",
    "marginals": "PrivateTable",
    "mst": "MST",
    "aim": "AIM",
}
TABULAR_EPSILONS = (1.0, 0.2, 10.0)  # the most important first
TABULAR_SCORES = {
    "logistic": "AUROC, logistic regression",
    "boosting": "AUROC, boosted trees",
    "one_way": "total variation, columns",
    "two_way": "total variation, pairs",
}


class PublishedProtocol(NamedTuple):
    """The protocol of a group of published figures.

    source: where they are printed.
    says: classifier, choice of its epoch, records, delta.
    """

    source: str
    says: str


class PublishedScore(NamedTuple):
    """Accuracies in per cent, by data set and epsilon.

    method: as it is called there.
    kind: of generator, in a word or two.
    protocol: a key of PROTOCOLS.
    accuracies: data set -> epsilon -> per cent.
    """

    method: str
    kind: str
    protocol: str
    accuracies: dict[str, dict[float, float]]


PROTOCOLS = {
    "DPImageBench": PublishedProtocol(
        "Gong et al. 2025, DPImageBench, README section 7 (2019ChenGong/DPImageBench 565f8d7)",
        "mean of a ResNet, a WideResNet and a ResNeXt trained on 55,000 generated images, best "
        "epoch by 5,000 private images; 55,000 records, delta 1.67e-6",
    ),
    "FETA-Pro": PublishedProtocol(
        "2019ChenGong/Feta-Pro fc161aa, plot/plot_eps_changes.py",
        "as DPImageBench, as far as its code says; plot/plot_heatmap.py has 25 settings of its "
        "noise on MNIST at epsilon 1, from 90.7 to 97.3 per cent",
    ),
    "Bie et al.": PublishedProtocol(
        "Bie, Kamath, Zhang 2023, abstract", "a small CNN, the one used here; delta 1e-5"
    ),
}


def _bench(
    method: str, kind: str, *pairs: tuple[float, float], protocol: str = "DPImageBench"
):
    found = {
        data: dict(zip((1.0, 10.0), pair, strict=True))
        for data, pair in zip(("mnist", "fashion_mnist", "cifar10"), pairs, strict=False)
    }
    return PublishedScore(method, kind, protocol, found)


PUBLISHED = (
    _bench("DP-MERF", "one release", (80.3, 81.3), (62.2, 62.2), (27.2, 29.0)),
    _bench("DP-NTK", "one release", (50.0, 91.3), (64.4, 76.3), (17.0, 28.2)),
    _bench("DP-GAN", "GAN", (92.4, 92.7), (71.8, 70.3), (26.2, 30.5)),
    PublishedScore("Bie et al.", "GAN", "Bie et al.", {"mnist": {10.0: 95.0}}),
    _bench("DPDM", "diffusion", (89.2, 97.7), (76.4, 85.6), (28.9, 36.8)),
    _bench("DP-FETA", "diffusion", (95.6, 98.1), (81.7, 87.3), (35.1, 43.3)),
    _bench("FETA-Pro", "diffusion", (97.1, 98.6), (82.3, 88.3), protocol="FETA-Pro"),
)


def run_name(method: str, epsilon: float, *, bench: bool = False) -> str:
    """The prefix of the names of a method's parts at an epsilon."""
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


def tabular_rows(stored: Stored) -> list[Row]:
    """A row a method and epsilon (None: not private) of a table's stored parts.

    Each score as `store.spread`; keys as TABULAR_SCORES.
    """
    rows = []
    for method, title in TABULAR.items():
        for epsilon in (None,) if method == "real" else sorted(TABULAR_EPSILONS):
            found = values(stored, run_name(method, epsilon) if epsilon else method)
            if found:
                row: Row = {"method": title, "epsilon": epsilon}
                scores = {
                    name: spread([one[name] for one in found]) for name in TABULAR_SCORES
                }
                rows.append(row | scores)
    return rows


def likeness(stored: Stored, epsilon: float) -> list[Row]:
    """A row a method: mean likeness to real images at an epsilon."""
    rows = []
    for method, title in TITLES.items():
        found = values(stored, run_name(method, epsilon), "likeness")
        if found:
            names = ("classifier_fid", "precision", "recall", "inception_score")
            means = {name: mean(one[name] for one in found) for name in names}
            rows.append({"method": title, **means, "seeds": len(found)})
    return rows


def gains(stored: Stored) -> list[Row]:
    """The gain from a GAN's steps over its start: differences of the CNN's mean accuracy.

    Each GAN is compared with its start, which cost half as much, and with the start's method at the
    full budget, by `store.lead`, of parts by name, as for `accuracies`.

    Returns:
        rows of method, beside, epsilon, difference, low and high (in percentage points), verdict
        and the seeds of both; those alone where both have two or more.
    """
    rows = []
    for (gan, start), epsilon in product(STARTED, EPSILONS):
        both = [
            [100 * one["cnn_accuracy"] for one in values(stored, run_name(method, epsilon))]
            for method in (gan, start)
        ]
        if min(map(len, both)) > 1:
            known = {"method": TITLES[gan], "beside": TITLES[start], "epsilon": epsilon}
            known |= {"seeds": tuple(map(len, both))}
            rows.append(known | lead(*both))
    return rows


def published(data: str) -> list[Row]:
    """Published figures for a data set, in the order of their accuracy at epsilon 10."""
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


def tabular_means(stored: Stored) -> list[Row]:
    """Rows of a report: means of `tabular_rows`."""
    return [
        {"method": row["method"], "epsilon": row["epsilon"]}
        | {title: row[name]["mean"] for name, title in TABULAR_SCORES.items()}
        for row in tabular_rows(stored)
    ]


SHOWN = tuple(
    Shown(
        f"Accuracy of a CNN trained on synthetic images, tested on real ones: {title}",
        (data,),
        shown,
        {f"epsilon {epsilon:g}": "accuracy, %" for epsilon in EPSILONS},
    )
    for data, title in (("mnist", "MNIST"), ("fashion_mnist", "Fashion-MNIST"))
) + tuple(
    Shown(
        f"What tables of {title} teach, and how near they come",
        (data,),
        tabular_means,
        dict.fromkeys(TABULAR_SCORES.values(), "0 to 1"),
    )
    for data, title in (("adult", "Adult"), ("census", "the simulated census"))
)

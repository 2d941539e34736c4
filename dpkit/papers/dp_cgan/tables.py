"""Table 1 of the paper: AUROC on real test images of classifiers trained on generated ones."""

from functools import partial
from typing import Any

from dpkit.papers.experiments.store import Shown, Stored, spread, values

TITLES = {
    "real": "Real data",
    "cgan": "CGAN",
    "basic_dp": "CGAN with basic DP",
    "published": "DP-CGAN, as published",
    "repaired": "DP-CGAN, repaired",
}
CLASSIFIERS = ("lr", "mlp")
PRINTED = {  # Table 1 of the paper, per cent
    "real": {"lr": 92.17, "mlp": 97.60},
    "cgan": {"lr": 91.10, "mlp": 91.06},
    "published": {"lr": 87.57, "mlp": 88.16},
    "basic_dp": {"lr": 83.42, "mlp": 83.29},
}


def table_1(stored: Stored, *, protocol: str = "auroc_255") -> list[dict[str, Any]]:
    """Rows of Table 1: the paper's number beside the stored runs' mean and spread, in per cent.

    Args:
        stored: parts by name, from `experiments.store.load("dp_cgan", "table_1")`.
        protocol: "auroc_255" (test images in 0..255, as published) or "auroc" (in [0, 1]);
            "accuracy_255" and "accuracy" likewise.
    """
    return [
        {
            "column": title,
            "classifier": name.upper(),
            "paper": PRINTED.get(key, {}).get(name),
            **spread([100 * one[protocol] for one in values(stored, key, name)]),
        }
        for key, title in TITLES.items()
        for name in CLASSIFIERS
    ]


SHOWN = (
    Shown(
        "Table 1: classifiers trained on generated images, tested on real ones in 0..255",
        ("table_1",),
        table_1,
        units={"paper": "AUROC, %", "mean": "AUROC, %"},
    ),
    Shown(
        "Table 1 with test images in [0, 1], as the classifiers were trained",
        ("table_1",),
        partial(table_1, protocol="auroc"),
        units={"paper": "AUROC, %", "mean": "AUROC, %"},
    ),
)

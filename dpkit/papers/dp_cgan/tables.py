"""Table 1 of the paper: AUROC on real test images of classifiers trained on generated ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np

TITLES = {
    "real": "Real data",
    "cgan": "CGAN",
    "basic_dp": "CGAN with basic DP",
    "published": "DP-CGAN, as published",
    "honest": "DP-CGAN, honest",
}
CLASSIFIERS = ("lr", "mlp")
PRINTED = {  # Table 1 of the paper, per cent
    "real": {"lr": 92.17, "mlp": 97.60},
    "cgan": {"lr": 91.10, "mlp": 91.06},
    "published": {"lr": 87.57, "mlp": 88.16},
    "basic_dp": {"lr": 83.42, "mlp": 83.29},
}


def table_1(
    stored: Mapping[str, Mapping[str, Any]], *, protocol: str = "auroc_255"
) -> list[dict[str, Any]]:
    """Rows of Table 1: the paper's number beside the stored runs' mean and spread, in per cent.

    Args:
        stored: parts by name, from `experiments.store.load("dp_cgan", "table_1")`.
        protocol: "auroc_255" (test images in 0..255, as published) or "auroc" (in [0, 1]);
            "accuracy_255" and "accuracy" likewise.
    """
    rows = []
    for key, title in TITLES.items():
        for name in CLASSIFIERS:
            found = [
                100 * part["values"][protocol]
                for part_name, part in stored.items()
                if part_name.startswith(f"{key}-seed") and part_name.endswith(f"-{name}")
            ]
            rows.append({
                "column": title,
                "classifier": name.upper(),
                "paper": PRINTED.get(key, {}).get(name),
                "mean": float(np.mean(found)) if found else None,
                "lowest": min(found, default=None),
                "highest": max(found, default=None),
                "seeds": len(found),
            })  # fmt: skip
    return rows

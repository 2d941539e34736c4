"""Rows of Table IV with an odd score, each beside the runs that change one thing about it."""

from typing import Any

from dpkit.papers.experiments.store import Stored, spread, values

SCORES = ("accuracy", "spread", "trained_on_generated")
TITLES = {  # by key; the first of each group is a row of Table IV
    "repaired-constant-5": "repaired, epsilon 5: batch 256, rate 0.002",
    "repaired-5-batch": "epsilon 5, batch 128",
    "repaired-5-rate": "epsilon 5, rate 0.001",
    "repaired-5-both": "epsilon 5, batch 128, rate 0.001",
    "repaired-constant-0.5": "repaired, epsilon 0.5: batch 128, rate 0.001",
    "repaired-0.5-both": "epsilon 0.5, batch 256, rate 0.002",
    "dp-gan": "DP-GAN",
    "dp-gan-no-noise": "DP-GAN without noise",
    "dp-gan-no-norm": "DP-GAN without its largest norm",
    "dp-gan-longer": "DP-GAN, ten times as many iterations of one step",
    "dcgan-loss-value": "the text's networks",
    "dcgan-label": "the text's networks, label weight 20",
    "dcgan-rate": "the text's networks, the code's rates",
    "dcgan-both": "the text's networks, label weight 20, code's rates",
    "none": "the code's networks, one GAN a digit",
    "none-one-gan": "the code's networks, one GAN of all digits",
}


def ablation_rows(stored: Stored) -> list[dict[str, Any]]:
    """Scores of each run at its end, mean and range over seeds; runs not stored are left out.

    Keys: run, seeds, and for each score (those of Table IV) "<score>" and "<score>_range".

    Args:
        stored: parts of "ablations" and "table_4" together.
    """
    rows = []
    for key, title in TITLES.items():
        last = [one["scores"][str(one["iterations"])] for one in values(stored, key)]
        row: dict[str, Any] = {"run": title, "seeds": len(last)}
        for score in SCORES:
            found = spread([scores[score] for scores in last])
            row |= {score: found["mean"], f"{score}_range": (found["lowest"], found["highest"])}
        rows += [row] if last else []
    return rows

"""The made-up paper's table, from stored runs."""

from typing import Any

from dpkit.papers.experiments.store import Shown, Stored, spread, values


def table_1(stored: Stored) -> list[dict[str, Any]]:
    """One row: mean brightness of the generated digits over seeds."""
    return [
        {"run": "repaired", **spread([one["brightness"] for one in values(stored, "repaired")])}
    ]


SHOWN = (
    Shown(
        "Table 1: how bright the generated digits are", ("table_1",), table_1, {"mean": "0 to 1"}
    ),
)

"""The made-up paper's table, from stored runs."""

from typing import Any

from dpkit.experiments.rows import Stored, spread, values


def table_1(stored: Stored) -> list[dict[str, Any]]:
    """One row: mean brightness of the generated digits over seeds."""
    return [
        {"run": "repaired", **spread([one["brightness"] for one in values(stored, "repaired")])}
    ]

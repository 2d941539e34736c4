"""Widgets over the accountants, the clipping rules and the claims, for a notebook or a page.

Each is a VBox that needs no argument; its `compute` is a pure function of its controls' values.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Accountant": "accountant",
    "Calibration": "calibration",
    "RenyiOrders": "renyi_orders",
    "TradeOff": "trade_off",
    "ClippingAndNoise": "clipping_and_noise",
    "GroupDirections": "group_directions",
    "LossNoise": "loss_noise",
    "Schedules": "schedules",
    "ScoreAgainstEpsilon": "score_against_epsilon",
    "Claims": "claims",
}
__all__ = [
    "Accountant",
    "Calibration",
    "Claims",
    "ClippingAndNoise",
    "GroupDirections",
    "LossNoise",
    "RenyiOrders",
    "Schedules",
    "ScoreAgainstEpsilon",
    "TradeOff",
]


def __getattr__(name: str) -> Any:
    """The explorer of that name; loaded, with ipywidgets, when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"dpkit.explorers has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"dpkit.explorers.{_HOMES[name]}"), name)

"""Widgets over the accountants, the clipping rules and the claims, for a notebook or a page.

Each is a VBox that needs no argument; its `compute` is a pure function of its controls' values.
"""

from typing import TYPE_CHECKING

from dpkit.common.lazy import on_demand

if TYPE_CHECKING:
    from dpkit.course.explorers.accountant import Accountant
    from dpkit.course.explorers.claims_wall import ClaimsWall
    from dpkit.course.explorers.clipping_and_noise import ClippingAndNoise
    from dpkit.course.explorers.losses_add_up import LossesAddUp
    from dpkit.course.explorers.play_the_attacker import PlayTheAttacker
    from dpkit.course.explorers.repair_it import RepairIt
    from dpkit.course.explorers.schedules import Schedules
    from dpkit.course.explorers.shuffled_or_poisson import ShuffledOrPoisson
    from dpkit.course.explorers.trade_off import TradeOff

__all__ = [
    "Accountant",
    "ClaimsWall",
    "ClippingAndNoise",
    "LossesAddUp",
    "PlayTheAttacker",
    "RepairIt",
    "Schedules",
    "ShuffledOrPoisson",
    "TradeOff",
]

__getattr__, __dir__ = on_demand(__name__)

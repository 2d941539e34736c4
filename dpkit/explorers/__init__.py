"""Widgets over the accountants, the clipping rules and the claims, for a notebook or a page.

Each is a VBox that needs no argument; its `compute` is a pure function of its controls' values.
"""

from typing import TYPE_CHECKING

from dpkit.common.lazy import on_demand

if TYPE_CHECKING:
    from dpkit.explorers.accountant import Accountant
    from dpkit.explorers.batches_as_drawn import BatchesAsDrawn
    from dpkit.explorers.calibration import Calibration
    from dpkit.explorers.claims_wall import ClaimsWall
    from dpkit.explorers.clipping_and_noise import ClippingAndNoise
    from dpkit.explorers.group_directions import GroupDirections
    from dpkit.explorers.loss_noise import LossNoise
    from dpkit.explorers.losses_add_up import LossesAddUp
    from dpkit.explorers.noise_shapes import NoiseShapes
    from dpkit.explorers.play_the_attacker import PlayTheAttacker
    from dpkit.explorers.renyi_orders import RenyiOrders
    from dpkit.explorers.repair_it import RepairIt
    from dpkit.explorers.samples_by_epsilon import SamplesByEpsilon
    from dpkit.explorers.schedules import Schedules
    from dpkit.explorers.score_against_epsilon import ScoreAgainstEpsilon
    from dpkit.explorers.shuffled_or_poisson import ShuffledOrPoisson
    from dpkit.explorers.trade_off import TradeOff

__all__ = [
    "Accountant",
    "BatchesAsDrawn",
    "Calibration",
    "ClaimsWall",
    "ClippingAndNoise",
    "GroupDirections",
    "LossNoise",
    "LossesAddUp",
    "NoiseShapes",
    "PlayTheAttacker",
    "RenyiOrders",
    "RepairIt",
    "SamplesByEpsilon",
    "Schedules",
    "ScoreAgainstEpsilon",
    "ShuffledOrPoisson",
    "TradeOff",
]

__getattr__, __dir__ = on_demand(__name__)

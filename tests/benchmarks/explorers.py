"""From a control's move to an explorer's picture, in the process of a kernel: without a browser."""

import asyncio
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from bench import Row

from dpkit.course import explorers

MOVES = 11
MOVED = {"ClippingAndNoise": "length", "Schedules": "start", "PlayTheAttacker": "noise_multiplier"}


def rows() -> Iterator[Row]:
    """One for each explorer: milliseconds from the move to the draft of the picture."""
    for name in explorers.__all__:
        yield Row(name, median(asyncio.run(_times(name))))


async def _times(name: str) -> list[float]:
    """Each move comes when the one before was answered, and to a value that is new."""
    explorer = getattr(explorers, name)()
    controls = list(explorer.values)
    control = explorer.values[MOVED.get(name, "steps" if "steps" in controls else controls[0])]
    others, times, loop = _others(control), [], asyncio.get_running_loop()
    for _ in range(MOVES):
        seen: list[float] = []
        explorer.sentence.observe(lambda _, seen=seen: seen.append(time.perf_counter()), "value")
        began = time.perf_counter()
        control.value = next(others)
        while explorer._waiting and explorer._waiting.when() < loop.time() + 0.02:
            await asyncio.sleep(0)
        times.append(1000 * ((seen[-1] if seen else time.perf_counter()) - began))
        explorer.sentence.unobserve_all()
    if explorer._waiting:
        explorer._waiting.cancel()
    return times


def _others(control: Any) -> Iterator[Any]:
    """Values that the control takes, one after the other."""
    if hasattr(control, "stops"):
        at = control.slider.value
        yield from control.stops[at + 1 : at + 1 + MOVES]
    elif hasattr(control, "options"):
        yield from (control.options * MOVES)[1:]
    while True:
        yield not control.value

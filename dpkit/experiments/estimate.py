"""How long the parts of a table that are not stored will take, from a few steps of each."""

from collections.abc import Callable, Collection, Hashable, Sequence
from time import perf_counter
from typing import NamedTuple

from dpkit.experiments.part import Part, Progress, Work, silent

TIMED = 3  # steps that are timed, at least
BRIEF = 0.2  # seconds they take together, at least: one alone is short beside the clock's noise
LONG = 3.0  # seconds that are measurement enough, be it of one step


class Estimate(NamedTuple):
    """What a table will take.

    seconds: of the parts to compute, but for `unknown` of them. It counts the steps that training
        and scoring have still to make, as long as each takes now; not what a part does beside
        them, nor that a run whose noise is tuned may end early.
    """

    table: str
    parts: int
    stored: int
    unknown: int  # parts to compute that have no estimate
    seconds: float
    device: str

    def __str__(self) -> str:
        """One sentence about it, such as the command prints."""
        left = self.parts - self.stored
        if not left:
            return f"{self.table}: {_parts(self.parts)}, all stored"
        said = f"{self.table}: {_parts(self.parts)}, {self.stored or 'none'} stored"
        if left == 1:
            others = "the other" if self.stored else "it"
        else:
            others = f"the other {left}" if self.stored else f"the {left}"
        if self.unknown == left:
            return f"{said}; there is no estimate of the time for {others}"
        known = left - self.unknown
        if self.unknown:
            others = f"{known} of {others}"
        takes = "takes" if known == 1 else "take"
        said += f"; {others} {takes} about {duration(self.seconds)} on {self.device} "
        said += "(from a few steps of each)"
        return said + (f"; for {self.unknown} there is no estimate" if self.unknown else "")


def estimate(
    table: str,
    parts: Sequence[Part],
    *,
    stored: Collection[str],
    device: str,
    progress: Progress = silent,
    clock: Callable[[], float] = perf_counter,
    brief: float = BRIEF,
) -> Estimate:
    """Try a few steps of each kind that the parts have still to make.

    Args:
        table: what the parts are of.
        parts: all of them.
        stored: names of those that are not computed again.
        device: what to call where they are computed.
        progress: wraps the parts, as tqdm does.
        clock: seconds.
        brief: seconds for which each kind of step is tried, at least.
    """
    missing = [part for part in parts if part.name not in stored]
    seconds: dict[Hashable, float] = {}
    made: set[Hashable] = set()
    total, unknown = 0.0, 0
    for part in progress(missing, total=len(missing), desc="estimate"):
        if part.work is None:
            unknown += 1
            continue
        for work in part.work():
            if work.left <= 0 or (work.once, work.what) in made:
                continue
            if work.once is not None:
                made.add((work.once, work.what))
            if work.what not in seconds:
                seconds[work.what] = seconds_a_step(work, clock=clock, brief=brief)
            total += work.left * seconds[work.what]
    return Estimate(table, len(parts), len(parts) - len(missing), unknown, total, device)


def seconds_a_step(
    work: Work, *, clock: Callable[[], float] = perf_counter, brief: float = BRIEF
) -> float:
    """The mean of a few steps after one to warm up: of a single one, where that one was `LONG`."""
    steps = work.trial()
    start = clock()
    next(steps)
    first = clock() - start
    start, done, passed = clock(), 0, 0.0
    for _ in steps:
        done, passed = done + 1, clock() - start
        enough = first >= LONG or (done >= TIMED and done % work.every == 0 and passed >= brief)
        if enough or passed >= LONG:
            break
    return passed / done if done else first


def duration(seconds: float) -> str:
    """Seconds in the unit in which people say them: "45 seconds", "5.1 hours", "3.2 days"."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            count = seconds / size
            return f"{count:.0f} {unit}" if count >= 9.95 else f"{count:.1f} {unit}"
    return "1 second" if round(seconds) == 1 else f"{seconds:.0f} seconds"


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count} parts"

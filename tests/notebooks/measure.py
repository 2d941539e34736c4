"""Run notebooks and write what they take into their headers and into README's table.

`python tests/notebooks/measure.py [source.py ...]` (or `make measure`) runs all where
none is named. What is written is a round figure above the measurement, so that running again
rarely changes a byte:

- time: half as much again, up to the next 5 seconds; from a minute on up to the next 10, from two
  minutes on in whole minutes. It stays while the measurement lies between a fifth of it and it.
- memory, the kernel's largest resident set: 5 % more, up to the next 10 MB, from 1000 MB on up to
  the next 50. It stays while the measurement lies between 80 % of it and it.

A notebook whose header changed is run again by execute.py, which alone writes .ipynb files.
"""

import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

import execute
from pairs import NOTEBOOKS

README = NOTEBOOKS / "README.md"
TIME = re.compile(r"(\*\*Time\*\* )(an?|\d+) (second|minute)s?\b")
MEMORY = re.compile(r"(\*\*Memory\*\* )(\d+) MB\b")
# README's row of a notebook: all before its last two cells, and those
ROW = r"^(\| \[{}\]\(.*) \| (\d+) (s|min) \| (\d+) MB \|$"
UNITS = {"second": 1, "s": 1, "minute": 60, "min": 60}


class Figures(NamedTuple):
    """What a notebook's header states."""

    seconds: int  # wall time on two cores, the kernel's start included
    megabytes: int  # the kernel's largest resident set, in MB (10^6 bytes)


class Unstated(execute.Unstorable):
    """A header or a table that has no place for a figure."""


def up(value: float, step: int) -> int:
    """The next multiple of `step` that is not below `value`."""
    return math.ceil(value / step) * step


def figures(stated: Figures, seconds: float, megabytes: float | None) -> Figures:
    """What to state after a measurement: the same where it still fits.

    Args:
        stated: what the header says now.
        seconds: measured wall time.
        megabytes: measured peak; None where the system does not tell, which changes nothing.
    """
    time, memory = stated
    if not stated.seconds / 5 <= seconds <= stated.seconds:
        generous = 1.5 * seconds
        time = up(generous, 5 if generous <= 60 else 10 if generous <= 120 else 60)
    if megabytes is not None and not 0.8 * stated.megabytes <= megabytes <= stated.megabytes:
        generous = 1.05 * megabytes
        memory = up(generous, 10 if generous <= 1000 else 50)
    return Figures(time, memory)


def stated(text: str) -> Figures:
    """The figures in a source's text.

    Raises:
        Unstated: it has not exactly one `**Time** N seconds` and one `**Memory** N MB`.
    """
    times, memories = TIME.findall(text), MEMORY.findall(text)
    if len(times) != 1 or len(memories) != 1:
        raise Unstated(
            "its header needs `**Time** N seconds` (or minutes) and `**Memory** N MB`, once each"
        )
    _, count, unit = times[0]
    return Figures((int(count) if count.isdecimal() else 1) * UNITS[unit], int(memories[0][1]))


def with_figures(text: str, new: Figures) -> str:
    """A source's text with these figures, and the text itself where it states them already."""
    if stated(text) == new:
        return text
    time = f"{new.seconds} seconds" if new.seconds <= 120 else f"{new.seconds // 60} minutes"
    text = TIME.sub(rf"\g<1>{time}", text)
    return MEMORY.sub(rf"\g<1>{new.megabytes} MB", text)


def in_table(readme: str, name: str) -> Figures:
    """The figures in README's row of a notebook; Unstated where it has not exactly one."""
    found = re.findall(ROW.format(re.escape(name)), readme, re.MULTILINE)
    if len(found) != 1:
        raise Unstated(
            f"README's table needs one row `| [{name}](...) | question | N s | N MB |`,"
            f" and has {len(found)}"
        )
    _, count, unit, megabytes = found[0]
    return Figures(int(count) * UNITS[unit], int(megabytes))


def with_row(readme: str, name: str, new: Figures) -> str:
    """README with these figures in a notebook's row; Unstated as for `in_table`."""
    if in_table(readme, name) == new:
        return readme
    time = f"{new.seconds} s" if new.seconds <= 120 else f"{new.seconds // 60} min"
    row = rf"\g<1> | {time} | {new.megabytes} MB |"
    return re.sub(ROW.format(re.escape(name)), row, readme, flags=re.MULTILINE)


def measure(source: Path, readme: Path = README) -> Figures:
    """Run one notebook and bring its header, its stored copy and README's row up to date.

    Raises:
        Unstated: there is no place for a figure; nothing was run or written.
        execute.Unstorable: a cell failed; nothing was written.
    """
    text = source.read_text(encoding="utf-8")
    before = stated(text)
    in_table(readme.read_text(encoding="utf-8"), source.stem)
    ran = execute.run(source)
    after = figures(before, ran.seconds, ran.peak_megabytes)
    if after != before:
        source.write_text(with_figures(text, after), encoding="utf-8")
        execute.execute(source)
    table = readme.read_text(encoding="utf-8")  # only now: someone may have edited it meanwhile
    if (changed := with_row(table, source.stem, after)) != table:
        readme.write_text(changed, encoding="utf-8")
    peak = "n/a" if ran.peak_megabytes is None else f"{ran.peak_megabytes:.0f} MB"
    print(
        f"{source.stem:32} took {ran.seconds:6.1f} s, {peak:>8}; "
        f"{'now states' if after != before else 'states'} {after.seconds} s, {after.megabytes} MB",
        flush=True,
    )
    return after


def main(arguments: list[str]) -> int:
    """Measure what is named, or all; 1 where one could not be."""
    return execute.each(measure, "measured", arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

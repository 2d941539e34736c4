"""A made-up table of tiny parts for sweeps: what each does is written to a log as it does it.

Workers import it by its name, so it stands in a module of its own. Its log and what happens to its
workers are told by the environment, which processes inherit.
"""

import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path

from dpkit.papers.experiments.store import Part, Result

LOG, KILLED, FAILS = "DPKIT_TEST_LOG", "DPKIT_TEST_KILLED", "DPKIT_TEST_FAILS"


def plan(*, scale, seeds, device, progress) -> list[Part]:
    """Table 1: eight runs a seed, of which one in four reuses another's by-product."""
    parts = []
    for seed in range(seeds):
        for i in range(8):
            compute, after = partial(_compute, i, seed), f"run{i - 1}-seed{seed}"
            part = Part(f"run{i}-seed{seed}", {"i": i}, seed, compute)
            parts.append(part._replace(after=after) if i % 4 == 3 else part)
    return parts


PLANS = {"table_1": plan}


def log(word: str) -> None:
    """Append a line, at once: lines of several processes do not mix."""
    handle = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{word}\n".encode())
    os.close(handle)


def logged(path: Path) -> Counter[str]:
    """How often each line was written."""
    return Counter(path.read_text().split("\n")[:-1])


def _compute(i: int, seed: int) -> Result:
    name = f"run{i}-seed{seed}"
    log(f"begins {name}")
    if name in os.environ.get(FAILS, "").split(","):
        raise FloatingPointError("a gradient is NaN")
    if name == os.environ.get(KILLED):
        again = logged(Path(os.environ[LOG]))[f"begins {name}"]
        if again <= int(os.environ.get("DPKIT_TEST_KILLS", "1")):
            os.kill(os.getpid(), signal.SIGKILL)
    log(f"ends {name}")
    return Result({"score": i + seed / 7, "list": [1.0, i]}, {"made up": "0"}, "cpu")

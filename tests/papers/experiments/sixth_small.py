"""All tables of the made-up sixth paper at scale small, then the report: whole, or killed midway.

    python sixth_small.py FOLDER 7

kills its own process, by SIGKILL, at the seventh record of training that this process sees; without
a number it runs to the end. All that is stored lies in FOLDER.
"""

import os
import signal
import sys
from importlib import import_module
from itertools import count
from pathlib import Path

SIXTH = Path(__file__).parents[1]


def run(folder: Path, kill_at: int | None = None) -> bytes:
    """Compute what is missing in the folder and return the report."""
    from dpkit import papers
    from dpkit.common import files
    from dpkit.papers.experiments import run as run_module
    from dpkit.papers.experiments.reproduce import everything
    from dpkit.papers.report import write

    if str(SIXTH) not in papers.__path__:
        papers.__path__.append(str(SIXTH))
    run_module.cache_dir = files.cache_dir = lambda: folder / "cache"
    paper = import_module("dpkit.papers.sixth")
    plans = {"sixth": import_module("dpkit.papers.sixth.experiments").PLANS}
    seen = count(1)

    def progress(records, /, *, total, desc):
        for record in records:
            if next(seen) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            yield record

    asked = {"scale": "small", "seeds": 2, "device": "cpu", "results": folder / "results"}
    for _ in everything(plans, **asked, progress=progress):
        pass
    return write(folder / "report.html", [paper], plans, **asked).read_bytes()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)

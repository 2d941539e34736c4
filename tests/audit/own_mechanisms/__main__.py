"""Attack the kit's own mechanisms and store the results, all or those named on the command line.

From the checkout: `PYTHONPATH=tests/audit python -m own_mechanisms gaussian laplace`.
"""

import sys

from dpkit.papers.targets import results
from own_mechanisms.targets import TARGETS

REPEATED, TRIALS = 200, 2000
for target in TARGETS:
    if not sys.argv[1:] or target.id.removeprefix("mechanisms/") in sys.argv[1:]:
        row = results.run(target)
        if row["proven"] != "inf":
            trials = min(TRIALS, target.trials)
            row["repetitions"] = results.repeat(target, times=REPEATED, trials=trials)
        print(results.store(row, target))

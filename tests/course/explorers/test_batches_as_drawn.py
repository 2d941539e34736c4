"""Five ways of drawing batches: the accountant's own pairs."""

from dpkit.common.show import interval
from dpkit.course.explorers import BatchesAsDrawn
from dpkit.course.explorers.batches_as_drawn import QUICK
from dpkit.course.explorers.explorer import LATER
from dpkit.privacy import as_drawn

VALUES = {
    "noise_multiplier": 1.0,
    "batch_size": 600.0,
    "data_size": 60_000.0,
    "steps": 100.0,
    "delta": 1e-5,
}


def test_rows_are_the_pairs_of_each_way():
    explorer = BatchesAsDrawn()
    result = explorer.compute(**VALUES)
    run = as_drawn.DrawnRun(1.0, 600, 60_000, 100)
    assert tuple(result["found"]) == QUICK
    assert LATER in explorer.table(result).text()
    result = explorer.late(result)
    assert list(result["found"]) == list(as_drawn.WAYS)
    assert result["found"]["shuffled"] == as_drawn.shuffled(run, delta=1e-5)
    pair = as_drawn.fixed(run, delta=1e-5)
    shown = explorer.table(result).text()
    assert interval(pair.lower, pair.epsilon) in shown

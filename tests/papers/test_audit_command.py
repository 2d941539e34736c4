"""audit: what is listed, what an attack prints, and bad input in one line."""

import json

import pytest

from dpkit.common.show import at_most
from dpkit.papers.commands.audit import ending
from dpkit.papers.experiments import store
from dpkit.papers.targets import chosen, results

pytestmark = pytest.mark.torch

ASKED = {"target", "claimed", "proven", "measured", "confidence", "adjacency"}
ASKED |= {"attack", "assumes", "trials", "seconds"}
HISTOGRAM = "audit run sampling/label-histogram"


def test_a_run_says_so_in_words(dpkit):
    code, out, _ = dpkit("audit run sampling/shuffled-1000-batches --repeat 2 --trials 100")
    assert code == 0
    for words in ("Attack: ", "charged 1.4", "measured", "Refuted", "Again: 2 of 2 runs"):
        assert words in out


def test_results_are_stored_and_listed(dpkit, results_folder):
    code, out, _ = dpkit("audit list")
    assert (code, "not yet" in out) == (0, True)
    code, out, _ = dpkit(f"{HISTOGRAM} --store --json")
    row = json.loads(out)
    assert set(row) >= ASKED
    assert (code, row["measured"], row["proven"]) == (0, "inf", "inf")
    rows = {row["target"]: row for row in json.loads(dpkit("audit list --json")[1])}
    stored = rows[row["target"]]
    assert (stored["target"], stored["measured"], stored["trials"]) == (
        *("sampling/label-histogram", "inf", 40),
    )
    assert rows["sampling/model-per-class"]["measured"] is None
    assert all(set(row) >= ASKED for row in rows.values())


def test_a_papers_last_table_has_all_its_epsilons_with_the_runs_scale_and_seeds():
    runs = store.load("small_images", "common", scale="reduced")
    shown = ending("small_images", runs, base="fewer steps", repaired="the same")
    stored = results.stored(chosen("small_images/published")[0])
    assert stored is not None
    published, mended = shown.rows
    assert published[:2] == ("as published", "")
    assert published[3] == at_most(stored["proven"])
    assert (published[5:], mended[5:]) == (("fewer steps", "3"), ("the same", "1"))
    assert all("delta 1e-5" in one for one in shown.notes[1:3])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("audit run nobody/nothing", "target must be one of dp_cgan, dpgan"),
        ("audit run dp_cgan/nothing", "target must be one of dp_cgan/published"),
        (f"{HISTOGRAM} --confidence 1", "confidence must lie in (0, 1)"),
        (f"{HISTOGRAM} --confidence nan", "confidence must lie in (0, 1)"),
        (f"{HISTOGRAM} --seed -1", "seed must be an integer >= 0"),
        (f"{HISTOGRAM} --repeat -1", "repeat must be an integer >= 0"),
    ],
)
def test_bad_input_is_one_line(dpkit, line, words):
    code, _, err = dpkit(line)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1

"""Claims chosen by paper and verdict; verdicts as `dpkit.claims.check` gives them."""

import json
import math
import subprocess
import sys
from types import ModuleType

import pytest

from dpkit import claims, papers, paths
from dpkit.claims import Claim, Curve, Evidence, Measured
from dpkit.explorers import Claims
from dpkit.explorers.claims import ALL, VERDICTS, checked, matching
from dpkit.show import at_most

EVERY = [claim for paper in papers.PAPERS for claim in paper.CLAIMS]


@pytest.fixture
def explorer() -> Claims:
    return Claims()


def claim_of(name: str, **changed) -> Claim:
    values = {
        "id": f"made_up/{name}",
        "where": "Table <1>",
        "says": "It is 1.",
        "stated": 1.0,
        "kind": "at most",
        "compute": lambda: 2.0,
        "explanation": "It is 2.",
    }
    return Claim(**(values | changed))


@pytest.fixture
def made_up(monkeypatch):
    """A paper whose claims a test fills in."""
    paper = ModuleType("made_up")
    monkeypatch.setattr(papers, "PAPERS", (*papers.PAPERS, paper))

    def fill(*several: Claim) -> Claims:
        paper.__dict__.update(NAME="made_up", TITLE="Made up (2020)", CLAIMS=several)
        return Claims()

    return fill


@pytest.mark.parametrize("claim", EVERY, ids=[claim.id for claim in EVERY])
def test_verdicts_are_those_of_the_library(claim):
    found = Claims.compute(paper=claim.paper, verdict=ALL, claim=claim.id)
    direct = claims.check(claim)
    assert found["verdict"] == direct.verdict
    assert found["explanation"] == direct.explanation
    assert found["computed"] == direct.computed or math.isnan(direct.computed)


def test_verdicts_part_the_claims():
    parts = [matching(ALL, verdict) for verdict in VERDICTS[1:]]
    assert sorted(id for part in parts for id in part) == sorted(claim.id for claim in EVERY)
    assert matching(ALL, ALL) == tuple(claim.id for claim in EVERY)


def test_a_claim_is_told_in_full(explorer):
    explorer.values["claim"].value = "dp_cgan/label-leak"
    told = repr(explorer)
    claim = explorer.result["claim"]
    found = claims.check(claim)
    for text in (claim.where, claim.says, "at most 9.6", "fails", found.explanation):
        assert text in told
    assert "DP-CGAN" in told
    assert at_most(found.computed, 7) in told


def test_filters_change_the_options_and_keep_a_choice_that_stays(explorer):
    control = explorer.values["claim"]
    control.value = "dp_cgan/notebook-log"
    explorer.values["verdict"].value = "holds"
    assert control.options == matching(ALL, "holds")
    assert control.value == "dp_cgan/notebook-log"
    explorer.values["verdict"].value = "fails"
    assert control.options == matching(ALL, "fails")
    assert control.value == control.options[0] == explorer.result["claim"].id
    assert "dp_cgan/notebook-log" not in explorer.numbers.value
    explorer.values["verdict"].value = ALL
    assert control.options == matching(ALL, ALL)
    explorer.values["paper"].value = "dp_cgan"
    assert control.options == matching("dp_cgan", ALL)


def test_nothing_chosen_is_a_sentence(made_up):
    explorer = made_up(claim_of("empty-filter"))
    explorer.values["paper"].value = "made_up"
    assert "made_up/empty-filter" in explorer.numbers.value
    explorer.values["verdict"].value = "holds"
    assert "role='alert'" in explorer.numbers.value
    assert "no claim of made_up" in explorer.numbers.value
    assert explorer.picture.value == b""
    assert explorer.values["claim"].options == ()
    assert explorer.values["claim"].value is None
    explorer.values["verdict"].value = "fails"
    assert explorer.values["claim"].value == "made_up/empty-filter"
    assert "alert" not in explorer.numbers.value


def test_verdicts_are_computed_once_and_only_when_asked_for(made_up):
    times = []
    explorer = made_up(claim_of("counted", compute=lambda: times.append(1) or 0.5))
    assert times == []  # another claim is shown
    explorer.values["paper"].value = "made_up"
    explorer.values["verdict"].value = "holds"
    explorer.values["verdict"].value = ALL
    assert times == [1]


def test_a_check_that_fails_cannot_be_checked(made_up):
    explorer = made_up(claim_of("not-a-number", compute=lambda: math.nan))
    explorer.values["paper"].value = "made_up"
    assert explorer.result["verdict"] == "cannot be checked"
    assert "came out as NaN" in explorer.numbers.value
    assert "<td style='text-align:left'>-</td>" in explorer.numbers.value


def test_a_stated_value_that_cannot_be_compared_is_shown_as_it_is(made_up):
    explorer = made_up(claim_of("left-open", kind="unchecked"))
    explorer.values["paper"].value = "made_up"
    assert explorer.result["verdict"] == "cannot be checked"
    assert explorer.result["computed"] == 2
    assert ("stated", "1") in explorer.table(explorer.result).rows


def test_evidence_that_arrives_is_read(made_up, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "results_dir", lambda: tmp_path)
    evidence = Evidence("made_up/evidence", {"n": 1}, lambda: Measured({"a": 0.5}, {}))
    claim = claim_of("evidence", evidence=evidence, compute=lambda values: values["a"])
    explorer = made_up(claim)
    explorer.values["paper"].value = "made_up"
    assert explorer.result["verdict"] == "cannot be checked"
    assert "Evidence is missing" in explorer.numbers.value
    path = evidence.path
    path.parent.mkdir(parents=True)
    record = {"values": {"a": 0.5}, "provenance": {"settings": {"n": 1}}}
    path.write_text(json.dumps(record), encoding="utf-8")
    assert checked(claim).verdict == "holds"
    path.write_text("[]", encoding="utf-8")
    assert Claims.compute(paper="made_up", verdict=ALL, claim=claim.id)["verdict"]


def test_a_curve_is_drawn_and_where_there_is_none_that_is_said(explorer):
    explorer.values["claim"].value = "dp_cgan/label-leak"
    leak = explorer.picture.value
    assert leak[:4] == b"\x89PNG"
    assert "Stated is 9.6" in explorer.words.value
    explorer.values["claim"].value = "dp_cgan/per-tensor-clipping"
    assert explorer.picture.value not in (b"", leak)
    explorer.values["claim"].value = "dp_cgan/generator-labels"
    assert explorer.picture.value == b""
    assert "no curve" in explorer.words.value
    assert "none" in explorer.numbers.value


def test_a_curve_without_finite_points_is_words(made_up):
    curve = Curve([1.0, 2.0], [math.inf, math.inf], "steps", "epsilon")
    explorer = made_up(claim_of("no-points", curve=lambda: curve))
    explorer.values["paper"].value = "made_up"
    assert explorer.picture.value == b""
    assert "is finite" in explorer.words.value


def test_import_checks_no_claim():
    code = (
        "from dpkit import claims; claims.check = None\n"
        "import dpkit.explorers.claims as c\n"
        "assert c._checked.cache_info().misses == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

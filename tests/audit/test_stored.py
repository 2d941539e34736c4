"""Stored audits are of today's targets, and say what today's accountants prove."""

import json
import math

import audit_pages
import pytest
from scipy.stats import binom

from dpkit.common.records import alike, json_number
from dpkit.papers.targets import results

pytestmark = [pytest.mark.torch, pytest.mark.stored]
TARGETS = tuple(audit_pages.every())
every_target = pytest.mark.parametrize("target", TARGETS, ids=[one.id for one in TARGETS])


@every_target
def test_a_result_is_stored_and_its_epsilons_are_todays(target):
    row = results.stored(target)
    assert row is not None, f"{target.id} is to be attacked again, and stored"
    said = {"claimed": target.claimed, "charged": target.charged}
    assert alike({name: row[name] for name in said}, said, within=1e-6)
    proven = target.proven()
    assert alike(row["proven"], json_number(proven.epsilon), within=1e-6)
    assert (proven.delta, proven.adjacency) == (target.delta, target.adjacency)
    assert json.loads(json.dumps(target.settings)) == target.settings
    assert row["refuted"] == (target.said is not None and float(row["measured"]) > target.said)


def test_bounds_are_above_what_is_proven_as_rarely_as_they_should_be():
    """Each with probability 5 % at most: so many of all, with one of 1,000 if independent."""
    rows = [results.stored(target) for target in TARGETS]
    above = [row["target"] for row in rows if row and float(row["measured"]) > float(row["proven"])]
    assert len(above) <= binom.ppf(0.999, len(rows), 0.05), above


@every_target
def test_an_honest_attack_fails_against_a_valid_guarantee(target):
    """Of 200 stored repetitions at least 95 % were at most the proven epsilon."""
    if math.isinf(target.proven().epsilon):
        pytest.skip("nothing finite is proven")
    row = results.stored(target)
    assert row is not None
    again = row["repetitions"]
    assert again["times"] >= 200
    assert again["at_most_proven"] >= 0.95 * again["times"]


def test_targets_have_names_of_their_own_and_the_kits_own_say_nothing():
    assert len({target.id for target in TARGETS}) == len(TARGETS)
    kits = [one for one in TARGETS if one.group in ("mechanisms", "training", "baselines")]
    assert {one.said for one in kits} == {None}


def test_at_least_eight_published_variants_are_refuted():
    rows = [results.stored(target) for target in TARGETS if target.version == "published"]
    assert sum(row is not None and row["refuted"] for row in rows) >= 8


def test_each_papers_main_run_is_attacked_as_published_and_repaired():
    from dpkit.papers import PAPERS
    from dpkit.privacy import pld

    by_id = {target.id: target for target in TARGETS}
    for paper in PAPERS:
        run = paper.claims.main_run()
        for version in ("published", "repaired"):
            target = by_id[f"{paper.NAME}/{version}"]
            proven = pld.epsilon(getattr(run, version), delta=target.delta)
            assert target.proven().epsilon == pytest.approx(proven.epsilon, rel=1e-6)
            assert target.adjacency == proven.adjacency
            assert target.claimed == run.claimed or paper.NAME == "small_images"

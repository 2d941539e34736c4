"""Every stored part has today's settings, and costs what today's accountants say, anywhere."""

import json
from collections import defaultdict
from math import nan
from typing import Any

import pytest

from dpkit import datasets, papers
from dpkit.common import files
from dpkit.common.progress import silent
from dpkit.common.records import SETTINGS, alike, read_json
from dpkit.papers import comparison
from dpkit.papers.experiments import store

# Runs whose settings, of a thousand noises each, come from today's calibration to what they claim:
# settings that are alike cost that, and pricing them again would take minutes.
CALIBRATED = {("rdp_gan", "figure_9"), ("rdp_gan", "figure_10")}
# Of many calibrations: half a minute each, so not with every emulated processor.
SLOW = {("rdp_gan", name) for name in ("figure_9", "figure_10", "table_4", "table_5")}
LATER = pytest.mark.slow("a stored run whose thousand calibrated noises are no longer today's")
TABLES = sorted(
    folder.relative_to(files.results_dir()).parts
    for paper in (*papers.PAPERS, comparison)
    for folder in files.results_dir().glob(f"{paper.__name__.rpartition('.')[2]}/*/*")
    if folder.is_dir()
)


def test_there_are_stored_parts_of_every_paper():
    assert len({paper for paper, _, _ in TABLES}) == len(papers.PAPERS) + 1


@pytest.mark.stored
@pytest.mark.parametrize(
    ("paper", "table", "scale"),
    [pytest.param(*one, marks=LATER if one[:2] in SLOW else ()) for one in TABLES],
)
def test_stored_parts_are_todays(paper: str, table: str, scale: str):
    plans = comparison.experiments.PLANS if paper == "comparison" else papers.plans_of(paper)
    found = store.load(paper, table, scale=scale)
    seeds = 1 + max(record["provenance"]["seed"] or 0 for record in found.values())
    priced: dict[str, dict[str, Any]] = {}
    for part in plans[table](scale=scale, seeds=seeds, device="cpu", progress=silent):
        if record := found.pop(part.name, None):
            stored = record["provenance"]["settings"]
            assert alike(stored, part.settings, within=SETTINGS), part.name
            if (paper, table) in CALIBRATED:
                claimed, proven = (record["values"][f"epsilon_{x}"] for x in ("claimed", "proven"))
                assert 0.995 * claimed < proven <= claimed, part.name
            elif part.prices is not None:
                values = record["values"]
                asked = part.settings.get("gan", part.settings), values.get("steps")
                key = json.dumps([*asked, values.get("curve")], sort_keys=True)
                if key not in priced:  # once for the same settings, steps and curve
                    priced[key] = part.prices(values)
                prices = {name: one for name, one in priced[key].items() if name != "method"}
                # ("method" names the best order, which a flat curve leaves open)
                assert alike({name: values.get(name) for name in prices}, prices), part.name
    assert not found, "stored parts that no plan has"


def test_stored_results_were_made_from_the_same_files():
    checksums: dict[str, set[str]] = defaultdict(set)
    for path in files.results_dir().rglob("*.json"):
        for name, checksum in read_json(path)["provenance"]["data"].items():
            checksums[name].add(checksum)
    assert {name: len(found) for name, found in checksums.items() if len(found) > 1} == {}
    assert checksums["mnist"] == checksums["mnist train"]
    assert checksums["digits"] == {datasets.digits(split="train").checksum}


def test_last_digits_are_alike_and_other_settings_are_not():
    noise = {"start": 15.18191544508661, "of": [0.5, 3]}
    stored = {"noise": noise, "name": "exp", "none": None}
    assert alike(stored, stored | {"noise": noise | {"start": 15.18191544508822}})
    for other in (
        *(stored | {"noise": noise | {"start": x}} for x in (15.1820, -15.18191544508661, nan)),
        *(stored | {"noise": noise | {"of": of}} for of in ([3, 0.5], [0.5])),
        *(stored | {"name": "step"}, stored | {"none": 0}, {"noise": noise, "name": "exp"}),
    ):
        assert not alike(stored, other)
        assert not alike(other, stored)

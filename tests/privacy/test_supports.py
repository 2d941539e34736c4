"""The supports matrix is what the accountants do, in both directions, and leaves nothing out."""

import json
import math

import pytest
from truths import dataclasses_with

import dpkit.privacy
from dpkit import __main__ as command_line
from dpkit.privacy import Guarantee, Release, SampledGaussian, Unsupported, sampling, supports
from dpkit.privacy.accountants import composition, gdp, moments, pld, rdp
from dpkit.privacy.mechanisms import ADJACENCIES
from dpkit.privacy.sampling import SHUFFLED_AS_POISSON
from dpkit.privacy.supports import SupportRow

EPSILONS = {"rdp": rdp.epsilon, "pld": pld.epsilon, "moments": moments.epsilon, "gdp": gdp.epsilon}
EPSILONS |= {"basic": composition.basic, "advanced": composition.advanced}


@pytest.fixture(scope="module")
def asked() -> tuple[list[SupportRow], dict[tuple[str, ...], Guarantee]]:
    """The matrix, and what the accountants said as it was made."""
    price, said = supports.price, {}

    def heard(*case: str) -> Guarantee:
        said[case] = price(*case)
        return said[case]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supports, "price", heard)
        return supports.matrix(), said


def find(rows: list[SupportRow], **wanted: str) -> list[SupportRow]:
    return [row for row in rows if wanted.items() <= row._asdict().items()]


def test_it_has_every_mechanism_and_way_to_draw_batches(asked):
    rows, kinds = asked[0], dataclasses_with("privacy_loss", "release")
    found = {kind.__name__ for kind in kinds}
    found.remove("Assuming")  # which is priced as another is
    assert {"Laplace", "ShuffledBatches", "FixedSizeBatches", "Parallel"} <= found
    assert {row.mechanism for row in rows} == found | {"ShuffledBatches as Poisson"}
    cases = {row[:3] for row in rows}
    assert len(cases) == len(rows) == len(supports.EXAMPLES) * len(ADJACENCIES) * len(EPSILONS)


STEPLESS = ("ShuffledBatches", "BallsAndBins")
ADD_REMOVE = (
    "WithReplacementGaussian",
    "BallsAndBinsGaussian",
    "GroupSampledGaussian",
    "PoissonSampled",
    "WithReplacement",
)


def test_the_examples_are_what_their_names_say():
    for name, example in supports.EXAMPLES.items():
        if name in ADD_REMOVE:
            assert example("add-remove").adjacency == "add-remove"
            continue
        made = example("replace-one") if name not in STEPLESS else None
        if hasattr(dpkit.privacy, name) or name in ("Parallel", "BestOf"):
            assert type(made).__name__ == name
        assert made is None or made.adjacency == "replace-one"


def test_what_is_supported_has_a_finite_price_with_all_that_is_assumed(asked):
    rows, said = asked
    assert {row[:3] for row in rows if row.supported} == said.keys()
    for row in rows:
        if not row.supported:
            continue
        found = said[row[:3]]
        assert isinstance(found, Guarantee)
        assert found.adjacency == row.adjacency
        if row.mechanism == "NoGuarantee":
            assert found.epsilon == math.inf
            assert row.reason.startswith("epsilon is infinite; no guarantee: ")
        else:
            assert 0 < found.epsilon < math.inf
        assert (gdp.APPROXIMATE in found.assumptions) == ("not an upper bound" in row.reason)
        assert (SHUFFLED_AS_POISSON in found.assumptions) == (SHUFFLED_AS_POISSON in row.reason)


def test_what_is_not_supported_raises_its_reason(asked):
    """By the accountant itself. The mechanism may refuse when it is made, or when it is priced."""
    refused = [row for row in asked[0] if not row.supported]
    assert len(refused) > 20
    for row in refused:
        with pytest.raises(Unsupported) as error:
            EPSILONS[row.accountant](
                [Release(supports.EXAMPLES[row.mechanism](row.adjacency), 2)], delta=1e-5
            )
        assert str(error.value) == row.reason
        assert len(row.reason) > 20


def test_rows_that_are_known_from_theory(asked):
    """Anchors that do not come from the code: if one of these turns, the matrix is wrong."""
    rows, _ = asked
    for name in ("Gaussian", "SampledGaussian", "ShuffledBatches as Poisson"):
        assert all(row.supported for row in find(rows, mechanism=name))
    fixed = find(rows, mechanism="FixedSizeBatches")
    known = [("replace-one", name) for name in ("rdp", "pld", "moments", "basic", "advanced")]
    assert [row[1:3] for row in fixed if row.supported] == known
    for name in STEPLESS:
        assert not any(row.supported for row in find(rows, mechanism=name))
    local = find(rows, mechanism="RandomizedResponse", adjacency="add-remove")
    assert not any(row.supported for row in local)
    # the CLT of Gaussian DP is an approximation where there is sampling, and nowhere else
    told = {row.mechanism for row in rows if "not an upper bound" in row.reason}
    poisson = {"SampledGaussian", "GroupedGaussian", "PoissonSampling"}
    assert told == poisson | {"ShuffledBatches as Poisson"}


def test_a_mechanism_that_loses_a_price_changes_the_matrix(monkeypatch: pytest.MonkeyPatch):
    def refuse(self):
        raise Unsupported("this price was taken away for a test")

    monkeypatch.setattr(SampledGaussian, "privacy_loss", refuse)
    drawn = {"PoissonSampling": supports.EXAMPLES["PoissonSampling"]}
    monkeypatch.setattr(supports, "EXAMPLES", drawn)
    changed = {row.accountant: row for row in find(supports.matrix(), adjacency="add-remove")}
    assert {name for name, row in changed.items() if not row.supported} == {"pld"}
    assert changed["pld"].reason == "this price was taken away for a test"


def test_an_infinite_price_of_what_has_a_guarantee_is_a_failed_computation(monkeypatch):
    infinite = Guarantee(math.inf, 0.0, 1e-5, "add-remove", "none", ())
    monkeypatch.setattr(supports, "ACCOUNTANTS", {"none": lambda ledger, delta: infinite})
    with pytest.raises(ArithmeticError, match="none gives Gaussian under add-remove no finite"):
        supports.matrix()


def test_an_example_that_is_wrong_is_not_taken_for_unsupported():
    bad = sampling.PoissonSampling(5)
    object.__setattr__(bad, "expected_batch_size", math.nan)
    with pytest.raises(ValueError, match="expected_batch_size must be an integer >= 1") as error:
        supports._under(bad, "replace-one")
    assert not isinstance(error.value, Unsupported)


def test_the_command_shows_it_as_a_table_and_as_json(monkeypatch, capsys):
    cells = [("Gaussian", True, ""), ("Gaussian", False, "why not")]
    cells += [("Laplace", True, "why not"), ("Laplace", True, "nearly")]
    rows = [
        SupportRow(name, "add-remove", accountant, *cell)
        for (name, *cell), accountant in zip(cells, ("rdp", "pld") * 2, strict=True)
    ]
    monkeypatch.setattr(supports, "matrix", lambda: rows)
    shown = []
    for line in (["supports"], ["supports", "--json"]):
        with pytest.raises(SystemExit) as stopped:
            command_line.main(line)
        assert stopped.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0].splitlines() == [
        "mechanism  adjacency   rdp      pld",
        "Gaussian   add-remove  yes      no [1]",
        "Laplace    add-remove  yes [1]  yes [2]",
        "",
        "[1] why not",
        "[2] nearly",
    ]
    assert json.loads(shown[1]) == [row._asdict() for row in rows]

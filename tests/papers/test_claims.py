"""Verdicts follow from kind and tolerance; evidence is stored with its inputs, or missing."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dpkit.common import files, records
from dpkit.papers import with_claims
from dpkit.papers.claims import (
    CAUSES,
    Claim,
    Code,
    Evidence,
    Measured,
    as_json,
    check,
    check_all,
    counted,
    outcome,
    with_code,
)


def claim(**changes) -> Claim:
    fields = {
        "id": "paper/name",
        "where": "Table 1",
        "says": "something",
        "stated": 9.6,
        "kind": "at most",
        "compute": lambda: 5.0,
        "explanation": "so it is",
    }
    return Claim(**(fields | changes))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "results_dir", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "stated", "computed", "verdict"),
    [
        ("at most", 9.6, 9.6, "holds"),
        ("at most", 9.6, 9.605, "holds"),
        ("at most", 9.6, 9.62, "fails"),
        ("at most", 9.6, math.inf, "fails"),
        ("at least", 9.6, 9.595, "holds"),
        ("at least", 9.6, 9.58, "fails"),
        ("equals", 9.6, 9.605, "holds"),
        ("equals", 9.6, 9.58, "fails"),
        ("equals", 9.6, math.inf, "fails"),
        ("computed", None, 1e9, "computed"),
        ("computed", None, math.inf, "computed"),
    ],
)
def test_verdicts(kind, stated, computed, verdict):
    one = claim(kind=kind, stated=stated, tolerance=0.01, compute=lambda: computed)
    assert check(one).verdict == verdict
    assert check(one).computed == computed


@pytest.mark.parametrize("stated", [9.6, None])
def test_what_the_paper_leaves_open_stands_beside_what_is_computed(stated):
    found = check(claim(kind="unchecked", stated=stated, compute=lambda: 9.6))
    assert found.verdict == "cannot be checked"
    assert as_json(found)["stated"] == stated
    assert as_json(found)["computed"] == 9.6


@pytest.mark.parametrize(("computed", "verdict"), [(0.0, "fails"), (1e-9, "holds")])
def test_what_is_said_in_words_is_decided_by_what_a_reader_believes(computed, verdict):
    one = claim(kind="in words", stated=None, compute=lambda: computed, believed=lambda x: x > 0)
    assert check(one).verdict == verdict


@pytest.mark.parametrize(
    ("computed", "verdict", "shown"),
    [
        (3e-16, "fails", "below 1e-12"),
        (-3e-16, "fails", "below 1e-12"),
        (-2e-12, "fails", "-2e-12"),
        (2e-12, "holds", "2e-12"),
        (math.inf, "holds", "none"),
    ],
)
def test_what_is_only_rounding_counts_as_zero(computed, verdict, shown):
    """No processor rounds as another does: such a value must not be printed."""
    fields = {"kind": "in words", "stated": None, "believed": lambda x: x > 0}
    found = check(claim(**fields, compute=lambda: computed, rounding=1e-12))
    assert found.verdict == verdict
    assert found.claim.shown(found.computed) == shown
    assert found.claim.shown(math.nan) == ""
    assert (as_json(found)["computed"] == shown) == (found.computed == 0)
    assert claim().shown(0.0) == "0"


@pytest.mark.parametrize(("area", "words"), [(1e-12, "below 1e-9"), (0.25, "0.2"), (-0.3, "-0.3")])
def test_an_explanation_says_below_only_where_it_is(results: Path, area: float, words: str):
    evidence = Evidence("paper/name", {}, lambda: Measured({"area": area}, {}))
    one = claim(
        compute=lambda values: values["area"], explanation="{area:<1e-9}", evidence=evidence
    )
    assert check(one, recompute=True).explanation == words


def test_counts_are_by_verdict_and_leave_out_what_there_is_none_of():
    compare = [claim(compute=lambda value=value: value) for value in (1.0, 99.0, 2.0)]
    one = claim(kind="computed", stated=None)
    assert counted(map(check, [*compare, one])) == "2 hold, 1 fails, 1 computed"


@pytest.mark.parametrize("kind", ["equals", "at most", "at least"])
def test_no_value_that_is_not_a_number_bears_a_claim_out(kind):
    assert outcome(claim(kind=kind), math.nan) == "fails"


def test_a_value_that_is_not_a_number_is_an_error():
    with pytest.raises(ArithmeticError, match="paper/name came out as NaN"):
        check(claim(compute=lambda: math.nan))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kind": "about"},
            "kind must be one of equals, at most, at least, in words, computed, unchecked;",
        ),
        ({"tolerance": -1.0}, "tolerance must be a finite number >= 0"),
        ({"tolerance": math.nan}, "tolerance must be a finite number >= 0"),
        ({"rounding": -1.0}, "rounding must be a finite number >= 0"),
        ({"stated": None}, "needs a stated value"),
        ({"kind": "computed"}, "takes no stated value"),
        ({"kind": "in words", "stated": None}, "`believed` go together"),
        ({"believed": math.isfinite}, "`believed` go together"),
        ({"rounding": 1e-12}, "takes no `rounding`"),
        ({"id": "name"}, "id must be <paper>/<name>, got 'name'"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused(changes, message: str):
    with pytest.raises(ValueError, match=message):
        claim(**changes)


CODE = Code(was="noise_std = z * C * C", should="noise_std = z * C", cause="noise")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"was": ""}, "was must be 1 to 3 lines of code, got ''"),
        ({"should": "a\n\nb"}, "should must be 1 to 3 lines"),
        ({"was": "a\nb\nc\nd"}, "was must be 1 to 3 lines"),
        ({"was": CODE.should}, "was and should must differ"),
        ({"cause": "haste"}, "cause must be one of sensitivity"),
    ],
)
def test_lines_of_code_that_show_nothing_are_refused(changes, message: str):
    with pytest.raises(ValueError, match=message):
        replace(CODE, **changes)


def test_a_claim_gets_its_line_of_code_by_its_name():
    both = (claim(id="paper/of-code"), claim(id="paper/other"))
    found = with_code(both, {"of-code": CODE})
    assert [one.code for one in found] == [CODE, None]
    assert with_code(found, {}) == found
    written = as_json(check(found[0]))
    assert written["code"] == {"was": CODE.was, "should": CODE.should, "cause": "noise"}
    assert as_json(check(found[1]))["code"] is None
    with pytest.raises(ValueError, match="lines name claims that there are not: unheard-of"):
        with_code(both, {"unheard-of": CODE})


def with_evidence(measure: Callable[[], Measured], **inputs) -> Claim:
    return claim(
        compute=lambda values: values["area"],
        explanation="the area is {area:.2f}",
        evidence=Evidence("paper/name", inputs, measure),
    )


def test_evidence_is_stored_read_and_made_anew(results: Path):
    areas = iter([1.25, 1.5])
    one = with_evidence(lambda: Measured({"area": next(areas)}, {"set": "ab12"}), size=3)
    missing = check(one)
    assert missing.verdict == "cannot be checked"
    assert "--recompute" in missing.explanation
    assert as_json(missing)["computed"] is None
    path = results / "claims" / "paper-name.json"
    for area in (1.25, 1.25, 1.5):
        verdict = check(one, recompute=area == 1.5 or not path.exists())
        assert verdict.computed == area
        assert verdict.explanation == f"the area is {area:.2f}"
    record = json.loads(path.read_text())
    assert record["provenance"]["settings"] == {"size": 3}
    assert record["provenance"]["data"] == {"set": "ab12"}


def test_evidence_made_with_other_inputs_is_not_used(results: Path):
    one = with_evidence(lambda: Measured({"area": 1.0}, {}), size=3)
    assert check(one, recompute=True).verdict == "holds"
    other = replace(one, evidence=Evidence("paper/name", {"size": 4}, lambda: Measured({}, {})))
    assert check(other).verdict == "cannot be checked"


def test_claims_share_a_record_that_is_measured_again_once(results: Path):
    areas = iter([1.25, 1.5])
    one = with_evidence(lambda: Measured({"area": next(areas)}, {}))
    both = (one, replace(one, id="paper/other"))
    for area in (1.25, 1.5):
        assert [found.computed for found in check_all(both, recompute=True)] == [area, area]
    assert [path.name for path in (results / "claims").iterdir()] == ["paper-name.json"]
    assert check(both[1]).computed == 1.5


def test_a_damaged_record_is_an_error_that_names_it(results: Path):
    one = with_evidence(lambda: Measured({"area": 1.0}, {}))
    check(one, recompute=True)
    (results / "claims" / "paper-name.json").write_text("{")
    with pytest.raises(ValueError, match=r"paper-name\.json is not valid JSON"):
        check(one)


EVERY = [one for paper in with_claims() for one in paper.CLAIMS]
STORED = records.read_json(Path(__file__).parent / "claims.json")  # by `make readme`


def test_only_a_finite_value_is_merely_computed():
    """A guarantee that does not exist contradicts somebody: such a claim fails."""
    values = [one["computed"] for one in STORED.values() if one["verdict"] == "computed"]
    assert values
    assert all(isinstance(value, float) for value in values)


def test_the_claims_are_the_stored_ones():
    assert sorted(one.id for one in EVERY) == sorted(STORED), "run `make readme`"


def test_claims_that_fail_because_of_a_line_show_it():
    """What is left out are numbers of tables and an experiment, which no line explains."""
    without = {one.id for one in EVERY if one.code is None}
    failing = {name for name, one in STORED.items() if one["verdict"] == "fails"}
    tables = ("rdp_gan/table-4", "rdp_gan/table-5", "rdp_gan/sigma-10-is", "adadp/cosine-")
    tables += ("dpgan/more-than", "dpgan/almost", "dpgan/steadily")
    tables += ("dp_cgan/table-1-", "dp_cgan/about-5", "rdp_gan/adult-", "rdp_gan/table-gains")
    tables += ("rdp_gan/larger-batch", "rdp_gan/tighter-than", "rdp_gan/step-without-floor")
    tables += ("small_images/cifar10", "small_images/xie-algorithm-published")
    assert [name for name in without & failing if not name.startswith(tables)] == []
    assert {one.code.cause for one in EVERY if one.code} == set(CAUSES)
    assert max(len(line) for one in EVERY if one.code for line in lines_of(one.code)) <= 56


def lines_of(code: Code) -> list[str]:
    return [*code.was.splitlines(), *code.should.splitlines()]


@pytest.mark.stored
@pytest.mark.parametrize("one", EVERY, ids=lambda c: c.id)
def test_every_claim_can_be_checked_and_written(one: Claim):
    written = as_json(check(one))
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    stored = STORED[one.id]
    for key, value in stored.items():
        number = isinstance(value, float)  # None, "inf" and verdicts are compared as they are
        assert written[key] == (pytest.approx(value, rel=1e-6) if number else value)
    for key in ("where", "says", "explanation"):
        assert len(written[key]) > 10
        assert not re.search(r"[{}]|\bnan\b", written[key])
    if one.curve is not None:
        curve = one.curve()
        assert len(curve.x) == len(curve.y) > 2
        assert all(map(math.isfinite, [*curve.x, *curve.y]))

"""Verdicts follow from kind and tolerance; evidence is stored with its inputs, or missing."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from refusals import refused

from dpkit.common import records
from dpkit.papers import claims, with_claims


def claim(**changes) -> claims.Claim:
    fields = {"id": "paper/name", "where": "Table 1", "says": "something", "stated": 9.6}
    fields |= {"kind": "at most", "compute": lambda: 5.0, "explanation": "so it is"}
    return claims.Claim(**(fields | changes))


@pytest.mark.parametrize(
    ("kind", "holds", "fails"),
    [
        *(("at most", (9.6, 9.605), (9.62, math.inf)), ("at least", (9.6, 9.595), (9.58,))),
        ("equals", (9.605,), (9.58, math.inf)),
    ],
)
def test_verdicts_are_by_the_stated_number_and_nan_bears_none_out(kind, holds, fails):
    one = claim(kind=kind, tolerance=0.01)
    assert {claims.outcome(one, value) for value in holds} == {"holds"}
    assert {claims.outcome(one, value) for value in (*fails, math.nan)} == {"fails"}
    found = claims.check(replace(one, compute=lambda: fails[-1]))
    assert (found.computed, found.verdict) == (fails[-1], "fails")
    with pytest.raises(ArithmeticError, match="paper/name came out as NaN"):
        claims.check(replace(one, compute=lambda: math.nan))


WORDS = {"kind": "in words", "stated": None, "believed": lambda x: x > 0}


@pytest.mark.parametrize(
    ("changes", "computed", "verdict"),
    [
        ({"kind": "computed", "stated": None}, 1e9, "computed"),
        ({"kind": "computed", "stated": None}, math.inf, "computed"),
        ({"kind": "unchecked"}, 9.6, "cannot be checked"),
        ({"kind": "unchecked", "stated": None}, 9.6, "cannot be checked"),
        *((WORDS, 0.0, "fails"), (WORDS, 1e-9, "holds")),
    ],
)
def test_where_no_number_decides_both_stand_side_by_side(changes, computed, verdict):
    found = claims.check(claim(**changes, compute=lambda: computed))
    assert (found.verdict, found.computed) == (verdict, computed)
    written = claims.as_json(found)
    wanted = changes.get("stated", 9.6), records.json_number(computed)
    assert (written["stated"], written["computed"]) == wanted


@pytest.mark.parametrize(
    ("computed", "verdict", "shown"),
    [
        *((3e-16, "fails", "below 1e-12"), (-3e-16, "fails", "below 1e-12")),
        *((-2e-12, "fails", "-2e-12"), (2e-12, "holds", "2e-12"), (math.inf, "holds", "none")),
    ],
)
def test_what_is_only_rounding_counts_as_zero(computed, verdict, shown):
    """No processor rounds as another does: such a value must not be printed."""
    found = claims.check(claim(**WORDS, compute=lambda: computed, rounding=1e-12))
    assert (found.verdict, found.claim.shown(found.computed)) == (verdict, shown)
    assert found.claim.shown(math.nan) == ""
    assert (claims.as_json(found)["computed"] == shown) == (found.computed == 0)
    assert claim().shown(0.0) == "0"


@pytest.mark.parametrize(("area", "words"), [(1e-12, "below 1e-9"), (0.25, "0.2"), (-0.3, "-0.3")])
def test_an_explanation_says_below_only_where_it_is(results_folder: Path, area: float, words: str):
    evidence = claims.Evidence("paper/name", {}, lambda: claims.Measured({"area": area}, {}))
    one = claim(compute=lambda found: found["area"], explanation="{area:<1e-9}", evidence=evidence)
    assert claims.check(one, recompute=True).explanation == words


def test_counts_are_by_verdict_and_leave_out_what_there_is_none_of():
    compare = [claim(compute=lambda value=value: value) for value in (1.0, 99.0, 2.0)]
    one = claim(kind="computed", stated=None)
    assert claims.counted(map(claims.check, [*compare, one])) == "2 hold, 1 fails, 1 computed"


CODE = claims.Code(was="noise_std = z * C * C", should="noise_std = z * C", cause="noise")

test_claims_that_cannot_be_judged_and_lines_that_show_nothing_are_refused = refused(
    (claim, {"kind": "about"}, "kind must be one of equals, at most, at least, in words, comp"),
    (claim, {"tolerance": -1.0}, "tolerance must be a finite number >= 0"),
    (claim, {"tolerance": math.nan}, "tolerance must be a finite number >= 0"),
    (claim, {"rounding": -1.0}, "rounding must be a finite number >= 0"),
    (claim, {"stated": None}, "needs a stated value"),
    (claim, {"kind": "computed"}, "takes no stated value"),
    (claim, {"kind": "in words", "stated": None}, "alone takes `believed`"),
    (claim, {"believed": math.isfinite}, "alone takes `believed`"),
    (claim, {"rounding": 1e-12}, "takes no `rounding`"),
    (claim, {"id": "name"}, "id must be <paper>/<name>, got 'name'"),
    (partial(replace, CODE), {"was": ""}, "was must be 1 to 3 lines of code, got ''"),
    (partial(replace, CODE), {"should": "a\n\nb"}, "should must be 1 to 3 lines"),
    (partial(replace, CODE), {"was": "a\nb\nc\nd"}, "was must be 1 to 3 lines"),
    (partial(replace, CODE), {"was": CODE.should}, "was and should must differ"),
    (partial(replace, CODE), {"cause": "haste"}, "cause must be one of sensitivity"),
    call=lambda build, changes: build(**changes),
)


@pytest.mark.parametrize("code", [CODE, None])
def test_the_command_line_has_a_claims_line_of_code(code):
    written = claims.as_json(claims.check(claim(code=code)))["code"]
    assert written == (code and {"was": CODE.was, "should": CODE.should, "cause": "noise"})


def with_evidence(*areas: float, **inputs) -> claims.Claim:
    """A claim whose measurements are these areas, one after another."""
    values = iter(areas)
    return claim(
        compute=lambda values: values["area"],
        explanation="the area is {area:.2f}",
        evidence=claims.Evidence(
            "paper/name", inputs, lambda: claims.Measured({"area": next(values)}, {"set": "ab12"})
        ),
    )


def test_evidence_is_stored_read_and_made_anew(results_folder: Path):
    one = with_evidence(1.25, 1.5, size=3)
    missing = claims.check(one)
    assert missing.verdict == "cannot be checked"
    assert "--recompute" in missing.explanation
    assert claims.as_json(missing)["computed"] is None
    path = results_folder / "claims" / "paper-name.json"
    for area in (1.25, 1.25, 1.5):
        verdict = claims.check(one, recompute=area == 1.5 or not path.exists())
        assert (verdict.computed, verdict.explanation) == (area, f"the area is {area:.2f}")
    record = json.loads(path.read_text())
    assert record["provenance"]["settings"] == {"size": 3}
    assert record["provenance"]["data"] == {"set": "ab12"}


def test_evidence_of_other_inputs_is_not_used_and_a_damaged_record_is_named(results_folder: Path):
    one = with_evidence(1.0, size=3)
    assert claims.check(one, recompute=True).verdict == "holds"
    assert claims.check(with_evidence(size=4)).verdict == "cannot be checked"
    (results_folder / "claims" / "paper-name.json").write_text("{")
    with pytest.raises(ValueError, match=r"paper-name\.json is not valid JSON"):
        claims.check(one)


def test_claims_share_a_record_that_is_measured_again_once(results_folder: Path):
    one = with_evidence(1.25, 1.5)
    both = (one, replace(one, id="paper/other"))
    for area in (1.25, 1.5):
        assert [found.computed for found in claims.check_all(both, recompute=True)] == [area, area]
    assert [path.name for path in (results_folder / "claims").iterdir()] == ["paper-name.json"]
    assert claims.check(both[1]).computed == 1.5


EVERY = [one for paper in with_claims() for one in paper.CLAIMS]
STORED = records.read_json(Path(__file__).parent / "claims.json")  # by `make readme`


def test_the_claims_are_the_stored_ones_and_only_a_finite_value_is_merely_computed():
    """A guarantee that does not exist contradicts somebody: such a claim fails."""
    assert sorted(one.id for one in EVERY) == sorted(STORED), "run `make readme`"
    values = [one["computed"] for one in STORED.values() if one["verdict"] == "computed"]
    assert values
    assert all(isinstance(value, float) for value in values)


def test_claims_that_fail_because_of_a_line_show_it():
    """What is left out are numbers of tables and an experiment, which no line explains."""
    without = {one.id for one in EVERY if one.code is None}
    failing = {name for name, one in STORED.items() if one["verdict"] == "fails"}
    tables = (
        *("rdp_gan/table-4", "rdp_gan/table-5", "rdp_gan/sigma-10-is", "adadp/cosine-"),
        *("dpgan/more-than", "dpgan/almost", "dpgan/steadily", "rdp_gan/larger-batch"),
        *("dp_cgan/table-1-", "dp_cgan/about-5", "rdp_gan/adult-", "rdp_gan/table-gains"),
        *("rdp_gan/tighter-than", "rdp_gan/step-without-floor", "small_images/cifar10"),
        "small_images/xie-algorithm-published",
    )
    assert [name for name in without & failing if not name.startswith(tables)] == []
    codes = [one.code for one in EVERY if one.code]
    assert {code.cause for code in codes} == set(claims.CAUSES)
    lines = [line for code in codes for line in f"{code.was}\n{code.should}".split("\n")]
    assert max(map(len, lines)) <= 56


@pytest.mark.stored
@pytest.mark.parametrize("one", EVERY, ids=lambda c: c.id)
def test_every_claim_can_be_checked_and_written(one: claims.Claim):
    written = claims.as_json(claims.check(one))
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

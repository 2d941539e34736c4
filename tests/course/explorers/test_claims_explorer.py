"""Claims chosen by paper, verdict and word; verdicts as `dpkit.papers.claims.check` gives them."""

import json
import math
import subprocess
import sys
from html import escape
from pathlib import Path
from types import ModuleType

import pytest

from dpkit import papers
from dpkit.common.show import at_most
from dpkit.course.explorers import ClaimsWall, claims_wall
from dpkit.course.explorers.claims_wall import ALL, LOOKS, VERDICTS, card, checked, matching
from dpkit.papers import claims
from dpkit.papers.claims import Claim, Code, Curve, Evidence, Measured

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"
EVERY = [claim for paper in papers.with_claims() for claim in paper.CLAIMS]


@pytest.fixture
def explorer() -> ClaimsWall:
    return ClaimsWall()


def claim_of(name: str, **changed) -> Claim:
    values = {
        **{"id": f"made_up/{name}", "where": "Table <1>", "says": "It is 1.", "stated": 1.0},
        **{"kind": "at most", "compute": lambda: 2.0, "explanation": "It is 2."},
    }
    return Claim(**(values | changed))


@pytest.fixture
def made_up(monkeypatch):
    """A paper whose claims a test fills in."""
    paper = ModuleType("made_up")
    monkeypatch.setattr(papers, "PAPERS", (*papers.PAPERS, paper))

    def fill(*several: Claim) -> ClaimsWall:
        paper.__dict__.update(NAME="made_up", TITLE="Made up (2020)", CLAIMS=several)
        return ClaimsWall()

    return fill


@pytest.mark.parametrize("claim", EVERY, ids=[claim.id for claim in EVERY])
def test_verdicts_are_those_of_the_library(claim):
    found = ClaimsWall.compute(paper=claim.paper, verdict=ALL, word="", claim=claim.id)
    direct = claims.check(claim)
    assert (found["verdict"], found["explanation"]) == (direct.verdict, direct.explanation)
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
    assert at_most(found.computed) in told
    for line in (claim.code.was, claim.code.should, "10_dp_cgan_tables.ipynb"):
        assert line in told


def test_filters_change_the_options_and_keep_a_choice_that_stays(explorer):
    control = explorer.values["claim"]
    control.value = "dp_cgan/notebook-log"
    explorer.values["verdict"].value = "holds"
    assert (control.options, control.value) == (matching(ALL, "holds"), "dp_cgan/notebook-log")
    explorer.values["verdict"].value = "fails"
    assert control.options == matching(ALL, "fails")
    assert control.value == control.options[0] == explorer.result["claim"].id
    assert "dp_cgan/notebook-log" not in explorer.numbers.value
    explorer.values["verdict"].value = ALL
    assert control.options == matching(ALL, ALL)
    explorer.values["paper"].value = "dp_cgan"
    assert control.options == matching("dp_cgan", ALL)


def tiles_of(explorer: ClaimsWall) -> dict[str, list]:
    """The tiles that are on the wall, by paper."""
    rows = explorer.tiles.rows.items()
    return {name: list(row.children[1].children) for name, row in rows}


def test_a_word_is_looked_for_in_all_that_is_said(explorer):
    code = next(claim for claim in EVERY if claim.id == "small_images/clip-after-mean").code
    for word in ("clip-AFTER", " average gradient ", "noisy_optimizers", "turns the clipped", ""):
        assert "small_images/clip-after-mean" in matching(ALL, ALL, word)
    assert matching(ALL, ALL, code.was) == ("small_images/clip-after-mean",)
    assert len(matching(ALL, ALL, "clip")) < len(EVERY)
    explorer.values["word"].value = code.should
    assert explorer.values["claim"].options == ("small_images/clip-after-mean",)
    explorer.values["word"].value = "no such word"
    assert "mentions &#x27;no such word&#x27;" in explorer.numbers.value
    assert not any(tiles_of(explorer).values())
    explorer.values["word"].value = ""
    assert explorer.values["claim"].options == matching(ALL, ALL)


def test_the_wall_holds_a_tile_for_each_chosen_claim(explorer):
    for verdict in VERDICTS:
        explorer.values["verdict"].value = verdict
        for paper in papers.with_claims():
            tiles, chosen = tiles_of(explorer)[paper.NAME], matching(paper.NAME, verdict)
            found = [checked(claim) for claim in paper.CLAIMS if claim.id in chosen]
            assert [tile.description for tile in tiles] == [LOOKS[v.verdict].sign for v in found]
            assert [x.tooltip.partition(":")[0] for x in tiles] == [x.claim.name for x in found]
            colours = [tile.style.button_color for tile in tiles]
            assert colours == [LOOKS[one.verdict].tile for one in found]
            shown = explorer.tiles.rows[paper.NAME].layout.display != "none"
            assert shown == bool(found)


def test_a_tile_that_is_pressed_shows_its_card_and_is_marked(explorer):
    for identity in ("dpgan/auto-grouping", "adadp/other-functions"):
        explorer.tiles.buttons[identity].click()
        assert explorer.values["claim"].value == explorer.result["claim"].id == identity
        assert identity in explorer.numbers.value
        marked = [
            name
            for name, tile in explorer.tiles.buttons.items()
            if tile.layout is explorer.tiles.pressed
        ]
        assert marked == [identity]


def test_signs_differ_and_are_legible():
    """Verdicts are told apart without colour, and each sign has the contrast WCAG asks for."""
    assert len({look.sign for look in LOOKS.values()}) == len(LOOKS) == len(VERDICTS) - 1
    for look in LOOKS.values():
        ink = {"white": "#FFFFFF"}.get(look.ink, look.ink)
        light, dark = sorted((luminance(ink), luminance(look.tile)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def luminance(colour: str) -> float:
    """Relative luminance of #RRGGBB (WCAG 2.1)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_without_a_kernel_the_wall_and_the_card_stand_as_text(explorer):
    explorer.values["claim"].value = "small_images/clip-after-mean"
    data = explorer._repr_mimebundle_()
    page, text = data["text/html"], data["text/plain"]
    assert page.count("title='") == len(EVERY)
    for claim in EVERY:
        assert f"title='{escape(claim.name)}: {checked(claim).verdict}." in page
    assert page.count("outline:3px") == 1
    for paper in papers.with_claims():
        signs = "".join(LOOKS[checked(claim).verdict].sign for claim in paper.CLAIMS)
        assert f"{paper.NAME:<14}{signs}\n" in text
    assert "<pre" in page
    assert "href='13_small_images.ipynb'" in page
    assert page.index("title='") < page.index("<pre")
    explorer.values["paper"].value = "dpgan"
    assert explorer._repr_mimebundle_()["text/html"].count("title='") == len(
        papers.named("dpgan").CLAIMS
    )


def test_code_of_several_lines_stands_whole_and_escaped(made_up):
    code = Code("a = b < c\nd = 'e'", "a = b <= c", "noise")
    made_up(claim_of("of-code", code=code))
    found = card("made_up/of-code")
    assert ("as it was", "a = b < c") in found.rows
    assert ("", "d = 'e'") in found.rows
    assert ">a = b &lt; c\nd = &#x27;e&#x27;</pre>" in found._repr_html_()
    assert "ipynb" not in found.html() + repr(found)  # a paper without a notebook
    assert "noise: the noise is smaller" in repr(found)


def test_a_card_is_that_of_a_claim_that_there_is(monkeypatch):
    assert "72.39" in repr(card("dp_cgan/per-tensor-clipping"))
    with pytest.raises(ValueError, match="id must be a claim's, such as dp_cgan/"):
        card("dp_cgan/unheard-of")
    for paper in papers.PAPERS:  # its file name has a number in front, which the paper has to say
        assert (NOTEBOOKS / f"{paper.NOTEBOOK}.ipynb").exists()
        assert paper.NAME in paper.NOTEBOOK
    assert "<a href" in card("dpgan/auto-grouping").html()
    monkeypatch.setenv("SERVER_SOFTWARE", "voila/0.5")  # serves one page alone
    assert "<a href" not in card("dpgan/auto-grouping").html()
    assert "11_dpgan.ipynb" in card("dpgan/auto-grouping").html()


@pytest.mark.parametrize(
    ("changed", "value", "told"),
    [
        ({"stated": 1.0}, 72.38701, "72.39"),  # an upper bound is rounded up
        ({"stated": 1.0, "tolerance": 1e-9}, 1 + 4e-13, "1"),  # but not past what it meets
        ({"kind": "at least", "stated": 1.0}, 72.389, "72.38"),
        ({"kind": "equals", "stated": 4.0, "tolerance": 0.05}, 6.921412345, "6.921"),
        ({"kind": "equals", "stated": 657.0, "tolerance": 1.0}, 143.0, "143"),
        ({"kind": "equals", "stated": 780.0}, 780.0, "780"),
        ({"kind": "equals", "stated": 0.7153695, "tolerance": 5e-9}, 0.71536953664, "0.7153695366"),
        ({"kind": "computed", "stated": None}, 0.123456, "0.1235"),
        ({"stated": 1.0}, math.inf, "none"),
    ],
)
def test_a_computed_value_has_the_digits_that_its_comparison_needs(changed, value, told):
    assert claims_wall.computed(claim_of("digits", **changed), value) == told


def test_nothing_chosen_is_a_sentence(made_up):
    explorer = made_up(claim_of("empty-filter"))
    explorer.values["paper"].value = "made_up"
    explorer.values["verdict"].value = "holds"
    assert "no claim of made_up" in explorer.numbers.value
    assert explorer.picture.value == b""
    assert (explorer.values["claim"].options, explorer.values["claim"].value) == ((), None)
    explorer.values["verdict"].value = "fails"
    assert explorer.values["claim"].value == "made_up/empty-filter"
    assert "alert" not in explorer.numbers.value


@pytest.mark.parametrize(
    ("changed", "told", "row"),
    [
        ({"compute": lambda: math.nan}, "came out as NaN", ("computed", "-")),
        ({"kind": "unchecked"}, "", ("stated", "1")),
    ],
)
def test_what_cannot_be_checked_is_shown_as_it_is(made_up, changed, told, row):
    explorer = made_up(claim_of(f"unchecked-{row[0]}", **changed))
    explorer.values["paper"].value = "made_up"
    assert explorer.result["verdict"] == "cannot be checked"
    assert told in explorer.numbers.value
    assert row in explorer.table(explorer.result).rows


def test_verdicts_are_computed_once_and_a_curve_without_finite_points_is_words(made_up):
    times = []
    curve = Curve([1.0, 2.0], [math.inf, math.inf], "steps", "epsilon")
    compute = lambda: times.append(1) or 0.5  # noqa: E731
    explorer = made_up(claim_of("counted", compute=compute, curve=lambda: curve))
    explorer.values["paper"].value = "made_up"
    assert explorer.picture.value == b""
    assert "is finite" in explorer.words.value
    explorer.values["verdict"].value = "holds"
    explorer.values["word"].value = "It is 2"
    assert times == [1]


def test_evidence_that_arrives_is_read(made_up, results_folder):
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
    values = {"paper": "made_up", "verdict": ALL, "word": "", "claim": claim.id}
    assert ClaimsWall.compute(**values)["verdict"] == "cannot be checked"


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


def test_import_checks_no_claim():
    code = (
        "from dpkit.papers import claims; claims.check = None\n"
        "import dpkit.course.explorers.claims_wall as c\n"
        "assert c._checked.cache_info().misses == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Findings of the literature: each in a file of its own, and each against an independent oracle."""

import json
import re
from math import expm1
from pathlib import Path

import dp_accounting
import pytest
from dp_accounting import pld, rdp
from scipy.optimize import brentq
from scipy.stats import norm

from dpkit.__main__ import main
from dpkit.papers import claims
from dpkit.papers import literature as ledger
from dpkit.papers.claims import Claim
from dpkit.papers.literature.finding import Source, finding

BY_NAME = {claim.name: claim for claim in ledger.CLAIMS}
WORK = Source("A method (its authors 2026)", "owner/name 0000000, file.py:1")
CLAIM = {
    "says": "so",
    "kind": "at most",
    "stated": 1.0,
    "compute": lambda: 0.5,
    "explanation": "Because.",
}


def value(name: str) -> float:
    """What the finding computes."""
    return claims.check(BY_NAME[name]).computed


def exact_gaussian(mu: float, delta: float) -> float:
    """Epsilon of a Gaussian that moves by mu of its deviations (Balle, Wang 2018, Theorem 8)."""

    def over(epsilon):
        first, second = norm.logcdf(mu / 2 - epsilon / mu), norm.logcdf(-mu / 2 - epsilon / mu)
        return norm.cdf(mu / 2 - epsilon / mu) * -expm1(epsilon + second - first) - delta

    return brentq(over, 0, 10_000, xtol=1e-12)


def test_each_file_is_one_finding():
    assert len(BY_NAME) == len(ledger.CLAIMS) > 1
    assert all(isinstance(claim, Claim) and claim.paper == "ledger" for claim in ledger.CLAIMS)


def test_a_finding_says_where_it_was_read():
    one = finding("some-name", WORK, **CLAIM)
    assert one.id == "ledger/some-name"
    assert one.where == "A method (its authors 2026): owner/name 0000000, file.py:1"
    for empty in ({"work": " ", "place": "x"}, {"work": "x", "place": ""}):
        with pytest.raises(ValueError, match="must say something"):
            Source(**empty)


def test_what_was_not_read_cannot_be_checked():
    source = Source("A method", "the paper, Table 1", unread="Table 1 (no public copy)")
    with pytest.raises(
        ValueError, match=r"kind must be 'unchecked', got 'at most'.*no public copy"
    ):
        finding("some-name", source, **CLAIM)
    one = claims.check(finding("some-name", source, **{**CLAIM, "kind": "unchecked"}))
    assert one.verdict == "cannot be checked"
    assert one.explanation == "Because. Not read: Table 1 (no public copy)."


def test_one_gaussian_is_priced_as_by_its_exact_formula():
    assert value("dp-merf-noise-5") == pytest.approx(exact_gaussian(1 / 5, 1e-5), abs=1e-6)
    assert value("dp-accounting-replace-one") == pytest.approx(exact_gaussian(2, 1e-5), abs=1e-6)


def test_dp_accounting_says_what_it_is_quoted_with():
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    said = {}
    for kind in (rdp.RdpAccountant, pld.PLDAccountant):
        accountant = kind(neighboring_relation=relation)
        said[kind] = accountant.compose(dp_accounting.GaussianDpEvent(1.0)).get_epsilon(1e-5)
    one = BY_NAME["dp-accounting-replace-one"]
    assert said[rdp.RdpAccountant] == pytest.approx(one.stated, abs=1e-6)
    assert said[pld.PLDAccountant] == pytest.approx(value(one.name), abs=1e-3)


@pytest.fixture
def template() -> str:
    """The example of CONTRIBUTING.md."""
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(
        r"```python\n(.*?)```", text.partition("## Adding a finding")[2], re.DOTALL
    )
    return code


def collect(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Claim, ...]:
    """The claims, with those of a folder's files."""
    monkeypatch.setattr(ledger, "__path__", [*ledger.__path__, str(folder)])
    return ledger.collected()


def test_the_template_makes_a_finding(template, tmp_path, monkeypatch, capsys):
    (tmp_path / "made_up_noise_2.py").write_text(template)
    monkeypatch.setattr(ledger, "CLAIMS", collect(tmp_path, monkeypatch))
    with pytest.raises(SystemExit) as left:
        main(["claims", "--paper", "ledger", "--json"])
    found = {one["id"]: one for one in json.loads(capsys.readouterr().out)}
    one = found["ledger/made-up-noise-2"]
    assert (left.value.code, one["verdict"], one["code"]["cause"]) == (0, "fails", "formula")
    assert one["computed"] == pytest.approx(exact_gaussian(1 / 2, 1e-5), abs=1e-6)
    assert len(found) == len(BY_NAME) + 1


def test_a_file_is_called_as_its_finding(template, tmp_path, monkeypatch):
    (tmp_path / "another_name.py").write_text(template)
    with pytest.raises(ValueError, match=r"another_name\.py must hold the claim another-name"):
        collect(tmp_path, monkeypatch)

"""dpkit against Opacus, dp-accounting and prv-accountant on 200 settings.

Their answers are stored, as tests/benchmarks/peers.py asked for them. Wherever one differs from
dpkit by more than its own error, a name in EXPLANATIONS says why; an unexplained difference fails,
and so does a name that explains nothing any more.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import peers
import pytest
from peer_settings import GRID, MECHANISMS, Setting, subject_name

from dpkit.privacy import SampledGaussian, gdp, pld, rdp

QUESTIONS, ANSWERS = peers.stored()["questions"], peers.stored()["answers"]
A = Setting(0.01, 1.1, 10_000)
C = Setting(64 / 60_000, 1.0, 60_000)
ACCOUNTANTS = [name for name in peers.PEERS if not name.endswith("_curve")]
GAP = 3e-4  # aimed at, of dpkit's pair: finer than by default, to see more
FIXED_ORDERS = 1.025  # what RDP costs at most, here, by a fixed net of orders instead of a search


class Ours(NamedTuple):
    lower: float
    upper: float
    rdp: float


class Difference(NamedTuple):
    """One peer against dpkit: "no answer", "below" or "above" what dpkit's answers allow."""

    peer: str
    kind: str
    setting: Setting
    answer: dict[str, Any]
    ours: Ours

    def number(self, name: str) -> float:
        return float(self.answer[name])


@cache
def ours(setting: Setting) -> Ours:
    pair = pld.epsilon(setting.ledger(), delta=setting.delta, gap=GAP)
    moments = rdp.epsilon(setting.ledger(), delta=setting.delta)
    return Ours(pair.lower, pair.epsilon, moments.epsilon)


def allowed(peer: str, setting: Setting, answer: dict[str, Any]) -> Iterator[str]:
    """In what way an answer differs by more than the peer's own error."""
    lower, upper, moments = ours(setting)
    got = {name: float(value) for name, value in answer.items()}
    low, high = (got.get(name, math.nan) for name in ("lower", "upper"))
    if peer in ("opacus", "dp_accounting_rdp"):  # upper bounds by fixed orders
        enough = got["epsilon"] * (1 + 1e-6) + 1e-9 >= max(lower, moments)
        little = got["epsilon"] <= FIXED_ORDERS * moments
    elif peer == "opacus_clt":
        enough, little = got["epsilon"] >= lower, got["epsilon"] <= upper
    elif peer == "dp_accounting_pld":
        # an optimistic grid rounds each release's loss down, by less than the interval
        rounded = (1 if setting.sample_rate == 1 else setting.steps) * got["interval"]
        enough = got["pessimistic"] >= lower and got["optimistic"] >= lower - rounded
        little = got["pessimistic"] <= upper and got["optimistic"] <= upper
    else:
        enough, little = high >= lower, low <= upper
    yield from (name for name, right in (("below", enough), ("above", little)) if not right)


def differences(peer: str, setting: Setting) -> list[Difference]:
    answer = ANSWERS[peer][setting.name]
    kinds = ["no answer"] if "error" in answer else allowed(peer, setting, answer)
    return [Difference(peer, kind, setting, answer, ours(setting)) for kind in kinds]


class Explanation(NamedTuple):
    """Which differences it is the reason of, and a setting where it is."""

    example: Setting
    peer: str
    kind: str
    holds: Callable[[Difference], bool]


def sensitivity_1(it: Difference) -> bool:
    added = it.setting._replace(adjacency="add-remove").name
    return it.setting.adjacency == "replace-one" and it.answer == ANSWERS[it.peer][added]


def clt(it: Difference) -> float:
    return gdp.epsilon(it.setting.ledger(), delta=it.setting.delta).epsilon


def is_clt(it: Difference) -> bool:
    return math.isclose(it.number("epsilon"), clt(it), rel_tol=1e-5, abs_tol=1e-9)


EXPLANATIONS = {
    "Opacus: orders end at 63": Explanation(
        Setting(0.01, 20.0, 1), "opacus", "above", lambda it: it.number("order") == 63
    ),
    "Opacus: an epsilon below 0 is not cut at 0": Explanation(
        Setting(0.01, 0.5, 1, 0.5), "opacus", "below", lambda it: it.number("epsilon") < 0
    ),
    "Opacus: the CLT is an approximation, here too low": Explanation(
        Setting(1e-4, 0.3, 1_000), "opacus_clt", "below", is_clt
    ),
    "Opacus: the CLT is an approximation, here too high": Explanation(
        Setting(0.2, 1.0, 500), "opacus_clt", "above", is_clt
    ),
    "Opacus: the CLT's epsilon is sought in [0, 500]": Explanation(
        Setting(0.5, 0.8, 10_000),
        "opacus_clt",
        "no answer",
        lambda it: "different signs" in it.answer["error"] and not 0 < clt(it) < 500,
    ),
    "dp-accounting RDP: replace-one takes sensitivity 1": Explanation(
        Setting(1.0, 1.0, 1, 1e-5, "replace-one"), "dp_accounting_rdp", "below", sensitivity_1
    ),
    "dp-accounting RDP: Poisson samples are for add-remove alone": Explanation(
        Setting(0.3, 1.5, 1, 1e-5, "replace-one"),
        "dp_accounting_rdp",
        "no answer",
        lambda it: it.setting.adjacency == "replace-one" and "Unsupported" in it.answer["error"],
    ),
    "dp-accounting RDP: few orders above 63": Explanation(
        Setting(0.01, 5.0, 1), "dp_accounting_rdp", "above", lambda it: it.number("order") >= 63
    ),
    "dp-accounting RDP: fractional orders are loose or left out": Explanation(
        Setting(0.2, 1.0, 500),
        "dp_accounting_rdp",
        "above",
        lambda it: it.number("order") <= 2 and it.setting.sample_rate < 1,
    ),
    # the drift goes with the square of the interval: a third of what twice the interval adds
    "dp-accounting PLD: a coarse grid drifts up": Explanation(
        Setting(1e-4, 1.0, 1_000_000),
        "dp_accounting_pld",
        "above",
        lambda it: (
            it.setting.delta > 1e-12
            and it.number("optimistic") <= it.ours.upper
            and 2 * it.number("pessimistic") - it.number("coarser") <= it.ours.upper
        ),
    ),
    "dp-accounting PLD: rounding and cut masses weigh at such a delta": Explanation(
        C._replace(delta=1e-12), "dp_accounting_pld", "above", lambda it: it.setting.delta <= 1e-12
    ),
    "dp-accounting PLD: rounding weighs at such a delta, here downwards": Explanation(
        Setting(0.2, 1.0, 500, 1e-12),
        "dp_accounting_pld",
        "below",
        lambda it: it.setting.delta <= 1e-12,
    ),
    "dp-accounting PLD: exp(-loss) underflows beyond 745": Explanation(
        Setting(1.0, 0.5, 100, 1e-5, "replace-one"),
        "dp_accounting_pld",
        "above",
        lambda it: it.ours.lower > 745 and it.number("pessimistic") < 1.002 * it.ours.upper,
    ),
    "PRV: an epsilon below 0 is not cut at 0": Explanation(
        Setting(0.01, 0.5, 1, 0.5), "prv", "below", lambda it: it.number("upper") < 0
    ),
    "PRV: rounding weighs at such a delta": Explanation(
        A._replace(delta=1e-15),
        "prv",
        "no answer",
        lambda it: it.setting.delta <= 1e-15 and "Floating point" in it.answer["error"],
    ),
    "PRV: the mean loss is integrated too coarsely, which it notices": Explanation(
        Setting(0.2, 0.5, 1_000),
        "prv",
        "no answer",
        lambda it: it.ours.upper > 30 and "Discrete mean differs" in it.answer["error"],
    ),
    "PRV: the mean loss is integrated too coarsely, which it does not notice": Explanation(
        Setting(0.1, 0.8, 1_000),
        "prv",
        "above",
        lambda it: it.ours.upper > 30 and it.number("eps_error") == 0.05,
    ),
    "PRV: a large epsilon takes too long": Explanation(
        Setting(0.5, 0.8, 10_000),
        "prv",
        "no answer",
        lambda it: it.ours.upper > 100 and it.answer["error"] == peers.TOO_LONG,
    ),
}


def names_of(it: Difference) -> list[str]:
    return [
        name
        for name, why in EXPLANATIONS.items()
        if (why.peer, why.kind) == (it.peer, it.kind) and why.holds(it)
    ]


def test_there_are_200_settings_and_an_answer_to_each():
    assert len(GRID) == 200
    for name, peer in peers.PEERS.items():
        assert set(ANSWERS[name]) == {subject_name(one) for one in peer.subjects}, "run make bench"


@pytest.mark.parametrize("setting", GRID, ids=lambda setting: setting.name)
def test_peers_agree_or_a_name_says_why(setting: Setting):
    lower, upper, moments = ours(setting)
    assert lower <= min(upper, moments)
    assert upper - lower <= 2e-3 * upper
    for peer in ACCOUNTANTS:
        if setting in peers.PEERS[peer].subjects:
            for it in differences(peer, setting):
                assert len(names_of(it)) == 1, f"{names_of(it)} explain {it}"


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_a_name_explains_something(name: str):
    why = EXPLANATIONS[name]
    found = [it for it in differences(why.peer, why.example) if it.kind == why.kind]
    assert [one for it in found for one in names_of(it)] == [name]


CURVES = {
    "opacus_curve": {
        "binomial coefficients overflow from order 1030": (
            *((0.01, 1.1), lambda order, theirs, ours: order > 1029 and math.isnan(theirs)),
        ),
        "fractional orders cancel": (
            *((0.4, 12.0), lambda order, theirs, ours: order % 1 > 0 and theirs < 0),
        ),
    },
    "dp_accounting_curve": {
        "fractional orders are loose": (
            (0.01, 1.1),
            lambda order, theirs, ours: order % 1 > 0 and ours < theirs < math.inf,
        ),
        "fractional orders do not converge": (
            (0.1, 1.0),
            lambda order, theirs, ours: order % 1 > 0 and theirs == math.inf,
        ),
    },
}


def curve_names(peer: str, mechanism: tuple[float, float]) -> Iterator[list[str]]:
    """What explains each order at which the RDP is not ours to 1e-6 (or to rounding errors)."""
    rate, noise = mechanism
    prices = SampledGaussian(noise, rate).rdp(peers.ORDERS)
    answers = ANSWERS[peer][subject_name(mechanism)]["rdp"]
    for order, mine, answer in zip(peers.ORDERS, prices, answers, strict=True):
        theirs = float(answer)
        if not abs(theirs - mine) <= max(1e-6 * mine, 1e-13 / (order - 1)):
            found = CURVES[peer].items()
            yield [name for name, (_, holds) in found if holds(order, theirs, mine)]


@pytest.mark.parametrize("peer", CURVES)
def test_curves_agree_where_they_are_right(peer: str):
    """Opacus' and dp-accounting's RDP of one release at the same 13 orders."""
    for mechanism in MECHANISMS:
        for names in curve_names(peer, mechanism):
            assert len(names) == 1, f"{mechanism}: {names}"
    for name, (mechanism, _) in CURVES[peer].items():
        assert [name] in curve_names(peer, mechanism)

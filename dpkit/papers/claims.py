"""A paper's statements, computed again: a claim, its evidence, and the verdict.

A claim may be about a line of code (`Code`). A `finding` is a claim of a later method, library or
paper, with its `Source`. `MainRun` is the run of a paper's claimed epsilon; `AsPublished` computes
epsilon as papers' own code does, by RDP at fixed orders.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from dpkit.common import checks, files, records
from dpkit.privacy import (
    Adjacency,
    Gaussian,
    Mechanism,
    Release,
    Releases,
    SampledGaussian,
    gdp,
    pld,
    rdp,
)

Cause = Literal[
    "sensitivity",
    "noise",
    "sampling",
    "uncharged",
    "accounting",
    "formula",
    "evaluation",
    "floating point",
]
CAUSES: dict[Cause, str] = {  # of what a claim is about -> in words
    "sensitivity": "a record moves what is released farther than the noise is for",
    "noise": "the noise is smaller, or elsewhere, than the charge takes it to be",
    "sampling": "batches are drawn in another way than the charge takes them to be",
    "uncharged": "private records are read, and nothing is charged",
    "accounting": "costs are added up, or tested, in a way that misses some",
    "formula": "a formula is misprinted, or holds only under conditions that are not met",
    "evaluation": "a score is measured in another way than it is read",
    "floating point": "a computer's numbers are not the real numbers of a proof",
}
MOST_LINES = 3  # of code beside a claim


@dataclass(frozen=True)
class Code:
    """The line of code or formula of a claim, as it was and as it should be.

    Both in this kit's words and names, one to three short lines each; not quoted from anywhere.

    Args:
        was: as it was published.
        should: the correct line, or the one that makes the claim true.
        cause: of CAUSES, the kind of slip.

    Raises:
        ValueError: lines are missing or too many, both are the same, or the cause is unknown.
    """

    was: str
    should: str
    cause: Cause

    def __post_init__(self) -> None:
        checks.one_of(tuple(CAUSES), cause=self.cause)
        for name, text in (("was", self.was), ("should", self.should)):
            lines = text.splitlines()
            if not (1 <= len(lines) <= MOST_LINES and all(line.strip() for line in lines)):
                raise ValueError(
                    f"{name} must be 1 to {MOST_LINES} lines of code, got {text!r}"
                )
        if self.was == self.should:
            raise ValueError(f"was and should must differ, got {self.was!r} twice")


Kind = Literal["equals", "at most", "at least", "in words", "computed", "unchecked"]
KINDS: tuple[str, ...] = get_args(Kind)
Outcome = Literal["holds", "fails", "computed", "cannot be checked"]
OUTCOMES: dict[Outcome, str] = {  # verdict -> the same of several claims
    "holds": "hold",
    "fails": "fail",
    "computed": "computed",
    "cannot be checked": "cannot be checked",
}


class Curve(NamedTuple):
    """Points to draw beside a claim, such as epsilon by step: x and y of the same length."""

    x: list[float]
    y: list[float]
    x_name: str
    y_name: str

    @classmethod
    def along(cls, steps: int, y: Callable[[int], float], x_name: str, y_name: str) -> "Curve":
        """y at 25 counts of steps from 0 on, evenly spaced."""
        x = np.linspace(0, steps, 25).astype(int).tolist()
        return cls(x, [y(count) for count in x], x_name, y_name)


class Measured(NamedTuple):
    """The values of a measurement: named numbers, and data set name -> sha256 of what it read."""

    values: dict[str, float]
    data: dict[str, str]


class Evidence(NamedTuple):
    """A measurement too long to repeat each time; its record is stored with its inputs.

    Args:
        claim: id under which the record is stored; other claims may share it.
        inputs: all settings, as JSON values; a record of other inputs is not used.
        measure: makes the measurement.
        scale: "paper" on the paper's own data, "reduced" on the digits.
    """

    claim: str
    inputs: dict[str, Any]
    measure: Callable[[], Measured]
    scale: str = "paper"

    @property
    def path(self) -> Path:
        """data/results/claims/<paper>-<name>.json."""
        return files.results_dir() / "claims" / f"{self.claim.replace('/', '-')}.json"


class _Value(float):
    """A value of evidence; the form "<1e-9" writes smaller ones as "below 1e-9"."""

    def __format__(self, form: str) -> str:
        if not form.startswith("<"):
            return super().__format__(form)
        return f"below {form[1:]}" if abs(self) < float(form[1:]) else checks.short(self, 1)


@dataclass(frozen=True)
class Claim:
    """One statement of a paper or its code that can be checked.

    Args:
        id: "<paper>/<name>", the paper by its package's name.
        where: section, table or file of the statement.
        says: the statement, in our words.
        kind: how the computed value relates to the stated one for the claim to hold: "equals", "at
            most" or "at least". Where no number is stated: "in words" if `believed` decides,
            "computed" if there is nothing to compare with: it neither holds nor fails. "unchecked"
            if the paper, with a value or without, omits what decides it: the verdict is "cannot be
            checked", and the computed value stands beside it.
        compute: the value, from no arguments, or from the evidence's values where there is one.
        explanation: one sentence; {names} of the evidence's values are filled in, and
            {name:<1e-9} reads "below 1e-9" where the value is that small.
        stated: the stated number, or None.
        tolerance: absolute, >= 0, of the comparison.
        curve: points to draw beside it.
        evidence: the measurement behind it, if slow.
        believed: of kind "in words", whether a computed value confirms the statement.
        rounding: of a claim without a stated number: a value this small counts as zero.
        code: its line of code or formula, if there is one.

    Raises:
        ValueError: the id has another form, the kind is unknown, a tolerance is negative, or a
            stated value, `believed` or `rounding` does not fit the kind.
    """

    id: str
    where: str
    says: str
    kind: Kind
    compute: Callable[..., float]
    explanation: str
    stated: float | None = None
    tolerance: float = 0.0
    curve: Callable[[], Curve] | None = None
    evidence: Evidence | None = None
    believed: Callable[[float], bool] | None = None
    rounding: float = 0.0
    code: Code | None = None

    def __post_init__(self) -> None:
        checks.one_of(KINDS, kind=self.kind)
        checks.non_negative(tolerance=self.tolerance, rounding=self.rounding)
        if not all(self.id.partition("/")):
            raise ValueError(f"id must be <paper>/<name>, got {self.id!r}")
        compares = self.kind in ("equals", "at most", "at least")
        if (self.stated is not None) != compares and self.kind != "unchecked":
            needs = "needs a" if compares else "takes no"
            raise ValueError(f"{self.id}: kind {self.kind!r} {needs} stated value")
        if (self.believed is not None) != (self.kind == "in words"):
            raise ValueError(
                f"{self.id}: kind 'in words' alone takes `believed`, and needs it"
            )
        if self.rounding and compares:
            raise ValueError(f"{self.id}: kind {self.kind!r} takes no `rounding`")

    @property
    def paper(self) -> str:
        """Name of the paper's package."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """Its name among its paper's claims."""
        return self.id.partition("/")[2]

    def explained(self, values: dict[str, float]) -> str:
        """The explanation with the evidence's values filled in."""
        return self.explanation.format(
            **{name: _Value(value) for name, value in values.items()}
        )

    def shown(self, value: float | None, form: str = ".6g") -> str:
        """A stated or computed value in words; "below 1e-12" for mere rounding.

        "" for no value, "none" for an infinite one: no such guarantee exists.
        """
        if value is None or math.isnan(value):
            return ""
        if math.isinf(value):
            return "none"
        if self.rounding and value == 0:
            return f"below {checks.short(self.rounding)}"
        if form.endswith("g"):
            return checks.short(value, int(form[1:-1]))
        return format(value, form)


class Verdict(NamedTuple):
    """Outcome of one check.

    computed: NaN where evidence is missing.
    explanation: the claim's, with the evidence's numbers filled in.
    """

    claim: Claim
    computed: float
    verdict: Outcome
    explanation: str


def check(claim: Claim, *, recompute: bool = False) -> Verdict:
    """Compute the claim's value and compare.

    Args:
        recompute: measure the evidence again first, and store it.

    Raises:
        ArithmeticError: the value is NaN, which proves nothing.
    """
    values: dict[str, Any] = {}
    if claim.evidence is None:
        computed = claim.compute()
    else:
        record = _measure(claim.evidence) if recompute else _stored(claim.evidence)
        if record is None:
            remedy = f"python -m dpkit claims --paper {claim.paper} --recompute"
            missing = f"Evidence is missing ({claim.evidence.path.name}); to make it: {remedy}"
            return Verdict(claim, math.nan, "cannot be checked", missing)
        values = record["values"]
        computed = claim.compute(values)
    if math.isnan(computed):
        raise ArithmeticError(f"the value of {claim.id} came out as NaN")
    if abs(computed) <= claim.rounding:
        computed = 0.0
    return Verdict(claim, computed, outcome(claim, computed), claim.explained(values))


def check_all(claims: Iterable[Claim], *, recompute: bool = False) -> list[Verdict]:
    """Check each claim; evidence that several share is measured again once."""
    verdicts, measured = [], set()
    for claim in claims:
        again = (
            recompute and claim.evidence is not None and claim.evidence.claim not in measured
        )
        verdicts.append(check(claim, recompute=again))
        if claim.evidence is not None:
            measured.add(claim.evidence.claim)
    return verdicts


def outcome(claim: Claim, computed: float) -> Outcome:
    """Return the verdict on a computed value; NaN never confirms a claim."""
    stated = math.nan if claim.stated is None else claim.stated  # which is not compared
    match claim.kind:
        case "computed":
            return "computed"
        case "unchecked":
            return "cannot be checked"
        case "in words":
            holds = claim.believed is not None and claim.believed(computed)
        case "equals":
            holds = abs(computed - stated) <= claim.tolerance
        case "at most":
            holds = computed <= stated + claim.tolerance
        case _:
            holds = computed >= stated - claim.tolerance
    return "holds" if holds else "fails"


def counted(verdicts: Iterable[Verdict]) -> str:
    """Count verdicts by kind, such as "2 hold, 1 fails"."""
    count = Counter(verdict.verdict for verdict in verdicts)
    return ", ".join(
        f"{count[one]} {one if count[one] == 1 else several}"
        for one, several in OUTCOMES.items()
        if count[one]
    )


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The command line's object for one claim."""
    claim = verdict.claim
    computed = None if math.isnan(verdict.computed) else verdict.computed
    if claim.rounding and computed == 0:
        computed = claim.shown(computed)
    return {
        "id": claim.id,
        "paper": claim.paper,
        "where": claim.where,
        "says": claim.says,
        "stated": records.json_number(claim.stated),
        "computed": computed if isinstance(computed, str) else records.json_number(computed),
        "verdict": verdict.verdict,
        "explanation": verdict.explanation,
        "code": None if claim.code is None else asdict(claim.code),
    }


def _stored(evidence: Evidence) -> dict[str, Any] | None:
    """The stored record; None if there is none, or one of other inputs.

    Raises:
        ValueError: the file is not a record of evidence.
    """
    path = evidence.path
    if not path.exists():
        return None
    record = records.read_json(path)
    try:
        same = records.alike(record["provenance"]["settings"], evidence.inputs)
        return record if same and record["values"] else None
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a record of evidence; delete it and run with --recompute"
        ) from error


def _measure(evidence: Evidence) -> dict[str, Any]:
    start = perf_counter()
    measured = evidence.measure()
    provenance = records.provenance(
        settings=evidence.inputs,
        seed=None,
        data=measured.data,
        device="cpu",
        wall_seconds=perf_counter() - start,
        scale=evidence.scale,
    )
    record = {"claim": evidence.claim, "values": measured.values, "provenance": provenance}
    records.write_json(evidence.path, record)
    return record


@dataclass(frozen=True)
class Source:
    """A place in a text or in code.

    Args:
        work: with authors and year, such as "DP-MERF (Harder, Adamczewski, Park 2021)".
        place: "owner/name commit, path:lines" of public code, or section, theorem or table.
        unread: the part that could not be read; "" for none.

    Raises:
        ValueError: work or place is empty.
    """

    work: str
    place: str
    unread: str = ""

    def __post_init__(self) -> None:
        for name, text in (("work", self.work), ("place", self.place)):
            if not text.strip():
                raise ValueError(f"{name} of a source must not be empty, got {text!r}")

    def __str__(self) -> str:
        return f"{self.work}: {self.place}"


def claim_of(
    paper: str,
    name: str,
    where: str,
    says: str,
    compute: Callable[..., float],
    explanation: str,
    **more: Any,
) -> Claim:
    """Make the claim `<paper>/<name>`; its kind follows from what it states.

    Args:
        more: as `Claim`, and `equals`, `at_most` or `at_least` for the kind and the number in one.
            Without a kind it is "in words" if `believed` decides, else "computed".
    """
    kind = "in words" if "believed" in more else "computed"
    for compared in ("equals", "at most", "at least"):
        if (word := compared.replace(" ", "_")) in more:
            kind, more["stated"] = compared, more.pop(word)
    kind = more.pop("kind", kind)
    return Claim(f"{paper}/{name}", where, says, kind, compute, explanation, **more)


def finding(name: str, source: Source, *, explanation: str, **claim: Any) -> Claim:
    """Make the claim `ledger/<name>`, which is "unchecked" where its source is unread.

    Args:
        name: words joined by "-".
        source: of the statement.
        explanation, claim: as `claim_of`; the unread part is added to the explanation.

    Raises:
        ValueError: the kind of an unread source is not "unchecked"; and as `Claim`.
    """
    if source.unread:
        kind = claim.get("kind")
        if kind != "unchecked":
            raise ValueError(
                f"{name}: kind must be 'unchecked', as its source was not read "
                f"({source.unread}), got {kind!r}"
            )
        explanation = f"{explanation} Not read: {source.unread}."
    return claim_of("ledger", name, str(source), explanation=explanation, **claim)


def of_poisson_batches(
    noise: float, rate: float, steps: int, *, delta: float = 1e-5, gap: float = pld.GAP
) -> float:
    """Epsilon of Gaussian releases, under add-remove, certified from above.

    Args:
        noise: standard deviation / sensitivity.
        rate: probability that a record is in a batch.
        delta, gap: as `pld.epsilon`.
    """
    ledger = [Release(SampledGaussian(noise, rate), steps)]
    return pld.epsilon(ledger, delta=delta, gap=gap).epsilon


def of_gaussians(
    noise: float, times: int = 1, *, delta: float = 1e-5, adjacency: Adjacency = "add-remove"
) -> float:
    """Exact epsilon of Gaussian releases, each on all records; as `of_poisson_batches`."""
    return gdp.epsilon([Release(Gaussian(noise, adjacency), times)], delta=delta).epsilon


class MainRun(NamedTuple):
    """Ledgers of a published run at the paper's scale, and of the kit's counterpart.

    name: of the system.
    claimed: epsilon stated by the paper, else charged by its code.
    published: releases of the batches as drawn.
    repaired: releases of a run with a valid guarantee.
    """

    name: str
    claimed: float
    published: list[Release]
    repaired: list[Release]

    @classmethod
    def of(cls, name: str, claimed: float, *both: Any, **run: int) -> "MainRun":
        """The main run by the settings of both, whose ledgers take `run`, such as public_size."""
        return cls(name, claimed, *(one.ledger(**run) for one in both))


# Opacus' default (1.5, accountants/rdp.py), and that of DP-CGAN's code (compute_epsilon in
# DP_CGAN_RdpAcc.py)
OPACUS_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))


@dataclass(frozen=True)
class AsPublished:
    """A paper's own accountant: valid, but looser than those of `dpkit.privacy`.

    Args:
        orders: each > 1; no other is tried.
        delta: in (0, 1).
    """

    orders: tuple[float, ...]
    delta: float

    def epsilon(self, ledger: Releases) -> float:
        """Epsilon of a ledger (Mironov 2017, Prop. 3, at the best of the orders)."""
        how: Any = {"conversion": "classic", "orders": self.orders}
        return rdp.epsilon(ledger, delta=self.delta, **how).epsilon

    def of_steps(self, mechanism: Mechanism, steps: int) -> float:
        """Epsilon of `steps` releases of one mechanism."""
        return self.epsilon([Release(mechanism, steps)])

"""What the papers say, computed again: each claim, and whether it holds."""

import math
from functools import lru_cache
from typing import Any

from dpkit import checks, claims, papers, plots
from dpkit.claims import Claim, Curve, Verdict
from dpkit.explorers.explorer import Explorer, choice
from dpkit.show import Table, at_least, at_most

ALL = "all"
VERDICTS = (ALL, *claims.OUTCOMES)
CACHED = 1024  # claims


class Claims(Explorer):
    """One claim of one paper: what is said, what is computed, and why they agree or do not."""

    title = "Does it hold?"

    def __init__(self) -> None:
        """All claims of all papers; the first is shown."""
        names = (ALL, *(paper.NAME for paper in papers.PAPERS))
        self._filtering = False
        super().__init__(
            {
                "paper": choice("paper", names, "Whose claims"),
                "verdict": choice("verdict", VERDICTS, "Only claims with this verdict"),
                "claim": choice("claim", matching(ALL, ALL), "The claim that is shown"),
            }
        )

    @staticmethod
    def compute(*, paper: str, verdict: str, claim: str | None) -> dict[str, Any]:
        """The verdict on one claim, and how many there are like it.

        Args:
            paper: its package's name, or "all".
            verdict: one of VERDICTS.
            claim: an id that the two choose, None where they choose none.

        Raises:
            ValueError: no claim is chosen, or one that the paper and the verdict leave out.
        """
        chosen = matching(paper, verdict)
        whose = "any paper" if paper == ALL else paper
        if not chosen:
            which = "" if verdict == ALL else f" with the verdict {verdict!r}"
            raise ValueError(f"there is no claim of {whose}{which}; choose another")
        if claim not in chosen:
            raise ValueError(f"claim must be one of those chosen, {', '.join(chosen)}; got {claim}")
        found = checked(_by_id()[claim])
        return {
            "claim": found.claim,
            "computed": found.computed,
            "verdict": found.verdict,
            "explanation": found.explanation,
            "chosen": len(chosen),
            "all": len(_by_id()),
        }

    def table(self, result: dict[str, Any]) -> Table:
        """A row for each thing there is to say of the claim."""
        claim: Claim = result["claim"]
        rows = [
            ("paper", papers.named(claim.paper).TITLE),
            ("said", claim.says),
            ("where", claim.where),
            ("stated", _stated(claim)),
            ("computed", _computed(claim, result["computed"])),
            ("verdict", result["verdict"]),
            ("explanation", result["explanation"]),
        ]
        note = f"{result['chosen']} of {result['all']} claims are chosen."
        return Table(("claim", claim.id), rows, (note,))

    def draw(self, result: dict[str, Any]) -> plots.Picture:
        """The claim's curve, where it has one, beside what is stated."""
        claim: Claim = result["claim"]
        curve = _curve(claim.id)
        if curve is None:
            return plots.Picture(b"", "This claim has no curve.")
        points = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y)]
        if not points:
            return plots.Picture(b"", f"No {curve.y_name} of this claim is finite.")
        xs, ys = [x for x, _ in points], [y for _, y in points]
        shown = {"computed": (xs, ys)}
        stated = ""
        # the statement belongs to the curve where the curve ends at what is compared with it
        if claim.stated is not None and math.isclose(ys[-1], result["computed"], rel_tol=1e-6):
            shown["stated"] = ([xs[0], xs[-1]], [claim.stated] * 2)
            stated = f" Stated is {claim.stated:.6g}."
        figure, (ax,) = plots.figure(width=6.4, height=3.2)
        plots.lines(ax, shown, x=curve.x_name, y=curve.y_name)
        words = (
            f"{curve.y_name} from {_upper(claim, ys[0])} at {curve.x_name} {xs[0]:g} to "
            f"{_upper(claim, ys[-1])} at {curve.x_name} {xs[-1]:g}.{stated}"
        )
        return plots.picture(figure, words[:1].upper() + words[1:])

    def _changed(self, change: Any) -> None:
        if self._filtering:  # one change of the choice is one answer, given below
            return
        control = self.values["claim"]
        if change["owner"] is not control:
            before = control.value
            options = matching(self.values["paper"].value, self.values["verdict"].value)
            self._filtering = True
            try:
                control.options = options
                if options:
                    control.value = before if before in options else options[0]
            finally:
                self._filtering = False
        super()._changed(change)


def matching(paper: str, verdict: str) -> tuple[str, ...]:
    """Ids of the claims of that paper with that verdict; "all" leaves either open.

    Only a chosen verdict makes the claims be checked, each once.

    Raises:
        ValueError: the paper or the verdict is unknown.
    """
    checks.one_of(VERDICTS, verdict=verdict)
    every = _by_id().values() if paper == ALL else papers.named(paper).CLAIMS
    return tuple(c.id for c in every if verdict == ALL or checked(c).verdict == verdict)


def checked(claim: Claim) -> Verdict:
    """The verdict, computed once, and again when the stored evidence is another.

    A check that fails is a claim that cannot be checked, and its explanation says why.
    """
    if claim.evidence is None:
        return _checked(claim.id, None)
    path = claim.evidence.path
    changed = path.stat().st_mtime_ns if path.exists() else None
    return _checked(claim.id, (str(path), changed))


@lru_cache(CACHED)
def _checked(identity: str, _evidence: tuple[str, int | None] | None) -> Verdict:
    claim = _by_id()[identity]
    try:
        return claims.check(claim)
    except (ValueError, ArithmeticError, OSError) as error:
        return Verdict(claim, math.nan, "cannot be checked", f"The check failed: {error}")


@lru_cache(CACHED)
def _curve(identity: str) -> Curve | None:
    curve = _by_id()[identity].curve
    return None if curve is None else curve()


def _by_id() -> dict[str, Claim]:
    return {claim.id: claim for paper in papers.PAPERS for claim in paper.CLAIMS}


def _stated(claim: Claim) -> str:
    if claim.stated is None:
        return "no number"
    within = f", within {claim.tolerance:g}" if claim.tolerance else ""
    relation = "" if claim.kind == "unchecked" else f"{claim.kind} "
    return f"{relation}{claim.stated:.10g}{within}"


def _computed(claim: Claim, computed: float) -> str:
    if not computed or not math.isfinite(computed):
        return claim.shown(computed) or "-"
    return _upper(claim, computed)


def _upper(claim: Claim, value: float) -> str:
    """Rounded the way that the claim's comparison goes."""
    if claim.kind == "at most":
        return at_most(value, 7)
    return at_least(value, 7) if claim.kind == "at least" else f"{value:.10g}"

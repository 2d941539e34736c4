"""The part of docs/claims.md on later literature: its findings by kind of error."""

from dpkit.papers import literature as ledger
from dpkit.papers.claims import CAUSES, Verdict, check

COLUMNS = ("finding", "what is said", "stated", "computed", "", "as it was", "as it should be")


def findings() -> str:
    """A table for each kind of error, and one of what is no error or could not be checked."""
    groups: dict[str | None, list[Verdict]] = {cause: [] for cause in (*CAUSES, None)}
    for claim in ledger.CLAIMS:
        groups[claim.code.cause if claim.code else None].append(check(claim))
    return "\n\n".join(_table(cause, found) for cause, found in groups.items() if found)


def _table(cause: str | None, found: list[Verdict]) -> str:
    title = f"**{cause.capitalize()}**: {CAUSES[cause]}" if cause else "**No line to mend**"  # pyright: ignore
    columns = COLUMNS if cause else COLUMNS[:5]
    lines = [f"{title}.", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for one in sorted(found, key=lambda one: one.claim.id):
        lines.append(f"| {' | '.join(_cells(one))} |")
    return "\n".join(lines)


def _cells(one: Verdict) -> list[str]:
    claim = one.claim
    mark = f"**{one.verdict}**" if one.verdict == "fails" else one.verdict
    values = map(claim.shown, (claim.stated, one.computed))
    cells = [f"`{claim.id}`", f"{claim.says} ({claim.where})", *values, mark]
    if claim.code is not None:
        cells += [_code(claim.code.was), _code(claim.code.should)]
    return [cell.replace("|", "\\|") for cell in cells]


def _code(text: str) -> str:
    return "<br>".join(f"`{line.strip()}`" for line in text.splitlines())

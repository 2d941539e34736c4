"""supports: which accountant prices which mechanism, and why the others do not."""

from dpkit.commands.output import AsJson, print_json
from dpkit.common.show import Table


def supports(as_json: AsJson = False) -> None:
    """Which accountant prices which mechanism, adjacency and way to draw batches.

      python -m dpkit supports

    Found by asking each accountant for the price of an example, so it takes seconds. Numbers in
    brackets refer to the notes below the table: why there is no price, or what must be known of it.
    """
    from dpkit.privacy import supports as asked

    rows = asked.matrix()
    if as_json:
        print_json([row._asdict() for row in rows])
    else:
        print(_table(rows))


def _table(rows: list) -> str:
    """One line for each mechanism and adjacency, a column for each accountant, then the notes."""
    notes: dict[str, int] = {}
    lines: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        note = f" [{notes.setdefault(row.reason, len(notes) + 1)}]" if row.reason else ""
        cells = lines.setdefault((row.mechanism, row.adjacency), [])
        cells.append(("yes" if row.supported else "no") + note)
    accountants = list(dict.fromkeys(row.accountant for row in rows))
    return Table(
        ("mechanism", "adjacency", *accountants),
        [(*names, *cells) for names, cells in lines.items()],
        ("", *(f"[{number}] {note}" for note, number in notes.items())),
    ).text()

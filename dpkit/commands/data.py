"""data: which data sets are here, how to get one, and whether they are intact."""

from typing import Annotated, Any

import typer

from dpkit.commands.output import AsJson, print_json

app = typer.Typer(
    rich_markup_mode=None,
    help="Data sets: list | get NAME | verify [NAME]. Looked for in $DPKIT_DATA, then data/cache.",
)


@app.command("list")
def list_(json_: AsJson = False) -> None:
    """Every data set: where it was found, or that it was not.

    python -m dpkit data list
    """
    from dpkit import datasets

    _show(datasets.status(), ("name", "found", "path", "terms"), as_json=json_)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="Such as mnist.")], json_: AsJson = False
) -> None:
    """Download a data set into data/cache and check it.

    python -m dpkit data get mnist
    """
    from dpkit import datasets

    path = datasets.download(name)
    if json_:
        print_json({"name": name, "path": str(path)})
    else:
        print(path)


@app.command()
def verify(
    name: Annotated[
        str | None, typer.Argument(help="One set; all that are here if none.")
    ] = None,
    json_: AsJson = False,
) -> None:
    """Compare checksums of the files that are here; exit code 1 if one differs.

    python -m dpkit data verify mnist
    """
    from dpkit import datasets

    rows = datasets.verify(name)
    _show(rows, ("name", "file", "ok", "expected", "found"), as_json=json_)
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def _show(rows: list[dict[str, Any]], columns: tuple[str, ...], *, as_json: bool) -> None:
    """Print all that is known of the rows as JSON, or these columns as a table."""
    if as_json:
        print_json(rows)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        table.add_row(*("-" if row[key] is None else str(row[key]) for key in columns))
    Console().print(table)

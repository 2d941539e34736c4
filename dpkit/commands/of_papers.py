"""Commands that `papers` adds: the only names of `papers` in the library."""

from importlib import import_module

import typer

COMMANDS = {
    "claims": "dpkit.papers.commands.evidence",
    "reproduce": "dpkit.papers.commands.evidence",
}
GROUPS = {"audit": "dpkit.papers.commands.audit", "results": "dpkit.papers.commands.results"}


def added_to(app: typer.Typer) -> None:
    """Add them after the library's own commands."""
    for name, home in COMMANDS.items():
        app.command()(getattr(import_module(home), name))
    for name, home in GROUPS.items():
        app.add_typer(import_module(home).app, name=name)

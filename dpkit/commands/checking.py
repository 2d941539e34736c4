"""check: judge the epsilon that a program claims."""

import sys
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dpkit.commands.output import AsJson, print_json
from dpkit.common.files import write_bytes


def check(
    program: Annotated[
        str, typer.Argument(help="MODULE:FUNCTION, of a module in this folder or installed.")
    ],
    data: Annotated[
        str, typer.Option(metavar="FILE", help="*.npy, or *.npz for a dict of arrays.")
    ],
    claimed: Annotated[float, typer.Option(help="Epsilon that the program is said to have.")],
    delta: Annotated[float, typer.Option(help="In [0, 1).")],
    adjacency: Annotated[str, typer.Option(help="add-remove or replace-one.")] = "add-remove",
    trials: Annotated[
        int, typer.Option(help="Runs in each of two worlds for the measured epsilon; 0: none.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of the records tried; try some.")] = 0,
    page: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the report as HTML, to be: *.html."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run FUNCTION(data) on neighbouring data with the same draws, and say what gets out.

      python -m dpkit check mine:train --data records.npz --claimed 8 --delta 1e-5

    Experimental. FUNCTION returns what is released. Exit code 3 where the verdict is "broken" or
    "understated".
    """
    from dpkit.audit import check as judged

    module, _, name = program.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        train = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"PROGRAM must be MODULE:FUNCTION, got {program}: {error}") from error
    if Path(data).suffix not in (".npy", ".npz"):
        raise ValueError(f"--data must be a file *.npy or *.npz, got {data}")
    report = judged(
        train,
        dict(np.load(data)) if data.endswith("z") else np.load(data),
        claimed=claimed,
        delta=delta,
        adjacency=adjacency,  # pyright: ignore[reportArgumentType]
        trials=trials,
        seed=seed,
    )
    if page is not None:
        write_bytes(
            Path(page),
            f"<!doctype html><meta charset='utf-8'><title>{escape(program)}</title>"
            f"{report._repr_html_()}".encode(),
        )
    if as_json:
        print_json(report.as_dict())
    else:
        print(report)
    if report.verdict in ("broken", "understated"):
        raise typer.Exit(3)

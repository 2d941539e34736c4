"""results add: results of another folder, such as a GPU's, among the stored ones."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Stored results: add those of another folder.", rich_markup_mode=None)


@app.callback()  # with one command alone, its name would be left out
def _named() -> None:
    """Keep the command's name."""


@app.command("add")
def add_results(
    folder: Annotated[Path, typer.Argument(help="A folder of results: what --results names.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Also in the place of what is stored already.")
    ] = False,
) -> None:
    """Copy parts that `reproduce --results FOLDER` made into data/results.

      python -m dpkit results add build/gpu/results

    A record comes in whole, with its images, if its settings are those of today's plans; others
    are named, and stay out. What is stored already is left as it is.
    """
    from dpkit.common.files import write_bytes
    from dpkit.papers.experiments import store

    refused: list[str] = []
    paths = sorted(folder.glob("*/*/*/*.json"))
    if not paths:
        raise ValueError(f"folder must hold PAPER/TABLE/SCALE/PART.json, got {folder}")
    for path in paths:
        paper, table, scale, _ = path.parts[-4:]
        name = f"{paper} {table} {scale} {path.stem}"
        try:
            images = _checked(path)
        except Exception as error:  # such as a cut archive's, which has a class of its own
            refused.append(name)
            print(f"{name}: refused: {error!r}")
            continue
        there = store.folder(paper, table, scale=scale) / path.name
        known = there.exists()
        if known and not replace:
            print(f"{name}: stored already")
            continue
        there.with_suffix(".npz").unlink(missing_ok=True)
        if images is not None:
            write_bytes(there.with_suffix(".npz"), images)
        write_bytes(there, path.read_bytes())
        print(f"{name}: {'replaced' if known else 'added'}")
    print("Tables and claims follow by `make readme`, notebooks by `make notebooks`.")
    if refused:
        raise ValueError(
            f"{len(refused)} of {len(paths)} records were refused: {', '.join(refused)}; make "
            "them anew by `python -m dpkit reproduce`"
        )


def _checked(path: Path) -> bytes | None:
    """The content of the images beside a record, None where there are none.

    Raises:
        ValueError: the record is not whole, or today's plans know no such part with its settings.
    """
    import numpy as np

    from dpkit import papers
    from dpkit.common.records import read_json
    from dpkit.papers import comparison
    from dpkit.papers.experiments.reproduce import Sweep, check_same

    paper, table, scale, _ = path.parts[-4:]
    record = read_json(path)
    made, seeds = record["provenance"]["scale"], (record["provenance"]["seed"] or 0) + 1
    plans = papers.plans_of(paper, (*papers.PAPERS, comparison))
    if table not in plans or made != scale or not record["values"]:
        raise ValueError(f"{path} must hold values of a table of {paper}, at scale {scale}")
    planned = Sweep(paper, table, plans[table], scale, seeds, "cpu").parts()
    part = next((part for part in planned if part.name == path.stem), None)
    if part is None:
        raise ValueError(f"{table} has no part {path.stem} at scale {scale}")
    check_same(path, part)
    images = path.with_suffix(".npz")
    if not images.exists():
        return None
    with np.load(images, allow_pickle=False) as stored:
        stored["images"]  # reads all of it
    return images.read_bytes()

"""results add: results of another folder, such as a GPU's, among the stored ones."""

from pathlib import Path
from typing import Annotated

import typer

from dpkit.common.files import write_bytes
from dpkit.papers.experiments import store

app = typer.Typer(help="Stored results: add those of another folder.", rich_markup_mode=None)


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
    refused: list[str] = []
    paths = sorted(folder.glob("*/*/*/*.json"))
    if not paths:
        what = "without any" if folder.is_dir() else "which is no folder"
        raise ValueError(f"folder must hold PAPER/TABLE/SCALE/PART.json, got {folder}, {what}")
    for path in paths:
        paper, table, scale, _ = path.parts[-4:]
        there = store.folder(paper, table, scale=scale) / path.name
        name = f"{paper} {table} {scale} {path.stem}"
        try:
            done = "stored already" if there.exists() and not replace else _added(path, there)
        except Exception as error:  # such as a cut archive's, which has a class of its own
            refused.append(name)
            done = f"refused: {error!r}"
        print(f"{name}: {done}")
    print("Tables and claims follow by `make readme`, notebooks by `make notebooks`.")
    if refused:
        raise ValueError(
            f"{len(refused)} of {len(paths)} records were refused: {', '.join(refused)}; make "
            "them anew by `python -m dpkit reproduce`"
        )


def _added(path: Path, there: Path) -> str:
    """Check a record and its images, and write both, the record last.

    Raises:
        ValueError: the record is not whole, or today's plans know no such part with its settings.
    """
    from dpkit.common.records import read_json
    from dpkit.papers import PAPERS, comparison, plans_of
    from dpkit.papers.experiments.reproduce import Sweep, check_same

    paper, table, scale, _ = path.parts[-4:]
    record, images = read_json(path), path.with_suffix(".npz")
    plan = plans_of(paper, (*PAPERS, comparison))[table]
    seeds = 1 + (record["provenance"]["seed"] or 0)
    planned = Sweep(paper, table, plan, scale, seeds, "cpu").parts()
    part = next((one for one in planned if one.name == path.stem), None)
    if part is None or record["provenance"]["scale"] != scale or not record["values"]:
        raise ValueError(f"{path} must hold values of a planned part, at scale {scale}")
    check_same(path, part, tf32=False)
    done = "replaced" if there.exists() else "added"
    if images.exists():
        store.load_images(paper, table, path.stem, scale=scale, results=path.parents[3])
        write_bytes(there.with_suffix(".npz"), images.read_bytes())
    else:
        there.with_suffix(".npz").unlink(missing_ok=True)
    write_bytes(there, path.read_bytes())
    return done

"""audit: attack a system and compare the measured epsilon with the proven one."""

from typing import Annotated, Any

import typer

from dpkit.commands.output import AsJson, print_json
from dpkit.common import checks
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.papers.experiments.store import Stored

app = typer.Typer(
    help="Attack systems: measured epsilons against proven ones.", rich_markup_mode=None
)
MEASURED = (at_least, "no finite epsilon")  # forms of a measured epsilon
HEADINGS = ("target", "claimed", "charged", "proven", "measured", "trials", "seconds")


@app.command("list")
def list_targets(as_json: AsJson = False) -> None:
    """List the targets with their stored results.

    python -m dpkit audit list
    """
    rows = _rows("all")
    if as_json:
        print_json(
            [{key: value for key, value in row.items() if key != "scores"} for row in rows]
        )
    else:
        print(Table(HEADINGS, [_cells(row) for row in rows]).text())


@app.command("run")
def run_target(
    target: Annotated[str, typer.Argument(help="Such as dp_cgan/published, dp_cgan or all.")],
    seed: Annotated[int, typer.Option(help="Seed of all draws.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the lower bound, in (0, 1).")] = 0.95,
    store: Annotated[
        bool, typer.Option("--store", help="Keep the result under data/results/audit.")
    ] = False,
    repeat: Annotated[
        int, typer.Option(help="More attacks, where a finite epsilon is proven.")
    ] = 0,
    trials: Annotated[
        int, typer.Option(help="Most scores a world of each repetition.")
    ] = 2000,
    as_json: AsJson = False,
) -> None:
    """Attack a target and print a lower bound on its epsilon at the stated confidence.

      python -m dpkit audit run dp_cgan/published

    A measured epsilon above the claimed or charged one refutes it; "no finite epsilon" refutes
    all. At most 5 % of seeds measure more than is proven. A weak attack proves nothing.
    """
    from dpkit.papers.targets import chosen, results

    checks.whole(repeat=repeat)
    rows = []
    for one in chosen(target):
        row = results.run(one, seed=seed, confidence=confidence)
        if repeat and row["proven"] != "inf":
            asked = {"trials": min(trials, one.trials), "seed": seed, "confidence": confidence}
            row["repetitions"] = results.repeat(one, times=repeat, **asked)
        if store:
            results.store(row, one)
        rows.append(row)
        if not as_json:
            print(_sentence(row), flush=True)
    if as_json:
        print_json(rows[0] if len(rows) == 1 else rows)


def table(*names: str) -> Table:
    """Return the stored results of targets, or of a paper's: one line a target.

    A column without a value in any row is left out.

    Raises:
        ValueError: there is no such target or group.
    """
    rows = (_cells(row)[:-1] for name in names for row in _rows(name))
    columns = zip(HEADINGS[:-1], *rows, strict=True)
    headings, *rows = zip(*(one for one in columns if {*one[1:]} != {"-"}), strict=True)
    return Table(headings, rows)


def ending(paper: str, runs: Stored, **scales: str) -> Table:
    """A paper's epsilons, as published and repaired, with the scale and seeds of its stored runs.

    Args:
        paper: such as "dp_cgan".
        runs: stored parts by name, as `store.load` returns them.
        scales: what was run, in words, by name among `runs`, without seeds: the run as published
            first, the repaired one second.
    """
    lines, notes = [], ["none: no finite epsilon is proven."]
    for title, (key, scale) in zip(("as published", "repaired"), scales.items(), strict=True):
        (row,) = _rows(f"{paper}/{title.split()[-1]}")
        cells = ("" if one == "-" else one for one in _cells(row)[1:5])
        seeds = {
            runs[name]["provenance"]["seed"] for name in runs if name.startswith(f"{key}-seed")
        }
        lines.append((title, *cells, scale, str(len(seeds))))
        sure = 100 * row["confidence"]
        how = "with certainty" if sure == 100 else f"at {sure:g} % confidence"
        notes.append(
            f"{title.capitalize()}: {row['proven_by']}, {row['adjacency']}, delta "
            f"{short(row['delta'])}; measured in {row['trials']:,} trials, {how}."
        )
    heads = ("run", "claimed", "charged", "proven, at most", "measured, at least")
    return Table((*heads, "scale of the trained runs", "seeds"), lines, notes)


def _rows(name: str) -> list[dict[str, Any]]:
    """Return each target's stored result, or its claim before an attack."""
    from dpkit.papers.targets import chosen, results

    names = ("claimed", "charged", "version", "says", "where", "attack", "delta", "adjacency")
    empty = ("proven", "measured", "confidence", "assumes", "trials", "seconds")
    return [
        results.stored(target)
        or {"target": target.id}
        | {name: getattr(target, name) for name in names}
        | dict.fromkeys(empty)
        for target in chosen(name)
    ]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["target"],
        *("-" if row[one] is None else short(row[one], 4) for one in ("claimed", "charged")),
        "-" if row["proven"] is None else _epsilon(row["proven"], at_most),
        "not yet" if row["measured"] is None else _epsilon(row["measured"], *MEASURED),
        "-" if row["trials"] is None else f"{row['trials']:,}",
        "-" if row["seconds"] is None else f"{row['seconds']:.1f}",
    )


def _epsilon(value: float | str, rounded: Any, infinite: str = "none") -> str:
    return infinite if value == "inf" else rounded(float(value))


def _sentence(row: dict[str, Any]) -> str:
    name = "charged" if row["claimed"] is None else "claimed"
    said = row[name]
    shown = [f"{row['target']}: {row['says']}", f"Attack: {row['attack']}"]
    epsilons = [
        *([] if said is None else [f"{name} {short(said, 4)}"]),
        f"proven {_epsilon(row['proven'], at_most)}",
        f"measured {_epsilon(row['measured'], *MEASURED)}",
    ]
    how = (
        f"delta {short(row['delta'])}, {row['adjacency']}; {row['confidence']:.4g} confidence, "
        f"{row['trials']:,} trials, {row['seconds']:.1f} s; {row['method']}"
    )
    shown.append(f"Epsilon: {', '.join(epsilons)} ({how})")
    if row["refuted"]:
        shown.append(f"Refuted: the {name} epsilon does not hold")
    if "repetitions" in row:
        again = row["repetitions"]
        shown.append(
            f"Again: {again['at_most_proven']} of {again['times']} runs of {again['trials']:,} "
            "trials a world measure at most the proven epsilon"
        )
    return "\n".join(shown) + "\n"

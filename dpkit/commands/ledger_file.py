"""A run's steps from a file: the kit's own CSV or JSON, or what an Opacus accountant has saved.

CSV, one line for each stretch of steps with the same settings:

    noise_multiplier,sample_rate,count
    1.1,0.01,5000

JSON, the same as a list: [{"noise_multiplier": 1.1, "sample_rate": 0.01, "count": 5000}]. These are
steps with Poisson batches. With noise_over_sensitivity in the place of noise_multiplier they are
steps with batches of a fixed size drawn without replacement. A row may say its adjacency, too.
What else is read, of the kit's own and of Opacus, the help of --ledger says.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from reprlib import Repr
from typing import Any, NamedTuple

from dpkit.common import checks
from dpkit.privacy import (
    ADJACENCIES,
    Adjacency,
    Mechanism,
    Release,
    SampledGaussian,
    WithoutReplacementGaussian,
)

POISSON, WITHOUT_REPLACEMENT = "noise_multiplier", "noise_over_sensitivity"
ADJACENCY = "adjacency"  # may be left out
COLUMNS = (POISSON, "sample_rate", "count")
EXAMPLE = '{"noise_multiplier": 1.1, "sample_rate": 0.01, "count": 5000}'
LARGEST_TEXT = 2**26  # bytes: millions of steps
OPACUS = ("rdp", "prv", "gdp")  # its accountants; each keeps (noise multiplier, rate, steps)
CHECKPOINT = b"dpkit checkpoint"  # how one of training with `Checkpoints` begins
BINARY = (b"PK\x03\x04", b"\x80")  # how files of torch.save begin: a zip, in old ones a pickle
AS_JSON = "save the accountant's state as JSON: json.dump(accountant.state_dict(), file)"

_shown = Repr()
_shown.maxstring = _shown.maxother = 120
short = _shown.repr
# In a safetensors file: what `PrivateGan.save` says of the release, as JSON
METADATA = "dpkit"
LONGEST_HEADER = 100_000_000  # bytes; what the library itself reads
BY_HAND = "type --noise-multiplier, --sample-rate and --steps instead"


class _Row(NamedTuple):
    """One stretch of steps as it stands in a file."""

    where: str  # such as "steps.csv, line 3"
    values: Mapping[str, Any]


def read(path: str | PathLike[str], adjacency: Adjacency = "add-remove") -> list[Release]:
    """Read a ledger from a file; equal steps are merged, in order of first appearance.

    Args:
        path: a file of one of the kinds above, known by its content. A file of torch.save is
            refused, as unpickling can run code.
        adjacency: to price the steps under, the file's own where it says one. Opacus itself means
            add-remove.

    Raises:
        ValueError: names file, place, field, value and remedy: the content is of no known kind,
            holds no steps, or a number is missing, none, or out of range.
        OSError: there is no such file, or it cannot be read.
    """
    checks.one_of(ADJACENCIES, adjacency=adjacency)
    file = Path(path)
    if not file.is_file():  # another kind could be endless
        raise FileNotFoundError(f"there is no file {file}: give that of a run's steps")
    counts: dict[Mechanism, int] = {}
    for row in _rows(file):
        mechanism, count = _priced(row, adjacency)
        counts[mechanism] = counts.get(mechanism, 0) + count
    if not counts:
        raise ValueError(f"{file} holds no steps: nothing can be said of the run")
    return [Release(mechanism, count) for mechanism, count in counts.items()]


def _rows(file: Path) -> Iterator[_Row]:
    if file.suffix == ".safetensors":
        return _listed(str(file), released_rows(file))
    with file.open("rb") as stream:
        start = stream.read(len(CHECKPOINT))
    if start == CHECKPOINT:
        raise ValueError(
            f"{file} is a private checkpoint of dpkit; price the ledger beside it, "
            f"{file}.ledger.json, or the released *.safetensors"
        )
    if start.startswith(BINARY):
        raise ValueError(
            f"{file} was written by torch.save or pickle, and loading it could run code; {AS_JSON}"
        )
    if not file.stat().st_size <= LARGEST_TEXT:
        raise ValueError(
            f"{file} has over {LARGEST_TEXT} bytes; merge steps with equal settings"
        )
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} is not UTF-8 text (byte {error.start}); save it as such"
        ) from None
    if not text.strip():
        raise ValueError(f"{file} is empty; its first line should be {','.join(COLUMNS)}")
    if text.lstrip()[0] not in "[{":
        return _csv(str(file), text)
    content = _json_content(file, text)
    if isinstance(content, list):
        return _listed(str(file), content)
    if {"id", "charged"} <= content.keys():  # the ledger that lies beside a checkpoint
        if not isinstance(content.get("rows"), list):
            raise ValueError(
                f"{file} counts {content['charged']} charged steps and does not say what they "
                "release, as its settings' ledger holds more than Gaussian steps; ask that ledger "
                "or its guarantee"
            )
        return _listed(str(file), content["rows"])
    return _opacus(str(file), content)


def _csv(name: str, text: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: list[str] = []
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            where = f"{name}, line {reader.line_num}"
            if not any(cells):
                continue
            if not columns:
                columns = cells
                _check_columns(where, columns)
                continue
            if len(cells) != len(columns):
                raise ValueError(
                    f"{where}: {len(columns)} values are needed ({', '.join(columns)}), "
                    f"got {len(cells)}: {short(','.join(cells))}"
                )
            yield _Row(
                where,
                {key: _number(key, cell) for key, cell in zip(columns, cells, strict=True)},
            )
    except csv.Error as error:
        raise ValueError(f"{name}, line {reader.line_num}: {error}") from None


def _number(column: str, cell: str) -> int | float | str:
    """The cell's number; the cell itself where it is none, for the checks to refuse."""
    if column == ADJACENCY:
        return cell
    if column == "count":
        return int(cell) if re.fullmatch(r"[+-]?[0-9]{1,400}", cell) else cell
    try:
        return cell if "_" in cell else float(cell)
    except ValueError:
        return cell


def _check_columns(where: str, names: list[str]) -> None:
    """Each of the three once, in any order, and perhaps the adjacency.

    Raises:
        ValueError: one is missing, unknown or there twice.
    """
    numbers = sorted(names)
    if ADJACENCY in numbers:
        numbers.remove(ADJACENCY)
    if numbers not in (sorted(COLUMNS), sorted((WITHOUT_REPLACEMENT, *COLUMNS[1:]))):
        raise ValueError(
            f"{where}: there must be {', '.join(COLUMNS)}, each once, with commas between "
            f"({WITHOUT_REPLACEMENT} instead of {POISSON} for batches drawn without replacement); "
            f"got {short(', '.join(names))}"
        )


def _json_content(file: Path, text: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [key for key, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError(f"a name is there twice in one object: {', '.join(names)}")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file}, line {error.lineno}: no JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read as JSON: {error}") from None


def _listed(name: str, content: list[Any]) -> Iterator[_Row]:
    for number, values in enumerate(content, 1):
        where = f"{name}, item {number}"
        if not isinstance(values, dict):
            raise ValueError(
                f"{where}: must be an object such as {EXAMPLE}, got {short(values)}"
            )
        _check_columns(where, list(values))
        yield _Row(where, values)


def _opacus(name: str, content: Any) -> Iterator[_Row]:
    """The rows of the accountant's state in the content, at whatever depth."""
    found = list(_states(content))
    if len(found) != 1:
        keys = ", ".join(map(str, content)) if isinstance(content, Mapping) else short(content)
        raise ValueError(
            f"{name} holds {len(found) or 'no'} states of an Opacus accountant (history and "
            f"mechanism), and one is needed; {AS_JSON}; or write a list of objects such as "
            f"{EXAMPLE}. It has: {short(keys)}"
        )
    if found[0]["mechanism"] not in OPACUS:
        raise ValueError(
            f"{name}: mechanism must be one of {', '.join(OPACUS)}, the Opacus accountants that "
            f"are known here; got {short(found[0]['mechanism'])}"
        )
    history = found[0]["history"]
    if not isinstance(history, list | tuple):
        raise ValueError(f"{name}: history must be a list of steps, got {short(history)}")
    for number, entry in enumerate(history, 1):
        where = f"{name}, history entry {number}"
        if not (isinstance(entry, list | tuple) and len(entry) == len(COLUMNS)):
            raise ValueError(
                f"{where}: must be three numbers, {', '.join(COLUMNS)}; got {short(entry)}"
            )
        yield _Row(where, dict(zip(COLUMNS, entry, strict=True)))


def _states(content: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(content, Mapping):
        if "history" in content and "mechanism" in content:
            yield content
        else:
            for value in content.values():
                yield from _states(value)


def _priced(row: _Row, adjacency: Adjacency) -> tuple[Mechanism, int]:
    """What one row releases, and how often."""
    kind = POISSON if POISSON in row.values else WITHOUT_REPLACEMENT
    own = row.values.get(ADJACENCY, adjacency)
    _refused(row, lambda: checks.one_of(ADJACENCIES, adjacency=own), "write one of them")
    if own != adjacency:
        raise ValueError(
            f"{row.where}: its steps were accounted under {own}, got {adjacency}; choose {own}"
        )
    noise, rate, count = row.values[kind], row.values["sample_rate"], row.values["count"]
    meaning = "clip norm" if kind == POISSON else "how far replacing one record moves the sum"
    _refused(row, lambda: checks.whole(count=count), "write how many steps, such as 5000")
    _refused(
        row,
        lambda: checks.in_range(0, 1, sample_rate=rate),
        "write batch size / number of records, such as 0.01",
    )

    def made() -> Mechanism:
        checks.positive(**{kind: noise})
        if kind == POISSON:
            return SampledGaussian(float(noise), float(rate), adjacency)
        return WithoutReplacementGaussian(float(noise), float(rate))

    mechanism = _refused(
        row, made, f"it is noise standard deviation / {meaning}, and 0 has no price"
    )
    if mechanism.adjacency != adjacency:
        raise ValueError(
            f"{row.where}: {kind} is priced under {mechanism.adjacency} alone, got {adjacency}; "
            f"choose {mechanism.adjacency}"
        )
    return mechanism, int(count)


def _refused(row: _Row, check: Callable[[], Any], remedy: str) -> Any:
    try:
        return check()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{row.where}: {error}; {remedy}") from None


def released_rows(file: Path) -> list[Any]:
    """What a released model's header says that its training released; no weights are read.

    Raises:
        ValueError: the file is no safetensors file, or holds no such ledger.
    """
    # 8 bytes with the header's length (little-endian), then JSON
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        text = stream.read(length) if length <= LONGEST_HEADER else b""
    try:
        found = json.loads(json.loads(text)["__metadata__"][METADATA])["ledger"]
    except (LookupError, TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise ValueError(
            f"{file} has no list of steps under {METADATA} in its header, as dpkit's released "
            f"generators have; {BY_HAND}"
        )
    return found

"""Rows of a ledger from the files that dpkit itself writes: a checkpoint's, a released model's."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

METADATA = "dpkit"  # in a safetensors file: what `PrivateGan.save` says of the release, as JSON
LONGEST_HEADER = 100_000_000  # bytes; what the library itself reads
BY_HAND = "type --noise-multiplier, --sample-rate and --steps instead"


def is_checkpoints(content: Mapping[str, Any]) -> bool:
    """Whether this is the ledger that lies beside a checkpoint."""
    return {"id", "charged"} <= content.keys()


def checkpoint_rows(name: str, content: Mapping[str, Any]) -> list[Any]:
    """What the charged steps release, done or reserved.

    Raises:
        ValueError: the ledger counts steps and does not say what one releases.
    """
    if not isinstance(content.get("rows"), list):
        raise ValueError(
            f"{name} counts {content['charged']} charged steps and does not say what they release: "
            "it is of an older dpkit, or its settings have no ledger of Gaussian steps alone, so "
            "that a number of steps would not price it; ask the settings' own ledger or guarantee"
        )
    return content["rows"]


def released_rows(file: Path) -> list[Any]:
    """What a released model's header says that its training released; no weights are read.

    Raises:
        ValueError: the file is no safetensors file, or holds no such ledger.
    """
    metadata: Any = _header(file).get("__metadata__")
    try:
        found = json.loads(metadata[METADATA])["ledger"]
    except (LookupError, TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise ValueError(
            f"{file} has no list of steps under {METADATA} in its metadata, which dpkit's "
            f"released generators have; {BY_HAND}"
        )
    return found


def _header(file: Path) -> Mapping[str, Any]:
    """The JSON at the start: 8 bytes with its length (little-endian), then itself."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        text = stream.read(length) if length <= LONGEST_HEADER else b""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, Mapping) or len(text) < length:
        raise ValueError(f"{file} is not a safetensors file: its header is damaged or missing")
    return header

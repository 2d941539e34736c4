"""How the commands speak: JSON with plain numbers, null or "inf"."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from dpkit.common.records import json_number

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]


def plain(value: Any) -> Any:
    """The value as JSON has it: floats finite or "inf", never NaN."""
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    print(json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False))

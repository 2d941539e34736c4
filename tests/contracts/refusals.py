"""Tests of input that is refused, a row each, where nothing but the row and the words differ."""

from collections.abc import Callable
from typing import Any

import pytest

Errors = type[Exception] | tuple[type[Exception], ...]


def refused(
    *rows: tuple[Any, ...],
    call: Callable[..., object] = lambda called: called(),
    error: Errors = ValueError,
) -> Callable[..., None]:
    """A test a row: `call` of all but its last raises an error whose words the last matches."""

    @pytest.mark.parametrize("row", rows, ids=lambda row: str(row[-1]))
    def test(row: tuple[Any, ...]) -> None:
        *given, words = row
        with pytest.raises(error, match=words):
            call(*given)

    return test

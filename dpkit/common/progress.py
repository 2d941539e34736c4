"""Progress of a long run, shown as the caller chooses."""

from collections.abc import Iterable
from typing import Any, Protocol


class Progress(Protocol):
    """Wraps a run's records to show how far it is, as `tqdm.tqdm` does."""

    def __call__(
        self, records: Iterable[Any], /, *, total: int, desc: str
    ) -> Iterable[Any]: ...


def silent(records: Iterable[Any], /, *, total: int, desc: str) -> Iterable[Any]:
    """The records as they are: no progress shown."""
    return records

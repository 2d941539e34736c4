"""The file of a checkpoint: what is in it, how it is written, and when it is refused."""

import io
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpkit.training.reservation import Charged, differing, other_run, write_whole

_HEADER = (
    b"dpkit checkpoint 2. PRIVATE: the state of the random generator in it reveals the noise that "
    b"protects the data; do not release it. sha256 "
)


class CannotRestore(ValueError):
    """A checkpoint that is missing, damaged or from elsewhere: going on would be no replay."""


class Saved(NamedTuple):
    """The content of a checkpoint. It is private: with `rng` the noise can be taken off again."""

    of: dict[str, str]  # what must be the same for the run to go on
    made_with: dict[str, str]  # what must be the same for its steps to be repeated
    identity: str  # the ledger's
    run: int
    step: int  # steps done
    gan: dict[str, Any]  # the state of each network and optimiser
    rng: Tensor
    drawn_from: Tensor  # the rng's state before the last draw of a batch that advanced it
    drawn: int  # batches drawn since, that one included: where in a shuffled epoch the run is


def write_saved(path: Path, saved: Saved) -> None:
    """Write a checkpoint, whole or not at all, for its owner alone."""
    buffer = io.BytesIO()
    torch.save(saved._asdict(), buffer)
    content = buffer.getvalue()
    write_whole(path, _HEADER + sha256(content).hexdigest().encode() + b"\n" + content)


def read_saved(path: Path) -> Saved:
    """Read a checkpoint, its tensors on the CPU. No code that a file may hold is run.

    Raises:
        CannotRestore: it is missing, damaged, or holds more than tensors and plain values.
    """
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        raise CannotRestore(f"the checkpoint {path} is gone") from None
    header, _, content = whole.partition(b"\n")
    if header != _HEADER + sha256(content).hexdigest().encode():
        raise CannotRestore(f"the checkpoint {path} is damaged (its checksum differs)")
    try:
        return Saved(**torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    except Exception as error:  # torch names no class for what its reader may raise
        raise CannotRestore(f"the checkpoint {path} holds what is not read: {error}") from error


def check_same(
    path: Path, saved: Saved, *, of: Mapping[str, str], made_with: Mapping[str, str],
    charged: Charged,
) -> None:  # fmt: skip
    """Whether going on from `saved` repeats what was run.

    Args:
        path: the checkpoint's, for the error.
        saved: its content.
        of: the present run, in words.
        made_with: what else the present steps depend on.
        charged: the ledger on disk.

    Raises:
        ValueError: it is of another run, or has done more than the ledger knows of.
        CannotRestore: its weights are good, but the noise that follows would not be the same.
    """
    unlike = differing(saved.of, of)
    if unlike:
        raise other_run(path, unlike)
    if saved.identity != charged.identity:
        raise ValueError(
            f"{path} is of another run than the ledger beside it (a copy from elsewhere?), which "
            "does not count its releases; put back the two files that belong together"
        )
    older = saved.run < charged.run
    known = charged.total if older else charged.reserved
    if saved.run > charged.run or saved.step > known:
        raise ValueError(
            f"{path} has done more than the ledger beside it knows of ({saved.step} steps of run "
            f"{saved.run}; charged: {charged}); restore the ledger's newer version"
        )
    if older:
        raise CannotRestore(f"the checkpoint {path} is older than steps that were charged again")
    unlike = differing(saved.made_with, made_with)
    if unlike:
        raise CannotRestore(
            f"the steps that follow {path} cannot be repeated as they were: {'; '.join(unlike)}"
        )

"""The file of a checkpoint: its content, how it is written, and when it is refused."""

import io
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpkit.training.checkpoint.fingerprint import differing
from dpkit.training.checkpoint.ledger import Charged, write_whole

_HEADER = (
    b"dpkit checkpoint 4. PRIVATE: the state of the random generator in it reveals the noise that "
    b"protects the data; do not release it. sha256 "
)


class CannotRestore(ValueError):
    """A checkpoint that is missing or damaged."""


class Saved(NamedTuple):
    """The content of a checkpoint. It is private: with `rng` the noise can be taken off again."""

    fingerprint: dict[str, str]
    identity: str  # the ledger's
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
        raise CannotRestore(
            f"the checkpoint {path} is damaged or of another version of dpkit (its header and "
            "checksum differ)"
        )
    try:
        return Saved(**torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    except Exception as error:  # torch names no class for what its reader may raise
        raise CannotRestore(f"the checkpoint {path} holds what is not read: {error}") from error


def restored(path: Path, fingerprint: Mapping[str, str], charged: Charged) -> Saved:
    """Read the checkpoint at `path` that a run with this fingerprint and these charges left.

    Raises:
        ValueError: it is missing or damaged, of another run, or has done more steps than are
            charged.
    """
    try:
        saved = read_saved(path)
    except CannotRestore as error:
        raise ValueError(
            f"{error}, so training cannot continue after the {charged.steps} steps charged here; "
            "restore its newest copy, or give Checkpoints another path, whose steps cost on top of "
            "these"
        ) from error
    unlike = differing(saved.fingerprint, fingerprint)
    if unlike:
        raise ValueError(
            f"{path} is of another run; these differ: {'; '.join(unlike)}. Use the settings it "
            "was started with, or give Checkpoints another path, whose steps cost on top of those "
            "charged here"
        )
    if saved.identity != charged.identity:
        raise ValueError(
            f"{path} is of another run than the ledger beside it (a copy from elsewhere?), which "
            "does not count its releases; put back the newest copy of the two files that belong "
            "together"
        )
    if saved.step > charged.steps:
        raise ValueError(
            f"{path} has done {saved.step} steps, more than the ledger beside it knows of "
            f"({charged.steps}); restore the ledger's newest copy"
        )
    return saved

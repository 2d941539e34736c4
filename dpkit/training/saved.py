"""The file of a checkpoint: what is in it, how it is written, and when it is refused."""

import io
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from dpkit.training.reservation import Charged, differing, other_run, write_whole

if TYPE_CHECKING:
    from dpkit.training.loop import Data, Gan

_HEADER = (
    b"dpkit checkpoint 1. PRIVATE: the state of the random generator in it reveals the noise that "
    b"protects the data; do not release it. sha256 "
)


class CannotRestore(ValueError):
    """A checkpoint that is missing, damaged or from elsewhere: going on would be no replay."""


class Saved(NamedTuple):
    """The content of a checkpoint. It is private: with `rng` the noise can be taken off again."""

    of: dict[str, str]  # what must be the same for the run to go on
    made_with: dict[str, str]  # what must be the same for its noise to be the same
    run: int
    earlier: int
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
        made_with: where the present noise comes from.
        charged: the ledger on disk.

    Raises:
        ValueError: it is of another run, or has done more than the ledger knows of.
        CannotRestore: its weights are good, but the noise that follows would not be the same.
    """
    unlike = differing(saved.of, of)
    if unlike:
        raise other_run(path, unlike)
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
        raise CannotRestore(f"the noise of {path} cannot be repeated: {'; '.join(unlike)}")


def made_with(rng: torch.Generator) -> dict[str, str]:
    """What the generator's draws depend on beside its state."""
    on_gpu = rng.device.type == "cuda"
    device = torch.cuda.get_device_name(rng.device) if on_gpu else rng.device.type
    return {"device": device, "torch": str(torch.__version__)}


def describe_settings(settings: Any) -> dict[str, str]:
    """A frozen dataclass in words that are the same in every process: its type and each field.

    Raises:
        ValueError: it is no frozen dataclass, or a field is described by its place in memory.
    """
    parameters = getattr(type(settings), "__dataclass_params__", None)
    if not is_dataclass(settings) or parameters is None or not parameters.frozen:
        raise ValueError(
            f"settings must be a frozen dataclass to be stored with a checkpoint, got {settings!r}"
        )
    kind = type(settings)
    found = {"settings": f"{kind.__module__}.{kind.__qualname__}"}
    for field in fields(settings):
        found[f"settings.{field.name}"] = text = repr(getattr(settings, field.name))
        if " at 0x" in text:
            raise ValueError(
                f"settings.{field.name} must be a value that another process can compare, got "
                f"{text}; use a frozen dataclass"
            )
    return found


def describe_gan(gan: "Gan") -> dict[str, str]:
    """Each network's tensors and each optimiser's kind, in words."""
    found = {}
    for name in gan._fields:
        part = getattr(gan, name)
        if isinstance(part, nn.Module):
            shapes = (f"{key} {_shape(value)}" for key, value in part.state_dict().items())
            found[f"gan.{name}"] = ", ".join(shapes)
        else:
            sizes = [len(group["params"]) for group in part.param_groups]
            found[f"gan.{name}"] = f"{type(part).__name__} of {sizes} tensors"
    return found


def checksum(data: "Data") -> str:
    """SHA-256 over shape, type and bytes of features and labels. It is private: it tells a guess
    of the whole data set from a wrong one."""
    digest = sha256()
    for tensor in (data.features, data.labels):
        digest.update(_shape(tensor).encode())
        plain = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(plain.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return type(value).__name__

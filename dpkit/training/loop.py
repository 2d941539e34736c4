"""The training loop: yields a record a step, stops before the step that would overspend."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import torch
from torch import Tensor

from dpkit.training.batches import batches
from dpkit.training.budget import steps_to_run
from dpkit.training.checkpoint import Checkpoints, kept
from dpkit.training.types import Data, Gan, Record, Settings, Step


def train(
    step: Step, gan: Gan, data: Data, *, settings: Settings, rng: torch.Generator,
    steps: int | None = None, checkpoint: Checkpoints | None = None, tf32: bool = False,
) -> Iterator[Record]:  # fmt: skip
    """Train `gan`, one private release a step, until the steps or the budget end.

    Args:
        step: a paper's step, called with (gan, features, labels) of one batch and the keywords
            settings, index and rng.
        gan: updated in place.
        data: features and labels on rng's device.
        settings: they own the ledger, from which `steps_allowed` follows.
        rng: all randomness of batches, latents and noise.
        steps: stop earlier than the settings allow.
        checkpoint: where to store the run, and go on with it if it is stored there: `gan` and `rng`
            then take the stored state, and only the steps that remain are run. A run that begins
            there has noise of its own (see Checkpoints). Count what was spent by
            `dpkit.training.checkpoint.spent(path)`, not by the records of one process.
        tf32: let a GPU multiply with 10 bits of mantissa: faster, and no longer float32. Norms and
            noise stay float32, but norms of gradients that were multiplied so are as rough.

    Yields:
        a Record a step. Progress, plots and storing results are the caller's.

    Raises:
        ValueError: more steps are asked for than the budget allows; or the files at `checkpoint`
            are of another run, damaged, or lost, or the step or the networks cannot be compared by
            another process (see Checkpoints).
        RuntimeError: another run is at work at `checkpoint`, or rng or networks were changed
            between two steps of a run that is stored.
    """
    allowed = settings.steps_allowed(public_size=data.public_size)
    if checkpoint is None:
        draws = _draws(settings, data, rng)
        for index in range(steps_to_run(steps, allowed=allowed)):
            with precision(tf32=tf32):
                record = _run(step, gan, data, next(draws), settings=settings, index=index, rng=rng)
            yield record
        return
    with kept(
        checkpoint, gan, data, step=step, settings=settings, rng=rng, steps=steps, allowed=allowed,
        tf32=tf32,
    ) as run:  # fmt: skip
        draws = run.replayed(_draws(settings, data, rng))
        while run.step < run.steps:
            with run.one_step(), precision(tf32=tf32):
                chosen = run.draw(draws)
                record = _run(step, gan, data, chosen, settings=settings, index=run.step, rng=rng)
            yield record


def _draws(settings: Settings, data: Data, rng: torch.Generator) -> Iterator[Tensor]:
    size = len(data.features)
    return batches(settings.sampling, size=size, public_size=data.public_size, rng=rng)


def _run(
    step: Step, gan: Gan, data: Data, chosen: Tensor, *, settings: Settings, index: int,
    rng: torch.Generator,
) -> Record:  # fmt: skip
    features, labels = data.features[chosen], data.labels[chosen]
    return step(gan, features, labels, settings=settings, index=index, rng=rng)


@contextmanager
def precision(*, tf32: bool) -> Iterator[None]:
    """Products of matrices and convolutions on a GPU in float32, or in TF32; as before after it."""
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


def device_named(name: str) -> torch.device:
    """The device called auto, cpu or cuda; auto is the accelerator where there is one.

    Raises:
        ValueError: the name is none of these, or there is no CUDA device.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda' but torch sees no CUDA device; use cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def device_label(device: torch.device) -> str:
    """What a stored result calls the device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generator seeded inside the block and restored after it: for construction."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # noqa: TID251  the one place where the ban is lifted
        yield


def generator_on(device: torch.device, *, seed: int, stream: str = "training") -> torch.Generator:
    """A fresh source of randomness on `device`, of its own for each seed and stream.

    The accounting takes the noise to be independent of all else that is drawn, so what is drawn for
    another purpose (initial weights, latents of what is released) comes from another stream.
    """
    digest = sha256(f"{stream}/{seed}".encode()).digest()
    return torch.Generator(device=device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)

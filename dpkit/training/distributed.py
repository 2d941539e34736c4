"""Training on several processes (ranks): each clips a share of every batch; sums are added.

All ranks hold the same networks and draw the same batches, latents and noise from generators in the
same state. Only `clipped_sum` divides work: of each batch a rank clips its rows, the clipped sums
are added over all ranks, and each adds the same noise to the same sum and updates alike. So it is
one release of one batch, as in one process; nothing is wrapped, and no weights are sent after the
start. What else a step computes runs on every rank; where a GPU adds in no fixed order, generators
may drift apart in their last digits, which costs no privacy, and rank 0's is the one to store. The
network between ranks must be trusted: the state of the generator of all noise is sent over it.
"""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dpkit.privacy.clipping import ClippingRule, PerCoordinateClipping
from dpkit.training import gradients
from dpkit.training.device import device_label, device_named
from dpkit.training.gradients.ghost_clipping import Clipped, PerExample

Parts = Iterable[nn.Module | torch.optim.Optimizer]
MEANWHILE = timedelta(minutes=10)  # how long a rank waits for the others


class Rank(NamedTuple):
    """This process among `world`: 0 .. world - 1. Rank 0 alone writes files."""

    rank: int
    world: int


def here() -> Rank:
    """This process among the ranks that train together; (0, 1) where there is no other.

    Raises:
        RuntimeError: torchrun started several processes, and they were not joined.
    """
    if dist.is_available() and dist.is_initialized():
        return Rank(dist.get_rank(), dist.get_world_size())
    if "TORCHELASTIC_RUN_ID" in os.environ and _started() > 1:
        raise RuntimeError(
            f"torchrun started {_started()} processes, and they do not train together yet: each "
            "would spend the budget by itself; train within `with distributed.joined() as device:` "
            "(from dpkit.training import distributed)"
        )
    return Rank(0, 1)


@contextmanager
def joined(device: str = "auto", *, timeout: timedelta = MEANWHILE) -> Iterator[torch.device]:
    """Join the processes that torchrun started, until the block ends: this one's device.

        from dpkit import PrivateGan, datasets, training
        from dpkit.private.image_networks import image_networks
        networks = image_networks((1, 28, 28), classes=10, latent_size=64)
        with training.distributed.joined() as device:
            gan = PrivateGan(*networks, epsilon=8, delta=1e-5, classes=10, device=str(device))
            gan.fit(datasets.digits(), steps=20)
            if training.distributed.here().rank == 0:
                gan.save("generator.safetensors")

    On GPUs each process takes that of its local rank, and sums are added by NCCL, on CPUs by gloo.
    Without torchrun it is the device alone. Where a rank has ended, NCCL's watchdog aborts the
    others after `timeout` with its own message, and none of them raises a RuntimeError.

    Args:
        device: as `device_named` takes it.
        timeout: how long to wait for another rank before giving it up.

    Raises:
        ValueError: there are more processes than GPUs.
        RuntimeError: the processes cannot reach each other.
    """
    found = device_named(device)
    if _started() == 1:
        yield found
        return
    if found.type == "cuda":
        index = int(os.environ["LOCAL_RANK"])
        if not index < torch.cuda.device_count():
            raise ValueError(
                f"each process needs its own GPU, and there are {torch.cuda.device_count()}; pass "
                f"--nproc_per_node={torch.cuda.device_count()} to torchrun"
            )
        found = torch.device("cuda", index)
        torch.cuda.set_device(found)
    with _with_others():
        if found.type == "cuda":
            dist.init_process_group("nccl", timeout=timeout, device_id=found)
        else:
            dist.init_process_group("gloo", timeout=timeout)
    try:
        yield found
    finally:
        dist.destroy_process_group()  # also ends others' wait where this one failed


def _started() -> int:
    """The number of processes that torchrun says it started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def clipped_sum(
    of: Callable[..., tuple[PerExample, Tensor]],
    *inputs: Tensor,
    rule: ClippingRule | PerCoordinateClipping,
    microbatch_size: int | None = None,
) -> Clipped:
    """As `gradients.clipped_sum`, of which each rank computes its share of the batch.

    Every rank gives the whole batch and gets its sum, with weights and losses of all examples. Sums
    are added in double precision, so that they differ from those of one process by rounding alone.
    Torch's global generators (dropout) are seeded for each rank's share, and are in the same state
    on all ranks afterwards: masks are others than in one process.

    Args:
        of: per-example gradients and losses of inputs.
        inputs: tensors of the whole batch, (batch, ...).
        rule: clips, and answers the sensitivity of the sum.
        microbatch_size: examples at a time on each rank.

    Raises:
        RuntimeError: weights, bounds of coordinates or batches of the ranks differ, or a rank has
            ended.
    """
    rank, world = here()
    if world == 1:
        return gradients.clipped_sum(of, *inputs, rule=rule, microbatch_size=microbatch_size)
    device = inputs[0].device
    seed = int(torch.randint(2**62, ())) + rank
    on_gpu = [device.index or 0] if device.type == "cuda" else []
    # after it, all ranks' generators are in the same state
    with torch.random.fork_rng(on_gpu):
        torch.default_generator.manual_seed(seed)
        for index in on_gpu:
            torch.cuda.default_generators[index].manual_seed(seed)
        share = (x[rank::world] for x in inputs)
        mine = gradients.clipped_sum(of, *share, rule=rule, microbatch_size=microbatch_size)
    own = (
        rule.bounds if isinstance(rule, PerCoordinateClipping) else getattr(rule, "scales", ())
    )
    on_device = [torch.as_tensor(one, device=device) for one in own]
    size = len(inputs[0])
    _check_alike([*mine.parameters, *on_device], size)
    # the whole batch's sums, weights and losses, by one addition over all ranks
    share = torch.cat((mine.weights, mine.losses.detach()[None])).double()
    rows = share.new_zeros(len(share), size)
    rows[:, rank::world] = share
    parts = [*mine.sums, rows]
    flat = torch.cat([part.reshape(-1).double() for part in parts])
    with _with_others():
        dist.all_reduce(flat)
    pieces = flat.split([part.numel() for part in parts])
    *sums, rows = (a.view(b.shape).to(b.dtype) for a, b in zip(pieces, parts, strict=True))
    weights, losses = rows[:-1].to(mine.weights.dtype), rows[-1].to(mine.losses.dtype)
    return Clipped(mine.parameters, sums, weights, losses)


def _check_alike(tensors: Iterable[Tensor], size: int) -> None:
    """Refuse sums of networks or batches that differ between ranks."""
    sums = [one.detach().sum(dtype=torch.float64) for one in tensors]
    sums += [torch.linalg.vector_norm(one.detach(), dtype=torch.float64) for one in tensors]
    own = torch.stack([sums[0].new_tensor(size), *sums]).nan_to_num()
    largest = torch.stack((own, -own))
    with _with_others():
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    if not torch.equal(largest[0], -largest[1]):  # the largest of all is the smallest
        raise RuntimeError(
            "weights, bounds or batches differ between the ranks, so their sums are not added up "
            "(nothing of this step is released): each rank must give the same data and networks to "
            "`train`, and draw from its rng alike"
        )


def agree(
    parts: Parts, data: Sequence[Tensor], *, settings: Any, rng: torch.Generator
) -> None:
    """Before the first step: check data and settings; take weights and rng of rank 0.

    Rank 0 has chosen the initial weights, the state of `rng` and that of torch's global generator,
    whatever seeds the others were given.

    Args:
        parts: networks and their optimisers.
        data: tensors with the record first, in the same order on all ranks.
        settings: with a repr that says what they are.
        rng: of batches and noise.

    Raises:
        RuntimeError: data, settings, networks' shapes or models of GPU differ between the ranks (it
            is said which), or a rank has ended.
    """
    if here().world == 1:
        return
    networks = [part for part in parts if isinstance(part, nn.Module)]
    rows = [
        tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in data
    ]
    words: dict[str, Any] = {
        "data": [
            f"{tuple(tensor.shape)} {tensor.dtype} {sha256(own.numpy().data).hexdigest()}"
            for tensor, own in zip(data, rows, strict=True)
        ],
        "settings": re.sub(" at 0x[0-9a-f]+", "", repr(settings)),
        "networks": [
            [(name, tuple(tensor.shape)) for name, tensor in net.named_parameters()]
            for net in networks
        ],
        "devices": device_label(rng.device),
    }
    everyones: list[Any] = [None] * here().world
    with _with_others():
        dist.all_gather_object(everyones, words)
    differ = [name for name in words if any(one[name] != words[name] for one in everyones)]
    if differ:
        models = sorted({one["devices"] for one in everyones})
        raise RuntimeError(
            f"{' and '.join(differ)} differ between the ranks, on {' and '.join(models)}: give all "
            "of them the same, in the same order (each rank draws the same batch and noise, which "
            "two models of GPU do not, and clips its share of the batch)"
        )
    take_states(parts, rng)


def take_states(parts: Parts, rng: torch.Generator, more: Any = None) -> Any:
    """Take the weights, optimisers and generators of rank 0; return its `more` (plain or tensors).

    Raises:
        RuntimeError: a rank has ended.
    """
    states = [part.state_dict() for part in parts]
    buffer = io.BytesIO()
    torch.save((states, rng.get_state(), torch.get_rng_state(), more), buffer)
    sent = [buffer.getvalue()]
    with _with_others():
        dist.broadcast_object_list(sent)
    states, of_rng, of_torch, more = torch.load(
        io.BytesIO(sent[0]), map_location="cpu", weights_only=True
    )
    if here().rank:
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
        rng.set_state(of_rng)
        torch.set_rng_state(of_torch)
    return more


@contextmanager
def _with_others() -> Iterator[None]:
    """Say in words that another rank has ended, or does not answer."""
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(
            "a rank has ended or does not answer, so training stops on all of them; see the first "
            "error of the others, end all ranks and start them again: a checkpoint resumes, and "
            "its steps are already charged "
            f"({str(error).splitlines()[0][:200]})"
        ) from error

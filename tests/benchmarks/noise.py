"""The noise of one step: whole tails and a grid, against torch's own normals; its share of a step.

102,000 coordinates, as the discriminator of DP-CGAN has. The last row clips each coordinate of each
example, which forms full gradients, against a plain step.
"""

from collections.abc import Iterator
from functools import partial

import torch
from bench import Row, medians
from training import CASES, DEVICE, THREADS, Dpkit, Plain, synchronised

from dpkit.privacy.clipping import PerCoordinateClipping
from dpkit.training import clipped_sum, noised, per_example
from dpkit.training.losses import called_real

REPEATS = 31


def rows() -> Iterator[Row]:
    """Noise against torch's own draws, noise against a step, and clipping by coordinate."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield from _rows()
    finally:
        torch.set_num_threads(threads)


def _rows() -> Iterator[Row]:
    case = CASES["mlp"]
    rng = torch.Generator(DEVICE).manual_seed(1)
    inputs = tuple(torch.rand(shape, generator=rng, device=DEVICE) for shape in case.inputs)
    plain, ours = Plain(case, inputs), Dpkit(case, inputs)
    _, sums = ours.clipped_sums()
    of = partial(per_example, ours.network, called_real)
    bounds = PerCoordinateClipping(tuple(torch.full_like(total, 1e-3) for total in sums))

    def drawn(dtype: torch.dtype) -> None:
        for total in sums:
            torch.randn(total.shape, generator=rng, device=DEVICE, dtype=dtype).add_(total)

    runs = {
        "noised": partial(noised, sums, noise_std=1.0, rng=rng),
        "float32": partial(drawn, torch.float32),
        "float64": partial(drawn, torch.float64),
        "step": ours,
        "plain": plain,
        "coordinates": lambda: clipped_sum(of, *inputs, rule=bounds),
    }
    times = medians(
        {name: synchronised(lambda run=run: run() and None) for name, run in runs.items()},
        repeats=REPEATS,
    )
    peer = "torch.randn in float64"
    yield Row("noise", times["noised"], times["float32"], peer, times["float64"])
    yield Row("noise as a share of the private mlp step", times["noised"], times["step"])
    yield Row("mlp, clipped by coordinate", times["coordinates"], times["plain"])

"""Two processes against one, by one thread each: the time of a private step with a penalty."""

import os
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter

import torch
from bench import Row
from training import CASES, PENALTY, RULE

from dpkit.training import gradient_penalty, noised, update
from dpkit.training.device import seeded
from dpkit.training.distributed import clipped_sum, here, joined

STEPS = 12


def rows() -> Iterator[Row]:
    """conv-wgan-gp with a batch of 256: dpkit is two processes, plain is one."""
    if torch.cuda.is_available() or (os.cpu_count() or 1) < 2:
        return
    both, one = _timed(2), _timed(1)
    yield Row("conv-wgan-gp of 256, two processes against one", both, one)


def _timed(processes: int) -> float:
    """Milliseconds a step, as rank 0 prints them."""
    start = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [*start, "--standalone", __file__], capture_output=True, text=True, env=environment
    )
    if found.returncode:
        raise RuntimeError(f"{processes} processes do not train: {found.stderr[-800:]}")
    return float(found.stdout.split()[-1])


def main() -> None:
    """Some steps; the median time of those after the first two."""
    torch.set_num_threads(1)
    case, rng = CASES["conv-wgan-gp"], torch.Generator().manual_seed(1)
    with seeded(0):
        network = case.make()
    optimizer = torch.optim.Adam(network.parameters())
    real, fake = torch.rand((2, 256, 1, 28, 28), generator=rng)

    def of(real, fake, mixing):
        return gradient_penalty.per_example(network, real, fake, mixing=mixing, weight=PENALTY)

    times = []
    with joined("cpu"):
        for _ in range(STEPS):
            began = perf_counter()
            mixing = torch.rand(256, generator=rng)
            found = clipped_sum(of, real, fake, mixing, rule=RULE, microbatch_size=64)
            noisy = noised(found.sums, noise_std=1.0, rng=rng)
            update(optimizer, found.parameters, [total / 256 for total in noisy])
            times.append(1000 * (perf_counter() - began))
        if here().rank == 0:
            print(sorted(times[2:])[len(times[2:]) // 2])


if __name__ == "__main__":
    main()

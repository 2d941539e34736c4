"""Two processes against one, by one thread each: the time of a private step with a penalty.

`timed` with a device is also what `make gpu` compares, where there are two of them.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter

import torch
from bench import Row
from training import CASES, DEVICE, PENALTY, RULE, wait

from dpkit.training import gradient_penalty, noised, update
from dpkit.training.device import seeded
from dpkit.training.distributed import clipped_sum, here, joined

STEPS = 12


def rows() -> Iterator[Row]:
    """conv-wgan-gp with a batch of 256: dpkit is two processes, plain is one."""
    if torch.cuda.is_available() or (os.cpu_count() or 1) < 2:
        return
    (both, _), (one, _) = timed(2, "cpu"), timed(1, "cpu")
    yield Row("conv-wgan-gp of 256, two processes against one", both, one)


def timed(processes: int, device: str) -> tuple[float, float]:
    """Milliseconds a step, as rank 0 prints them, and the norm of the weights after all."""
    start = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DEVICE": device}
    found = subprocess.run(
        [*start, "--standalone", __file__], capture_output=True, text=True, env=environment
    )
    if found.returncode:
        raise RuntimeError(f"{processes} processes do not train: {found.stderr[-800:]}")
    milliseconds, norm = map(float, found.stdout.split()[-2:])
    return milliseconds, norm


def main() -> None:
    """Some steps; the median time of those after the first two."""
    torch.set_num_threads(1)
    case, times = CASES["conv-wgan-gp"], []
    with joined(DEVICE.type) as device:
        rng = torch.Generator(device).manual_seed(1)
        with seeded(0):
            network = case.make().to(device)
        optimizer = torch.optim.Adam(network.parameters())
        real, fake = torch.rand((2, 256, 1, 28, 28), generator=rng, device=device)

        def of(real, fake, mixing):
            return gradient_penalty.per_example(network, real, fake, mixing=mixing, weight=PENALTY)

        for _ in range(STEPS):
            began = perf_counter()
            mixing = torch.rand(256, generator=rng, device=device)
            found = clipped_sum(of, real, fake, mixing, rule=RULE, microbatch_size=64)
            noisy = noised(found.sums, noise_std=1.0, rng=rng)
            update(optimizer, found.parameters, [total / 256 for total in noisy])
            wait()
            times.append(1000 * (perf_counter() - began))
        norm = torch.stack([p.detach().norm() for p in network.parameters()]).norm().item()
        if here().rank == 0:
            print(sorted(times[2:])[len(times[2:]) // 2], norm)


if __name__ == "__main__":
    main()

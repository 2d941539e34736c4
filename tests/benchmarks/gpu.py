"""What only a GPU can show, after `training`'s rows there (`make bench DEVICE=cuda`).

Steps a second, the share of the time in which the GPU computes, and by how much its clipped sums
differ from the CPU's.
"""

from time import perf_counter
from typing import Any

import torch
from training import CASES, DEVICE, Case, Dpkit

from dpkit.training.device import device_label

STEPS = 50


def wait() -> None:
    """Until the GPU has finished."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def shown(case: Case) -> dict[str, float]:
    """One case's figures."""
    rng = torch.Generator().manual_seed(1)
    inputs = tuple(torch.rand(shape, generator=rng) for shape in case.inputs)
    ours = Dpkit(case, tuple(x.to(DEVICE) for x in inputs))
    for _ in range(5):
        ours()
    wait()
    began = perf_counter()
    for _ in range(STEPS):
        ours()
    wait()
    wall = perf_counter() - began
    with torch.profiler.profile() as profiler:
        for _ in range(STEPS):
            ours()
        wait()
    averages: Any = profiler.key_averages()
    busy = sum(event.self_device_time_total for event in averages) * 1e-6
    return {
        "steps_a_second": STEPS / wall,
        "share_of_time_on_gpu": min(busy / wall, 1.0),
        "difference_from_cpu": difference(case, inputs),
    }


def difference(case: Case, inputs: tuple[torch.Tensor, ...]) -> float:
    """Between the clipped sums of GPU and CPU, relatively: the same weights, the same mixing."""
    found = []
    mixing = torch.linspace(0, 1, len(inputs[0]))
    for device in (torch.device("cpu"), DEVICE):
        ours = Dpkit(case, tuple(x.to(device) for x in inputs))
        ours.network.to(device)
        ours.mixing = lambda device=device: mixing.to(device)
        _, sums = ours.clipped_sums()
        found.append(torch.cat([total.flatten().cpu() for total in sums]))
    return float((found[0] - found[1]).norm() / found[0].norm())


def figures() -> list[dict[str, Any]]:
    """Of every case, printed as they come.

    Raises:
        ValueError: a clipped sum differs from the CPU's by more than 1e-4, relatively.
    """
    rows = []
    for name, case in CASES.items():
        row = shown(case)
        print(name, *(f"{key} {value:.3g}" for key, value in row.items()), sep="  ")
        if not row["difference_from_cpu"] <= 1e-4:
            raise ValueError(f"{name}: the GPU's clipped sum differs: {row}")
        rows.append({"name": name, "device": device_label(DEVICE), **row})
    return rows

"""What must hold on a device as on the CPU: checks for gpu.py, each a row that says what it saw.

Draws are the CPU's on both sides (`SameDraws`), so that a step differs by its arithmetic alone. A
random check fails with a probability of at most `RARE` where all is well.
"""

import hashlib
import json
import math
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch
import training as cases
from scipy import stats
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from dpkit import datasets
from dpkit.common.records import read_json, write_json
from dpkit.papers import adadp, dp_cgan, dpgan, rdp_gan, small_images
from dpkit.papers.adadp import algorithm
from dpkit.privacy import normals
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.training import Checkpoints, Data, noised, noised_each, spent, train
from dpkit.training.device import device_label, generator_on, precision
from dpkit.training.noise import watched

CPU, DEVICE, RARE = torch.device("cpu"), cases.DEVICE, 5.7e-7  # of 5 standard errors
LIMIT, LIMIT_OF_PENALTY = 1e-4, 1e-3  # relative, in float32
COUNT, BATCH, STEPS = 4_000_000, 48, 40
Row = dict[str, Any]


class SameDraws(TorchFunctionMode):
    """Draws on any device are the CPU's, of the same shape and type, in their order."""

    def __init__(self) -> None:
        self.drawn: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        told = kwargs or {}
        if told.get("generator") is None:
            return func(*args, **told)
        like = [one for one in args if isinstance(one, Tensor)]
        device = like[0].device if like else told["generator"].device
        key = f"{func.__name__} {tree_map(_form, args)} {told.get('dtype')}"
        self.drawn[key] = self.drawn.get(key, 0) + 1
        digest = hashlib.sha256(f"{key} {self.drawn[key]}".encode()).digest()
        own = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
        told = told | {"generator": own} | ({"device": CPU} if "device" in told else {})
        on_cpu = [one.cpu() if isinstance(one, Tensor) else one for one in args]
        made = func(*on_cpu, **told).to(device)
        return like[0].copy_(made) if func.__name__.endswith("_") else made


def _form(one: Any) -> Any:
    return tuple(one.shape) if isinstance(one, Tensor) else one


def apart(one: list[Tensor], other: list[Tensor]) -> float:
    """The distance of two lists of tensors, relative to the first."""
    a, b = (torch.cat([x.detach().cpu().double().flatten() for x in xs]) for xs in (one, other))
    return float((a - b).norm() / a.norm())


def clipped_sums() -> Iterator[tuple[str, Row]]:
    """Of each network of `training`, in float32, in TF32 and in double."""
    for name, case in cases.CASES.items() if DEVICE != CPU else [("mlp", cases.CASES["mlp"])]:
        rng = torch.Generator().manual_seed(1)
        inputs = tuple(torch.rand(shape, generator=rng) for shape in case.inputs)
        with precision(tf32=False):
            row: Row = {"value": cases.difference(case, inputs)}
        row["limit"] = LIMIT_OF_PENALTY if case.penalty else LIMIT
        with precision(tf32=True):
            row["tf32"] = cases.difference(case, inputs)
        if name != "bie-cgan":  # slow on a CPU
            row["double"] = cases.difference(case, tuple(one.double() for one in inputs))
        yield f"clipped sums, {name}", row


def steps(device: torch.device, batch: int) -> dict[str, tuple[Any, ...]]:
    """Of each paper a private step, what makes its model, a batch, and its settings."""
    rng, drawn = torch.Generator().manual_seed(3), PoissonSampling(batch)
    both = torch.rand((2 * batch, 1, 28, 28), generator=rng).mul(2).sub(1)
    images, public = both.to(device).split(batch)
    flat, labels = images.flatten(1), torch.arange(batch, device=device) % 10
    of_cgan = replace(dp_cgan.REPAIRED, sampling=drawn)
    of_dpgan = replace(dpgan.settings.REPAIRED, sampling=drawn)
    of_small = replace(small_images.REPAIRED, sampling=drawn)
    gradient = rdp_gan.settings.GradientNoise(Constant(2.0), 0.5)
    of_rdp = replace(rdp_gan.SETTINGS, noise=gradient, sampling=drawn)
    of_adadp = replace(adadp.settings.REPAIRED, sampling=drawn, pca_noise=None)
    lot = flat[:, : of_adadp.widths[0]], labels
    of_public = dpgan.step_of(of_dpgan, public)
    rows = {
        "dp_cgan": (dp_cgan.step, dp_cgan.new_gan, flat, labels, of_cgan),
        "dpgan": (of_public, dpgan.new_gan, images, labels * 0, of_dpgan),
        "small_images": (small_images.step, small_images.new_gan, images, labels * 0, of_small),
        "rdp_gan": (rdp_gan.step_of(of_rdp), rdp_gan.new_gan, flat, labels, of_rdp),
        "adadp": (algorithm.step, algorithm.new_classifier, *lot, of_adadp),
    }
    return {
        name: (step, partial(new, settings, seed=0, device=device), x, y, settings)
        for name, (step, new, x, y, settings) in rows.items()
    }


def papers() -> Iterator[tuple[str, Row]]:
    """The sums that one step noises, and the networks after it, without noise."""
    on_cpu, there = steps(CPU, BATCH), steps(DEVICE, BATCH)
    for name in on_cpu:
        seen = []
        for device, made in ((CPU, on_cpu), (DEVICE, there)):
            step, new, features, labels, settings = made[name]
            model, rng, sums = new(), generator_on(device, reproducible_seed=0), []
            with SameDraws(), watched(partial(_without_noise, sums)), precision(tf32=False):
                step(model, features, labels, settings=settings, index=0, rng=rng)
            nets = [part for part in model if isinstance(part, torch.nn.Module)]
            seen.append((sums, [p for net in nets for p in net.parameters()]))
        (sums, nets), (other, others) = seen
        limit = LIMIT_OF_PENALTY if name in ("dpgan", "small_images") else LIMIT
        row = {"value": apart(sums, other), "limit": limit, "weights_after": apart(nets, others)}
        yield f"a step of {name}", row


def _without_noise(seen: list[Tensor], sums: Any, *_: Any) -> list[Tensor]:
    seen += (plain := [one.detach().clone() for one in sums])
    return plain


def noise() -> Iterator[tuple[str, Row]]:
    """Its law on half-cells of its grid, its variance and tails, and its grid at all deviations."""
    rng, grid = generator_on(DEVICE), normals.grid(1.0)
    (drawn,) = noised([torch.zeros(COUNT, device=DEVICE)], noise_std=1.0, rng=rng)
    cells, each = np.unique(drawn.cpu().double().numpy() / grid, return_counts=True)
    yield "noise off its grid", {"value": int((cells != np.round(cells)).sum()), "limit": 0}
    ends = stats.norm.cdf((cells + 0.5) * grid)
    far = float(np.abs(np.cumsum(each) / COUNT - ends).max())
    # Massart 1990: P(distance > t) <= 2 exp(-2 n t^2)
    limit = math.sqrt(math.log(2 / RARE) / (2 * COUNT))
    yield "noise, Kolmogorov-Smirnov", {"value": far, "limit": limit, "fails_by_chance": RARE}
    squares = float((each * (cells * grid) ** 2).sum() / COUNT)
    off = abs(squares - 1 - grid**2 / 12) / math.sqrt(2 / COUNT)  # Sheppard's correction
    yield "noise, variance in standard errors", {"value": off, "limit": 5, "fails_by_chance": RARE}
    for beyond in (4.5, 5.0):
        edge = (math.floor(beyond / grid) + 0.5) * grid
        count = int(each[np.abs(cells * grid) > beyond].sum())
        chance = stats.binomtest(count, COUNT, 2 * float(stats.norm.sf(edge))).pvalue
        row = {"value": -math.log10(max(chance, 1e-99)), "limit": -math.log10(RARE), "seen": count}
        row |= {"expected": 2 * float(stats.norm.sf(edge)) * COUNT, "fails_by_chance": RARE}
        yield f"noise beyond {beyond}, improbability", row
    stds = torch.logspace(-30, 30, 100_000, dtype=torch.float64, device=DEVICE)
    (drawn,) = noised_each([torch.zeros_like(stds)], noise_stds=[stds], rng=rng)
    grids = np.array([normals.grid(one) for one in stds.tolist()])
    whole = drawn.cpu().numpy() / grids
    rest = int((whole != np.round(whole)).sum() + (np.abs(whole) > 2**12).sum())
    yield "noise of 1e-30 to 1e30 off its grid", {"value": rest, "limit": 0}


def a_small_run(path: Path) -> None:
    """Train with checkpoints, telling each step; store the generator."""
    settings = dp_cgan.settings.small(dp_cgan.REPAIRED, batch_size=32, steps=STEPS)
    images = datasets.digits(split="train")
    features, labels = (torch.from_numpy(x).to(DEVICE) for x in (images.flat(), images.labels))
    gan = dp_cgan.new_gan(settings, seed=0, device=DEVICE)
    rng, place = generator_on(DEVICE, reproducible_seed=0), Checkpoints(path / "run", every=5)
    told: dict[str, Any] = {"settings": settings, "rng": rng, "checkpoint": place}
    path.mkdir(exist_ok=True)
    for record in train(dp_cgan.step, gan, Data(features, labels, 1_437), **told):
        print(record.step, flush=True)
    torch.save([p.detach().cpu() for p in gan.generator_net.parameters()], path / "weights")


def resumed() -> Iterator[tuple[str, Row]]:
    """A run killed on the way and gone on with, against one that is not."""
    with TemporaryDirectory() as folder:
        whole, cut = (Path(folder) / name for name in ("whole", "cut"))
        told: Any = {"stdout": subprocess.PIPE, "text": True}
        first, killed = (
            subprocess.Popen([sys.executable, __file__, str(path)], **told) for path in (whole, cut)
        )
        for _ in range(STEPS // 2):
            killed.stdout.readline()  # type: ignore[union-attr]
        killed.kill()
        killed.communicate()
        again = subprocess.run([sys.executable, __file__, str(cut)], check=True, **told)
        first.communicate()
        went_on_at, *_, last = map(int, again.stdout.split())
        wrong = last != STEPS - 1 or not 0 < went_on_at <= STEPS // 2 + 5
        charged = [spent(path / "run") for path in (whole, cut)]
        row: Row = {"value": int(wrong or charged != [STEPS] * 2), "limit": 0, "charged": charged}
        weights = [torch.load(path / "weights", weights_only=True) for path in (whole, cut)]
        yield "a run after SIGKILL", row | {"went_on_at": went_on_at, "apart": apart(*weights)}


def main(output: Path) -> int:
    """All checks, one after another also over several calls; the number of those that failed."""
    begun = output.with_suffix(".begun.json")
    rows: dict[str, Row] = {"device": {"name": device_label(DEVICE), "torch": torch.__version__}}
    rows |= read_json(begun) if begun.exists() else {}
    for check in (clipped_sums, papers, noise, resumed):
        if check.__name__ in rows.setdefault("seconds", {}):
            continue
        began = perf_counter()
        try:
            for name, row in check():
                row["ok"] = bool("limit" not in row or row["value"] <= row["limit"])  # NaN fails
                rows[name] = row
                print(f"{name}: {'' if row['ok'] else 'FAILED '}{row}", flush=True)
        except Exception as error:
            rows[check.__name__] = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            traceback.print_exc()
        rows["seconds"][check.__name__] = round(perf_counter() - began, 1)
        print(f"{check.__name__}: {rows['seconds'][check.__name__]} s", flush=True)
        write_json(begun, json.loads(json.dumps(rows), parse_constant=str))
    begun.rename(output)
    return sum(not row.get("ok", True) for row in rows.values())


if __name__ == "__main__":
    path = Path(sys.argv[1])
    sys.exit(main(path) if path.suffix == ".json" else a_small_run(path))

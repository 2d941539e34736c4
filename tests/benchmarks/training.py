"""One private training step against plain torch, Opacus and torch.func, for four networks.

A step is zero_grad, forward on a ready batch, backward, (clip, noise), optimiser step, by Adam on
both sides. Opacus takes part with the fastest of its modes that works on the network; torch.func
forms every gradient. Before anything is timed, dpkit's clipped sum is compared with torch.func's.
On a GPU (`make bench DEVICE=cuda`) `figures` also has steps a second, the share of the time in
which the GPU computes, and by how much its clipped sums differ from the CPU's.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from time import perf_counter
from typing import Any, NamedTuple

import torch
from bench import Row, medians
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dpkit.privacy.clipping import FlatClipping
from dpkit.training import clipped_sum, generator_on, gradient_penalty, noised, per_example, update
from dpkit.training.device import device_label, precision, seeded
from dpkit.training.networks import called_real

DEVICE = torch.device(os.environ.get("DEVICE", "cpu"))
THREADS = 2
REPEATS = 15
STEPS = 50  # of a GPU's figures
RULE = FlatClipping(1.0)
PENALTY = 10.0
OPACUS_MODES = ("hooks", "ew", "ghost")


def mlp() -> nn.Module:
    """The discriminator of DP-CGAN: 784 pixels and a label."""
    return nn.Sequential(nn.Linear(794, 128), nn.ReLU(), nn.Linear(128, 1))


def conv() -> nn.Module:
    """A critic of MNIST images."""
    layers: list[nn.Module] = []
    for channels, out in ((1, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(channels, out, 5, 2, 2), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 1))


class BieDiscriminator(nn.Module):
    """The conditional discriminator of Bie, Kamath and Zhang 2023."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.label = nn.Conv2d(1, 64, 4, 2, 1), nn.Conv2d(10, 64, 4, 2, 1)
        self.rest = nn.Sequential(
            *(nn.LeakyReLU(0.2), nn.Conv2d(128, 256, 4, 2, 1)),
            *(nn.LeakyReLU(0.2), nn.Conv2d(256, 512, 3, 2, 1)),
            *(nn.LeakyReLU(0.2), nn.Conv2d(512, 1, 4), nn.Flatten()),
        )

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Args: images (batch, 1, 28, 28), labels as maps (batch, 10, 28, 28)."""
        return self.rest(torch.cat((self.image(images), self.label(labels)), 1))


class Case(NamedTuple):
    make: Callable[[], nn.Module]
    inputs: tuple[tuple[int, ...], ...]
    penalty: bool = False


CASES = {
    "mlp": Case(mlp, ((600, 794),)),
    "conv": Case(conv, ((64, 1, 28, 28),)),
    "conv-wgan-gp": Case(conv, ((64, 1, 28, 28), (64, 1, 28, 28)), penalty=True),
    "bie-cgan": Case(BieDiscriminator, ((128, 1, 28, 28), (128, 10, 28, 28))),
}


class Contender:
    """A network of one's own with its optimiser, and one training step."""

    def __init__(self, case: Case, inputs: tuple[Tensor, ...]) -> None:
        self.case, self.inputs = case, inputs
        with seeded(0):  # the same weights for all
            self.network = case.make().to(DEVICE)
        self.optimizer = torch.optim.Adam(self.network.parameters())
        self.rng = generator_on(DEVICE, reproducible_seed=0)
        self.batch = len(inputs[0])

    def mixing(self) -> Tensor:
        return torch.rand(self.batch, generator=self.rng, device=DEVICE)

    def apply(self, parameters: list[Tensor], sums: list[Tensor]) -> None:
        """Noise, the mean, and the optimiser's step."""
        noisy = noised(sums, noise_std=1.0, rng=self.rng)
        update(self.optimizer, parameters, [total.div_(self.batch) for total in noisy])


class Plain(Contender):
    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()

    def loss(self) -> Tensor:
        """The mean loss of the batch."""
        if not self.case.penalty:
            return called_real(self.network(*self.inputs)).mean()
        real, fake = self.inputs
        points = torch.lerp(fake, real, self.mixing()[:, None, None, None]).requires_grad_()
        (slope,) = torch.autograd.grad(self.network(points).sum(), points, create_graph=True)
        penalty = (slope.flatten(1).norm(dim=1) - 1).square().mean()
        return self.network(fake).mean() - self.network(real).mean() + PENALTY * penalty


class Dpkit(Contender):
    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.apply(*self.clipped_sums())

    def clipped_sums(self) -> tuple[list[Tensor], list[Tensor]]:
        """Parameters, and the sum of clipped gradients of each."""
        of: Any = partial(per_example, self.network, called_real)
        if self.case.penalty:
            how = {"mixing": self.mixing(), "weight": PENALTY}
            of = partial(gradient_penalty.per_example, self.network, **how)
        found = clipped_sum(of, *self.inputs, rule=RULE)
        return found.parameters, found.sums


class TorchFunc(Contender):
    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.apply(list(self.network.parameters()), self.clipped_sums())

    def clipped_sums(self) -> list[Tensor]:
        """By forming every gradient."""
        values = {name: p.detach() for name, p in self.network.named_parameters()}
        rows = (*self.inputs, self.mixing()) if self.case.penalty else self.inputs
        one = self.penalised if self.case.penalty else self.simple
        full = list(vmap(grad(one), (None, *[0] * len(rows)))(values, *rows).values())
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in full])
        weights = RULE.weights(norms)[0]
        return [torch.tensordot(weights, g, 1) for g in full]

    def simple(self, values: dict[str, Tensor], *row: Tensor) -> Tensor:
        """The loss of one example."""
        return called_real(functional_call(self.network, values, tuple(x[None] for x in row))).sum()

    def penalised(self, values: dict[str, Tensor], *row: Tensor) -> Tensor:
        """The loss of one example with its gradient penalty."""
        real, fake, mix = row

        def score(x: Tensor) -> Tensor:
            return functional_call(self.network, values, (x[None],)).sum()

        slope = grad(score)(torch.lerp(fake, real, mix))
        return score(fake) - score(real) + PENALTY * (slope.norm() - 1).square()


class Opacus(Contender):
    """Opacus' modules and optimisers in one of its modes."""

    def __init__(self, case: Case, inputs: tuple[Tensor, ...], mode: str) -> None:
        from opacus.grad_sample import (
            GradSampleModule,
            GradSampleModuleExpandedWeights,
            GradSampleModuleFastGradientClipping,
        )
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        super().__init__(case, inputs)
        batch = {"expected_batch_size": self.batch, "generator": self.rng}
        options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, **batch}
        self.criterion: Callable[[Tensor], Any] = lambda out: called_real(out).mean()
        if mode == "ghost":
            self.wrapped = GradSampleModuleFastGradientClipping(
                self.network, max_grad_norm=1, use_ghost_clipping=True, loss_reduction="mean"
            )
            self.dp_optimizer = DPOptimizerFastGradientClipping(self.optimizer, **options)
            losses = DPLossFastGradientClipping(
                self.wrapped, self.dp_optimizer, _Losses(), loss_reduction="mean"
            )
            self.criterion = lambda out: losses(out, out)
        else:
            make = GradSampleModule if mode == "hooks" else GradSampleModuleExpandedWeights
            self.wrapped = make(self.network)
            self.dp_optimizer = DPOptimizer(self.optimizer, **options)

    def __call__(self) -> None:
        self.dp_optimizer.zero_grad()
        self.criterion(self.wrapped(*self.inputs)).backward()
        self.dp_optimizer.step()


class _Losses(nn.Module):
    """The loss of each example, in the form that Opacus' ghost clipping calls."""

    reduction = "mean"  # of the batch's loss; Opacus itself asks for the losses one by one

    def forward(self, outputs: Tensor, _: Tensor) -> Tensor:
        return called_real(outputs)


def wait() -> None:
    """Until the GPU has finished."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def synchronised(run: Callable[[], None]) -> Callable[[], None]:
    """A run that ends when the device has finished."""

    def timed() -> None:
        run()
        wait()

    return timed


def peak_bytes(run: Callable[[], None]) -> int:
    """The most that one step holds beyond what it found: weights and batch are not counted."""
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profiler:
        run()
    results: Any = profiler.profiler
    events = [e for e in results.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def best_of_opacus(case: Case, inputs: tuple[Tensor, ...]) -> tuple[str, Opacus] | None:
    """Opacus in its fastest mode that works, None where none does."""
    found = {}
    for mode in OPACUS_MODES:
        try:
            contender = Opacus(case, inputs, mode)
            contender()
            found[mode] = contender
        except (ImportError, RuntimeError, NotImplementedError, ValueError, IndexError) as error:
            print(f"  opacus' mode {mode} does not work here: {str(error)[:90]}")
    times = medians({mode: synchronised(run) for mode, run in found.items()}, repeats=3)
    mode = min(times, key=lambda mode: times[mode], default=None)
    return None if mode is None else (mode, found[mode])


def agree(ours: Dpkit, theirs: TorchFunc) -> None:
    """ValueError where the two do not clip to the same sums."""
    found = {id(p): total for p, total in zip(*ours.clipped_sums(), strict=True)}
    mine = torch.cat([found[id(p)].flatten() for p in ours.network.parameters()])
    wanted = torch.cat([total.flatten() for total in theirs.clipped_sums()])
    off = float((mine - wanted).norm() / wanted.norm())
    if not off <= 1e-4:
        raise ValueError(f"clipped sums differ by {off:.2g}, relatively")


def rows() -> Iterator[Row]:
    """Two rows a case: with the peer that its users would take, and with torch.func."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        with warnings.catch_warnings(), precision(tf32=False):
            warnings.simplefilter("ignore")
            for name, case in CASES.items():
                yield from _rows_of(name, case)
    finally:
        torch.set_num_threads(threads)


def _rows_of(name: str, case: Case) -> Iterator[Row]:
    rng = torch.Generator(DEVICE).manual_seed(1)
    inputs = tuple(torch.rand(shape, generator=rng, device=DEVICE) for shape in case.inputs)
    plain, ours, full = (kind(case, inputs) for kind in (Plain, Dpkit, TorchFunc))
    agree(Dpkit(case, inputs), TorchFunc(case, inputs))
    contenders: dict[str, Callable[[], None]] = {"plain": plain, "dpkit": ours, "func": full}
    peer = f"torch.func vmap, torch {version('torch')}"
    opacus = None if case.penalty else best_of_opacus(case, inputs)  # fails with a penalty
    if opacus is not None:
        contenders["opacus"] = opacus[1]
    times = medians({key: synchronised(run) for key, run in contenders.items()}, repeats=REPEATS)
    memory = peak_bytes(ours) / peak_bytes(plain)
    row = Row(name, times["dpkit"], times["plain"], peer, times["func"], memory)
    if opacus is None:
        yield row
        return
    yield row._replace(peer=f"opacus {version('opacus')} {opacus[0]}", peer_ms=times["opacus"])
    yield row._replace(name=f"{name}, torch.func")


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


def difference(case: Case, inputs: tuple[Tensor, ...]) -> float:
    """Between the clipped sums of GPU and CPU, relatively: the same weights, the same mixing.

    In the inputs' precision.
    """
    found = []
    mixing = torch.linspace(0, 1, len(inputs[0]), dtype=inputs[0].dtype)
    for device in (torch.device("cpu"), DEVICE):
        ours = Dpkit(case, tuple(x.to(device) for x in inputs))
        ours.network.to(device, mixing.dtype)
        ours.mixing = lambda device=device: mixing.to(device)
        _, sums = ours.clipped_sums()
        found.append(torch.cat([total.flatten().cpu() for total in sums]))
    return float((found[0] - found[1]).norm() / found[0].norm())


def figures() -> list[dict[str, Any]]:
    """Of every case, printed as they come.

    Raises:
        ValueError: a clipped sum differs from the CPU's by more than 1e-4, relatively, or with a
            gradient penalty, which is steep where slopes are small, by more than 1e-3.
    """
    rows = []
    for name, case in CASES.items():
        with precision(tf32=False):
            row = shown(case)
        print(name, *(f"{key} {value:.3g}" for key, value in row.items()), sep="  ")
        if not row["difference_from_cpu"] <= (1e-3 if case.penalty else 1e-4):
            raise ValueError(f"{name}: the GPU's clipped sum differs: {row}")
        rows.append({"name": name, "device": device_label(DEVICE), **row})
    return rows

"""The noise of one step: whole tails and a grid, against torch's own normals; its share of a step.

102,000 coordinates, as the discriminator of DP-CGAN has. The last row is a step that clips each
example's gradient coordinate by coordinate, on AdaDP's network for MNIST (Xu et al. 2019), against
a plain step and against Opacus' per-example gradients, clamped.
"""

import warnings
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version

import torch
from bench import Row, medians
from torch import Tensor, nn
from training import CASES, DEVICE, THREADS, Case, Contender, Dpkit, Plain, peak_bytes, synchronised

from dpkit.privacy.clipping import PerCoordinateClipping
from dpkit.training import clipped_sum, noised, noised_each, per_example, update

REPEATS = 31
BOUND = 1e-3  # of each coordinate; nearly every example is cut


def rows() -> Iterator[Row]:
    """Noise against torch's own draws, noise against a step, and clipping by coordinate."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield from _rows()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Opacus' hooks, on inputs that take no gradient
            yield by_coordinate()
    finally:
        torch.set_num_threads(threads)


def _rows() -> Iterator[Row]:
    case = CASES["mlp"]
    rng = torch.Generator(DEVICE).manual_seed(1)
    inputs = tuple(torch.rand(shape, generator=rng, device=DEVICE) for shape in case.inputs)
    ours = Dpkit(case, inputs)
    _, sums = ours.clipped_sums()

    def drawn(dtype: torch.dtype) -> None:
        for total in sums:
            torch.randn(total.shape, generator=rng, device=DEVICE, dtype=dtype).add_(total)

    runs = {
        "noised": partial(noised, sums, noise_std=1.0, rng=rng),
        "float32": partial(drawn, torch.float32),
        "float64": partial(drawn, torch.float64),
        "step": ours,
    }
    times = medians(
        {name: synchronised(lambda run=run: run() and None) for name, run in runs.items()},
        repeats=REPEATS,
    )
    peer = "torch.randn in float64"
    yield Row("noise", times["noised"], times["float32"], peer, times["float64"])
    yield Row("noise as a share of the private mlp step", times["noised"], times["step"])


def classifier() -> nn.Module:
    """AdaDP's for MNIST: 60 principal components, 1,000 hidden units, 10 classes."""
    return nn.Sequential(nn.Linear(60, 1000), nn.ReLU(), nn.Linear(1000, 10))


def called_zero(outputs: Tensor) -> Tensor:
    """The cross-entropy (batch,) of scores (batch, classes) where all labels are 0."""
    return outputs.logsumexp(1) - outputs[:, 0]


class PlainClassifier(Plain):
    def loss(self) -> Tensor:
        return called_zero(self.network(*self.inputs)).mean()


class ByCoordinate(Contender):
    def __call__(self) -> None:
        rule = self.rule()
        stds = rule.noise_stds(1.0)
        noisy = noised_each(self.sums(rule), noise_stds=stds, rng=self.rng)
        update(self.optimizer, list(self.network.parameters()), [n / self.batch for n in noisy])

    def rule(self) -> PerCoordinateClipping:
        """Bounds, made anew as in each step of AdaDP."""
        return PerCoordinateClipping(
            tuple(torch.full_like(p, BOUND).detach() for p in self.network.parameters())
        )

    def sums(self, rule: PerCoordinateClipping) -> list[Tensor]:
        """The clipped sum of each parameter."""
        of = partial(per_example, self.network, called_zero)
        return clipped_sum(of, *self.inputs, rule=rule).sums


class OpacusByCoordinate(ByCoordinate):
    """Opacus' per-example gradients (its modules with hooks); clamp, noise and mean by torch."""

    def __init__(self, case: Case, inputs: tuple[Tensor, ...]) -> None:
        from opacus.grad_sample import GradSampleModule

        super().__init__(case, inputs)
        self.wrapped = GradSampleModule(self.network)

    def __call__(self) -> None:
        rule = self.rule()
        stds = rule.noise_stds(1.0)
        for p, total, std in zip(self.network.parameters(), self.sums(rule), stds, strict=True):
            draws = torch.randn(total.shape, generator=self.rng, device=DEVICE)
            p.grad = total.addcmul_(draws, std).div_(self.batch)
        self.optimizer.step()

    def sums(self, rule: PerCoordinateClipping) -> list[Tensor]:
        self.wrapped.zero_grad()
        called_zero(self.wrapped(*self.inputs)).mean().backward()
        pairs = zip(self.network.parameters(), rule.bounds, strict=True)
        return [p.grad_sample.clamp_(-s, s).sum(0) for p, s in pairs]  # pyright: ignore


def by_coordinate() -> Row:
    """A whole step of 600 examples, each way; the clipped sums are compared first."""
    case = Case(classifier, ((600, 60),))
    rng = torch.Generator(DEVICE).manual_seed(1)
    inputs = (torch.randn(case.inputs[0], generator=rng, device=DEVICE),)
    plain, ours = PlainClassifier(case, inputs), ByCoordinate(case, inputs)
    theirs = OpacusByCoordinate(case, inputs)
    for one, other in zip(ours.sums(ours.rule()), theirs.sums(theirs.rule()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    runs = {"plain": plain, "dpkit": ours, "opacus": theirs}
    times = medians({name: synchronised(run) for name, run in runs.items()}, repeats=REPEATS)
    peer = f"opacus {version('opacus')} grad_sample, clamped"
    memory = peak_bytes(ours) / peak_bytes(theirs)
    name = "60-1000-10, clipped by coordinate"
    return Row(name, times["dpkit"], times["plain"], peer, times["opacus"], memory)

"""Measured effects on training of each reading of the paper's noise, on the digits."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dpkit.datasets import digits
from dpkit.papers.claims import Measured
from dpkit.papers.rdp_gan import algorithm
from dpkit.papers.rdp_gan.settings import (
    MULTIPLICATIVE,
    OUTPUT_ERROR,
    SETTINGS,
    RdpGanSettings,
)
from dpkit.privacy.schedules import Constant
from dpkit.training import Data, Gan, generator_on, train
from dpkit.training.batches import batches

Batch = tuple[Tensor, Tensor]
SEED = 0


def loss_value(*, iterations: int) -> Measured:
    """Train twice from the same seeds, with and without noise on the loss's value.

    Returns `difference`: the largest, over all weights of both networks at the end; `moved`: the
    same between the noisy run's first and last weights; `noise_std`; `weights`: their number.
    """
    data, checksums = _digits()
    noisy = replace(SETTINGS, iterations=iterations)
    weights = []
    for settings in (noisy, _without_noise(noisy)):
        gan = algorithm.new_gan(settings, seed=SEED, device=data.features.device)
        start = _weights(gan)
        rng = generator_on(data.features.device, reproducible_seed=SEED)
        for _ in train(algorithm.loss_value_step, gan, data, settings=settings, rng=rng):
            pass
        weights.append((start, _weights(gan)))
    (start, with_noise), (_, without) = weights
    return Measured(
        {
            "difference": (with_noise - without).abs().max().item(),
            "moved": (with_noise - start).abs().max().item(),
            "noise_std": noisy.noise.schedule(0),
            "weights": float(len(start)),
        },
        checksums,
    )


def direction(*, steps: int) -> Measured:
    """Compare each gradient of the multiplicative step with the true one of the same batch.

    Returns, over `steps` discriminator steps, `smallest_cosine`: of the absolute cosines of their
    angles; `largest_gap`: from there to 1; `turned`: how many have opposite signs.
    """
    noiseless = _without_noise(SETTINGS)
    data, checksums = _digits()
    cosines = []
    for gan, batch, index, rng in _states(MULTIPLICATIVE, data, steps):
        true = _other_way(algorithm.loss_value_step, gan, batch, noiseless, index, rng)
        algorithm.multiplicative_step(
            gan, *batch, settings=MULTIPLICATIVE, index=index, rng=rng
        )
        released = _gradient(gan)
        cosines.append((released @ true / released.norm() / true.norm()).item())
    sizes = [abs(cosine) for cosine in cosines]
    return Measured(
        {
            "smallest_cosine": min(sizes),
            "largest_gap": abs(1 - min(sizes)),
            "steps": float(steps),
            "turned": float(sum(cosine < 0 for cosine in cosines)),
        },
        checksums,
    )


def span(*, steps: int) -> Measured:
    """Compare the first layer's released update with the span of the layer's inputs.

    Noise is drawn for each real example's output error. A second step from the same state, with
    noise 0, separates its effect on the gradient.

    Returns, over `steps` discriminator steps, `outside`: the largest share (of norms) of the update
    outside the span of the batch's real and generated inputs; `noise_outside`: that of the noise's
    effect outside the span of the real inputs alone; `noise_share`: the smallest share of the
    noise's effect in the update; `inputs`, `dimensions`: of the spans.
    """
    noiseless = _without_noise(OUTPUT_ERROR)
    data, checksums = _digits()
    outside, noise_outside, noise_share = [], [], []
    wide = OUTPUT_ERROR.features + OUTPUT_ERROR.classes
    for gan, batch, index, rng in _states(OUTPUT_ERROR, data, steps):
        step = algorithm.output_error_step
        without = _other_way(step, gan, batch, noiseless, index, rng, first=True)
        inputs: list[Tensor] = []
        watch = _first_layer(gan).register_forward_hook(
            lambda _module, given, _out, kept=inputs: kept.append(given[0].detach())
        )
        step(gan, *batch, settings=OUTPUT_ERROR, index=index, rng=rng)
        watch.remove()
        real, fake = inputs[:2]  # a third are those of the generator's own update
        released = _gradient(gan, first=True).reshape(-1, wide)
        noise = released - without.reshape(-1, wide)
        outside.append(_share_outside(released, (real, fake)))
        noise_outside.append(_share_outside(noise, (real,)))
        noise_share.append((noise.norm() / released.norm()).item())
    return Measured(
        {
            "outside": max(outside),
            "noise_outside": max(noise_outside),
            "noise_share": min(noise_share),
            "inputs": 2.0 * OUTPUT_ERROR.expected_batch_size,
            "dimensions": float(wide),
            "steps": float(steps),
        },
        checksums,
    )


def _without_noise(settings: RdpGanSettings) -> RdpGanSettings:
    return replace(settings, noise=replace(settings.noise, schedule=Constant(0.0)))


def _digits() -> tuple[Data, dict[str, str]]:
    images = digits()
    features = 2 * torch.from_numpy(images.flat()) - 1
    data = Data(features, torch.from_numpy(images.labels), images.n)
    return data, {images.name: images.checksum}


def _states(
    settings: RdpGanSettings, data: Data, steps: int
) -> Iterator[tuple[Gan, Batch, int, torch.Generator]]:
    """The networks before each of `steps` steps (the caller's), and their batches."""
    rng = generator_on(data.features.device, reproducible_seed=SEED)
    gan = algorithm.new_gan(settings, seed=SEED, device=data.features.device)
    size = len(data.features)
    draws = batches(settings.sampling, size=size, public_size=data.public_size, rng=rng)
    for index in range(steps):
        chosen = next(draws)
        yield gan, (data.features[chosen], data.labels[chosen]), index, rng


def _other_way(
    step: Any,
    gan: Gan,
    batch: Batch,
    settings: RdpGanSettings,
    index: int,
    rng: torch.Generator,
    *,
    first: bool = False,
) -> Tensor:
    """The gradient of another step from the same state; `gan` and `rng` stay as they are."""
    copy, state = deepcopy(gan), rng.get_state()
    step(copy, *batch, settings=settings, index=index, rng=rng)
    rng.set_state(state)
    return _gradient(copy, first=first)


def _first_layer(gan: Gan) -> torch.nn.Linear:
    return next(m for m in gan.discriminator.modules() if isinstance(m, torch.nn.Linear))


def _gradient(gan: Gan, *, first: bool = False) -> Tensor:
    """The discriminator's gradient as its optimiser got it, flat and in double precision."""
    parameters = [_first_layer(gan).weight] if first else gan.discriminator.parameters()
    return torch.cat([p.grad.double().flatten() for p in parameters if p.grad is not None])


def _weights(gan: Gan) -> Tensor:
    """A copy of all weights of both networks."""
    networks = (gan.generator_net, gan.discriminator)
    every = [p.detach().flatten() for network in networks for p in network.parameters()]
    return torch.cat(every)


def _share_outside(rows: Tensor, inputs: tuple[Tensor, ...]) -> float:
    """Share of the norm of `rows` (units, features) outside the span of the inputs."""
    stacked = torch.cat(inputs).double()  # (examples, features)
    _, sizes, axes = torch.linalg.svd(stacked, full_matrices=False)
    basis = axes[sizes > 1e-12 * sizes[0]]  # (rank, features), orthonormal
    return ((rows - rows @ basis.T @ basis).norm() / rows.norm()).item()

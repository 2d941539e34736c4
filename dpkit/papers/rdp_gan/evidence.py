"""What each reading of the paper's noise does to training, measured on scikit-learn's digits."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpkit.claims import Evidence, Measured
from dpkit.papers.rdp_gan.settings import MULTIPLICATIVE, OUTPUT_ERROR, SETTINGS, Settings
from dpkit.privacy.schedules import Constant
from dpkit.records import describe

if TYPE_CHECKING:
    import torch

    from dpkit.training.types import Data, Gan

SEED = 0
DATA = "scikit-learn's digits as 28x28 in [-1, 1], 1,437 images to train on"


def evidence_of_loss_value(*, iterations: int) -> Evidence:
    """For the claim that noise on the loss's value protects the networks."""
    return Evidence(
        "rdp_gan/loss-noise-changes-nothing",
        {**_inputs(replace(SETTINGS, iterations=iterations)), "compared": "noise as set, and 0"},
        lambda: loss_value(iterations=iterations), scale="reduced",
    )  # fmt: skip


def evidence_of_direction(*, steps: int) -> Evidence:
    """For the claim that a random factor hides the gradient."""
    return Evidence(
        "rdp_gan/multiplicative-direction",
        {**_inputs(MULTIPLICATIVE), "steps": steps, "compared": "noise as set, and none"},
        lambda: direction(steps=steps), scale="reduced",
    )  # fmt: skip


def evidence_of_span(*, steps: int) -> Evidence:
    """For the claim that noise on the output's error reaches the whole update."""
    return Evidence(
        "rdp_gan/eq-9-span",
        {**_inputs(OUTPUT_ERROR), "steps": steps, "compared": "the span of the layer's inputs"},
        lambda: span(steps=steps), scale="reduced",
    )  # fmt: skip


def loss_value(*, iterations: int) -> Measured:
    """Two runs of the same seeds, with and without noise on the loss's value.

    Returns:
        `difference`: the largest, over all weights of both networks after `iterations` generator
        iterations; `moved`: the same between the noisy run's first and last weights; `noise_std`;
        `weights`: how many there are.
    """
    from dpkit.papers.rdp_gan.algorithm import loss_value_step, new_gan
    from dpkit.training.device import generator_on
    from dpkit.training.loop import train

    data, checksums = _digits()
    noisy = replace(SETTINGS, iterations=iterations)
    quiet = replace(noisy, noise=replace(noisy.noise, schedule=Constant(0.0)))
    found = []
    for settings in (noisy, quiet):
        gan = new_gan(settings, seed=SEED, device=data.features.device)
        start = _weights(gan)
        rng = generator_on(data.features.device, seed=SEED)
        for _ in train(loss_value_step, gan, data, settings=settings, rng=rng):
            pass
        found.append((start, _weights(gan)))
    (start, with_noise), (_, without) = found
    values = {
        "difference": (with_noise - without).abs().max().item(),
        "moved": (with_noise - start).abs().max().item(),
        "noise_std": noisy.noise.schedule(0),
        "weights": float(len(start)),
    }
    return Measured(values, checksums)


def direction(*, steps: int) -> Measured:
    """Each released gradient of the multiplicative step against the true one of the same batch.

    Returns:
        over `steps` discriminator steps, `smallest_cosine`: of the absolute cosines of the angles
        between them; `largest_gap`: from there to 1; `turned`: how many have opposite signs.
    """
    from dpkit.papers.rdp_gan.algorithm import loss_value_step, multiplicative_step

    quiet = replace(SETTINGS, noise=replace(SETTINGS.noise, schedule=Constant(0.0)))
    data, checksums = _digits()
    cosines = []
    for gan, batch, index, rng in _states(MULTIPLICATIVE, data, steps):
        true = _other_way(loss_value_step, gan, batch, quiet, index, rng)
        multiplicative_step(gan, *batch, settings=MULTIPLICATIVE, index=index, rng=rng)
        released = _gradient(gan)
        cosines.append((released @ true / released.norm() / true.norm()).item())
    sizes = [abs(cosine) for cosine in cosines]
    values = {
        "smallest_cosine": min(sizes), "largest_gap": abs(1 - min(sizes)), "steps": float(steps),
        "turned": float(sum(cosine < 0 for cosine in cosines)),
    }  # fmt: skip
    return Measured(values, checksums)


def span(*, steps: int) -> Measured:
    """The first layer's released update against the inputs of the layer, step by step.

    Noise is drawn for each real example's output error. Its effect on the gradient is told apart by
    a second step from the same state, whose noise is 0.

    Returns:
        over `steps` discriminator steps, `outside`: the largest share (of norms) of the update
        outside the span of the batch's real and generated inputs; `noise_outside`: the largest
        share of the noise's effect outside the span of the real inputs alone; `noise_share`: the
        smallest share of the noise's effect in the update; `inputs`, `dimensions`: of the spans.
    """
    from dpkit.papers.rdp_gan.algorithm import output_error_step

    quiet = replace(OUTPUT_ERROR, noise=replace(OUTPUT_ERROR.noise, schedule=Constant(0.0)))
    data, checksums = _digits()
    outside, noise_outside, noise_share = [], [], []
    wide = OUTPUT_ERROR.features + OUTPUT_ERROR.classes
    for gan, batch, index, rng in _states(OUTPUT_ERROR, data, steps):
        without = _other_way(output_error_step, gan, batch, quiet, index, rng, first=True)
        inputs: list[torch.Tensor] = []
        watch = _first_layer(gan).register_forward_hook(
            lambda _module, given, _out, kept=inputs: kept.append(given[0].detach())
        )
        output_error_step(gan, *batch, settings=OUTPUT_ERROR, index=index, rng=rng)
        watch.remove()
        real, fake = inputs[:2]  # a third are those of the generator's own update
        released = _gradient(gan, first=True).reshape(-1, wide)
        noise = released - without.reshape(-1, wide)
        outside.append(_share_outside(released, (real, fake)))
        noise_outside.append(_share_outside(noise, (real,)))
        noise_share.append((noise.norm() / released.norm()).item())
    values = {
        "outside": max(outside), "noise_outside": max(noise_outside),
        "noise_share": min(noise_share), "inputs": 2.0 * OUTPUT_ERROR.expected_batch_size,
        "dimensions": float(wide), "steps": float(steps),
    }  # fmt: skip
    return Measured(values, checksums)


def _inputs(settings: Settings) -> dict[str, Any]:
    return {"settings": describe(settings), "seed": SEED, "images": DATA}


def _digits() -> "tuple[Data, dict[str, str]]":
    import torch

    from dpkit.datasets import digits
    from dpkit.training.types import Data

    images = digits()
    features = 2 * torch.from_numpy(images.flat()) - 1
    data = Data(features, torch.from_numpy(images.labels), images.n)
    return data, {images.name: images.checksum}


def _states(
    settings: Settings, data: "Data", steps: int
) -> "Iterator[tuple[Gan, tuple[torch.Tensor, torch.Tensor], int, torch.Generator]]":
    """The networks before each of `steps` steps, which the caller takes, and their batches."""
    from dpkit.papers.rdp_gan.algorithm import new_gan
    from dpkit.training.batches import batches
    from dpkit.training.device import generator_on

    rng = generator_on(data.features.device, seed=SEED)
    gan = new_gan(settings, seed=SEED, device=data.features.device)
    size = len(data.features)
    draws = batches(settings.sampling, size=size, public_size=data.public_size, rng=rng)
    for index in range(steps):
        chosen = next(draws)
        yield gan, (data.features[chosen], data.labels[chosen]), index, rng


def _other_way(
    step: Any, gan: "Gan", batch: "tuple[torch.Tensor, torch.Tensor]", settings: Settings,
    index: int, rng: "torch.Generator", *, first: bool = False,
) -> "torch.Tensor":  # fmt: skip
    """The gradient of another step from the same state, on a copy: `gan` and `rng` stay."""
    copy = deepcopy(gan)
    step(copy, *batch, settings=settings, index=index, rng=rng.clone_state())
    return _gradient(copy, first=first)


def _first_layer(gan: "Gan") -> "torch.nn.Linear":
    import torch

    return next(m for m in gan.discriminator.modules() if isinstance(m, torch.nn.Linear))


def _gradient(gan: "Gan", *, first: bool = False) -> "torch.Tensor":
    """What the discriminator's optimiser was handed, flat and in double precision."""
    import torch

    parameters = [_first_layer(gan).weight] if first else gan.discriminator.parameters()
    return torch.cat([p.grad.double().flatten() for p in parameters if p.grad is not None])


def _weights(gan: "Gan") -> "torch.Tensor":
    """All weights of both networks, a copy."""
    import torch

    networks = (gan.generator_net, gan.discriminator)
    every = [p.detach().flatten() for network in networks for p in network.parameters()]
    return torch.cat(every)


def _share_outside(rows: "torch.Tensor", inputs: "tuple[torch.Tensor, ...]") -> float:
    """Norm of what `rows` (units, features) have outside the span of the inputs, over theirs."""
    import torch

    stacked = torch.cat(inputs).double()  # (examples, features)
    _, sizes, axes = torch.linalg.svd(stacked, full_matrices=False)
    basis = axes[sizes > 1e-12 * sizes[0]]  # (rank, features), orthonormal
    return ((rows - rows @ basis.T @ basis).norm() / rows.norm()).item()

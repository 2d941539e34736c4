"""The optimisations switched on one by one (Tables 8 to 10), published and repaired; their sizes.

Three runs of each: `published`; `matched`, repaired at the epsilon that the published run costs if
its batches are taken as Poisson, with noise to match; `repaired`, at the epsilon that is claimed.
All make as many steps.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import ceil, sqrt
from typing import NamedTuple

from dpkit.common import checks
from dpkit.common.records import SCALES
from dpkit.papers.claims import Measured
from dpkit.papers.dpgan.grouping import PublicBounds, PublicClusters, biases_together, is_bias
from dpkit.papers.dpgan.settings import (
    BOUND,
    CLUSTERS,
    MNIST,
    NON_PRIVATE,
    TABLE_7,
    DpganSettings,
)
from dpkit.privacy import calibrate, rdp
from dpkit.privacy.clipping import GroupClipping
from dpkit.privacy.sampling import PoissonSampling

ITERATIONS = 500  # at the reduced scale, where networks are a quarter as wide


class Configuration(NamedTuple):
    """The optimisations that are on."""

    # "tensors": none; "biases": these in one group; "clusters": Algorithm 2; "one": all in one
    grouping: str
    adaptive: bool  # bounds from public examples at each step
    warm: bool  # warm start


# The first six are Table 9's: of its rows only marks are left, which these alone fit where no row
# has both groupings (`claims.layouts`). "warm" is ours, "all" the code's last script.
CONFIGURATIONS = {
    "none": Configuration("tensors", False, False),
    "grouping": Configuration("biases", False, False),
    "adaptive": Configuration("tensors", True, False),
    "grouping-adaptive": Configuration("biases", True, False),
    "clusters-adaptive": Configuration("clusters", True, False),
    "grouping-adaptive-warm": Configuration("biases", True, True),
    "warm": Configuration("tensors", False, True),
    "all": Configuration("clusters", True, True),
}


def published(name: str, *, scale: str) -> DpganSettings:
    """A configuration as the code has it, on MNIST.

    Args:
        name: one of CONFIGURATIONS.
        scale: "paper"; "reduced": 500 iterations, networks a quarter as wide; "small": on the
            digits, 2 iterations, networks a sixteenth as wide.
    """
    checks.one_of(tuple(CONFIGURATIONS), name=name)
    chosen = CONFIGURATIONS[name]
    warm = MNIST.warm_start if chosen.warm else 0
    clipping = _clipping(chosen, each_tensor_at_group_bound=True)
    return sized(replace(MNIST, clipping=clipping, warm_start=warm), scale=scale)


@cache
def repaired(name: str, *, scale: str) -> DpganSettings:
    """The same with its repairs, at the claimed epsilon: the least noise for as many steps.

    Groups clipped jointly and charged together, Poisson batches, the noise that is charged. Fixed
    bounds are the paper's number, of an example's own gradient.
    """
    _, settings = _with_repairs(name, scale)
    found = calibrate.noise_multiplier(
        settings.target_epsilon,
        sample_rate=settings.expected_batch_size / settings.private_examples,
        steps=settings.max_steps,
        delta=settings.target_delta,
    )
    return replace(
        settings,
        noise_multiplier=ceil(found * sqrt(settings.parts) * 1e4) / 1e4,
        chosen="as published but for the repairs; the noise is the least for as many steps",
    )


def matched(name: str, *, scale: str) -> DpganSettings:
    """The same with its repairs, and the noise at which it costs as much as the published run.

    Both are one Gaussian a step, whose multiplier is each part's over sqrt(parts). The published
    batches are shuffled, of which no amplification is proven: Poisson ones stand in for them.

    Where bounds are fixed the two differ by more than the repair: the published run clips g_i at
    the paper's number times a device's batch, which hardly any gradient reaches, and adds noise of
    that size; the repaired one clips g_i at the number itself. Public bounds are of g_i in both.
    """
    old, settings = _with_repairs(name, scale)
    one = old.noise_multiplier / old.noise_divisor / sqrt(old.parts)
    settings = replace(settings, noise_multiplier=one * sqrt(settings.parts))
    ledger = settings.ledger(public_size=old.private_examples, steps=settings.max_steps)
    target = ceil(rdp.epsilon(ledger, delta=old.target_delta).epsilon * 1000) / 1000
    return replace(
        settings,
        target_epsilon=target,
        chosen="as published but for the repairs; the noise is that of the published run's epsilon",
    )


def others(*, scale: str) -> dict[str, DpganSettings]:
    """Algorithm 1 by the text, which clips all parameters together, and the idle snapshot.

    Line 8 leaves open whether noise is on the sum or on each example.
    """
    on_sum = replace(
        MNIST,
        clipping=GroupClipping((BOUND,), (0,) * MNIST.tensors),
        warm_start=0,
        noise_over_sqrt_batch=False,
        devices=1,
        max_steps=MNIST.critic_steps * TABLE_7["mnist"][0],
    )
    return {
        "one-clip-on-sum": sized(on_sum, scale=scale),
        "one-clip-on-examples": sized(replace(on_sum, noise_on_examples=True), scale=scale),
        "all-snapshot": replace(published("all", scale=scale), generator_trained=False),
    }


def public_alone(*, scale: str) -> DpganSettings:
    """The GAN without privacy on public images alone, for as many steps."""
    settings = sized(NON_PRIVATE, scale=scale)
    whole = settings.max_steps // settings.critic_steps
    return replace(settings, warm_start=whole, max_steps=0)


def sized(settings: DpganSettings, *, scale: str) -> DpganSettings:
    """The settings at a scale: as they are, or narrower and shorter, and small ones of digits."""
    checks.one_of(SCALES, scale=scale)
    if scale == "paper":
        return settings
    narrower, iterations, warm_start = 4, ITERATIONS, 200
    if scale == "small":
        narrower, iterations, warm_start = 16, 2, 2
        # On four devices
        sampling = replace(settings.sampling, expected_batch_size=64)
        settings = replace(
            settings, private_examples=1_337, public_examples=100, sampling=sampling
        )
    return replace(
        settings,
        critic_channels=tuple(width // narrower for width in settings.critic_channels),
        generator_channels=tuple(width // narrower for width in settings.generator_channels),
        max_steps=iterations * settings.critic_steps,
        warm_start=min(settings.warm_start, warm_start),
    )


def _clipping(
    chosen: Configuration, *, each_tensor_at_group_bound: bool
) -> GroupClipping | PublicBounds | PublicClusters:
    tensors = MNIST.tensors
    if chosen.grouping == "clusters":
        return PublicClusters(CLUSTERS["mnist"], tensors, each_tensor_at_group_bound)
    alone = chosen.grouping == "tensors"
    groups = tuple(range(tensors)) if alone else biases_together(is_bias(3))
    if chosen.adaptive:
        return PublicBounds(groups)
    return GroupClipping((BOUND,) * (max(groups) + 1), groups)


def _with_repairs(name: str, scale: str) -> tuple[DpganSettings, DpganSettings]:
    """The published run, and the same with its repairs, for as many steps."""
    old = published(name, scale=scale)
    return old, replace(
        old,
        clipping=_clipping(CONFIGURATIONS[name], each_tensor_at_group_bound=False),
        sampling=PoissonSampling(old.expected_batch_size),
        devices=1,
        noise_over_sqrt_batch=False,
        moments=None,
        max_steps=old.steps_allowed(public_size=old.private_examples),
    )


ARMS: dict[str, Callable[..., DpganSettings]] = {
    "published": published,
    "matched": matched,  # repaired, at the epsilon that the published run costs
    "repaired": repaired,  # at the epsilon that is claimed
}


SEED = 0
SNAPSHOT = replace(published("all", scale="small"), warm_start=0, generator_trained=False)


def generator_moves(*, iterations: int) -> Measured:
    """Train twice from the same seeds: as in the snapshot, and with the generator's step.

    Returns:
        `snapshot`, `trained`: the largest change of a weight of the generator.
    """
    from dpkit.papers.dpgan.algorithm import new_gan, step_of
    from dpkit.papers.dpgan.scores import material
    from dpkit.training import Data, generator_on, train

    real = material("digits")
    values = {}
    for name, moves in (("snapshot", False), ("trained", True)):
        steps = iterations * SNAPSHOT.critic_steps
        settings = replace(SNAPSHOT, max_steps=steps, generator_trained=moves)
        gan = new_gan(settings, seed=SEED, device=real.private.device)
        start = [weight.detach().clone() for weight in gan.generator_net.parameters()]
        labels = real.train_labels[: len(real.private)]
        data = Data(real.private, labels, len(real.private))
        rng = generator_on(real.private.device, reproducible_seed=SEED)
        for _ in train(step_of(settings, real.public), gan, data, settings=settings, rng=rng):
            pass
        ends = zip(start, gan.generator_net.parameters(), strict=True)
        values[name] = max((end - begin).abs().max().item() for begin, end in ends)
    return Measured(values, real.checksums)

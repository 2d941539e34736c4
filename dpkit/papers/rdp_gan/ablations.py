"""Runs of Table IV whose scores are odd, with one or two things changed: what made them so.

All are of MNIST, at scales "reduced" and "small" of the digits; the runs that they differ from are
`experiments.plan_runs`'s.
"""

from dataclasses import replace
from functools import partial

from dpkit.common.progress import Progress
from dpkit.papers.experiments.store import Part
from dpkit.papers.rdp_gan.repaired import repaired
from dpkit.papers.rdp_gan.runs import Judged
from dpkit.papers.rdp_gan.settings import (
    CODE_RATE,
    DCGAN,
    DP_GAN,
    ITERATIONS,
    NON_PRIVATE,
    ParameterNoise,
    Settings,
)
from dpkit.papers.rdp_gan.tasks import PUBLIC_SIZES
from dpkit.privacy.schedules import Constant

LONGER = 10  # times as many iterations: of the baseline, whose code trains 1,000 epochs
LABEL_SCALE = 20.0  # of the repaired runs' discriminators


def plan_ablations(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Odd scores of Table IV, one change at a time (reduced: digits, 40 iterations).

    Args:
        scale: "paper" (MNIST), "reduced" or "small" (the digits; 40 or 2 iterations).
        seeds: runs of each repaired one; of the others, which no noise or epsilon limits, one.
        device: auto, cpu or cuda; classifiers run on the CPU.
        progress: wraps a run's records, as tqdm does.
    """
    made = partial(Judged.of, records="digits", scale=scale, device=device, progress=progress)
    runs = [
        made(key=key, settings=settings, seed=seed)
        for seed in range(seeds)
        for key, settings in other_settings(scale).items()
    ]
    runs += [
        made(key=key, settings=settings, seed=0, by_digit=True)
        for key, settings in other_baselines(scale).items()
    ]
    runs += [
        made(key=key, settings=settings, seed=0) for key, settings in other_labels(scale).items()
    ]
    return [run.part for run in runs]


def other_settings(scale: str) -> dict[str, Settings]:
    """Epsilon 5 with the batch, the discriminator's rate or both of epsilon 0.5, and the reverse.

    The noise is calibrated anew for each: all keep their epsilon.
    """
    made = partial(
        repaired, "digits", public_size=PUBLIC_SIZES["digits"][scale], iterations=ITERATIONS[scale]
    )
    low, high = made(target_epsilon=0.5), made(target_epsilon=5.0)

    def like(other: Settings, one: Settings) -> Settings:
        return replace(one, discriminator_optimizer=other.discriminator_optimizer)

    smaller = made(target_epsilon=5.0, batch_size=low.expected_batch_size)
    larger = made(target_epsilon=0.5, batch_size=high.expected_batch_size)
    return {
        "repaired-5-batch": smaller,
        "repaired-5-rate": like(low, high),
        "repaired-5-both": like(low, smaller),
        "repaired-0.5-both": like(high, larger),
    }


def other_baselines(scale: str) -> dict[str, Settings]:
    """DP-GAN without its noise, without its largest norm, and longer with one step each."""
    noise = DP_GAN.noise
    assert isinstance(noise, ParameterNoise)
    count = ITERATIONS[scale]
    found = {
        "dp-gan-no-noise": replace(DP_GAN, noise=replace(noise, schedule=Constant(0.0))),
        "dp-gan-no-norm": replace(DP_GAN, noise=replace(noise, norm=1e6)),
    }
    found = {key: replace(settings, iterations=count) for key, settings in found.items()}
    longer = replace(DP_GAN, discriminator_steps=1, iterations=LONGER * count)
    return found | {"dp-gan-longer": longer}


def other_labels(scale: str) -> dict[str, Settings]:
    """The text's networks with a heavier label, with the code's rates, and with both.

    And the code's networks, which Table IV trains digit by digit, as one GAN that sees the label.
    """
    rates = {"generator_optimizer": CODE_RATE, "discriminator_optimizer": CODE_RATE}
    label = {"label_scale": LABEL_SCALE}
    found = {
        "dcgan-label": replace(DCGAN, **label),
        "dcgan-rate": replace(DCGAN, **rates),
        "dcgan-both": replace(DCGAN, **label, **rates),
        "none-one-gan": NON_PRIVATE,
    }
    return {key: replace(settings, iterations=ITERATIONS[scale]) for key, settings in found.items()}

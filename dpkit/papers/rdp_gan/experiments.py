"""Which runs each table and figure rests on, at the paper's scale and at a reduced one."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

from dpkit.common.progress import Progress
from dpkit.common.records import describe
from dpkit.papers.experiments.run import Run
from dpkit.papers.experiments.store import Part, Result, part_name, priced
from dpkit.papers.rdp_gan import algorithm
from dpkit.papers.rdp_gan.ablations import plan_ablations
from dpkit.papers.rdp_gan.repaired import DECAYS, EPSILONS, RECORDS, SWEEPS, repaired
from dpkit.papers.rdp_gan.runs import Judged, on_device
from dpkit.papers.rdp_gan.settings import (
    DCGAN,
    DELTA,
    DP_GAN,
    ITERATIONS,
    MULTIPLICATIVE,
    NON_PRIVATE,
    OUTPUT_ERROR,
    SETTINGS,
    Settings,
)
from dpkit.papers.rdp_gan.tables import PRINTED_ITERATIONS
from dpkit.papers.rdp_gan.tasks import INCOME, JUDGED, PUBLIC_SIZES, SIZES, Task, task
from dpkit.papers.rdp_gan.tuning import Tuning
from dpkit.privacy import pld
from dpkit.privacy.sampling import ShuffledBatches
from dpkit.synthesizers import marginals
from dpkit.training.losses import called_real
from dpkit.training.types import Record

PUBLISHED = {
    "loss-value": SETTINGS,
    "multiplicative": MULTIPLICATIVE,
    "output-error": OUTPUT_ERROR,
    "dp-gan": DP_GAN,
    "none": NON_PRIVATE,
}
PUBLISHED_TUNING = tuple(  # tau as printed, and as half a per cent; eq. 18's mean, or eq. 17's last
    Tuning(0.7, threshold, averaged=averaged)
    for threshold in (0.5, 0.005)
    for averaged in (True, False)
)


def plan_runs(
    records: str, *, scale: str, seeds: int, device: str, progress: Progress
) -> list[Part]:
    """Tables III to V, Figures 4 to 8 (reduced: digits or simulated census, 40 iterations).

    Args:
        records: "digits" or "census".
        scale: "paper" (MNIST, Adult), "reduced" or "small" (the digits, the simulated census; 40
            or 2 iterations).
        seeds: runs of each.
        device: auto, cpu or cuda; classifiers run on the CPU.
        progress: wraps a run's records, as tqdm does.
    """
    made = partial(Judged.of, records=records, scale=scale, device=device, progress=progress)
    printed = tuple(PRINTED_ITERATIONS[records].values())
    runs = []
    repaired_runs = {
        f"repaired-{name}-{epsilon:g}": _repaired(records, scale, epsilon, name)
        for epsilon in reversed(EPSILONS)
        for name in DECAYS
    }
    for seed in range(seeds):
        for key, settings in PUBLISHED.items():
            if key == "none" and seed:
                continue  # the same weights as loss-value, to the bit: once is enough to see it
            runs.append(
                made(
                    key=key,
                    settings=_sized(settings, scale),
                    seed=seed,
                    kept=printed,
                    by_digit=records == "digits",
                    samples=not seed,
                )
            )
        runs += [
            made(key=key, settings=settings, seed=seed, samples=not seed)
            for key, settings in repaired_runs.items()
        ]
    if records == "census":
        runs += [
            made(
                key=f"ant-{tuning.threshold:g}-{'mean' if tuning.averaged else 'last'}",
                seed=0,
                settings=_sized(replace(SETTINGS, tuning=tuning), scale),
            )
            for tuning in PUBLISHED_TUNING
        ]
    runs += [
        made(key=f"dcgan-{name}", settings=settings, seed=seed, samples=not seed)
        for seed in range(seeds)
        for name, settings in _dcgan(records, scale).items()
    ]
    return [_real(records, scale), *(run.part for run in runs), *_marginals(records, scale, seeds)]


def plan_sweep(
    records: str, *, scale: str, seeds: int, device: str, progress: Progress
) -> list[Part]:
    """Repaired runs at epsilon 0.5 with other decay rates, one seed (reduced: 40 iterations)."""
    return [
        Judged.of(
            f"{name}-{rate:g}",
            records,
            _repaired(records, scale, 0.5, name, rate),
            0,
            scale,
            device,
            progress,
        ).part
        for name, rates in SWEEPS.items()
        for rate in rates
    ]


def plan_losses(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Table II: the largest loss of training without noise (reduced: 40 iterations)."""
    parts = []
    for records, batch, seed in product(RECORDS, (64, 128), range(seeds)):
        key, size, also = f"{records}-{batch}", PUBLIC_SIZES[records][scale], {"records": records}
        settings = _sized(replace(NON_PRIVATE, sampling=ShuffledBatches(batch)), scale)
        run = Run("rdp_gan", key, settings, seed, size, scale, records, device, progress, also=also)
        parts.append(run.part(partial(_largest_loss, run)))
    return parts


PLANS = {
    "table_2": plan_losses,
    "table_4": partial(plan_runs, "digits"),
    "table_5": partial(plan_runs, "census"),
    "figure_9": partial(plan_sweep, "census"),
    "figure_10": partial(plan_sweep, "digits"),
    "ablations": plan_ablations,
}


def _sized(settings: Settings, scale: str) -> Settings:
    return settings if scale == "paper" else replace(settings, iterations=ITERATIONS[scale])


def _repaired(
    records: str, scale: str, epsilon: float, name: str, rate: float | None = None
) -> Settings:
    return repaired(
        records,
        target_epsilon=epsilon,
        public_size=PUBLIC_SIZES[records][scale],
        decay_name=name,
        rate=rate,
        iterations=ITERATIONS[scale],
    )


def _dcgan(records: str, scale: str) -> dict[str, Settings]:
    """The text's networks and rates: published (a label-conditional GAN), and repaired."""
    repaired_runs = {
        f"repaired-{e:g}": replace(_repaired(records, scale, e, "constant"), network=DCGAN.network)
        for e in EPSILONS
    }
    return {"loss-value": _sized(DCGAN, scale), **repaired_runs}


def _real(records: str, scale: str) -> Part:
    """Real records, scored like generated ones: what could be reached."""
    settings = {"records": records, "judged": JUDGED[scale]}
    return Part(part_name("real", 0), settings, 0, partial(_judged_real, records, scale))


def _judged_real(records: str, scale: str) -> Result:
    wanted = task(records, scale=scale)
    if records == "digits":
        data, count = wanted.data, JUDGED[scale]
        made, labels = data.features.numpy()[:count], data.labels.numpy()[:count]
    else:
        made, labels = _codes(wanted), wanted.data.labels.numpy()
    return Result(
        {"iterations": 0, "scores": {"0": wanted.judge(made, labels)}}, wanted.checksums, "cpu"
    )


def _codes(wanted: Task) -> np.ndarray:
    parts = wanted.data.features.split(SIZES, 1)
    return torch.stack([part.argmax(1) for part in parts], 1).numpy()


def _marginals(records: str, scale: str, seeds: int) -> list[Part]:
    """The kit's best generator for tables: one noisy release of two-way counts."""
    parts = []
    for epsilon in EPSILONS if records == "census" else ():
        settings = marginals.settings_for(epsilon, delta=DELTA, sizes=SIZES, target=INCOME)
        described = describe(settings) | {"target_epsilon": epsilon}
        prices = partial(_price_of_marginals, settings, epsilon)
        for seed in range(seeds):
            compute = partial(_from_marginals, settings, seed, scale, prices)
            name = part_name(f"marginals-{epsilon:g}", seed)
            parts.append(Part(name, described, seed, compute, prices=prices))
    return parts


def _price_of_marginals(
    settings: marginals.MarginalsSettings, epsilon: float, values: dict[str, Any]
) -> dict[str, Any]:
    return priced(pld.epsilon(settings.ledger(), delta=DELTA), claimed=epsilon)


def _from_marginals(
    settings: marginals.MarginalsSettings,
    seed: int,
    scale: str,
    prices: Callable[[dict[str, Any]], dict[str, Any]],
) -> Result:
    wanted = task("census", scale=scale)
    size = wanted.data.public_size
    noise, rows = (np.random.default_rng([seed, stream]) for stream in (0, 1))
    model = marginals.fit(_codes(wanted), settings=settings, public_size=size, rng=noise)
    scores = wanted.judge(model.sample(size, rng=rows), np.zeros(size))
    return Result(prices({}) | {"scores": {"0": scores}, "iterations": 0}, wanted.checksums, "cpu")


def _largest_loss(run: Run) -> Result:
    """One unconditional GAN on all records; the losses of real records before each step."""
    wanted = task(run.records, scale=run.scale)
    settings = replace(run.settings, **wanted.changes | {"classes": 0})
    gan = algorithm.new_gan(settings, seed=run.seed, device=run.device)
    largest = {"one_record": 0.0, "mean_of_a_batch": 0.0, "batch_total": 0.0}

    def watched(gan: Any, features: torch.Tensor, labels: torch.Tensor, **kwargs: Any) -> Record:
        with torch.no_grad():
            losses = called_real(gan.discriminator(features, labels))
        seen = (losses.max(), losses.mean())
        for name, value in zip(("one_record", "mean_of_a_batch"), seen, strict=True):
            largest[name] = max(largest[name], value.item())
        record = algorithm.loss_value_step(gan, features, labels, **kwargs)
        largest["batch_total"] = max(largest["batch_total"], record.discriminator_loss)
        return record

    data = on_device(wanted.data._replace(labels=wanted.data.labels * 0), run.device)
    records = run.train(watched, gan, data, settings=settings)
    run.finish(records, total=settings.iterations * settings.discriminator_steps)
    return run.result(dict(largest), wanted.checksums)

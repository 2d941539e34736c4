"""The runs behind each table and figure, at the paper's scale and at a reduced one.

Each run is one part, stored by itself. Beside the paper's own are runs of Table IV with
odd scores and one or two changes, to find the cause.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

from dpkit.common.progress import Progress
from dpkit.common.records import describe
from dpkit.papers.experiments.run import Run
from dpkit.papers.experiments.store import Part, Result, Values, part_name, priced
from dpkit.papers.rdp_gan import adaptive, algorithm
from dpkit.papers.rdp_gan.repaired import (
    DECAYS,
    EPSILONS,
    RECORDS,
    SWEEPS,
    filter_for,
    repaired,
    reused_with,
)
from dpkit.papers.rdp_gan.settings import (
    CODE_RATE,
    DCGAN,
    DELTA,
    DP_GAN,
    GENERATOR_STEPS,
    ITERATIONS,
    MULTIPLICATIVE,
    NON_PRIVATE,
    OUTPUT_ERROR,
    SETTINGS,
    GradientNoise,
    MultiplicativeNoise,
    ParameterNoise,
    RdpGanSettings,
    Tuning,
)
from dpkit.papers.rdp_gan.tables import PRINTED_ITERATIONS
from dpkit.papers.rdp_gan.tasks import (
    CHANGES,
    INCOME,
    JUDGED,
    PUBLIC_SIZES,
    SIZES,
    RdpGanTask,
    task,
)
from dpkit.privacy import pld
from dpkit.privacy.sampling import ShuffledBatches, mechanism
from dpkit.privacy.schedules import Constant
from dpkit.synthesizers import marginals
from dpkit.training import Data, Gan, Record, called_real

Generated = tuple[np.ndarray, np.ndarray]  # records, and the labels they were asked for
CURVE_EVERY, CURVE_POINTS = 50, 20  # least iterations between a curve's points; their number
CURVE_RECORDS = 1_000


def judged(
    key: str,
    records: str,
    settings: RdpGanSettings,
    seed: int,
    scale: str,
    device: str,
    progress: Progress,
    *,
    kept: tuple[int, ...] = (),
    by_digit: bool = False,
    samples: bool = False,
) -> Part:
    """One method trained with one seed on one task, and its records judged.

    Its settings decide its length and cost, whatever was stored.

    Args:
        key: its name in the tables.
        records: "digits" or "census".
        settings: a GAN is trained, and described, with these in the records' form, and by digit
            without labels.
        seed, scale, device, progress: as `PartsPlan`.
        kept: judged iterations, beside the last.
        by_digit: a GAN for each digit, as in the code.
        samples: store some images of the last iteration.
    """
    size, also = PUBLIC_SIZES[records][scale], {"records": records, "by_digit": by_digit}
    own = replace(settings, **CHANGES[records] | ({"classes": 0} if by_digit else {}))
    run = Run("rdp_gan", key, own, seed, size, scale, records, device, progress, also=also)

    def compute() -> Result:
        """Train and score it; return its claimed and proven epsilon."""
        wanted = task(records, scale=scale)
        asked = {i for i in (*kept, own.iterations) if i <= own.iterations}
        made, curve = (_by_digit if by_digit else _whole)(run, wanted, own, asked)
        last, declared = max(made), wanted.data.public_size
        values = {
            "iterations": last,
            "discriminator_steps": own.discriminator_steps,
            "scores": {str(i): wanted.judge(*some) for i, some in sorted(made.items())},
            "curve": curve,
            "public_size": declared,
            **_priced(own, declared),
        }
        images = _shown(*made[last]) if samples and not own.parts else None
        return run.result(values, wanted.checksums, images)

    return run.part(compute, prices=lambda _: _priced(own, size))


def _whole(
    run: Run, wanted: RdpGanTask, settings: RdpGanSettings, kept: set[int]
) -> tuple[dict[int, Generated], dict[str, list[Any]]]:
    """One GAN on all records: generated records at the kept iterations, and the curve."""
    gan = algorithm.new_gan(settings, seed=run.seed, device=run.device)
    data = on_device(wanted.data, run.device)
    sampled = run.rng("judged")
    count = data.public_size if settings.parts else JUDGED[run.scale]
    made, curve = {}, {"iterations": [], "accuracy": [], "noise": []}
    last, noise = 0, 0.0
    for last, noise in _iterations(run, gan, data, wanted, settings):
        if last % max(settings.iterations // CURVE_POINTS, CURVE_EVERY) == 0:
            curve["iterations"].append(last)
            curve["noise"].append(noise)
            few = _generated(gan, settings, CURVE_RECORDS, sampled)
            curve["accuracy"].append(wanted.accuracy(*few))
        if last in kept:
            made[last] = _generated(gan, settings, count, sampled)
    made[last] = made.get(last) or _generated(gan, settings, count, sampled)
    return made, curve


def _iterations(
    run: Run, gan: Gan, data: Data, wanted: RdpGanTask, settings: RdpGanSettings
) -> Iterator[tuple[int, float]]:
    """Train; yield the number of each generator iteration, and its noise."""
    step = algorithm.step_of(settings)
    each = settings.discriminator_steps
    if settings.tuning is None:
        records = run.train(step, gan, data, settings=settings)
        for record in run.shown(records, total=settings.iterations * each):
            if (record.step + 1) % each == 0:
                yield ((record.step + 1) // each, settings.noise.schedule(record.step // each))
        return
    sampled = run.rng("tested")
    count, share = wanted.correct, 1.0
    if isinstance(settings.noise, GradientNoise):
        budget: adaptive.PaperBudget | adaptive.FilterBudget = adaptive.FilterBudget(
            filter_for(settings, public_size=data.public_size), settings, data.public_size
        )
    else:  # the paper's accuracy, for free
        count, share = wanted.accuracy, data.public_size
        budget = adaptive.PaperBudget.of(settings, data.public_size, run.records)
    tested = adaptive.tuned(
        step,
        gan,
        data,
        settings=settings,
        rng=run.rng(),
        budget=budget,
        correct=lambda g: share * count(*_generated(g, settings, CURVE_RECORDS, sampled)),
    )
    for one in run.shown(tested, total=settings.iterations):
        yield one.iteration + 1, one.noise


def _by_digit(
    run: Run, wanted: RdpGanTask, settings: RdpGanSettings, kept: set[int]
) -> tuple[dict[int, Generated], dict[str, list[Any]]]:
    """As in the code: a GAN for each digit, trained apart; the records of all ten."""
    found: dict[int, list[np.ndarray]] = {i: [] for i in kept}
    curves = []
    for digit in range(10):
        chosen = wanted.data.labels == digit
        features = wanted.data.features[chosen]
        # Shuffled batches take a declared size for the true one: this digit's own count.
        data = Data(features, wanted.data.labels[chosen] * 0, len(features))
        only = wanted._replace(
            data=data, accuracy=lambda x, y, asked=digit: wanted.accuracy(x, y * 0 + asked)
        )
        named = run._replace(key=f"{run.key} digit {digit}")
        made, curve = _whole(named, only, settings, kept)
        for i in kept:
            found[i].append(made[i][0][: JUDGED[run.scale] // 10])
        curves.append(curve)
    made = {
        i: (np.concatenate(parts), np.repeat(np.arange(10), [len(part) for part in parts]))
        for i, parts in found.items()
    }
    accuracy = np.mean([curve["accuracy"] for curve in curves], axis=0).tolist()
    by_digit = [curve["accuracy"] for curve in curves]
    return made, {**curves[0], "accuracy": accuracy, "by_digit": by_digit}


def on_device(data: Data, device: torch.device) -> Data:
    """The same records on a device."""
    return data._replace(features=data.features.to(device), labels=data.labels.to(device))


def _generated(
    gan: Gan, settings: RdpGanSettings, count: int, rng: torch.Generator
) -> Generated:
    labels = torch.arange(count, device=rng.device) % max(settings.classes, 1)
    made = algorithm.generate(gan, labels, settings=settings, rng=rng)
    return made.cpu().numpy(), labels.cpu().numpy()


def _shown(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Five images a label, uint8."""
    chosen = [np.flatnonzero(labels == label)[i] for i in range(5) for label in range(10)]
    return ((images[chosen] + 1) * 127.5).round().astype(np.uint8).reshape(-1, 28, 28)


def _priced(settings: RdpGanSettings, public_size: int) -> Values:
    """The run's claim, by the paper or by us, and its guarantee: by PLD, by the filter, or none."""
    if settings.tuning is not None and settings.tuning.count_noise > 0:
        proven = filter_for(settings, public_size=public_size).guarantee()
    else:
        ledger = settings.ledger(public_size=public_size)
        proven = pld.epsilon(ledger, delta=settings.target_delta)
    assumed: set[str] = set()
    # Nothing is priced, and nothing assumed, where there is no guarantee
    if proven.epsilon < math.inf:
        release = mechanism(settings.sampling, noise_multiplier=1.0, public_size=public_size)
        assumed = {*release.assumptions, *settings.sampling.assumptions}
    longer = settings.iterations > GENERATOR_STEPS  # the text states its epsilon for these
    unsaid = longer or isinstance(settings.noise, MultiplicativeNoise | ParameterNoise)
    prices = priced(proven, claimed=None if unsaid else settings.target_epsilon)
    return prices | {"assumptions": sorted(assumed | {*proven.assumptions})}


PUBLISHED = {
    "loss-value": SETTINGS,
    "multiplicative": MULTIPLICATIVE,
    "output-error": OUTPUT_ERROR,
    "dp-gan": DP_GAN,
    "none": NON_PRIVATE,
}
# Batches, steps and lengths of the code: 2,000 epochs of a digit's 6,000 images, by 128 (7455c85,
# GAN_Figure/RDP_Gan_loss.py), 1,001 of Adult, by 500 (dc00b4f, GAN_Figure/RDP-GAN-table/main.py)
CODE = {
    records: replace(
        SETTINGS, sampling=ShuffledBatches(batch), discriminator_steps=1, iterations=length
    )
    for records, batch, length in (("digits", 128, 2_000 * 46), ("census", 500, 1_001 * 40))
}
LABEL_SCALE = 20.0  # of the repaired runs' discriminators
# tau as printed, and as half a per cent; eq. 18's mean, or eq. 17's last
PUBLISHED_TUNING = [
    Tuning(0.7, tau, averaged=mean) for tau in (0.5, 0.005) for mean in (True, False)
]


def plan_runs(
    records: str, *, scale: str, seeds: int, device: str, progress: Progress
) -> list[Part]:
    """Tables III to V, Figures 4 to 8 (reduced: digits or simulated census, 40 iterations).

    At scale "paper" records are MNIST or Adult; at "small" runs have 2 iterations. Classifiers run
    on the CPU. The other arguments are `PartsPlan`'s.
    """
    made = partial(judged, records=records, scale=scale, device=device, progress=progress)
    printed = tuple(PRINTED_ITERATIONS[records].values())
    alone = {key: _sized(one, scale) for key, one in PUBLISHED.items()}  # a GAN a digit
    code = CODE[records]
    alone["code-loss-value"] = code if scale == "paper" else _sized(code, scale)
    dcgan = _sized(DCGAN, scale)
    if records == "digits":
        alone["dcgan-digit-loss-value"] = dcgan
    together = {
        f"repaired-{name}-{epsilon:g}": _repaired(records, scale, epsilon, decay_name=name)
        for epsilon in reversed(EPSILONS)
        for name in DECAYS
    } | {"dcgan-loss-value": dcgan}
    together |= {
        f"dcgan-repaired-{e:g}": reused_with(
            "the text's networks", _repaired(records, scale, e), network=DCGAN.network
        )
        for e in EPSILONS
    }
    runs = [
        made(
            key=key,
            settings=settings,
            seed=seed,
            samples=not seed,
            kept=printed if by_text and settings is not code else (),
            by_digit=by_text and records == "digits",
        )
        for seed in range(seeds)
        for by_text, group in ((True, alone), (False, together))
        for key, settings in group.items()
        if not (key == "none" and seed)  # to the bit loss-value's weights: once is enough
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
    tables = [
        _marginals(scale, epsilon, seed)
        for epsilon in (EPSILONS if records == "census" else ())
        for seed in range(seeds)
    ]
    return [_real(records, scale), *runs, *tables]


def plan_sweep(
    records: str, *, scale: str, seeds: int, device: str, progress: Progress
) -> list[Part]:
    """Repaired runs at epsilon 0.5 with other decay rates (reduced: 40 iterations)."""
    made = partial(judged, records=records, scale=scale, device=device, progress=progress)
    how = partial(_repaired, records, scale, 0.5)
    return [
        made(key=f"{name}-{rate:g}", settings=how(decay_name=name, rate=rate), seed=seed)
        for seed in range(seeds)
        for name, rates in SWEEPS.items()
        for rate in rates
    ]


def plan_losses(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Table II: the largest loss of training without noise (reduced: 40 iterations)."""
    parts = []
    for records, batch, seed in product(RECORDS, (64, 128), range(seeds)):
        key, size = f"{records}-{batch}", PUBLIC_SIZES[records][scale]
        form = CHANGES[records] | {"classes": 0, "sampling": ShuffledBatches(batch)}
        settings = _sized(replace(NON_PRIVATE, **form), scale)
        how = (key, settings, seed, size, scale, records, device, progress)
        run = Run("rdp_gan", *how, also={"records": records})
        parts.append(run.part(partial(_largest_loss, run)))
    return parts


def _sized(settings: RdpGanSettings, scale: str) -> RdpGanSettings:
    return replace(settings, iterations=ITERATIONS[scale])


def _repaired(records: str, scale: str, epsilon: float, **more: Any) -> RdpGanSettings:
    size, count = PUBLIC_SIZES[records][scale], ITERATIONS[scale]
    return repaired(
        records, target_epsilon=epsilon, public_size=size, iterations=count, **more
    )


def _real(records: str, scale: str) -> Part:
    """Real records, scored like generated ones: the best to expect."""

    def compute() -> Result:
        wanted = task(records, scale=scale)
        if records == "digits":
            data, count = wanted.data, JUDGED[scale]
            made, labels = data.features.numpy()[:count], data.labels.numpy()[:count]
        else:
            made, labels = _codes(wanted), wanted.data.labels.numpy()
        scores = {"0": wanted.judge(made, labels)}
        return Result({"iterations": 0, "scores": scores}, wanted.checksums, "cpu")

    inputs = {"records": records, "judged": JUDGED[scale]}
    return Part(part_name("real", 0), inputs, 0, compute)


def _codes(wanted: RdpGanTask) -> np.ndarray:
    parts = wanted.data.features.split(SIZES, 1)
    return torch.stack([part.argmax(1) for part in parts], 1).numpy()


def _marginals(scale: str, epsilon: float, seed: int) -> Part:
    """The kit's best generator for tables: one noisy release of two-way counts."""
    settings = marginals.settings_for(epsilon, delta=DELTA, sizes=SIZES, target=INCOME)

    def prices(values: Values) -> Values:
        return priced(pld.epsilon(settings.ledger(), delta=DELTA), claimed=epsilon)

    def compute() -> Result:
        wanted = task("census", scale=scale)
        size = wanted.data.public_size
        noise, rows = (np.random.default_rng([seed, stream]) for stream in (0, 1))
        model = marginals.fit(_codes(wanted), settings=settings, public_size=size, rng=noise)
        scores = wanted.judge(model.sample(size, rng=rows), np.zeros(size))
        values = prices({}) | {"scores": {"0": scores}, "iterations": 0}
        return Result(values, wanted.checksums, "cpu")

    described = describe(settings) | {"target_epsilon": epsilon}
    return Part(
        part_name(f"marginals-{epsilon:g}", seed), described, seed, compute, prices=prices
    )


def _largest_loss(run: Run) -> Result:
    """One unconditional GAN on all records; the losses of real records before each step."""
    wanted = task(run.records, scale=run.scale)
    gan = algorithm.new_gan(run.settings, seed=run.seed, device=run.device)
    largest = {"one_record": 0.0, "mean_of_a_batch": 0.0, "batch_total": 0.0}

    def watched(
        gan: Any, features: torch.Tensor, labels: torch.Tensor, **kwargs: Any
    ) -> Record:
        with torch.no_grad():
            losses = called_real(gan.discriminator(features, labels))
        seen = (losses.max(), losses.mean())
        for name, value in zip(("one_record", "mean_of_a_batch"), seen, strict=True):
            largest[name] = max(largest[name], value.item())
        record = algorithm.loss_value_step(gan, features, labels, **kwargs)
        largest["batch_total"] = max(largest["batch_total"], record.discriminator_loss)
        return record

    data = on_device(wanted.data._replace(labels=wanted.data.labels * 0), run.device)
    steps = run.settings.iterations * run.settings.discriminator_steps
    run.finish(run.train(watched, gan, data), total=steps)
    return run.result(dict(largest), wanted.checksums)


def plan_ablations(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Odd scores of Table IV, one change at a time (reduced: digits, 40 iterations).

    Of MNIST, at other scales of the digits. Arguments as `plan_runs`: `seeds` of each repaired run,
    and one of the others, which no noise limits.
    """
    made = partial(judged, records="digits", scale=scale, device=device, progress=progress)
    several = (
        (other_settings(scale), range(seeds), False),
        (other_baselines(scale), range(1), True),
        (other_labels(scale), range(1), False),
    )
    return [
        made(key=key, settings=settings, seed=seed, by_digit=by_digit)
        for runs, each, by_digit in several
        for seed in each
        for key, settings in runs.items()
    ]


def other_settings(scale: str) -> dict[str, RdpGanSettings]:
    """Epsilon 5 with the batch, the discriminator's rate or both of epsilon 0.5, and the reverse.

    The noise is calibrated anew for each: all keep their epsilon.
    """
    made = partial(_repaired, "digits", scale)
    low, high = made(0.5), made(5.0)

    def like(other: RdpGanSettings, one: RdpGanSettings) -> RdpGanSettings:
        what = f"the discriminator's rate at epsilon {other.target_epsilon:g}"
        return reused_with(what, one, discriminator_optimizer=other.discriminator_optimizer)

    smaller = made(5.0, batch_size=low.expected_batch_size)
    larger = made(0.5, batch_size=high.expected_batch_size)
    return {
        "repaired-5-batch": smaller,
        "repaired-5-rate": like(low, high),
        "repaired-5-both": like(low, smaller),
        "repaired-0.5-both": like(high, larger),
    }


def other_baselines(scale: str) -> dict[str, RdpGanSettings]:
    """DP-GAN without its noise, without its largest norm, and longer with one step each."""
    noise, one = DP_GAN.noise, _sized(DP_GAN, scale)
    assert isinstance(noise, ParameterNoise)
    longer = 10 * one.iterations  # the baseline's code trains 1,000 epochs
    return {
        "dp-gan-no-noise": replace(one, noise=replace(noise, schedule=Constant(0.0))),
        "dp-gan-no-norm": replace(one, noise=replace(noise, norm=1e6)),
        "dp-gan-longer": replace(one, discriminator_steps=1, iterations=longer),
    }


def other_labels(scale: str) -> dict[str, RdpGanSettings]:
    """The text's networks with a heavier label, with the code's rates, and with both.

    And the code's networks, which Table IV trains digit by digit, as one GAN that sees the label.
    """
    rates = {"generator_optimizer": CODE_RATE, "discriminator_optimizer": CODE_RATE}
    one = _sized(DCGAN, scale)
    return {
        "dcgan-label": replace(one, label_scale=LABEL_SCALE),
        "dcgan-rate": replace(one, **rates),
        "dcgan-both": replace(one, label_scale=LABEL_SCALE, **rates),
        "none-one-gan": _sized(NON_PRIVATE, scale),
    }


PLANS = {
    "table_2": plan_losses,
    "table_4": partial(plan_runs, "digits"),
    "table_5": partial(plan_runs, "census"),
    "figure_9": partial(plan_sweep, "census"),
    "figure_10": partial(plan_sweep, "digits"),
    "ablations": plan_ablations,
}

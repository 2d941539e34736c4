"""Attacks on DP-CGAN's published run, on two of its slips alone, and on the repaired run.

An update of the conditional generator reveals the labels of a private batch. A generator that is
fed one-hot labels has a column of first-layer weights for each. A label that no example of its
update has leaves its column's gradient at exactly 0; any other moves it. If the update uses the
private batch's labels, an attacker who sees the generator before and after it knows them, however
much noise the critic got.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpkit.audit import bounds, runs
from dpkit.audit.scores import Scores, check_rng
from dpkit.audit.training import white_box
from dpkit.audit.training.white_box import StepTrace
from dpkit.common import checks
from dpkit.papers.dp_cgan import algorithm, claims
from dpkit.papers.dp_cgan.settings import PUBLIC_SIZE, REPAIRED, SETTINGS, DpCganSettings
from dpkit.papers.targets.target import KNOWN, Target, price
from dpkit.privacy import Release, SampledGaussian
from dpkit.training import Gan


class Reconstructed(NamedTuple):
    """The share of right answers to "does the batch have this label?".

    share: right ones among all, over batches and labels.
    chance: the share for always giving each label's more frequent answer.
    answers: number of them.
    """

    share: float
    chance: float
    answers: int


def labels_seen(before: Tensor, after: Tensor, *, columns: Sequence[int]) -> NDArray[np.bool_]:
    """Return the labels that an update used: those whose columns moved.

    Exact for any plain SGD step and for Adam's first; later steps of Adam also move, by momentum,
    the columns of labels of earlier batches.

    Args:
        before, after: the generator's first-layer weights around its update, (units, inputs).
        columns: of the inputs that hold the one-hot label, label by label.

    Raises:
        ValueError: the weights are not two matrices of one shape, or have no such columns.
    """
    if before.ndim != 2 or before.shape != after.shape:
        raise ValueError(
            "before and after must be first-layer weights (units, inputs) of one shape, got "
            f"{tuple(before.shape)} and {tuple(after.shape)}"
        )
    wanted = [checks.whole(0, columns=column) for column in columns]
    if not all(column < before.shape[1] for column in wanted):
        raise ValueError(f"columns must be below {before.shape[1]} inputs, got {wanted}")
    return (before != after).any(0)[wanted].cpu().numpy()


def of_step(
    step: Callable[..., Any],
    new_gan: Callable[[], Any],
    features: Tensor,
    labels: Tensor,
    *,
    settings: Any,
    weights: str,
    columns: Sequence[int],
    batch: int,
    batches: int,
    rng: np.random.Generator,
) -> Reconstructed:
    """Guess the labels of many batches, from the generator before and after a step.

    Args:
        step, new_gan, settings: as `white_box.once` takes them.
        features, labels: records to draw batches from, (records, ...) and (records,).
        weights: name of the generator's first-layer weights in a `StepTrace`, such as
            "generator_net.body.0.weight"; columns: as `labels_seen`.
        batch: records a batch; few, so that not every batch has every label.
        batches: number of them, >= 1.
        rng: of the batches and the steps.

    Raises:
        ValueError: a number is out of range, or the networks have no such weights.
    """
    check_rng(rng)
    batch, batches = checks.whole(1, batch=batch, batches=batches)
    guesses, truth = [], []
    for _ in range(batches):
        chosen = rng.choice(len(labels), size=batch, replace=False)
        rows = white_box.Batch(features[chosen], labels[chosen])
        seed = int(rng.integers(1, 2**31))
        run = white_box.once(step, new_gan, rows, settings=settings, seed=seed)
        if weights not in run.before:
            raise ValueError(
                f"weights must be one of {', '.join(run.before)}, got {weights!r}"
            )
        guesses.append(labels_seen(run.before[weights], run.after[weights], columns=columns))
        truth.append(np.isin(np.arange(len(columns)), rows.labels.cpu().numpy()))
    found, of = np.array(guesses), np.array(truth)  # (batches, labels)
    often = of.mean(0)
    chance = float(np.maximum(often, 1 - often).mean())
    return Reconstructed(float((found == of).mean()), chance, of.size)


LABEL = 9  # the record's, which no other record has
OTHERS = 4  # records beside it where a step is measured
EPOCH = 100  # steps of the code's rate, 600 of 60,000
LATENTS = 20  # draws of latent codes; the least shift counts
RAISED = 4.0  # a discriminator's logits, where it calls the generator's images real
WEIGHTS_SEED, RECORDS_SEED = 1, 3
KINDS = ("weight", "bias")
# (units, latents + classes), as a trace names it
GENERATOR_WEIGHTS = "generator_net.body.0.weight"
COLUMNS = range(SETTINGS.latent_size, SETTINGS.latent_size + SETTINGS.classes)  # of the label


@cache
def weights(settings: DpCganSettings, raised: float = 0.0) -> Gan:
    """The initial networks, which are public; every logit of the discriminator `raised`."""
    gan = algorithm.new_gan(settings, seed=WEIGHTS_SEED, device=torch.device("cpu"))
    with torch.no_grad():
        list(gan.discriminator.parameters())[-1].add_(raised)
    return gan


def worlds(
    settings: DpCganSettings, *, sure: bool, others: int = OTHERS
) -> list[white_box.Batch]:
    """A batch without the record and with it; the others have random pixels and other labels.

    The record is the black and white image that the discriminator most surely calls real, if
    `sure` (its real gradient vanishes), or else fake (it is as long as can be).
    """
    rng = torch.Generator().manual_seed(RECORDS_SEED)
    images = torch.rand(others, settings.pixels, generator=rng)
    labels = torch.arange(others) % LABEL
    # White where a brighter pixel raises the logit (or lowers it), all hidden units active
    first, _, last, _ = weights(settings).discriminator.parameters()
    image = ((last @ first[:, : settings.pixels] > 0) == sure).float()
    label = torch.tensor([LABEL])
    present = white_box.Batch(torch.cat((images, image)), torch.cat((labels, label)))
    return [white_box.Batch(images, labels), present]


def seen(
    settings: DpCganSettings, *, sure: bool, raised: float = 0.0, seed: int = 0
) -> list[StepTrace]:
    """One step of either world from the same weights, with the same draws."""
    new = partial(deepcopy, weights(settings, raised))
    return [
        white_box.once(algorithm.step, new, batch, settings=settings, seed=seed)
        for batch in worlds(settings, sure=sure)
    ]


@cache
def real_shift(settings: DpCganSettings) -> float:
    """The record's shift of the noised sum of real gradients, in deviations of the noise."""
    return white_box.shift(*seen(settings, sure=False))


@cache
def fake_shift(settings: DpCganSettings) -> float:
    """The shift of the discriminator's update by the record's label, in those deviations.

    At weights with which the discriminator calls the fakes real. Along the mean direction over
    draws of the latent codes, which the attacker does not know; the least of the draws.
    """
    pairs = (seen(settings, sure=True, raised=RAISED, seed=seed) for seed in range(LATENTS))
    moved = [_moved(*pair) for pair in pairs]
    direction = torch.stack(moved).mean(0)
    along = torch.stack([one @ direction for one in moved]) / direction.norm()
    return float(along.min()) / settings.noise_std


def _moved(absent: StepTrace, present: StepTrace) -> Tensor:
    """The record's change of the update's gradient times the batch, without noise."""
    names = [f"discriminator.body.{layer}.{kind}.grad" for layer in (0, 2) for kind in KINDS]
    flat = [  # of each world: the update, what was noised, and what came out
        torch.cat([part.double().flatten() for part in parts])
        for run in (absent, present)
        for made in run.releases[0][:1]
        for parts in ([run.after[name] for name in names], made.sums, made.noisy)
    ]
    update, sums, noisy = (other - one for one, other in zip(flat[:3], flat[3:], strict=True))
    return SETTINGS.expected_batch_size * update + sums - noisy


def column_moved(run: StepTrace) -> float:
    """1 where the generator's weights of the record's label changed, else 0."""
    pair = (weights[GENERATOR_WEIGHTS] for weights in (run.before, run.after))
    (seen,) = labels_seen(*pair, columns=[COLUMNS[LABEL]])
    return float(seen)


def label_scores(settings: DpCganSettings, rng: np.random.Generator, trials: int) -> Scores:
    """Of `trials` first steps in each world, each with other draws: whether the column moved."""
    new = partial(deepcopy, weights(settings))
    more: Any = {"settings": settings, "of": column_moved, "rng": rng, "trials": trials}
    batches = worlds(settings, sure=False, others=SETTINGS.expected_batch_size - 1)
    return Scores(
        *(white_box.statistics(algorithm.step, new, batch, **more) for batch in batches)
    )


def run_scores(
    shift: Callable[[], float], rate: float, steps: int, rng: np.random.Generator, trials: int
) -> Scores:
    """Runs with Poisson batches in which the record moves each release that far."""
    return runs.poisson(rng, trials, shift=shift(), rate=rate, steps=steps)


def short(noise: float, steps: int) -> list[Release]:
    """Steps at the code's sampling rate."""
    return [Release(SampledGaussian(noise, claims.CODE_RATE), steps)]


ALONE = (
    "the record is alone in its data set, or the set is empty: the fakes of other records, whose "
    "latent codes the attacker does not know, would hide it better"
)
SATURATED = "at every step the record's gradient is clipped as it is at the first one"
AGAIN = (
    "at every step its label moves the fake part as far as where the discriminator calls the fakes "
    "real, at the least of 20 draws of the latent code"
)
CHARGED = SampledGaussian(claims.CODE_NOISE, claims.CODE_RATE)
REPAIRED_RATE = REPAIRED.expected_batch_size / PUBLIC_SIZE
ALONG = (
    "Knowing all other records, score every release along the record's gradient by its likelihood "
    "ratio; how far the record moves a release is measured on the kit's step."
)

FIRST = {
    "batch": SETTINGS.expected_batch_size,
    "record": "black and white, label 9; the others have labels 0 to 8",
}
LONG = {"batch": OTHERS + 1, "record": "black and white, white where that lowers the logit"}


def common(settings: DpCganSettings, rate: float, steps: int) -> dict[str, Any]:
    """The settings that all targets store."""
    return {
        "noise_multiplier": settings.noise_multiplier,
        "max_grad_norm": settings.max_grad_norm,
        "rate": rate,
        "steps": steps,
        "label": LABEL,
        "weights_seed": WEIGHTS_SEED,
        "records_seed": RECORDS_SEED,
    }


TARGETS: tuple[Target, ...] = (
    Target(
        id="dp_cgan/published",
        says="The published run, whose generator is updated with the private batch's labels.",
        where="text: section 4 (post-processing), section 5, Table 1 (epsilon 9.6); code: the "
        "generator's step",
        claimed=SETTINGS.target_epsilon,
        charged=claims.epsilon(CHARGED, claims.charged_steps()),
        proven=lambda: price(claims.main_run().published),
        attack="For a label that nobody else has, see whether the generator's weights of that "
        "label change in the first step.",
        scores=partial(label_scores, SETTINGS),
        trials=20,
        bound=bounds.distinguished,
        assumes=(
            "the record is in the first batch, as in one epoch at the latest; before it nothing "
            "moves the weights of a label that no batch holds",
        ),
        settings=common(SETTINGS, claims.CODE_RATE, 1) | FIRST,
        scale="paper",
    ),
    Target(
        id="dp_cgan/per-tensor-clipping",
        says="One epoch of 100 steps in which four tensors are clipped apart and charged as one, "
        "with the Poisson batches and the noise that are charged for.",
        where="code: sanitising each gradient tensor; text: Algorithm 1, lines 9-12",
        charged=claims.epsilon(CHARGED, EPOCH),
        proven=lambda: price(short(claims.REAL_PART, EPOCH)),
        attack=ALONG,
        scores=partial(run_scores, partial(real_shift, SETTINGS), claims.CODE_RATE, EPOCH),
        trials=1_000_000,
        assumes=(KNOWN, SATURATED),
        settings=common(SETTINGS, claims.CODE_RATE, EPOCH) | LONG,
    ),
    Target(
        id="dp_cgan/label-leak",
        says="Four epochs of 100 steps in which a record whose real gradient vanishes is still "
        "seen by the fake example of its label, which is clipped but not noised.",
        where="code: fake gradients from the private batch's labels; text: Algorithm 1, lines "
        "13-16",
        charged=claims.epsilon(CHARGED, 4 * EPOCH),
        proven=lambda: price(short(claims.BOTH_PARTS, 4 * EPOCH)),
        attack="Score every update of the discriminator along the direction in which a fake "
        "example of the record's label moves it; how far is measured on the kit's step.",
        scores=partial(run_scores, partial(fake_shift, SETTINGS), claims.CODE_RATE, 4 * EPOCH),
        trials=500_000,
        assumes=(ALONE, AGAIN),
        settings={
            **common(SETTINGS, claims.CODE_RATE, 4 * EPOCH),
            "batch": OTHERS + 1,
            "record": "black and white, white where that raises the logit",
            "latents": LATENTS,
            "raised": RAISED,
        },
    ),
    Target(
        id="dp_cgan/repaired",
        version="repaired",
        says="The repaired run: clipped jointly, public labels, Poisson batches, its own noise.",
        where="dpkit/papers/dp_cgan/settings.py: REPAIRED",
        claimed=REPAIRED.target_epsilon,
        proven=lambda: price(claims.main_run().repaired),
        attack=ALONG,
        scores=partial(
            run_scores, partial(real_shift, REPAIRED), REPAIRED_RATE, REPAIRED.max_steps
        ),
        trials=100_000,
        assumes=(KNOWN, SATURATED),
        settings=common(REPAIRED, REPAIRED_RATE, REPAIRED.max_steps) | LONG,
        scale="paper",
    ),
    Target(
        id="dp_cgan/generator-labels-repaired",
        version="repaired",
        says="The generator's update in the repaired run, with labels drawn uniformly.",
        where="dpkit/papers/dp_cgan/settings.py: REPAIRED",
        claimed=REPAIRED.target_epsilon,
        proven=lambda: price(claims.main_run().repaired),
        attack="As on the published run: see whether the generator's weights of a label that "
        "nobody else has change in the first step.",
        scores=partial(label_scores, REPAIRED),
        trials=20,
        bound=bounds.distinguished,
        settings=common(REPAIRED, REPAIRED_RATE, 1) | FIRST,
    ),
)

"""Attacks on the paper's runs over shuffled batches, on the prior work of its section 3.1, and on
the repaired run.

A record left out in place, as if its gradient were 0, is a replaced one; with Poisson batches it
costs as much as under add-remove. So its measured epsilon may be compared both with the proof under
replace-one and with the charge of the paper's accountant.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import betainc

from dpkit.audit import runs
from dpkit.audit.bounds import CHOOSING, INDEPENDENT
from dpkit.audit.scores import LowerBound, Scores, check_asked
from dpkit.audit.thresholds import count, quantile, separate, split
from dpkit.audit.training import white_box
from dpkit.common import checks
from dpkit.papers.small_images import algorithm
from dpkit.papers.small_images.claims import BEAULIEU, PAPER, SCRIPT, epsilon, main_run, spent
from dpkit.papers.small_images.prior_work import DIGIT_COUNTS, BeaulieuJones, Xie
from dpkit.papers.small_images.settings import (
    EPOCHS,
    FIGURE_2,
    PUBLIC_SIZE,
    REPAIRED,
    SETTINGS,
    SmallImagesSettings,
)
from dpkit.papers.targets.target import ALONG, DELTA, KNOWN, MEASURED, Target, price
from dpkit.privacy import Adjacency, Floats, rdp

THRESHOLDS = 200  # to try


@dataclass(frozen=True)
class Repeated:
    """Bound epsilon of `times` independent, equal parts by their number above a threshold.

    Limits of one part's error rates, from scores of single parts, are limits of the binomial
    numbers of a whole run's parts: P(at least k of n) grows with the probability of one. So what is
    shown is not limited by the number of whole runs that were drawn, as with a run's own scores. A
    threshold and k are chosen on other scores.

    Args:
        times: parts of a run, >= 1.

    Raises:
        ValueError: times is not an integer >= 1; in the call, as `audit.bounds.clopper_pearson`.
    """

    times: int

    def __post_init__(self) -> None:
        checks.whole(1, times=self.times)

    def __call__(
        self,
        absent: ArrayLike,
        present: ArrayLike,
        *,
        delta: float,
        adjacency: Adjacency,
        confidence: float = 0.95,
        rng: np.random.Generator,
    ) -> LowerBound:
        """Bound epsilon of a run from the scores of single parts, (trials,) in each world."""
        delta, confidence = check_asked(delta, confidence, adjacency)
        if min(len(np.atleast_1d(world)) for world in (absent, present)) < 2:  # pyright: ignore
            raise ValueError("absent and present must hold at least 2 scores each, got fewer")
        first, rest = split(absent, present, share=CHOOSING, rng=rng)
        tried = np.quantile(
            np.concatenate(first), np.linspace(0, 1, THRESHOLDS), method="nearest"
        )
        values = self.shown(first, tried, delta=delta, confidence=confidence)
        best, needed = np.unravel_index(values.argmax(), values.shape)
        found = self.shown(rest, tried[[best]], delta=delta, confidence=confidence)[0, needed]
        return LowerBound(
            float(found) if found > 0 else 0.0,
            delta,
            confidence,
            adjacency,
            f"Clopper-Pearson limits of one part's error rates, and the number of {self.times} "
            "parts above a threshold chosen on other scores",
            (INDEPENDENT, f"a run is {self.times} such parts, independent of each other"),
            rest.absent.size + rest.present.size,
        )

    def shown(
        self, scores: Scores, thresholds: Floats, *, delta: float, confidence: float
    ) -> Floats:
        """log((P - delta) / Q) of "k parts or more above the threshold", (thresholds, times).

        P and Q are the limits of its probability with and without the record.
        """
        z = quantile((1 - confidence) / 2)
        fpr, fnr = separate(count(scores, thresholds), z)
        k = np.arange(1, self.times + 1)
        least = betainc(k, self.times - k + 1, 1 - fnr)
        most = betainc(k, self.times - k + 1, fpr)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(least - delta, 0) / most)


# Whole ones of a pass: 468
BATCHES = PUBLIC_SIZE // SETTINGS.expected_batch_size
WEIGHTS_SEED, IMAGES_SEED = 1, 5
# Records beside the one, and the critic's width, to measure a step
OTHERS, CAPACITY = 3, 8


@cache
def shift(settings: SmallImagesSettings) -> float:
    """A white image's shift of a step's noised sum, in deviations of the noise."""
    settings = replace(settings, capacity=CAPACITY)
    new = algorithm.new_gan(settings, seed=WEIGHTS_SEED, device=torch.device("cpu"))
    rng = torch.Generator().manual_seed(IMAGES_SEED)
    others = 2 * torch.rand(OTHERS, 1, settings.side, settings.side, generator=rng) - 1
    images = torch.cat((others, torch.ones(1, 1, settings.side, settings.side)))
    labels = torch.zeros(OTHERS + 1, dtype=torch.int64)
    worlds = (white_box.Batch(others, labels[:OTHERS]), white_box.Batch(images, labels))
    make, step = partial(deepcopy, new), algorithm.step
    return white_box.shift(
        *(white_box.once(step, make, world, settings=settings) for world in worlds)
    )


def clipped_mean_shift(run: BeaulieuJones) -> float:
    """A long gradient's shift of the clipped mean, in deviations of the added noise.

    The batch's other gradients are C long and lie opposite; a batch of one has such a one instead.
    """
    norm, batch = run.max_grad_norm, run.batch_size
    means = (-norm, (3 * batch - (batch - 1)) * norm / batch)
    absent, present = (run.rule.clip([np.array([mean])])[0].item() for mean in means)
    return (present - absent) / run.noise_std


SATURATED = "at every step the record's gradient is as long as C or longer"
IMAGE: dict[str, Any] = {
    "record": "a white image",
    "measured_on": {"others": OTHERS, "capacity": CAPACITY},
    "weights_seed": WEIGHTS_SEED,
    "images_seed": IMAGES_SEED,
}
MAIN = "text: section 3.2; code: train.py (a shuffled loader, and a Poisson accountant)"


def passes_seen(noise: float, epochs: int, rng: np.random.Generator, trials: int) -> Scores:
    """Whole passes of a run of Figure 2, a record left out in place."""
    moved = shift(FIGURE_2[noise])
    return runs.left_out(rng, trials, shift=moved, batches=BATCHES, epochs=epochs)


def shuffled(name: str, says: str, noise: float, epochs: int, trials: int) -> Target:
    """Whole passes of a run of Figure 2; the paper prints no epsilon, its code charges one."""
    run = FIGURE_2[noise]
    return Target(
        id=f"{PAPER}/{name}",
        says=says,
        where=MAIN,
        charged=spent(noise, epochs),
        # Whole passes, without amplification
        proven=partial(price, run.ledger(public_size=PUBLIC_SIZE, steps=epochs * BATCHES)),
        attack="Knowing all other records, score every pass along the record's gradient by its "
        f"likelihood ratio; {MEASURED}",
        scores=partial(passes_seen, noise, epochs),
        trials=trials,
        assumes=(
            KNOWN,
            SATURATED,
            "the clipped gradients of all other records are the opposite of the record's",
            "the record is replaced by one without gradient, that is, left out in place",
        ),
        adjacency="replace-one",
        settings={
            **IMAGE,
            "noise_multiplier": noise,
            "max_grad_norm": run.clipping.max_grad_norm,  # pyright: ignore
            "batch": run.expected_batch_size,
            "batches": BATCHES,
            "passes": epochs,
            "steps": epochs * BATCHES,
        },
        scale="paper" if epochs == EPOCHS else "reduced",
    )


def mean_clipped(name: str, says: str, run: BeaulieuJones, **more: Any) -> Target:
    """A run of Beaulieu-Jones et al."""
    attack: Callable[..., Scores] = (
        runs.poisson if run.noise_times_norm_squared else runs.sorted_runs
    )

    def scores(rng: np.random.Generator, trials: int) -> Scores:
        of = {"rate": run.sample_rate, "steps": run.steps}
        return attack(rng, trials, shift=clipped_mean_shift(run), **of)

    return Target(
        id=f"{PAPER}/{name}",
        says=says,
        where=BEAULIEU,
        charged=epsilon(run.claimed_ledger()),
        proven=lambda: rdp.epsilon(run.worst_case_ledger(), delta=DELTA),
        attack=f"Knowing all other records, whose mean gradient lies opposite, {ALONG}.",
        scores=scores,
        assumes=(
            KNOWN,
            "the record's gradient turns the mean of every batch that holds it",
            "a batch without it has the opposite mean, at least C long",
        ),
        settings={
            "noise_multiplier": run.noise_multiplier,
            "max_grad_norm": run.max_grad_norm,
            "noise_times_norm_squared": run.noise_times_norm_squared,
            "batch": run.batch_size,
            "rate": run.sample_rate,
            "steps": run.steps,
            "record": "a gradient of three times the batch times C",
        },
        **more,
    )


def xie(name: str, says: str, *, size: int, iterations: int, trials: int) -> Target:
    """The line of Xie et al.'s test script at noise 15, for some generator iterations."""
    run = Xie(15)
    ledger = run.ledger(size=size, iterations=iterations)
    rate, steps = run.batch_size / size, ledger[0].count

    def scores(rng: np.random.Generator, trials: int) -> Scores:
        moved = run.gradient_bound / run.noise_std
        return runs.poisson(rng, trials, shift=moved, rate=rate, steps=steps)

    return Target(
        id=f"{PAPER}/{name}",
        says=says,
        where=SCRIPT,
        claimed=run.published_epsilon(),
        proven=partial(price, ledger),
        attack=f"Knowing all other records, {ALONG}.",
        scores=scores,
        trials=trials,
        assumes=(
            KNOWN,
            "the record's gradient is as long as the stated bound c_g in every batch",
        ),
        settings={
            "noise_std": run.noise_std,
            "gradient_bound": run.gradient_bound,
            "batch": run.batch_size,
            "rate": rate,
            "steps": steps,
            "records": size,
            "record": "a gradient of length c_g",
        },
    )


BATCH_OF_100 = BeaulieuJones(batch_size=100, epochs=1)
SQUARED = BeaulieuJones(epochs=1, noise_times_norm_squared=True)

TARGETS = (
    replace(
        shuffled(
            "published",
            "The run that all figures share, noise 0.5: its 40 whole passes over shuffled batches.",
            0.5,
            EPOCHS,
            200_000,
        ),
        proven=lambda: price(main_run().published),
        attack="Knowing all other records, count the passes whose likelihood ratio is above a "
        "threshold; single passes are drawn, and 40 of them counted by the binomial distribution.",
        scores=partial(passes_seen, 0.5, 1),
        bound=Repeated(EPOCHS),
    ),
    shuffled(
        "shuffled-three-passes",
        "The first three passes of the run that all figures share, charged as Poisson batches.",
        0.5,
        3,
        400_000,
    ),
    shuffled(
        "shuffled-noise-1.0",
        "Figure 2's run at noise 1.0: its 40 whole passes over shuffled batches, charged as "
        "Poisson batches.",
        1.0,
        EPOCHS,
        20_000,
    ),
    Target(
        id=f"{PAPER}/repaired",
        version="repaired",
        says="The repaired run: Poisson batches, and the noise that epsilon 10 then needs.",
        where="dpkit/papers/small_images/settings.py: REPAIRED",
        claimed=REPAIRED.target_epsilon,
        proven=lambda: price(main_run().repaired),
        attack="Knowing all other records, score every release along the record's gradient; "
        f"{MEASURED}",
        scores=lambda rng, trials: runs.sorted_runs(
            rng,
            trials,
            shift=shift(REPAIRED),
            rate=REPAIRED.expected_batch_size / PUBLIC_SIZE,
            steps=REPAIRED.max_steps,
        ),
        trials=500_000,
        assumes=(KNOWN, SATURATED),
        settings={
            **IMAGE,
            "noise_multiplier": REPAIRED.noise_multiplier,
            "batch": REPAIRED.expected_batch_size,
            "rate": REPAIRED.expected_batch_size / PUBLIC_SIZE,
            "steps": REPAIRED.max_steps,
            "cells": runs.CELLS,
        },
        scale="paper",
    ),
    mean_clipped(
        "beaulieu-jones",
        "Beaulieu-Jones et al.'s 500 epochs at batches of exactly one record, each clipped.",
        BeaulieuJones(),
        trials=200_000,
        scale="paper",
    ),
    mean_clipped(
        "clip-after-mean",
        "One epoch in which the mean gradient of 100 records is clipped in place of each record's, "
        "charged as if no record moved it by more than C.",
        BATCH_OF_100,
        trials=200_000,
    ),
    mean_clipped(
        "beaulieu-jones-noise-c-squared",
        "One epoch of 6,000 steps with noise of z C^2, as before July 2018.",
        SQUARED,
        trials=10_000,
    ),
    xie(
        "xie-accountant",
        "A hundred of a run's thousands of generator iterations at noise 15; the script's line, "
        "which does not ask for their number, gives epsilon 9.6.",
        size=PUBLIC_SIZE,
        iterations=100,
        trials=400_000,
    ),
    xie(
        "xie-true-rate",
        "One generator iteration of digit 5's GAN at noise 15: its batches are of 5,421 images, "
        "not 60,000.",
        size=min(DIGIT_COUNTS),
        iterations=1,
        trials=2_000_000,
    ),
)

"""Attacks on AdaDP: on its steps as published and repaired, and on its stated lots.

Records are rows after the projection. All are alike but for one, which has a coordinate (almost) to
itself: there the history of raw gradients remembers whether the record was in a lot, whoever else
was.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpkit.audit import bounds, runs
from dpkit.audit.scores import Scores
from dpkit.audit.training import white_box
from dpkit.audit.training.white_box import StepTrace
from dpkit.common.records import describe
from dpkit.papers.adadp import algorithm, pca, recomputed
from dpkit.papers.adadp.claims import main_run
from dpkit.papers.adadp.levels import TEN_EPOCHS, at_level
from dpkit.papers.adadp.recomputed import EXAMPLE_NOISE, EXAMPLE_RATE, EXAMPLE_STEPS
from dpkit.papers.adadp.settings import ADADP, PUBLIC_SIZE, AdadpSettings, proven
from dpkit.papers.targets.target import ALIKE, CERTAIN, RATIOS, Target, price
from dpkit.privacy import Floats, NoGuarantee, Release, WithoutReplacementGaussian
from dpkit.privacy.sampling import FixedSizeBatches

# Coordinates: of all other records, the record's, and no one's
OTHER, OWN, NOBODY = 0, 1, 2
# Of a coordinate: a projected image in [0, 1] is up to 28 long
SIZE, LITTLE = 10.0, 0.002
# Coordinates, those where the record widens the noise the most
LOOKED_AT = 100
SEED = 0  # of weights
RATE = ADADP.lot / PUBLIC_SIZE
TRIALS = 12  # of an exact attack, in each world
# Test images of MNIST, and where a run of Table I stops
TESTED, ACCURACY = 10_000, 0.96
TESTS = 5  # of the accuracy, until the one that the record decides
REPAIRED = at_level("repaired", TEN_EPOCHS[0])
EXAMPLE = replace(  # of Theorem 1, in its own sampling
    ADADP, noise_multiplier=EXAMPLE_NOISE, sampling=FixedSizeBatches(ADADP.lot)
)
STOPS = "where training stops follows from the test images with certainty"


def lot(*, own: float, size: int = ADADP.lot, also: float = 0.0) -> white_box.Batch:
    """A lot of `size` rows, all alike but for the record's, which is the last.

    Its own coordinate is 0 in a lot in which another row has its place; all others have `also`.
    """
    rows = torch.zeros(size, ADADP.widths[0])
    rows[:, OTHER], rows[:, OWN] = SIZE, also
    if own:
        rows[-1, OTHER], rows[-1, OWN] = 0.0, own
    return white_box.Batch(rows, torch.zeros(size, dtype=torch.int64))


def new(settings: Any) -> Callable[[], algorithm.AdadpClassifier]:
    """Make the settings' network and noise, the same ones at every call."""
    return partial(algorithm.new_classifier, settings, seed=SEED, device=torch.device("cpu"))


def noise_in_second_step(one: StepTrace) -> float:
    """1 if the second step has noise at the record's coordinate and none at nobody's, else 0.

    Before the switch to local clipping both have noise; after it, neither without the record.
    """
    first_layer = one.releases[1][0].noisy[0]
    return float(bool(first_layer[:, OWN].any()) and not bool(first_layer[:, NOBODY].any()))


def history_shows(settings: Any, rng: np.random.Generator, trials: int) -> Scores:
    """`noise_in_second_step` of the settings' own steps, without and with the record."""
    more: Any = {"settings": settings, "of": noise_in_second_step, "indices": (0, 1)}
    seen = partial(white_box.statistics, algorithm.step, new(settings), rng=rng, **more)
    return Scores(*(seen(lot(own=own), trials=trials) for own in (0.0, SIZE)))


@cache
def widened() -> float:
    """The least factor by which a record in the first lot widens the second step's noise.

    At the coordinates of the first layer that an attacker looks at, which all records move.
    """
    seen = (
        white_box.once(algorithm.step, new(ADADP), rows, settings=ADADP, indices=(0, 1))
        for rows in (lot(own=own, also=LITTLE) for own in (0.0, SIZE))
    )
    absent, present = (one.releases[1][0].stds[0][:, OWN].numpy() for one in seen)
    return float(np.sort(present[absent > 0] / absent[absent > 0])[-LOOKED_AT])


def wider_noise(rng: np.random.Generator, trials: int) -> Scores:
    """Mean square of the second step's noise where the record widens it, over the usual."""

    def world(extra: Any) -> Floats:
        # In the first lot
        others = rng.binomial(PUBLIC_SIZE, RATE, size=trials) / ADADP.lot
        return (others + extra) ** 2 * rng.chisquare(LOOKED_AT, size=trials) / LOOKED_AT

    # Whether the record is in the first lot
    drawn = rng.random(trials) < RATE
    return Scores(world(0.0), world((widened() - 1) * drawn))


@cache
def repaired_shifts() -> tuple[float, ...]:
    """The record's shift of the repaired run's first two steps and of the PCA, in deviations.

    The second step is compared at one and the same first release.
    """
    rows, labels = lot(own=SIZE, size=8)
    more: Any = {"settings": REPAIRED, "indices": (0, 1), "seed": 1, "rows": len(rows)}
    seen = partial(white_box.once, algorithm.step, new(REPAIRED), **more)
    absent = seen((rows[:-1], labels[:-1]))
    present = seen((rows, labels), like=absent)
    steps = [white_box.shift(_step(absent, index), _step(present, index)) for index in (0, 1)]
    # Of length 1, as the PCA scales rows
    upper = np.triu(pca.second_moments(np.eye(ADADP.widths[0])[[OWN]]))
    assert REPAIRED.pca_noise is not None
    return (*steps, float(np.sqrt((upper**2).sum())) / REPAIRED.pca_noise)


def whole_repaired_run(rng: np.random.Generator, trials: int) -> Scores:
    """Likelihood ratios of the PCA and of all steps, at their measured shifts."""
    *steps, projection = repaired_shifts()
    once = runs.poisson(rng, trials, shift=projection, rate=1.0, steps=1)
    training = runs.poisson(rng, trials, shift=max(steps), rate=RATE, steps=REPAIRED.max_steps)
    return Scores(*(one + other for one, other in zip(once, training, strict=True)))


class LinearNet(algorithm.AdadpLosses):
    """A loss that is linear in the weights, so that each record's gradient is itself."""

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Args: features (batch, inputs), labels ignored. Returns (batch,)."""
        return self.net(features).squeeze(1)


def linear_classifier(settings: AdadpSettings) -> algorithm.AdadpClassifier:
    """The settings' noise and optimiser on a linear loss."""
    layer = nn.Linear(settings.widths[0], 1, bias=False)
    nn.init.zeros_(layer.weight)
    return algorithm.with_noise(LinearNet(layer, settings), settings)


@cache
def replaced_shift() -> float:
    """A replaced record's shift of the example's second step, clipped locally, in deviations.

    The two records are each other's negative, so that the history's squares are the same.
    """
    record = torch.linspace(1, SIZE, EXAMPLE.widths[0]).unsqueeze(0)
    label, made = torch.zeros(1, dtype=torch.int64), partial(linear_classifier, EXAMPLE)
    batches = (white_box.Batch(SIZE * sign * record, label) for sign in (-1, 1))
    worlds = (
        white_box.once(algorithm.step, made, batch, settings=EXAMPLE, indices=(0, 1))
        for batch in batches
    )
    return white_box.shift(*(_step(one, 1) for one in worlds))


def example_run(shift: Callable[[], float], rng: np.random.Generator, trials: int) -> Scores:
    """Likelihood ratios of Theorem 1's example: a record enters each lot with chance .01."""
    return runs.poisson(rng, trials, shift=shift(), rate=EXAMPLE_RATE, steps=EXAMPLE_STEPS)


def stopped(rng: np.random.Generator, trials: int, *, count_noise: float = 0.0) -> Scores:
    """The test at which a run stops, of test sets that differ in one image.

    The models tested before answer fewer images right, at random; the last one answers all.

    The number of right answers gets noise of deviation `count_noise`; 0 as published.
    """
    right = int(np.ceil(ACCURACY * TESTED))

    def world(decided: int) -> Floats:
        early = rng.integers(0, right // 2, size=(trials, TESTS))
        late = np.tile([decided, TESTED], (trials, 1))
        counts = np.concatenate([early, late], axis=1)
        noisy = counts + count_noise * rng.standard_normal(counts.shape)
        # Higher: it stopped earlier
        return -np.argmax(noisy >= right, axis=1).astype(float)

    return Scores(world(right - 1), world(right))


def _step(one: StepTrace, index: int) -> StepTrace:
    return one._replace(releases=one.releases[index : index + 1])


MAIN: dict[str, Any] = {"run": describe(ADADP), "records": PUBLIC_SIZE, "weights' seed": SEED}
EXAMPLE_SETTINGS = {
    "noise multiplier": EXAMPLE_NOISE,
    "rate": EXAMPLE_RATE,
    "steps": EXAMPLE_STEPS,
}

TARGETS = (
    Target(
        id="adadp/published",
        says="The main run on MNIST: clipping and noise follow the history of raw gradients.",
        where="text: sections IV-A and IV-C; Theorem 1 for 1,000 steps",
        proven=partial(price, lambda: main_run().published),
        claimed=ADADP.target_epsilon,
        charged=ADADP.charged(public_size=PUBLIC_SIZE, steps=ADADP.max_steps),
        attack="The attacker looks whether the second step has noise at a coordinate that no other "
        "record moves, and none where nobody does: that happens only if the record was in a lot.",
        scores=partial(history_shows, ADADP),
        trials=TRIALS,
        bound=bounds.distinguished,
        assumes=(
            "the record is in the first two lots, which happens with chance (600/60,000)^2 "
            + CERTAIN,
            "rows are as given after the projection",
        ),
        settings=MAIN,
        scale="paper",
    ),
    Target(
        id="adadp/repaired",
        version="repaired",
        says="The kit's repaired main run: the history is of what was released.",
        where="kit: dpkit/papers/adadp/levels.py",
        proven=partial(price, lambda: main_run().repaired),
        claimed=ADADP.target_epsilon,
        attack="The attacker knows all other records and adds up the log likelihood ratios of the "
        "projection and of all 1,000 noised sums, at the shifts that the kit's own steps have.",
        scores=whole_repaired_run,
        trials=100_000,
        assumes=("the record's clipped gradient has the same scaled length in every step",),
        settings={"run": describe(REPAIRED), "records": PUBLIC_SIZE, "weights' seed": SEED},
        scale="paper",
    ),
    Target(
        id="adadp/wider-noise",
        says="The first two steps of the main run, at coordinates that all records move.",
        where="text: Algorithm 1, lines 9, 12 and 23; Theorem 1 for two steps",
        proven=partial(price, lambda: ADADP.ledger(public_size=PUBLIC_SIZE, steps=2)),
        claimed=ADADP.target_epsilon,
        charged=ADADP.charged(public_size=PUBLIC_SIZE, steps=2),
        attack="The attacker subtracts what others add to the second step and takes the mean "
        "square of the rest: noise is wider if the record was in the first lot.",
        scores=wider_noise,
        trials=200_000,
        assumes=(
            "the noise of a coordinate is as wide as the gradients of a lot add up to",
            "what a lot adds to the second sum, beyond its mean, is left out: some hundredth of a "
            "deviation of the noise",
            "rows are as given after the projection",
        ),
        settings={**MAIN, "record": SIZE, "others": LITTLE, "coordinates": LOOKED_AT},
        scale="paper",
    ),
    Target(
        id="adadp/local-clipping",
        says="Theorem 1's example with a coordinate's bound s_i taken as its sensitivity.",
        where="text: eq. 5 and section III-B; after the proof of Theorem 1 (eq. 7 gives 6.92)",
        proven=lambda: proven(
            [
                Release(
                    WithoutReplacementGaussian(EXAMPLE_NOISE / 2, EXAMPLE_RATE), EXAMPLE_STEPS
                )
            ],
            delta=recomputed.DELTA,
        ),
        claimed=4.0,
        charged=recomputed.example_epsilon().epsilon,
        attack="The attacker knows all other records, and that the record is one of two whose "
        "gradients are opposite, and adds up the log likelihood ratios of all noised sums.",
        scores=partial(example_run, replaced_shift),
        trials=100_000,
        assumes=(
            "clipping bounds are fixed beforehand, as Lemma 1 takes them",
            "all other records are like the one that is replaced, so that it does not matter who "
            "is in a lot",
        ),
        adjacency="replace-one",
        settings=EXAMPLE_SETTINGS,
        scale="paper",
    ),
    Target(
        id="adadp/theorem-1-example",
        says="Theorem 1's example in the sampling of Algorithm 1, with a record added or removed.",
        where="text: after the proof of Theorem 1 (eq. 7 gives 6.92); Algorithm 1, line 3",
        proven=partial(price, lambda: recomputed.EXAMPLE),
        claimed=4.0,
        charged=recomputed.example_epsilon().epsilon,
        attack=f"{RATIOS} noised sums.",
        scores=partial(example_run, lambda: 1 / EXAMPLE_NOISE),
        trials=50_000,
        assumes=(ALIKE,),
        settings=EXAMPLE_SETTINGS,
        scale="paper",
    ),
    Target(
        id="adadp/stopped-on-test-accuracy",
        says="When a run of Table I stops at an accuracy of 0.96 on 10,000 test images.",
        where="text: Table I; section IV-F",
        proven=partial(
            price,
            lambda: [Release(NoGuarantee(STOPS, "replace-one"))],
            recomputed.TABLE_1_DELTA,
        ),
        delta=recomputed.TABLE_1_DELTA,
        attack="The attacker reads from the step at which training stopped whether 9,600 or 9,599 "
        "images were answered right.",
        scores=stopped,
        trials=TRIALS,
        bound=bounds.distinguished,
        assumes=(
            "the test images are private too; the epsilon of Table I is for the training images",
            "a model answers 9,599 of the other images right, and none before it so many",
        ),
        adjacency="replace-one",
        settings={"tested": TESTED, "accuracy": ACCURACY, "tests before": TESTS},
        scale="paper",
    ),
)

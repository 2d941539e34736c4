"""Attacks on RDP-GAN: on its own steps as published and repaired, and on its noisy loss values.

The exact ones set up a worst case, which a guarantee has to cover: a generator whose last layer is
0 draws grey images, and private images are alike but for the record's, which has a pixel of its
own. The weights that leave this pixel are moved by the record alone, whoever else is in a batch.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn

from dpkit.audit import bounds, runs
from dpkit.audit.scores import Scores
from dpkit.audit.training import white_box
from dpkit.audit.training.white_box import StepTrace
from dpkit.common.records import describe
from dpkit.papers.rdp_gan import algorithm, recomputed
from dpkit.papers.rdp_gan.claims import TEXT_TOTAL, main_run
from dpkit.papers.rdp_gan.recomputed import ADULT, RELEASES, TOTAL
from dpkit.papers.rdp_gan.repaired import repaired
from dpkit.papers.rdp_gan.settings import (
    GENERATOR_STEPS,
    MULTIPLICATIVE,
    OUTPUT_ERROR,
    SETTINGS,
    SIGMA,
    RdpGanSettings,
    Tuning,
)
from dpkit.papers.targets.target import ALIKE, CERTAIN, RATIOS, Target, price
from dpkit.privacy import Floats, NoGuarantee, Release
from dpkit.training.types import Gan

PUBLIC_SIZE = 60_000  # of MNIST's training set
REPAIRED = repaired("digits", target_epsilon=TOTAL, public_size=PUBLIC_SIZE)
FIRST = "discriminator.body.0.weight"  # (units, pixels + classes), as a trace names it
OTHER, OWN = 0, 1  # the pixel of all other records, and the record's
SEED = 0  # of the weights
TRIALS = 20  # of an exact attack, in each world
TUNING = Tuning(factor=0.7, threshold=0.5)  # k and tau of Algorithm 2
IN_FIRST = f"the record is in the first batch, which happens with chance 64/60,000 {CERTAIN}"
FREE = "which noise comes next follows from the test records with certainty"
WORST = "the claim is meant for any initial weights: here the generator's last layer is 0"


def worst_case(settings: RdpGanSettings) -> Gan:
    """Networks whose generator draws grey: its pixels move no weight that leaves them."""
    gan = algorithm.new_gan(settings, seed=SEED, device=torch.device("cpu"))
    last = [m for m in gan.generator_net.modules() if isinstance(m, nn.Linear)][-1]
    for weights in (last.weight, last.bias):
        nn.init.zeros_(weights)
    return gan


def batches(settings: RdpGanSettings) -> tuple[white_box.Batch, white_box.Batch]:
    """A batch of the settings' size without the record, and one with it in another's place."""
    size = settings.expected_batch_size
    without = torch.zeros(size, settings.features)
    without[:, OTHER] = 1 / size  # so that they all together weigh as much as the record
    with_it = without.clone()
    with_it[-1, OTHER], with_it[-1, OWN] = 0.0, 1.0
    labels = torch.zeros(size, dtype=torch.int64)
    return white_box.Batch(without, labels), white_box.Batch(with_it, labels)


def of_step(
    settings: RdpGanSettings,
    of: Callable[[StepTrace], float],
    rng: np.random.Generator,
    trials: int,
) -> Scores:
    """A statistic of the settings' own first step, without and with the record."""
    step, new = algorithm.step_of(settings), partial(worst_case, settings)
    more: Any = {"settings": settings, "of": of, "rng": rng, "trials": trials}
    worlds = (white_box.statistics(step, new, one, **more) for one in batches(settings))
    return Scores(*worlds)


def own_weights_moved(one: StepTrace) -> float:
    """L2 norm of the change in the weights that leave the record's own pixel."""
    return float((one.after[FIRST] - one.before[FIRST])[:, OWN].norm())


def own_weights_reached(one: StepTrace) -> float:
    """1 if the gradient of those weights is not 0, else 0."""
    return float(bool(one.after[f"{FIRST}.grad"][:, OWN].any()))


def direction(settings: RdpGanSettings, rng: np.random.Generator, trials: int) -> Scores:
    """Absolute cosine between the first layer's released gradient and the one without noise.

    With the record, but for the weights that leave the labels: generated labels move those.
    """
    plain = replace(settings, noise=SETTINGS.noise)  # on the loss's value: no gradient sees it
    new, batch = partial(worst_case, plain), batches(plain)[1]
    seen = white_box.once(algorithm.loss_value_step, new, batch, settings=plain)
    true = seen.after[f"{FIRST}.grad"].double()[:, : settings.features]

    def cosine(one: StepTrace) -> float:
        own = one.after[f"{FIRST}.grad"].double()[:, : settings.features]
        return float((true * own).sum().abs() / true.norm() / own.norm())

    return of_step(settings, cosine, rng, trials)


@cache
def repaired_shift() -> float:
    """A record's shift of the repaired step's sum, in deviations of its noise.

    The record's image is a corner of the domain. It is left out, as under add-remove.
    """
    labels = torch.arange(8) % REPAIRED.classes
    images = torch.full((8, REPAIRED.features), -1.0)
    images[-1, ::2] = 1.0
    new = partial(algorithm.new_gan, REPAIRED, seed=SEED, device=torch.device("cpu"))
    seen = partial(white_box.once, algorithm.repaired_step, new, settings=REPAIRED)
    worlds = (seen(white_box.Batch(images[:size], labels[:size])) for size in (7, 8))
    return white_box.shift(*worlds)


def whole_repaired_run(rng: np.random.Generator, trials: int) -> Scores:
    """Likelihood ratios of the repaired main run, at its step's measured shift."""
    (release,) = main_run().repaired
    rate = REPAIRED.expected_batch_size / PUBLIC_SIZE
    return runs.poisson(rng, trials, shift=repaired_shift(), rate=rate, steps=release.count)


def noise_after_a_test(tuning: Tuning, rng: np.random.Generator, trials: int) -> Scores:
    """The noise after the first test of 10,000 records: without the one that is answered right."""
    of = 10_000

    def world(correct: int) -> Floats:
        counts = correct + tuning.count_noise * rng.standard_normal(trials)
        return np.array([tuning.next_noise(SIGMA, [count / of]) for count in counts])

    return Scores(world(4_999), world(5_000))


def _exact(name: str, settings: RdpGanSettings, **fields: Any) -> Target:
    """An exact attack on the first step of a published reading of the noise."""
    return Target(
        id=f"rdp_gan/{name}",
        proven=partial(price, partial(settings.ledger, public_size=PUBLIC_SIZE)),
        claimed=TOTAL,
        trials=TRIALS,
        bound=bounds.distinguished,
        assumes=(IN_FIRST, WORST),
        settings={"run": describe(settings), "records": PUBLIC_SIZE, "weights' seed": SEED},
        scale="paper",
        **fields,
    )


def _values(name: str, moved: float, **fields: Any) -> Target:
    """An attack on 5,000 noisy loss values of Adult, which a record moves by `moved`."""
    rate = ADULT.setting["sample_rate"]
    return Target(
        id=f"rdp_gan/{name}",
        claimed=TOTAL,
        attack="The attacker knows all other losses, and which of two values the record's has, and "
        "adds up the log likelihood ratios of all noisy values.",
        scores=partial(runs.poisson, shift=moved / SIGMA, rate=rate, steps=RELEASES),
        assumes=(
            "one record moves the loss by C 20, the largest of Table II, in every batch that it "
            "enters",
        ),
        settings={"sigma": SIGMA, "moved": moved, "rate": rate, "values": RELEASES},
        scale="paper",
        **fields,
    )


TARGETS = (
    _exact(
        "published",
        SETTINGS,
        says="The main run on MNIST, with noise 10 on the value of the discriminator's loss.",
        where="text: sections V-A3 and V-E; Theorems 1 to 4 at order 2 (C 25, batch 64, n_d 5)",
        charged=TEXT_TOTAL["MNIST"],
        attack="The attacker looks at the weights that leave one pixel, which no other image has, "
        "after the first step: noise on the loss's value is a constant and leaves them alone.",
        scores=partial(of_step, SETTINGS, own_weights_moved),
    ),
    Target(
        id="rdp_gan/repaired",
        version="repaired",
        says="The kit's repaired main run: noise on clipped gradients, at the same total.",
        where="kit: dpkit/papers/rdp_gan/repaired.py",
        proven=partial(price, lambda: main_run().repaired),
        claimed=TOTAL,
        attack=f"{RATIOS} 5,000 noised sums, at the shift that the kit's own step is seen to have.",
        scores=whole_repaired_run,
        trials=50_000,
        assumes=(ALIKE,),
        settings={"run": describe(REPAIRED), "records": PUBLIC_SIZE, "weights' seed": SEED},
        scale="paper",
    ),
    _exact(
        "multiplicative-noise",
        MULTIPLICATIVE,
        says="The discriminator's step of the code's later form: the loss times a random number.",
        where="code: a later version of the discriminator's loss; text: section V-A3 for the total",
        attack="The attacker compares the direction of the first layer's gradient with the one "
        "that the record would give: only its length and sign are random.",
        scores=partial(direction, MULTIPLICATIVE),
    ),
    _exact(
        "output-error-noise",
        OUTPUT_ERROR,
        says="The discriminator's step by eq. 9 read literally: noise on each output's error.",
        where="text: eqs. 9 and 10; section V-A3 for the total",
        attack="The attacker looks whether the gradient of the weights that leave one pixel is 0: "
        "it is multiplied by noise if the record is there, and exactly 0 if not.",
        scores=partial(of_step, OUTPUT_ERROR, own_weights_reached),
    ),
    Target(
        id="rdp_gan/noise-tuned-on-test-data",
        says="Algorithm 2's noise scale after its first test, on 10,000 validation records.",
        where="text: Algorithm 2, line 15; eqs. 17 and 18; sections V-A3 and V-E",
        proven=partial(price, lambda: [Release(NoGuarantee(FREE, "replace-one"))]),
        attack="The attacker reads from the noise scale whether 5,000 or 4,999 records were "
        "answered right.",
        scores=partial(noise_after_a_test, TUNING),
        trials=TRIALS,
        bound=bounds.distinguished,
        assumes=(
            "the validation records are private too; the epsilon is stated for the training data",
            "the classifier answers 4,999 of the other records right at the first test",
        ),
        adjacency="replace-one",
        settings={"tuning": describe(TUNING), "sigma": SIGMA, "tested": 10_000},
        scale="paper",
    ),
    _values(
        "summed-loss-values",
        ADULT.largest_loss,
        says="Noisy loss values of 1,000 iterations on Adult, with noise 10 on a batch's sum.",
        where="text: eq. 8 and Algorithm 1, line 9, against eq. 13; section V-E",
        proven=partial(recomputed.bounds_on_sums, GENERATOR_STEPS),
        trials=50_000,
    ),
    _values(
        "mean-loss-values",
        ADULT.sensitivity,
        says="Noisy loss values of 1,000 iterations on Adult, with noise 10 on a batch's mean.",
        where="text: eq. 13; sections V-A3 and V-E",
        charged=TEXT_TOTAL["Adult"],
        proven=partial(recomputed.bounds_on_adult, GENERATOR_STEPS),
        trials=50_000,
    ),
)

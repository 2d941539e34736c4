"""Attacks on the drawing of batches, where accountant and training differ.

The charge is the price of Poisson batches under the attacked adjacency. Each attack is set on the
worst case of the other way of drawing.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri_exp

from dpkit.audit import bounds, runs
from dpkit.audit.scores import Scores, check_rng
from dpkit.common import checks
from dpkit.papers.targets.target import ALIKE, RATIOS, Target, price
from dpkit.privacy import Gaussian, Release, SampledGaussian, WithoutReplacementGaussian
from dpkit.privacy.ledger import Guarantee, Releases
from dpkit.privacy.mechanisms import Adjacency, Floats
from dpkit.privacy.mechanisms.base import NoGuarantee
from dpkit.privacy.sampling import ShuffledBatches

COUNTS = (100, 100)  # of the other records' labels
# Where the divisor follows from the number of records
RECORDS, BATCH, WEIGHTS = 640, 64, 10_000
DRAWN = 100  # records, and steps, where each step draws one record
OPPOSITE = "the record's clipped gradient is opposite to all others'"


def largest_batch(
    rng: np.random.Generator,
    trials: int,
    *,
    noise_multiplier: float,
    batches: int,
    moved: tuple[float, float] = (1.0, 2.0),
) -> Scores:
    """The largest noised sum of one shuffled epoch, in deviations of the noise.

    The record's clipped gradient is C, all others' -C. Beside -C times its size, the batch with the
    record's place sums to 2C; to C where the place is empty (zero-out; Chua et al. 2024), and to 0
    where a record like all others has it (replace-one).

    Args:
        rng, trials: draws the noise of as many epochs in each world.
        noise_multiplier: noise over C.
        batches: in the epoch, >= 2.
        moved: those sums without and with the record, in C.

    Raises:
        ValueError: a number is out of range.
    """
    check_rng(rng)
    trials, batches = checks.whole(1, trials=trials), checks.whole(2, batches=batches)
    noise = checks.positive(noise_multiplier=noise_multiplier)

    def world(sum_over_c: float) -> Floats:
        # the largest of n normals is at most x with chance Phi(x)^n
        others = ndtri_exp(-rng.exponential(size=trials) / (batches - 1))
        return np.maximum(others, sum_over_c / noise + rng.standard_normal(trials))

    without, with_it = moved
    return Scores(world(without), world(with_it))


def between_classes(
    rng: np.random.Generator, trials: int, *, noise_multiplier: float
) -> Scores:
    """Log likelihood ratios of two models, each one release of all records of its class.

    In the first world the record is in one class, in the second in the other; its clipped gradient
    has the length C in either.
    """
    shift = 1 / checks.positive(noise_multiplier=noise_multiplier)
    left, entered = (
        runs.poisson(rng, trials, shift=shift, rate=1.0, steps=1) for _ in range(2)
    )
    return Scores(entered.absent - left.present, entered.present - left.absent)


def own_divisor(
    rng: np.random.Generator, trials: int, *, records: int, batch: int, weights: int
) -> Scores:
    """Minus the mean square of one noised gradient of `weights`, all records' own being 0.

    Its divisor is the batch's expected size for as many records as there are, one fewer without the
    record, rounded down (Opacus to 1.6): records times 1 / (batches an epoch).
    """
    check_rng(rng)

    def world(count: int) -> Floats:
        divisor = count // -(-count // batch)
        return -rng.chisquare(weights, size=trials) / weights / divisor**2

    return Scores(world(records - 1), world(records))


def class_count(
    rng: np.random.Generator, trials: int, *, others: Sequence[int], noise: float = 0.0
) -> Scores:
    """The noised number of records in the record's class, the last, from a histogram.

    `others` are the records of each class, the record itself left out; `noise` is the deviation of
    the noise on a count, 0 where it is taken for public.
    """

    def count(labels: ArrayLike) -> float:
        histogram = np.bincount(rng.permutation(labels), minlength=len(others))
        return histogram[-1] + noise * rng.standard_normal()

    labels = np.repeat(np.arange(len(others)), others)
    worlds = (labels, np.append(labels, len(others) - 1))
    return Scores(*(np.array([count(world) for _ in range(trials)]) for world in worlds))


def _poisson(
    noise_multiplier: float, rate: float, steps: int, adjacency: Adjacency = "add-remove"
) -> list[Release]:
    return [Release(SampledGaussian(noise_multiplier, rate, adjacency), steps)]


def _none(reason: str) -> Guarantee:
    return price([Release(NoGuarantee(reason))])


def _target(name: str, charged: Releases | None, **fields: Any) -> Target:
    """A target whose charge is a ledger's price, or 0 where the accountant does not see it."""
    cost = 0.0 if charged is None else price(charged).epsilon
    return Target(id=f"sampling/{name}", charged=cost, **fields)


def _shuffled(name: str, noise_multiplier: float, batches: int, **fields: Any) -> Target:
    """One shuffled epoch; where nothing else is said, a record is left out in place."""
    given = {"noise_multiplier": noise_multiplier, "batches": batches}
    moved = fields.pop("moved", (1.0, 2.0))
    adjacency: Adjacency = fields.get("adjacency", "add-remove")
    common = {
        "says": f"One shuffled epoch of {batches:,} batches at noise {noise_multiplier:g}.",
        "where": "Chua et al. 2024, How private are DP-SGD implementations? (ICML): common "
        "practice",
        "proven": lambda: price([Release(Gaussian(noise_multiplier))]),
        "attack": "The attacker takes the largest of all noised sums: the record's batch stands "
        "out more if the record is there.",
        "scores": partial(largest_batch, **given, moved=moved),
        "trials": 1_000_000,
        "assumes": (
            "a record that is left out leaves its place in the order empty (zero-out)",
            OPPOSITE,
        ),
        "settings": {**given, "moved": list(moved)},
    }
    charged = _poisson(noise_multiplier, 1 / batches, batches, adjacency)
    return _target(name, charged, **(common | fields))


TARGETS = (
    _shuffled("shuffled-1000-batches", 0.6, 1_000),
    _shuffled("shuffled-10000-batches", 0.5, 10_000),
    _shuffled(
        "shuffled-replaced",
        0.6,
        1_000,
        says="One shuffled epoch of 1,000 batches at noise 0.6, a record replaced by another.",
        proven=lambda: price(
            [ShuffledBatches(1).passes(noise_multiplier=0.6, public_size=1_000, steps=1_000)]
        ),
        moved=(0.0, 2.0),
        assumes=(OPPOSITE,),
        adjacency="replace-one",
    ),
    _target(
        "poisson-batches",
        _poisson(0.6, 1 / 1_000, 1_000),
        version="repaired",
        says="1,000 batches at noise 0.6, drawn as they are charged: each record with chance "
        "1/1,000.",
        where="kit: dpkit/training/batches.py",
        proven=partial(price, _poisson(0.6, 1 / 1_000, 1_000)),
        attack=f"{RATIOS} noised sums.",
        scores=partial(runs.poisson, shift=1 / 0.6, rate=1 / 1_000, steps=1_000),
        trials=50_000,
        assumes=(ALIKE,),
        settings={"noise_multiplier": 0.6, "rate": 1 / 1_000, "steps": 1_000},
    ),
    _target(
        "one-record-a-batch",
        _poisson(1.0, 1 / DRAWN, DRAWN, "replace-one"),
        says="100 steps at noise 1 of one record each, out of 100, a record replaced by another.",
        where="Beaulieu-Jones et al. 2017 (code: greenelab/SPRINT_gan): batches of one record; the "
        "number of steps here is the kit's",
        proven=partial(
            price, [Release(WithoutReplacementGaussian(1.0 / 2, 1 / DRAWN), DRAWN)]
        ),
        attack="The attacker knows all other records, whose gradients are alike, and adds up the "
        "log likelihood ratios of all noised gradients: an opposite one moves them by 2C.",
        scores=partial(runs.poisson, shift=2.0, rate=1 / DRAWN, steps=DRAWN),
        trials=100_000,
        assumes=("each step draws its record afresh",),
        adjacency="replace-one",
        settings={"noise_multiplier": 1.0, "records": DRAWN, "steps": DRAWN},
    ),
    _target(
        "model-per-class",
        [Release(Gaussian(1.0, "replace-one"))],
        says="One release at noise 1 of each of two classes' models, a record replaced by one of "
        "the other class.",
        where="Xie et al. 2018 (code: illidanlab/dpgan) and RDP-GAN's code: a GAN for each digit, "
        "charged as parallel parts; the releases here are the kit's",
        proven=lambda: price([Release(Gaussian(1.0, "replace-one"))]),
        attack="The attacker knows all other records and adds up the log likelihood ratios of both "
        "models: the record leaves the one and enters the other.",
        scores=partial(between_classes, noise_multiplier=1.0),
        trials=3_000_000,
        assumes=("the record's clipped gradient has the length C in both models",),
        adjacency="replace-one",
        settings={"noise_multiplier": 1.0, "classes": 2, "steps": 1},
    ),
    _target(
        "divided-by-own-size",
        _poisson(4.0, 1 / 10, 1),
        says="One noised gradient of 10,000 weights over a batch size that follows from the number "
        "of records, 640 or 639.",
        where="Opacus to 1.6, PrivacyEngine.make_private (issues 571 and 819 of "
        "meta-pytorch/opacus)",
        proven=partial(_none, "how wide the noise is follows from the number of records"),
        attack="The attacker takes the mean square of the gradient, which is noise alone: divided "
        "by 64 it is less than by 63.",
        scores=partial(own_divisor, records=RECORDS, batch=BATCH, weights=WEIGHTS),
        trials=100_000,
        assumes=("all records' gradients are 0 at the weights that are attacked",),
        settings={
            "noise_multiplier": 4.0,
            "records": RECORDS,
            "batch": BATCH,
            "weights": WEIGHTS,
            "steps": 1,
        },
    ),
    _target(
        "label-histogram",
        None,
        says="The number of records of each class, released without noise.",
        where="conditional generators asked for as many records of a class as the data has, as in "
        "DP-CGAN's evaluation, where these are MNIST's and public",
        proven=partial(_none, "a histogram without noise shows each record"),
        attack="The attacker knows all other labels and reads the count.",
        scores=partial(class_count, others=COUNTS),
        trials=20,
        bound=bounds.distinguished,
        assumes=("the data set is private, and its histogram with it",),
        settings={"other records": list(COUNTS)},
    ),
)

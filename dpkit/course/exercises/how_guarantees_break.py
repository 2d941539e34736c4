"""Exercises of notebook 06: one for each way in which a guarantee breaks.

CASES are thirty claims to judge, for `cases.Cases`: what is run, without a word on its verdict.
The first fifteen need no more than what notebooks 00 to 06 teach.
"""

import re
from math import inf, log, sqrt

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import Gaussian

sheet = Sheet("06_how_guarantees_break")


@sheet.number(
    "How far does one record move the whole?",
    "0.1 times the root of 9.",
    because="One record moves the whole by 0.3, as much as the noise.",
    mistakes={
        "that is for one tensor; a record moves all nine.": lambda: 3.0,
        "lengths of orthogonal parts add as squares.": lambda: 1 / 3,
    },
)
def nine_tensors() -> float:
    """A critic has nine tensors, each clipped to C = 0.1; each number gets noise of deviation 0.3.

    Which noise multiplier do you charge?
    """
    return 0.3 / (0.1 * sqrt(9))


@sheet.number(
    "Does the penalty bear noise?",
    "Its gradient depends on real images.",
    because="None is finite: the penalty's gradient depends on real images and gets no noise. (A "
    "published case: ledger/ctab-gan-penalty-after-noise.)",
)
def penalty_after_noise() -> float:
    """A gradient penalty is added after clipping and noise. What is the epsilon?

    (It keeps the critic's slope near 1, at mixtures of a real and a generated image.)
    """
    return inf


@sheet.number(
    "from dpkit.privacy import Gaussian; then Gaussian(noise).profile([8.0]).max()",
    "The noise is sqrt(2 ln(1.25 / delta)) / 8.",
    because="Still enough, though its proof ends at epsilon 1. At epsilon 9 it gives 1.36e-5: too "
    "much.",
    mistakes={"that is what was asked for, not what the noise gives.": lambda: 1e-5},
    tolerance=0.02,
)
def recipe_at_8() -> float:
    """The classic formula for the noise, at epsilon 8 and delta 1e-5: which delta does it give?"""
    noise = sqrt(2 * log(1.25 / 1e-5)) / 8
    return float(Gaussian(noise).profile([8.0]).max())


without_replacement = sheet.choice(
    "Batches of a fixed size are drawn without replacement, each anew. May you charge Poisson's "
    "epsilon?",
    "No: adjacency is replace-one, and a record moves the sum by 2C.",
    {
        "Yes: every record is in a batch with the same probability.": "Look at the adjacency.",
        "No: adjacency is replace-one, and a record moves the sum by 2C.": (
            "With one record fewer it is another size. WithoutReplacementGaussian prices it."
        ),
        "No: such batches have no price.": "They have: WithoutReplacementGaussian.",
    },
    "Take one record away. How large is the batch?",
)

early_stop = sheet.choice(
    "Training stops when accuracy on private validation data reaches 96 %. Epsilon is that of the "
    "steps made. Right?",
    "No: the number of steps depends on records without any noise.",
    {
        "Yes: fewer steps cost less.": "The number of steps is a release itself.",
        "No: the number of steps depends on records without any noise.": (
            "adadp/selected-on-test-accuracy is of that kind."
        ),
        "Yes, if validation records are not trained on.": "They are private all the same.",
    },
    "Which lines read private records?",
)

ten_rates = sheet.choice(
    "You try ten learning rates, each at epsilon 1, and publish the best run. What do you charge?",
    "All ten runs, or a proven price of choosing.",
    {
        "Epsilon 1: only one run is published.": "Which one it is depends on the other nine.",
        "All ten runs, or a proven price of choosing.": (
            "Papernot and Steinke (2022) price a random number of runs: `epsilon --best-of`."
        ),
        "A little more than 1, for the choice.": (
            "A choice by true scores is not a little; a random number of runs costs about thrice."
        ),
    },
    "Who chose, and by looking at what?",
)


CASES_TEXT = """\
ledger/pate-gan-raw-batches: Each round a critic takes five steps on 128 records of all the
    data. Its labels, real or fake, get noise, which is charged. The generator learns from it.
ledger/dp-merf-noise-5: Each of m records, with its label, gives a vector of norm 1. Their mean
    gets noise of 10/m, once, and one Gaussian of noise 5 is charged, .73. A generator is fitted
    to that mean for free, for many epochs.
ledger/bie-epsilon-1: Poisson batches; gradients clipped one by one; noise of 5 clip norms on
    their sum. A certified accountant charges each step, .91 in all. (Take the seed as secret.)
ledger/dpdm-epsilon-0-2: The noise is searched for the target in the file, by a certified
    accountant. The file train_eps_0.2.yaml says `dp: {epsilon: 10.0}`.
small_images/shuffled-against-poisson: Each epoch shuffles the records and deals them out in
    batches, charged as the sampled Gaussian at rate batch / records; forty epochs at noise 1
    are charged 2.01.
ledger/abadi-figure-2: Every record enters a batch by a coin of its own, 10,000 times at rate
    0.01. Gradients are clipped one by one; noise of 4 clip norms is added to their sum. The
    moments accountant, an early Renyi accountant, charges 1.26.
rdp_gan/theorem-4-delta: 1,000 releases, each with the guarantee (epsilon, 1e-5), are composed
    by adding up epsilons.
ledger/diffprivlib-regression-bound: A feature lies in lower..upper; the sum of its squares has
    sensitivity = max(abs(lower), abs(lower)) ** 2.
ledger/bie-fixed-10: The critic's steps are as in case 3, with noise of 1 clip norm. After every
    50 the generator takes one, without clipping, noise or charge. The critic's steps cost 9.97
    by Renyi DP.
dp_cgan/composition-at-least: 100 releases, each with the guarantee (epsilon, 1e-5), are
    composed by adding up both epsilons and deltas.
ledger/dp-accounting-replace-one: Noise / clip norm is 1. Neighbours differ in one record that
    is replaced; the Renyi accountant prices a shift by one clip norm.
rdp_gan/adjacent-by-replacing: Losses in 0..C get noise, which is priced for a sample against
    none at all; data sets differ in one sample that is replaced.
ledger/smartnoise-mean-sensitivity: The mean of records in [L, U] is released. How far one
    record moves it, over all pairs of data sets, is taken to be (U - L) / n, with n the number
    of records at hand. Neighbours differ in a record that is added or dropped.
ledger/dp-kernel-epsilon-of-noise: 200,000 sums of records that are drawn by a coin each are
    released, with noise of 1.95 times what one record can add. A certified accountant: .91.
ledger/gs-wgan-once-a-step: A step draws one critic of 1,000 and releases its gradients for 32
    images, each with noise .483 of its own. One sampled release a step is charged, 10 in all.
ledger/jax-prng-reuse: A gradient has a block for each tensor. Once a step a key (a seed) is
    made, and noise = [normal(key, b) for b in shapes].
rdp_gan/loss-values-at-sigma-10: All that is released are 5,000 noisy values: mean losses of
    Poisson batches of 64 of 20,000 records, each loss at most 20.
ledger/dpmm-mst-mu: The budget is turned into zero-concentrated DP (Renyi DP of order a is at
    most rho a) by a proven conversion, and that into one Gaussian's mu, sensitivity / noise.
adadp/lemma-1: Coordinate i has the sensitivity s_i and noise of deviation sigma_i, which were
    both fixed beforehand.
adadp/same-guarantee: Each coordinate gets noise of its own size, fixed beforehand. A sampled
    step is charged as one of equal noise with the same sum of s_i^2 / sigma_i^2 (s_i: how far a
    record moves coordinate i).
ledger/gs-wgan-left-over-index: 1,000 critics, each warmed up on 55 records of its own, are
    loaded from disk: one loop counts with i and reads the index that the loop before it used.
dpgan/stray-factor-4-devices: Four devices sum 64 clipped gradients each; the four sums are
    averaged, and get noise of deviation 1.0859 C / sqrt(256).
adadp/raw-history-leak: From the second step on, a coordinate's clipping bound and noise follow
    a running mean of earlier gradients, as they were before clipping.
ledger/dpmm-mst-rho: The whole budget is rho = .0306 (Renyi DP of order a is at most rho a). A
    third of it pays for single columns, a third for the choice of pairs of columns, a third for
    pairs' tables; nothing else reads records.
adadp/theorem-1-example-poisson: 1,800 lots, which each record enters by a coin at rate
    600/60,000, are charged by the sampled Gaussian's moments (Renyi DP), noise 0.9.
ledger/opacus-batch-size-from-n: The data has 1,000 records. A million weights' noisy sum is
    divided by 1,000, and released.
dpgan/one-release-lsun: The noise is sqrt(2 ln(1.25 / delta)) / epsilon times the sensitivity,
    at epsilon 10 and delta 1e-4.
adadp/theorem-1-example-certified: Each of 1,800 steps draws a lot of exactly 600 of 60,000
    records. Take it as given that a replaced record moves a lot's sum by one clip norm at most,
    not two; noise is 0.9 clip norms. (By PLD; Renyi DP is looser here.)
ledger/diffprivlib-wishart: To the sum of x x^T, norms at most 1, a random matrix G G^T (Wishart
    noise) is added, which is positive semidefinite: no eigenvalue is below 0.
adadp/lemma-1-example: Two coordinates of sensitivities 12 and 6 get Gaussian noise of 17 and
    8.5, or of 13.5 each; either is charged as noise 1 for sensitivity 1.
"""
CASES = {  # id of a claim -> what is run; half of them hold
    name: " ".join(told.split())
    for name, told in re.findall(r"^(\S+): (.+(?:\n .+)*)", CASES_TEXT, re.MULTILINE)
}

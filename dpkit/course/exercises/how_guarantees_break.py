"""Exercises of notebook 06: one for each way in which a guarantee breaks.

CASES are thirty claims to judge: the code that is run, without a word on its charge.
"""

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
    because="No finite epsilon: ledger/ctab-gan-penalty-after-noise.",
)
def penalty_after_noise() -> float:
    """A gradient penalty is added after clipping and noise. What is the epsilon?

    (It keeps the critic's slope near 1, at mixtures of a real and a generated image.)
    """
    return inf


@sheet.number(
    "from dpkit.privacy import Gaussian; then Gaussian(noise).profile([8.0]).max()",
    "The noise is sqrt(2 ln(1.25 / delta)) / 8.",
    because="Still enough, though its proof ends at epsilon 1; a little further it no longer is.",
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

CASES = {  # id of a claim -> what is run
    "ledger/pate-gan-raw-batches": "In each round a critic takes five steps on 128 records of all "
    "the data. The labels it learns, real or fake, get noise, which is charged. The generator "
    "learns from the critic.",
    "ledger/bie-epsilon-1": "Poisson batches; gradients clipped one by one; noise of 5 clip norms "
    "on their sum, each step charged. (Take the seed as secret.)",
    "ledger/dpdm-epsilon-0-2": "The noise is searched for the target in the file, by a certified "
    "accountant. The file train_eps_0.2.yaml says `dp: {epsilon: 10.0}`.",
    "small_images/shuffled-against-poisson": "Each epoch shuffles the records and deals them out "
    "in batches. Batches are charged at the rate batch / records, by the sampled Gaussian.",
    "ledger/jax-prng-reuse": "A gradient has a block for each tensor. Once a step a key is made, "
    "and noise = [normal(key, b) for b in shapes].",
    "rdp_gan/loss-values-at-sigma-10": "All that is released are 5,000 noisy values: mean losses "
    "of Poisson batches of 64 of 20,000 records, each loss at most 20.",
    "ledger/dpmm-mst-mu": "The budget is turned into zero-concentrated DP by a proven conversion, "
    "and that into the mu of one Gaussian.",
    "rdp_gan/theorem-4-delta": "1,000 releases, each with the guarantee (epsilon, 1e-5), are "
    "composed by adding up their epsilons.",
    "ledger/diffprivlib-regression-bound": "A feature's bounds are `lower` and `upper`; the sum of "
    "squares has sensitivity = max(abs(lower), abs(lower)) ** 2.",
    "adadp/lemma-1": "Coordinate i has the sensitivity s_i and noise of deviation sigma_i, which "
    "were both fixed beforehand.",
    "ledger/gs-wgan-left-over-index": "1,000 critics, each warmed up on 55 records of its own, are "
    "loaded from disk: one loop counts with i and reads the index that the loop before it used.",
    "ledger/backpropagation-clipping-512": "A layer's gradient is a product of two factors, "
    "clipped to the input norm and the gradient norm after the mean over the batch is taken.",
    "dpgan/theorem-4.1-7-groups": "A gradient's tensors form 7 groups. Each is clipped at C and "
    "noised by itself, and the cost of one is charged.",
    "ledger/pate-gan-same-partition": "The data is split in a loop over i into 10 parts. Then "
    "`for _ in teachers` trains each teacher on parts[i].",
    "ledger/dpmm-mst-rho": "A third of the budget, rho .0306, pays for single columns, a third for "
    "the choice of pairs and a third for the pairs' tables.",
    "small_images/beaulieu-jones-noise-c-squared": "Each gradient is clipped at C = 1e-4 and gets "
    "noise of deviation z C^2. The charge is that of noise multiplier z.",
    "ledger/dp-accounting-replace-one": "Noise / clip norm is 1. Neighbours differ in one record "
    "that is replaced; the Renyi accountant prices a shift by one clip norm.",
    "adadp/theorem-1-example-poisson": "Every record enters a lot by a coin of its own, at rate "
    "600/60,000; each of 1,800 steps is charged by the sampled Gaussian's moments, noise 0.9.",
    "ledger/gs-wgan-once-a-step": "A step draws one critic of 1,000, passes 32 images through it "
    "and releases 32 gradients, each with noise .483 of its own. One sampled release is charged.",
    "adadp/raw-history-leak": "From the second step on, a coordinate's clipping bound and noise "
    "follow a running mean of earlier gradients, as they were before clipping.",
    "ledger/opacus-batch-size-from-n": "The data has 1,000 records. A million weights' noisy sum "
    "is divided by 1,000, and released.",
    "rdp_gan/multiplicative-direction": "The loss is multiplied by a random normal number before "
    "its gradient is taken. The gradient's direction is private.",
    "ledger/smartnoise-mean-sensitivity": "The mean of all records is released with noise for "
    "(U - L) / n. Neighbours differ in a record that is added or dropped.",
    "dp_cgan/generator-labels": "The generator's step sees no image. It uses the discriminator, "
    "which was trained with noise, and the labels of the private batch.",
    "dpgan/stray-factor-4-devices": "Four devices sum 64 clipped gradients each; the four sums are "
    "averaged, and get noise of deviation 1.0859 C / sqrt(256).",
    "dpgan/one-release-lsun": "The noise is sqrt(2 ln(1.25 / delta)) / epsilon times the "
    "sensitivity, at epsilon 10 and delta 1e-4.",
    "dp_cgan/true-sample-rate": "5,000 of 60,000 images are put aside. Batches of 600 of the "
    "others are charged at the rate 600/60,000.",
    "ledger/diffprivlib-wishart": "To the sum of x x^T, norms at most 1, a random matrix is added "
    "that is positive semidefinite.",
    "adadp/lemma-1-example": "Two coordinates of sensitivities 12 and 6 get Gaussian noise of 17 "
    "and 8.5, or of 13.5 each; either is charged as noise 1 for sensitivity 1.",
    "dp_cgan/per-tensor-clipping": "Each of a gradient's four tensors is clipped at C. Their sum "
    "gets noise 1.12 C, and a step is charged as noise 1.12.",
}

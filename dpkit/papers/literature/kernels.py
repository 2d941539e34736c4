"""Findings on generators that are trained to a kernel's noisy means: DP-MERF and DP-Kernel."""

import math

import numpy as np

from dpkit.papers.claims import Code, Source, finding, of_gaussians, of_poisson_batches

REAL = np.array([[0.0, 0.0], [2.0, 0.0]])
OTHER = np.array([[0.0, 0.0], [0.0, 2.0]])  # one record replaced
FAKE = np.array([[1.0, 0.2], [0.8, 1.0]])  # what the generator puts out, whatever it draws


def loss(real: np.ndarray, fake: np.ndarray) -> float:
    """Squared maximum mean discrepancy of the two samples, by a Gaussian kernel of width 1."""
    means = [_kernel(a, b).mean() for a, b in ((real, real), (real, fake), (fake, fake))]
    return float(means[0] - 2 * means[1] + means[2])


def gradient(real: np.ndarray, fake: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """The generator's, of (loss + noise)^2, noise being a constant that was sampled beforehand."""
    return 2 * (loss(real, fake) + noise) * (_pull(fake, fake) - _pull(fake, real))


def of_directions() -> float:
    """inf if the directions for two neighbouring data sets differ: each shows its own."""
    one, other = gradient(REAL, FAKE), gradient(OTHER, FAKE)
    cosine = float((one * other).sum() / (np.linalg.norm(one) * np.linalg.norm(other)))
    return math.inf if abs(cosine) < 1 - 1e-9 else 0.0


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.exp(-((a[:, None] - b) ** 2).sum(axis=2) / 2)


def _pull(fake: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Gradient, by fake's points, of twice the mean kernel between `fake` and `to`."""
    away = (fake[:, None] - to) * _kernel(fake, to)[:, :, None]
    return -2 * away.mean(axis=1) / len(fake)


NOISE_1_95 = finding(
    "dp-kernel-epsilon-of-noise",
    Source(
        "DP-Kernel (Functional Renyi Differential Privacy for Generative Modeling, 2023)",
        "dihjiang/DP-kernel 59c02b7, README.md:12-14, pyvacy/sampling/batch_samplers.py",
    ),
    says="200,000 Gaussian releases of noise multiplier 1.95, each on a thousandth of the "
    "records (200 epochs in batches of 60 of 60,000), are (1, 1e-5)-DP.",
    at_most=1.0,
    compute=lambda: of_poisson_batches(1.95, 60 / 60_000, 200_000, gap=0.01),
    explanation="They cost .911 as Poisson samples, which its sampler draws, under add-remove. "
    "That is the price of a release which bears its noise; whether the generator's step is one is "
    "the claim dp-kernel-noise-on-loss.",
)

ON_LOSS = finding(
    "dp-kernel-noise-on-loss",
    Source(
        "DP-Kernel (Functional Renyi Differential Privacy for Generative Modeling, 2023)",
        "dihjiang/DP-kernel 59c02b7, mmd.py:84-95, DPCondmmdG_kernel_prod.py:109-113, "
        "README.md:14,35; noise on the loss, too, in 2019ChenGong/DPImageBench 565f8d7, "
        "models/dp_kernel.py:208-210,331-344",
    ),
    says="A generator that is trained on the noised loss at noise 1.95 is (1, 1e-5)-DP.",
    at_most=1.0,
    compute=of_directions,
    explanation="The noise is sampled and added to the loss, so it is a constant for the "
    "generator: the gradient of (loss + noise)^2 is a number times the gradient without noise, "
    "whose direction comes out exactly (cosine +-1 at every noise) and differs between two data "
    "sets with one record replaced, whenever it is in the batch: with probability 1e-3 a step, "
    "more than delta.",
    code=Code(
        was="((loss + noise) ** 2).backward()",
        should="mean = kernel(real).mean() + noise  # a function\n"
        "(kernel(fake, fake).mean() - 2 * mean(fake)).backward()",
        cause="noise",
    ),
)

# Noise, as added, and sensitivity (2: an embedding of norm 1 in another's place) are over the
# number of records m; exact, of the one release of all classes' mean embeddings, under replace-one.
MERF = finding(
    "dp-merf-noise-5",
    Source(
        "DP-MERF (Harder, Adamczewski, Park 2021)",
        "ParkLabML/DP-MERF e4ae72d, code_balanced/rff_mmd_approx.py:118, "
        "code_balanced/README.md:36,43, code_balanced/mnist_sr_gen.py:122-123,152",
    ),
    says="Noise 5 on the mean embeddings, of sensitivity 2/m, is (1, 1e-5)-DP.",
    at_most=1.0,
    compute=lambda: of_gaussians(2 * 5.0 / 2),
    explanation="An embedding has norm 1, and replacing a record, label and all, moves the mean by "
    "2/m at most; the noise has 5 times that. It is one release, and all else follows from it. "
    "The price is for noise that nobody can draw again: the paper's runs have the seeds 1 to 5.",
)

"""DP-Kernel's noise, which does not reach the generator's gradient."""

import math

import numpy as np

from dpkit.papers.claims import Code, Source, finding

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


def epsilon() -> float:
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


CLAIM = finding(
    "dp-kernel-noise-on-loss",
    Source(
        "DP-Kernel (Functional Renyi Differential Privacy for Generative Modeling, 2023)",
        "dihjiang/DP-kernel 59c02b7, mmd.py:84-95, DPCondmmdG_kernel_prod.py:109-113, "
        "README.md:14,35; noise on the loss, too, in 2019ChenGong/DPImageBench 565f8d7, "
        "models/dp_kernel.py:208-210,331-344",
    ),
    says="A generator that is trained on the noised loss at noise 1.95 is (1, 1e-5)-DP.",
    at_most=1.0,
    compute=epsilon,
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

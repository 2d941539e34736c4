"""Distance of a discriminator's answers on generated data from those of one that only guesses.

Zhang, Ji, Wang 2018, eq. 5: the Jensen-Shannon divergence, in bits, of its answer about an image, a
Bernoulli distribution, and the Bernoulli distribution of 1/2; the mean over images.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

Floats = NDArray[np.float64]
MOST = 1.5 - 0.75 * np.log2(3)  # 0.3113 bits, of a discriminator that is sure


class JsScore(NamedTuple):
    """Between 0, where nothing is distinguished, and `MOST`; smaller is better generated data.

    It describes a set of images, not its privacy.
    """

    mean: float  # bits
    error: float  # standard error of the mean over the images
    images: int


def js_from_half(probabilities: ArrayLike) -> Floats:
    """JS divergence in bits of Bernoulli(p) and Bernoulli(1/2), for each p.

    Half the sum of the two's relative entropies to their mean, Bernoulli((p + 1/2) / 2).

    Raises:
        ValueError: a probability is not in [0, 1].
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():  # NaN fails
        raise ValueError(
            "probabilities must lie in [0, 1]; pass a discriminator's sigmoid, not its logits"
        )
    total = np.zeros_like(p)
    for own in (p, 1 - p):
        middle = (own + 0.5) / 2
        total = total + rel_entr(own, middle) + rel_entr(0.5, middle)
    return np.maximum(total, 0.0) / (2 * np.log(2))  # rounding may leave -1e-17 at 1/2


def js_score(probabilities: ArrayLike) -> JsScore:
    """The score of one set of images.

    Args:
        probabilities: what a discriminator says of each image, such as its chance to be real,
            (images,).

    Raises:
        ValueError: a probability is not in [0, 1], or there is no image.
    """
    if np.ndim(probabilities) != 1 or not np.size(probabilities) >= 1:
        raise ValueError(
            f"probabilities must have shape (images,), images >= 1, got {np.shape(probabilities)}"
        )
    found = js_from_half(probabilities)
    return JsScore(float(found.mean()), float(found.std()) / sqrt(len(found)), len(found))

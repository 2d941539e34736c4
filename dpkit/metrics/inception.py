"""The inception score: a classifier's certainty of each generated image, and their variety.

Salimans, Goodfellow, Zaremba, Cheung, Radford, Chen 2016, "Improved techniques for training GANs".
"""

from typing import NamedTuple

import numpy as np
from scipy.special import rel_entr

from dpkit.common import checks

ROUNDING = 1e-3  # a row of probabilities may sum to 1 within this


class InceptionScore(NamedTuple):
    """Between 1 and the number of classes. It describes a set of images, not its privacy."""

    mean: float  # over the splits
    spread: float  # population standard deviation over the splits
    splits: tuple[float, ...]  # each split's own score


def inception_score(probabilities: np.ndarray, *, splits: int = 10) -> InceptionScore:
    """exp of the mean over images of KL(p(y | image) || p(y)), in nats, in each of `splits` parts.

    p(y) is the mean of p(y | image) over the images of the same part, which biases small parts
    downward: compare scores of equally many images and splits only. It is 1 where all images get
    the same probabilities, and the number of classes where each is sure and all are equally many.

    Args:
        probabilities: a classifier's, (images, classes); rows sum to 1.
        splits: parts, in the images' order, as equal in size as can be.

    Raises:
        ValueError: splits is not an integer >= 1, there are fewer images than splits, or a row is
            not a distribution.
    """
    checks.whole(1, splits=splits)
    rows = np.asarray(probabilities, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise ValueError(f"probabilities must have shape (images, classes), got {rows.shape}")
    if not len(rows) >= splits:
        raise ValueError(f"splits must be at most the {len(rows)} images, got {splits}")
    totals = rows.sum(1)
    if not ((rows >= 0).all() and (np.abs(totals - 1) <= ROUNDING).all()):  # NaN fails
        raise ValueError(
            "probabilities must be >= 0 and sum to 1 in each row; pass a softmax, not its logits"
        )
    rows = rows / totals[:, None]
    scores = [
        float(np.exp(rel_entr(part, part.mean(0)).sum(1).mean()))  # of divergences in nats
        for part in np.array_split(rows, splits)
    ]
    return InceptionScore(float(np.mean(scores)), float(np.std(scores)), tuple(scores))

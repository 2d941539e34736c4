"""What attacks in one run share: candidates whom coins include, their scores apart, all digits."""

import numpy as np
from numpy.typing import NDArray

from dpkit.audit.scores import Scores, check_rng
from dpkit.common import checks
from dpkit.datasets import Images, digits
from dpkit.privacy.mechanisms import Floats


def coins(rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
    """Whether each candidate is included, by independent fair coins, (count,)."""
    check_rng(rng)
    return rng.random(checks.whole(1, count=count)) < 0.5


def apart(scores: Floats, included: NDArray[np.bool_]) -> Scores:
    """The scores (candidates,) of those left out, and of those included."""
    return Scores(scores[~included], scores[included])


def seed(rng: np.random.Generator) -> int:
    """A seed for torch, of a run whose data are public: what an attack trains is no release."""
    check_rng(rng)
    return int(rng.integers(2**62))


def first_digits(count: int) -> Images:
    """The first images of the digits' training split, at most 1,437."""
    images = digits()
    return images._replace(pixels=images.pixels[:count], labels=images.labels[:count])


def all_digits() -> Images:
    """Both splits of scikit-learn's digits, 1,797 images."""
    splits = [digits(), digits(split="test")]
    return splits[0]._replace(
        pixels=np.concatenate([one.pixels for one in splits]),
        labels=np.concatenate([one.labels for one in splits]),
    )

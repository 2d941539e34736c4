"""Which of a class's components an image belongs to, decided on samples of a first release."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

SAMPLES = 2_000  # of each class, on which the centres are found
Nearest = Callable[[NDArray, NDArray], NDArray[np.int64]]


def partition(means: Sequence[NDArray], factors: Sequence[NDArray], components: int) -> Nearest:
    """A function of (pixels, labels) that gives each image the nearest of its class's centres.

    The centres are those of k-means on samples of what was released, so that they are
    post-processing; and each image's component depends on that image alone.

    Args:
        means: (pixels,) of each class, released.
        factors: (pixels, directions) of each class, released.
        components: centres a class.
    """
    centres = [_centres(*one, components) for one in zip(means, factors, strict=True)]

    def nearest(pixels: NDArray, labels: NDArray) -> NDArray[np.int64]:
        found = np.zeros(len(pixels), dtype=np.int64)
        for label, around in enumerate(centres):
            rows = np.flatnonzero(labels == label)
            # not a product of matrices, which rounds a row otherwise where others are beside it
            products = np.einsum("rp,cp->rc", pixels[rows].astype(np.float64), around)
            scores = products - np.square(around).sum(1) / 2
            found[rows] = scores.argmax(1)
        return found

    return nearest


def _centres(mean: NDArray, factors: NDArray, components: int) -> NDArray:
    rng = np.random.default_rng(0)  # of samples of public values: nothing is hidden by it
    samples = np.clip(mean + rng.normal(size=(SAMPLES, factors.shape[1])) @ factors.T, 0, 1)
    means = KMeans(components, n_init=3, random_state=0)  # pyright: ignore[reportArgumentType]
    return means.fit(samples).cluster_centers_

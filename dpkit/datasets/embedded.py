"""The data set that is always there: scikit-learn's 8x8 digits, drawn as MNIST draws its own."""

from typing import Any

import numpy as np

SIDE, BOX = 28, 20  # MNIST's: a digit in a box of 20x20, centred in 28x28


def digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels uint8 (n, 1, 28, 28) and labels int64 (n,) of a split: n = 1437 train, 360 test.

    The split is a rule, not a draw: in the order of the labels (and within a label, of the file)
    every fifth image is for testing. So each class is divided in nearly the same proportion.
    """
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    images, labels = bunch.images, bunch.target  # (1797, 8, 8) of 0..16, (1797,)
    test = np.zeros(len(labels), dtype=bool)
    test[np.argsort(labels, kind="stable")[::5]] = True
    chosen = test if split == "test" else ~test
    return enlarge(images[chosen].astype(np.int64))[:, None], labels[chosen].astype(np.int64)


def enlarge(images: np.ndarray) -> np.ndarray:
    """8x8 images of 0..16, int64 (n, 8, 8), to uint8 (n, 28, 28) of 0..255.

    Bilinear to 20x20 and a margin of 4, in whole numbers throughout: every machine makes the same
    bytes.
    """
    weights = _weights()  # (20, 8), rows sum to 10
    box = weights @ images @ weights.T  # (n, 20, 20) of 0..1600
    bright = (box * 255 + 800) // 1600  # rounded to 0..255
    margin = (SIDE - BOX) // 2
    return np.pad(bright, ((0, 0), (margin, margin), (margin, margin))).astype(np.uint8)


def _weights() -> np.ndarray:
    """Tenths of bilinear interpolation from 8 pixel centres to 20: int64 (20, 8)."""
    weights = np.zeros((BOX, 8), dtype=np.int64)
    for row in range(BOX):
        # The centre of pixel `row` lies at (row + 1/2) * 8/20 - 1/2 = (4 row - 3) / 10.
        left, tenths = divmod(4 * row - 3, 10)
        weights[row, max(left, 0)] += 10 - tenths
        weights[row, min(left + 1, 7)] += tenths
    return weights

import numpy as np

from dpkit.datasets import digits, images, load, sources


def test_the_digits_are_always_there_in_one_fixed_split():
    train, test = digits(split="train"), load("digits", split="test")
    assert (train.pixels.shape, test.pixels.shape) == ((1437, 1, 28, 28), (360, 1, 28, 28))
    assert (train.pixels.dtype, train.labels.dtype, train.n) == (np.uint8, np.int64, 1437)
    assert (train.checksum, test.checksum) == tuple(file.sha256 for file in sources.DIGITS.files)
    whole = np.bincount(train.labels) + np.bincount(test.labels)
    assert np.abs(np.bincount(test.labels) - whole / 5).max() < 1  # of each class alike
    rows = test.flat()
    assert (rows.shape, rows.dtype, rows.min(), rows.max()) == ((360, 784), np.float32, 0, 1)


def test_enlarging_keeps_the_grey_level_the_place_and_the_margin():
    one = images.enlarge(np.full((1, 8, 8), 16))
    assert (one[0, 4:24, 4:24] == 255).all()
    assert one.sum() == 255 * 400
    corner = np.zeros((1, 8, 8), dtype=np.int64)
    corner[0, 0, 7] = 16  # top right
    row, column = np.unravel_index(images.enlarge(corner)[0].argmax(), (28, 28))
    assert row < 7
    assert column >= 21

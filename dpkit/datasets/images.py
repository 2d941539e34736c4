"""Image sets in a common form: pixels, labels and a checksum of both."""

import hashlib
import math
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpkit.datasets import embedded, sources
from dpkit.datasets.content import read_verified
from dpkit.datasets.locate import locate
from dpkit.datasets.lookup import check_split
from dpkit.datasets.sources import closest, source


class Images(NamedTuple):
    """Images with their labels.

    `checksum` is the sha256 over the shape and the decoded pixel and label bytes: the same for
    plain, .gz and .xz files of the same content.
    """

    name: str
    pixels: np.ndarray  # uint8 (n, channels, height, width), 0..255
    labels: np.ndarray  # int64 (n,)
    checksum: str

    @property
    def n(self) -> int:
        """The number of images. (len() of a named tuple is the number of its fields.)"""
        return len(self.pixels)

    def flat(self) -> np.ndarray:
        """Pixels as rows, float32 (n, channels * height * width) in [0, 1]."""
        return self.pixels.reshape(self.n, math.prod(self.pixels.shape[1:])) / np.float32(255)


def make_images(name: str, pixels: np.ndarray, labels: np.ndarray) -> Images:
    """Make `Images`, with the checksum of their content.

    Args:
        pixels: uint8 (n, channels, height, width).
        labels: integers (n,).
    """
    pixels, labels = np.ascontiguousarray(pixels), np.ascontiguousarray(labels, dtype="<i8")
    digest = hashlib.sha256(struct.pack("<4q", *pixels.shape))
    digest.update(pixels.data)
    digest.update(labels.data)
    return Images(name, pixels, labels, digest.hexdigest())


def digits(*, split: str = "train") -> Images:
    """Scikit-learn's handwritten digits, enlarged to MNIST's 28x28: the embedded default.

    1,437 images to train on, 360 to test on, the same on every machine; no download.
    """
    return make_images("digits", *embedded.digits(check_split(split)))


def mnist(*, split: str = "train") -> Images:
    """MNIST: 60,000 training and 10,000 test images, 1x28x28, of ten digits.

    Raises:
        DataNotFound: not in DPKIT_DATA, not in the cache, and no download.
        ValueError: a file is not what it should be (both checksums in the message).
    """
    return _idx(source("mnist"), split)


def fashion_mnist(*, split: str = "train") -> Images:
    """Fashion-MNIST: 60,000 training and 10,000 test images, 1x28x28, of ten garments.

    Raises: as `mnist`.
    """
    return _idx(source("fashion_mnist"), split)


def cifar10(*, split: str = "train") -> Images:
    """CIFAR-10: 50,000 training and 10,000 test images, 3x32x32, of ten classes.

    Read from the binary layout. Raises: as `mnist`.
    """
    return _cifar(source("cifar10"), split, label_bytes=1)


def cifar100(*, split: str = "train") -> Images:
    """CIFAR-100: 50,000 training and 10,000 test images, 3x32x32; labels are the 100 fine classes.

    Read from the binary layout. Raises: as `mnist`.
    """
    return _cifar(source("cifar100"), split, label_bytes=2)


IMAGE_SETS: tuple[tuple[str, Callable[..., Images]], ...] = (
    ("digits", digits),
    ("mnist", mnist),
    ("fashion_mnist", fashion_mnist),
    ("cifar10", cifar10),
    ("cifar100", cifar100),
)


def load(name: str, *, split: str = "train") -> Images:
    """The image set called `name`: digits, mnist, fashion_mnist, cifar10 or cifar100.

    Raises:
        ValueError: unknown name (the closest known one is suggested) or split.
        DataNotFound: the set is in none of the folders.
    """
    for known, loader in IMAGE_SETS:
        if known == name:
            return loader(split=split)
    if name == sources.ADULT.name:
        raise ValueError("adult is a table, not an image set; use dpkit.datasets.adult(split=...)")
    raise ValueError(
        f"unknown image set {name!r}; {closest(name, (known for known, _ in IMAGE_SETS))}"
    )


def _idx(wanted: sources.Source, split: str) -> Images:
    (images, images_path), (labels, labels_path) = locate(wanted, split)
    pixels = idx_array(read_verified(images_path, sha256=images.sha256), images_path)
    classes = idx_array(read_verified(labels_path, sha256=labels.sha256), labels_path)
    if pixels.ndim != 3 or classes.shape != pixels.shape[:1]:
        raise ValueError(
            f"{images_path} holds an array of shape {pixels.shape} and {labels_path} one of shape "
            f"{classes.shape}; expected (n, height, width) and (n,)"
        )
    return make_images(wanted.name, pixels[:, None], classes)


def idx_array(content: bytes | bytearray, path: Path) -> np.ndarray:
    """The array of unsigned bytes in an IDX file (two zeros, type 8, rank, big-endian sizes, data).

    Raises:
        ValueError: `content` is not in that format; `path` is named.
    """
    rank = content[3] if content[:3] == b"\x00\x00\x08" and len(content) > 3 else 0
    start = 4 + 4 * rank
    if rank == 0 or len(content) < start:
        raise ValueError(
            f"{path} is not an IDX file of unsigned bytes; it starts {bytes(content[:4])!r}"
        )
    shape = struct.unpack(f">{rank}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} announces shape {shape}, {math.prod(shape)} bytes, "
            f"but holds {len(content) - start}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _cifar(wanted: sources.Source, split: str, *, label_bytes: int) -> Images:
    """Read the binary layout: `label_bytes` labels, the finest last, then 3 x 32 x 32 pixels."""
    row_size = label_bytes + 3 * 32 * 32
    found = locate(wanted, split)
    # Decompression and hashing leave the interpreter's lock, so that files go in parallel.
    with ThreadPoolExecutor() as pool:
        contents = list(pool.map(lambda one: read_verified(one[1], sha256=one[0].sha256), found))
    for (_, path), content in zip(found, contents, strict=True):
        if len(content) % row_size:
            raise ValueError(
                f"{path} holds {len(content)} bytes, not a multiple of the {row_size} of one image"
            )
    rows = np.concatenate(
        [np.frombuffer(content, dtype=np.uint8).reshape(-1, row_size) for content in contents]
    )  # (n, row_size)
    pixels = rows[:, label_bytes:].reshape(-1, 3, 32, 32)
    return make_images(wanted.name, pixels, rows[:, label_bytes - 1])

"""What a user has as labelled images, as arrays: whole, in [0, 1], labelled within the classes."""

from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkit.baselines.records import check_unit, checked_labels
from dpkit.datasets import Images


def arrays(x: Any, y: Any, *, classes: int) -> tuple[np.ndarray, NDArray[np.int64]]:
    """Images as they are given, and their labels, (records,) int64.

    What x and y may be, and what is raised of others, is said at `PrivateImages.fit`.
    """
    if isinstance(x, Images):
        if y is not None:
            raise TypeError("Images hold their own labels: leave y out")
        x, y = x.pixels, x.labels
    if y is None:
        raise TypeError("no y was given: fit(x, y), with a label for each image")
    pixels = _pixels(x)
    return pixels, checked_labels(y, classes=classes, records=len(pixels), name="y")


def in_unit(pixels: np.ndarray) -> NDArray[np.floating]:
    """As floats in [0, 1], (records, channels, height, width)."""
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    return pixels / np.float32(255) if pixels.dtype == np.uint8 else pixels


def checksum(pixels: np.ndarray, labels: NDArray[np.int64]) -> str:
    """SHA-256 of type, shape and bytes: `Private`'s and `PrivateGan`'s of the same (x, y).

    So that their runs share a budget. It describes private data.
    """
    digest = sha256()
    for part in (pixels, labels):
        digest.update(f"torch.{part.dtype} {part.shape}".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _pixels(x: Any) -> np.ndarray:
    if hasattr(x, "iloc") or isinstance(x, str | np.ma.MaskedArray) or hasattr(x, "__fspath__"):
        raise TypeError(
            f"x must be an array of images, got {type(x).__name__}; read a folder of images by "
            "dpkit.datasets.image_folder(folder)"
        )
    try:
        pixels = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"the images of x must be of one shape: {error}") from error
    if pixels.ndim not in (3, 4) or not all(pixels.shape[1:]):
        raise ValueError(
            "x must have shape (records, height, width) or (records, channels, height, width), got "
            f"{pixels.shape}; rows of pixels are x.reshape(-1, channels, height, width)"
        )
    if pixels.ndim == 4 and pixels.shape[3] in (1, 3, 4) and pixels.shape[1] > 4:
        raise ValueError(
            f"x must have its channels before height and width, and its shape is {pixels.shape}; "
            "(records, height, width, channels) are x.transpose(0, 3, 1, 2)"
        )
    if pixels.dtype.kind == "f":
        check_unit(pixels)
    elif pixels.dtype != np.uint8:
        raise ValueError(
            f"x must be uint8 or floats in [0, 1], got {pixels.dtype}; 0..255 are x.astype('uint8')"
        )
    return pixels

"""Shared parts of synthesizers: labelled images in [0, 1], and the noise on their sums."""

import warnings
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit.common import checks
from dpkit.datasets import Images
from dpkit.privacy import Gaussian, Release
from dpkit.privacy.mechanisms.base import NoGuarantee, check_noise

Floats = NDArray[np.floating]
Labels = NDArray[np.int64]
DARK = 32  # of 256
AT_ONCE = 2**26  # bytes copied together, where records do not lie in order


class NoisedRelease:
    """Settings of a synthesizer that noises sums of records, under add-remove."""

    noise_multiplier: float
    sensitivity: Any  # of the sums, in L2 norm

    def __post_init__(self) -> None:
        checks.non_negative(noise_multiplier=self.noise_multiplier)
        if self.noise_multiplier:
            check_noise(self.noise_multiplier)

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Of each release in turn."""
        return (self.noise_multiplier,)

    @property
    def noise_std(self) -> float:
        """The noise's deviation on each number, where there is one release."""
        return self.noise_multiplier * self.sensitivity

    def ledger(self) -> list[Release]:
        """The releases for any number of records: Gaussians, under add-remove."""
        if not self.noise_multiplier:
            return [Release(NoGuarantee("no noise is added"))]
        return [Release(Gaussian(noise)) for noise in self.noise_multipliers]


def arrays(x: Any, y: Any, *, classes: int) -> tuple[np.ndarray, Labels]:
    """A user's images as they are given, and their labels, (records,) int64.

    What x and y may be, and what is raised of others, is said at `PrivateImages.fit`.
    """
    if isinstance(x, Images):
        if y is not None:
            raise TypeError("Images hold their own labels: leave y out")
        x, y = x.pixels, x.labels
    if y is None:
        raise TypeError(
            "no y was given: fit(x, y), with a label for each image, or fit(image_folder(x))"
        )
    checks.array(x=x, y=y)
    try:
        pixels = plain(x)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the images of x must be numbers of one shape: {error}") from error
    if pixels.dtype != np.uint8 and pixels.dtype.kind not in "bf":
        raise ValueError(
            f"x must be uint8, bool or floats in [0, 1], got {pixels.dtype}; for 0..255 give "
            "numpy.uint8(x), for a folder of images dpkit.datasets.image_folder(x)"
        )
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
        _check_unit("x", pixels)
    if pixels.dtype == np.uint8:
        warn_of_dark(pixels)
    return pixels, checked_labels(y, classes=classes, records=len(pixels), name="y")


def in_unit(pixels: np.ndarray) -> Floats:
    """As floats in [0, 1], (records, channels, height, width)."""
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels
    top = {"u": np.float32(255), "b": np.float32(1)}.get(pixels.dtype.kind)
    return pixels if top is None else pixels / top


def warn_of_dark(pixels: Any) -> None:
    """Warn of images of bytes that look like masks or levels, and are read as 0..255."""
    few = pixels[:1000]
    if len(few) and few.max() < DARK:
        warnings.warn(
            f"images of uint8 are read as 0..255, and the first {len(few)} lie below {DARK}: give "
            f"masks as bool, k levels as x / (k - 1); {checks.TO_YOURSELF}",
            stacklevel=4,
        )


def checksum(*parts: np.ndarray) -> str:
    """SHA-256 of type, shape and bytes, so that runs on the same data share a budget.

    It describes private data.
    """
    digest = sha256()
    for part in parts:
        digest.update(f"torch.{part.dtype} {part.shape}".encode())
        for some in np.array_split(part, 1 + part.nbytes // AT_ONCE):
            digest.update(np.ascontiguousarray(some).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def checked(
    images: ArrayLike, labels: ArrayLike, *, classes: int, shape: tuple[int, ...]
) -> tuple[Floats, Labels]:
    """Images as rows, (records, pixels) in [0, 1], and their labels, (records,).

    float32 and float64 stay as they are; records may be 0.

    Raises:
        ValueError: images or labels are of another shape or type, or a number is NaN or out of its
            range; the first such record is named.
    """
    found = np.asarray(images)
    if found.shape[1:] != shape or found.dtype.kind != "f":
        raise ValueError(
            f"images must be floats of shape (records, {', '.join(map(str, shape))}), got "
            f"{found.dtype} of shape {found.shape}; bytes are pixels / 255"
        )
    rows = found.reshape(len(found), int(np.prod(shape)))
    _check_unit("images", rows)
    return rows, checked_labels(labels, classes=classes, records=len(rows))


def _check_unit(name: str, images: Floats) -> None:
    fine = ((images >= 0) & (images <= 1)).all(tuple(range(1, images.ndim)))
    if not fine.all():
        raise ValueError(
            f"{name} must lie in [0, 1], and record {int(fine.argmin())} does not, or holds NaN: "
            "of pixels 0..255 give x / 255, of -1..1 (x + 1) / 2, and fill in what is missing; "
            f"{checks.TO_YOURSELF}"
        )


def plain(x: Any) -> np.ndarray:
    """An array of what was given; of a tensor of torch, wherever it lies."""
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)


def wanted_labels(n: Any, *, classes: int, rng: np.random.Generator) -> Labels:
    """Labels of images to be made, (images,): those given, or so many, drawn uniformly.

    Raises:
        ValueError: n is neither an integer >= 0 nor labels.
    """
    given = plain(n)
    if given.ndim:
        return checked_labels(given, classes=classes)
    return rng.integers(classes, size=checks.whole(n=given.item()))


def checked_labels(
    labels: ArrayLike, *, classes: int, records: int | None = None, name: str = "labels"
) -> Labels:
    """Labels as int64, (records,): integers in 0 .. classes - 1 (ValueError otherwise).

    There must be as many as `records`; None: any number, of images to be made, not private.
    """
    found = plain(labels)
    if not found.size:
        found = found.astype(np.int64)
    kinds = "iu" if records is None else "biu"
    if found.ndim != 1 or found.dtype.kind not in kinds or records not in (None, len(found)):
        wanted = "(records,)" if records is None else f"({records},)"
        raise ValueError(
            f"{name} must be integers of shape {wanted}, got {found.dtype} of shape {found.shape}; "
            "round floats, flatten a column, give y.argmax(1) of several one-hot columns, number "
            "names by a fixed public list"
        )
    fine = (found >= 0) & (found < classes)
    if not fine.all():
        private = "" if records is None else f"; {checks.TO_YOURSELF}"
        raise ValueError(
            f"{name} must lie in 0..{classes - 1}, got {found[~fine][0]} in row {fine.argmin()}; "
            f"number the classes from 0 by a fixed public list{private}"
        )
    return found.astype(np.int64)

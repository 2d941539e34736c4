"""What a baseline is given as records: images in [0, 1], whole, with labels of its classes."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit import checks

Floats = NDArray[np.floating]
Labels = NDArray[np.int64]


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
    check_unit(rows)
    return rows, checked_labels(labels, classes=classes, records=len(rows))


def check_unit(images: Floats) -> None:
    """Refuse (ValueError) images (records, ...) with numbers outside [0, 1], or NaN."""
    fine = ((images >= 0) & (images <= 1)).all(tuple(range(1, images.ndim)))
    if not fine.all():
        raise ValueError(
            f"images must lie in [0, 1], and record {int(fine.argmin())} does not, or holds NaN: "
            "pixels 0..255 are x / 255, -1..1 are (x + 1) / 2, and what is missing is filled in "
            f"first; {checks.TO_YOURSELF}"
        )


def checked_labels(
    labels: ArrayLike, *, classes: int, records: int | None = None, name: str = "labels"
) -> Labels:
    """Labels as int64, (records,).

    Args:
        records: how many there must be; None where any number will do.
        name: of the labels, for the error.

    Raises:
        ValueError: they are no integers in 0 .. classes - 1, or of another shape.
    """
    found = np.asarray(labels)
    if not found.size:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu" or records not in (None, len(found)):
        wanted = "(records,)" if records is None else f"({records},)"
        raise ValueError(
            f"{name} must be integers of shape {wanted}, got {found.dtype} of shape {found.shape}; "
            "round floats; rows of 0 and 1 are y.argmax(1), and names are numbered by a public list"
        )
    fine = (found >= 0) & (found < classes)
    if not fine.all():
        raise ValueError(
            f"{name} must lie in 0..{classes - 1}, got {found[~fine][0]}; number the classes from "
            f"0, by a list that is public; {checks.TO_YOURSELF}"
        )
    return found.astype(np.int64)

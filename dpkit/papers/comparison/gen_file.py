"""Generated images as DPImageBench reads them: `gen.npz` with x and y."""

import io
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit.common.files import write_bytes


def save(path: Path, images: ArrayLike, labels: ArrayLike) -> Path:
    """Write images and labels, whole or not at all, without pickle.

    Args:
        path: of the file, such as "gen.npz".
        images: in [0, 1], (n, channels, height, width); stored as float32.
        labels: integers, (n,); stored as int64.

    Raises:
        ValueError: images or labels are of another form, or a value is NaN or outside [0, 1].
    """
    checked = _checked(np.asarray(images), np.asarray(labels), "images and labels")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=checked[0].astype(np.float32), y=checked[1].astype(np.int64))
    return write_bytes(Path(path), buffer.getvalue())


def load(path: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The images and labels of a file.

    Raises:
        ValueError: it is no such file, or holds something else.
    """
    try:
        found = dict(np.load(path, allow_pickle=False).items())
    except (BadZipFile, AttributeError, EOFError) as error:
        raise ValueError(f"{path} is no whole .npz file ({error}); write it again") from error
    if not {"x", "y"} <= found.keys():
        raise ValueError(f"{path} must hold x and y, got {', '.join(found) or 'nothing'}")
    return _checked(found["x"], found["y"], str(path))


def _checked(images: NDArray, labels: NDArray, where: str) -> tuple[NDArray, NDArray]:
    if images.ndim != 4 or labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
        raise ValueError(
            f"{where} must be (n, channels, height, width) and n integers, got {images.shape} and "
            f"{labels.dtype} {labels.shape}"
        )
    if not ((images >= 0) & (images <= 1)).all():  # NaN fails
        raise ValueError(f"{where}: images must lie in [0, 1] without NaN; divide bytes by 255")
    return images, labels

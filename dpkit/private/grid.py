"""Images side by side in one array."""

import numpy as np
from torch import Tensor


def grid(images: Tensor, columns: int) -> np.ndarray:
    """Rows of images: (height, width) where they are grey, (height, width, 3) in colour, in [0, 1].

    Values from -1 (black) to 1 are taken where one is below 0, from 0 to 1 otherwise.

    Args:
        images: (number, channels, height, width) or (number, height, width).
        columns: images a row; black where none is left.

    Raises:
        ValueError: images have another shape, or neither 1 nor 3 channels.
    """
    shape = tuple(images.shape)
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not len(images):
        raise ValueError(
            f"samples of shape {shape} are no images (number, 1 or 3 channels, height, width): "
            "reshape them and use dpkit.private.grid.grid(images, columns)"
        )
    pixels = images.float().numpy()
    pixels = (pixels + 1) / 2 if pixels.min() < 0 else pixels
    number, channels, height, width = pixels.shape
    rows = -(-number // columns)
    whole = np.zeros((rows * columns, channels, height, width), np.float32)
    whole[:number] = np.clip(pixels, 0, 1)
    tiled = whole.reshape(rows, columns, channels, height, width).transpose(0, 3, 1, 4, 2)
    tiled = tiled.reshape(rows * height, columns * width, channels)
    return tiled[..., 0] if channels == 1 else tiled

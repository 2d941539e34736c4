"""A folder of image files, such as CelebA or LSUN as a user would have them."""

from pathlib import Path

import numpy as np

from dpkit.common import checks
from dpkit.common.lazy import remedied
from dpkit.datasets.images import Images, make_images

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
MODES = ((1, "L"), (3, "RGB"))  # channels -> pillow's name for it


def image_folder(
    path: str | Path, *, size: int = 64, channels: int = 3, limit: int | None = None
) -> Images:
    """Read the images below a folder, each cut to its central square and resized.

    Labels number the sub-folders of the first level that hold images, in alphabetical order (as in
    LSUN: one per category); images directly in the folder come first, as a class of their own.
    A flat folder (CelebA) has label 0 throughout. Deeper nesting, hidden files and files that are
    no images by their suffix do not matter.

    Args:
        path: the folder; relative to the working directory unless absolute.
        size: height and width of the result in pixels, at least 1.
        channels: 3 for colour, 1 for grey.
        limit: number of images to read at most, in alphabetical order; None for all.

    Returns:
        pixels uint8 (n, channels, size, size).

    Raises:
        ValueError: no folder, no images in it, an image that cannot be read (named), or a number
            out of range.
        ModuleNotFoundError: pillow is not installed.
    """
    size = checks.whole(1, size=size)
    modes = [mode for count, mode in MODES if count == channels]
    if not modes:
        raise ValueError(f"channels must be 1 or 3, got {channels}")
    if limit is not None:
        limit = checks.whole(1, limit=limit)
    root = Path(path).expanduser().resolve()
    files = _image_files(root)[:limit]
    folders = [file.relative_to(root).parts[0] if file.parent != root else "" for file in files]
    numbers = {name: number for number, name in enumerate(sorted(set(folders)))}
    pixels = np.empty((len(files), channels, size, size), dtype=np.uint8)
    for index, file in enumerate(files):
        pixels[index] = _read(file, size, modes[0])
    return make_images(root.name, pixels, np.array([numbers[name] for name in folders]))


def _image_files(root: Path) -> list[Path]:
    if not root.is_dir():
        raise ValueError(f"path must be a folder of images; {root} is not a folder")
    files = [
        file
        for file in root.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in file.relative_to(root).parts)
        and file.is_file()
    ]
    if not files:
        raise ValueError(f"no images in {root}; looked for {', '.join(SUFFIXES)}, also deeper")
    return sorted(files, key=lambda file: file.relative_to(root).parts)


def _read(file: Path, size: int, mode: str) -> np.ndarray:
    """One image as uint8 (channels, size, size)."""
    with remedied():
        from PIL import Image
    try:
        with Image.open(file) as image:
            image.load()
            if image.mode.startswith(("I", "F")):
                raise ValueError(f"pixels of mode {image.mode} have more than 8 bits")
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            square = image.convert(mode).resize(
                (size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side)
            )
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(
            f"{file} cannot be read as an image ({error}); remove or replace it"
        ) from error
    array = np.asarray(square)  # (size, size) or (size, size, 3)
    return array.reshape(size, size, -1).transpose(2, 0, 1)

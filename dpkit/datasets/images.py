"""Image sets in a common form: pixels, labels and a checksum of both.

The set that is always there is scikit-learn's 8x8 digits, drawn as MNIST draws its own. A folder of
image files, such as CelebA or LSUN as a user would have them, is read as well.
"""

import hashlib
import math
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.common.lazy import remedied
from dpkit.datasets import sources
from dpkit.datasets.files import check_split, locate, read_verified
from dpkit.datasets.sources import closest, source

SIDE, BOX = 28, 20  # MNIST's: a digit in a box of 20x20, centred in 28x28
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


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

    1,437 images to train on, 360 to test on, the same on every machine; no download. The split is a
    rule, not a draw: in the order of the labels (within a label, of the file) every fifth image is
    for testing, so classes are divided nearly alike.
    """
    from sklearn.datasets import load_digits

    check_split(split)
    bunch: Any = load_digits()
    images, labels = bunch.images, bunch.target  # (1797, 8, 8) of 0..16, (1797,)
    test = np.zeros(len(labels), dtype=bool)
    test[np.argsort(labels, kind="stable")[::5]] = True
    chosen = test if split == "test" else ~test
    return make_images(
        "digits", enlarge(images[chosen].astype(np.int64))[:, None], labels[chosen]
    )


def enlarge(images: np.ndarray) -> np.ndarray:
    """8x8 images of 0..16, int64 (n, 8, 8), to uint8 (n, 28, 28) of 0..255.

    Bilinear to 20x20 and a margin of 4, in whole numbers throughout: every machine makes the same
    bytes.
    """
    weights = np.zeros((BOX, 8), dtype=np.int64)  # tenths: rows sum to 10
    for row in range(BOX):
        # The centre of pixel `row` lies at (row + 1/2) * 8/20 - 1/2 = (4 row - 3) / 10.
        left, tenths = divmod(4 * row - 3, 10)
        weights[row, max(left, 0)] += 10 - tenths
        weights[row, min(left + 1, 7)] += tenths
    box = weights @ images @ weights.T  # (n, 20, 20) of 0..1600
    bright = (box * 255 + 800) // 1600  # rounded to 0..255
    margin = (SIDE - BOX) // 2
    return np.pad(bright, ((0, 0), (margin, margin), (margin, margin))).astype(np.uint8)


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
    raise ValueError(
        f"unknown image set {name!r}; {closest(name, [known for known, _ in IMAGE_SETS])}"
    )


def _idx(wanted: sources.DataSource, split: str) -> Images:
    (images, images_path), (labels, labels_path) = locate(wanted, split)
    return make_images(
        wanted.name,
        _idx_array(read_verified(images_path, sha256=images.sha256))[:, None],
        _idx_array(read_verified(labels_path, sha256=labels.sha256)),
    )


def _idx_array(content: bytearray) -> np.ndarray:
    """The bytes of a verified IDX file: two zeros, type 8, rank, big-endian sizes, data."""
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _cifar(wanted: sources.DataSource, split: str, *, label_bytes: int) -> Images:
    """Read the binary layout: `label_bytes` labels, the finest last, then 3 x 32 x 32 pixels."""
    row_size = label_bytes + 3 * 32 * 32
    found = locate(wanted, split)
    # decompression and hashing leave the interpreter's lock: files go in parallel
    with ThreadPoolExecutor() as pool:
        contents = list(
            pool.map(lambda one: read_verified(one[1], sha256=one[0].sha256), found)
        )
    rows = np.concatenate(
        [np.frombuffer(content, dtype=np.uint8).reshape(-1, row_size) for content in contents]
    )
    return make_images(
        wanted.name, rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1]
    )


def image_folder(
    path: str | Path, *, size: int = 64, channels: int = 3, limit: int | None = None
) -> Images:
    """Read the images below a folder, each cut to its central square and resized.

    Each is turned as its EXIF orientation says, and laid on white where it is transparent. Labels
    number the sub-folders of the first level, empty ones too, in alphabetical order (as in LSUN:
    one per category), if any holds an image; images directly in the folder come last, as a class
    of their own. A flat folder (CelebA) has label 0 throughout. Deeper nesting, hidden files and
    files that are no images by their suffix do not matter.

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
    checks.whole(1, size=size)
    modes = [mode for count, mode in ((1, "L"), (3, "RGB")) if count == channels]
    if not modes:
        raise ValueError(f"channels must be 1 or 3, got {channels}")
    checks.whole(1, limit=1 if limit is None else limit)
    root = Path(path).expanduser().resolve()
    files = _image_files(root)[:limit]
    parts = [one.relative_to(root).parts for one in files]
    names = class_folders(root) if any(len(one) > 1 for one in parts) else []
    labels = [names.index(one[0]) if len(one) > 1 else len(names) for one in parts]
    return make_images(
        root.name, np.stack([_read(file, size, modes[0]) for file in files]), np.array(labels)
    )


def class_folders(path: str | Path) -> list[str]:
    """Names of the sub-folders that `image_folder` numbers, whatever images they hold."""
    inside = Path(path).expanduser().iterdir()
    return sorted(one.name for one in inside if one.is_dir() and not one.name.startswith("."))


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
        from PIL import Image, ImageOps
    try:
        with Image.open(file) as opened:
            image = ImageOps.exif_transpose(opened)
            if image.mode.startswith(("I", "F")):
                raise ValueError(f"pixels of mode {image.mode} have more than 8 bits")
            if "A" in image.mode or "transparency" in image.info:
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            square = image.convert(mode).resize(
                (size, size),
                Image.Resampling.BILINEAR,
                box=(left, top, left + side, top + side),
            )
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(
            f"{file} cannot be read as an image ({error}); remove or replace it"
        ) from error
    return np.asarray(square).reshape(size, size, -1).transpose(2, 0, 1)

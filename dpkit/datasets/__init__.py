"""Data sets with checksums: found in `$DPKIT_DATA`, in `data/cache`, or downloaded.

`digits` is always there; `load(name, split=...)` gives any image set in one form, `adult` a table,
`image_folder` the reader's own pictures. data/README.md has source, terms and checksums.
"""

from dpkit.datasets.fetch import DownloadFailed, download
from dpkit.datasets.folder import image_folder
from dpkit.datasets.images import (
    IMAGE_SETS,
    Images,
    cifar10,
    cifar100,
    digits,
    fashion_mnist,
    load,
    make_images,
    mnist,
)
from dpkit.datasets.inventory import status, verify
from dpkit.datasets.lookup import DataNotFound
from dpkit.datasets.tables import adult
from dpkit.datasets.toy import gaussian_ring

__all__ = [
    "IMAGE_SETS",
    "DataNotFound",
    "DownloadFailed",
    "Images",
    "adult",
    "cifar10",
    "cifar100",
    "digits",
    "download",
    "fashion_mnist",
    "gaussian_ring",
    "image_folder",
    "load",
    "make_images",
    "mnist",
    "status",
    "verify",
]

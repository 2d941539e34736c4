"""Data sets with checksums: found in `$DPKIT_DATA`, in `data/cache`, or downloaded.

`digits` is always there; `load(name, split=...)` gives any image set in one form, `image_folder`
the reader's own pictures. Of tables `census`, a simulated one, is always there; `adult` is UCI's,
`adult_8` eight columns of it, and `ADULT_8` makes network input of either. data/README.md has
source, terms and checksums.
"""

from dpkit.datasets.census import census, simulated_census
from dpkit.datasets.encoding import Binned, Categorical, TableEncoder
from dpkit.datasets.files import DataNotFound, DownloadFailed, download
from dpkit.datasets.images import (
    IMAGE_SETS,
    Images,
    cifar10,
    cifar100,
    digits,
    fashion_mnist,
    image_folder,
    load,
    make_images,
    mnist,
)
from dpkit.datasets.inventory import status, verify
from dpkit.datasets.tables import ADULT_8, adult, adult_8, adult_8_all

__all__ = [
    "ADULT_8",
    "IMAGE_SETS",
    "Binned",
    "Categorical",
    "DataNotFound",
    "DownloadFailed",
    "Images",
    "TableEncoder",
    "adult",
    "adult_8",
    "adult_8_all",
    "census",
    "cifar10",
    "cifar100",
    "digits",
    "download",
    "fashion_mnist",
    "image_folder",
    "load",
    "make_images",
    "mnist",
    "simulated_census",
    "status",
    "verify",
]

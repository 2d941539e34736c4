"""Descriptions of the data sets: folder names, files, checksums, origin and terms.

A file's sha256 is that of its plain, decompressed content, so that `x`, `x.gz` and `x.xz` verify
alike. A download's sha256 is that of the file or archive as it is served. data/README.md says where
each checksum was taken from.
"""

import difflib
from collections.abc import Sequence
from typing import NamedTuple

MOST_NAMED = 20  # known texts, in a message


class File(NamedTuple):
    """A file of a set: its plain name, its split, and the sha256 of its plain content."""

    name: str
    split: str  # "train" | "test"
    sha256: str


class Download(NamedTuple):
    """A download: one file, or a .tar.gz that has the set's files as members."""

    name: str  # appended to a base url
    sha256: str  # of the bytes as served
    size: int  # bytes as served


class DataSource(NamedTuple):
    """A data set. `folders` are the folder names accepted; downloads go to the first."""

    name: str
    folders: tuple[str, ...]
    files: tuple[File, ...]
    urls: tuple[str, ...]  # base urls, tried in turn
    downloads: tuple[Download, ...]
    terms: str
    origin: str
    shipped: str = ""  # the package that holds a set without folders, files or downloads

    def split(self, split: str) -> tuple[File, ...]:
        """The files of `split`, in the order in which they are read."""
        return tuple(file for file in self.files if file.split == split)


DIGITS = DataSource(
    name="digits",
    folders=(),
    files=(
        # sha256 of the kit's own 28x28 form (Images.checksum): scikit-learn ships the original.
        File(
            "train",
            "train",
            "e569ba87c1f95517c33fadcfdc78cd79b84682efc65add788a4edd2cc75038fe",
        ),
        File(
            "test", "test", "c3dedc047a665757a098d877505daed3ade87b1c579819cee4091ff116246d13"
        ),
    ),
    urls=(),
    downloads=(),
    terms="CC BY 4.0 (UCI); shipped with scikit-learn",
    origin="E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI, 1998, "
    "https://doi.org/10.24432/C50P49",
    shipped="scikit-learn",
)

CENSUS = DataSource(
    name="census",
    folders=(),
    files=(
        # ADULT_8.checksum of each split: the model draws the same persons on every machine.
        File(
            "train",
            "train",
            "4db8251d2267c28deb3767aec906ee0469051e6cf9385a9dd8fbfce80a6da4ea",
        ),
        File(
            "test", "test", "7a9aa6aeaa9f149509d379736faa3c1f4ff32a9ab84e36c64bc21605dd801486"
        ),
    ),
    urls=(),
    downloads=(),
    terms="MIT; simulated, of no real person",
    origin="dpkit's own simulated census, dpkit/datasets/census.py",
    shipped="dpkit",
)

# The files of MNIST's layout: two for training, two for testing.
IDX = tuple(
    f"{part}-{kind}-ubyte"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
)


def _idx_files(*sums: str) -> tuple[File, ...]:
    return tuple(
        File(*one) for one in zip(IDX, ("train", "train", "test", "test"), sums, strict=True)
    )


def _packed(*downloads: tuple[str, int]) -> tuple[Download, ...]:
    return tuple(
        Download(f"{name}.gz", *one) for name, one in zip(IDX, downloads, strict=True)
    )


def _cifar10_files(*sums: str) -> tuple[File, ...]:
    batches = [File(f"data_batch_{i}.bin", "train", one) for i, one in enumerate(sums[:-1], 1)]
    return (*batches, File("test_batch.bin", "test", sums[-1]))


MNIST = DataSource(
    name="mnist",
    folders=("mnist",),
    files=_idx_files(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    urls=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    downloads=_packed(
        ("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9_912_422),
        ("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881),
        ("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1_648_877),
        ("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542),
    ),
    terms="CC BY-SA 3.0 is commonly stated; the authors' page states none",
    origin="Y. LeCun, C. Cortes, C. J. C. Burges: The MNIST database of handwritten digits, 1998",
)

FASHION_MNIST = DataSource(
    name="fashion_mnist",
    folders=("fashion_mnist", "fashion-mnist"),
    files=_idx_files(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    urls=(
        "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    downloads=_packed(
        ("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26_421_880),
        ("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29_515),
        ("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4_422_102),
        ("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5_148),
    ),
    terms="MIT",
    origin="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, arXiv:1708.07747, 2017, "
    "https://github.com/zalandoresearch/fashion-mnist",
)

CIFAR10 = DataSource(
    name="cifar10",
    folders=("cifar10", "cifar-10-batches-bin"),
    files=_cifar10_files(
        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    ),
    urls=("https://www.cs.toronto.edu/~kriz/",),
    downloads=(
        Download(
            "cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            170_052_171,
        ),
    ),
    terms="none stated by the authors, who ask that the report be cited",
    origin="A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009, "
    "https://www.cs.toronto.edu/~kriz/cifar.html",
)

CIFAR100 = DataSource(
    name="cifar100",
    folders=("cifar100", "cifar-100-binary"),
    files=(
        File(
            "train.bin",
            "train",
            "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
        ),
        File(
            "test.bin",
            "test",
            "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
        ),
    ),
    urls=CIFAR10.urls,
    downloads=(
        Download(
            "cifar-100-binary.tar.gz",
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            168_513_733,
        ),
    ),
    terms=CIFAR10.terms,
    origin=CIFAR10.origin,
)

# UCI serves Adult's files plain: the checksum of a file is that of its download.
ADULT_DATA = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
ADULT_TEST = "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"
ADULT = DataSource(
    name="adult",
    folders=("adult",),
    files=(File("adult.data", "train", ADULT_DATA), File("adult.test", "test", ADULT_TEST)),
    urls=("https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",),
    downloads=(
        Download("adult.data", ADULT_DATA, 3_974_305),
        Download("adult.test", ADULT_TEST, 2_003_153),
    ),
    terms="CC BY 4.0",
    origin="B. Becker, R. Kohavi: Adult, UCI, 1996, https://doi.org/10.24432/C5XW20",
)

SOURCES = (DIGITS, CENSUS, MNIST, FASHION_MNIST, CIFAR10, CIFAR100, ADULT)


def source(name: str) -> DataSource:
    """The source called `name`. Raises ValueError, with the closest known name."""
    for candidate in SOURCES:
        if candidate.name == name:
            return candidate
    raise ValueError(
        f"unknown data set {name!r}; {closest(name, [one.name for one in SOURCES])}"
    )


def closest(value: object, known: Sequence[str]) -> str:
    """The known texts for an error message, led by the closest one if one is close."""
    folded = {one.casefold(): one for one in reversed(known)}
    near = difflib.get_close_matches(str(value).casefold(), folded, n=1)
    hint = f"did you mean {folded[near[0]]!r}? " if near else ""
    more = len(known) - MOST_NAMED
    others = f" and {more:,} others" if more > 0 else ""
    return f"{hint}known: {', '.join(known[:MOST_NAMED])}{others}"

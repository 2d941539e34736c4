"""A user's data as tensors with the example first: whole, finite and of one length.

The data's own mean would carry each record into every batch: features are standardised by public
constants, or by a noised mean, one more release of the budget.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import prod, sqrt
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from dpkit.common import checks
from dpkit.datasets import Images
from dpkit.private.plan import Plan
from dpkit.synthesizers import records
from dpkit.training import Data, noised
from dpkit.training.batches import Rows, not_finite, over
from dpkit.training.gradients.independence import Extent, extents, meet

SMALL = 2**30  # bytes of features that a GPU keeps as a whole
COLUMNS = 16  # of labels, each of which is looked at
FAR = 10  # of images as floats: neither in [-1, 1] nor standardised
NEIGHBOURS = 64  # first items of a Dataset, of which none may lie in the first one's memory
ITEMS = (
    "the items of the Dataset must be tensors, arrays or numbers, of images by ToTensor(); of "
    "dictionaries give the columns as arrays, such as data['image'], data['label']"
)

Transform = Callable[[Tensor], Tensor]


def signed(pixels: Tensor) -> Tensor:
    """Pixels 0..255 as floats in [-1, 1], the range of tanh."""
    return pixels.to(torch.get_default_dtype()) / 127.5 - 1


def tensors(*data: Any) -> tuple[Tensor, ...]:
    """The data as tensors, one for each part, such as (x, y). Nothing is copied without need.

    Args:
        data: tensors, numpy arrays (memory-mapped ones stay where they are), pandas columns, lists
            of numbers; or one `Images`, one map-style Dataset (read once, random draws included)
            or one DataLoader, whose dataset is read, item by item through its collate_fn: the
            price holds for Poisson sampling alone. One-dimensional integers become int64.

    Raises:
        TypeError: data of another kind, such as text, a path, a masked or a sparse array.
        ValueError: no records, parts of different length, numbers that are NaN or infinite, or
            whole ones beyond int64.
    """
    parts = _parts(data)
    names = ("x", "y", *(f"data[{i}]" for i in range(2, len(parts))))[: len(parts)]
    found = tuple(map(_tensor, names, parts))
    lengths = dict(zip(names, map(len, found), strict=True))
    if not any(lengths.values()):
        raise ValueError(f"there are no records: {lengths}")
    if len(set(lengths.values())) != 1:
        raise ValueError(
            f"all parts of the data must have equally many records, got {lengths}"
        )
    for name, tensor in zip(names, found, strict=True):
        if (row := not_finite(tensor, given=None)) is not None:
            raise ValueError(
                f"{name} holds NaN or infinite numbers (first in record {row}): drop such records "
                f"or fill them in first; {checks.TO_YOURSELF}"
            )
    return found


def held_in(*data: Any) -> list[Any]:
    """The data as given; of data sets, the parts with as many rows as items."""
    found = []
    for x in (getattr(one, "dataset", one) for one in data):
        parts: list[Any] = tree_leaves(vars(x)) if is_dataset(x) else [x]
        found += held_in(
            *(part for part in parts if isinstance(part, Dataset) and part is not x)
        )
        found += [
            y for y in parts if y is x or getattr(y, "shape", ())[:1] == (len(cast(Any, x)),)
        ]
    return found


def extreme_places(parts: tuple[Tensor, ...]) -> Tensor:
    """Indices of records: the first, and those with the smallest and the largest label."""
    places = {0}
    for part in parts:  # labels are whole numbers, and floats of one dimension
        if part.dtype != torch.bool and (part.ndim == 1 or not part.is_floating_point()):
            low = high = part.reshape(len(part), -1)
            if low.shape[1] > COLUMNS:
                low, high = low.amin(1, keepdim=True), low.amax(1, keepdim=True)
            places |= {*low.argmin(0).tolist(), *high.argmax(0).tolist()}
    return torch.tensor(sorted(places))


def _parts(data: tuple[Any, ...]) -> tuple[Any, ...]:
    if not data:
        raise TypeError("no data were given: pass tensors or arrays with the example first")
    first, *others = data
    collate = None
    if isinstance(first, DataLoader):
        warnings.warn(
            "the DataLoader's dataset is read, item by item through collate_fn; its sampler, "
            "shuffling and batch size are not used, as the price is of Poisson sampling",
            stacklevel=5,
        )
        first, collate = first.dataset, first.collate_fn
    if not (isinstance(first, Images) or is_dataset(first)):
        return data
    if any(part is not None for part in others):
        raise TypeError("a Dataset, DataLoader or Images holds its own labels: leave y out")
    return (first.pixels, first.labels) if isinstance(first, Images) else _read(first, collate)


def is_dataset(x: Any) -> bool:
    """Torch's, or another class with a length and items by index that is no array."""
    items = all(hasattr(type(x), name) for name in ("__getitem__", "__len__"))
    known = ("__array__", "dtype", "iloc", "columns")  # of arrays and of frames
    array = any(hasattr(x, name) for name in known) or isinstance(x, Sequence | Mapping)
    return isinstance(x, Dataset) or (items and not array)


def _read(dataset: Any, collate: Any) -> tuple[Any, ...]:
    """All items of a map-style data set, each read once, and collated by itself."""
    if isinstance(dataset, Subset) and len(set(dataset.indices)) < len(dataset.indices):
        warnings.warn(
            "the Subset has an index twice, and each place counts as a record: the price is that "
            "of one place, not of an example",
            stacklevel=6,
        )
    usual = torch.utils.data.default_collate, torch.utils.data.default_convert
    own = collate not in (None, *usual)
    if type(dataset) is TensorDataset and not own:
        return dataset.tensors
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise TypeError(
            "an IterableDataset cannot be sampled record by record; give a map-style Dataset, "
            "which has a length and items by index"
        )
    if not len(dataset):
        raise ValueError("there are no records: the Dataset is empty")
    items = [dataset[index] for index in range(len(dataset))]
    leaves = [leaf for item in items[:NEIGHBOURS] for leaf in tree_leaves(item)[:1]]
    _warn_of_overlap("items of the Dataset", extents(*leaves[:1]), extents(*leaves[1:]))
    try:
        batches = [collate([item]) for item in items] if own else [usual[0](items)]
        rows = [tuple(x) if isinstance(x, list | tuple) else (x,) for x in batches]
        if all(isinstance(part, Tensor) for row in rows for part in row):
            found = tuple(map(torch.cat, zip(*rows, strict=True))) if own else rows[0]
            if own and any(len(part) != 1 for row in rows for part in row):
                raise RuntimeError("collate_fn must make one row of one item, batch first")
            return found
    except TypeError as error:
        raise TypeError(f"{ITEMS} ({error})") from error
    except RuntimeError as error:
        raise ValueError(
            f"the items of the Dataset must be of one shape: crop or pad them ({error})"
        ) from error
    raise TypeError(f"{ITEMS}; in place of (x, (a, b)) give (x, a, b)")


def _warn_of_overlap(what: str, some: Sequence[Extent], others: Sequence[Extent]) -> None:
    if meet(some, others):
        warnings.warn(
            f"{what} overlap in memory (windows, or one row repeated), and each counts as a "
            "record: the price is that of one row, not of all that share a number",
            stacklevel=7,
        )


def _tensor(name: str, part: Any) -> Tensor:
    checks.array(**{name: part})
    if part is None or isinstance(part, dict | tuple | set):
        raise TypeError(
            f"{name} must be a tensor or array, got {type(part).__name__}: give each part of the "
            "data by itself, such as x, y"
        )
    if not isinstance(part, Tensor):
        try:
            array = part if isinstance(part, np.ndarray) else np.asarray(part)
        except ValueError as error:
            raise ValueError(f"the rows of {name} must be of one shape: {error}") from error
        if array.dtype.kind not in "biuf":
            remedy = "encode labels as 0..k-1 with a fixed, public list of classes"
            if isinstance(part, str | Path):
                remedy = "read the file first, a folder by dpkit.datasets.image_folder"
            elif hasattr(part, "columns"):
                remedy = (
                    f"give columns of numbers, as {name}[columns].to_numpy().astype('float32') "
                    "(PrivateTable takes texts and categories)"
                )
            elif not array.ndim:
                remedy = (
                    "give a tensor, an array or a Dataset with a length and items by index"
                )
            raise TypeError(
                f"{name} must hold numbers, got {array.dtype} ({type(part).__name__}): {remedy}"
            )
        if any(stride < 0 for stride in array.strides) or not array.dtype.isnative:
            array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        part = over(array)
    if part.is_complex():
        raise TypeError(f"{name} must be a tensor of real numbers, got {part.dtype}")
    if not part.ndim:
        raise ValueError(f"{name} must have the example first, got a single number")
    part = part.detach()  # its first two rows are as far apart as any two
    _warn_of_overlap(f"rows of {name}", extents(part[:1]), extents(part[1:]))
    # torch computes little with these
    if part.dtype in (torch.uint16, torch.uint32, torch.uint64):
        part = part.to(torch.int32 if part.dtype == torch.uint16 else torch.int64)
        if bool((part < 0).any()):
            raise ValueError(
                f"{name} holds whole numbers beyond int64: give them as floats, or fewer; "
                f"{checks.TO_YOURSELF}"
            )
    return part.long() if part.ndim == 1 and not part.is_floating_point() else part


def checksum(parts: tuple[Tensor, ...]) -> str:
    """SHA-256 of type, shape and bytes of all parts. It describes private data."""
    plain = (x.view(torch.int16) if x.dtype == torch.bfloat16 else x for x in parts)
    return records.checksum(*(x.numpy(force=True) for x in plain))


def labels_for(classes: int | None, size: int, parts: tuple[Tensor, ...]) -> Tensor:
    """Labels (records,) int64; zeros for data without (ValueError: they do not fit `classes`)."""
    if len(parts) > 2:
        raise ValueError(f"fit takes x and y alone, got {len(parts)} parts of data")
    if classes is None and len(parts) > 1:
        raise ValueError(
            "y was given, but classes is None: set classes, or leave y out (of Images pass "
            "images.pixels alone)"
        )
    if classes is None:
        return torch.zeros(size, dtype=torch.int64)
    if len(parts) < 2:
        raise ValueError(
            f"classes is {classes}, but no y was given: fit(x, y), or classes=None"
        )
    return torch.from_numpy(
        records.checked_labels(parts[1], classes=classes, records=size, name="y")
    )


def data_for(
    features: Tensor,
    labels: Tensor,
    *,
    like: Tensor,
    public_size: int,
    transform: Transform | None = None,
    whole_numbers: bool = True,
) -> Data:
    """Data for `dpkit.training`, of the device and type of `like`, a parameter.

    Small features move to its GPU. Without a transform, images of bytes, (records, ..., height,
    width), become `signed`, by type and shape, never by a value. Whole numbers in rows stay, as
    tokens do; for a GAN they become floats.
    """
    if features.nbytes <= SMALL:
        features = features.to(like.device)
    own = transform
    if transform is None and features.dtype == torch.uint8 and features.ndim > 2:
        own = signed
        records.warn_of_dark(features)
    change = partial(changed, transform=own, dtype=like.dtype, whole_numbers=whole_numbers)
    as_they_are = (like.dtype, torch.int64) if whole_numbers else (like.dtype,)
    plain = own is None and features.dtype in as_they_are
    return Data(features, labels.to(features.device), public_size, None if plain else change)


def changed(
    rows: Tensor, *, transform: Transform | None, dtype: torch.dtype, whole_numbers: bool
) -> Tensor:
    """A batch's features, in the network's type but for whole numbers that stay."""
    rows = rows if transform is None else transform(rows)
    stays = whole_numbers and not rows.is_floating_point() and rows.dtype != torch.bool
    return rows.long() if stays else rows.to(dtype)


def examples(data: Data, *, rng: torch.Generator, memory: Sequence[Extent]) -> Tensor:
    """Four records as a step is given them, or ValueError."""
    few = torch.arange(4, device=rng.device) % len(data.features)
    return Rows(data, rng=rng, memory=memory).at(few)[0]


def warn_of_range(real: Tensor, fakes: Tensor, *, given: Tensor) -> None:
    """Warn of images, or bytes in rows, in another range than the generator's."""
    remedy = ""
    if (real.ndim > 2 or given.dtype == torch.uint8) and real.abs().max() > FAR:
        remedy = "give uint8 of shape (records, channels, height, width), or x / 127.5 - 1"
    elif real.ndim > 2 and real.min() >= 0 and real.max() <= 1 and fakes.min() < 0:
        remedy = "give 2 * x - 1, or let the generator end in a sigmoid"
    if remedy:
        warnings.warn(
            f"the data's numbers are not in the range that the generator makes, such as [-1, 1]: "
            f"{remedy}; {checks.TO_YOURSELF}",
            stacklevel=3,
        )


LEAST = 0.05  # deviation, of half the range: noise may leave less
AT_ONCE = 2**22  # numbers that are added up together


@dataclass(frozen=True)
class Standardised:
    """(x - mean) / std of each row, a `transform` of `Private` and of `PrivateGan`.

    Args:
        mean, std: numbers, or one for each feature, as tuples or nested tuples of a row's shape;
            std > 0. They must not follow from the records.

    Raises:
        ValueError: std is not > 0.
    """

    mean: Any
    std: Any

    def __post_init__(self) -> None:
        if not (torch.as_tensor(self.std) > 0).all():
            raise ValueError(f"std must be > 0, got {self.std!r:.80}")

    def __call__(self, rows: Tensor) -> Tensor:
        rows = rows if rows.is_floating_point() else rows.to(torch.get_default_dtype())
        mean, std = (torch.as_tensor(x).to(rows) for x in (self.mean, self.std))
        return (rows - mean) / std


@dataclass(frozen=True)
class NoisyStandardised:
    """As `Standardised`, by each feature's noisy mean and deviation, which the budget covers.

        from dpkit.private import NoisyStandardised

        transform = NoisyStandardised(low=0, high=100)  # of Private or PrivateGan

    The run's first release: each record, cut to [low, high], adds its values and their squares,
    scaled to [-1, 1], to one sum of 2 d numbers, which gets Gaussian noise (Dwork, Roth 2014,
    Thm A.1; priced by its exact profile). A record moves it by at most sqrt(2 d) in L2 norm,
    under add-remove; the mean is off by noise_multiplier sqrt(2 d) / records, in units of half the
    range. For test data and samples, `private.transform` and a fitted `gan.transform_` are then
    `Standardised` by the released numbers, which a saved file holds too.

    Args:
        low, high: public bounds of a feature, for all or one for each; not read off the records.
        noise_multiplier: of the release, noise standard deviation / sensitivity.

    Raises:
        ValueError: low is not below high, or noise_multiplier not > 0.
    """

    low: Any
    high: Any
    noise_multiplier: float = 10.0

    def __post_init__(self) -> None:
        checks.positive(noise_multiplier=self.noise_multiplier)
        if not (torch.as_tensor(self.low) < torch.as_tensor(self.high)).all():
            raise ValueError(
                f"low must be below high, got {self.low!r:.80} and {self.high!r:.80}"
            )

    @property
    def scaling_noise(self) -> float:
        """Of the release, as the plan of a run holds it."""
        return self.noise_multiplier

    def _released(
        self, features: Tensor, *, public_size: int, rng: torch.Generator
    ) -> Standardised:
        """The transform by one release of all features (records, ...)."""
        low, high = (torch.as_tensor(x, dtype=torch.float64) for x in (self.low, self.high))
        middle, half = (low + high) / 2, (high - low) / 2
        size = prod(features.shape[1:])
        total = torch.zeros(2, *features.shape[1:], dtype=torch.float64)
        for part in features.split(max(AT_ONCE // max(size, 1), 1)):
            unit = ((part.cpu().double() - middle) / half).clamp(-1, 1)
            total += torch.stack((unit.sum(0), (2 * unit.square() - 1).sum(0)))
        std = self.noise_multiplier * sqrt(2 * size)
        (noisy,) = noised([total.to(rng.device)], noise_std=std, rng=rng)
        mean, square = (noisy / public_size).cpu()
        spread = ((square + 1) / 2 - mean.square()).clamp(min=LEAST**2).sqrt()
        return Standardised(
            _tuples(middle + half * mean.clamp(-1, 1)),
            _tuples((half * spread).expand(mean.shape)),
        )


def _tuples(values: Tensor) -> Any:
    """Nested tuples of a tensor, which can be compared and stored."""
    return tuple(map(_tuples, values)) if values.ndim else float(values)


def settled(
    transform: Any, features: Tensor, *, public_size: int, rng: torch.Generator
) -> Any:
    """A transform as it is, or by its release (`scaling_noise` of the plan)."""
    if not isinstance(transform, NoisyStandardised):
        return transform
    return transform._released(features, public_size=public_size, rng=rng)


def published(transform: Any, plan: Plan) -> dict[str, Any]:
    """The released numbers of a transform, if any, for a saved file."""
    return {} if plan.scaling_noise is None else {"standardised": asdict(transform)}


def left_behind(rows: Tensor) -> Tensor:
    """Stand for a transform that a pickled GAN left behind (ValueError)."""
    raise ValueError(
        "transform stays behind when a fitted PrivateGan is pickled, as it may hold records: "
        "set_params(transform=...) before another fit"
    )

"""The data of a run: what is refused before the first step, and what a step is given of a batch."""

import numpy as np
import pytest
import torch
from tiny import Plain, networks
from torch import Tensor

from dpkit.privacy.sampling import ShuffledBatches
from dpkit.training import Checkpoints, Data, Record, generator_on, train
from dpkit.training.batches import Rows

CPU = torch.device("cpu")
SIZE = 12
SETTINGS = Plain(sampling=ShuffledBatches(3))  # eight steps
OWN = torch.empty(100, 3, dtype=torch.float64)  # memory that a transform writes to again


def rng() -> torch.Generator:
    return generator_on(CPU, reproducible_seed=0)


def labels(size: int = SIZE) -> Tensor:
    return torch.zeros(size, dtype=torch.int64)


def data(features=None, own=None, transform=None) -> Data:
    features = torch.rand(SIZE, 3) if features is None else features
    return Data(features, labels() if own is None else own, SIZE, transform)


def to_unit(rows: Tensor) -> Tensor:
    """Bytes as numbers in [-1, 1]."""
    return rows.float() / 127.5 - 1


def keep(gan, features, labels, *, settings, index, rng):
    """A step that only keeps its batches, on the discriminator."""
    gan.discriminator.given.append((features, labels))
    return Record(index, len(features), 0.0, None, 0.0)


def batches(of: Data) -> list[tuple[Tensor, Tensor]]:
    gan, given = networks(), []
    vars(gan.discriminator)["given"] = given
    list(train(keep, gan, of, settings=SETTINGS, rng=rng()))
    return given


def same(first, second) -> bool:
    pairs = [pair for both in zip(first, second, strict=True) for pair in zip(*both, strict=True)]
    return len(pairs) == 16 and all(torch.equal(*pair) for pair in pairs)


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (SIZE, 2, 2), dtype=np.uint8)


def test_arrays_are_taken_from_disk_row_by_row(images, tmp_path):
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "labels.npy", np.arange(SIZE))
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    own = np.load(tmp_path / "labels.npy", mmap_mode="r")
    found = batches(data(mapped, own, to_unit))
    assert same(found, batches(data(to_unit(torch.from_numpy(images)), torch.arange(SIZE))))
    assert Rows(data(mapped, own, to_unit), rng=rng()).data.features.dtype == torch.uint8


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("row", [0, 7, SIZE - 1])
@pytest.mark.parametrize("at_once", [1, 5, 2**24])
def test_a_record_that_is_not_finite_is_refused_by_its_row(monkeypatch, wrong, row, at_once):
    monkeypatch.setattr("dpkit.training.batches.AT_ONCE", at_once)
    features = torch.rand(SIZE, 3)
    features[row, 1] = wrong
    with pytest.raises(ValueError, match=rf"NaN or infinite \(row {row}, counted from 0\)"):
        batches(data(features))
    whole = batches(data(features, transform=torch.nan_to_num))
    assert all(rows.isfinite().all() for rows, _ in whole)  # what a transform mends is finite


def test_nothing_is_drawn_before_a_record_is_refused(tmp_path):
    features, source = torch.full((SIZE, 3), torch.nan), rng()
    before = source.get_state()
    for place in (None, Checkpoints(tmp_path / "run")):
        told = {"settings": SETTINGS, "rng": source, "checkpoint": place}
        with pytest.raises(ValueError, match="row 0"):
            next(train(keep, networks(), data(features), **told))
    assert torch.equal(before, source.get_state())
    assert list(tmp_path.iterdir()) == []


def test_what_a_transform_makes_infinite_is_refused():
    features = torch.ones(SIZE, 3)
    features[4] = 0
    with pytest.raises(ValueError, match="row 4, counted from 0, after transform"):
        batches(data(features, transform=torch.log))


@pytest.mark.parametrize(
    "mixing",
    [
        *(lambda x: x - x.mean(0), lambda x: x / x.abs().max(), lambda x: x - x[:1]),
        *(lambda x: x.roll(1, 0), lambda x: torch.sub(x, x.mean(0), out=OWN[: len(x)])),
        *(lambda x: x / len(x), lambda x: (x - x.min()) / (x.max() - x.min())),
        lambda x: torch.from_numpy(np.random.default_rng().random(x.shape)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_transform_in_which_examples_meet_is_refused(mixing, dtype):
    features = torch.randint(256, (SIZE, 3), generator=torch.Generator().manual_seed(0)).to(dtype)
    with pytest.raises(ValueError, match="transform gives an example another value where"):
        batches(data(features, transform=lambda x: mixing(x.double())))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_a_range_that_several_records_span_is_refused(dtype):
    """To replace one of them by another value of its batch would change nothing."""
    features = torch.tensor([[3, 200], [200, 3], [3, 200], [200, 3]]).repeat(SIZE // 4, 1)
    with pytest.raises(ValueError, match="transform gives an example another value where"):
        batches(data(features.to(dtype), transform=lambda x: x.double() / x.max()))


def test_a_transform_is_asked_again_later():
    calls = []

    def later(rows: Tensor) -> Tensor:
        calls.append(len(rows))
        return rows - rows.mean() if len(calls) > 8 else rows

    with pytest.raises(ValueError, match="transform gives an example another value"):
        batches(data(transform=later))


def test_random_transforms_draw_the_same_whether_they_are_checked_or_not():
    def flipped(rows: Tensor) -> Tensor:
        return torch.where(torch.rand(len(rows), 1) < 0.5, rows, rows.flip(1))

    before = torch.get_rng_state()
    features = torch.arange(SIZE * 3.0).view(SIZE, 3)
    first = batches(data(features, transform=flipped))
    torch.set_rng_state(before)
    for (rows, _), (own, _) in zip(first, batches(data(features)), strict=True):
        assert torch.equal(rows, flipped(own))


def test_a_transform_may_work_in_place(tmp_path):
    features = torch.rand(SIZE, 3)
    np.save(tmp_path / "features.npy", features.numpy())
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    for given in (features.clone(), mapped):
        found = batches(data(given, transform=lambda x: x.mul_(2)))
        assert same(found, batches(data(2 * features)))
        assert np.array_equal(given, features.numpy())


@pytest.mark.parametrize("made", [lambda x: x[:0], lambda x: x.numpy(), lambda x: x.sum()])
def test_a_transform_returns_a_row_for_each_example(made):
    rows = Rows(data(torch.rand(1, 3), labels(1), made), rng=rng())
    with pytest.raises(ValueError, match="a tensor with a row for each of 1 examples, got"):
        rows.at(torch.arange(1))


LOADER = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(SIZE, 3)))
BYTES = torch.ones(SIZE, 3, dtype=torch.uint8)
OF_TYPE = [
    ({"data": LOADER}, r"data must be a dpkit.training.Data, got DataLoader: .*give"),
    ({"data": LOADER.dataset}, "got TensorDataset"),
    ({"data": data(object())}, "data.features must be a tensor or a numpy array"),
    ({"data": data(np.array(["a"] * SIZE))}, "an array of <U1"),
    ({"data": data([[0.0]] * SIZE)}, "data.features must be a tensor or"),
    ({"settings": {"steps": 3}}, "settings must have sampling .* got dict without"),
    ({"rng": 0}, "rng must be a torch.Generator, got int"),
]
OF_VALUE = [
    (data(own=labels(SIZE - 1)), r"label for each record, got .* \(11,\)"),
    (data(own=torch.tensor(0)), "a label for each record"),
    (data(own=labels().int()), r"int64, got torch.int32; call long\(\)"),
    (data(own=labels().double()), "data.labels must be int64"),
    (data(torch.rand(SIZE, 3, device="meta")), "lie on meta and rng on"),
    (data(own=labels().to("meta")), "data.labels lie on meta and rng on"),
    (data(BYTES), "are torch.uint8, which networks do not take; give Data a transform"),
    (data(torch.rand(SIZE, 3).half()), "data.features are torch.float16"),
]


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        *((changed, TypeError, words) for changed, words in OF_TYPE),
        *(({"data": wrong}, ValueError, words) for wrong, words in OF_VALUE),
    ],
)
def test_what_does_not_fit_is_refused_with_the_remedy(changed, error, message):
    given = {"data": data(), "settings": SETTINGS, "rng": rng()} | changed
    with pytest.raises(error, match=message):
        next(train(keep, networks(), given.pop("data"), **given))


def test_rows_move_to_the_device_before_they_are_transformed(monkeypatch, images):
    """Torch's meta device stands for a GPU, and pinned memory for any other."""
    monkeypatch.setattr(Tensor, "pin_memory", lambda rows: rows)
    rows = Rows(data(images, transform=to_unit), rng=rng())
    rows._device = torch.device("meta")
    monkeypatch.setattr("dpkit.training.batches.moved_by", lambda run, rows, before: None)
    features, own = rows.at(torch.tensor([1, 3, 5]))
    assert features.is_meta
    assert own.is_meta
    assert (features.shape, features.dtype) == ((3, 2, 2), torch.float32)


def test_rows_that_nobody_drew_are_not_read():
    """Data larger than memory: of what is mapped, a batch reads its own rows."""
    seen = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs or {})
            if isinstance(out, Tensor) and func is torch.Tensor.__getitem__:
                seen.append(len(out))
            return out

    features = torch.rand(SIZE, 3).as_subclass(Watched)
    Rows(data(features), rng=rng()).at(torch.tensor([1, 3]))
    assert seen == [2]

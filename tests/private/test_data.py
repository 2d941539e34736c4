"""What a user has as data becomes tensors, or is refused with a sentence."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array, csr_matrix
from torch.utils.data import ChainDataset, DataLoader, Dataset, Subset, TensorDataset

from dpkit import datasets
from dpkit.private.data import checksum, data_for, examples, labels_for, signed, tensors

X, Y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 1, 0], dtype=np.int32)
Y4 = torch.zeros(4, dtype=torch.int64)


class Squares(Dataset):
    def __init__(self, item=lambda i: (torch.full((2,), float(i)), i % 2)):
        self.item = item

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return self.item(index)


def test_arrays_lists_and_series_are_taken_and_labels_become_int64():
    for y in (Y, Y.tolist(), pd.Series(Y), torch.tensor(Y), Y.astype(np.uint8)):
        x, labels = tensors(X, y)
        assert x.tolist() == X.tolist()
        assert labels.dtype == torch.int64
        assert labels.tolist() == Y.tolist()
    for rows in (X[::-1], X.astype(">f4")):
        assert tensors(rows)[0].tolist() == rows.tolist()


def test_a_memory_mapped_array_is_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    (x,) = tensors(mapped)
    assert x.data_ptr() == mapped.ctypes.data


def test_a_dataset_is_read_once():
    seen = []

    def item(index):
        seen.append(index)
        return torch.full((2,), float(index)), index % 2

    x, y = tensors(Squares(item))
    assert seen == [0, 1, 2, 3, 4]
    assert x[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert y.tolist() == [0, 1, 0, 1, 0]
    (alone,) = tensors(Squares(lambda index: torch.zeros(2)))
    assert alone.shape == (5, 2)


def test_of_a_data_loader_the_dataset_is_taken_and_that_is_said():
    held = TensorDataset(torch.tensor(X), torch.tensor(Y))
    with pytest.warns(UserWarning, match="batch size and collate_fn are not used"):
        x, _ = tensors(DataLoader(held, batch_size=2, shuffle=True))
    assert x.tolist() == X.tolist()


def test_the_kits_own_images_are_taken():
    images = datasets.digits()
    x, y = tensors(images)
    assert x.shape == (1437, 1, 28, 28)
    assert x.dtype == torch.uint8
    assert y.tolist() == images.labels.tolist()


@pytest.mark.parametrize(("given", "taken"), [("u2", torch.int32), ("u4", torch.int64)])
def test_whole_numbers_with_which_torch_computes_little_become_wider(given, taken):
    (numbers,) = tensors(np.array([[0, 1], [2, np.iinfo(given).max]], dtype=given))
    assert numbers.dtype == taken
    assert numbers.tolist() == [[0, 1], [2, np.iinfo(given).max]]


def test_bytes_become_floats_and_other_data_stay():
    pixels = torch.tensor([[0, 255]], dtype=torch.uint8)
    of = partial(data_for, labels=Y4[:1], like=torch.zeros(1), public_size=1)
    found = of(pixels).transform
    assert found is not None
    assert found(pixels).tolist() == signed(pixels).tolist() == [[-1, 1]]
    assert of(torch.zeros(1, 2)).transform is None


def test_images_as_floats_up_to_255_are_warned_of_once_and_others_and_tables_are_not(recwarn):
    def shape_of(features, transform=None):
        data = data_for(features, Y4, like=torch.zeros(1), public_size=4, transform=transform)
        return tuple(examples(data, rng=torch.Generator().manual_seed(0), memory=()).shape[1:])

    pixels = torch.arange(256.0).reshape(4, 1, 8, 8)
    with pytest.warns(UserWarning, match=r"far outside.*uint8 images.*keep it to") as seen:
        assert shape_of(pixels) == (1, 8, 8)
    assert len(seen) == 1
    shape_of(pixels, transform=signed)
    for other in (signed(pixels), pixels.byte(), pixels / 40 - 3, pixels.reshape(4, 64)):
        shape_of(other)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        ((), TypeError, "no data were given"),
        ((pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}),), TypeError, "DataFrame's numeric columns"),
        (((X, Y),), TypeError, "each part of the data by itself"),
        (({"x": X},), TypeError, "got dict"),
        (([[1.0], [1.0, 2.0]],), ValueError, "one shape"),
        ((None, Y), TypeError, "got NoneType"),
        ((X, ["cat", "dog", "dog", "cat"]), TypeError, "number labels from 0"),
        ((X, np.array([None, 1, 2, 3], dtype=object)), TypeError, "not numbers"),
        ((X, Y[:3]), ValueError, "equally many records"),
        *((none, ValueError, "there are no records") for none in ((X[:0],), (X[:0], Y[:0]), ([],))),
        ((X, Y[:0]), ValueError, "equally many records"),
        (("pictures",), TypeError, "not numbers.*from a folder by dpkit.datasets.image_folder"),
        ((Path("pictures"),), TypeError, "from a folder by dpkit.datasets.image_folder"),
        ((np.ma.masked_array(X, X == 7),), TypeError, "x is a masked array"),
        ((X, np.ma.masked_array(Y, Y == 1)), TypeError, "y is a masked array"),
        *(((of(X),), TypeError, r"x is sparse.*toarray\(\)") for of in (csr_matrix, csr_array)),
        ((np.array(3.0),), ValueError, "example first"),
        ((np.where(X == 7, np.nan, X),), ValueError, "first in record 2"),
        ((np.where(X == 0, np.inf, X),), ValueError, "NaN or infinite"),
        ((X * 1j,), TypeError, "not numbers"),
        ((torch.tensor(X * 1j),), TypeError, "real numbers"),
        ((torch.eye(4).to_sparse(),), TypeError, r"x is sparse.*to_dense\(\)"),
        ((TensorDataset(torch.zeros(0, 2)),), ValueError, "there are no records"),
        ((Subset(Squares(), []),), ValueError, "there are no records"),
        ((ChainDataset([]),), TypeError, "IterableDataset"),
        ((Squares(lambda index: {"x": 1}),), TypeError, "dictionaries"),
        ((Squares(lambda index: object()),), TypeError, "ToTensor"),
        ((Squares(lambda index: torch.zeros(index)),), ValueError, "one shape"),
        ((Squares(), Y), TypeError, "leave y out"),
    ],
)
def test_other_data_are_refused_with_a_sentence(data, kind, words):
    with pytest.raises(kind, match=words):
        tensors(*data)


@pytest.mark.parametrize(
    ("classes", "y", "words"),
    [
        (None, torch.tensor([0, 1]), "classes is None"),
        (2, None, "no y was given"),
        (2, torch.tensor([0.0, 1.0]), "must be integers"),
        (2, torch.tensor([[0], [1]]), "must be integers"),
        (2, torch.tensor([0, 2]), "must lie in"),
        (2, torch.tensor([-1, 1]), "must lie in"),
    ],
)
def test_labels_that_do_not_fit_the_classes_are_refused(classes, y, words):
    with pytest.raises(ValueError, match=words):
        labels_for(classes, 2, (torch.zeros(2, 3), *([] if y is None else [y])))


def test_the_checksum_is_of_content_type_and_shape():
    (x,) = tensors(X)
    assert checksum((x,)) == checksum((x.clone(),))
    others = [(x.float(),), (x.T.contiguous(),), (x + 1,), (x, x)]
    assert checksum((x,)) not in [checksum(other) for other in others]

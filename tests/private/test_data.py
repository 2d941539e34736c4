"""What a user has as data becomes tensors, or is refused with a sentence."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from scipy.sparse import csr_array, csr_matrix
from torch.utils.data import ChainDataset, DataLoader, Dataset, Subset, TensorDataset

from dpkit import datasets
from dpkit.private import data as data_module
from dpkit.private.data import checksum, data_for, examples, signed, tensors, warn_of_range

X, Y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 1, 0], dtype=np.int32)
X4, Y4 = torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)


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
    with pytest.warns(UserWarning, match="shuffling and batch size are not used"):
        x, _ = tensors(DataLoader(held, batch_size=2, shuffle=True))
    assert x.tolist() == X.tolist()
    loader = DataLoader(held, collate_fn=lambda rows: (rows[0][0][None] + 7, rows[0][1][None]))
    with pytest.warns(UserWarning, match="item by item through collate_fn"):
        x, y = tensors(loader)
    assert (x.tolist(), y.tolist()) == ((X + 7).tolist(), Y.tolist())
    for wrong in (lambda rows: (rows[0][0],), lambda rows: rows[0][0][None, :2].expand(2, 2)):
        with pytest.raises(ValueError, match="one row of one item"):
            tensors(DataLoader(held, collate_fn=wrong))


class Windows:
    """As a data set of another library: no class of torch's, and its items share memory."""

    def __init__(self, step):
        self.step, self.held = step, torch.arange(40.0)

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return self.held[self.step * index :][:4], index


def test_items_of_another_library_are_read_and_those_that_share_numbers_are_warned_of(recwarn):
    x, y = tensors(Windows(4))
    assert x[:, 0].tolist() == [4 * index for index in y.tolist()]
    assert not recwarn.list
    with pytest.warns(UserWarning, match="items of the Dataset overlap in memory"):
        tensors(Windows(2))


def test_the_kits_own_images_are_taken():
    images = datasets.digits()
    x, y = tensors(images)
    assert (x.shape, x.dtype) == ((1437, 1, 28, 28), torch.uint8)
    assert y.tolist() == images.labels.tolist()


@pytest.mark.parametrize("given", ["u2", "u4", "u8"])
def test_whole_numbers_with_which_torch_computes_little_become_wider(given):
    most = min(np.iinfo(given).max, 2**63 - 1)
    (numbers,) = tensors(np.array([[0, 1], [2, most]], dtype=given))
    assert numbers.dtype == (torch.int32 if given == "u2" else torch.int64)
    assert numbers.tolist() == [[0, 1], [2, most]]
    with pytest.raises(ValueError, match=r"beyond int64.*keep it to yourself"):
        tensors(np.array([[2**63]], dtype="u8"))


def read(features, *, whole_numbers=True, transform=None):
    """Four records as a step is given them."""
    more = {"transform": transform, "whole_numbers": whole_numbers}
    data = data_for(features, Y4, like=torch.zeros(1), public_size=4, **more)
    return examples(data, rng=torch.Generator().manual_seed(0), memory=())


def test_type_and_shape_decide_how_numbers_are_read_and_no_value_does():
    pixels = torch.arange(0, 256, 17, dtype=torch.uint8).reshape(4, 1, 2, 2)
    assert torch.equal(read(pixels), signed(pixels))
    with pytest.warns(UserWarning, match="first 4 lie below 32.*masks as bool.*keep it to"):
        assert torch.equal(read(pixels // 128), signed(pixels // 128))
    for kind in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        for rows in (pixels.flatten(1) // 2, pixels.flatten(1) // 128):
            tokens, numbers = read(rows.to(kind)), read(rows.to(kind), whole_numbers=False)
            assert (tokens.dtype, numbers.dtype) == (torch.int64, torch.float32)
            assert tokens.tolist() == numbers.tolist() == rows.tolist()
    assert read(pixels > 0).tolist() == (pixels > 0).float().tolist()
    assert data_for(X4, Y4, like=torch.zeros(1), public_size=4).transform is None


def test_images_in_another_range_than_the_generators_are_warned_of_and_tables_are_not(recwarn):
    pixels = torch.arange(256.0).reshape(4, 1, 8, 8)
    tanh, sigmoid = signed(pixels), pixels / 255
    for real, words in ((pixels, "give uint8 of shape"), (sigmoid, r"give 2 \* x - 1.*sigmoid")):
        with pytest.warns(UserWarning, match=rf"not in the range.*{words}.*keep it to"):
            warn_of_range(real, tanh, given=real)
    flat = pixels.byte().flatten(1)
    with pytest.warns(UserWarning, match="give uint8 of shape"):
        warn_of_range(flat.float(), tanh, given=flat)
    recwarn.clear()
    for real in (tanh, pixels / 40 - 3, pixels.flatten(1), sigmoid.flatten(1)):
        warn_of_range(real, tanh, given=real)
    warn_of_range(sigmoid, sigmoid, given=sigmoid)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        ((), TypeError, "no data were given"),
        ((pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}),), TypeError, r"x\[columns\].to_numpy\(\)"),
        (((X, Y),), TypeError, "each part of the data by itself"),
        (({"x": X},), TypeError, "got dict"),
        (([[1.0], [1.0, 2.0]],), ValueError, "one shape"),
        ((None, Y), TypeError, "got NoneType"),
        ((X, ["cat", "dog", "dog", "cat"]), TypeError, "encode labels as 0"),
        ((X, np.array([None, 1, 2, 3], dtype=object)), TypeError, "must hold numbers"),
        ((X, Y[:3]), ValueError, "equally many records"),
        *((none, ValueError, "there are no records") for none in ((X[:0],), (X[:0], Y[:0]), ([],))),
        ((X, Y[:0]), ValueError, "equally many records"),
        (("pictures",), TypeError, "must hold numbers.*a folder by dpkit.datasets.image_folder"),
        ((Path("pictures"),), TypeError, "a folder by dpkit.datasets.image_folder"),
        ((np.ma.masked_array(X, X == 7),), TypeError, "x is a masked array"),
        ((X, np.ma.masked_array(Y, Y == 1)), TypeError, "y is a masked array"),
        *(((of(X),), TypeError, r"x is sparse.*toarray\(\)") for of in (csr_matrix, csr_array)),
        ((np.array(3.0),), ValueError, "example first"),
        ((np.where(X == 7, np.nan, X),), ValueError, "first in record 2.*keep it to"),
        ((np.where(X == 0, np.inf, X),), ValueError, "NaN or infinite"),
        ((X * 1j,), TypeError, "must hold numbers"),
        ((torch.tensor(X * 1j),), TypeError, "real numbers"),
        ((torch.eye(4).to_sparse(),), TypeError, r"x is sparse.*to_dense\(\)"),
        ((TensorDataset(torch.zeros(0, 2)),), ValueError, "there are no records"),
        ((Subset(Squares(), []),), ValueError, "there are no records"),
        ((ChainDataset([]),), TypeError, "IterableDataset"),
        ((Squares(lambda index: {"x": 1}),), TypeError, r"dictionaries.*data\['image'\]"),
        ((Squares(lambda index: (X[0], (index, 1))),), TypeError, r"give \(x, a, b\)"),
        ((iter(X),), TypeError, "a Dataset with a length"),
        ((Squares(lambda index: object()),), TypeError, "ToTensor"),
        ((Squares(lambda index: torch.zeros(index)),), ValueError, "one shape"),
        ((Squares(), Y), TypeError, "leave y out"),
    ],
)
def test_other_data_are_refused_with_a_sentence(data, kind, words):
    with pytest.raises(kind, match=words):
        tensors(*data)


test_labels_that_do_not_fit_the_classes_are_refused = refused(
    *((None, torch.tensor([0, 1]), "classes is None"), (2, None, "no y was given")),
    (2, torch.tensor([0.0, 1.0]), "must be integers"),
    (2, torch.tensor([[0], [1]]), "must be integers"),
    *((2, torch.tensor([0, 2]), "must lie in"), (2, torch.tensor([-1, 1]), "must lie in")),
    call=lambda classes, y: data_module.labels_for(
        classes, 2, (torch.zeros(2, 3), *([] if y is None else [y]))
    ),
)


def test_the_checksum_is_of_content_type_and_shape():
    (x,) = tensors(X)
    assert checksum((x,)) == checksum((x.clone(),))
    others = [(x.float(),), (x.T.contiguous(),), (x + 1,), (x, x)]
    assert checksum((x,)) not in [checksum(other) for other in others]

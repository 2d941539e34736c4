import hashlib
import subprocess
import sys

import numpy as np
import pytest

from dpkit.datasets import cifar10, cifar100, fashion_mnist, mnist


@pytest.mark.parametrize("form", ["", ".gz", ".xz"])
def test_idx_files_load_from_any_form_with_one_checksum(data, expect, store, mnist_files, form):
    expect("mnist", mnist_files)
    store(data / "mnist", mnist_files, form)
    train, test = mnist(split="train"), mnist(split="test")
    assert (train.pixels.shape, train.labels.tolist()) == ((6, 1, 28, 28), [0, 1, 2, 3, 4, 5])
    assert test.n == 3
    assert train.pixels.tobytes() == mnist_files["train-images-idx3-ubyte"][16:]
    content = train.pixels.tobytes() + np.arange(6, dtype="<i8").tobytes()
    shape = np.array([6, 1, 28, 28], dtype="<i8").tobytes()
    assert train.checksum == hashlib.sha256(shape + content).hexdigest()
    assert train.pixels.flags.writeable  # torch.from_numpy warns otherwise


@pytest.mark.parametrize("folder", ["fashion_mnist", "fashion-mnist"])
def test_both_folder_names_are_accepted(data, expect, store, mnist_files, folder):
    expect("fashion_mnist", mnist_files)
    store(data / folder, mnist_files)
    images = fashion_mnist(split="test")
    assert (images.name, images.n) == ("fashion_mnist", 3)


def cifar_rows(n, label_bytes):
    """n images whose pixels count 0, .., 255, 0, ..; labels 10, 11 for the first, 20, 21, ..."""
    pixels = bytes(range(256)) * 12
    labels = (range(10 * i, 10 * i + label_bytes) for i in range(1, n + 1))
    return b"".join(bytes(each) + pixels for each in labels)


@pytest.mark.parametrize("form", ["", ".gz", ".xz"])
def test_cifar10_joins_its_batches_in_order(data, expect, store, form):
    files = {f"data_batch_{i}.bin": cifar_rows(i, 1) for i in range(1, 6)}
    files["test_batch.bin"] = cifar_rows(2, 1)
    expect("cifar10", files)
    store(data / "cifar-10-batches-bin", files, form)
    train = cifar10(split="train")
    assert train.pixels.shape == (15, 3, 32, 32)
    assert train.labels[:6].tolist() == [10, 10, 20, 10, 20, 30]
    assert train.pixels[14, :, 0, :3].tolist() == [[0, 1, 2]] * 3  # each plane has 1024 = 4 * 256
    assert train.pixels[14, 0, 1, 0] == 32
    assert cifar10(split="test").n == 2


def test_cifar100_takes_the_fine_label(data, expect, store):
    files = {"train.bin": cifar_rows(3, 2), "test.bin": cifar_rows(1, 2)}
    expect("cifar100", files)
    store(data / "cifar-100-binary", files)
    assert cifar100(split="train").labels.tolist() == [11, 21, 31]


def test_one_split_needs_only_its_own_files(data, expect, store, mnist_files):
    expect("mnist", mnist_files)
    store(data / "mnist", {k: v for k, v in mnist_files.items() if k.startswith("t10k")})
    assert mnist(split="test").n == 3


@pytest.mark.parametrize("lies", ["in the data folder", "in the cache"])
def test_the_data_folder_comes_before_the_cache_if_it_is_complete(
    data, cache, expect, store, mnist_files, monkeypatch, lies
):
    monkeypatch.chdir(data.parent)
    monkeypatch.setenv("DPKIT_DATA", "data")  # it may be relative
    expect("mnist", mnist_files)
    if lies == "in the data folder":
        store(data / "mnist", mnist_files)
        store(cache / "mnist", dict.fromkeys(mnist_files, b"bad"))
    else:
        store(data / "mnist", {"train-images-idx3-ubyte": b"bad"})
        store(cache / "mnist", mnist_files)
    assert mnist(split="train").n == 6


def test_importing_the_package_imports_no_heavy_library():
    heavy = "sklearn pandas scipy pooch requests tqdm PIL torch"
    code = f"import sys, dpkit.datasets; print([m for m in {heavy.split()} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"

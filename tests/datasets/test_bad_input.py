"""Bad input, each case with the message a reader sees."""

import errno
import gzip
import hashlib
import os
import re

import pytest

from dpkit.datasets import DataNotFound, adult, digits, load, mnist, verify
from dpkit.datasets.images import idx_array


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def exactly(message):
    return f"^{re.escape(message)}$"


def test_unknown_image_set():
    known = "known: digits, mnist, fashion_mnist, cifar10, cifar100"
    with pytest.raises(
        ValueError, match=exactly(f"unknown image set 'mnits'; did you mean 'mnist'? {known}")
    ):
        load("mnits")
    with pytest.raises(ValueError, match=exactly(f"unknown image set 'faces'; {known}")):
        load("faces")


def test_a_table_is_not_an_image_set():
    message = "adult is a table, not an image set; use dpkit.datasets.adult(split=...)"
    with pytest.raises(ValueError, match=exactly(message)):
        load("adult")


@pytest.mark.parametrize("loader", [digits, mnist, adult])
def test_bad_split(loader):
    with pytest.raises(ValueError, match=exactly("split must be 'train' or 'test', got 'valid'")):
        loader(split="valid")


def test_data_folder_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPKIT_DATA", "nowhere")
    message = (
        f"DPKIT_DATA is set to 'nowhere', but {tmp_path / 'nowhere'} is not a folder; "
        "correct the variable, or unset it to use the cache"
    )
    with pytest.raises(DataNotFound, match=exactly(message)):
        mnist(split="train")


def test_not_found_and_no_network_says_the_three_ways(data, cache):
    (data / "mnist").mkdir()
    names = "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte"
    refused = f"[Errno {errno.ECONNREFUSED}] {os.strerror(errno.ECONNREFUSED)}"
    failures = f"http://127.0.0.1:9/train-images-idx3-ubyte.gz: {refused}"
    message = (
        f"mnist is not in {data}/mnist (lacks {names}), {cache}/mnist, "
        f"and its download failed ({failures}). Three ways to get it: "
        "(1) set DPKIT_DATA to a folder that holds mnist/; "
        f"(2) put {names} (plain, .gz or .xz) in {cache}/mnist; "
        "(3) with a network, run: python -m dpkit data get mnist"
    )
    with pytest.raises(DataNotFound, match=exactly(message)):
        mnist(split="test")
    assert not cache.exists() or not any(cache.iterdir())


def test_wrong_checksum_leaves_every_copy_alone(data, cache, expect, store, mnist_files):
    expect("mnist", mnist_files)
    name = "train-images-idx3-ubyte"
    bad = bytearray(mnist_files[name])
    bad[100] ^= 1
    store(data / "mnist", mnist_files | {name: bytes(bad)})
    store(cache / "mnist", mnist_files)
    message = (
        f"{data}/mnist/{name} is corrupted: expected sha256 {sha256(mnist_files[name])}, "
        f"found {sha256(bad)} over {len(bad)} bytes of content; "
        "replace this file by a good copy"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        mnist(split="train")
    assert (data / "mnist" / name).read_bytes() == bad
    assert (cache / "mnist" / name).read_bytes() == mnist_files[name]


def test_truncated_gz(data, expect, store, mnist_files):
    expect("mnist", mnist_files)
    store(data / "mnist", mnist_files, ".gz")
    name = "train-images-idx3-ubyte"
    path = data / "mnist" / f"{name}.gz"
    path.write_bytes(path.read_bytes()[:-4])
    message = (
        f"{path} is truncated or corrupted (Compressed file ended before the end-of-stream marker "
        f"was reached): expected sha256 {sha256(mnist_files[name])}, found "
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}[0-9a-f]{{64}} over ") as caught:
        mnist(split="train")
    assert str(caught.value).endswith(" bytes of content; replace this file by a good copy")


@pytest.mark.parametrize("form", [".gz", ".xz"])
def test_a_packed_file_that_is_none(data, expect, store, mnist_files, form):
    expect("mnist", mnist_files)
    store(data / "mnist", mnist_files, form)
    (data / "mnist" / f"train-images-idx3-ubyte{form}").write_bytes(b"<html>not here</html>")
    with pytest.raises(ValueError, match=rf"train-images-idx3-ubyte\{form} is truncated or corr"):
        mnist(split="train")


def test_idx_that_is_none(tmp_path):
    path = tmp_path / "x"
    with pytest.raises(
        ValueError,
        match=exactly(f"{path} is not an IDX file of unsigned bytes; it starts b'\\x89PNG'"),
    ):
        idx_array(b"\x89PNG\r\n", path)
    with pytest.raises(
        ValueError, match=exactly(f"{path} announces shape (2, 3), 6 bytes, but holds 5")
    ):
        idx_array(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + b"12345", path)


def test_labels_that_do_not_match_the_images(data, expect, store, mnist_files):
    files = mnist_files | {"train-labels-idx1-ubyte": mnist_files["t10k-labels-idx1-ubyte"]}
    expect("mnist", files)
    store(data / "mnist", files)
    message = (
        f"{data}/mnist/train-images-idx3-ubyte holds an array of shape (6, 28, 28) and "
        f"{data}/mnist/train-labels-idx1-ubyte one of shape (3,); "
        "expected (n, height, width) and (n,)"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        mnist(split="train")


def test_cifar_of_the_wrong_length(data, expect, store):
    files = {"train.bin": bytes(3074), "test.bin": bytes(3073)}
    expect("cifar100", files)
    store(data / "cifar100", files)
    message = f"{data}/cifar100/test.bin holds 3073 bytes, not a multiple of the 3074 of one image"
    with pytest.raises(ValueError, match=exactly(message)):
        load("cifar100", split="test")


def test_verify_what_is_not_there(cache):
    message = f"mnist is in none of {cache}/mnist; to get it run: python -m dpkit data get mnist"
    with pytest.raises(DataNotFound, match=exactly(message)):
        verify("mnist")
    known = "known: digits, census, mnist, fashion_mnist, cifar10, cifar100, adult"
    with pytest.raises(
        ValueError, match=exactly(f"unknown data set 'cfar10'; did you mean 'cifar10'? {known}")
    ):
        verify("cfar10")


def test_a_gz_with_the_right_content_but_other_compression_is_good(
    data, expect, store, mnist_files
):
    expect("mnist", mnist_files)
    store(data / "mnist", mnist_files)
    for name, content in mnist_files.items():
        (data / "mnist" / name).unlink()
        (data / "mnist" / f"{name}.gz").write_bytes(gzip.compress(content, 1, mtime=7))
    assert mnist(split="train").n == 6

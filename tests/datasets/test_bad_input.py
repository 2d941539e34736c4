"""Bad input, each case with the message a reader sees."""

import errno
import hashlib
import os
import re
from functools import partial

import numpy as np
import pytest

from dpkit import datasets
from dpkit.datasets import DataNotFound, adult, census, digits, load, mnist, verify

IMAGES = "train-images-idx3-ubyte"
KNOWN = "known: digits, mnist, fashion_mnist, cifar10, cifar100"
SETS = "known: digits, census, mnist, fashion_mnist, cifar10, cifar100, adult"
LOADERS = (digits, mnist, adult, datasets.adult_8, datasets.adult_8_all, census)
BAD = [
    (partial(load, "mnits"), f"unknown image set 'mnits'; did you mean 'mnist'? {KNOWN}"),
    (partial(load, "faces"), f"unknown image set 'faces'; {KNOWN}"),
    (partial(verify, "cfar10"), f"unknown data set 'cfar10'; did you mean 'cifar10'? {SETS}"),
    *(
        (partial(each, split="valid"), "split must be 'train' or 'test', got 'valid'")
        for each in LOADERS
    ),
    *(
        (partial(datasets.download, name), f"{name} ships with {by}; there is nothing to download")
        for name, by in (("digits", "scikit-learn"), ("census", "dpkit"))
    ),
    (partial(census, rows=20_001), "rows must lie in [0, 20000], got 20001"),
    (partial(census, rows=-1), "rows must be an integer >= 0, got -1"),
    (partial(census, rows=10.0), "rows must be an integer >= 0, got 10.0"),
    (
        partial(datasets.simulated_census, float("nan"), rng=np.random.default_rng(0)),
        "n must be an integer >= 0, got nan",
    ),
]


def refused(message, error=ValueError):
    return pytest.raises(error, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize(("call", "message"), BAD)
def test_an_argument_that_makes_no_sense_is_named(call, message):
    with refused(message):
        call()


def test_data_folder_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPKIT_DATA", "nowhere")
    said = f"DPKIT_DATA is set to 'nowhere', but {tmp_path / 'nowhere'} is not a folder; "
    with refused(said + "correct the variable, or unset it to use the cache", DataNotFound):
        mnist(split="train")


def test_not_found_and_no_network_says_the_three_ways(data, cache):
    (data / "mnist").mkdir()
    names = "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte"
    errno_said = f"[Errno {errno.ECONNREFUSED}] {os.strerror(errno.ECONNREFUSED)}"
    failures = f"http://127.0.0.1:9/{IMAGES}.gz: {errno_said}"
    message = (
        f"mnist is not in {data}/mnist (lacks {names}), {cache}/mnist, "
        f"and its download failed ({failures}). Three ways to get it: "
        "(1) set DPKIT_DATA to a folder that holds mnist/; "
        f"(2) put {names} (plain, .gz or .xz) in {cache}/mnist; "
        "(3) with a network, run: python -m dpkit data get mnist"
    )
    with refused(message, DataNotFound):
        mnist(split="test")
    assert not cache.exists()


def test_verify_what_is_not_there(cache):
    message = f"mnist is in none of {cache}/mnist; to get it run: python -m dpkit data get mnist"
    with refused(message, DataNotFound):
        verify("mnist")


def test_wrong_checksum_leaves_every_copy_alone(data, cache, expect, store, mnist_files):
    expect("mnist", mnist_files)
    bad = bytearray(mnist_files[IMAGES])
    bad[100] ^= 1
    store(data / "mnist", mnist_files | {IMAGES: bytes(bad)})
    store(cache / "mnist", mnist_files)
    good, found = (hashlib.sha256(one).hexdigest() for one in (mnist_files[IMAGES], bad))
    message = (
        f"{data}/mnist/{IMAGES} is corrupted: expected sha256 {good}, "
        f"found {found} over {len(bad)} bytes of content; "
        "replace this file by a good copy"
    )
    with refused(message):
        mnist(split="train")
    assert (data / "mnist" / IMAGES).read_bytes() == bad
    assert (cache / "mnist" / IMAGES).read_bytes() == mnist_files[IMAGES]


@pytest.mark.parametrize("form", [".gz", ".xz"])
@pytest.mark.parametrize("part", [slice(-4), slice(0, 0)], ids=["truncated", "another format"])
def test_a_packed_file_that_cannot_be_unpacked(data, expect, store, mnist_files, form, part):
    expect("mnist", mnist_files)
    store(data / "mnist", mnist_files, form)
    path = data / "mnist" / f"{IMAGES}{form}"
    path.write_bytes(path.read_bytes()[part] or b"<html>not here</html>")
    start, end = f"{path} is truncated or corrupted (", "; replace this file by a good copy"
    good = hashlib.sha256(mnist_files[IMAGES]).hexdigest()
    found = rf".*\): expected sha256 {good}, found [0-9a-f]{{64}} over "
    with pytest.raises(ValueError, match=f"^{re.escape(start)}{found}.*{end}$"):
        mnist(split="train")

"""Downloads against a server on loopback: whole, interrupted, resumed, wrong, absent."""

import gzip
import hashlib
import io
import re
import tarfile

import pytest

from dpkit.datasets import DownloadFailed, adult, download, load, mnist

TRAIN, TEST = b"train " * 50_000, b"test " * 30_000
WRONG = "was served with the wrong content: expected sha256 {}, found {}; "
FAILURES = {  # what is served, after how many bytes it breaks off, and what is said
    "interrupted": (TRAIN, 100_000, f"interrupted after 100000 of {len(TRAIN)} bytes; run the"),
    **{"absent": (None, None, "Not Found"), "one bit": (TRAIN[:-1] + b"!", None, WRONG)},
    "too short": (TRAIN[:1000], None, WRONG),
    "too long": (TRAIN + b"more", None, WRONG.partition(", found")[0]),
}


@pytest.fixture
def adult_server(expect, server):
    """A server that has adult.data and adult.test (whose contents are no table)."""
    server.files = {"adult.data": TRAIN, "adult.test": TEST}
    expect("adult", server.files, server.files)
    return server


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_arrive_in_the_cache_once(adult_server, cache):
    for _ in range(2):
        folder = download("adult", base_url=adult_server.url)
        assert folder == cache / "adult"
        assert (folder / "adult.data").read_bytes() == TRAIN
        assert left(cache) == ["adult/adult.data", "adult/adult.test"]
    assert adult_server.asked == ["adult.data", "adult.test"]


def test_loading_downloads_what_is_nowhere(expect, server, mnist_files, monkeypatch):
    served = {f"{name}.gz": gzip.compress(content) for name, content in mnist_files.items()}
    source = expect("mnist", mnist_files, served)
    server.files = served
    monkeypatch.setattr(
        "dpkit.datasets.sources.SOURCES", (source._replace(urls=(*source.urls, server.url)),)
    )  # the first server is down, the second answers
    assert mnist(split="train").n == 6
    assert load("mnist", split="test").n == 3
    assert len(server.asked) == 4


@pytest.mark.parametrize(("served", "cut_after", "says"), FAILURES.values(), ids=FAILURES)
def test_a_download_that_fails_changes_nothing(adult_server, cache, served, cut_after, says):
    (cache / "adult").mkdir(parents=True)
    (cache / "adult" / "adult.data").write_bytes(b"an older version")
    adult_server.files, adult_server.cut_after = {"adult.data": served}, cut_after
    if served is None:
        adult_server.files.clear()
    sums = (hashlib.sha256(content).hexdigest() for content in (TRAIN, served or b""))
    error, says = ValueError if "{" in says else DownloadFailed, says.format(*sums)
    punctuation = " " if error is ValueError else ": "
    message = f"{adult_server.url}/adult.data{punctuation}{says}"
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        download("adult", base_url=adult_server.url)
    assert left(cache) == ["adult/adult.data"]
    assert (cache / "adult" / "adult.data").read_bytes() == b"an older version"
    adult_server.files, adult_server.cut_after = {"adult.data": TRAIN, "adult.test": TEST}, None
    assert (download("adult", base_url=adult_server.url) / "adult.data").read_bytes() == TRAIN


def test_a_bad_cached_copy_is_replaced(expect, server, cache, store, mnist_files):
    server.files = {f"{name}.gz": gzip.compress(content) for name, content in mnist_files.items()}
    expect("mnist", mnist_files, server.files)
    store(cache / "mnist", {"train-images-idx3-ubyte": b"bad"})
    with pytest.raises(DownloadFailed):  # no connection: nothing is lost
        download("mnist")
    assert (cache / "mnist" / "train-images-idx3-ubyte").read_bytes() == b"bad"
    download("mnist", base_url=server.url)
    assert left(cache / "mnist") == sorted(server.files)
    assert mnist(split="train").n == 6


def archive(members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def test_an_archive_gives_its_files_and_nothing_else(expect, server, cache):
    files = {"train.bin": bytes(3074 * 2), "test.bin": bytes(3074)}
    members = {f"cifar-100-binary/{name}": content for name, content in files.items()}
    whole = archive(members | {"../../evil": b"out", "cifar-100-binary/names.txt": b"x"})
    lacking = archive({"cifar-100-binary/train.bin": files["train.bin"]})
    server.files = {"cifar-100-binary.tar.gz": lacking}
    expect("cifar100", files, server.files)
    with pytest.raises(ValueError, match=r"^cifar-100-binary\.tar\.gz lacks test\.bin$"):
        download("cifar100", base_url=server.url)
    server.files = {"cifar-100-binary.tar.gz": whole}
    expect("cifar100", files, server.files)
    download("cifar100", base_url=server.url)
    assert left(cache) == ["cifar100/test.bin", "cifar100/train.bin"]
    assert load("cifar100", split="train").n == 2


def test_a_progress_bar_only_when_asked(adult_server, capsys):
    adult_server.cut_after = 10
    with pytest.raises(DownloadFailed):
        download("adult", base_url=adult_server.url)
    assert capsys.readouterr() == ("", "")
    adult_server.cut_after = None
    download("adult", base_url=adult_server.url, progressbar=True)
    out, shown = capsys.readouterr()
    assert out == ""
    assert "adult.test: 100%" in shown


def test_a_cache_that_cannot_be_written_still_says_the_three_ways(cache):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(FileNotFoundError, match="Three ways to get it: "):
        adult(split="train")

from itertools import product
from pathlib import Path

from dpkit.datasets import sources, status, verify

README = Path(__file__).parents[2] / "data" / "README.md"


def test_status_says_what_is_where(data, cache, expect, store, mnist_files):
    expect("mnist", mnist_files)
    store(data / "mnist", mnist_files)
    store(cache / "cifar-10-batches-bin", {"test_batch.bin": b""})
    rows = {row["name"]: row for row in status()}
    images = ["mnist", "fashion_mnist", "cifar10", "cifar100"]
    assert list(rows) == ["digits", "census", *images, "adult"]
    assert (rows["digits"]["found"], rows["census"]["found"]) == ("scikit-learn", "dpkit")
    mnist = rows["mnist"]
    assert (mnist["found"], mnist["path"]) == ("DPKIT_DATA", str(data / "mnist"))
    assert mnist["bytes"] == sum(map(len, mnist_files.values()))
    cifar = rows["cifar10"]
    assert (cifar["found"], cifar["path"], cifar["bytes"]) == (None, None, 170_052_171)
    assert cifar["missing"] == [f"data_batch_{i}.bin" for i in range(1, 6)]
    assert all(row["terms"] and row["origin"] for row in rows.values())


def test_verify_reads_every_file_of_every_copy(data, cache, expect, store, mnist_files):
    expect("mnist", mnist_files)
    store(data / "mnist", mnist_files, ".xz")
    names = list(mnist_files)
    store(cache / "mnist", {names[0]: mnist_files[names[0]], names[1]: b"bad"})
    store(cache / "mnist", {names[2]: mnist_files[names[2]]}, ".gz")
    broken = cache / "mnist" / f"{names[2]}.gz"
    broken.write_bytes(broken.read_bytes()[:-1])
    rows = verify("mnist")
    assert [row["ok"] for row in rows] == [True] * 4 + [True, False, False, False]
    assert rows[0]["path"] == str(data / "mnist" / f"{names[0]}.xz")
    assert rows[5]["found"] not in (None, rows[5]["expected"])
    assert rows[7]["found"] is None  # missing
    assert rows[7]["path"] == str(cache / "mnist" / names[3])


def test_verify_everything_that_is_here():
    rows = [(row["name"], row["file"], row["ok"]) for row in verify()]
    sets = product(("digits", "census"), ("train", "test"))
    assert rows == [(name, split, True) for name, split in sets]


def test_the_readme_has_every_set_file_checksum_and_address():
    text = README.read_text(encoding="utf-8")
    for source in sources.SOURCES:
        assert f"| `{source.name}` |" in text
        for folder in source.folders:
            assert f"`{folder}`" in text
        for file in source.files:
            assert f"| {source.name} | {file.name} | `{file.sha256}` |" in text
        for item in source.downloads:
            row = f"| {source.name} | {item.name} | {item.size:,} | `{item.sha256}` |"
            assert row in text

"""Generated images in the layout of DPImageBench."""

import numpy as np
import pytest

from dpkit.papers.comparison import gen_file

IMAGES = np.random.default_rng(0).random((6, 1, 28, 28))
LABELS = np.arange(6)


def test_what_is_written_is_read(tmp_path):
    path = gen_file.save(tmp_path / "gen.npz", IMAGES, LABELS)
    with np.load(path) as stored:  # as the benchmark reads it
        assert stored["x"].dtype == np.float32
        assert stored["y"].dtype == np.int64
    images, labels = gen_file.load(path)
    np.testing.assert_allclose(images, IMAGES, atol=1e-7)
    np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (IMAGES * 255, LABELS, "lie in"),
        (np.full_like(IMAGES, np.nan), LABELS, "NaN"),
        (IMAGES[:, 0], LABELS, "must be"),
        (IMAGES, LABELS[:5], "must be"),
        (IMAGES, LABELS / 2, "integers"),
    ],
)
def test_other_images_are_refused_and_nothing_is_written(tmp_path, images, labels, words):
    with pytest.raises(ValueError, match=words):
        gen_file.save(tmp_path / "gen.npz", images, labels)
    assert not list(tmp_path.iterdir())


def test_another_file_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", images=IMAGES)
    with pytest.raises(ValueError, match="must hold x and y, got images"):
        gen_file.load(tmp_path / "other.npz")


def test_damaged_files_are_refused(tmp_path):
    whole = gen_file.save(tmp_path / "gen.npz", IMAGES, LABELS).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    np.save(tmp_path / "plain.npy", IMAGES)
    for name in ("cut.npz", "plain.npy"):
        with pytest.raises(ValueError, match=r"no whole \.npz file"):
            gen_file.load(tmp_path / name)

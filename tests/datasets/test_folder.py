import re
import sys

import numpy as np
import pytest

from dpkit.datasets import image_folder

Image = pytest.importorskip("PIL.Image", reason="pillow comes with matplotlib")


def paint(path, colour, *, size=(40, 20), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def test_a_flat_folder_has_one_label(tmp_path):
    for index, colour in enumerate(255 * np.eye(3, dtype=int)):
        paint(tmp_path / f"{index:06}.png", tuple(colour.tolist()))
    images = image_folder(tmp_path, size=16)
    assert (images.pixels.shape, images.labels.tolist()) == ((3, 3, 16, 16), [0, 0, 0])
    assert images.pixels[:, :, 8, 8].tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    assert image_folder(str(tmp_path), size=16).checksum == images.checksum


def test_sub_folders_are_classes_however_deep_whatever_images_are_there(tmp_path):
    photos = tmp_path / "photos"
    paint(photos / "bedroom" / "0" / "1" / "a.png", (10, 10, 10))
    paint(photos / "church" / "b.bmp", (20, 20, 20))
    paint(photos / "bedroom" / "c.png", (30, 30, 30))
    (photos / "church" / "notes.txt").write_text("no image")
    (photos / "church" / "._b.png").write_text("a shadow that a Mac leaves")
    (photos / "chapel").mkdir()  # a class whose last image was taken away
    images = image_folder(photos, size=4, channels=1)
    assert (images.pixels.shape, images.labels.tolist()) == ((3, 1, 4, 4), [0, 0, 2])
    assert images.pixels[:, 0, 0, 0].tolist() == [10, 30, 20]
    assert image_folder(photos, size=4, limit=2).n == 2
    paint(photos / "astray.png", (40, 40, 40))
    assert sorted(image_folder(photos, size=4).labels) == [0, 0, 2, 3]


def test_the_central_square_is_kept(tmp_path):
    pixels = np.zeros((10, 30), dtype=np.uint8)
    pixels[:, 10:20] = 200
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    assert (image_folder(tmp_path, size=10, channels=1).pixels == 200).all()


def test_photos_are_turned_as_they_are_shown_and_what_is_transparent_is_white(tmp_path):
    photo = Image.new("RGB", (20, 20), "black")
    photo.paste((255, 255, 255), (0, 0, 20, 10))  # the upper half
    turned = Image.Exif()
    turned[0x0112] = 6  # to be shown a quarter turn clockwise
    photo.save(tmp_path / "a.png", exif=turned)
    paint(tmp_path / "b.png", (9, 0, 0, 0), mode="RGBA")
    paint(tmp_path / "c.png", (9, 9), mode="LA")
    Image.new("P", (9, 9), 3).save(tmp_path / "d.gif", transparency=3)
    paint(tmp_path / "e.png", (9, 8, 7, 255), mode="RGBA")
    shown = image_folder(tmp_path, size=4).pixels
    assert (shown[0, :, :, 2:] > 200).all()
    assert (shown[0, :, :, :2] < 50).all()
    assert (shown[[1, 3]] == 255).all()
    assert (shown[2] == 246).all()
    assert (shown[4] == np.array([9, 8, 7])[:, None, None]).all()


def test_no_folder_and_no_images(tmp_path):
    nowhere = tmp_path / "nowhere"
    looked = ".bmp, .gif, .jpeg, .jpg, .png, .ppm, .tif, .tiff, .webp"
    for path, message in (
        (nowhere, f"path must be a folder of images; {nowhere} is not a folder"),
        (tmp_path, f"no images in {tmp_path}; looked for {looked}, also deeper"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            image_folder(path)


@pytest.mark.parametrize("kind", ["truncated", "not an image", "empty"])
def test_a_broken_image_is_named(tmp_path, kind):
    rng = np.random.default_rng(0)
    path = tmp_path / "b.jpg"
    Image.fromarray(rng.integers(256, size=(64, 64, 3), dtype=np.uint8)).save(path)
    paint(tmp_path / "a.jpg", (1, 2, 3))
    whole = path.read_bytes()
    path.write_bytes({"truncated": whole[:-900], "not an image": b"text", "empty": b""}[kind])
    start = re.escape(f"{path} cannot be read as an image (")
    with pytest.raises(ValueError, match=rf"^{start}.*\); remove or replace it$"):
        image_folder(tmp_path)


def test_more_than_eight_bits_are_refused_rather_than_cut(tmp_path):
    path = tmp_path / "deep.png"
    Image.fromarray(np.full((4, 4), 40_000, dtype=np.uint16)).save(path)
    with pytest.raises(ValueError, match=r"\(pixels of mode I;16 have more than 8 bits\)"):
        image_folder(tmp_path)


def test_numbers_out_of_range(tmp_path):
    bad = {"size": (0, (8, 8), "8"), "limit": (0, 0.5), "channels": (4,)}
    for name, values in bad.items():
        fits = "1 or 3" if name == "channels" else "an integer >= 1"
        for value in values:
            message = re.escape(f"{name} must be {fits}, got {value!r}")
            with pytest.raises(ValueError, match=f"^{message}$"):
                image_folder(tmp_path, **{name: value})


def test_without_pillow(tmp_path, monkeypatch):
    paint(tmp_path / "a.png", (0, 0, 0))
    monkeypatch.setitem(sys.modules, "PIL", None)
    message = "^No module named 'PIL'; install it: pip install 'dpkit.train.'$"
    with pytest.raises(ModuleNotFoundError, match=message):
        image_folder(tmp_path)

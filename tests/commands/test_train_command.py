"""`dpkit train`: from a folder of images to a generator that may be released."""

import json
import shutil
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file

from dpkit import PrivateGan, datasets
from dpkit.private.image_networks import image_networks

pytestmark = pytest.mark.torch

CHECKOUT = Path(__file__).resolve().parents[2]
SMALL = "--epsilon 8 --delta 1e-5 --steps 6 --batch-size 4 --size 8 --device cpu"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty made-up pictures of 8 x 8 pixels in two classes."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(20):
        (folder / f"class_{number % 2}").mkdir(exist_ok=True)
        pixels = rng.integers(256, size=(8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"class_{number % 2}" / f"{number:02}.png")
    return folder


@pytest.fixture(scope="module")
def gan() -> PrivateGan:
    networks = image_networks((3, 8, 8), classes=2, latent_size=64)
    return PrivateGan(*networks, classes=2, epsilon=8, delta=1e-5, batch_size=4)


def test_a_folder_becomes_a_generator_with_its_statement_its_price_and_its_images(
    answer, refused, photos, tmp_path, gan
):
    out, folder, kept = (tmp_path / x for x in ("generator.safetensors", "samples", "run.pt"))
    found = answer(f"train {photos} {SMALL} --out {out} --unit patient --checkpoint {kept}")
    assert found["epsilon"] <= 8
    assert "the unit of privacy being patient" in found["statement"]
    assert "the number of classes, 2, is public" in found["statement"]
    assert found["releases"][0]["count"] == 6
    with safe_open(str(out), framework="pt") as file:
        assert "differential privacy" in file.metadata()["statement"]
    line = f"epsilon --delta 1e-5 --ledger {out}"
    for written in (out, f"{kept}.ledger.json"):
        priced = answer(f"epsilon --delta 1e-5 --ledger {written}")
        assert (priced["accountant"], priced["epsilon"]) == ("pld", found["epsilon"])
    error = refused(f"epsilon --delta 1e-5 --ledger {kept}")
    assert "run.pt is a private checkpoint of dpkit; price the ledger beside it" in error
    for chosen in ("--accountant rdp", "--conversion classic"):
        renyi = answer(f"{line} {chosen}")
        assert (renyi["accountant"], renyi["epsilon"] > found["epsilon"]) == ("rdp", True)
    assert gan.load(out).sample([0, 1, 1]).shape == (3, 3, 8, 8)
    found = answer(f"sample {out} --labels 1,0,1 --reproducible-seed 3 --out {folder}")
    names = ["00000_class_1.png", "00001_class_0.png", "00002_class_1.png"]
    assert sorted(path.name for path in folder.iterdir()) == names
    own = gan.load(out).sample([1, 0, 1], reproducible_seed=3)
    for path, expected in zip(found["files"], own, strict=True):
        pixels = np.asarray(Image.open(path)).transpose(2, 0, 1) / 127.5 - 1
        assert np.abs(pixels - expected.numpy()).max() < 1.001 / 255
    for more, message in [
        (f"--out {folder}", "--out must be a new or an empty folder"),
        (f"--out {tmp_path / 'x'} --labels 0,2", "labels must lie in 0..1"),
        (f"--out {tmp_path / 'x'} --labels one", "--labels must be integers"),
        (f"--out {tmp_path / 'x'} --count 0", "count must be an integer >= 1"),
    ]:
        assert message in refused(f"sample {out} {more}")
    assert not (tmp_path / "x").exists()


def test_grey_images_without_labels_and_of_many_pixels_are_learnt_and_drawn(
    dpkit, refused, photos, tmp_path
):
    out = tmp_path / "g.safetensors"
    line = f"train {photos} {SMALL} --out {out} --no-labels --grey".replace("--size 8", "--size 16")
    code, said, _ = dpkit(line)
    assert code == 0
    assert f"may be released: {out}" in said
    assert f"python -m dpkit sample {out}" in said
    with safe_open(str(out), framework="pt") as file:
        assert json.loads(file.metadata()["dpkit"])["settings"]["classes"] is None
    assert dpkit(f"sample {out} --count 2 --out {tmp_path / 'two'}")[1].startswith("2 images in")
    sizes = {Image.open(path).size for path in (tmp_path / "two").iterdir()}
    assert sizes == {(16, 16)}
    error = refused(f"sample {out} --labels 0 --out {tmp_path / 'x'}")
    assert "trained without labels" in error


def test_a_generator_of_other_networks_is_not_sampled(refused, tmp_path):
    generator = torch.nn.Linear(4, 5)
    gan = PrivateGan(generator, torch.nn.Linear(5, 1), epsilon=8, delta=1e-5, latent_size=4)
    gan.fit(torch.zeros(200, 5), steps=1).save(tmp_path / "own.safetensors")
    error = refused(f"sample {tmp_path / 'own.safetensors'} --out {tmp_path / 'x'}")
    assert "load it with the networks it was trained with" in error


def test_what_is_no_checkpoint_is_refused_and_left_alone(dpkit, photos, tmp_path):
    place = tmp_path / "place"
    (place / "folder").mkdir(parents=True)
    for file in ("generator.safetensors", "junk.pt"):
        (place / file).write_bytes(b"another's")
    before = sorted(place.iterdir())
    line = f"train {photos} {SMALL} --out {tmp_path / 'g.safetensors'} --checkpoint {place}"
    for name in ("generator.safetensors", "junk.pt", "folder"):
        code, _, err = dpkit(f"{line}/{name}")
        assert (code, "is no checkpoint of dpkit" in err) == (2, True), name
    assert sorted(place.iterdir()) == before


def test_one_seed_gives_the_same_generator_and_a_bar_only_a_terminal(
    dpkit, photos, tmp_path, monkeypatch
):
    """Weights before the first step included; another seed, or none, gives another."""
    files = [tmp_path / f"{name}.safetensors" for name in ("one", "same", "two", "free", "other")]
    seeds = ("--reproducible-seed 3",) * 2 + ("--reproducible-seed 4", "", "")
    weights = []
    for out, seed in zip(files, seeds, strict=True):
        torch.rand(1)  # whatever was drawn before
        _, _, err = dpkit(f"train {photos} {SMALL} {seed} --out {out}")
        assert err == ""
        weights.append(torch.cat([part.flatten() for part in load_file(out).values()]))
    assert torch.equal(weights[0], weights[1])
    assert all(not torch.equal(a, b) for a, b in combinations(weights[1:], 2))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "6/6" in dpkit(f"train {photos} {SMALL} --out {files[0]}")[2]


def test_the_bundled_digits(dpkit, tmp_path):
    out = tmp_path / "digits.safetensors"
    line = "train digits --epsilon 8 --delta 1e-5 --steps 5 --batch-size 8 --device cpu"
    code, said, _ = dpkit(f"{line} --out {out}")
    assert code == 0
    assert "5 steps with noise multiplier" in said
    assert f"number of records, {datasets.digits().n}, is public" in said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("PHOTOS --epsilon 0", "epsilon must be a finite number > 0"),
        ("PHOTOS --out gan.pt", "must be a file *.safetensors"),
        ("PHOTOS --out no/g.safetensors", "in a folder that exists"),
        ("elephants", "a folder of images, or one of digits"),
        ("PHOTOS --device tpu", "device must be"),
        ("PHOTOS --batch-size 21", "batch_size must be at most"),
        ("PHOTOS --checkpoint OUT", "give --checkpoint another"),
        ("PHOTOS --size 0", "size must be an integer >= 1"),
    ],
)
def test_bad_options_are_one_line(refused, photos, tmp_path, line: str, message: str):
    usual = {"--epsilon": "8", "--delta": "1e-5", "--out": "OUT"}
    line += "".join(f" {name} {value}" for name, value in usual.items() if name not in line)
    line = line.replace("PHOTOS", str(photos)).replace("OUT", str(tmp_path / "g.safetensors"))
    assert message in refused(f"train {line}")
    assert not list(tmp_path.iterdir())


def test_a_sub_folder_without_pictures_is_a_class(photos, tmp_path, answer):
    """One record decides neither the networks' shape nor the labels of others."""
    place = tmp_path / "photos"
    shutil.copytree(photos / "class_0", place / "class_0")
    (place / "class_1").mkdir()
    found = answer(f"train {place} --out {tmp_path / 'g.safetensors'} {SMALL}")
    assert "the number of classes, 2, is public" in found["statement"]


@pytest.mark.parametrize("side", [1, 8, 9, 28, 32, 33, 64])
@pytest.mark.parametrize("classes", [None, 3])
def test_the_default_networks_fit_each_other(side: int, classes: int | None):
    generator, critic = image_networks((1, side, side), classes=classes, latent_size=5)
    conditions = () if classes is None else (torch.tensor([0, 2]),)
    fakes = generator(torch.randn(2, 5), *conditions)
    assert (fakes.shape, critic(fakes, *conditions).shape) == ((2, 1, side, side), (2, 1))


def test_images_that_are_not_square_are_refused():
    with pytest.raises(ValueError, match="images must be square, got 8 x 9 pixels"):
        image_networks((1, 8, 9), classes=None, latent_size=5)

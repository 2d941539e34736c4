"""What AdaDP's networks learn from: sizes, what is fitted on what, what the cache keeps."""

from itertools import product

import numpy as np
import pytest
import torch
from draws import rng

from dpkit import datasets
from dpkit.datasets import make_images
from dpkit.papers.adadp import data, pca
from dpkit.papers.adadp.data import SPLIT, Pretraining
from dpkit.training import seeded

pytestmark = pytest.mark.torch

TINY = Pretraining(public=12, classes=4, steps=3, batch_size=5)


def made_up(n, seed):
    draws = rng(seed)
    pixels = draws.integers(0, 256, (n, 3, 32, 32)).astype(np.uint8)
    return make_images("cifar10", pixels, draws.integers(0, 4, n))


@pytest.fixture
def sets(monkeypatch, tmp_path):
    """CIFAR-10 with 32 training and 7 test images, and a cache of its own."""
    images = {"train": made_up(32, 0), "test": made_up(7, 1)}
    monkeypatch.setattr(data, "TRAINING_IMAGES", 32)
    monkeypatch.setattr(data, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(datasets, "load", lambda name, split: images[split])
    return images


# Digits


def test_digits_are_rows_of_pixels_between_0_and_1():
    task = data.images_of_digits("digits")
    assert task.data.features.shape == (1_437, 784)
    assert (task.data.features.min(), task.data.features.max()) == (0, 1)
    assert task.data.public_size == len(task.data.labels) == 1_437
    assert (len(task.test), len(task.test_labels)) == (360, 360)
    assert set(task.checksums) == {"digits train", "digits test"}
    with pytest.raises(ValueError, match="records must be one of mnist, digits; got 'cifar10'"):
        data.images_of_digits("cifar10")


def test_the_projection_is_by_private_components_of_the_training_part_alone():
    task = data.images_of_digits("digits")
    own = data.projected(task, noise_multiplier=0.5, rng=rng())
    other = data.projected(task._replace(test=2 * task.test), noise_multiplier=0.5, rng=rng())
    assert own.data.features.shape == (1_437, 60)
    torch.testing.assert_close(other.data.features, own.data.features)
    torch.testing.assert_close(other.test, 2 * own.test)
    assert own.data.labels is task.data.labels
    assert own.words.startswith("60 private principal components (noise 0.5) of pixels in [0, 1]")
    made = data.projected(task, noise_multiplier=2.0, rng=rng(1), dimensions=5)
    found = pca.components(task.data.features.numpy(), k=5, noise_multiplier=2.0, rng=rng(1))
    np.testing.assert_allclose(made.test, task.test.numpy() @ found, atol=1e-5)


# Convolutions


def test_the_network_is_the_papers_with_a_smaller_output_and_tensorflows_normalisation():
    """x / (1 + 0.001 / 9 * sum of nine squares)^0.75, over four channels on each side."""
    net = data.convolutions()
    sizes = [layer.weight.shape for layer in net if isinstance(layer, torch.nn.Conv2d)]
    assert sizes == [(64, 3, 5, 5), (64, 64, 5, 5)]
    kinds = [type(layer).__name__ for layer in net]
    assert kinds[1:4] == ["ReLU", "MaxPool2d", "LocalResponseNorm"]
    assert kinds[5:8] == ["ReLU", "LocalResponseNorm", "MaxPool2d"]
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, data.FEATURES)
    x = 30 * torch.rand(1, 64, 1, 1, generator=torch.Generator().manual_seed(0))
    squares = x.flatten().square()
    near = torch.stack([squares[max(i - 4, 0) : i + 5].sum() for i in range(64)])
    for one in (net[3], net[6]):
        wanted = x.flatten() / (1 + 1e-3 / 9 * near) ** 0.75
        torch.testing.assert_close(one(x).flatten(), wanted)


def test_a_shifted_image_is_the_image_elsewhere_or_its_reflection():
    images = torch.arange(1.0, 1 + 40 * 3 * 36).view(40, 3, 6, 6)
    found = data.shifted(images, rng=torch.Generator().manual_seed(0))
    seen, places = set(), list(product(range(9), range(9), (False, True)))
    for before, after in zip(images, found, strict=True):
        whole = torch.nn.functional.pad(before, (4,) * 4)
        parts = {at: (whole.flip(2) if at[2] else whole)[:, at[0] :, at[1] :] for at in places}
        same = [at for at, part in parts.items() if torch.equal(after, part[:, :6, :6])]
        assert len(same) == 1
        seen |= set(same)
    assert len(seen) > 20
    assert {turned for *_, turned in seen} == {False, True}


def test_pretraining_learns():
    """Two classes, bright and dark: from log 2 to less than half of it in 20 steps."""
    labels = torch.arange(32) % 2
    images = (labels[:, None, None, None] * 150 + 50).expand(-1, 3, 32, 32).to(torch.uint8)
    with seeded(0):
        net = torch.nn.Sequential(data.convolutions(), torch.nn.Linear(1_024, 2))
    how = Pretraining(public=32, classes=2, steps=20, batch_size=8)
    losses = list(data.learn(net, images, labels, pretraining=how))
    assert len(losses) == 20
    assert losses[-1] < 0.35 < losses[0]


# Features


def test_convolutions_learn_from_public_images_alone_and_are_kept(sets, monkeypatch):
    seen, learn = [], data.learn
    watched = lambda net, x, y, **more: seen.append((x, y)) or learn(net, x, y, **more)  # noqa: E731
    monkeypatch.setattr(data, "learn", watched)
    task = data.cifar10(TINY)
    ((images, labels),) = seen
    assert (images.numpy() == sets["train"].pixels[20:]).all()
    assert (labels.numpy() == sets["train"].labels[20:]).all()
    # the public ones are no longer private
    assert (task.data.features.shape, task.data.public_size) == ((20, 1_024), 20)
    assert task.data.labels.tolist() == sets["train"].labels[:20].tolist()
    assert task.test.shape == (7, 1_024)
    assert "CIFAR-10's last 12 training images, which are declared public" in task.words
    assert "the first 20 are private" in task.words
    # what is in the cache is not computed again, and is of the stored convolutions
    monkeypatch.setattr(data, "learn", None)
    net = data.pretrained(TINY).net
    with torch.no_grad():
        wanted = net(data.as_network_input(torch.from_numpy(sets["train"].pixels[:20])))
    torch.testing.assert_close(task.data.features, wanted, rtol=2e-3, atol=1e-4)
    again = data.cifar10(TINY)
    assert torch.equal(again.data.features, task.data.features)
    assert again.checksums == task.checksums
    assert set(task.checksums) == {"cifar10 train", "cifar10 test", "convolutions"}


def test_the_same_seed_gives_the_same_convolutions_in_double_precision_too(
    sets, tmp_path, monkeypatch
):
    before = data.pretrained(TINY)
    for path in tmp_path.rglob("convolutions-*"):
        path.unlink()
    torch.set_default_dtype(torch.float64)
    try:
        after = data.pretrained(TINY)
        assert data.cifar10(TINY).data.features.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert after.checksum == before.checksum


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"public": 50_000}, r"public must lie in \[1, 49999\], got 50000"),
        ({"public": 0}, r"public must lie in \[1, 49999\], got 0"),
        ({"steps": 0}, "steps must be an integer >= 1, got 0"),
        ({"rate": float("nan")}, "rate must be a finite number > 0, got nan"),
    ],
)
def test_bad_settings_are_refused_by_name(changed, message):
    with pytest.raises(ValueError, match=message):
        Pretraining(**{"public": 10, "classes": 10, **changed})
    assert SPLIT.private == 40_000

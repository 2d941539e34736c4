"""The judge of generated digits: its classifier learns, goes on, and is kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refused

from dpkit import datasets
from dpkit.metrics import judge
from dpkit.metrics.inception import inception_score
from dpkit.training.device import generator_on

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
QUICK = judge.Learning("digits", width=2, hidden=8, epochs=1, batch_size=256)


def digits_as_images(count=64):
    images = datasets.digits()
    chosen = np.random.default_rng(0).permutation(images.n)[:count]
    return judge.as_images(images, CPU)[chosen], torch.from_numpy(images.labels[chosen])


def test_the_classifier_learns_and_goes_on_by_epochs(tmp_path):
    images, labels = digits_as_images(600)
    learning = replace(QUICK, width=4, hidden=32, epochs=5, batch_size=32, rate=3e-3)

    def learned(stop=None, kept=None):
        net = judge.initial(learning, CPU)
        for i, _ in enumerate(judge.learn(net, images, labels, learning=learning, kept=kept)):
            if i == stop:
                break
        return net.eval()

    whole = learned()
    probabilities = judge.Judge(whole, learning, 0.0, {}, 0.0).probabilities(images)
    assert (probabilities.argmax(1) == labels.numpy()).mean() > 0.8
    np.testing.assert_allclose(probabilities.sum(1), 1)
    kept = tmp_path / "classifier.epoch"
    learned(stop=25, kept=kept)  # in the second epoch of 19 batches
    assert torch.load(kept, weights_only=True)["done"] == 1
    again = learned(kept=kept).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in whole.state_dict().items())


def test_a_trained_classifier_is_taken_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "cache_dir", lambda: tmp_path)
    first = judge.judge(QUICK, device=CPU)
    test = datasets.digits(split="test")
    found = first.probabilities(judge.as_images(test, CPU)).argmax(1)
    assert first.accuracy == pytest.approx((found == test.labels).mean())

    monkeypatch.setattr(judge, "learn", None)  # is not called again
    second = judge.judge(QUICK, device=CPU)
    assert (second.accuracy, second.checksums) == (first.accuracy, first.checksums)
    images, _ = digits_as_images()
    np.testing.assert_array_equal(first.probabilities(images), second.probabilities(images))
    wanted = inception_score(first.probabilities(images), splits=2)
    assert second.score(images, splits=2).mean == pytest.approx(wanted.mean)


def test_images_are_shifted_turned_and_filled_with_black():
    images, _ = digits_as_images(8)
    rng = generator_on(CPU, reproducible_seed=0)
    still = replace(QUICK, degrees=0.0, shift=0.0, zoom=0.0)
    same = judge.augmented(images, learning=still, rng=rng)
    torch.testing.assert_close(same, images, rtol=0, atol=1e-5)
    white = torch.ones(200, 1, 28, 28)
    moved = judge.augmented(white, learning=replace(still, shift=0.25), rng=rng)
    assert moved.min() == -1
    shares = (moved > 0).float().mean((1, 2, 3))
    assert shares.mean() < 0.95
    assert shares.min() >= 0.75**2 - 0.06  # a quarter of the side at most, in each direction


test_bad_classifiers_are_refused = refused(
    ({"records": "cifar10"}, "records must be one of mnist, fashion_mnist, digits"),
    ({"epochs": 0}, "epochs must be an integer >= 1"),
    ({"batch_size": 1}, "batch_size must be an integer >= 2"),
    ({"rate": float("nan")}, "rate must be a finite number > 0"),
    ({"shift": 0.6}, r"shift must lie in \[0, 0.5\]"),
    ({"degrees": float("nan")}, r"degrees must lie in \[0, 180\]"),
    ({"width": 0}, "width must be an integer >= 1"),
    call=lambda changes: replace(QUICK, **changes),
)


def test_the_classifier_is_the_codes():
    learning = judge.CLASSIFIERS["mnist"]
    net = judge.classifier(width=learning.width, hidden=learning.hidden)
    shapes = [tuple(p.shape) for p in net.parameters() if p.ndim > 1]
    assert shapes == [(32, 1, 5, 5), (64, 32, 5, 5), (128, 64, 5, 5), (1024, 512), (10, 1024)]
    assert net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert [m.p for m in net.modules() if isinstance(m, torch.nn.Dropout)] == [0.5]
    with pytest.raises(ValueError, match="side must be an integer >= 15"):
        judge.classifier(width=2, hidden=2, side=14)

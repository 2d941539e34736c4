"""Accuracy on real images of networks trained on synthetic ones: the protocol step by step."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from refusals import refused

from dpkit import datasets
from dpkit.metrics import trained_on_synthetic as protocols
from dpkit.metrics.trained_on_synthetic import Protocol, accuracy, cnn, logistic, mlp

pytestmark = pytest.mark.torch
SHORT = Protocol(epochs=3, batch_size=32, held_out=200)


def of(split):
    images = datasets.digits(split=split)
    return images.pixels, images.labels


def scored(network=logistic, *, protocol=SHORT, seed=0, synthetic=None, real=None):
    told = {"protocol": protocol, "seed": seed, "device": torch.device("cpu")}
    return accuracy(network, synthetic or of("train"), real or of("test"), **told)


@pytest.fixture(scope="module")
def plain():
    return scored(mlp)


@pytest.mark.slow("a CNN that learns digits less well than it can")
def test_the_digits_are_learned_by_a_cnn():
    assert scored(cnn).chosen > 0.85  # measured .93 to .95; chance is .1


def test_the_digits_are_learned_in_bfloat16_as_well(plain):
    rough = scored(mlp, protocol=replace(SHORT, bfloat16=True)).chosen
    assert plain.chosen > 0.8  # measured .90 to .93; chance is .1
    assert abs(plain.chosen - rough) < 0.05  # within what another seed does


def test_a_seed_repeats_and_another_does_not(plain):
    first, again, other = plain, scored(mlp), scored(mlp, seed=1)
    assert first.chosen == pytest.approx(again.chosen, abs=0.01)
    assert first.held_out == pytest.approx(again.held_out, abs=0.01)
    assert first.held_out != other.held_out


def test_synthetic_images_choose_the_epoch_and_test_images_do_not(monkeypatch):
    answers = iter([0.5, 0.9, 0.7, 0.2])  # held out, of each epoch in turn; test, once
    monkeypatch.setattr(protocols, "_right", lambda *_: next(answers))
    found = scored()
    assert found.held_out == (0.5, 0.9, 0.7)
    assert (found.epoch, found.chosen) == (2, 0.2)


def test_wrong_test_labels_change_the_score_alone_and_bytes_and_shares_are_the_same_images():
    pixels, labels = of("test")
    right, wrong = scored(), scored(real=(pixels, (labels + 1) % 10))
    assert right.held_out == pytest.approx(wrong.held_out, abs=0.01)
    assert wrong.chosen < 0.2 < right.chosen
    pixels, labels = of("train")
    shares = scored(synthetic=(pixels / 255, labels))
    assert right.held_out == pytest.approx(shares.held_out, abs=0.01)


def test_held_out_images_are_not_trained_on():
    pixels, labels = of("train")
    seen = []

    def network(shape, classes):
        net = logistic(shape, classes)
        net.register_forward_pre_hook(
            lambda module, given: seen.append(given[0]) if module.training else None
        )
        return net

    scored(network, synthetic=(pixels, labels), protocol=Protocol(1, 32, held_out=1_000))
    assert sum(map(len, seen)) == len(pixels) - 1_000


test_bad_images_are_refused = refused(
    (lambda x, y: (x * 255, y), "lie in"),
    (lambda x, y: (np.where(x > 0.5, np.nan, x), y), "NaN"),
    (lambda x, y: (x[:, 0, 0], y), "must have shape"),
    (lambda x, y: (x, y[:-1]), "of shape"),
    (lambda x, y: (x[:0], y[:0]), "number_of_images"),
    (lambda x, y: (x, y + 1), r"lie in 0\.\.9"),
    (lambda x, y: (x, y.astype(float)), "must be integers"),
    (lambda x, y: (x[y != 3], y[y != 3]), r"got none of \[3\]"),
    (lambda x, y: (x[:200], y[:200]), "held_out must be below the 200"),
    call=lambda change: scored(
        synthetic=change(np.float32(of("train")[0]) / 255, of("train")[1].copy())
    ),
)


NOTHING = {"epochs": 0, "batch_size": 0, "held_out": 0, "rate": 0.0}
test_bad_protocols_and_images_too_small_for_the_network_are_refused = refused(
    *((partial(Protocol, **{name: bad}), name) for name, bad in NOTHING.items()),
    *((partial(Protocol, rate=float("nan")), "rate"), (partial(cnn, (1, 5, 8), 10), "height")),
)

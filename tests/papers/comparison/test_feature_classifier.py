"""The classifier in whose features images are compared: stored weights, or trained ones."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from dpkit import datasets
from dpkit.metrics.judge import as_images
from dpkit.papers.comparison import feature_classifier as module

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


def test_mnists_is_stored_with_its_record():
    found = module.feature_classifier("mnist", device=CPU)
    assert found.accuracy > 0.99
    record = json.loads((module.FOLDER / "mnist.json").read_text())
    assert record["provenance"]["settings"]["type"] == "Learning"
    images = as_images(datasets.digits(split="test"), CPU)[:20]
    features = found.features(images)
    assert features.shape == (20, 128)
    assert (features >= 0).all()  # after a ReLU
    last = found.net[-1]
    with torch.no_grad():
        logits = torch.from_numpy(features).float() @ last.weight.T + last.bias
    assert (logits.softmax(1).numpy().argmax(1) == found.probabilities(images).argmax(1)).all()


@pytest.mark.parametrize("damage", [b"", b"x"])
def test_weights_that_are_not_the_records_are_refused(tmp_path, monkeypatch, damage):
    for path in module.FOLDER.glob("mnist.*"):
        shutil.copy(path, tmp_path)
    weights = tmp_path / "mnist.safetensors"
    weights.write_bytes(damage + weights.read_bytes()[1:])
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"other weights than mnist\.json says"):
        module.feature_classifier("mnist", device=CPU)


def test_others_are_trained_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("dpkit.metrics.judge.cache_dir", lambda: tmp_path)
    quick = replace(module.LEARNINGS["digits"], epochs=3)
    monkeypatch.setitem(module.LEARNINGS, "digits", quick)
    assert module.trained("digits", device=CPU).values["accuracy"] > 0.5
    assert module.feature_classifier("digits", device=CPU).features(
        as_images(datasets.digits(split="test"), CPU)[:5]
    ).shape == (5, 128)

"""Stored digits by method and epsilon: rows of what is stored, and nothing else."""

import numpy as np
import pytest

from dpkit.course.explorers import SamplesByEpsilon, samples_by_epsilon
from dpkit.papers.comparison.tables import TITLES
from dpkit.papers.experiments import store


def test_rows_are_the_stored_runs():
    explorer = SamplesByEpsilon()
    found = explorer.compute(method="moments_jittered", epsilon=1.0)
    parts = store.load("comparison", "mnist")
    accuracies = [
        part["values"]["cnn_accuracy"]
        for name, part in parts.items()
        if name.startswith("moments_jittered-eps1-") and not name.endswith("likeness")
    ]
    shown = explorer.table(found).text()
    assert f"{100 * np.mean(accuracies):.1f}" in shown
    images = store.load_images("comparison", "mnist", "moments_jittered-eps1-seed0")
    assert np.array_equal(found["images"], images)


def test_every_method_offered_has_something_stored():
    for method in SamplesByEpsilon().values["method"].options:
        assert method[1] in TITLES
        assert samples_by_epsilon._stored_epsilons(method[1])


def test_without_stored_images_it_says_so(monkeypatch):
    monkeypatch.setattr(samples_by_epsilon, "_images", lambda *_: np.empty((0, 28, 28), np.uint8))
    with pytest.raises(ValueError, match="not stored; none"):
        SamplesByEpsilon.compute(method="dp_cgan", epsilon=1.0)

"""What `fit`, `sample` and seeds mean, the same in all classes that train on private data."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from small_networks import X, Y, classifier, gan_of, private_of, run
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dpkit import PrivateImages, PrivateTable

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*DataLoader"),
    pytest.mark.usefixtures("few_steps"),
]
FEW = slice(200)
IMAGES, LABELS = ((X[FEW] + 1) / 2).numpy(), Y[FEW].numpy()
COLUMNS = {"one": ["a", "b"], "two": (0, 1)}
FRAME = pd.DataFrame({"one": ["a", "b"] * 100, "two": np.linspace(0, 1, 200)})
FITTED: dict[str, Callable[[Any], Any]] = {  # by a seed
    "gan": lambda seed: gan_of(reproducible_seed=seed).fit(X, Y, steps=2),
    "gan without classes": lambda seed: gan_of(classes=None, reproducible_seed=seed).fit(
        X, steps=2
    ),
    "moments": lambda seed: PrivateImages(reproducible_seed=seed).fit(IMAGES, LABELS),
    "random features": lambda seed: PrivateImages(
        method="random features", reproducible_seed=seed
    ).fit(IMAGES, LABELS),
    "marginals": lambda seed: PrivateTable(COLUMNS, reproducible_seed=seed).fit(FRAME),
}
FIT = pytest.mark.parametrize("fit", FITTED.values(), ids=FITTED)
LATER = {"delta": 0.5, "epsilon": 9, "public_size": 7, "reproducible_seed": 1}
LATER |= {"classes": 1, "method": "none"}


def same(one: Any, other: Any) -> bool:
    return one.equals(other) if hasattr(one, "equals") else np.array_equal(one, other)


@FIT
def test_a_number_is_how_many_and_a_seed_gives_the_same_fit_and_sample(fit):
    made = [fit(seed) for seed in (2**70, 2**70, 4, np.int64(4))]
    first, again, other, small = (one.sample(40, reproducible_seed=np.uint8(7)) for one in made)
    assert same(first, again)
    assert not same(first, other)
    assert same(other, small)
    assert same(first, made[0].sample(np.int32(40), reproducible_seed=7))
    assert not same(made[0].sample(40), made[0].sample(40))
    assert not same(*(fit(None).sample(4000, reproducible_seed=7) for _ in range(2)))
    assert [len(made[0].sample(n)) for n in (0, 1, 5)] == [0, 1, 5]
    for bad in (-1, 2.5, "three", None, True):
        with pytest.raises(ValueError, match=r"^n must be an integer >= 0, got "):
            made[0].sample(bad)
    for bad in (-1, 1.5, "7", True):
        for refused in (lambda: fit(bad), lambda: made[0].sample(5, reproducible_seed=bad)):  # noqa: B023
            with pytest.raises(ValueError, match=r"^reproducible_seed must be an integer >= 0"):
                refused()


@FIT
def test_it_is_an_estimator_whose_price_is_that_of_its_fit_whatever_is_set_later(fit):
    fitted = fit(0)
    copy, again = clone(fitted), pickle.loads(pickle.dumps(fitted))
    assert str(copy.get_params()) == str(fitted.get_params())
    data = "frame" if isinstance(fitted, PrivateTable) else "x, y"
    for ask in (lambda: copy.sample(1), copy.statement, copy.guarantee):
        with pytest.raises(NotFittedError, match=rf"call fit\({data}\)"):
            ask()
    again.set_params(**{name: LATER[name] for name in LATER if name in again.get_params()})
    assert (again.guarantee(), again.statement()) == (fitted.guarantee(), fitted.statement())
    assert same(*(one.sample(20, reproducible_seed=5) for one in (fitted, again)))


@pytest.mark.parametrize("fit", [FITTED["gan"], FITTED["moments"]])
def test_labels_may_be_any_array(fit):
    made = fit(0)
    given = [2, 0, 2]
    arrays = given, tuple(given), np.array(given, np.uint8), torch.tensor(given), pd.Series(given)
    first, *others = (made.sample(labels, reproducible_seed=1) for labels in arrays)
    assert all(same(first, other) for other in others)


def test_labels_of_a_number_of_images_are_uniform_whatever_the_records_labels():
    y = (np.arange(4000) >= 3600).astype(int)  # a tenth is bright, and of class 1
    x = y[:, None, None] / 2 + np.random.default_rng(0).uniform(0, 0.5, (4000, 4, 4))
    fitted = PrivateImages(classes=2, epsilon=50, centre=0.5, reproducible_seed=0).fit(x, y)
    made = fitted.sample(2000, reproducible_seed=0)
    assert (made.mean((1, 2, 3)) > 0.5).mean() == pytest.approx(0.5, abs=0.05)


def flat() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), *classifier())


class Own:
    """A data set of a library that is not torch."""

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> Any:
        return IMAGES[index], int(LABELS[index])


HELD = TensorDataset(torch.from_numpy(IMAGES), Y[FEW])
DATA = {
    "tensors": (torch.from_numpy(IMAGES).requires_grad_(), Y[FEW]),
    **{"lists": (IMAGES.tolist(), LABELS.tolist()), "Dataset": (HELD,)},
    **{"DataLoader": (DataLoader(HELD, batch_size=7),), "own": (Own(),)},
}


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_data_may_be_what_they_are_in_every_class(data):
    given: Any = {"reproducible_seed": 0}
    wanted, found = (
        (
            PrivateImages(**given).fit(*one).sample(3, reproducible_seed=0),
            gan_of(**given, transform=lambda x: 2 * x - 1)
            .fit(*one, steps=2)
            .sample(3, reproducible_seed=0),
            run(private_of(flat(), *one, **given)).net.get_parameter("1.weight").detach(),
        )
        for one in ((IMAGES, LABELS), data)
    )
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)

"""PrivateImages: what it takes and makes, what it says of its price, and each mistake."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

from dpkit.datasets import make_images
from dpkit.privacy.accountants.filters import OverBudget
from dpkit.private import Budget, PrivateImages
from dpkit.synthesizers.records import checksum

MOMENTS, FEATURES = "moments", "random features"
WAYS = [MOMENTS, pytest.param(FEATURES, marks=pytest.mark.torch)]
methods = pytest.mark.parametrize("method", WAYS)


pytestmark = pytest.mark.usefixtures("few_steps")


def made_up(n: int = 60, shape: tuple[int, ...] = (1, 6, 5)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(256, size=(n, *shape)).astype(np.uint8), rng.integers(3, size=n)


def images_of(method: str = MOMENTS, **rest: Any) -> PrivateImages:
    return PrivateImages(**{"classes": 3, "method": method, "epsilon": 5.0} | rest)


@methods
def test_images_come_as_floats_in_the_shape_of_the_data(method):
    for shape in ((1, 6, 5), (6, 5), (3, 4, 4)):
        found = images_of(method).fit(*made_up(shape=shape)).sample([2, 0, 1, 1])
        channels = shape if len(shape) == 3 else (1, *shape)
        assert (found.shape, found.dtype) == ((4, *channels), np.float32)
        assert ((found >= 0) & (found <= 1)).all()
    assert images_of(method).fit(*made_up()).sample([]).shape == (0, 1, 6, 5)


@methods
def test_bytes_floats_and_images_are_the_same_records(method):
    x, y = made_up()
    own = make_images("made up", x, y)
    given = [(x, y), (x / 255, y), ((x / 255).astype(np.float32), y), (own, None), (x[:, 0], y)]
    fits = [images_of(method, reproducible_seed=1).fit(*one) for one in given]
    samples = [one.sample([0, 1, 2], reproducible_seed=2) for one in fits]
    for sample in samples[1:]:
        np.testing.assert_allclose(sample, samples[0], atol=1e-4)


@methods
def test_the_price_is_what_was_asked_for_and_the_statement_names_what_was_done(method):
    fitted = images_of(method, epsilon=2.0).fit(*made_up())
    found = fitted.guarantee()
    assert 1.98 <= found.epsilon <= 2
    assert (found.delta, found.adjacency) == (1e-5, "add-remove")
    assert fitted.guarantee_ == found
    words = fitted.statement(unit="one person", tried=12)
    assert "unit of privacy being one person: 1 release with noise multiplier" in words
    assert "sampling used: none (all records)" in words
    assert "the number of classes, 3, and the size of an image are public" in words
    assert "Post-processing: images are drawn from" in words
    assert ("Gaussians" in words) == (method == MOMENTS)
    assert "seed" not in words
    assert "the number of records, 60, is public" in words
    declared = images_of(method, public_size=50).fit(*made_up()).statement()
    assert "number of records" not in declared
    seeded = images_of(method, reproducible_seed=1).fit(*made_up()).statement()
    assert "Noise was drawn from a fixed seed" in seeded


def test_images_of_two_values_are_read_by_their_type():
    """0/1 as bool are 0 and 1; as bytes they are dark pixels, which is warned of."""
    x, y = made_up(200)
    means = [images_of(epsilon=1e4).fit(b, y).sample(y).mean() for b in (x > 99, (x > 99) / 1.0)]
    assert means[0] == pytest.approx(means[1], abs=0.03)
    with pytest.warns(UserWarning, match=r"first 200 lie below 32.*keep it to yourself"):
        images_of().fit((x > 99).astype(np.uint8), y)


@pytest.mark.torch
def test_a_data_set_of_torch_with_other_parts_than_images_and_labels_is_refused():
    from torch import from_numpy
    from torch.utils.data import TensorDataset

    x, y = made_up()
    held = TensorDataset(from_numpy(x), from_numpy(y))
    with pytest.raises(ValueError, match="got 3 parts"):
        images_of().fit(TensorDataset(*held.tensors, held.tensors[1]))
    with pytest.raises(TypeError, match="leave y out"):
        images_of().fit(held, y)


def test_a_class_may_have_no_record_and_the_data_none():
    x, y = made_up()
    for images, labels, size in ((x, y * 0, None), (x[:0], y[:0], 50)):
        found = images_of(public_size=size).fit(images, labels).sample([0, 1, 2])
        assert np.isfinite(found).all()


@methods
def test_the_fitted_object_holds_no_records_and_sampling_reads_none(method):
    """Its size is that of the release; and the records are overwritten where they lie."""
    few, many = (len(pickle.dumps(images_of(method).fit(*made_up(n)))) for n in (30, 600))
    assert abs(many - few) < 3000
    pixels, labels = made_up()
    x = pixels / 255
    fitted = images_of(method).fit(x, labels)
    before = fitted.sample([0, 1, 2], reproducible_seed=3)
    x[:], labels[:] = 0, 0
    np.testing.assert_allclose(fitted.sample([0, 1, 2], reproducible_seed=3), before)


def with_pixel(value: float) -> np.ndarray:
    x = made_up()[0] / 255
    x[7, 0, 2, 3] = value
    return x


BYTES, LABELS = made_up()

test_images_that_cannot_be_are_refused = refused(
    (BYTES * 1.0, r"must lie in \[0, 1\], and record 0 does not.*x / 255"),
    (BYTES / 127.5 - 1, r"\[0, 1\], and record 0 does not.*\(x \+ 1\) / 2"),
    (with_pixel(1.001), r"\[0, 1\], and record 7.*keep it to yourself"),
    (with_pixel(-1e-9), r"\[0, 1\], and record 7"),
    (with_pixel(np.nan), r"record 7 does not, or holds NaN.*fill in"),
    (with_pixel(np.inf), r"record 7 does not, or holds NaN"),
    (BYTES.astype(np.int64), r"uint8, bool or floats in \[0, 1\], got int64; .*numpy.uint8\(x\)"),
    (BYTES.reshape(60, -1), r"must have shape .*got \(60, 30\); .*x.reshape"),
    (BYTES[:, :, :, :0], "must have shape"),
    ("folder", r"got <U6.*dpkit.datasets.image_folder\(x\)"),
    (Path("folder"), r"dpkit.datasets.image_folder\(x\)"),
    (BYTES[:50], r"must be integers of shape \(50,\)"),
    ([[[1.0]], [[1.0, 2.0]]], "must be numbers of one shape"),
    (np.zeros((60, 8, 6, 1), np.uint8), r"x.transpose\(0, 3, 1, 2\)"),
    (np.zeros((60, 8, 6, 3), np.uint8), r"x.transpose\(0, 3, 1, 2\)"),
    call=lambda x: images_of().fit(x, LABELS),
)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (LABELS + 1, r"must lie in 0\.\.2, got 3 in row \d+; number the classes from 0"),
        *((LABELS - 1, r"must lie in 0\.\.2, got -1"), (LABELS * 1.0, "must be integers")),
        *((np.eye(3)[LABELS], "must be integers"), (np.array(["a"] * 60), "must be integers")),
        (LABELS[:, None], r"must be integers.*\(60, 1\); round floats, flatten a column"),
    ],
)
def test_labels_that_cannot_be_are_refused(y: Any, message: str):
    with pytest.raises(ValueError, match=f"^y {message}"):
        images_of().fit(BYTES, y)
    with pytest.raises(ValueError, match=f"^labels {message}.*public( list)?$"):  # of no record
        images_of().fit(BYTES, LABELS).sample(y)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (BYTES, None, "no y was given"),
        (make_images("made up", BYTES, LABELS), LABELS, "hold their own labels"),
        (np.ma.masked_array(BYTES), LABELS, "x is a masked array"),
        (BYTES, np.ma.masked_array(LABELS), "y is a masked array"),
    ],
)
def test_data_of_other_kinds_are_refused(x: Any, y: Any, message: str):
    with pytest.raises(TypeError, match=message):
        images_of().fit(x, y)


def test_changes_that_keep_a_class_are_made_to_samples_and_named():
    for bad in ("mirror", None, {"turn": 5}, iter(["turn"])):
        with pytest.raises(TypeError, match="invariant_to must be a tuple of names, got "):
            images_of(invariant_to=bad).fit(BYTES, LABELS)
    plain, moved = (
        images_of(invariant_to=names, reproducible_seed=0).fit(BYTES, LABELS)
        for names in ((), {"shift", "turn"})
    )
    pair = [one.sample(LABELS, reproducible_seed=1) for one in (plain, moved)]
    assert np.abs(pair[0] - pair[1]).mean() > 0.01
    moved.invariant_to = ()  # of the next fit
    np.testing.assert_allclose(moved.sample(LABELS, reproducible_seed=1), pair[1])
    assert "then changed at random (turn, shift)." in moved.statement()
    assert "changed" not in plain.statement()


def test_writing_on_white_comes_out_as_writing_on_black_does_and_moves_on_white():
    """Of images and their negatives samples are one another's negatives: means of 2,000 of each."""
    x, y = made_up(6_000)
    asked: dict[str, Any] = {"epsilon": 50.0, "invariant_to": ["shift"], "reproducible_seed": 0}
    fits = (
        images_of(centre=at, **asked).fit(z, y) for at, z in ((0.0, x // 4), (1.0, 255 - x // 4))
    )
    black, white = (one.sample(y, reproducible_seed=1).mean(0) for one in fits)
    np.testing.assert_allclose(black, 1 - white, atol=0.03)
    assert black.max() < 0.5


def test_a_class_that_a_mirror_keeps_is_sampled_as_its_mirror_image_is():
    """White on the left: 2,000 samples are as bright on both sides, within 8 deviations."""
    x = np.zeros((400, 6, 6), np.uint8)
    x[:, :, :3] = 255
    fits = (
        images_of(epsilon=1e3, invariant_to=names).fit(x, np.zeros(400, dtype=int))
        for names in ((), ("mirror",))
    )
    alone, both = (one.sample(np.zeros(2_000, dtype=int)).mean((0, 1, 2)) for one in fits)
    assert alone[:3].mean() > alone[3:].mean() + 0.3
    np.testing.assert_allclose(both, both[::-1], atol=0.08)


test_other_bad_arguments_are_refused = refused(
    *(({"epsilon": bad}, "epsilon must be a finite number > 0") for bad in (0, float("nan"))),
    *(({"delta": bad}, "delta must lie in") for bad in (0, 1)),
    *(({"classes": bad}, "classes must be an integer >= 1") for bad in (0, 2.0)),
    ({"centre": 0.3}, "centre must be one of"),
    ({"method": "gan"}, "method must be one of moments, random features; got 'gan'"),
    (
        {"invariant_to": ["flip"]},
        "invariant_to must be one of turn, shift, size, bend, mirror; got",
    ),
    ({"public_size": 0}, "public_size must be an integer >= 1"),
    call=lambda changes: images_of(**changes).fit(BYTES, LABELS),
)


@pytest.mark.torch
def test_a_budget_adds_up_fits_and_one_that_exceeds_it_charges_nothing(tmp_path):
    budget = Budget(tmp_path / "budget.json", epsilon=3, delta=1e-5)
    shares = [0.0]
    for method in (MOMENTS, FEATURES):
        images_of(method, epsilon=0.5).fit(BYTES, LABELS, budget=budget)
        shares.append(budget.share_spent())
    assert 0 < shares[1] < shares[2] < 1
    late = images_of(epsilon=3)
    with pytest.raises(OverBudget, match="take a smaller epsilon"):
        late.fit(BYTES, LABELS, budget=budget)
    assert not hasattr(late, "model_")
    with pytest.raises(ValueError, match="the budget of another data set"):
        images_of(epsilon=0.5).fit(BYTES[1:], LABELS[1:], budget=budget)
    with pytest.raises(ValueError, match=r"y must lie.*keep it to yourself"):
        images_of(epsilon=0.5).fit(BYTES, LABELS + 1, budget=budget)
    assert budget.share_spent() == shares[2]
    named = replace(budget, path=tmp_path / "named.json", data="the scans of 2020")
    images_of(epsilon=0.5).fit(BYTES[1:], LABELS[1:], budget=named)
    images_of(epsilon=0.5).fit(BYTES, LABELS, budget=named)


@pytest.mark.torch
def test_a_budget_knows_the_same_data_in_a_private_gan():
    import torch

    from dpkit.private import data

    for x in (BYTES, BYTES[:, 0], BYTES / 255, (BYTES / 255).astype(np.float32)):
        for y in (LABELS, LABELS.astype(np.int32)):
            own = checksum(x, y.astype(np.int64))
            assert own == data.checksum(data.tensors(torch.from_numpy(x), y))

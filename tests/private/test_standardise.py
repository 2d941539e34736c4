"""Standardised features: public constants, and a mean and deviation that are a charged release."""

import math
import pickle

import numpy as np
import pytest
import torch
from refusals import refused
from small_networks import FLAT, X, Y, gan_of, private_of, run

from dpkit.privacy import Gaussian, Release, pld
from dpkit.private import Budget, NoisyStandardised, Standardised, data, saved

PLAN = {"epsilon": 2, "batch_size": 60}


def test_public_constants():
    rows = Standardised((1.0, 2.0), 2.0)(torch.tensor([[3, 0], [1, 2]]))
    assert rows.tolist() == [[1.0, -1.0], [0.0, 0.0]]


def sums(features, low, high, monkeypatch):
    """What a release noises, and the deviation of its noise."""
    seen = []

    def kept(found, *, noise_std, rng):
        seen.append((found[0], noise_std))
        return found

    monkeypatch.setattr(data, "noised", kept)
    noise = NoisyStandardised(low, high, 3.0)
    data.settled(noise, features, public_size=9, rng=torch.Generator())
    return seen[-1]


@pytest.mark.parametrize("record", [0.0, -3.0, 7.5, 1e30, -1e30])
def test_a_record_moves_the_sum_by_its_bound_at_most(record, monkeypatch):
    """A brute-force neighbour: the noise is noise_multiplier times that bound."""
    others = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)) * 3
    one = torch.cat((others, torch.full((1, 6), record)))
    without, std = sums(others, -3, 7.5, monkeypatch)
    with_it, _ = sums(one, -3, 7.5, monkeypatch)
    moved = (with_it - without).norm()
    bound = std / 3.0
    assert moved <= bound * (1 + 1e-12)
    if abs(record) >= 1e30 or record in (-3.0, 7.5):  # a corner attains it
        assert moved == pytest.approx(bound)


def test_it_finds_the_mean_and_deviation():
    """Within 6 deviations of the noise: fails with a probability below 1e-6."""
    rng = np.random.default_rng(0)
    features = torch.tensor(rng.normal((10.0, -4.0), (2.0, 1.0), (50_000, 2)))
    noise = NoisyStandardised((0, -10), (20, 0), 5.0)
    rng = torch.Generator().manual_seed(1)
    found = data.settled(noise, features, public_size=50_000, rng=rng)
    off = 6 * 5.0 * math.sqrt(4) / 50_000
    assert np.allclose(found.mean, (10.0, -4.0), atol=10 * off + 0.05)
    assert np.allclose(found.std, (2.0, 1.0), atol=0.1)
    rows = torch.zeros(4, 3, 5)
    made = data.settled(NoisyStandardised(0, 1), rows, public_size=4, rng=rng)
    assert made(rows[:2]).shape == (2, 3, 5)


def test_it_is_the_first_release_of_the_same_budget(tmp_path):
    budget = Budget(tmp_path / "budget.json", epsilon=3, delta=1e-5)
    private = private_of(transform=NoisyStandardised(-1, 1, 4.0), budget=budget, **PLAN)
    assert (spent := budget.share_spent()) > 0  # the numbers are there to be read
    assert private.ledger[0] == Release(Gaussian(4.0))  # `transform` shows it before any step
    assert private.guarantee().epsilon > 0
    run(private)
    assert budget.share_spent() == spent
    first, *steps = private.ledger
    assert first == Release(Gaussian(4.0))
    assert pld.epsilon([first, *steps], delta=1e-5).epsilon <= 2
    assert private.guarantee().epsilon == pytest.approx(2, rel=1e-2)
    assert private_of(**PLAN).plan.noise_multiplier < private.plan.noise_multiplier
    words = private.statement()
    assert "1 release with noise multiplier 4" in words
    assert "bounds low and high of the features are public" in words


def test_the_numbers_that_were_released_are_to_be_had_for_test_data(tmp_path):
    private = run(private_of(transform=NoisyStandardised(-1, 1, 4.0), **PLAN))
    assert private.transform(FLAT).mean(0).abs().mean() < FLAT.mean(0).abs().mean()
    private.save(tmp_path / "net.safetensors")
    facts = saved.load(tmp_path / "net.safetensors", private.net)
    assert torch.allclose(Standardised(**facts["standardised"])(FLAT), private.transform(FLAT))


def test_a_transform_that_reads_the_data_is_refused_and_leads_here():
    private = private_of(transform=lambda rows: (rows - FLAT.mean(0)) / (FLAT.std(0) + 1))
    with pytest.raises(ValueError, match=r"transform reads the data set.*NoisyStandardised"):
        next(iter(private))
    public = Standardised(FLAT.mean(0).tolist(), 1.0)  # as the statement assumes of it
    next(iter(private_of(transform=public)))


def test_a_gan_on_standardised_rows(tmp_path):
    given = {"epsilon": 4, "transform": NoisyStandardised(-1, 1, 8.0)}
    gan = gan_of(**given).fit(X, Y, steps=4)
    assert "1 release with noise multiplier 8" in gan.statement()
    gan.save(tmp_path / "gan.safetensors")
    again = gan_of(**given).load(tmp_path / "gan.safetensors")
    assert again.guarantee() == gan.guarantee()
    numbers = again.settings_["standardised"]
    assert torch.allclose(gan.transform_(X), Standardised(**numbers)(X))  # test data, and back
    assert not hasattr(pickle.loads(pickle.dumps(gan)), "transform_")
    with pytest.raises(ValueError, match="give a reproducible_seed"):
        gan_of(**given).fit(X, Y, steps=4, checkpoint=tmp_path / "run")


test_numbers_out_of_range = refused(
    (lambda: Standardised(0.0, 0.0), "std must be > 0"),
    (lambda: Standardised(0.0, math.nan), "std must be > 0"),
    (lambda: NoisyStandardised(1, 1), "low must be below high"),
    (lambda: NoisyStandardised(0, math.nan), "low must be below high"),
    (lambda: NoisyStandardised(0, 1, 0), "noise_multiplier"),
)

"""What samplers tell an accountant, and what they are priced as."""

import numpy as np
import pytest

from dpkit.privacy import Gaussian, Release, SampledGaussian, Unsupported, pld, rdp
from dpkit.privacy.ledger import FIXED
from dpkit.privacy.sampling import (
    SHUFFLED_AS_POISSON,
    Assuming,
    FixedSizeBatches,
    PoissonSampling,
    ShuffledBatches,
    mechanism,
    sample_rate,
)

KINDS = [PoissonSampling, ShuffledBatches, FixedSizeBatches]
ORDERS = [1.5, 2.0, 4.0, 16.0, 100.0]


def test_the_rate_follows_from_public_numbers():
    batches = PoissonSampling(600)
    assert sample_rate(batches, public_size=60_000) == 0.01
    assert (batches.assumptions, ShuffledBatches(600).assumptions) == ((), (SHUFFLED_AS_POISSON,))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_poisson_batches_are_the_sampled_gaussian(adjacency):
    step = mechanism(PoissonSampling(600, adjacency), noise_multiplier=1.1, public_size=60_000)
    assert step == SampledGaussian(1.1, 0.01, adjacency)
    run = {"noise_multiplier": 1.1, "public_size": 60_000, "assume": (SHUFFLED_AS_POISSON,)}
    assert mechanism(PoissonSampling(600, adjacency), **run) == step  # not needed, so not told


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("price", [rdp.epsilon, pld.epsilon])
def test_what_is_assumed_is_in_the_guarantee(price, adjacency):
    run = {"noise_multiplier": 1.1, "public_size": 60_000}
    with pytest.raises(Unsupported, match=r"pass assume=\(SHUFFLED_AS_POISSON,\) to price"):
        mechanism(ShuffledBatches(600, adjacency), **run)
    step = mechanism(ShuffledBatches(600, adjacency), **run, assume=(SHUFFLED_AS_POISSON,))
    other = SampledGaussian(2.0, 0.1, adjacency)
    found = price([Release(step, 100), Release(other)], delta=1e-5)
    assert found.assumptions == (SHUFFLED_AS_POISSON, *other.assumptions, FIXED)
    as_poisson = [Release(SampledGaussian(1.1, 0.01, adjacency), 100), Release(other)]
    assert found.epsilon == price(as_poisson, delta=1e-5).epsilon
    assert found.adjacency == adjacency


def test_what_assumes_more_costs_the_same():
    bare = SampledGaussian(0.9, 0.2, "replace-one")
    told = Assuming(bare, ("the moon is full",))
    edges = np.linspace(-3, 3, 7)
    assert told.assumptions == ("the moon is full", *bare.assumptions)
    assert told.adjacency == "replace-one"
    assert (told.rdp(ORDERS) == bare.rdp(ORDERS)).all()
    assert (told.profile(edges) == bare.profile(edges)).all()
    assert (told.privacy_loss().masses(edges) == bare.privacy_loss().masses(edges)).all()
    assert told.gaussian_dp() == bare.gaussian_dp()
    assert len({told, Assuming(bare, ("the moon is full",)), Assuming(bare, ())}) == 2


@pytest.mark.parametrize("noise", [0.7, 1.0, 4.0])
def test_fixed_batches_cost_at_least_what_the_same_pair_does(noise):
    """Where all other records' gradients are 0, the pair is the one of replace-one sampling.

    So any bound must lie above that price; one of twice the noise would not. A batch of all records
    is an ordinary Gaussian release whose sum moves by 2C.
    """
    step = mechanism(FixedSizeBatches(50), noise_multiplier=noise, public_size=50)
    np.testing.assert_allclose(step.rdp(ORDERS), Gaussian(noise, "replace-one").rdp(ORDERS))
    step = mechanism(FixedSizeBatches(5), noise_multiplier=noise, public_size=50)
    reached = SampledGaussian(noise, 0.1, "replace-one").rdp(ORDERS)
    assert (step.rdp(ORDERS) >= reached).all()
    twice = mechanism(FixedSizeBatches(5), noise_multiplier=2 * noise, public_size=50)
    assert not (twice.rdp(ORDERS) >= reached).all()
    assert "without replacement" in step.assumptions[0]

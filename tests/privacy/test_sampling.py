"""What samplers tell an accountant, and schedules."""

import pytest

from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches, sample_rate
from dpkit.privacy.schedules import Constant, Linear


def test_the_rate_follows_from_public_numbers():
    assert sample_rate(PoissonSampling(600), public_size=60_000) == 0.01


def test_a_shuffled_sampler_names_what_is_assumed_and_a_poisson_one_assumes_nothing():
    assert PoissonSampling(600).assumptions == ()
    assert "shuffled" in ShuffledBatches(600).assumptions[0]


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(ValueError, match="expected_batch_size must be <= public_size, got 600"):
        sample_rate(PoissonSampling(600), public_size=599)


@pytest.mark.parametrize("kind", [PoissonSampling, ShuffledBatches])
@pytest.mark.parametrize("size", [0, -3, float("nan")])
def test_a_batch_of_nothing_is_refused(kind, size):
    with pytest.raises(ValueError, match="expected_batch_size must be >= 1"):
        kind(size)


def test_schedules():
    line = Linear(0.1, 0.052, over=10_000)
    assert [line(0), line(10_000), line(50_000)] == pytest.approx([0.1, 0.052, 0.052])
    assert line(5_000) == pytest.approx(0.076)
    assert Constant(3.0)(17) == 3.0
    with pytest.raises(ValueError, match="over must be >= 1"):
        Linear(1.0, 0.0, over=0)

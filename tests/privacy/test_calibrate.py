"""Calibration ends on the private side, close to the edge."""

import pytest

from dpkit.privacy import Gaussian, NoGuarantee, Release, SampledGaussian, calibrate, rdp


@pytest.mark.parametrize("target", [0.05, 1.0, 9.6, 60.0])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_noise_is_enough_and_a_little_less_is_not(target: float, adjacency):
    same = {"delta": 1e-5, "orders": [1.5, 2, 3, 5, 8, 16, 32, 64, 256]}
    noise = calibrate.noise_multiplier(
        target, sample_rate=0.01, steps=500, adjacency=adjacency, tolerance=1e-4, **same
    )

    def spent(value: float) -> float:
        ledger = [Release(SampledGaussian(value, 0.01, adjacency), 500)]
        return rdp.epsilon(ledger, **same).epsilon

    assert spent(noise) <= target < spent(noise * (1 - 2e-4))


def test_noise_as_other_kits_find_it_and_none_for_no_release():
    """Opacus needs .8447 for this run; automatic orders need no more."""
    for rate, steps in [(0.0, 10), (0.1, 0)]:
        assert calibrate.noise_multiplier(1.0, sample_rate=rate, steps=steps, delta=1e-5) == 0
    noise = calibrate.noise_multiplier(9.6, sample_rate=0.01, steps=10_000, delta=1e-5)
    assert 0.82 < noise <= 0.8447


OPTIMAL = pytest.param("optimal", marks=pytest.mark.slow("one step too many by this conversion"))


@pytest.mark.parametrize("conversion", ["classic", "improved", OPTIMAL])
def test_steps_are_the_last_that_fit(conversion: str):
    mechanism, same = SampledGaussian(1.5, 0.02), {"delta": 1e-5, "conversion": conversion}
    steps = calibrate.steps(2.0, mechanism=mechanism, orders=[8, 16], **same)

    def spent(count: int) -> float:
        return rdp.epsilon([Release(mechanism, count)], orders=[8, 16], **same).epsilon

    assert steps > 100
    assert spent(steps) <= 2.0 < spent(steps + 1)


def test_steps_where_one_is_too_many():
    for mechanism in (Gaussian(0.1), NoGuarantee("raw data")):
        assert calibrate.steps(1.0, mechanism=mechanism, delta=1e-5) == 0

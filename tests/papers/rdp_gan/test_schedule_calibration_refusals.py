"""What the solvers of schedules refuse: bad input, and targets that nothing reaches."""

import pytest

from dpkit.papers.rdp_gan.schedule_calibration import initial_noise, iterations_within
from dpkit.privacy import Guarantee, NoGuarantee, SampledGaussian, pld, rdp
from dpkit.privacy.schedules import Constant, ExponentialDecay

NAN, INF = float("nan"), float("inf")
DELTA = 1e-5


def sampled(noise: float) -> SampledGaussian:
    return SampledGaussian(noise, 0.1)


def test_an_accountant_that_says_nan_lets_nothing_through():
    def broken(ledger, *, delta: float) -> Guarantee:
        return pld.epsilon([], delta=delta)._replace(epsilon=NAN)

    one = {"releases_each": 1, "release": sampled, "delta": DELTA, "accountant": broken}
    assert iterations_within(1.0, schedule=Constant(5.0), **one).iterations == 0
    with pytest.raises(ValueError, match="no start of the schedule meets epsilon 1"):
        initial_noise(1.0, schedule=Constant, iterations=2, **one)


def start_of(target: float = 1.0, schedule=Constant, **changed):
    options = {"iterations": 3, "releases_each": 1, "release": sampled, "delta": DELTA, **changed}
    return initial_noise(target, schedule=schedule, **options)


def count_of(target: float = 1.0, **changed):
    options = {
        "schedule": Constant(5.0),
        "releases_each": 1,
        "release": sampled,
        "delta": DELTA,
        **changed,
    }
    return iterations_within(target, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: start_of(NAN), "target_epsilon must be a finite number > 0, got nan"),
        (lambda: start_of(0.0), "target_epsilon must be a finite number > 0, got 0"),
        (lambda: start_of(iterations=0), "iterations must be an integer >= 1, got 0"),
        (lambda: start_of(iterations=NAN), "iterations must be an integer >= 1, got nan"),
        (lambda: start_of(releases_each=0), "releases_each must be an integer >= 1, got 0"),
        (lambda: start_of(delta=NAN), r"delta must lie in \(0, 1\)"),
        (lambda: start_of(tolerance=NAN), r"tolerance must lie in \(0, 1\)"),
        (
            lambda: start_of(schedule=lambda s: lambda step: NAN if step == 2 else s),
            "step 2 of the schedule: noise_multiplier must be .* got nan",
        ),
        (
            lambda: start_of(schedule=lambda s: lambda step: s * (1 - step)),
            "step 1 of the schedule: noise_multiplier must be .* got 0.0",
        ),
        (
            lambda: start_of(schedule=lambda s: ExponentialDecay(s, 0.06), iterations=1000),
            r"no start of the schedule meets epsilon 1.0 with noise multipliers in \[1e-09, 1e",
        ),
        (
            lambda: start_of(schedule=lambda s: ExponentialDecay(s, 5.0), iterations=1000),
            "no start of the schedule meets",
        ),
        (
            lambda: start_of(1e-9, accountant=rdp.epsilon, orders=[2]),
            "no start of the schedule meets epsilon 1e-09",
        ),
        (
            lambda: start_of(release=lambda _: NoGuarantee("raw data"), accountant=rdp.epsilon),
            "no start of the schedule meets",
        ),
        (
            lambda: start_of(1e25, accountant=rdp.epsilon),
            r"target_epsilon 1e\+25 is met by the smallest noise",
        ),
        (
            lambda: start_of(release=lambda noise: SampledGaussian(noise, 2.0)),
            r"sample_rate must lie in \[0, 1\], got 2",
        ),
        (lambda: count_of(NAN), "target_epsilon must be a finite number > 0, got nan"),
        (lambda: count_of(most=0), "most must be an integer >= 1, got 0"),
        (lambda: count_of(releases_each=NAN), "releases_each must be an integer >= 1, got nan"),
        (lambda: count_of(delta=0.0), r"delta must lie in \(0, 1\)"),
        (
            lambda: count_of(schedule=lambda step: NAN if step == 7 else 5.0),
            "step 7 of the schedule: noise_multiplier must lie in .* got nan",
        ),
        (lambda: count_of(schedule=lambda step: 0.0), "step 0 of the schedule: .* got 0.0"),
        (lambda: count_of(schedule=lambda step: INF), "step 0 of the schedule: .* got inf"),
    ],
)
def test_bad_values_are_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_schedule_that_ignores_its_start_is_an_error():
    for release in (lambda _: sampled(0.5), lambda _: sampled(50.0)):
        with pytest.raises(ArithmeticError, match="its price must fall as the start rises"):
            start_of(schedule=lambda _: Constant(1.0), release=release, accountant=rdp.epsilon)

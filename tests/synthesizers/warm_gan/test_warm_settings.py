"""What a warm GAN costs: the ledger holds both kinds of release, and its price is the budget."""

from dataclasses import replace
from functools import cache
from math import nan as NAN

import pytest
from refusals import refused

from dpkit.privacy import Gaussian, Release, gdp, pld
from dpkit.synthesizers.warm_gan.settings import calibrated, ceiling, signal

GIVEN = {
    **{"delta": 1e-5, "public_size": 60_000, "classes": 10},
    **{"shape": (1, 8, 8), "steps": 40, "batch_size": 2048},
}
BAD = {"copies": 0, "shift": -1, "loss": "wasserstein", "n_critic": 41, "generator_batch": 0}
BAD |= {"generator_decay": NAN, "hidden": 0, "target_epsilon": NAN}


@cache
def settings(epsilon=10.0, share=0.5):
    return calibrated(epsilon, share=share, **GIVEN)


@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 0.3), (10.0, 0.3), (10.0, 0.8)])
def test_moments_and_steps_together_cost_the_budget(epsilon, share):
    made = settings(epsilon, share)
    first, steps = made.moments.ledger(), made.plan.ledger()
    assert made.ledger(public_size=60_000) == [*first, *steps]
    ledgers = ([*first, *steps], first, steps)
    whole, *apart = (pld.epsilon(ledger, delta=1e-5).epsilon for ledger in ledgers)
    assert 0.98 * epsilon <= whole <= epsilon
    assert max(apart) < epsilon < sum(apart)


def test_the_moments_take_their_share_of_mu_squared():
    first = settings(10.0, 0.3).moments.noise_multipliers
    mu = sum(1 / noise**2 for noise in first) ** 0.5
    whole = Release(Gaussian(0.3**0.5 / mu))
    assert gdp.epsilon([whole], delta=1e-5).epsilon == pytest.approx(10, rel=1e-3)


def test_a_ledger_of_some_steps_holds_the_moments_whole():
    made = settings()
    assert made.ledger(public_size=60_000, steps=3)[:-1] == made.moments.ledger()
    assert made.ledger(public_size=60_000, steps=3)[-1].count == 3
    assert made.steps_allowed(public_size=60_000) == 40
    for asked in (made.steps_allowed, made.ledger):
        with pytest.raises(ValueError, match="public_size must be 60000"):
            asked(public_size=59_999)


@pytest.mark.parametrize(
    ("steps", "batch", "noise", "total"),
    [(2_000, 2048, 5.79, 15_820), (2_100, 4096, 1.727, 108_666), (200, 60_000, 52.8, 16_079)],
)
def test_signal(steps, batch, noise, total):
    plan = replace(settings().plan, steps=steps, batch_size=batch, noise_multiplier=noise)
    assert signal(plan) == pytest.approx(total, rel=2e-3)  # noises are known to three digits


def test_no_plan_has_more_signal_than_the_ceiling():
    for epsilon, most in ((1.0, 16_080), (10.0, 120_000)):
        bound = ceiling(epsilon, delta=1e-5, public_size=60_000)
        assert bound == pytest.approx(most, rel=1e-3)
        assert signal(settings(epsilon, 0.3).plan) < bound * 0.7**0.5


test_bad_settings_and_shares = refused(
    *((lambda name=name: replace(settings(), **{name: BAD[name]}), name) for name in BAD),
    *((lambda share=share: calibrated(10, share=share, **GIVEN), "share") for share in (0, 1, NAN)),
)

"""The sentence for a paper: everything that an epsilon must say, from any kind of ledger."""

import math

from refusals import refused

from dpkit.common.show import at_most
from dpkit.privacy import Gaussian, GroupedGaussian, Ledger, Release, SampledGaussian, best_of
from dpkit.privacy.accountants import gdp, pld, rdp
from dpkit.privacy.sampling import SHUFFLED_AS_POISSON, ShuffledBatches, mechanism
from dpkit.privacy.statement import statement, tuning

STEPS = [Release(SampledGaussian(1.1, 0.01), 1000)]
PRICE = rdp.epsilon(STEPS, delta=1e-5)


def test_a_statement_says_what_an_epsilon_needs():
    words = statement(PRICE, STEPS, unit="one patient", sampling="Poisson", tuning="charged")
    for part in (
        "1e-5)-differential privacy under add-remove adjacency",
        "the unit of privacy being one patient",
        "1000 steps with noise multiplier 1.1 and sample rate 0.01",
        PRICE.method,
        "Sampling assumed: Poisson; sampling used: Poisson.",
        "Tuning of hyperparameters: charged.",
        "; noise, sampling and number of releases were fixed beforehand",
    ):
        assert part in words


def test_a_statement_admits_what_it_was_not_given_and_rounds_epsilon_up():
    words = statement(PRICE, STEPS)
    assert "sampling used: not stated. Tuning of hyperparameters: not charged." in words
    stated = float(words.partition("(")[2].partition(",")[0])
    assert PRICE.epsilon <= stated <= PRICE.epsilon * 1.001


def test_releases_without_batches_are_not_called_steps_and_others_have_names():
    one, grouped = [Release(Gaussian(3.5))], [Release(GroupedGaussian(1.1, groups=2), 3), *STEPS]
    for ledger, done, drawn in (
        (one, ": 1 release with noise multiplier 3.5, accounted", "none (all records)"),
        (grouped, "3 releases by GroupedGaussian and 1000 steps with", "GroupedGaussian and P"),
    ):
        words = statement(rdp.epsilon(ledger, delta=1e-5), ledger)
        assert done in words
        assert f"Sampling assumed: {drawn}" in words


def test_what_a_price_assumes_is_stated():
    shuffled = mechanism(
        ShuffledBatches(10), noise_multiplier=1.1, public_size=1000, assume=(SHUFFLED_AS_POISSON,)
    )
    ledger = Ledger.of([Release(shuffled, 5)])
    words = statement(rdp.epsilon(ledger, delta=1e-5), ledger, assume=("the sun shines",))
    assert "5 steps with noise multiplier 1.1 and sample rate 0.01" in words
    assert "Assumed: shuffled batches priced as Poisson batches; " in words
    assert words.endswith("; the sun shines.")


def test_what_tuning_cost_is_stated():
    """All runs as one ledger, and the best of a random number of them."""
    said = tuning(STEPS, delta=1e-5, tried=12)
    every = pld.epsilon([Release(SampledGaussian(1.1, 0.01), 12_000)], delta=1e-5)
    best = rdp.epsilon(best_of(STEPS, mean=12), delta=1e-5)
    assert said.startswith("12 settings were tried on these records")
    assert f"all runs together cost epsilon {at_most(every.epsilon)} at delta 1e-5" in said
    assert said.endswith(f"would have cost {at_most(best.epsilon)}")
    assert tuning(STEPS, delta=1e-5, tried=1).startswith("no other settings")


def test_nothing_released_is_a_statement_too():
    words = statement(rdp.epsilon([], delta=1e-5), [])
    assert "satisfies (0, 1e-5)-differential privacy" in words
    assert "no release, accounted" in words


OTHER = [Release(SampledGaussian(1.1, 0.01, "replace-one"), 1000)]

test_what_cannot_be_stated_is_refused = refused(
    (gdp.epsilon(STEPS, delta=1e-5), STEPS, "which can lie below the truth"),
    (PRICE._replace(epsilon=math.inf), STEPS, "no finite epsilon is proven"),
    (PRICE._replace(epsilon=math.nan), STEPS, "no finite epsilon is proven"),
    (PRICE, OTHER, "guarantee is under add-remove and ledger under replace-one"),
    call=statement,
)

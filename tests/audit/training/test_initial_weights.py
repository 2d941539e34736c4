"""Worst-case initial weights: near the ideal attacker, never beyond what is proven."""

import numpy as np
import pytest
from torch.nn.functional import linear, one_hot

from dpkit.audit import bounds
from dpkit.audit.training import initial_weights as attack
from dpkit.audit.training.canaries import first_digits
from dpkit.private.plan import calibrated
from dpkit.training.noise import watched

pytestmark = pytest.mark.torch

RECORDS, TRIALS = 200, 120
ASKED = {"delta": 1e-5, "adjacency": "add-remove"}
LARGE = pytest.mark.slow("more found than is proven where the noise is large")


@pytest.fixture(scope="module")
def case() -> attack.Case:
    rng = np.random.default_rng(1)
    return attack.blank_target(rng, records=RECORDS, images=first_digits(900))


@pytest.fixture(scope="module")
def at_10(case):
    """Scores of both worlds at epsilon 10."""
    return attack.final_losses(np.random.default_rng(3), TRIALS, case=case, plan=plan(10))


def plan(epsilon: float, steps: int = 2):
    return calibrated(epsilon, delta=1e-5, steps=steps, batch_size=RECORDS, records=RECORDS)


def test_only_the_targets_gradient_is_long(case):
    def gradients(features, labels):
        wrong = linear(features, **case.weights).softmax(1) - one_hot(labels, 10)
        return wrong.norm(dim=1) * (features.square().sum(1) + 1).sqrt()

    assert gradients(*case.target).item() > 1
    assert (gradients(*case.others) < 0.05).float().mean() > 0.75


def test_the_loss_tells_as_much_as_the_best_attacker(at_10):
    """mu is sqrt(steps) / noise multiplier: within 5 standard errors (1 of 10^5 runs beyond)."""
    absent, present = at_10
    found = (present.mean() - absent.mean()) / np.sqrt((absent.var() + present.var()) / 2)
    ideal = np.sqrt(2) / plan(10).noise_multiplier
    assert found == pytest.approx(ideal, abs=5 * np.sqrt(2 / TRIALS + ideal**2 / (4 * TRIALS)))


@pytest.mark.parametrize("epsilon", [10, pytest.param(1, marks=LARGE)])
def test_no_more_is_found_than_is_proven(case, at_10, epsilon):
    """Fails by chance in at most 5 % of seeds."""
    made, rng, scores = plan(epsilon), np.random.default_rng(3), at_10
    if epsilon < 10:
        scores = attack.final_losses(rng, TRIALS, case=case, plan=made)
    for bound in (bounds.clopper_pearson, bounds.gaussian):
        assert bound(*scores, **ASKED, rng=rng).epsilon <= made.guarantee().epsilon


def test_nothing_is_found_under_noise_far_too_large(case):
    """By chance in at most 5 % of seeds."""
    rng = np.random.default_rng(4)
    scores = attack.final_losses(rng, TRIALS // 2, case=case, plan=plan(0.01, steps=1))
    assert bounds.gaussian(*scores, **ASKED, rng=rng).epsilon == 0


def test_half_the_noise_that_is_charged_is_caught(case):
    """mu is 1.85 instead of 0.93: epsilon 9 instead of 4; less is found in 2 % of seeds."""

    def halved(sums, stds, noised):
        return [total + (noisy - total) / 2 for total, noisy in zip(sums, noised, strict=True)]

    rng, made = np.random.default_rng(5), plan(4)
    with watched(halved):
        scores = attack.final_losses(rng, TRIALS, case=case, plan=made)
    assert bounds.gaussian(*scores, **ASKED, rng=rng).epsilon > made.guarantee().epsilon


@pytest.mark.slow("batches of this attack that are not drawn as its plan says")
def test_poisson_batches_of_the_plan_are_drawn(case, at_10):
    """Half as often in a batch, and twice as far, since sums are over half as many records.

    So the losses move as with full batches: within 5 standard errors.
    """
    made = calibrated(10, delta=1e-5, steps=2, batch_size=RECORDS // 2, records=RECORDS)
    absent, present = attack.final_losses(np.random.default_rng(6), TRIALS, case=case, plan=made)
    shift, unit = present.mean() - absent.mean(), at_10.present.mean() - at_10.absent.mean()
    error = np.sqrt(sum(x.var() / TRIALS for x in (absent, present, *at_10)))
    assert shift == pytest.approx(unit, abs=5 * error)


def test_images_must_be_left_to_learn_from():
    with pytest.raises(ValueError, match="records must be below the 50 images, got 50"):
        attack.blank_target(np.random.default_rng(0), records=50, images=first_digits(50))

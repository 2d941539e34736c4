"""The claims of DP-CGAN by numbers found independently, Table 1, and its scores by counting."""

import math

import numpy as np
import pytest
from refusals import refused
from scipy.stats import t as student
from scipy.stats import ttest_ind
from truths import epsilon_where, gaussian_epsilon, log_moment

from dpkit.common import records
from dpkit.papers.claims import check
from dpkit.papers.dp_cgan import claims, tables
from dpkit.privacy import SampledGaussian
from dpkit.privacy.sampling import ShuffledBatches

BY_NAME = {claim.name: claim for claim in claims.CLAIMS}


def test_the_notebook_log_to_nine_digits():
    for steps, printed in claims.NOTEBOOK_PRINTS.items():
        found, said = (
            claims.epsilon(SampledGaussian(noise, claims.NOTEBOOK_RATE), steps)
            for noise in (claims.NOTEBOOK_NOISE, 0.6)
        )
        assert f"{found:.9g}" == f"{printed:.9g}"
        assert said < printed - 1


def test_the_corrections_follow_from_the_settings_and_one_step_more_would_overspend():
    found = (claims.ONE_CLIP, claims.REAL_PART, claims.BOTH_PARTS)
    assert found == pytest.approx((1.12, 1.12 / 2, 1.12 / 4))
    mechanism = SampledGaussian(claims.CODE_NOISE, claims.CODE_RATE)
    steps = claims.charged_steps()
    assert claims.epsilon(mechanism, steps) <= 9.6 < claims.epsilon(mechanism, steps + 1)


def test_the_real_row_is_that_of_the_codes_protocol_and_of_no_other():
    """All that the text leaves open moves the value by far less than it is from the other."""
    printed, trained = (check(BY_NAME[f"table-1-{name}"]) for name in ("real-row", "as-trained"))
    record = records.read_json(claims.REAL_EVIDENCE.path)["values"]
    spread = record["highest_255"] - record["lowest_255"]
    assert spread < printed.claim.tolerance < 0.1 * (trained.computed - printed.computed)


@pytest.mark.parametrize("classifier", ["lr", "mlp"])
def test_three_seeds_decide_neither_a_cell_nor_a_difference(classifier):
    for column, name in claims.COLUMNS.items():
        found = np.array(claims.aurocs(column, classifier))
        one = check(BY_NAME[f"table-1-{name}-{classifier}"])
        assert one.computed == pytest.approx(found.mean())
        low, high = claims.next_seed(column, classifier)
        assert low < one.claim.stated < high  # what the explanation says
        scaled = (high - found.mean()) / found.std(ddof=1) * 0.75**0.5
        assert student(2).cdf(scaled) == pytest.approx(0.975)
    pair = [np.array(claims.aurocs(name, classifier)) for name in ("published", "basic_dp")]
    welch = ttest_ind(*pair, equal_var=False).confidence_interval(0.95)
    found = claims.advantage(classifier)
    assert found == pytest.approx((pair[0].mean() - pair[1].mean(), welch.low, welch.high))
    assert found[1] < 0 < found[2]
    below = {"lr": 92.17 - 87.57, "mlp": 97.60 - 88.16}[classifier]  # printed cells of Table 1
    assert claims.below_real(classifier) == pytest.approx(below)


def test_the_moments_accountant_by_its_sums():
    """30,303 steps at rate .01 and noise 1.232, moments 1 to 32 (Abadi et al. 2016, Thm 2)."""
    moments = {moment: log_moment(moment + 1, 1.232, 0.01) for moment in range(1, 33)}
    best = min((30_303 * one + math.log(1e5)) / moment for moment, one in moments.items())
    found = check(BY_NAME["rdp-tighter-than-moments"])
    assert found.claim.stated == pytest.approx(best, rel=1e-6)
    assert found.computed < best


def test_the_variant_charges_each_tensor_alone_and_they_are_of_one_batch():
    """By moments summed here: 4 releases a step at noise 2, and one of them together."""

    def priced(noise: float, releases: int) -> float:
        sums = {m: releases * log_moment(m + 1, noise, 0.01) for m in range(1, 33)}
        return min((one + math.log(1e5)) / m for m, one in sums.items())

    steps = claims.MOMENTS_STEPS
    assert priced(2.0, 4 * steps) <= 8 < priced(2.0, 4 * (steps + 1))
    found = check(BY_NAME["moments-variant"]).computed
    assert found == pytest.approx(priced(1.0, steps), rel=1e-6)


def test_shuffled_passes_by_drawing_them():
    """333 passes of 91 batches; at delta 1e-3, which draws can see, and so at least at 1e-5."""
    rng, draws = np.random.default_rng(0), 50_000
    sums = rng.normal(0, 1.12, (draws, 91))
    sums[:, 0] += 1  # the batch that holds the record
    one = np.log(np.exp((2 * sums - 1) / (2 * 1.12**2)).mean(1))
    losses = sum(rng.choice(one, draws) for _ in range(333))
    drawn = float(
        epsilon_where(lambda e: np.mean(np.maximum(0, 1 - np.exp(float(e) - losses))), 1e-3)
    )
    how = {"noise_multiplier": 1.12, "public_size": 55_000, "steps": 333 * 91}
    assert claims.charged_steps() == how["steps"]
    assert ShuffledBatches(600).guarantee(**how, delta=1e-3).lower == pytest.approx(drawn, rel=0.03)
    low, high = claims.shuffled_passes(claims.ONE_CLIP)
    assert drawn < low
    assert high == pytest.approx(float(gaussian_epsilon(1.12 / math.sqrt(333), 1e-5)), rel=1e-3)


def test_small_claims_of_the_text_a_second_way():
    import torch

    from dpkit.training import called_fake, called_real

    logit = torch.tensor([math.log(0.01 / 0.99)], dtype=torch.float64, requires_grad=True)
    slopes = [torch.autograd.grad(f(logit).sum(), logit)[0] for f in (called_fake, called_real)]
    found = check(BY_NAME["generator-loss"]).computed
    assert found == pytest.approx(float(-slopes[0] / slopes[1]))  # both push the fake's logit up
    many = check(BY_NAME["composition-at-least"])
    assert many.computed == pytest.approx(float(gaussian_epsilon(1.0, 1e-3)), rel=1e-6)
    assert many.claim.stated == pytest.approx(100 * float(gaussian_epsilon(10.0, 1e-5)), rel=1e-6)
    assert many.verdict == check(BY_NAME["delta-below-1-over-n"]).verdict == "holds"
    assert check(BY_NAME["initial-learning-rate"]).computed == 0.1
    assert check(BY_NAME["advanced-variant"]).computed == math.inf


class Says:
    """A classifier of these scores, whatever it sees."""

    def __init__(self, scores):
        self.predict_proba = lambda x: scores


def test_scores_by_counting():
    """Micro-averaged AUROC is the share of pairs in the right order."""
    rng = np.random.default_rng(0)
    scores, labels = rng.random((30, 3)).round(1), rng.integers(3, size=30)
    hits = (labels[:, None] == np.arange(3)).ravel()
    above = scores.ravel()[hits][:, None] - scores.ravel()[~hits][None, :]
    counted = ((above > 0) + 0.5 * (above == 0)).mean()
    found = tables.evaluate(Says(scores), np.zeros((30, 1)), labels)
    assert found["auroc"] == pytest.approx(counted, abs=1e-12)
    found = tables.evaluate(Says(np.eye(4)), np.zeros((4, 1)), np.array([0, 1, 2, 0]))
    assert found["accuracy"] == 0.75


def test_the_published_protocol_tests_a_classifier_on_images_255_times_as_bright():
    class Brightness:
        def predict_proba(self, x):
            return np.stack((x[:, 0] < 10, x[:, 0] >= 10), 1).astype(float)

    pixels = np.array([[100], [200]], np.uint8)
    found = tables.evaluate(Brightness(), pixels, np.array([1, 1]))
    assert (found["accuracy_255"], found["accuracy"]) == (1.0, 0.0)


def test_fitted_as_the_code_does_probabilities_are_each_class_against_the_rest():
    """The same numbers as ten logistic regressions fitted one by one."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    features = rng.standard_normal((90, 4)) + labels[:, None]
    fitted = tables.fit(tables.logistic_regression(), features, labels, classes=3)
    for k, found in enumerate(fitted.predict_proba(features).T):
        alone = LogisticRegression(random_state=0).fit(features, labels == k)
        np.testing.assert_allclose(found, alone.predict_proba(features)[:, 1], rtol=1e-6)
    with pytest.raises(ValueError, match=r"labels must hold every class, got none of \[2\]"):
        tables.fit(None, np.zeros((2, 1)), np.array([0, 1]), classes=3)


test_bad_scores_are_refused = refused(
    (np.full((2, 2), np.nan), np.array([0, 1]), "NaN"),
    (np.zeros((2, 2)), np.array([0]), r"inconsistent numbers of samples: \[1, 2\]"),
    call=lambda scores, labels: tables.evaluate(Says(scores), np.zeros((2, 1)), labels),
)

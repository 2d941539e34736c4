"""Findings: what one needs; those about published generators, against an oracle."""

import json
import math
from fractions import Fraction
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from scipy.special import gammaln, logsumexp
from truths import by_dp_accounting, by_moments, gaussian_epsilon

from dpkit.papers import claims
from dpkit.papers import literature as ledger
from dpkit.papers.claims import Claim, Source, finding
from dpkit.papers.literature import accounting, dp_sgd, gans, gs_wgan, kernels, pate_gan

BY_NAME = {claim.name: claim for claim in ledger.CLAIMS}
WORK = Source("A method (its authors 2026)", "owner/name 0000000, file.py:1")
CLAIM = {"says": "so", "kind": "at most", "stated": 1.0, "explanation": "Because."}
CLAIM |= {"compute": lambda: 0.5}
NOISES = (-3.0, -0.4, 0.1, 2.0, 50.0)


def value(name: str) -> float:
    """What the finding computes."""
    return claims.check(BY_NAME[name]).computed


def exact_gaussian(mu: float, delta: float) -> float:
    """Epsilon of a Gaussian that moves by mu of its deviations."""
    return float(gaussian_epsilon(1 / mu, delta))


def test_four_tensors_are_charged_as_four_samples():
    _, charged = by_dp_accounting({1.0: 4 * 5090}, 64 / 32_561, delta=1e-5, width=1e-4)
    assert BY_NAME["dpwgan-per-tensor"].stated == pytest.approx(charged, abs=5e-3)


@pytest.mark.parametrize(
    ("name", "mu", "delta"),
    [
        ("backpropagation-clipping-512", 512 * math.sqrt(2 * 1e-5 * 100), 1e-5),
        ("gs-wgan-left-over-index", math.sqrt(32 * 20_000) / 0.4834747, 1.66575e-6),
        *(("dp-merf-noise-5", 1 / 5, 1e-5), ("dp-accounting-replace-one", 2, 1e-5)),
    ],
)
def test_gaussians_without_sampling_are_priced_as_by_their_exact_formula(name, mu, delta):
    assert value(name) == pytest.approx(exact_gaussian(mu, delta), rel=0, abs=1e-6)


def test_backpropagation_clipping_says_what_its_code_adds_up_and_converts():
    said = 1e-3 + 2 * math.sqrt(1e-3 * math.log(1e5))
    assert pytest.approx(said, abs=1e-6) == dp_sgd.SAID_OF_LAYERS
    assert (
        dp_sgd.of_layers(factor=1) < dp_sgd.SAID_OF_LAYERS
    )  # the corrected code's noise is enough


def test_gs_wgan_says_what_its_script_computes():
    """Wang, Balle, Kasiviswanathan 2019, Theorem 9, for a Gaussian; 20,000 * 32 releases."""
    q, spent = 1e-3, []
    for order in range(2, 64):
        j = np.arange(2, order + 1)
        choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
        terms = choose + j * math.log(q) + (j - 1) * j / (2 * 1.07**2) + math.log(2)
        second = 2 / (2 * 1.07**2)
        least = min(math.log(4 * math.expm1(second)), second + math.log(2))
        terms[0] = choose[0] + 2 * math.log(q) + least
        each = np.logaddexp(0, logsumexp(terms)) / (order - 1)
        spent.append(640_000 * each + math.log(1e5) / (order - 1))
    assert min(spent) == pytest.approx(gs_wgan.SAID, abs=1e-5)
    # and it fails with the smaller of its batches too
    assert gs_wgan.of_run(batch=60 - 32) > 10  # a part of 60 gives 32 and 28
    assert gs_wgan.of_bench(batch=55 - 32) > 10
    assert gs_wgan.of_bench(batch=1) < 10  # as it is charged


def test_ctab_gan_says_what_its_function_computes():
    one = gans
    spent = by_moments(1.02, 500 / 32_561, 65 * 150, most=62)  # orders 2 to 63
    assert spent == pytest.approx(one.SAID, abs=1e-4)
    assert one.of_microbatches(moved=1) < one.SAID  # clipped record by record
    gradients = np.full((500, 2), [0.01, 0.0])
    clipped = []
    for gradients[0, 0] in (1e4, -1e4):  # a record turns a clipped mean round
        mean = gradients.mean(0)
        clipped.append(mean / max(1, np.linalg.norm(mean)))
    assert np.linalg.norm(clipped[0] - clipped[1]) == pytest.approx(one.MOVED)


def test_the_penalty_moves_the_critic_without_bound():
    one, step = gans, 1e-6

    def penalty(weight, slope):
        return 10 * (abs(weight * slope) - 1) ** 2

    for weight, slope in ((0.5, 1.0), (3.0, 0.2), (40.0, 0.2)):
        numeric = (penalty(weight + step, slope) - penalty(weight - step, slope)) / (2 * step)
        assert one.penalty_gradient(weight, slope) == pytest.approx(numeric, rel=1e-5)
    mu = abs(20 * 99 - 4 * 19) / 500 / 1.02
    assert one.of_penalty(weight=100.0) == pytest.approx(exact_gaussian(mu, 1e-5), rel=1e-6)
    assert one.of_penalty(weight=1e3) > 10 * one.of_penalty(weight=100.0) > one.SAID
    assert value("ctab-gan-penalty-after-noise") == math.inf


def test_the_noise_on_the_loss_leaves_the_gradients_direction():
    one, step = kernels, 1e-6
    fake, real = one.FAKE, one.REAL
    for noise in (0.0, *NOISES):
        numeric = np.zeros_like(fake)
        for at in np.ndindex(fake.shape):
            moved = np.zeros_like(fake)
            moved[at] = step
            above, below = (one.loss(real, fake + sign * moved) + noise for sign in (1, -1))
            numeric[at] = (above**2 - below**2) / (2 * step)
        assert one.gradient(real, fake, noise) == pytest.approx(numeric, rel=1e-5, abs=1e-6)
    plain = one.gradient(real, fake)
    others = [one.gradient(real, fake, noise) for noise in NOISES]
    *same, cosine = (
        abs((plain * other).sum() / np.linalg.norm(plain) / np.linalg.norm(other))
        for other in (*others, one.gradient(one.OTHER, fake))
    )
    assert same == pytest.approx([1] * len(NOISES), abs=1e-12)
    assert cosine < 0.99
    assert value("dp-kernel-noise-on-loss") == math.inf


def test_noise_scales_of_pate_gan():
    right = math.sqrt(2) * math.sqrt(math.log(1.25) + 5 * math.log(10))
    power = math.sqrt(2 * (math.log(1.25) + 1e-5 * math.log(10)))
    for name, wrong in (("xor", math.sqrt(math.log(18.75**2))), ("power", power)):
        assert BY_NAME[f"pate-gan-{name}"].stated == pytest.approx(right, abs=1e-6)
        assert value(f"pate-gan-{name}") == pytest.approx(wrong, abs=1e-12)


def test_a_label_decides_the_sign_of_a_record_and_no_more():
    one = pate_gan
    assert value("pate-gan-xor") == pytest.approx(one.NOISE, abs=1e-3)
    steps = one.updates(one.RECORD)
    draws = 1 + np.random.default_rng(0).normal(0, one.NOISE, 100_000)
    assert steps[one.RECORD] == pytest.approx((draws > 0.5).mean(), abs=0.01)
    assert sum(steps.values()) == pytest.approx(1)
    assert {abs(step) for step in steps} == {one.RECORD}
    assert value("pate-gan-raw-batches") == math.inf


def test_the_students_gradient_is_that_of_its_loss():
    one = pate_gan
    votes, weights, step = np.array([1, 0]), np.array([0.7, -0.2]), 1e-6

    def loss(w):
        real = np.concatenate([one.REAL @ w, one.GENERATED[:1] @ w])
        return (one.GENERATED[1:] @ w).mean() - real.mean()

    numeric = [(loss(weights + d) - loss(weights - d)) / (2 * step) for d in step * np.eye(2)]
    assert one.student_gradient(one.REAL, one.GENERATED, votes) == pytest.approx(numeric, abs=1e-8)
    assert value("pate-gan-student-on-records") == math.inf
    assert one.parts_as_released() == [9] * 10
    assert one.most_votes(list(range(10))) == 1  # a part for each, as it should be


def test_about_half_of_the_batches_of_votes_are_charged():
    exact = Fraction(sum(math.comb(200, real) for real in range(100)), 2**200)
    assert value("pate-gan-uncharged-branch") == pytest.approx(float(exact), abs=1e-12)
    noise = np.random.default_rng(0).laplace(0, 1000, (4000, 200))
    for votes in (0, 5, 10):  # of 10 teachers
        counts = ((votes + noise) / 10 > 0.5).sum(axis=1)
        probability = 0.5 + math.copysign(0.5 * -math.expm1(-abs(votes - 5) / 1000), votes - 5)
        share = pate_gan.charged_share(probability)
        assert (counts < 100).mean() == pytest.approx(share, abs=0.03)


def test_the_budget_of_mst_is_what_its_conversion_gives():
    """Canonne, Kamath, Steinke 2020, Corollary 13, over many orders; and no Gaussian costs more."""
    rho = accounting.RHO
    orders = 1 + np.geomspace(1e-2, 1e3, 200_000)
    logs = (orders - 1) * (orders * rho - 1) + orders * np.log1p(-1 / orders) - np.log(orders - 1)
    assert math.exp(logs.min()) == pytest.approx(1e-5, rel=1e-6)
    assert value("dpmm-mst-rho") == pytest.approx(1, abs=1e-6)
    assert 0.9 < exact_gaussian(math.sqrt(2 * rho), 1e-5) < value("dpmm-mst-rho")


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_an_exponential_mechanism_costs_no_more_than_its_gaussian(epsilon):
    p = np.linspace(1e-4, 1 - 1e-4, 2001)  # of the answers that gain by epsilon against the others
    q = p * math.exp(epsilon) / (p * math.exp(epsilon) + 1 - p)
    for order in (1.5, 2.0, 8.0, 64.0):
        moment = np.logaddexp(
            order * np.log(p) + (1 - order) * np.log(q),
            order * np.log1p(-p) + (1 - order) * np.log1p(-q),
        )
        assert moment.max() / (order - 1) <= order * epsilon**2 / 8 * (1 + 1e-9)


def test_a_finding_says_where_it_was_read():
    one = finding("some-name", WORK, **CLAIM)
    assert isinstance(one, Claim)
    assert one.id == "ledger/some-name"
    assert one.where == "A method (its authors 2026): owner/name 0000000, file.py:1"
    for name in ("work", "place"):
        with pytest.raises(ValueError, match=f"{name} of a source must not be empty"):
            Source(**{"work": "x", "place": "x", name: " "})


def test_what_was_not_read_cannot_be_checked():
    source = Source("A method", "the paper, Table 1", unread="Table 1 (no public copy)")
    words = "kind must be 'unchecked'.*no public copy.*got 'at most'"
    with pytest.raises(ValueError, match=words):
        finding("some-name", source, **CLAIM)
    one = claims.check(finding("some-name", source, **{**CLAIM, "kind": "unchecked"}))
    assert one.verdict == "cannot be checked"
    assert one.explanation == "Because. Not read: Table 1 (no public copy)."


def test_dp_accounting_says_what_it_is_quoted_with():
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    said = [
        kind(neighboring_relation=relation)
        .compose(dp_accounting.GaussianDpEvent(1.0))
        .get_epsilon(1e-5)
        for kind in (rdp.RdpAccountant, pld.PLDAccountant)
    ]
    one = BY_NAME["dp-accounting-replace-one"]
    assert said[0] == pytest.approx(one.stated, abs=1e-6)
    assert said[1] == pytest.approx(value(one.name), abs=1e-3)


@pytest.fixture
def template() -> str:
    """The example of CONTRIBUTING.md."""
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    after = text.partition("## Adding a finding")[2]
    return after.partition("```python\n")[2].partition("```")[0]


def collect(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Claim, ...]:
    """The claims, with those of a folder's files."""
    monkeypatch.setattr(ledger, "__path__", [*ledger.__path__, str(folder)])
    return ledger.collected()


def test_the_template_makes_a_finding(template, tmp_path, monkeypatch, dpkit):
    (tmp_path / "made_up.py").write_text(template)
    monkeypatch.setattr(ledger, "CLAIMS", collect(tmp_path, monkeypatch))
    code, out, _ = dpkit("claims --paper ledger --json")
    found = {one["id"]: one for one in json.loads(out)}
    one = found["ledger/made-up-noise-2"]
    assert (code, one["verdict"], one["code"]["cause"]) == (0, "fails", "formula")
    assert one["computed"] == pytest.approx(exact_gaussian(1 / 2, 1e-5), abs=1e-6)
    assert len(found) == len(BY_NAME) + 1 == len(ledger.CLAIMS)


@pytest.mark.parametrize("names", [("empty", "made_up"), ("made_up", "made_up_again")])
def test_a_file_holds_claims_that_no_other_has(template, tmp_path, monkeypatch, names):
    for name in names:
        (tmp_path / f"{name}.py").write_text(template * (name != "empty"))
    with pytest.raises(
        ValueError, match=r"(empty|again)\.py must hold claims, each of an id of its"
    ):
        collect(tmp_path, monkeypatch)

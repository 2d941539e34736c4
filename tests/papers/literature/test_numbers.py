"""Findings on settings, floating point and sensitivities, each computed in another way."""

import math
from itertools import product
from typing import Any

import dp_accounting
import numpy as np
import pytest
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from scipy.integrate import quad
from scipy.optimize import root_scalar
from scipy.special import log_ndtr
from scipy.stats import chi2, norm
from truths import by_dp_accounting, by_moments

from dpkit.papers import claims
from dpkit.papers import literature as ledger
from dpkit.papers.literature import accounting, dp_sgd, floating_point, gans, sensitivities

BY_NAME = {claim.name: claim for claim in ledger.CLAIMS}
SHARE = 0.2515  # of outputs for 0 that 1 cannot have, by 1.6 million draws


def value(name: str) -> float:
    """What the finding computes."""
    return claims.check(BY_NAME[name]).computed


@pytest.mark.parametrize(
    ("name", "noise", "rate", "steps", "delta", "width"),
    [
        ("abadi-figure-2", 4.0, 0.01, 10_000, 1e-5, 1e-4),
        ("bie-epsilon-1", 5.0, 1 / 469, 325_000, 1e-5, 1e-5),
        ("bie-fixed-10", 1.0, 1 / 469, 450_000, 1e-5, 1e-4),
        ("dpdm-epsilon-0-2", 2.48779296875, 1 / 15, 4_500, 1e-5, 1e-3),
        ("dp-kernel-epsilon-of-noise", 1.95, 1e-3, 200_000, 1e-5, 1e-4),
        ("dpwgan-per-tensor", 0.5, 64 / 32_561, 5090, 1e-5, 1e-3),
        ("ctab-gan-batch-as-microbatch", 0.51, 500 / 32_561, 9_750, 1e-5, 1e-2),
        ("gs-wgan-32-gradients", 1.07 / 32**0.5, 1e-3, 20_000, 1e-5, 1e-2),
        ("gs-wgan-once-a-step", 0.4834747 / 32**0.5, 1e-3, 20_000, 1.66575e-6, 0.1),
    ],
)
def test_runs_of_poisson_batches_cost_what_dp_accounting_says(
    name, noise, rate, steps, delta, width
):
    """The kit's upper ends are within a certified 1%, dp-accounting's upper ends nearer."""
    below, above = by_dp_accounting({noise: steps}, rate, delta=delta, width=width)
    assert below <= value(name) <= 1.01 * above


def test_the_moments_accountant_gives_the_papers_number():
    found = by_moments(4.0, 0.01, 10_000)
    assert found == pytest.approx(BY_NAME["abadi-figure-2"].stated, abs=0.005)


def test_a_high_sum_shows_at_least_what_integrals_say():
    """The density of the largest of 10,000 sums, one of which has moved, integrated."""

    def beyond(edge, moved):
        def density(x):
            others, own = log_ndtr(x / 0.5), log_ndtr((x - moved) / 0.5)
            first = 9_999 * others - 2 * (x - moved) ** 2
            second = math.log(9_999) + 9_998 * others + own - 2 * x**2
            return (math.exp(first) + math.exp(second)) * math.sqrt(2 / math.pi)

        middle, how = max(edge + 2, moved + 2), {"epsabs": 0, "epsrel": 1e-9, "limit": 200}
        both = (quad(density, a, b, **how)[0] for a, b in ((edge, middle), (middle, middle + 10)))
        return sum(both)

    edges = np.arange(4.2, 4.3, 0.01)
    shown = [math.log((beyond(edge, 2.0) - 1e-6) / beyond(edge, 1.0)) for edge in edges]
    assert max(shown) == pytest.approx(value("shuffled-chua"), abs=1e-3)
    below, above = by_dp_accounting({0.5: 10_000}, 1e-4, delta=1e-6, width=1e-3)
    assert below <= accounting.POISSON <= 1.001 * above


def test_every_24_bit_uniform_number_gives_a_bounded_normal():
    uniform = np.arange(2**24, dtype=np.float32) / np.float32(2**24)
    radii = np.sqrt(-2 * np.log(1 - uniform))
    assert radii.max() == pytest.approx(value("torch-bounded-normals"), rel=1e-6)
    assert 2 * norm.sf(floating_point.largest_normal()) == pytest.approx(8.0e-9, rel=0.01)


@pytest.mark.torch
def test_torch_draws_from_24_bits():
    import torch

    rng = torch.Generator().manual_seed(0)
    multiples = torch.rand(100_000, generator=rng).double() * 2**24
    assert (multiples == multiples.round()).all()
    assert (multiples % 2 == 1).any()
    draws = torch.randn(4_000_000, generator=rng)
    assert 4.9 < draws.abs().max() <= value("torch-bounded-normals") * (1 + 1e-6)


def test_one_real_record_moves_a_real_running_sum():
    ones = [np.ones(2**14 - 1, np.float32), np.ones(1, np.float32)]
    parts, moved, at = ones, 1.0, 2.0**14
    while at <= 2.0**23:
        after, record, times = floating_point.doubled(moved, at)
        parts.append(np.full(times, record, np.float32))
        parts.append(np.ones(int(at - after) if at < 2.0**23 else 0, np.float32))
        moved, at = after, 2 * at
    records = np.concatenate(parts)
    assert ((records >= 0) & (records <= 1)).all()
    assert 8.3e6 < records.size < 8.5e6
    left_out = np.delete(records, 2**14 - 1)
    sums = [np.cumsum(one, dtype=np.float32)[-1] for one in (records, left_out)]
    assert sums[0] - sums[1] == value("float32-sum") == 1024
    assert records.sum(dtype=float) - left_out.sum(dtype=float) == pytest.approx(1, abs=1e-3)


def test_no_noise_gives_1_the_last_bits_of_an_impossible_output():
    """Every noise around 1 - output is tried: none gives it, and one gives each possible one."""
    outputs = -floating_point.laplace(2_000, rng=np.random.default_rng(7))
    outputs = outputs[np.abs(outputs) < 0.5]
    impossible = floating_point.impossible_from_1(outputs)
    reached = np.zeros(outputs.size, bool)
    for side in (-np.inf, np.inf):
        noise = 1 - outputs
        for _ in range(5):
            reached |= 1 - noise == outputs
            noise = np.nextafter(noise, side)
    np.testing.assert_array_equal(reached, ~impossible)


def test_shares_of_impossible_outputs():
    """A quarter as diffprivlib draws; where all bits are drawn, by octave and sign.

    Of the numbers in [2^-k-1, 2^-k), multiples of 2^-53-k, 1 in 2^k is a multiple of 2^-53, and
    half as many are of 2^-52.
    """
    drawn = floating_point.laplace(100_000, rng=np.random.default_rng(1))
    share = floating_point.impossible_from_1(drawn).mean()
    assert share == pytest.approx(SHARE, abs=6 * math.sqrt(SHARE * (1 - SHARE) / 1e5))
    k = np.arange(1.0, 60)
    octaves = np.exp(-(2.0 ** (-k - 1))) - np.exp(-(2.0**-k))
    exact = (octaves * (1 - 0.75 * 2.0**-k)).sum()
    ideal = np.random.default_rng(2).laplace(size=100_000)
    found = floating_point.impossible_from_1(ideal).mean()
    assert found == pytest.approx(exact, abs=6 * math.sqrt(exact * (1 - exact) / 1e5))
    assert value("float-laplace-support") == math.inf


def test_squares_of_a_feature_move_a_sum_by_their_largest():
    rng = np.random.default_rng(0)
    table = rng.uniform(0, 100, 50)
    more = np.append(rng.uniform(0, 100, 1_000), [0.0, 100.0])
    moves = [(np.append(table, x) ** 2).sum() - (table**2).sum() for x in more]
    assert max(moves) == pytest.approx(value("diffprivlib-regression-bound"), rel=1e-9)


@pytest.mark.parametrize("dimensions", [1, 3])
def test_wishart_outputs_fall_below_the_moments_with_a_record(dimensions: int):
    """40,000 draws: within 6 standard errors (2e-9)."""
    rng = np.random.default_rng(dimensions)
    record = np.zeros((dimensions, dimensions))
    record[0, 0] = 4.0  # xx' of a record of norm 2
    for epsilon in (0.5, 1.0):
        factor = rng.normal(0, 2 / (2 * epsilon), (40_000, dimensions, dimensions + 1))
        noise = factor @ factor.transpose(0, 2, 1)
        share = (np.linalg.eigvalsh(noise - record)[:, 0] < 0).mean()
        wanted = sensitivities.impossible(epsilon)
        assert abs(share - wanted) < 6 * math.sqrt(wanted * (1 - wanted) / 40_000)
    assert sensitivities.impossible(1.0) == pytest.approx(0.8647, abs=1e-4)


@pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha")
def test_the_noise_of_dpdms_settings():
    """By the search of Opacus, whose fork trains: 10 is what the file asks for."""
    run = {"target_delta": 1e-5, "sample_rate": 1 / 15, "epochs": 300, "accountant": "rdp"}
    found = get_noise_multiplier(target_epsilon=10.0, **run)
    assert found == pytest.approx(gans.DPDM_NOISE, rel=1e-3)
    assert get_noise_multiplier(target_epsilon=0.2, **run) == pytest.approx(85, rel=0.01)


def test_the_budget_of_dpmm_by_its_formula():
    """Delta of rho-zCDP at epsilon 1 (Canonne, Kamath, Steinke 2020, Corollary 13)."""

    def delta(rho):
        def log_delta(order):
            tail = order * math.log1p(-1 / order) - math.log(order - 1)
            return (order - 1) * (order * rho - 1) + tail

        return math.exp(min(map(log_delta, np.linspace(1.01, 50, 20_000))))

    rho = root_scalar(lambda rho: delta(rho) - 0.01, bracket=(0.09, 0.12), xtol=1e-7).root
    assert value("dpmm-mst-mu") == pytest.approx(math.sqrt(2 * rho), abs=1e-4)


def threefry(key: tuple[int, int], first: np.ndarray, second: np.ndarray) -> tuple:
    """Threefry-2x32 of 20 rounds (Salmon, Moraes, Dror, Shaw 2011), of uint32 counters."""
    keys = [np.uint32(k) for k in (*key, key[0] ^ key[1] ^ 0x1BD11BDA)]
    x, y = first + keys[0], second + keys[1]
    for group in range(5):
        for turn in (13, 15, 26, 6) if group % 2 == 0 else (17, 29, 16, 24):
            x = x + y
            y = ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn))) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def bits(key: tuple[int, int], size: int) -> np.ndarray:
    """As JAX drew a block in 2020: counters 0 to size - 1, their halves as pairs."""
    counters = np.arange(size + size % 2, dtype=np.uint32)
    return np.concatenate(threefry(key, *np.split(counters, 2)))[:size]


def test_blocks_of_a_shape_have_the_same_noise_and_others_have_not(monkeypatch):
    drawn = {name: bits((1, 2), math.prod(one)) for name, one in dp_sgd.SHAPES.items()}
    several = [
        (a, b)
        for a, b in product(drawn, drawn)
        if a < b and len(set(drawn[a].tolist()) & set(drawn[b].tolist())) > 2
    ]
    pairs = [tuple(sorted(pair)) for pair in dp_sgd.same_noise()]
    assert several == pairs == [("second bias", "third bias")]
    assert (drawn["second bias"] == drawn["third bias"]).all()
    monkeypatch.setitem(dp_sgd.SHAPES, "third bias", (33,))
    assert dp_sgd.of_blocks() == pytest.approx(dp_sgd.CHARGED, abs=1e-4)
    # Threefry's known answers, of Random123
    for word, known in ((0, (0x6B200159, 0x99BA4EFE)), (0xFFFFFFFF, (0x1CB996FC, 0xBB002BE7))):
        words = np.array([word], np.uint32)
        assert tuple(int(x[0]) for x in threefry((word, word), words, words)) == known


@pytest.mark.parametrize(("records", "weights"), [(100, 10_000), (1_000, 1_000_000)])
def test_the_size_of_noise_by_integrals(records: int, weights: int):
    """The part of the one density that is above e^epsilon times the other, summed finely."""
    ratio = ((records + 1) / records) ** 2  # of the variances
    spread = math.sqrt(2 * weights)
    squares = np.linspace(weights - 14 * spread, ratio * (weights + 14 * spread), 400_001)
    narrow = chi2.logpdf(squares, weights)
    wide = chi2.logpdf(squares / ratio, weights) - math.log(ratio)
    for epsilon in (1.0, 4.7286, 6.5):
        above = np.exp(wide) - np.exp(epsilon + narrow)
        delta = above.clip(0).sum() * (squares[1] - squares[0])
        found = dp_sgd.deltas(epsilon, records=records, weights=weights)
        assert found == pytest.approx(delta, rel=1e-3)


def test_opacus_charges_one_gaussian():
    accountant = RDPAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=1.0)
    assert accountant.get_epsilon(1e-5) == pytest.approx(dp_sgd.SAID_BY_OPACUS, abs=1e-4)
    exact = dp_accounting.pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(1.0))
    assert exact.get_epsilon(1e-5) < dp_sgd.SAID_BY_OPACUS < value("opacus-batch-size-from-n")


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_opacus_divides_by_the_number_of_records():
    import torch
    from opacus import PrivacyEngine

    sizes = []
    for records in (dp_sgd.RECORDS, dp_sgd.RECORDS + 1):
        model = torch.nn.Linear(1, 1)
        data = torch.utils.data.TensorDataset(torch.zeros(records, 1))
        how = {"optimizer": torch.optim.SGD(model.parameters(), lr=1.0)}
        how |= {"data_loader": torch.utils.data.DataLoader(data, batch_size=2_000)}
        how |= {"noise_multiplier": 1.0, "max_grad_norm": 1.0}
        made: Any = PrivacyEngine().make_private(module=model, **how)
        sizes.append((made[1].expected_batch_size, len(made[2])))
    assert sizes == [(1_000, 1), (1_001, 1)]


def test_means_move_by_a_half_between_one_record_and_two():
    tables = [one for size in range(1, 7) for one in product((0.0, 1.0), repeat=size)]
    moves = [(len(t), abs(np.mean([*t, x]) - np.mean(t))) for t in tables for x in (0.0, 1.0)]
    assert max(move for _, move in moves) == value("smartnoise-mean-sensitivity") == 0.5
    assert all(move <= 1 / size for size, move in moves)

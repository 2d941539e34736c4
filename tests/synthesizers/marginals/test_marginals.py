"""The table synthesizer: what it releases moves as priced, and all after that sees noise alone."""

from dataclasses import replace
from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest
from draws import rng
from refusals import refused
from scipy import stats
from scipy.optimize import root_scalar

from dpkit.privacy import Gaussian, Release, normals, pld
from dpkit.synthesizers import marginals
from dpkit.synthesizers.marginals import MarginalsSettings, fit, model_from, pair_counts

SIZES = (3, 2, 4, 2)
QUIET = MarginalsSettings(SIZES, target=3, noise_multiplier=0.0)
NOISES = pytest.mark.parametrize("noise", [0.0, 0.5, 20.0, 1e4])


def records(n: int, seed: int = 0, sizes: tuple[int, ...] = SIZES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(size, size=n) for size in sizes], axis=1)


def test_counts_are_those_of_two_way_tables():
    codes = records(50)
    found = pair_counts(codes, SIZES)
    wanted = [
        sum((row[i], row[j]) == (a, b) for row in codes)
        for i, j in combinations(range(4), 2)
        for a, b in product(range(SIZES[i]), range(SIZES[j]))
    ]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2, 2), (2, 2, 3, 2)])
def test_any_record_moves_the_counts_by_the_square_root_of_the_pairs(sizes):
    """Over every record there is, added to an empty table and to a full one."""
    settings = MarginalsSettings(sizes, target=0, noise_multiplier=1.0)
    for base in (np.zeros((0, len(sizes)), np.int64), records(20, sizes=sizes)):
        before = pair_counts(base, sizes)
        for record in product(*(range(size) for size in sizes)):
            after = pair_counts(np.vstack([base, record]), sizes)
            assert np.linalg.norm(after - before) == pytest.approx(settings.sensitivity, abs=1e-12)
    assert settings.sensitivity == sqrt(len(sizes) * (len(sizes) - 1) / 2)


def test_noise_is_as_large_as_priced(monkeypatch):
    """Chi-square of the noise in 4,700 cells, and a normal shape: fails with probability 1e-7."""
    sizes = (30, 40, 50)
    settings = MarginalsSettings(sizes, target=0, noise_multiplier=2.5)
    codes, seen = records(1000, sizes=sizes), []
    monkeypatch.setattr(marginals, "model_from", lambda noisy, **_: seen.append(noisy))
    fit(codes, settings=settings, public_size=1000, rng=rng(5))
    multiples = seen[0] / normals.grid(settings.noise_std)
    assert (multiples == multiples.round()).all()  # no digit tells which noise was possible
    noise = (seen[0] - pair_counts(codes, sizes)) / (2.5 * sqrt(3))
    assert noise.size == settings.cells == 30 * 40 + 30 * 50 + 40 * 50
    low, high = stats.chi2(noise.size).ppf([2.5e-8, 1 - 2.5e-8])
    assert low < (noise**2).sum() < high
    assert stats.kstest(noise, "norm").pvalue > 5e-8


def test_one_gaussian_is_charged_and_nothing_proven_without_noise():
    charged = replace(QUIET, noise_multiplier=1.3).ledger()
    assert charged == [Release(Gaussian(1.3))]
    assert pld.epsilon(QUIET.ledger(), delta=1e-5).epsilon == float("inf")


@pytest.mark.parametrize("target", [0.5, 5.0])
def test_settings_end_on_the_private_side_of_the_target(target):
    settings = marginals.settings_for(target, delta=1e-5, sizes=SIZES, target=3)
    assert pld.epsilon(settings.ledger(), delta=1e-5).epsilon <= target
    less = replace(settings, noise_multiplier=settings.noise_multiplier * 0.997)
    assert pld.epsilon(less.ledger(), delta=1e-5).epsilon > target


@NOISES
@pytest.mark.parametrize("n", [0, 1, 500])
def test_tables_are_probabilities_that_agree(noise, n):
    settings = MarginalsSettings(SIZES, target=3, noise_multiplier=noise)
    model = fit(records(n), settings=settings, public_size=max(n, 10), rng=rng(1))
    for i, j in settings.pairs:
        table = model.tables.pair(i, j)
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(1), model.tables.shares[i], atol=1e-8)
        np.testing.assert_allclose(table.sum(0), model.tables.shares[j], atol=1e-8)
        np.testing.assert_array_equal(table.T, model.tables.pair(j, i))
    for shares in model.tables.shares:
        assert shares.sum() == pytest.approx(1, abs=1e-12)
    for _, given, table in model.columns:
        assert (table >= 0).all()
        assert table.ndim == len(given) + 1
        np.testing.assert_allclose(table.sum(-1), 1, atol=1e-9)
    rows = model.sample(200, rng=rng(2))
    assert rows.shape == (200, 4)
    assert ((rows >= 0) & (rows < SIZES)).all()


def test_a_large_release_with_structural_zeros_agrees_too():
    sizes = (9, 15, 16, 2, 9, 7, 10, 2)
    codes = records(2000, seed=4, sizes=sizes)
    codes[:, 1] = codes[:, 2] % 15  # a function of another column: most cells are 0
    codes[:, 4] = codes[:, 6] % 3
    settings = MarginalsSettings(sizes, target=7, noise_multiplier=2.0)
    tables = fit(codes, settings=settings, public_size=2000, rng=rng()).tables
    for i, j in settings.pairs:
        np.testing.assert_allclose(tables.pair(i, j).sum(1), tables.shares[i], atol=1e-6)


def test_without_noise_the_pairs_in_the_tree_are_the_data_s_own():
    """Two-way tables of the model, by summing it over every row, are those of the records."""
    codes = records(400)
    codes[:, 2] = np.where(codes[:, 0] == 1, codes[:, 2], codes[:, 0])
    model = fit(codes, settings=QUIET, public_size=400, rng=rng())
    joint = exact_joint(model)
    assert model.columns[0].column == 3
    for column, given, _ in model.columns:
        for other in given:
            axes = tuple(axis for axis in range(4) if axis not in (column, other))
            found = joint.sum(axes)
            wanted = np.zeros_like(found)
            np.add.at(wanted, tuple(codes[:, sorted((column, other))].T), 1 / 400)
            np.testing.assert_allclose(found, wanted, atol=1e-8)


def exact_joint(model) -> np.ndarray:
    joint = np.ones(SIZES)
    for row in product(*(range(size) for size in SIZES)):
        for column, given, table in model.columns:
            joint[row] *= table[(*(row[other] for other in given), row[column])]
    return joint


def test_samples_follow_the_model():
    """Chi-square of 100,000 rows over all 48 cells; a true model fails with probability 1e-7."""
    noisy = replace(QUIET, noise_multiplier=1.0)
    model = fit(records(300), settings=noisy, public_size=300, rng=rng(3))
    joint = exact_joint(model).ravel()
    assert joint.sum() == pytest.approx(1, abs=1e-9)
    rows = model.sample(100_000, rng=rng(4))
    counts = np.bincount(np.ravel_multi_index(tuple(rows.T), SIZES), minlength=joint.size)
    used = joint > 0
    assert counts[~used].sum() == 0
    assert stats.chisquare(counts[used], joint[used] / joint.sum() * 100_000).pvalue > 1e-7


def test_a_planted_dependence_is_found_and_independence_stays():
    """A chain 0 - 1 - 2 - 3 given a target; column 4 depends on nothing."""
    rng, n = np.random.default_rng(0), 20_000
    target = rng.integers(2, size=n)
    columns = [(target + (rng.random(n) < 0.3)) % 4]
    for _ in range(3):
        columns.append(np.where(rng.random(n) < 0.6, columns[-1], rng.integers(4, size=n)))
    codes = np.stack([*columns, rng.integers(3, size=n), target], axis=1)
    settings = marginals.settings_for(1.0, delta=1e-5, sizes=(4, 4, 4, 4, 3, 2), target=5)
    model = fit(codes, settings=settings, public_size=n, rng=rng)
    edges = {frozenset((c, g)) for c, given, _ in model.columns for g in given if g != 5}
    chain = {frozenset(edge) for edge in [(0, 1), (1, 2), (2, 3)]}
    assert chain <= edges
    assert all(4 in edge for edge in edges - chain)
    rows = model.sample(n, rng=rng)
    for i, share in ((1, 0.7), (2, 0.7), (3, 0.7)):  # 0.6 + 0.4 / 4
        # both standard deviations of a share of 20,000 are below 0.004; the noise's is less
        assert np.mean(rows[:, i] == rows[:, i - 1]) == pytest.approx(share, abs=0.03)
    assert model.tables.seen[0, 1] > 0.99


def test_a_target_is_chosen_by_the_noisy_counts_and_the_model_is_that_of_naming_it():
    """Column 1 tells of 0 and 2; one of too many categories for a target is passed over."""
    rng = np.random.default_rng(0)
    middle = rng.integers(2, size=3000)
    sides = [np.where(rng.random(3000) < 0.9, middle, 1 - middle) for _ in range(2)]
    codes = np.stack([sides[0], middle, sides[1], 3000 * middle + rng.integers(3000)], axis=1)
    settings = MarginalsSettings((2, 2, 2, 6000), target=None, noise_multiplier=0.1)
    noisy = normals.noised(pair_counts(codes, settings.sizes), noise_std=0.2, rng=rng)
    found, named = (
        model_from(noisy, settings=replace(settings, target=target), public_size=3000)
        for target in (None, 1)
    )
    for one, two in zip(found.columns, named.columns, strict=True):
        assert one[:2] == two[:2]
        np.testing.assert_array_equal(one.table, two.table)
    with pytest.raises(ValueError, match=r"merge categories of column 3 \(6,000\) and column 2"):
        replace(settings, target=3)


def test_noise_alone_shows_next_to_nothing():
    """No records: what is kept of pairs' tables is little, and columns have no parent without."""
    sizes = (9, 15, 16, 2, 9, 7, 10, 2)
    settings = marginals.settings_for(0.5, delta=1e-5, sizes=sizes, target=7)
    empty = np.zeros((0, 8), np.int64)
    model = fit(empty, settings=settings, public_size=20_000, rng=rng())
    seen = np.array([model.tables.seen[pair] for pair in settings.pairs])
    assert (seen == 0).sum() >= 8
    assert np.median(seen) < 0.1
    for column, given, _ in model.columns:
        for other in set(given) - {7}:
            assert model.tables.seen[min(column, other), max(column, other)] > 0


def test_what_the_target_explains_of_a_pair_is_no_evidence_of_an_edge():
    """Columns 0 and 1 are dependent, but not given the target: with next to no noise, no edge."""
    given = [np.array([[0.7, 0.1], [0.2, 0.1], [0.1, 0.8]]), np.array([[0.9, 0.3], [0.1, 0.7]])]
    target = np.array([0.4, 0.6])
    cube = given[0][:, None, :] * given[1][None] * target
    noisy = {(0, 1): cube.sum(2), (0, 2): cube.sum(1), (1, 2): cube.sum(0)}
    found = marginals.made_consistent(noisy, (3, 2, 2), target=2, std=1e-6)
    assert found.seen[0, 1] == 0
    assert min(found.seen[0, 2], found.seen[1, 2]) > 0.999
    triangle = marginals.triangle(found, 0, 1, 2)
    np.testing.assert_allclose(triangle, cube, atol=1e-5)
    assert marginals.dependence(triangle) == pytest.approx(0, abs=1e-9)
    shifted = noisy | {(0, 1): noisy[0, 1] + 0.05 * np.outer([1, 0, -1], [1, -1])}
    assert marginals.made_consistent(shifted, (3, 2, 2), target=2, std=1e-6).seen[0, 1] > 0.999


def test_a_column_s_shares_are_averaged_by_inverse_variance():
    """One pair says 0.5, the other, of 4 times as many cells a sum, 0.6: 4/5 of the first."""
    noisy = {
        (0, 1): np.full((2, 2), 0.25),
        (0, 2): np.array([[0.075] * 8, [0.05] * 8]),
        (1, 2): np.full((2, 8), 1 / 16),
    }
    found = marginals.made_consistent(noisy, (2, 2, 8), target=1, std=0.01)
    assert found.shares[0][0] == pytest.approx(0.8 * 0.5 + 0.2 * 0.6, abs=1e-12)


def test_shrinking_leaves_what_is_expected_beyond_the_noise():
    """Of what a pair shows beyond independence, 1 - noise / power is kept (James, Stein)."""
    beyond = 0.05 * np.outer([1, 0, -1], [1, -1])
    noisy = {(0, 1): np.outer([0.3, 0.3, 0.4], [0.5, 0.5]) + beyond}
    found = marginals.made_consistent(noisy, (3, 2), target=1, std=0.02)
    kept = 1 - 0.02**2 * 2 / (beyond**2).sum()
    assert found.seen[0, 1] == pytest.approx(kept, rel=1e-12)
    wanted = np.outer([0.3, 0.3, 0.4], [0.5, 0.5]) + kept * beyond * (1 - marginals.SPREAD)
    np.testing.assert_allclose(found.pairs[0, 1], wanted, atol=1e-9)
    assert marginals.made_consistent(noisy, (3, 2), target=1, std=0.1).seen[0, 1] == 0


def test_the_private_count_is_not_used_and_the_seed_decides():
    """The same noisy counts make the same model, whatever the number of records they came from."""
    codes, settings = records(300), replace(QUIET, noise_multiplier=1.0)
    noisy = normals.noised(pair_counts(codes, SIZES), noise_std=settings.noise_std, rng=rng(7))
    by_hand = model_from(noisy, settings=settings, public_size=500)
    fitted, other = (fit(codes, settings=settings, public_size=500, rng=rng(n)) for n in (7, 8))
    for one, two in zip(by_hand.columns, fitted.columns, strict=True):
        assert one[:2] == two[:2]
        np.testing.assert_array_equal(one.table, two.table)
    rows = [one.sample(50, rng=rng(1)) for one in (by_hand, fitted, other)]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[1], rows[2])


def test_projection_is_the_nearest_point():
    """Nearer than 2,000 random probabilities; the threshold found by bisection gives the same."""
    rng = np.random.default_rng(0)
    values = rng.normal(0.1, 0.3, (3, 4))
    found = marginals.onto_probabilities(values)
    over = root_scalar(lambda t: np.maximum(values - t, 0).sum() - 1, bracket=(-5, 5), xtol=1e-14)
    np.testing.assert_allclose(found, np.maximum(values - over.root, 0), atol=1e-12)
    others = rng.dirichlet(np.ones(12), 2000).reshape(-1, 3, 4)
    distances = ((others - values) ** 2).sum((1, 2))
    assert ((found - values) ** 2).sum() <= distances.min()


def test_dependence_is_conditional_mutual_information():
    cube = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(2, 3, 4)

    def entropy(p: np.ndarray) -> float:
        return float(-(p * np.log(p)).sum())

    wanted = entropy(cube.sum(1)) + entropy(cube.sum(0)) - entropy(cube) - entropy(cube.sum((0, 1)))
    assert marginals.dependence(cube) == pytest.approx(wanted, rel=1e-10)


def test_a_triangle_has_its_pairs_and_no_interaction_of_three():
    codes = records(500, seed=3)
    codes[:, 2] = (codes[:, 0] + codes[:, 3]) % 4
    codes[:100] = records(100, seed=9)  # so that no cell is 0
    model = fit(codes, settings=QUIET, public_size=500, rng=rng())
    cube = marginals.triangle(model.tables, 0, 2, 3)
    for axis, pair in ((2, (0, 2)), (1, (0, 3)), (0, (2, 3))):
        np.testing.assert_allclose(cube.sum(axis), model.tables.pair(*pair), atol=1e-8)
    logs = np.log(cube)
    contrast = logs[1:] - logs[:1]
    contrast = contrast[:, 1:] - contrast[:, :1]
    np.testing.assert_allclose(contrast[:, :, 1] - contrast[:, :, 0], 0, atol=1e-7)


NAN = np.array([[0.0, 0, 0, 0], [0, 1, np.nan, 1]])

test_bad_codes_are_refused = refused(
    ([[0, 0, 0, 0], [0, 2, 0, 0]], r"0 \.\. 1 in column 1, got 2 in row 1"),
    ([[0, 0, -1, 0]], r"0 \.\. 3 in column 2, got -1 in row 0"),
    (NAN, r"must be integers, got float64; .* codes\.astype"),
    ([["a", "b", "c", "d"]], "must be integers, got"),
    ([[True, False, True, False]], "must be integers, got bool"),
    ([[0, 0, 0]], r"shape \(records, 4\), one column a size, got \(1, 3\)"),
    ([0, 0, 0, 0], r"got \(4,\)"),
    call=lambda codes: fit(codes, settings=QUIET, public_size=10, rng=rng()),
)

test_bad_settings_are_refused = refused(
    ({"sizes": (3,), "target": 0}, "one column has no pairs to count"),
    ({"sizes": (3, 1, 2, 2)}, r"sizes\[1\] must be an integer >= 2, got 1"),
    ({"sizes": (3, 2.0, 2, 2)}, r"sizes\[1\] must be an integer"),
    ({"sizes": (9000, 9000), "target": 0}, "merge categories"),
    ({"sizes": (900, 900, 900), "target": 0}, "merge categories"),
    ({"target": 4}, r"target must lie in \[0, 3\], got 4"),
    ({"target": -1}, "target must be an integer >= 0"),
    *(({"noise_multiplier": bad}, "must be a finite number >= 0") for bad in (np.nan, -1.0)),
    ({"noise_multiplier": 1e-12}, "noise_multiplier must lie in"),
    call=lambda change: replace(QUIET, **change),
)


def test_a_bad_public_size_noisy_counts_that_are_not_finite_and_bad_numbers_of_rows_are_refused():
    for size in (0, -1, 2.5, float("nan")):
        with pytest.raises(ValueError, match="public_size must be an integer >= 1"):
            fit(records(5), settings=QUIET, public_size=size, rng=rng())
    with pytest.raises(ValueError, match="noisy must be 44 finite counts"):
        model_from(np.full(QUIET.cells, np.nan), settings=QUIET, public_size=5)
    model = fit(records(5), settings=QUIET, public_size=5, rng=rng())
    with pytest.raises(ValueError, match="n must be an integer >= 0"):
        model.sample(-1, rng=rng())
    assert model.sample(0, rng=rng()).shape == (0, 4)

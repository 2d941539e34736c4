"""Findings on synthesizers of tables."""

from itertools import product
from math import exp, inf, sqrt

import numpy as np

from dpkit.papers.claims import Code, Source, finding, of_gaussians

CHARGED = 2.4058  # by README's recipe, at delta 1e-6
WIDTHS = np.array([1.0, 100.0, 10.0])  # of columns' ranges
SCALE = 2 * (10 - 3) / (10_000 * 0.5)  # half of epsilon 1 is for tables


def of_known_noise() -> float:
    """Of a stored share, with seed 0's noise, of 1,000 records or with one replaced."""
    first, second = np.random.RandomState(0).laplace(0, 0.004, 2)
    return inf if np.ptp((np.array([0.5, 0.499]) + first) / (1 + first + second)) else 0.0


def loss(*other: int) -> float:
    """Largest, of binary columns, if a replaced record's are the same (0) or other (1).

    n times a column's shares move by 2, with noise of scale 4; two counts by 1, with 2.
    """
    return sum(other) * 2 / 4 + max(other) * 2 / 2


def of_one_number(entries: int, delta: float = 1e-6) -> float:
    """Of a Gaussian release of noise 1, if all its entries have the same number.

    A record moves it by 1, along the direction that the number covers least.
    """
    number = np.ones((entries, 1))
    covered = np.abs(np.linalg.svd(number)[0].T @ number).min()
    return of_gaussians(float(covered), delta=delta) if covered > 1e-9 else inf


def of_covariance(p: int = 10) -> float:
    """Of n times the moments, if y takes x's place; p is even.

    |xx' - yy'| is at most the distance of two eigenvalues of a matrix of p^2 signs, so sqrt(2) p:
    their squares add up to p^2 or less. This matrix reaches it.
    """
    signs = np.kron([[-1, 1], [1, 1]], np.ones((p // 2, p // 2)))
    return float(np.ptp(np.linalg.eigvalsh(signs))) / (2 * sqrt(p))


def of_order() -> float:
    """Largest loss, of records at ranges' ends; others have the lower ends."""
    scales = 6 * 2 * np.outer(WIDTHS, WIDTHS)[np.triu_indices(3)]
    ends = [WIDTHS * one for one in product((0, 1), repeat=3)]
    moved = (np.outer(x, x) - np.outer(y, y) for x, y in product(ends, repeat=2))
    return max((np.abs(one[np.tril_indices(3)]) / scales).sum() for one in moved)


ONE_NUMBER = finding(
    "civis-dpwgan-one-number",
    Source(
        "Civis Analytics' DPWGAN (2019)",
        "civisanalytics/dpwgan 0a8a86c, dpwgan/dpwgan.py:61-67, examples/simple_example.py:15-43, "
        "README.md:85-100; issue 2, open",
    ),
    says="By README's recipe the simple example is (2.41, 1e-6)-DP.",
    at_most=CHARGED,
    compute=lambda: of_one_number(20),
    explanation="Functions made in a loop add the noise, and read the loop's variable when they "
    "are called: each draws the shape of the last parameter, a bias of one number. Added to all "
    "coordinates, it leaves their differences without noise. These show which categories a batch "
    "has (generated rows taken as known). Nor are gradients clipped.",
    code=Code(
        was="for p in weights: p.hook(lambda g: g + noise(p.shape))",
        should="for p in weights: p.hook(lambda g: g + noise(g.shape))",
        cause="noise",
    ),
)

BUDGET = finding(
    "datasynthesizer-budget",
    Source(
        "DataSynthesizer, correlated mode",
        "DataResponsibly/DataSynthesizer 9072285, "
        "DataSynthesizer/DataDescriber.py:167-182,290-294, datatypes/AbstractAttribute.py:69-76, "
        "lib/PrivBayes.py:198-243",
    ),
    says="Two binary columns' noisy values of epsilon 1 are 1-DP.",
    at_most=1.0,
    compute=lambda: max(loss(*one) for one in product((0, 1), repeat=2)),
    explanation="Histograms are stored with noise for epsilon; then a choice of parents and tables "
    "get half each: 2 in all. Two columns leave no choice, but the tables' noise is for a row that "
    "leaves. The size is stored as it is, so another takes its place: two counts move, which costs "
    "2 again (with a choice 2.5 at most).",
    code=Code(
        was="histograms(eps)\nchoice(eps / 2)\ntables(eps / 2)",
        should="histograms(eps / 3)\nchoice(eps / 3)\ntables(eps / 3, moved=2)",
        cause="accounting",
    ),
)

SEED = finding(
    "datasynthesizer-seed-0",
    Source(
        "DataSynthesizer",
        "DataResponsibly/DataSynthesizer 9072285, DataSynthesizer/DataDescriber.py:84,115,142, "
        "lib/utils.py:10-12; its notebook",
    ),
    says="A histogram stored with epsilon 1 and defaults is 1-DP.",
    at_most=1.0,
    compute=of_known_noise,
    explanation="The seed is 0 where none is given, as in the notebook: anybody can draw the noise "
    "again and subtract it. `seed=None` draws noise that nobody knows.",
    code=Code(was="describe(seed=0)", should="describe(seed=None)", cause="noise"),
)

COVARIANCE = finding(
    "ron-gauss-covariance",
    Source(
        "RON-Gauss (Chanyaswad, Liu, Mittal 2019), its code",
        "inspire-group/RON-Gauss 769e28c, ron_gauss.py:191-196,332-337",
    ),
    says="Noisy second moments of 10 dimensions with epsilon_cov 1 are 1-DP.",
    at_most=1.0,
    compute=of_covariance,
    explanation="A replaced record of norm 1 moves the p^2 entries by sqrt(2) p / n in sum; the "
    "noise is for 2 sqrt(p) / n. Epsilon is sqrt(p / 2): as said for p = 2, 7.1 for 100. (Where "
    "the record becomes zeros it is sqrt(p) / 2.)",
    code=Code(
        was="noise = laplace(2 * sqrt(p) / (n * eps), (p, p))",
        should="noise = laplace(sqrt(2) * p / (n * eps), (p, p))",
        cause="sensitivity",
    ),
)

MEAN = finding(
    "ron-gauss-mean",
    Source(
        "RON-Gauss (Chanyaswad, Liu, Mittal 2019), its code",
        "inspire-group/RON-Gauss 769e28c, ron_gauss.py:373-380",
    ),
    says="The noisy mean of 100 features with epsilon_mean 1 is 1-DP.",
    at_most=1.0,
    compute=lambda: 2 * np.full(100, 0.1).sum() / sqrt(100),
    explanation="Records have norm 1. Replaced by its opposite, one moves the mean by "
    "2 sqrt(m) / n in sum; the noise is for sqrt(m) / n. That is enough where the record becomes "
    "zeros; the second moments' noise has the 2.",
    code=Code(
        was="noise = laplace(sqrt(m) / (n * eps), m)",
        should="noise = laplace(2 * sqrt(m) / (n * eps), m)",
        cause="sensitivity",
    ),
)

ORDER = finding(
    "smartnoise-covariance-order",
    Source(
        "SmartNoise's covariance",
        "opendp/smartnoise-sdk 6959de5, "
        "synth/snsynth/models/dp_covariance.py:55-57,80-86,89-118,279-291; issue 622 and pull "
        "request 624 (on clipping), both closed",
    ),
    says="For ranges of width 1, 100 and 10, epsilon 1 is 1-DP.",
    at_most=1.0,
    compute=of_order,
    explanation="Covariances are listed by the lower triangle, 00 10 11 20 21 22, their "
    "sensitivities by the upper, 00 01 02 11 12 22. So the third, a variance of width 100, has "
    "the noise of widths 1 and 10. (Equal widths cost 1/2 if one record is replaced.)",
    code=Code(
        was="noise(cov[tril], sensitivity[triu])",
        should="noise(cov[triu], sensitivity[triu])",
        cause="noise",
    ),
)

OBSERVED = finding(
    "synthcity-privbayes-observed",
    Source(
        "synthcity's PrivBayes",
        "vanderschaarlab/synthcity 23f322f, "
        "src/synthcity/plugins/privacy/plugin_privbayes.py:272-310",
    ),
    says="Noisy tables of epsilon 1 are 1-DP.",
    at_most=1.0,
    compute=lambda: inf if 1 - exp(-1 / SCALE) / 2 > 0 else 1.0,
    explanation="Combinations of values that no record has count 0 exactly; noise is for others. "
    "One that a single record has stays above 0 surely, and half the time with enough noise. "
    "Without the record it cannot.",
    code=Code(
        was="counts = table.groupby(columns).size()",
        should="counts = count(table, product(domains))",
        cause="uncharged",
    ),
)

TABLES = finding(
    "synthcity-privbayes-scale",
    Source(
        "synthcity's PrivBayes",
        "vanderschaarlab/synthcity 23f322f, "
        "src/synthcity/plugins/privacy/plugin_privbayes.py:92-95,265-289,351-370",
    ),
    says="Tables of 10,000 records, 10 columns and K = 3 get half of epsilon 1.",
    at_most=0.5,
    compute=lambda: 8 * 2 / SCALE,
    explanation="2 (d - K) / (n eps) is PrivBayes' for shares. Here counts have it, which move n "
    "times as far: noise of .003 on whole numbers. A replaced record moves two counts in each of "
    "8 tables, one more than d - K. DataSynthesizer had the scale until 0.1.7.",
    code=Code(
        was="counts += laplace(2 * (d - K) / (n * eps))",
        should="counts += laplace(2 * (d - K + 1) / eps)",
        cause="noise",
    ),
)

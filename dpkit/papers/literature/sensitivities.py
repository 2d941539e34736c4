"""Findings on sums, means and second moments, in whose releases a record is not hidden."""

from math import expm1, inf

from dpkit.papers.claims import Code, Source, finding

LOWER, UPPER = 0.0, 100.0  # of a feature
RECORDS = 1_000  # in [0, 1]
EPSILON, DELTA = 1.0, 1e-5


def mean_moved() -> float:
    """The farthest that adding one record moves the mean of one or more, over all numbers of them.

    n records at the lower bound and one at the upper: the mean moves by (U - L) / (n + 1).
    """
    return max(1.0 / (records + 1) for records in range(1, RECORDS + 1))


def impossible(epsilon: float) -> float:
    """Share of the outputs that a data set with one more record x, of the full norm s, cannot have.

    Released are the second moments M plus GG', G of d rows and d + 1 columns with deviation
    s / (2 epsilon). With the record they would be M + xx' plus something positive semidefinite, so
    the output is impossible where GG' - xx' is not. That is where x'(GG')^-1 x > 1; and
    x'x / x'(GG')^-1 x is the variance times a chi-square of (d + 1) - d + 1 = 2 degrees of freedom
    (Muirhead 1982, Theorem 3.2.12), for every d.
    """
    return -expm1(-2 * epsilon**2)


SQUARES = finding(
    "diffprivlib-regression-bound",
    Source(
        "diffprivlib's LinearRegression",
        "IBM/differential-privacy-library 5d9c9d8, "
        "diffprivlib/models/linear_regression.py:143-147; "
        "issues 104 and 105 and pull request 110, all open",
    ),
    says="One record with a feature in [0, 100] moves the sum of its squares by 0.",
    at_most=LOWER**2,
    compute=lambda: max(abs(LOWER), abs(UPPER)) ** 2,  # under either adjacency
    explanation="The lower bound is read twice and the upper one never. Without an intercept the "
    "Laplace noise then has scale 0, and the sum of squares goes out as it is: a record of 100 "
    "moves it by 10,000. A bug report and a repair lie with the library.",
    code=Code(
        was="sensitivity = max(abs(lower), abs(lower)) ** 2",
        should="sensitivity = max(abs(lower), abs(upper)) ** 2",
        cause="sensitivity",
    ),
)

WISHART = finding(
    "diffprivlib-wishart",
    Source(
        "diffprivlib until 0.4",
        "IBM/differential-privacy-library 17cb421 (0.2.1), "
        "diffprivlib/mechanisms/wishart.py:144-152; "
        "issues 23 and 42 and pull request 25, all closed",
    ),
    says="Wishart noise of d + 1 degrees of freedom makes second moments 1-DP.",
    at_most=EPSILON,
    compute=lambda: inf if impossible(EPSILON) > DELTA else EPSILON,
    explanation="The noise is positive semidefinite, so an output is never below the second "
    "moments. 86% of all outputs are not above them once a record of full norm is added: with it "
    "they cannot occur. The library warned of the mechanism in 0.4 and then removed it.",
    code=Code(
        was="noise = G @ G.T  # positive semidefinite",
        should="noise = symmetric(normal(std))  # of both signs",
        cause="noise",
    ),
)

MEAN = finding(
    "smartnoise-mean-sensitivity",
    Source(
        "SmartNoise's proofs of sensitivity (until 2021)",
        "opendp/smartnoise-core 7496e38, whitepapers/sensitivities/mean/mean.tex:64-100; "
        "issue 356 and pull request 357, both closed",
    ),
    says="Under add/drop-one the mean of n records in [L, U] moves by (U - L) / n at most; here "
    "n is 1,000 and the bounds are 0 and 1.",
    at_most=1.0 / RECORDS,
    compute=mean_moved,
    explanation="The n is that of the data set at hand, which add/drop-one keeps private: a bound "
    "must hold for all pairs of neighbours, and from one record to two the mean moves by 1/2. "
    "The document has said since 2021 that n must be known; then one record takes another's place.",
    code=Code(
        was="release(mean(data), sensitivity=(U - L) / n)",
        should="total = release(sum(data - L), sensitivity=U - L)\n"
        "size = release(len(data), sensitivity=1)",
        cause="sensitivity",
    ),
)

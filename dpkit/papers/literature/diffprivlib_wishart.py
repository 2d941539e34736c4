"""The Wishart mechanism, some of whose outputs reveal the record."""

from math import expm1, inf

from dpkit.papers.claims import Code, Source, finding

EPSILON, DELTA = 1.0, 1e-5


def impossible(epsilon: float) -> float:
    """Share of the outputs that a data set with one more record x, of the full norm s, cannot have.

    Released are the second moments M plus GG', G of d rows and d + 1 columns with deviation
    s / (2 epsilon). With the record they would be M + xx' plus something positive semidefinite, so
    the output is impossible where GG' - xx' is not. That is where x'(GG')^-1 x > 1; and
    x'x / x'(GG')^-1 x is the variance times a chi-square of (d + 1) - d + 1 = 2 degrees of freedom
    (Muirhead 1982, Theorem 3.2.12), for every d.
    """
    return -expm1(-2 * epsilon**2)


def epsilon() -> float:
    """Epsilon under add-remove: none where more than delta of the outputs are impossible."""
    return inf if impossible(EPSILON) > DELTA else EPSILON


CLAIM = finding(
    "diffprivlib-wishart",
    Source(
        "diffprivlib until 0.4",
        "IBM/differential-privacy-library 17cb421 (0.2.1), "
        "diffprivlib/mechanisms/wishart.py:144-152; "
        "issues 23 and 42 and pull request 25, all closed",
    ),
    says="Wishart noise of d + 1 degrees of freedom makes second moments 1-DP.",
    at_most=EPSILON,
    compute=epsilon,
    explanation="The noise is positive semidefinite, so an output is never below the second "
    "moments. 86% of all outputs are not above them once a record of full norm is added: with it "
    "they cannot occur. The library warned of the mechanism in 0.4 and then removed it.",
    code=Code(
        was="noise = G @ G.T  # positive semidefinite",
        should="noise = symmetric(normal(std))  # of both signs",
        cause="noise",
    ),
)

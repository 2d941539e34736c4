"""One record's shift of a sum of squares, in diffprivlib's linear regression."""

from dpkit.papers.claims import Code, Source, finding

LOWER, UPPER = 0.0, 100.0  # of a feature


def moved() -> float:
    """The largest square of a feature within its bounds, under add-remove and replace-one alike."""
    return max(abs(LOWER), abs(UPPER)) ** 2


CLAIM = finding(
    "diffprivlib-regression-bound",
    Source(
        "diffprivlib's LinearRegression",
        "IBM/differential-privacy-library 5d9c9d8, "
        "diffprivlib/models/linear_regression.py:143-147; "
        "issues 104 and 105 and pull request 110, all open",
    ),
    says="One record with a feature in [0, 100] moves the sum of its squares by 0.",
    at_most=LOWER**2,
    compute=moved,
    explanation="The lower bound is read twice and the upper one never. Without an intercept the "
    "Laplace noise then has scale 0, and the sum of squares goes out as it is: a record of 100 "
    "moves it by 10,000. A bug report and a repair lie with the library.",
    code=Code(
        was="sensitivity = max(abs(lower), abs(lower)) ** 2",
        should="sensitivity = max(abs(lower), abs(upper)) ** 2",
        cause="sensitivity",
    ),
)

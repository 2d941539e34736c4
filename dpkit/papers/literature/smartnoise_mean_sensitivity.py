"""One record's shift of a mean when the number of records is private too."""

from dpkit.papers.claims import Code, Source, finding

LOWER, UPPER, RECORDS = 0.0, 1.0, 1_000


def moved() -> float:
    """The farthest that adding one record moves the mean of one or more, over all numbers of them.

    n records at the lower bound and one at the upper: the mean moves by (U - L) / (n + 1).
    """
    return max((UPPER - LOWER) / (records + 1) for records in range(1, RECORDS + 1))


CLAIM = finding(
    "smartnoise-mean-sensitivity",
    Source(
        "SmartNoise's proofs of sensitivity (until 2021)",
        "opendp/smartnoise-core 7496e38, whitepapers/sensitivities/mean/mean.tex:64-100; "
        "issue 356 and pull request 357, both closed",
    ),
    says="Under add/drop-one the mean of n records in [L, U] moves by (U - L) / n at most; here "
    "n is 1,000 and the bounds are 0 and 1.",
    at_most=(UPPER - LOWER) / RECORDS,
    compute=moved,
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

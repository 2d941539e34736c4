"""The split of MST's budget in dpmm, which is right."""

import math

from dpkit.papers.claims import Source, finding
from dpkit.privacy import Gaussian, Release, rdp

RHO = 0.0305565951976  # of zero-concentrated DP, that its conversion gives for (1, 1e-5)
DELTA = 1e-5


def epsilon() -> float:
    """By RDP, of its two rounds of noisy tables and of its choice of pairs, under add-remove.

    The choice is by exponential mechanisms of epsilon^2 / 8 each, together RHO / 3; their Renyi
    curve is at most that of a Gaussian of as much (Cesar, Rogers 2021).
    """
    sigma = math.sqrt(3 / (2 * RHO))
    tables, choice = Gaussian(sigma), Gaussian(1 / math.sqrt(2 * RHO / 3))
    return rdp.epsilon([Release(tables, 2), Release(choice)], delta=DELTA).epsilon


CLAIM = finding(
    "dpmm-mst-rho",
    Source(
        "dpmm's MST (McKenna, Miklau, Sheldon 2021)",
        "sassoftware/dpmm 5661637, src/dpmm/models/mst.py:116-147,212-219,244-247, "
        "src/dpmm/models/base/mechanisms/cdp2adp.py:55-123, mechanism.py:145-187",
    ),
    says="Its noise for epsilon 1 and delta 1e-5, on a public domain, is (1, 1e-5)-DP.",
    at_most=1.0,
    tolerance=1e-6,
    compute=epsilon,
    explanation="A third of rho .0306 each pays for the single columns, for the choice of pairs "
    "and for the pairs' tables. Every round is charged, and turned into epsilon it comes to 1.",
)

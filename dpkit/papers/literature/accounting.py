"""Findings on accountants, on their numbers, and on a charge for batches that were not drawn."""

import math

from dpkit.papers.claims import Code, Source, finding, of_gaussians, of_poisson_batches
from dpkit.privacy import Gaussian, Release, rdp, shuffled

# RdpAccountant(neighboring_relation=REPLACE_ONE), its own orders, delta 1e-5
REPLACED = 4.728507
MST_EPSILON, MST_DELTA = 1.0, 1e-2  # of its audit's baseline
RHO = 0.0305565951976  # of zero-concentrated DP, that MST's conversion gives for (1, 1e-5)
NOISE, BATCHES, DELTA = 0.5, 10_000, 1e-6  # of the shuffled epoch
POISSON = 1.9535  # PLD, certified from above: 10,000 Poisson batches at rate 1/10,000


def mu() -> float:
    """Shift in deviations of the one Gaussian with the whole budget's zCDP.

    mu^2 / 2 is the rho that Canonne, Kamath and Steinke's conversion (2020) takes to the budget.
    """
    low, high = 0.0, 1.0
    for _ in range(30):  # halves to 1e-9
        middle = (low + high) / 2
        spent = rdp.epsilon(
            [Release(Gaussian(1 / middle))], delta=MST_DELTA, conversion="improved"
        )
        low, high = (low, middle) if spent.epsilon > MST_EPSILON else (middle, high)
    return high


def of_mst() -> float:
    """By RDP, of its two rounds of noisy tables and of its choice of pairs, under add-remove.

    The choice is by exponential mechanisms of epsilon^2 / 8 each, together RHO / 3; their Renyi
    curve is at most that of a Gaussian of as much (Cesar, Rogers 2021).
    """
    third = Gaussian(math.sqrt(3 / (2 * RHO)))
    return rdp.epsilon([Release(third, 2), Release(third)], delta=1e-5).epsilon


ABADI = finding(
    "abadi-figure-2",
    Source(
        "Abadi et al. (2016, Deep learning with differential privacy)",
        "arXiv 1607.00133, section 5.1 and Figure 2 (q 0.01, sigma 4, delta 1e-5, E 100)",
    ),
    says="100 epochs at rate 0.01 and noise 4 are (1.26, 1e-5)-DP by the moments accountant.",
    at_most=1.26,
    compute=lambda: of_poisson_batches(4.0, 0.01, 10_000),
    explanation="It holds for batches drawn as the analysis assumes, each record with probability "
    "0.01: a certified accountant proves 0.95 today. The paper's text was not at hand; moments up "
    "to order 32 give its 1.26 again.",
)

REPLACE_ONE = finding(
    "dp-accounting-replace-one",
    Source(
        "dp-accounting",
        "google/differential-privacy b5b0286, "
        "python/dp_accounting/dp_accounting/rdp/rdp_privacy_accountant.py:1043-1048, "
        "python/dp_accounting/dp_accounting/dp_event.py:276-283; issue 378 and pull request 464, "
        "both open when read",
    ),
    says="One Gaussian whose noise is the clip norm has epsilon 4.73 under replace-one.",
    at_most=REPLACED,
    compute=lambda: of_gaussians(1.0, adjacency="replace-one"),
    explanation="The event's noise multiplier is noise / clip norm, and a record that takes "
    "another's place can move the sum by two clip norms; the Renyi accountant prices one under "
    "every relation. Its PLD accountant prices two. Users of the library proposed a repair.",
    code=Code(
        was="rdp(q=1, noise_multiplier=noise_multiplier)",
        should="moves = 2 if relation is REPLACE_ONE else 1\n"
        "rdp(q=1, noise_multiplier=noise_multiplier / moves)",
        cause="sensitivity",
    ),
)

MST_MU = finding(
    "dpmm-mst-mu",
    Source(
        "Tight auditing of differential privacy in MST and AIM (2026)",
        "arXiv 2604.18352, abstract; sassoftware/dpmm 5661637, src/dpmm/models/mst.py:116-117, "
        "src/dpmm/models/base/mechanisms/cdp2adp.py:55-120",
    ),
    says="The budget (1, 0.01) of MST and AIM in dpmm is that of a Gaussian of mu 0.45.",
    equals=0.45,
    tolerance=0.005,
    compute=mu,
    explanation="It is 0.4548, so the audit's 0.43, which is not repeated here, comes within 6%: "
    "nothing in it speaks against the claim.",
)

MST_RHO = finding(
    "dpmm-mst-rho",
    Source(
        "dpmm's MST (McKenna, Miklau, Sheldon 2021)",
        "sassoftware/dpmm 5661637, src/dpmm/models/mst.py:116-147,212-219,244-247, "
        "src/dpmm/models/base/mechanisms/cdp2adp.py:55-123, mechanism.py:145-187",
    ),
    says="Its noise for epsilon 1 and delta 1e-5, on a public domain, is (1, 1e-5)-DP.",
    at_most=1.0,
    tolerance=1e-6,
    compute=of_mst,
    explanation="A third of rho .0306 each pays for the single columns, for the choice of pairs "
    "and for the pairs' tables. Every round is charged, and turned into epsilon it comes to 1.",
)

SHUFFLED = finding(
    "shuffled-chua",
    Source(
        "A common practice, questioned by Chua et al. (2024, How private are DP-SGD "
        "implementations?)",
        "arXiv 2403.17673, abstract; google-research/google-research 4c42994, "
        "dpsgd_batch_sampler_accounting/dpsgd_bounds.py, ShuffleAccountant",
    ),
    says="Poisson's epsilon covers one shuffled epoch (noise 0.5, 10,000 batches, delta 1e-6).",
    at_most=POISSON,
    compute=lambda: shuffled.at_least(NOISE, batches=BATCHES, delta=DELTA),
    explanation="If all other gradients are the opposite of the record's, the sum of its batch "
    "stands out from 10,000 by 2 C with it and by C without it: the event that the largest of all "
    "sums is high shows an epsilon of 10.99 at least, where Poisson batches cost 1.95. A record "
    "that leaves is replaced by a zero (zero-out adjacency).",
    code=Code(
        was="batches = split(shuffled(data), n)\ncharge(SampledGaussian(z, 1 / n), times=n)",
        should="batches = [draw(data, rate=1 / n) for _ in range(n)]\n"
        "charge(SampledGaussian(z, 1 / n), times=n)",
        cause="sampling",
    ),
)

"""What the paper says its noise does, and what its theorems say that it costs.

The first claims measure what a step releases. Those on theorems look at noisy loss values as if
nothing else were released (`recomputed`); those on tables and remarks are in `claims_on_tables`.
"""

import math
from functools import partial

from dpkit.claims import Claim
from dpkit.papers.rdp_gan import accounting, evidence, recomputed
from dpkit.papers.rdp_gan.claims_on_tables import TABLES
from dpkit.papers.rdp_gan.recomputed import ADULT, UNIT
from dpkit.papers.rdp_gan.settings import DELTA, DISCRIMINATOR_STEPS, SIGMA

PAPER = "rdp_gan"
one = partial(Claim, paper=PAPER)
WIDE = 100.0  # a noise where Theorem 2 is far below the truth
ONE = accounting.theorem_1(2, sample_rate=1.0, sensitivity=1.0, noise_std=WIDE)


MEASURED = (
    one(
        id=f"{PAPER}/loss-noise-changes-nothing",
        where="text: section III-B, eq. 8 and Algorithm 1, line 9 (line 10 updates by eqs. 9 and "
        "10, see eq-9-span); code: the discriminator's loss",
        says="Noise added to the value of the loss does not vanish in back-propagation, and makes "
        "the discriminator private.",
        stated=None,
        kind="in words",
        believed=lambda difference: difference > 0,
        compute=lambda values: values["difference"],
        explanation="Two runs with the same seeds, with noise {noise_std:g} on the loss's value "
        "and without, end with the same weights: the largest difference over all {weights:.0f} is "
        "{difference:g}, while training moved them by up to {moved:.3f}. Such noise is a constant, "
        "which has no gradient.",
        evidence=evidence.evidence_of_loss_value(iterations=200),
    ),
    one(
        id=f"{PAPER}/multiplicative-direction",
        where="code: a later version of the discriminator's loss",
        says="A random number times the loss hides the gradient.",
        stated=None,
        kind="in words",
        believed=lambda cosine: cosine < 1 - 1e-6,
        compute=lambda values: values["smallest_cosine"],
        explanation="Over {steps:.0f} steps the cosine between the released gradient and the true "
        "one is 1 or -1, but for rounding ({largest_gap:<1e-9}): only length and sign are random, "
        "and the sign was turned {turned:.0f} times.",
        evidence=evidence.evidence_of_direction(steps=200),
    ),
    one(
        id=f"{PAPER}/eq-9-span",
        where="text: section III-B, eqs. 9 and 10",
        says="Noise on the error of the output layer is carried through back-propagation and makes "
        "the whole update private.",
        stated=None,
        kind="in words",
        believed=lambda share: share > 1e-3,
        rounding=1e-5,
        compute=lambda values: values["outside"],
        explanation="The first layer's gradient stays in the span of its {inputs:.0f} inputs among "
        "{dimensions:.0f} dimensions: over {steps:.0f} steps the share of its norm outside is "
        "{outside:<1e-5}: rounding. What the noise adds, in norm {noise_share:.0%} of the "
        "gradient where that is least, stays in the span of the real inputs alone (outside: "
        "{noise_outside:<1e-5}). (Adam then rescales each coordinate, which is post-processing.)",
        evidence=evidence.evidence_of_span(steps=200),
    ),
)

THEOREMS = (
    one(
        id=f"{PAPER}/theorem-1-order",
        where="text: Theorem 1; appendix A, eq. 26, steps (b) and (d)",
        says="At every order a release has Renyi epsilon q a^2 dS^2 / (2 (a - 1) s^2) at most.",
        stated=None,
        kind="in words",
        believed=lambda order: order == math.inf,
        compute=recomputed.first_order_exceeded,
        explanation="The least integer order at which the exact divergence of the proof's own pair "
        f"(q {recomputed.RATE}, sensitivity 1, noise {recomputed.NOISE:g}) is above the bound; up "
        "to there it holds here, and at noise 10 on Adult up to order 11,797. Step (d) drops "
        "positive terms of the exponential's series, which grow with the order.",
        curve=recomputed.ratio_by_order,
    ),
    one(
        id=f"{PAPER}/lemma-1-composition",
        where="text: Lemma 1; appendix B, eq. 28",
        says="n releases of Renyi epsilon eps have Renyi divergence 2 a n eps^2 at most.",
        stated=accounting.lemma_1_divergence(ONE, order=2, releases=DISCRIMINATOR_STEPS),
        kind="at most",
        compute=partial(recomputed.renyi_of_releases, WIDE),
        explanation=f"Computed exactly for {DISCRIMINATOR_STEPS} Gaussian releases of sensitivity "
        f"1 at noise {WIDE:g} and order 2. The bound is that of releases of pure epsilon-DP; Renyi "
        "epsilons add up (the paper's Proposition 2), which is more once eps is below 1 / (2 a).",
    ),
    one(
        id=f"{PAPER}/theorem-2-sigma-100",
        where="text: Theorem 2, eq. 15",
        says="Five releases of sensitivity 1 at noise 100, every record in every batch, cost eq. "
        "15's epsilon.",
        stated=accounting.theorem_2(noise_std=WIDE, **UNIT),
        kind="at most",
        compute=partial(recomputed.exact, WIDE),
        explanation="Stated is eq. 15 at its best order, 2; computed is the exact epsilon of five "
        "Gaussian releases, one of noise 100 / sqrt(5). Up to noise 10 the formula is above it.",
        curve=recomputed.exact_by_noise,
    ),
    one(
        id=f"{PAPER}/theorem-3-adult",
        where="text: Theorem 3, eq. 16; section V-A, Table II",
        says="One generator iteration on Adult at noise 10 and batch 64 costs eq. 16's epsilon.",
        stated=accounting.theorem_3(noise_std=SIGMA, **ADULT.setting),
        kind="at most",
        compute=lambda: recomputed.bounds_on_adult(1).lower,
        explanation="Computed is a proven lower bound on the epsilon of five Poisson-sampled "
        f"Gaussian releases (q {ADULT.setting['sample_rate']:g}, sensitivity "
        f"{ADULT.sensitivity:g}, that of the mean by eq. 13); the exact value is at most 0.1 % "
        "higher.",
    ),
    one(
        id=f"{PAPER}/order-in-sigma",
        where="text: section V-B2, after eq. 23",
        says="The privacy loss falls as 1 / noise^2, where the moments accountant's falls as 1 / "
        "noise.",
        stated=-2.0,
        kind="equals",
        tolerance=0.1,
        compute=recomputed.slope,
        explanation="The slope of log epsilon against log noise, by least squares over noise 1 to "
        "100, of five Gaussian releases of sensitivity 1 priced exactly: no accountant can make "
        "it fall faster. Renyi divergences do fall as 1 / noise^2; epsilon at a fixed delta does "
        "not.",
        curve=recomputed.exact_by_noise,
    ),
    one(
        id=f"{PAPER}/theorem-4-delta",
        where="text: Theorem 4",
        says="1,000 generator iterations, each (epsilon_g, delta), are together (1000 epsilon_g, "
        "delta).",
        stated=DELTA,
        kind="at most",
        compute=recomputed.composed_delta,
        explanation="At the sum of the epsilons, (epsilon, delta) releases compose to 1 - (1 - "
        "delta)^1000, and some reach it (Kairouz, Oh, Viswanath 2015): delta adds up as well.",
    ),
)

CLAIMS: tuple[Claim, ...] = (*MEASURED, *THEOREMS, *TABLES)

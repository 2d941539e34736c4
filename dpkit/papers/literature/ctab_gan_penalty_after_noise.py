"""CTAB-GAN+ with DP: a gradient penalty added to the noised gradient."""

import math

from dpkit.papers.claims import Code, Source, finding
from dpkit.privacy import Gaussian, Release, gdp

BATCH, NOISE, PENALTY = 500, 1.02, 10.0
SLOPES = (1.0, 0.2)  # of a leaky unit, on records that it takes for positive and negative
SAID = 11.53404  # see the claim ctab-gan-batch-as-microbatch


def penalty_gradient(weight: float, slope: float) -> float:
    """By the weight, of PENALTY * (|D'| - 1)^2 on one record; the critic's slope is weight * slope.

    weight and slope are positive.
    """
    return 2 * PENALTY * (weight * slope - 1) * slope


def noise_multiplier(weight: float) -> float:
    """Noise over the distance by which one record in another's place moves the step."""
    first, second = (penalty_gradient(weight, slope) for slope in SLOPES)
    return NOISE * BATCH / abs(first - second)


def epsilon(weight: float = 1e200) -> float:
    """Of a step's noised and penalised gradient, in this model of one weight, replace-one; exact.

    Without a clip it has no bound; inf where the noise is too small to be priced.
    """
    multiplier = noise_multiplier(weight)
    if multiplier < 1e-9:
        return math.inf
    return gdp.epsilon([Release(Gaussian(multiplier))], delta=1e-5).epsilon


CLAIM = finding(
    "ctab-gan-penalty-after-noise",
    Source(
        "CTAB-GAN+ (Zhao et al. 2022), its code with DP",
        "Team-TUD/CTAB-GAN-Plus-DP 6507b8a, model/synthesizer/ctabgan_synthesizer.py:314-330,"
        "481-503,528-537,548-575",
    ),
    says="With `private` on, 150 epochs on Adult's 32,561 records are (11.53, 1e-5)-DP by its "
    "function.",
    at_most=SAID,
    compute=epsilon,
    explanation="After clip and noise, the gradient of a penalty on points between records and "
    "generated rows is added. It is not clipped and grows with the critic's weights, so in the "
    "worst case, with one record replaced, no noise is enough (in a model of one weight, of 100, a "
    "step costs 22). The generator's information loss and, where there is a target, the "
    "classifier read the batch with no noise at all.",
    code=Code(
        was="gradient = clip(loss).noised() + penalty.gradient",
        should="gradient = sum(clip(loss + penalty)).noised()\n"
        "generator_loss = critic(fake)  # reads no record",
        cause="uncharged",
    ),
)

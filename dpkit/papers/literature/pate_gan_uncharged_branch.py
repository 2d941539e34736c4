"""synthcity's PATE-GAN: uncharged batches of votes."""

from scipy.special import bdtr

from dpkit.papers.claims import Code, Source, finding

BATCH, TEACHERS, LAMDA = 200, 10, 1e-3  # the plugin's defaults


def charged_share(probability_real: float = 0.5, batch: int = BATCH) -> float:
    """Share of batches of independent noisy votes with fewer than half "real".

    Args:
        probability_real: of one noisy vote; 1/2 where as many teachers say real as fake. With the
            defaults it is always within .0025 of that, for Laplace noise of scale 1000 is added
            to at most 10 votes.
    """
    most = (batch - 1) // 2  # the largest number below half
    return float(bdtr(most, batch, probability_real))


CLAIM = finding(
    "pate-gan-uncharged-branch",
    Source(
        "synthcity's PATE-GAN",
        "vanderschaarlab/synthcity 23f322f, src/synthcity/plugins/privacy/plugin_pategan.py:"
        "134-137,276-292,426-435",
    ),
    says="Every batch of fakes that the teachers vote on is charged.",
    at_least=1.0,
    compute=charged_share,
    explanation="Where at least half of a batch's noisy votes say real, zeros are handed out in "
    "their place, before the charge. Which of the two happens depends on the teachers, so it is "
    "an answer too. With the defaults the 200 votes of a full batch are close to coin tosses: .47 "
    "of the batches are charged where the teachers are divided, .44 to .50 whatever they say.",
    code=Code(
        was="if votes.mean() >= 0.5: return zeros\ncharge(votes)",
        should="charge(votes)\nif votes.mean() >= 0.5: return zeros",
        cause="uncharged",
    ),
)

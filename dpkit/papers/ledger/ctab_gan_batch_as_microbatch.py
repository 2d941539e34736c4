"""CTAB-GAN+ with DP: the whole batch is the microbatch that is clipped."""

from dpkit.code_lines import Code
from dpkit.papers.ledger.finding import Source, finding
from dpkit.privacy import pld
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import SampledGaussian

RECORDS, BATCH, EPOCHS = 39_073, 500, 150  # four fifths of the repository's Adult.csv
NOISE, DELTA = 1.02, 1e-5  # noise standard deviation / clip norm
MOVED = 2  # clip norms, by a record of the batch: from one vector of that length to another
SAID = 10.44005  # its own function at these settings, orders 2 to 4095


def epsilon(moved: float = MOVED) -> float:
    """Certified, with the batches read as Poisson samples, as the charge reads them; add-remove."""
    steps = EPOCHS * (RECORDS // BATCH)
    release = Release(SampledGaussian(NOISE / moved, BATCH / RECORDS), steps)
    return pld.epsilon([release], delta=DELTA, gap=0.01).epsilon


CLAIM = finding(
    "ctab-gan-batch-as-microbatch",
    Source(
        "CTAB-GAN+ (Zhao et al. 2022), its code with DP",
        "Team-TUD/CTAB-GAN-Plus-DP 6507b8a, model/synthesizer/ctabgan_synthesizer.py:349-359,431,"
        "473-486,581-586, model/privacy_utils/rdp_accountant.py:157-226, "
        "Experiment_Script_Adult.ipynb",
    ),
    says="With `private` on, Adult and all defaults, its function gives (10.44, 1e-5)-DP.",
    stated=SAID,
    tolerance=1e-5,
    kind="at most",
    compute=epsilon,
    explanation="A microbatch is 500 records, the whole batch, and its mean gradient is clipped to "
    "C. One record can turn that vector round, so it moves by 2 C, and the charge is for C: at "
    "noise 1.02 C the noise multiplier is .51. Clipped record by record, the charge would hold.",
    code=Code(
        was="clip(gradients.mean(), C) + noise(1.02 * C)",
        should="clip(gradients.mean(), C) + noise(1.02 * 2 * C)",
        cause="sensitivity",
    ),
)

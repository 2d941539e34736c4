"""DP-MERF's noise for epsilon 1, which suffices."""

from dpkit.papers.claims import Source, finding
from dpkit.privacy import Gaussian, Release, gdp

NOISE_FACTOR, DELTA = 5.0, 1e-5
SENSITIVITY = 2  # over the number of records: two embeddings of norm 1, one in another's place


def epsilon() -> float:
    """Exact, of the one release of all classes' mean embeddings, under replace-one."""
    noise_std = 2 * NOISE_FACTOR  # over the number of records, as the code adds it
    return gdp.epsilon([Release(Gaussian(noise_std / SENSITIVITY))], delta=DELTA).epsilon


CLAIM = finding(
    "dp-merf-noise-5",
    Source(
        "DP-MERF (Harder, Adamczewski, Park 2021)",
        "ParkLabML/DP-MERF e4ae72d, code_balanced/rff_mmd_approx.py:118, "
        "code_balanced/README.md:36,43, code_balanced/mnist_sr_gen.py:122-123,152",
    ),
    says="Noise 5 on the mean embeddings, of sensitivity 2/m, is (1, 1e-5)-DP.",
    at_most=1.0,
    compute=epsilon,
    explanation="An embedding has norm 1, and replacing a record, label and all, moves the mean by "
    "2/m at most; the noise has 5 times that. It is one release, and all else follows from it. "
    "The price is for noise that nobody can draw again: the paper's runs have the seeds 1 to 5.",
)

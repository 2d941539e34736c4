"""A Gaussian under replace-one in dp-accounting's Renyi accountant."""

from dpkit.papers.claims import Code, Source, finding
from dpkit.privacy import Gaussian, Release, gdp

SAID = 4.728507  # RdpAccountant(neighboring_relation=REPLACE_ONE), its own orders, delta 1e-5


def epsilon() -> float:
    """Exact, of one Gaussian of noise multiplier 1 (noise / clip norm), under replace-one."""
    return gdp.epsilon([Release(Gaussian(1.0, "replace-one"))], delta=1e-5).epsilon


CLAIM = finding(
    "dp-accounting-replace-one",
    Source(
        "dp-accounting",
        "google/differential-privacy b5b0286, "
        "python/dp_accounting/dp_accounting/rdp/rdp_privacy_accountant.py:1043-1048, "
        "python/dp_accounting/dp_accounting/dp_event.py:276-283; issue 378 and pull request 464, "
        "both open when read",
    ),
    says="One Gaussian whose noise is the clip norm has epsilon 4.73 under replace-one.",
    at_most=SAID,
    compute=epsilon,
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

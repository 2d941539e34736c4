"""Every mechanism of `privacy` as a target: what attacks measure, beside what is proven of it.

Where a price is right, audits show that samplers and bounds agree with it, and how much of a proven
epsilon an attacker can show at all. Two targets are of another kind: a shuffled pass, charged as
Poisson batches in its place, and a count beside the noise, which nothing covers.
"""

from collections.abc import Callable
from functools import partial

from dpkit.audit import exact
from dpkit.papers.targets.target import Target
from dpkit.privacy.ledger import Release, Releases
from dpkit.privacy.mechanisms import Gaussian, GroupedGaussian, Laplace, NoGuarantee
from own_mechanisms import released
from own_mechanisms.attacks import BINS, LEARNING, Attack, classifier, histogram, statistic
from own_mechanisms.compositions import COMPOSED, MIXED
from own_mechanisms.priced import CODE, single, target
from own_mechanisms.single_releases import SINGLE
from own_mechanisms.worlds import Worlds, together
from own_mechanisms.worst_pairs import of_ledger

COUNTED = "knows no density: scores by how often each bin held outputs of either world"
FITTED = "knows no density: scores by a logistic regression fitted to outputs of either world"


def beside_a_count(noise_multiplier: float) -> Worlds:
    """A noised sum, and beside it how many records there are, as it is.

    Adaptive batches, class counts of a conditional generator and means over a private size show
    such a number.
    """
    noised = of_ledger([Release(Gaussian(noise_multiplier))])
    counts = Worlds(released.exact_count(100), released.exact_count(101))
    return together([noised, counts])


def learned(name: str, says: str, ledger: Releases, *, where: str) -> list[Target]:
    """The same releases for attackers who know no density: one counts, one fits a model.

    Args:
        name, says, where: of the target that knows both densities.
        ledger: what is released.
    """
    attackers: list[tuple[str, Callable[[Worlds], Attack], str, dict[str, int]]] = [
        ("histogram", histogram, COUNTED, {"bins": BINS}),
        ("classifier", classifier, FITTED, {}),
    ]
    return [
        target(
            f"{name}-by-{how}",
            says,
            ledger,
            where=where,
            attack=attack,
            knows=knows,
            settings={"learning": LEARNING, **settings},
        )
        for how, attack, knows, settings in attackers
    ]


LEARNED: tuple[Target, ...] = (
    *learned(
        "gaussian",
        "a clipped sum plus normal noise",
        [Release(Gaussian(1.0))],
        where=f"{CODE}/gaussian.py",
    ),
    *learned(
        "laplace",
        "a sum clipped in L1 norm plus Laplace noise",
        [Release(Laplace(0.5))],
        where=f"{CODE}/pure.py",
    ),
    *learned(
        "grouped-gaussian",
        "a Poisson batch's sum clipped in four groups, each at its own bound",
        [Release(GroupedGaussian(1.5, 4, 0.5))],
        where=f"{CODE}/sampled_gaussian.py",
    ),
    *learned(
        "mixed-ledger",
        "a sum, twenty steps of DP-SGD, a sum with Laplace noise and three counts",
        MIXED,
        where="dpkit/privacy/accountants/pld",
    ),
)

UNPROTECTED: tuple[Target, ...] = (
    single(
        "count-beside-noise",
        "a noised sum, with the exact number of records beside it",
        NoGuarantee("the number of records is released as it is"),
        "base",
        worlds=partial(beside_a_count, 1.0),
        attack=partial(statistic, coordinate=1),
        knows="reads the number that no noise reaches",
        bound=exact.distinguished,
        trials=exact.LEAST,
        assumes=(),
    ),
)

TARGETS: tuple[Target, ...] = (*SINGLE, *COMPOSED, *LEARNED, *UNPROTECTED)

"""Every mechanism of `privacy` as a target: what attacks measure, beside what is proven of it.

Where a price is right, audits show that samplers and bounds agree with it, and how much of a proven
epsilon an attacker can show at all. One target is of another kind: a count beside the noise, which
nothing covers.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from dpkit.audit import bounds
from dpkit.papers.targets.target import Target
from dpkit.privacy import DiagonalGaussian, DiscreteGaussian, Gaussian, Laplace, SampledGaussian
from dpkit.privacy.accountants import pld, rdp
from dpkit.privacy.best_of import best_of
from dpkit.privacy.ledger import Guarantee, Ledger, Parallel, Release, Releases, parallel
from dpkit.privacy.mechanisms import (
    ApproximateDP,
    BallsAndBinsGaussian,
    ExponentialMechanism,
    GroupedGaussian,
    PoissonSampled,
    RandomizedResponse,
    WithoutReplacementGaussian,
    WithReplacementGaussian,
)
from dpkit.privacy.mechanisms.base import Adjacency, Mechanism, NoGuarantee
from dpkit.privacy.mechanisms.sampled_gaussian import GroupSampledGaussian
from dpkit.privacy.mechanisms.truncated_poisson import TruncatedPoissonGaussian
from own_mechanisms import attacks
from own_mechanisms import worlds as seen
from own_mechanisms.attacks import BINS, LEARNING, Attack, classifier, histogram, statistic
from own_mechanisms.worlds import Worlds, between_parts, of_ledger

DELTA = 1e-5
TRIALS = 100_000
CODE = "dpkit/privacy/mechanisms"
BEST = "knows both data sets and scores by the likelihood ratio, the best score there is"
FAITHFUL = ("the two worlds run the mechanism as its definition says",)
COUNTED = "knows no density: scores by how often each bin held outputs of either world"
FITTED = "knows no density: scores by a logistic regression fitted to outputs of either world"
REPLACE: Adjacency = "replace-one"


def target(
    name: str,
    says: str,
    ledger: Releases,
    *,
    where: str,
    worlds: Callable[[], Worlds] | None = None,
    attack: Callable[[Worlds], Attack] = attacks.likelihood_ratio,
    knows: str = BEST,
    price: Callable[..., Guarantee] = pld.epsilon,
    settings: dict[str, Any] | None = None,
    **more: Any,
) -> Target:
    """A ledger as a target, "mechanisms/<name>"; its worst pair's worlds, unless others are given.

    An attacker `knows` what one sentence says; `more` are further fields of Target.
    """
    checked = Ledger.of(ledger)
    make = worlds or partial(of_ledger, checked)
    releases = [[repr(mechanism), count] for mechanism, count in checked.releases]
    return Target(
        id=f"mechanisms/{name}",
        version="mechanism",
        says=says,
        where=where,
        proven=partial(price, checked, delta=DELTA),
        attack=knows,
        scores=lambda rng, trials: attack(make())(rng, trials),
        adjacency=checked.adjacency,
        delta=DELTA,
        settings={"releases": releases, **(settings or {})},
        **{"trials": TRIALS, "assumes": FAITHFUL, **more},
    )


def single(name: str, says: str, mechanism: Mechanism, **more: Any) -> Target:
    where = f"{type(mechanism).__module__.replace('.', '/')}.py"
    return target(name, says, [Release(mechanism)], where=where, **more)


def learned(*, name: str, of: tuple[Target, ...], ledger: Releases) -> list[Target]:
    """The same releases for attackers who know no density: one counts, one fits a model."""
    same = next(one for one in of if one.id == f"mechanisms/{name}")
    attackers: list[tuple[str, Callable[[Worlds], Attack], str, dict[str, int]]] = [
        ("histogram", histogram, COUNTED, {"bins": BINS}),
        ("classifier", classifier, FITTED, {}),
    ]
    found = []
    for how, attack, knows, settings in attackers:
        told = {"where": same.where, "settings": {"learning": LEARNING, **settings}}
        named = (f"{name}-by-{how}", same.says, ledger)
        found.append(target(*named, attack=attack, knows=knows, **told))
    return found


RELEASED: dict[str, Mechanism] = {
    **{"gaussian": Gaussian(1.0), "gaussian-replace-one": Gaussian(2.0, REPLACE)},
    "sampled-gaussian": SampledGaussian(0.6, 0.3),
    "sampled-gaussian-other-way": SampledGaussian(0.6, 0.3),
    "sampled-gaussian-replace-one": SampledGaussian(1.0, 0.3, REPLACE),
    **{"laplace": Laplace(0.5), "laplace-replace-one": Laplace(1.0, REPLACE)},
    "randomized-response": RandomizedResponse(2.0, 4),
    "discrete-gaussian": DiscreteGaussian(1.0),
    "discrete-gaussian-replace-one": DiscreteGaussian(2.0, 3, REPLACE),
    "diagonal-gaussian": DiagonalGaussian((1.5, 2.0, 3.0)),
    "diagonal-gaussian-replace-one": DiagonalGaussian((3.0, 4.0, 6.0), REPLACE),
    "grouped-gaussian": GroupedGaussian(1.5, 4, 0.5),
    "grouped-gaussian-replace-one": GroupedGaussian((2.0, 4.0), 2, 1.0, REPLACE),
    "without-replacement-gaussian": WithoutReplacementGaussian(0.6, 0.3),
    "truncated-poisson-gaussian": TruncatedPoissonGaussian(1.0, 0.4, 2, 6),
    "balls-and-bins-gaussian": BallsAndBinsGaussian(0.6, 5),
    "group-sampled-gaussian": GroupSampledGaussian(1.0, 0.3, 3),
    "with-replacement-gaussian": WithReplacementGaussian(2.0, 3, 5),
    "poisson-sampled-laplace": PoissonSampled(Laplace(0.5), 0.3),
    "exponential-mechanism": ExponentialMechanism(4.0),
    "stated": ApproximateDP(2.0, 1e-6),
}
SAYS = (  # of each of them, in their order
    "a clipped sum plus normal noise",
    "a clipped sum plus normal noise, one record replaced by its opposite",
    "a Poisson batch's clipped sum plus normal noise",
    "the same, attacked the other way round: sure where the record is not there",
    "a Poisson batch's clipped sum plus normal noise, one record replaced by its opposite",
    "a sum clipped in L1 norm plus Laplace noise",
    "a sum clipped in L1 norm plus Laplace noise, one record replaced by its opposite",
    "one of four answers, the truth more often than each other",
    "a count plus discrete Gaussian noise",
    "a sum of integers from -3 to 3 plus discrete Gaussian noise, a 3 in the place of a -3",
    "a sum clipped coordinate by coordinate, with each coordinate's own noise",
    "the same, with a record in one corner of the box replaced by one in the opposite corner",
    "a Poisson batch's sum clipped in four groups, each at its own bound",
    "a sum of all records clipped in two groups, one record replaced by its opposite",
    "the sum of 3 out of 10 records, no record twice, plus normal noise",
    "a Poisson batch's sum plus normal noise, of which 2 of 6 records are kept at most",
    "a pass of five noised sums, of which each record is in one at random",
    "a Poisson batch's sum plus normal noise, three records added at once",
    "the sum of 3 draws from 5 records, which may be met again, plus normal noise",
    "a Poisson batch's sum clipped in L1 norm plus Laplace noise",
    "one of two choices by score, which one record makes trade places",
    "all that is shown with a chance of delta, and else one of two answers",
)
OTHER_WAY = {"worlds": lambda: of_ledger([Release(RELEASED["sampled-gaussian"])]).swapped()}
BEST_OF = target(
    "best-of",
    "the best of a geometric number of noised sums, 10 on average",
    best_of([Release(Gaussian(2.0))], mean=10.0),
    where="dpkit/privacy/best_of.py",
    price=rdp.epsilon,
)
SINGLE: tuple[Target, ...] = (
    *(
        single(name, says, released, **(OTHER_WAY if name.endswith("other-way") else {}))
        for (name, released), says in zip(RELEASED.items(), SAYS, strict=True)
    ),
    BEST_OF,
)

IN_PARTS: Releases = parallel(
    [Release(Gaussian(1.0))], [Release(Gaussian(1.5), 2)], [Release(Laplace(1.0))]
)
in_parts = partial(target, where="dpkit/privacy/ledger.py", price=rdp.epsilon)
TWO_PARTS = Parallel((Ledger.of([Release(Gaussian(2.0, REPLACE))]),) * 2)
STEPS: Releases = [Release(SampledGaussian(1.0, 0.1), 100)]
MIXED: Releases = [
    *(Release(Gaussian(2.0)), Release(SampledGaussian(1.0, 0.1), 20), Release(Laplace(2.0))),
    Release(DiscreteGaussian(3.0, 2), 3),
]
MIXED_REPLACED: Releases = [
    Release(RandomizedResponse(0.5, 3), 2),
    Release(SampledGaussian(2.0, 0.2, REPLACE), 10),
    Release(DiagonalGaussian((6.0, 8.0), REPLACE)),
]

COMPOSED: tuple[Target, ...] = (
    target(
        "sampled-gaussian-100-steps",
        "a hundred steps of DP-SGD whose every noised gradient is seen",
        STEPS,
        where=f"{CODE}/sampled_gaussian.py, dpkit/privacy/accountants/pld",
    ),
    target(
        "laplace-10-times",
        "ten sums with Laplace noise of the same records",
        [Release(Laplace(3.0), 10)],
        where=f"{CODE}/pure.py, dpkit/privacy/accountants/pld",
    ),
    target(
        "mixed-ledger",
        "a sum, twenty steps of DP-SGD, a sum with Laplace noise and three counts",
        MIXED,
        where="dpkit/privacy/accountants/pld",
    ),
    target(
        "mixed-ledger-replace-one",
        "two randomised answers, ten steps of DP-SGD and a sum with two noises",
        MIXED_REPLACED,
        where="dpkit/privacy/accountants/pld",
    ),
    in_parts(
        "parallel",
        "three models, each of its own part of the data; the record lies in the dearest part",
        IN_PARTS,
    ),
    in_parts(
        "parallel-replace-one",
        "two models, each of its own part; a record of one part is replaced by its opposite",
        [Release(TWO_PARTS)],
    ),
    in_parts(
        "parallel-moved",
        "two models, each of its own part; a record leaves one part, and another enters the other",
        [Release(TWO_PARTS)],
        worlds=lambda: between_parts(TWO_PARTS, leaves=0, enters=1),
    ),
)

LEARNED: tuple[Target, ...] = (
    *learned(name="gaussian", of=SINGLE, ledger=[Release(Gaussian(1.0))]),
    *learned(name="laplace", of=SINGLE, ledger=[Release(Laplace(0.5))]),
    *learned(name="grouped-gaussian", of=SINGLE, ledger=[Release(GroupedGaussian(1.5, 4, 0.5))]),
    *learned(name="mixed-ledger", of=COMPOSED, ledger=MIXED),
)


def beside_a_count() -> Worlds:
    """A noised sum, and beside it how many records there are, as it is.

    Adaptive batches, class counts of a conditional generator and means over a private size show
    such a number.
    """
    counts = Worlds(seen.exact_count(100), seen.exact_count(101))
    return seen.together([of_ledger([Release(Gaussian(1.0))]), counts])


UNPROTECTED: tuple[Target, ...] = (
    single(
        "count-beside-noise",
        "a noised sum, with the exact number of records beside it",
        NoGuarantee("the number of records is released as it is"),
        worlds=beside_a_count,
        attack=partial(statistic, coordinate=1),
        knows="reads the number that no noise reaches",
        bound=bounds.distinguished,
        trials=bounds.LEAST,
        assumes=(),
    ),
)
TARGETS: tuple[Target, ...] = (*SINGLE, *COMPOSED, *LEARNED, *UNPROTECTED)

"""A ledger as a target: how the releases of `privacy` are set up to be attacked."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dpkit.papers.targets.target import Target
from dpkit.privacy.accountants import pld
from dpkit.privacy.ledger import Guarantee, Ledger, Release, Releases
from dpkit.privacy.mechanisms import Mechanism
from own_mechanisms.attacks import Attack, likelihood_ratio
from own_mechanisms.worlds import Worlds
from own_mechanisms.worst_pairs import of_ledger

DELTA = 1e-5
TRIALS = 100_000
CODE = "dpkit/privacy/mechanisms"
BEST = "knows both data sets and scores by the likelihood ratio, the best score there is"
FAITHFUL = ("the two worlds run the mechanism as its definition says",)


def target(
    name: str,
    says: str,
    ledger: Releases,
    *,
    where: str,
    worlds: Callable[[], Worlds] | None = None,
    attack: Callable[[Worlds], Attack] = likelihood_ratio,
    knows: str = BEST,
    price: Callable[..., Guarantee] = pld.epsilon,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Target:
    """A ledger as a target, "mechanisms/<name>", at delta 1e-5.

    Args:
        name, says, where: as Target's id, says and where.
        ledger: what is released.
        worlds: makes the two worlds; by default the ledger's worst pair.
        attack: how outputs are scored.
        knows: what the attacker knows and scores, one sentence.
        price: the accountant.
        settings: JSON values beside the releases, which stand there in any case.
        more: further fields of Target.
    """
    checked = Ledger.of(ledger)
    make = partial(of_ledger, checked) if worlds is None else worlds
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


def single(name: str, says: str, mechanism: Mechanism, file: str, **more: Any) -> Target:
    """A single release as a target; its worst pair's worlds, unless `more` has others."""
    return target(name, says, [Release(mechanism)], where=f"{CODE}/{file}.py", **more)

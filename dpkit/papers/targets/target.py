"""A target: a system or one release, its stated and proven epsilons, and the attack."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from dpkit.audit.bounds import clopper_pearson
from dpkit.audit.scores import Bound, Scores
from dpkit.common import checks
from dpkit.common.records import SCALES
from dpkit.privacy import ADJACENCIES, Adjacency, Guarantee, Releases, pld

Version = Literal["published", "repaired", "mechanism"]
VERSIONS: tuple[str, ...] = get_args(Version)
# Of most attacks
KNOWN = "the attacker knows the other records and sees every release"
ALIKE = "the record's clipped gradient has the same length in every step"
ALONG = "score every release along the record's gradient by its likelihood ratio"
MEASURED = "how far a white image moves a release is measured on the kit's step."
RATIOS = "The attacker knows all other gradients and adds up the log likelihood ratios of all"
CERTAIN = (
    "and so more often than delta, while without it the event never happens, whoever has its "
    "place: that rules out any finite epsilon under either adjacency"
)
DELTA = 1e-5


def price(ledger: Releases | Callable[[], Releases], delta: float = DELTA) -> Guarantee:
    """The certified price of a ledger, or of one that is made when asked for."""
    return pld.epsilon(ledger() if callable(ledger) else ledger, delta=delta)


@dataclass(frozen=True)
class Target:
    """A system to attack, with its own stated and proven epsilons.

    Args:
        id: "<paper>/<name>", the paper by its package's name, or another group's. A paper's
            main run is "<paper>/published" and "<paper>/repaired".
        says: the target, one sentence.
        where: section, table or file of its claimed or charged epsilon.
        version: "published", "repaired", or "mechanism" for one release of `privacy`.
        claimed: epsilon that the text states for it, or None.
        charged: epsilon that the published code's accountant charges for it, or None.
        delta: in (0, 1), of all the epsilons.
        proven: () -> certified upper bound, of epsilon inf where no finite one covers the target.
        attack: the attacker's knowledge and scores, one sentence.
        scores: (rng, trials) -> scores, `trials` in each world.
        trials: scores a world of a stored run.
        bound: scores -> a lower bound.
        assumes: assumptions of the attack beside the bound's own.
        adjacency: of all the epsilons.
        settings: all else that was set, as JSON values.
        data: () -> data set name -> sha256, empty where no data are read.
        scale: "paper" where noise, sampling and steps are the paper's own, else "reduced".

    Raises:
        ValueError: the id has another form, the version is unknown, or a number is out of range.
    """

    id: str
    says: str
    where: str
    proven: Callable[[], Guarantee]
    attack: str
    scores: Callable[[np.random.Generator, int], Scores]
    trials: int
    version: Version = "published"
    claimed: float | None = None
    charged: float | None = None
    delta: float = DELTA
    bound: Bound = clopper_pearson
    assumes: tuple[str, ...] = ()
    adjacency: Adjacency = "add-remove"
    settings: dict[str, Any] = field(default_factory=dict)
    data: Callable[[], dict[str, str]] = dict
    scale: str = "reduced"

    def __post_init__(self) -> None:
        if not all(self.id.partition("/")):
            raise ValueError(f"id must be <paper>/<name>, got {self.id!r}")
        checks.one_of(VERSIONS, version=self.version)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)
        checks.one_of(SCALES, scale=self.scale)
        checks.between(0, 1, delta=self.delta)
        checks.whole(1, trials=self.trials)
        for name in ("claimed", "charged"):
            if getattr(self, name) is not None:
                checks.non_negative(**{name: getattr(self, name)})

    @property
    def group(self) -> str:
        """Name of the paper's package, or "mechanisms"."""
        return self.id.partition("/")[0]

    @property
    def said(self) -> float | None:
        """The epsilon to refute: the claimed one, or the charged one where none is claimed."""
        return self.charged if self.claimed is None else self.claimed

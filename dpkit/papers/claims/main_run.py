"""The run that a paper's epsilon is claimed for: what README's chart shows of each system."""

from typing import NamedTuple

from dpkit.privacy.ledger import Release


class MainRun(NamedTuple):
    """Ledgers of a published run at the paper's scale, and of the kit's counterpart.

    name: of the system.
    claimed: epsilon as the paper states it, or as its code charges it where it states none.
    published: releases of the batches that are really drawn.
    repaired: releases of a run with a valid guarantee.
    """

    name: str
    claimed: float
    published: list[Release]
    repaired: list[Release]

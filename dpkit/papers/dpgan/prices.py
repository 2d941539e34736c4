"""What a run of dpGAN costs: as claimed, as its code charges it, and as it is proven."""

from typing import Any

from dpkit.common.records import json_number
from dpkit.papers.dpgan.settings import Settings
from dpkit.papers.experiments import store
from dpkit.privacy import moments, pld
from dpkit.privacy.clipping import GroupClipping, Unclipped
from dpkit.privacy.sampling import ShuffledBatches

PUBLIC = "the images that bounds and the warm start read are public"


def priced(settings: Settings, *, steps: int) -> dict[str, Any]:
    """Epsilon as claimed, as the code charges it, and as it is proven, of this many steps.

    Proven is certified by a numerical accountant, or "inf"; assumptions are what it rests on.
    `epsilon_if_poisson` is certified too, add-remove, but of batches that a shuffled run has not.
    """
    size, delta = settings.private_examples, settings.target_delta
    proven = pld.epsilon(settings.ledger(public_size=size, steps=steps), delta=delta)
    poisson = pld.epsilon(settings.poisson_ledger(public_size=size, steps=steps), delta=delta)
    charged = None
    if settings.moments is not None:
        claimed = settings.claimed_ledger(public_size=size, steps=steps)
        charged = moments.epsilon(claimed, delta=delta, moments=settings.moments).epsilon
    reads = settings.warm_start > 0 or not isinstance(settings.clipping, GroupClipping | Unclipped)
    shuffled = isinstance(settings.sampling, ShuffledBatches)  # the price of passes is no lower one
    return store.priced(
        proven,
        claimed=settings.target_epsilon if settings.noise_multiplier > 0 else None,
        assumptions=(PUBLIC,) if reads else (),
    ) | {
        "epsilon_charged": json_number(charged),
        "epsilon_lower": None if shuffled else json_number(proven.lower),
        "epsilon_if_poisson": json_number(poisson.epsilon),
        "if_poisson_adjacency": poisson.adjacency,
        "if_poisson_assumptions": list(poisson.assumptions),
    }

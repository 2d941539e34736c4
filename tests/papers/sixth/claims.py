"""What the made-up paper states of its privacy."""

from dpkit.papers.sixth.settings import PUBLIC_SIZE, SETTINGS

from dpkit.claims import Claim
from dpkit.privacy import rdp


def spent() -> float:
    """Epsilon of a whole run."""
    ledger = SETTINGS.ledger(public_size=PUBLIC_SIZE, steps=SETTINGS.max_steps)
    return rdp.epsilon(ledger, delta=SETTINGS.target_delta).epsilon


CLAIMS = (
    Claim(
        id="sixth/epsilon",
        where="abstract",
        says="training costs epsilon 4",
        stated=SETTINGS.target_epsilon,
        kind="at most",
        compute=spent,
        explanation="40 steps of Poisson batches, by RDP.",
    ),
)

"""What the made-up paper states of its privacy."""

from dpkit.papers.sixth.settings import PUBLIC_SIZE, SETTINGS

from dpkit.papers.claims import Claim, MainRun
from dpkit.privacy import rdp

LEDGER = SETTINGS.ledger(public_size=PUBLIC_SIZE, steps=SETTINGS.max_steps)


def spent() -> float:
    """Epsilon of a whole run."""
    return rdp.epsilon(LEDGER, delta=SETTINGS.target_delta).epsilon


CLAIMS = (
    Claim(
        **{"id": "sixth/epsilon", "where": "abstract", "says": "training costs epsilon 4"},
        **{"stated": SETTINGS.target_epsilon, "kind": "at most", "compute": spent},
        explanation="40 steps of Poisson batches, by RDP.",
    ),
)


def main_run() -> MainRun:
    """The run whose epsilon is claimed, which needs no repair."""
    return MainRun("Sixth", SETTINGS.target_epsilon, LEDGER, LEDGER)

"""Where stored results lie: beside the package in a checkout, inside it when installed from a wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parent


def results_dir() -> Path:
    """The folder of stored results: `data/results` of the checkout, else the wheel's own copy."""
    checkout = CHECKOUT / "data" / "results"
    return checkout if checkout.is_dir() else PACKAGE / "_results"

"""Where stored results and caches lie: in a checkout, or beside an installed package."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parent


def results_dir() -> Path:
    """The folder of stored results: `data/results` of the checkout, else the wheel's own copy."""
    checkout = CHECKOUT / "data" / "results"
    return checkout if checkout.is_dir() else PACKAGE / "_results"


def cache_dir() -> Path:
    """The folder of what can be made anew: the checkout's `data/cache`, or the user's cache."""
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / "data" / "cache"
    import pooch

    return Path(pooch.os_cache("dpkit"))

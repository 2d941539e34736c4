"""Claims, attacks and runs of a paper ask for the same ledgers: each price counts once."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def prices(each_ledger_is_priced_once: None) -> None:
    """What the accountant says of a ledger is kept for the next test."""

"""Plans of the same few settings are calibrated in most of these tests: each price counts once."""

from contextlib import suppress

import pytest


@pytest.fixture(autouse=True, scope="module")
def prices(each_ledger_is_priced_once: None) -> None:
    """What the accountant says of a ledger is kept for the next test."""


@pytest.fixture
def few_steps(monkeypatch):
    """Generators from random features learn for three steps."""
    with suppress(ImportError):
        from dpkit.synthesizers import feature_matching

        short = feature_matching.Matching(steps=3, batch=20)
        monkeypatch.setattr(feature_matching, "Matching", lambda: short)

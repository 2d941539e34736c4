"""Accountants: the total cost of a ledger of releases."""

"""Accountants: what a ledger of releases costs in all."""

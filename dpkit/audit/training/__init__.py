"""Attacks on training itself; they need torch."""

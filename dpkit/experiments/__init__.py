"""Runs: settings, seed and data in, one stored record out."""

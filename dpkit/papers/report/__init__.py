"""One HTML page of everything: every table, figure and claim, with how each came about."""

from dpkit.papers.report.page import write

__all__ = ["write"]

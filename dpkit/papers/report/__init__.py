"""One HTML page of every table and claim, with the origin of each."""

from dpkit.papers.report.page import write

__all__ = ["write"]

"""Checkpoints: training that goes on after a crash, with each step charged once."""

from dpkit.training.checkpoint.file import CannotRestore, read_saved
from dpkit.training.checkpoint.keeper import Checkpoints, kept
from dpkit.training.checkpoint.ledger import spent

__all__ = ["CannotRestore", "Checkpoints", "kept", "read_saved", "spent"]

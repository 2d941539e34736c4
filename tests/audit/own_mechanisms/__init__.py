"""Attacks on mechanisms by sampling: two worlds of outputs, and scores that tell them apart."""

"""Tables and figures of the paper, from stored runs."""

from dpkit.papers.rdp_gan.plans import PLANS

__all__ = ["PLANS"]

"""Losses of one example each, from a discriminator's logits."""

from torch import Tensor
from torch.nn.functional import softplus


def called_real(logits: Tensor) -> Tensor:
    """Cross-entropy of the answer "real", shape (batch,): -log sigmoid(logit)."""
    return softplus(-logits).squeeze(-1)


def called_fake(logits: Tensor) -> Tensor:
    """Cross-entropy of the answer "fake", shape (batch,): -log(1 - sigmoid(logit))."""
    return softplus(logits).squeeze(-1)

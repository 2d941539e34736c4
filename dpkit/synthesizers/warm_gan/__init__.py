"""A private GAN that starts from the class moments: one release, then few quiet steps.

The generator is at first the moments' own sampler; what it learns from a critic is added to it.
`settings` says what it costs; `step` trains it, and needs torch.
"""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)

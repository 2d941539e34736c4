"""Synthesizers of images from one or two noisy releases: what a GAN has to beat.

`class_moments` samples Gaussians with each class's noisy moments; `random_features` is DP-MERF's
release, on which `feature_matching`, which needs torch, trains a generator; `jitter` turns and
shifts what is sampled, which costs nothing. `marginals` is their counterpart for tables.
"""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)

"""AdaDP: Xu, Shi, Liu, Zhao and Chen, "An Adaptive and Fast Convergent Approach to Differentially
Private Deep Learning", INFOCOM 2020 (no public code).

Classifiers, not a GAN: noise that follows the past of each coordinate of the gradient, with a
learning rate that does so, too. It stands here because the optimiser of a private discriminator is
the same question. The paper reports MNIST and CIFAR-10 at three privacy levels.
"""

from dpkit.common.lazy import of_paper
from dpkit.papers.adadp.settings import SETTINGS

NAME = "adadp"
TITLE = "AdaDP (Xu, Shi, Liu, Zhao, Chen 2019)"
NOTEBOOK = "14_adadp"
__all__ = ["NAME", "NOTEBOOK", "SETTINGS", "TITLE"]
__getattr__, __dir__ = of_paper(__name__)

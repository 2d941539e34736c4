"""Privacy against utility on images: the kit's methods at equal budgets, beside published figures.

What a private GAN has to beat: releases of class moments and of random features, at epsilon 0.5,
1, 3 and 10 (delta 1e-5, add-remove adjacency, certified), each with the classifier that the field
tests with. `python -m dpkit reproduce comparison mnist`; other image sets with no setting changed.
Of tables: noisy counts of pairs beside MST and AIM (`comparison adult`).
"""

from dpkit.common.lazy import of_paper

NAME = "comparison"
TITLE = "What a GAN has to beat"
CLAIMS = ()  # it states nothing of its own
__all__ = ["CLAIMS", "NAME", "TITLE"]
__getattr__, __dir__ = of_paper(__name__)

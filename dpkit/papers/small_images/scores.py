"""Scores of the generated digits: how many images make one, and the classifier that gives them."""

from dpkit.metrics.judge import CLASSIFIERS, as_images, learn

__all__ = ["CLASSIFIERS", "IMAGES", "as_images", "learn"]
IMAGES = 9_984  # generated images of a score, as in the public code

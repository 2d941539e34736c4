"""What the paper says of other work, of libraries and of its classifier: no epsilon of its own."""

from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite

from dpkit.papers.claims import Claim, Code
from dpkit.papers.experiments import store
from dpkit.papers.small_images.adam import (
    Comparison,
    Floats,
    adagrad,
    difference,
    normalised,
    rmsprop,
)
from dpkit.papers.small_images.prior_work import Xie
from dpkit.papers.small_images.settings import SETTINGS

DEFAULT_BETA_1 = 0.9  # of Adam in PyTorch and TensorFlow; the second, 0.999
NAMED = ("MNIST", "CIFAR-10")  # in the introduction, of Zhang et al.
ZHANG = ("MNIST", "CelebA", "LSUN")  # section 5.1 of Zhang et al., and their repository's README
METHODS: Mapping[str, Callable[[Floats], Floats]] = {
    "RMSprop": rmsprop,
    "Adagrad": adagrad,
    "normalised gradients": normalised,
}


def stored_accuracy() -> float:
    """The test accuracy of the kit's classifier, whose scores the stored curves are."""
    return store.load("small_images", "classifier", scale="reduced")["mnist"]["values"]["accuracy"]


@cache
def other_methods() -> dict[str, float]:
    """By method, the largest relative difference of an update between clip norms 1 and 0.1."""
    made = Comparison(shortest=2.0)
    first, second = made.means(1.0), made.means(0.1)
    return {name: difference(of(first), of(second)) for name, of in METHODS.items()}


REVIEWS: tuple[Claim, ...] = (
    Claim(
        id="small_images/classifier-accuracy",
        where="text: section 3.2",
        says="The classifier of the inception scores has an accuracy of 99.6 % on the test set.",
        stated=0.996,
        kind="equals",
        tolerance=0.0005,  # half a unit of the last digit
        compute=stored_accuracy,
        explanation="The kit's own, built as the code has it and trained on MNIST's training "
        "images (a stored run), is right on this share of the 10,000 test images.",
    ),
    Claim(
        id="small_images/adam-defaults",
        where="text: section 2.6 (the two values are lost); code: train.py",
        says="Adam's betas are the default values in PyTorch and TensorFlow: 0.9 and 0.999.",
        stated=DEFAULT_BETA_1,
        kind="equals",
        compute=lambda: SETTINGS.critic_optimizer.betas[0],
        explanation="The code sets 0.5 and 0.9, as is common for Wasserstein GANs with a gradient "
        "penalty. A run from the text alone would differ; no epsilon depends on it.",
        code=Code(
            was="Adam(rate)  # the default betas, by the text",
            should="Adam(rate, betas=(0.5, 0.9))  # as the code runs",
            cause="evaluation",
        ),
    ),
    Claim(
        id="small_images/xie-algorithm-published",
        where="text: section 3.1, on Xie et al.; their code: wgan.py:69 and 167-172, test.py:114, "
        "illidanlab/dpgan at 033a82f (November 2018)",
        says="Xie et al. neither write how noise scales with their bound c_g nor publish their "
        "algorithm in the public repository.",
        kind="in words",
        compute=Xie(5).published_epsilon,
        believed=lambda value: not isfinite(value),
        explanation="The repository has both: wgan.py adds the noise to each gradient, and a line "
        "of test.py divides it by c_g = 13449.216, which gives this epsilon at noise 5. The line "
        "is easy to miss, in a script of tests; what it leaves out, see `xie-accountant`.",
    ),
    Claim(
        id="small_images/cifar10",
        where="text: section 1, on Zhang et al.; their text: section 5.1; their code: README",
        says="Zhang et al. train their generator for MNIST and CIFAR10.",
        stated=float(len(NAMED)),
        kind="equals",
        compute=lambda: float(len(set(NAMED) & set(ZHANG))),
        explanation="Of the two only MNIST is among their data sets, which are MNIST, CelebA and "
        "LSUN. Their repository (alps-lab/dpgan at 65cb105) also has a CIFAR-10 network and "
        "loader, but no program that trains on it.",
    ),
    Claim(
        id="small_images/other-normalising-optimisers",
        where="text: section 4, on section 3.2.1",
        says="That C cancels generalises to other methods of gradient descent with normalization.",
        kind="in words",
        compute=lambda: max(other_methods().values()),
        believed=lambda value: value < 1e-3,
        explanation="The largest relative difference of an update between C 1 and C 0.1, every "
        "gradient longer, of RMSprop, Adagrad and normalised gradients on a made-up run, each with "
        "its library's small constant: it is RMSprop's, and without the constants it is rounding.",
    ),
)

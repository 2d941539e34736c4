"""The paper's statements on its runs, DP-Adam, libraries, and prior work, computed again.

All epsilons by the paper's own method: RDP of the Poisson sampled Gaussian, the classic conversion,
the orders of its code, delta 1e-5, add-remove, except where a claim says otherwise.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from math import inf, isfinite, log

import numpy as np

from dpkit.papers.claims import AsPublished, Claim, Code, Curve, MainRun
from dpkit.papers.experiments import store
from dpkit.papers.small_images.adam import (
    Comparison,
    Floats,
    adagrad,
    difference,
    normalised,
    rmsprop,
)
from dpkit.papers.small_images.findings import CURVES, claim
from dpkit.papers.small_images.prior_work import (
    DIGIT_COUNTS,
    BeaulieuJones,
    Xie,
    clipped_mean_moves,
    groups_factor,
    noise_too_small,
)
from dpkit.papers.small_images.settings import (
    EPOCHS,
    FIGURE_2,
    ORDERS,
    PUBLIC_SIZE,
    REPAIRED,
    SETTINGS,
    STEPS_PER_EPOCH,
)
from dpkit.privacy import Mechanism, numerics, shuffled
from dpkit.privacy.clipping import FlatClipping

NAMED = ("MNIST", "CIFAR-10")  # in the introduction, of Zhang et al.
METHODS: Mapping[str, Callable[[Floats], Floats]] = {
    "RMSprop": rmsprop,
    "Adagrad": adagrad,
    "normalised gradients": normalised,
}
PAPER = "small_images"
DELTA = SETTINGS.target_delta
epsilon = AsPublished(ORDERS, DELTA).epsilon


def spent(noise: float, epochs: int = EPOCHS) -> float:
    """Epsilon of Figure 2's run of that noise multiplier, as its code charges it."""
    steps = epochs * STEPS_PER_EPOCH
    return epsilon(FIGURE_2[noise].claimed_ledger(public_size=PUBLIC_SIZE, steps=steps))


def after_one_step(noise: float) -> float:
    """Epsilon of such a run's first step."""
    return epsilon(FIGURE_2[noise].claimed_ledger(public_size=PUBLIC_SIZE, steps=1))


def curve(x: Iterable[float], y: Callable[[float], float], x_name: str, y_name: str) -> Curve:
    """y at each x."""
    points = [float(one) for one in x]
    return Curve(points, [y(one) for one in points], x_name, y_name)


def by_epoch(noise: float) -> Curve:
    """Epsilon along a run of Figure 2."""
    return curve(range(EPOCHS + 1), lambda n: spent(noise, int(n)), "epochs", "epsilon")


def shuffled_at_least(noise: float) -> float:
    """An epsilon that one pass over the paper's shuffled batches costs at least."""
    return shuffled.at_least(noise, batches=STEPS_PER_EPOCH, delta=DELTA)


def of_one_step(mechanism: Mechanism) -> float:
    """The exact epsilon of one release at delta 1e-5, from its privacy profile, by bisection."""
    return numerics.bracket(lambda e: bool(mechanism.profile([e]).max() <= DELTA))[1]


@cache
def comparison() -> Comparison:
    """The made-up run that the claims on Adam share: every gradient at least 2 long."""
    return Comparison()


@cache
def other_methods() -> dict[str, float]:
    """By method, the largest relative difference of an update between clip norms 1 and 0.1."""
    first, second = comparison().means(1.0), comparison().means(0.1)
    return {name: difference(of(first), of(second)) for name, of in METHODS.items()}


def adam_difference(first: float, second: float, eps: float = 1e-8) -> float:
    """The largest relative difference of an update between two clip norms; libraries' eps."""
    return comparison().difference(first, second, eps=eps)


def by_eps() -> Curve:
    """The distance of updates at C 0.1 from those at C 1, by Adam's eps."""
    eps = [0.0, *10.0 ** np.arange(-12, -1)]
    return curve(eps, partial(adam_difference, 1.0, 0.1), "Adam's eps", "relative difference")


def by_norm() -> Curve:
    """Distances of updates from those at C 1, by clip norm."""
    norms = 10.0 ** np.arange(-8, 2.1, 0.5)
    return curve(norms, partial(adam_difference, 1.0), "clip norm", "relative difference")


PUBLISHED, BEFORE_2018 = BeaulieuJones(), BeaulieuJones(noise_times_norm_squared=True)


@cache
def charged() -> float:
    """Beaulieu-Jones et al.'s charge for their published run."""
    return epsilon(PUBLISHED.claimed_ledger())


def beaulieu_by_epoch(name: str) -> Curve:
    """Epsilon of their run by epoch: "claimed_ledger" or "worst_case_ledger"."""

    def after(epochs: float) -> float:
        return epsilon(getattr(BeaulieuJones(epochs=int(epochs)), name)())

    return curve(range(50, 501, 50), after, "epochs", "epsilon")


def at_40_epochs(noise: float) -> Claim:
    """The final cost of a run of Figure 2."""
    return claim(
        f"epsilon-at-40-epochs-{noise}",
        "text: section 3.2.2, Figure 2; code: compute_renyi_privacy, experiments/figure_2.sh",
        f"The code's accountant prices Figure 2's run at noise multiplier {noise} as if batches "
        "were Poisson; they are shuffled, see `shuffled-against-poisson`.",
        partial(spent, noise),
        "RDP at the code's orders, classic conversion, after 40 epochs of 469 steps (batch 128 of "
        "60,000, delta 1e-5, add-remove). The paper prints no number to compare it with.",
        curve=partial(by_epoch, noise),
    )


EARLIER = "text: section 3.1, on "
ADAM_SAYS = "text: section 3.2.1, eq. 9"
SCRIPT = "code of Xie et al., which section 3.1 reviews: test.py"


def xie(noise_std: int) -> Claim:
    """The value of their script's line."""
    return claim(
        f"xie-epsilon-{noise_std}",
        SCRIPT,
        "The script's formula, 2 q sqrt(n_d log(1/delta)) / (noise / c_g) with q = 64/60000, n_d "
        f"log(1/delta) = 25, c_g = 13449.216, gives the epsilon of noise {noise_std}; a run costs "
        "more, see `xie-accountant`.",
        Xie(noise_std).published_epsilon,
        "The script does tie noise to the bound, and this is the epsilon that it gives; by the "
        "theorem's form it covers one generator iteration, of which a run has thousands.",
    )


BEAULIEU = (
    EARLIER + "Beaulieu-Jones et al.; their code: dp_gan.py, custom_keras/noisy_optimizers"
)
CLAIMS = (
    *(at_40_epochs(noise) for noise in FIGURE_2),
    claim(
        "shuffled-against-poisson",
        "code: train.py (a shuffled loader, and a Poisson accountant); text: section 2.3",
        "The accountant's epsilon is an upper bound for the training that is run.",
        partial(shuffled_at_least, 1.0),
        "The text's random minibatch fits the accountant; the code shuffles. One pass at noise "
        "1.0 then costs at least this much, if a removed record leaves its place empty, and the "
        "accountant charges less for 40. At noise .5 one pass does not decide. Where a record is "
        "replaced, the 40 cost between 11.7 and 133.2, certified. Poisson batches repair it.",
        curve=lambda: curve(
            np.linspace(0.5, 1.0, 11),
            shuffled_at_least,
            "noise multiplier",
            "epsilon, at least",
        ),
        believed=lambda value: value <= spent(1.0),
        code=Code(
            was="batches = split(shuffled(data), 128)\ncharge(SampledGaussian(z, 128 / 60_000))",
            should="batch = data[uniform(60_000) < 128 / 60_000]\n"
            "charge(SampledGaussian(z, 128 / 60_000))",
            cause="sampling",
        ),
    ),
    claim(
        "adam-clip-invariance",
        ADAM_SAYS,
        "If every gradient is longer than C, the updates of DP-Adam do not depend on C.",
        partial(adam_difference, 1.0, 0.1),
        "With every gradient longer than both clip norms, updates at C 0.1 and at C 1 (Figure 1) "
        "differ by this share at most on a made-up run, all of it from Adam's eps of 1e-8, which "
        "is small against the noise on the mean, z C / batch, at both.",
        curve=by_eps,
        believed=lambda value: value < 1e-3,
    ),
    claim(
        "adam-clip-invariance-without-eps",
        ADAM_SAYS + ' ("some details omitted")',
        "C cancels in the update.",
        partial(adam_difference, 1.0, 1e-6, 0.0),
        "Without eps it does, whatever C, as long as every gradient is longer: what is left is "
        "rounding.",
        believed=lambda value: value < 1e-9,
        rounding=1e-12,
    ),
    claim(
        "adam-clip-invariance-small-norm",
        ADAM_SAYS + ' ("some details omitted for clarity"); regime (i)',
        '"Let us choose [C] smaller than all individual gradient L-2 norms"; "for such small '
        'values of [C], the training becomes [C]-independent".',
        partial(adam_difference, 1.0, 1e-6),
        "Of eq. 9, which leaves Adam's eps out, it is true of any C "
        "(`adam-clip-invariance-without-eps`), and with eps at Figure 1's C "
        "(`adam-clip-invariance`). With eps it is not true of any C: at 1e-6 the libraries' 1e-8 "
        "weighs as much as the gradients' root mean square, and updates shrink by this share. C "
        "well above eps times batch over noise multiplier, 2.6e-6, is enough: the noise alone then "
        "outweighs eps.",
        curve=by_norm,
        kind="unchecked",
    ),
    claim(
        "adam-clip-dependence-large-norm",
        ADAM_SAYS + "; regime (ii), Figure 1 at C 100",
        "For larger C, each gradient's own norm weights the sum.",
        partial(adam_difference, 1.0, 100.0),
        "At C 100, longer than every gradient, nothing is clipped and the noise still grows with "
        "C: updates differ by more than their own length from those at C 1.",
        believed=lambda value: value > 0.1,
    ),
    claim(
        "clip-after-mean",
        BEAULIEU,
        '"Clipping the average gradient, is not sufficient to grant differential privacy to each '
        'example."',
        clipped_mean_moves,
        "In units of C: one long gradient among 100 turns the clipped mean from one end of its "
        "ball to the other, under replace-one and add-remove alike; noise of z C protects as much "
        "as a noise multiplier z / 2 (z C / batch would be 2 batch times too small).",
        believed=lambda value: 1 < value < inf,
        code=Code(
            was="g = clip(mean(grads), C)",
            should="g = mean(clip(g_i, C) for g_i in grads)",
            cause="sensitivity",
        ),
    ),
    claim(
        "beaulieu-jones-add-remove",
        BEAULIEU,
        "500 epochs over 6,000 records at batch 1 and noise 1 are charged as if each batch were "
        "Poisson; batches of exactly one record cost more, see `beaulieu-jones-replace-one`.",
        charged,
        "This is what 3,000,000 steps cost at the rate 1/6000 if batches are Poisson, some empty, "
        "and each example is clipped: RDP at this paper's orders, classic conversion.",
        curve=partial(beaulieu_by_epoch, "claimed_ledger"),
    ),
    claim(
        "beaulieu-jones-replace-one",
        BEAULIEU,
        'Results "may still be correct because the authors use a batch size of one".',
        lambda: epsilon(PUBLISHED.worst_case_ledger()),
        "At batch 1 the clipped mean is the one example's clipped gradient, so that error is none. "
        "But a step draws exactly one record: where it is not the one in question it is another, "
        "whose gradient may be the opposite. That is the Poisson formula at noise 1/2, exact under "
        "add-remove, order by order, where `beaulieu-jones-add-remove` has "
        f"{charged():.2f} by the same accountant. Under replace-one it costs between 11.2 and "
        "15.8, certified, and 20.6 by the theorem for batches of a fixed size.",
        curve=partial(beaulieu_by_epoch, "worst_case_ledger"),
        kind="unchecked",
        code=Code(
            was="charge(SampledGaussian(z, 1 / n))  # Poisson",
            should="charge(SampledGaussian(z / 2, 1 / n))\n# a batch holds exactly one record",
            cause="sampling",
        ),
    ),
    claim(
        "beaulieu-jones-noise-c-squared",
        "code of Beaulieu-Jones et al. before July 2018",
        "The same epsilon is charged for a run whose noise is multiplied by the clip norm twice.",
        lambda: of_one_step(BEFORE_2018.worst_case_ledger()[0].mechanism),
        "Noise of z C^2 at C 1e-4 is 10,000 times smaller than was charged, and a step on exactly "
        "one record moves by 2 C: this is the exact epsilon of one of the 3,000,000 steps.",
        believed=lambda value: value <= charged(),
        code=Code(was="noise_std = z * C * C", should="noise_std = z * C", cause="noise"),
    ),
    claim(
        "zhang-factor-8",
        EARLIER + "Zhang et al.; their code: dp/clippers/basic.py",
        "At batch size 64 the noise is a factor of eight too small.",
        partial(noise_too_small, 64),
        "The code divides the noise by the root of the batch size: by 8 at batch 64 on one device.",
        equals=8.0,
        tolerance=1e-9,
        curve=lambda: curve(
            range(1, 257), lambda b: noise_too_small(int(b)), "batch", "factor"
        ),
        code=Code(
            was="noise_std = z * C / sqrt(batch)", should="noise_std = z * C", cause="noise"
        ),
    ),
    claim(
        "zhang-groups-factor-10",
        EARLIER + "Zhang et al.",
        "Clipping groups of parameters separately probably makes gradients longer in proportion to "
        "the number of groups, about ten times.",
        partial(groups_factor, 9),  # weights and biases of 4 convolutions, a last weight
        "Norms add as squares, so k groups clipped at C are C sqrt(k) long: 3 C with the nine "
        "tensors of the largest published critic of plain layers, 2.2 C with MNIST's five groups; "
        "ten times takes a hundred groups.",
        equals=10.0,
        tolerance=0.5,
        curve=lambda: curve(
            range(1, 101), lambda k: groups_factor(int(k)), "groups", "length / C"
        ),
        code=Code(
            was="length = C * groups", should="length = C * sqrt(groups)", cause="formula"
        ),
    ),
    *(xie(noise_std) for noise_std in (5, 10, 15)),
    claim(
        "xie-true-rate",
        SCRIPT + " (q, noise 5) and wgan.py (one GAN for each digit; its own noise is larger)",
        "The sample rate is 64/60000, noise 5.",
        lambda: Xie(5).published_epsilon(size=min(DIGIT_COUNTS)),
        "Each digit's GAN draws its batches from that digit's images: 5,421 of digit 5, by MNIST's "
        "public counts, whose GAN costs the most. The script's own formula then gives this.",
        curve=lambda: curve(
            range(10),
            lambda d: Xie(5).published_epsilon(size=DIGIT_COUNTS[int(d)]),
            "digit",
            "epsilon",
        ),
        believed=lambda value: value <= Xie(5).published_epsilon(),
        code=Code(
            was="q = 64 / 60_000",
            should="q = 64 / n_digit  # 5,421 images at least",
            cause="sampling",
        ),
    ),
    claim(
        "xie-natural-log",
        SCRIPT,
        "n_d log(1/delta) is 25, noise 5.",
        lambda: Xie(5, steps_times_log=5 * log(1 / DELTA)).published_epsilon(),
        "The line has the number 25 alone. For the code's five critic steps at delta 1e-5 it is "
        "57.6, as the theorem's logarithm is the natural one; 25 is 5 times the decimal one. With "
        "the natural one 25 is five steps at delta 6.7e-3.",
        kind="unchecked",
        code=Code(
            was="n_d * log10(1 / delta) = 25",
            should="n_d * log(1 / delta) = 57.6",
            cause="formula",
        ),
    ),
    claim(
        "xie-accountant",
        SCRIPT + "; noise 15: their experiments on MNIST",
        "Noise 15 at the bound c_g gives a single-digit epsilon.",
        lambda: of_one_step(Xie(15).ledger(size=PUBLIC_SIZE)[0].mechanism),
        "Noise 15 is 1.1e-3 of the bound. For an example whose gradient is as long as the bound "
        "allows, this is the exact epsilon of one critic step; the formula is the limit of large "
        "noise, far from here.",
        believed=lambda value: value <= Xie(15).published_epsilon(),
        code=Code(
            was="epsilon = 2 * q * sqrt(n_d * log(1 / delta)) / z\n"
            "# z = noise_std / c_g; for large z",
            should="epsilon: SampledGaussian(z, q).profile([epsilon])\n"
            "         .max() == delta  # of one step, any z",
            cause="formula",
        ),
    ),
    claim(
        "classifier-accuracy",
        "text: section 3.2",
        "The classifier of the inception scores has an accuracy of 99.6 % on the test set.",
        lambda: store.load(PAPER, "classifier", scale="reduced")["mnist"]["values"][
            "accuracy"
        ],
        "The kit's own, built as the code has it and trained on MNIST's training "
        "images (a stored run), is right on this share of the 10,000 test images.",
        equals=0.996,
        tolerance=0.0005,  # half a unit of the last digit
    ),
    claim(
        "adam-defaults",
        "text: section 2.6 (the two values are lost); code: train.py",
        "Adam's betas are the default values in PyTorch and TensorFlow: 0.9 and 0.999.",
        lambda: SETTINGS.critic_optimizer.betas[0],
        "The code sets 0.5 and 0.9, as is common for Wasserstein GANs with a gradient penalty. If "
        "the lost values are the defaults, a run from the text differs; no epsilon depends on it.",
        equals=0.9,
        code=Code(
            was="Adam(rate)  # the default betas, by the text",
            should="Adam(rate, betas=(0.5, 0.9))  # as the code runs",
            cause="evaluation",
        ),
    ),
    claim(
        "xie-algorithm-published",
        "text: section 3.1, on Xie et al.; their code: wgan.py:69 and 167-172, test.py:114, "
        "illidanlab/dpgan at 033a82f (November 2018)",
        "Xie et al. neither write how noise scales with their bound c_g nor publish their "
        "algorithm in the public repository.",
        Xie(5).published_epsilon,
        "Their repository is asked, not their paper. In wgan.py the noise is added to each "
        "gradient; a line in a string of test.py, which is never run, divides it by c_g = "
        "13449.216, and gives this epsilon at noise 5. What it leaves out, see `xie-accountant`.",
        believed=lambda value: not isfinite(value),
    ),
    claim(
        "cifar10",
        "text: section 1, on Zhang et al.; their text: section 5.1; their code: README",
        "Zhang et al. train their generator for MNIST and CIFAR10.",
        lambda: float(len({"MNIST", "CelebA", "LSUN"}.intersection(NAMED))),
        "Of the two only MNIST is among their data sets, which are MNIST, CelebA and "
        "LSUN. Their repository (alps-lab/dpgan at 65cb105) also has a CIFAR-10 network and "
        "loader, but no program that trains on it.",
        equals=float(len(NAMED)),
    ),
    claim(
        "other-normalising-optimisers",
        "text: section 4, on section 3.2.1",
        "That C cancels generalises to other methods of gradient descent with normalization.",
        lambda: max(other_methods().values()),
        "The largest relative difference of an update between C 1 and C 0.1, every "
        "gradient longer, of RMSprop, Adagrad and normalised gradients on a made-up run, each with "
        "its library's small constant: it is RMSprop's, and without the constants it is rounding.",
        believed=lambda value: value < 1e-3,
    ),
    claim(
        "plateau-order-of-magnitude",
        "text: section 4, on Figure 2 (over what is lost)",
        '"A stable plateau over an order of magnitude in [lost], and for different values of the '
        'noise multiplier."',
        lambda: spent(0.5) / after_one_step(0.5),
        "If epsilon is lost, no one curve spans ten: charged as in `epsilon-at-40-epochs-0.5`, it "
        "ends at this many times the first step's at noise .5, at fewer where there is more noise. "
        f"All curves together do: from {after_one_step(0.9):.3g} (.9) to {spent(0.5):.3g} (.5). "
        "Whether scores are level there, several seeds of each would have to show.",
        kind="unchecked",
    ),
    claim(
        "mean-sensitivity",
        "text: section 2.1, eq. 3 (the value is lost); section 2.3",
        '"Only one gradient differs"; with norms of at most C the mean of a batch "has an L-2 '
        'sensitivity of [lost] across adjacent data sets". (In units of C / batch.)',
        lambda: FlatClipping(1.0).sensitivity("replace-one"),
        "If a gradient differs because its record is replaced, the mean moves by up to 2 C / "
        "batch, as the two may point opposite ways. If the record is added or removed, and the sum "
        "is divided by the same number, it moves by C / batch. That is the adjacency of Mironov et "
        "al. 2019, by which section 2.3 and the code charge; noise of z C fits it.",
        kind="unchecked",
    ),
    *CURVES,
)


def main_run() -> MainRun:
    """The run of the claimed epsilon, and the repaired one."""
    return MainRun.of("Small images", spent(0.5), SETTINGS, REPAIRED, public_size=PUBLIC_SIZE)

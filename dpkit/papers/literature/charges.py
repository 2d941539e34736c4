"""Findings on what training code charges for its steps and batches."""

import math

import numpy as np

from dpkit.papers.claims import Code, Source, finding, of_gaussians, of_poisson_batches
from dpkit.papers.literature.gs_wgan import SAID as OF_GS_WGAN
from dpkit.papers.literature.synthesizers import of_one_number
from dpkit.privacy import Release, SampledGaussian, WithReplacementGaussian, pld


def certified(*ledger: Release) -> float:
    """Epsilon at delta 1e-5."""
    return pld.epsilon(ledger, delta=1e-5, gap=0.01).epsilon


def of_promise(noise: float, start: int, passes: int) -> float:
    """Certified, of both phases on CIFAR-10; images are in [-1, 1]."""
    kept = np.prod(1 - np.linspace(1e-4, 0.02, 1_000)[:start])
    first = math.sqrt((1 - kept) / (4 * 3_072 * kept))
    images = Release(SampledGaussian(first, 1 / 1_563), passes * 1_563)
    return certified(images, Release(SampledGaussian(noise, 1 / 13), 650))


def told(records: int) -> float:
    """Chance that the label of one record alone is drawn."""
    return -math.expm1(records * math.log1p(-1 / records))


CLASS_RATIOS = finding(
    "borealis-class-ratios",
    Source(
        "private-data-generation's DP-WGAN",
        "BorealisAI/private-data-generation 737df84, evaluate.py:49-50,114-117,204, "
        "models/dp_wgan.py:145,162,186-207",
    ),
    says="DP-WGAN with --enable-privacy is (8, 1e-5)-DP by default.",
    at_most=8.0,
    compute=lambda: math.inf if told(1_000) > 1e-5 else 8.0,
    explanation="Synthetic labels are drawn by the classes' exact shares. If one record of 1,000 "
    "(our number) is the only one of its class, 63% of synthetic data sets as large have its "
    "label; without it none has. Where shares of the classes are public, nothing is lost by it.",
    code=Code(
        was="labels = draw(shares(classes), n)",
        should="counts = release(count(classes), sensitivity=1)\n"
        "labels = draw(shares(counts), n)",
        cause="uncharged",
    ),
)

AUTOGAN_DRAWS = finding(
    "dpautogan-with-replacement",
    Source(
        "DPautoGAN (Tantipongpipat et al. 2019)",
        "DPautoGAN/DPautoGAN 40b72fd, uci/sampling.py:11-16, uci/uci.py:116-121,250-266,306-322, "
        "uci/analysis.py:5-43",
    ),
    says="15,000 critic steps of noise 3.5, with 128 of 32,562 records, are (.688, 1e-5)-DP by "
    "its function.",
    at_most=0.687575,
    compute=lambda: certified(Release(WithReplacementGaussian(3.5, 128, 32_562), 15_000)),
    explanation="The size of a batch is drawn as Poisson sampling would have it, but its records "
    "with replacement. A record that comes is then met in place of others and moves a sum by 2 C, "
    "or by 4 C if met twice. Priced with 128 draws a step, under add-remove. Against a gradient "
    "of 0 in its place .50 is enough, and the claim holds. (The price is the critic's; this file "
    "trains the autoencoder with nonprivate=True.)",
    code=Code(
        was="k = binomial(n, rate)\nbatch = choice(n, k)",
        should="batch = flatnonzero(random(n) < rate)",
        cause="sampling",
    ),
)

CGANS_STEPS = finding(
    "dp-cgans-steps",
    Source(
        "DP-CGANS (Sun et al. 2023)",
        "sunchang0124/dp_cgans 957a1e5, "
        "src/dp_cgans/synthesizers/dp_cgan.py:531,550,570-577,656,808-819, README.md:85-97, "
        "resources/example_tabular_data_UCIAdult.csv",
    ),
    says="The README's run (100 epochs, 200 rows, batches of 100, 10 critic steps) with "
    "private=True is (70.9, 2e-6)-DP, as printed.",
    at_most=70.8965,
    compute=lambda: of_poisson_batches(1.0, 0.5, 2_000, delta=2e-6, gap=0.01),
    explanation="Epochs are counted from 0, so the last is not charged (after the first, 0 is "
    "printed), and one critic step of ten is: 198 steps of 2,000. Priced as if batches were "
    "Poisson samples and gradients clipped to 1, which they are not.",
    code=Code(
        was="charge(steps=epoch * steps_per_epoch)",
        should="done = (epoch + 1) * steps_per_epoch\ncharge(steps=done * critic_steps)",
        cause="accounting",
    ),
)

CGANS_NOISE = finding(
    "dp-cgans-one-number",
    Source(
        "DP-CGANS (Sun et al. 2023)",
        "sunchang0124/dp_cgans 957a1e5, src/dp_cgans/synthesizers/dp_cgan.py:31-44,637-656",
    ),
    says="Noise of deviation 1 / batch on the critic's gradient is a Gaussian of noise 1, which "
    "(our number, before sampling) costs 4.74 at delta 2e-6.",
    at_most=4.7388,
    compute=lambda: of_one_number(128, delta=2e-6),
    explanation="The hooks are made in a loop and read its variable when they run. It is then the "
    "last tensor, a bias of one entry, so every tensor gets one number of noise a hook, the same "
    "for all its entries: differences of entries go out without any. Gradients are not clipped "
    "either.",
    code=Code(
        was="for p in tensors: p.hook(lambda g: g + noise(p.shape))",
        should="for p in tensors: p.hook(lambda g: g + noise(g.shape))",
        cause="noise",
    ),
)

PROMISE = finding(
    "dp-promise-central-limit",
    Source(
        "dp-promise (Wang et al. 2024)",
        "deabfc/dp-promise 44a2466, src/mechanisms.py:18-81, "
        "configs/dp_promise/cifar10_32/eps10.0/config.yaml:15-18,37-42, "
        "src/runners.py:123,162-169",
    ),
    says="CIFAR-10's eps10.0 is (10, 1e-5)-DP.",
    at_most=10.0,
    compute=lambda: of_promise(1.19, 900, 3),
    explanation="By a central limit, many sampled steps are charged as one Gaussian: 9.9996. It "
    "is the limit of ever more and smaller steps, not a bound; 650 steps of rate 1/13 cost 10.39 "
    "without the first phase. The files of 1 and 5 come to 1.05 and 5.15. Noised images of the "
    "first phase are priced as sampled Gaussians, as in the charge.",
    code=Code(
        was="mu = rate * sqrt(steps * expm1(1 / noise**2))",
        should="epsilon = pld(SampledGaussian(noise, rate), steps)",
        cause="formula",
    ),
)

DPAC = finding(
    "dpac-1000-images",
    Source(
        "DP-GAN-DPAC (Chen et al. 2023)",
        "chenchen-usyd/DP-GAN-DPAC 400c3aa, README.md (Training, Privacy), "
        "source/main.py:83-115,246,274,306-326,386-439, evaluation/privacy_analysis.py:10-21",
    ),
    says="The README's run on MNIST is (9.99, 1e-5)-DP, by its script.",
    at_most=OF_GS_WGAN,
    compute=lambda: certified(
        Release(SampledGaussian(1.07, 1e-3), 6_000 * 32 + 14_001 * 2_000)
    ),
    explanation="32 gradients a step are charged. From step 6,000 on the size that a second "
    "network's training has set, 1,000, is the generator's too, and both networks, which read the "
    "same part, send a gradient for each image. Priced by the charge's own rule, as if each drew "
    "a part anew; ledger/gs-wgan-32-gradients is about that rule.",
    code=Code(
        was="size = 1_000  # for the classifier\nimages = generate(size)",
        should="images = generate(batch)\ncharge(q, gradients=2 * batch)",
        cause="accounting",
    ),
)

DPSDA = finding(
    "dpsda-figure-5",
    Source(
        "Private Evolution (Lin et al. 2024), in its author's words",
        "microsoft/DPSDA issue 6, closed",
    ),
    says="Figure 5's images, from 5 histograms of noise 2 sqrt(2), are (3.34, 1e-5)-DP.",
    equals=3.34,
    tolerance=0.005,
    compute=lambda: of_gaussians(2 * math.sqrt(2), 5),
    explanation="It holds. A reader could not find 3.34 with the appendix's 20 histograms of "
    "noise sqrt(2), which cost 17.86; the author looked up the run and found 5 and 2 sqrt(2) in "
    "its log. A record has one vote.",
)

"""The lines of code and the formulas that claims are about: as they were, as they should be."""

from dpkit.papers.claims import Code

LINES = {  # by the claim's name
    "shuffled-against-poisson": Code(
        was="batches = split(shuffled(data), 128)\ncharge(SampledGaussian(z, 128 / 60_000))",
        should="batch = data[uniform(60_000) < 128 / 60_000]\n"
        "charge(SampledGaussian(z, 128 / 60_000))",
        cause="sampling",
    ),
    "adam-clip-invariance-small-norm": Code(
        was="update = m / sqrt(v)", should="update = m / (sqrt(v) + eps)", cause="formula"
    ),
    "clip-after-mean": Code(
        was="g = clip(mean(grads), C)",
        should="g = mean(clip(g_i, C) for g_i in grads)",
        cause="sensitivity",
    ),
    "beaulieu-jones-replace-one": Code(
        was="charge(SampledGaussian(z, 1 / n))  # Poisson",
        should="charge(SampledGaussian(z / 2, 1 / n))\n# a batch holds exactly one record",
        cause="sampling",
    ),
    "beaulieu-jones-noise-c-squared": Code(
        was="noise_std = z * C * C", should="noise_std = z * C", cause="noise"
    ),
    "zhang-factor-8": Code(
        was="noise_std = z * C / sqrt(batch)", should="noise_std = z * C", cause="noise"
    ),
    "zhang-groups-factor-10": Code(
        was="length = C * groups", should="length = C * sqrt(groups)", cause="formula"
    ),
    "xie-true-rate": Code(
        was="q = 64 / 60_000", should="q = 64 / n_digit  # 5,421 images at least", cause="sampling"
    ),
    "xie-natural-log": Code(
        was="n_d * log10(1 / delta) = 25", should="n_d * log(1 / delta) = 57.6", cause="formula"
    ),
    "xie-accountant": Code(
        was="epsilon = 2 * q * sqrt(n_d * log(1 / delta)) / z\n# z = noise_std / c_g; for large z",
        should="epsilon: SampledGaussian(z, q).profile([epsilon])\n"
        "         .max() == delta  # of one step, any z",
        cause="formula",
    ),
}

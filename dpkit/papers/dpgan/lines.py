"""The lines of code and the formulas that claims are about: as they were, as they should be."""

from dpkit.papers.claims import Code

THEOREM = Code(  # Theorem 4.1, parallel composition: groups priced as if they were disjoint data
    was="step = SampledGaussian(z, q)  # of one group",
    should="step = SampledGaussian(z / sqrt(len(groups)), q)",
    cause="sensitivity",
)

LINES = {  # by the claim's name
    "one-release-lsun": Code(
        was="z = sqrt(2 * log(1.25 / delta)) / epsilon\n# proven for epsilon < 1; here 10",
        should="z: Gaussian(z).profile([epsilon]).max() == delta\n# exact, any epsilon",
        cause="formula",
    ),
    "every-tenth-iteration": Code(
        was="if iteration % 10 == 0:\n    stop = spent(iteration) > budget",
        should="stop = spent(iteration + 1) > budget",
        cause="accounting",
    ),
    **{
        f"theorem-4.1-{name}": THEOREM
        for name in ("7-groups", "5-groups", "celeba", "lsun-l", "lsun-u")
    },
    "groups-share-one-batch": Code(
        was="for g in groups:\n    charge(SampledGaussian(z, q))",
        should="charge(GroupedGaussian(z, len(groups), q))",
        cause="sampling",
    ),
    "stray-factor-1-device": Code(
        was="g = sum(clip(g_i / B, C) for g_i in grads)\nnoise_std = z * C / sqrt(B)",
        should="g = sum(clip(g_i / B, C) for g_i in grads)\nnoise_std = z * C",
        cause="noise",
    ),
    "stray-factor-4-devices": Code(
        was="g = mean(device.g for device in four)\nnoise_std = z * C / sqrt(4 * B)",
        should="g = mean(device.g for device in four)\nnoise_std = z * C / 4",
        cause="noise",
    ),
    "auto-grouping": Code(
        was="g_i[group] = [clip(tensor, C_group)\n              for tensor in g_i[group]]",
        should="g_i[group] = clip(g_i[group], C_group)",
        cause="sensitivity",
    ),
    "theorem-3.1-conditions": Code(
        was="alpha(k) <= q**2 * k * (k + 1) / ((1 - q) * z**2)\n# for z >= 1; here z = .434",
        should="alpha(k) = k * SampledGaussian(z, q).rdp(k + 1)\n# by integration, any z",
        cause="formula",
    ),
    "linear-subsampling": Code(
        was="epsilon = O(q * epsilon_0)\n# for epsilon_0 <= 1; here 10",
        should="epsilon = log1p(q * expm1(epsilon_0))\n# any epsilon_0",
        cause="formula",
    ),
    "js-near-its-maximum": Code(
        was="score = mean(js(p, 1 / 2))  # small: not told apart",
        should="score = mean(js(p, 1 / 2)) / MOST  # 0 to 1",
        cause="evaluation",
    ),
}

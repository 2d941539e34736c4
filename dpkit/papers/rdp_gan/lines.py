"""The lines of code and the formulas that claims are about: as they were, as they should be."""

from dpkit.papers.claims import Code

# Eqs. 15 and 16, from eq. 28; in its place Renyi epsilons add up (Mironov 2017, Props. 1 and 3)
THEOREM_2 = Code(
    was="epsilon_d = 4 eps sqrt(2 n_d log(1 / delta))\n# eps of one step, by Theorem 1",
    should="epsilon_d = n_d eps(a) + log(1 / delta) / (a - 1)\n"
    "# least over a; eps(a) exact, of one step",
    cause="formula",
)
NOISED = "g = sum(clip(g_i, C) for g_i in grads)\ng = (g + z * C * normal(shape)) / batch"

LINES = {  # by the claim's name
    "loss-noise-changes-nothing": Code(
        was="loss = mean(losses) + noise_std * normal()\ng = gradient(loss)",
        should=NOISED,
        cause="noise",
    ),
    "multiplicative-direction": Code(
        was="loss = loss * (1 + noise_std * normal() / value)\ng = gradient(loss)",
        should=NOISED,
        cause="noise",
    ),
    "eq-9-span": Code(
        was="errors = output_errors + noise_std * normal(batch)\ng = back_propagate(errors)",
        should=NOISED,
        cause="noise",
    ),
    "theorem-1-order": Code(
        was="eps(a) = q a^2 dS^2 / (2 (a - 1) s^2)",
        should="eps(a) = log(E[e^((k^2 - k) dS^2 / (2 s^2))]) / (a - 1)\n"
        "# k: binomial, a trials of chance q",
        cause="formula",
    ),
    "lemma-1-composition": Code(
        was="D_a(n releases) <= 2 a n eps^2  # pure epsilon-DP",
        should="D_a(n releases) <= n eps(a)",
        cause="accounting",
    ),
    "theorem-2-sigma-100": THEOREM_2,
    "theorem-3-adult": THEOREM_2,
    "order-in-sigma": Code(
        was="epsilon = constant / s^2",
        should="epsilon <= rho + 2 sqrt(rho log(1 / delta))\n# rho = n_d dS^2 / (2 s^2)",
        cause="formula",
    ),
    "theorem-4-delta": Code(
        was="(n_g epsilon_g, delta)",
        should="(n_g epsilon_g, 1 - (1 - delta)^n_g)",
        cause="accounting",
    ),
    "eq-27-negative": Code(
        was="D(X', X) <= -log(1 + q * expm1(a / 2 / s**2))",
        should="D(X', X) <= D(X, X')",
        cause="formula",
    ),
    "best-k-uncharged": Code(
        was="best = max(runs, key=accuracy)\ntotal = 0.5",
        should="best = max(runs, key=accuracy)\ntotal = len(runs) * 0.5  # and the choice",
        cause="accounting",
    ),
    "table-2-mnist-64": Code(
        was="25 / 64 = 0.1953", should="25 / 64 = 0.3906\n25 / 128 = 0.1953", cause="formula"
    ),
    "summed-loss-values-at-sigma-10": Code(
        was="release(sum(losses) + noise)\nmoved = C / batch",
        should="release(sum(losses) + noise)\nmoved = C",
        cause="sensitivity",
    ),
    "remark-3-condition": Code(
        was="n <= log(1 / delta) / eps^2\n# eps = 1",
        should="n <= log(1 / delta) / eps^2\n# eps = q a^2 dS^2 / (2 (a - 1) s^2), of a step",
        cause="formula",
    ),
    "cross-entropy-bounded": Code(
        was="C = max(losses)  # seen in training",
        should="losses = minimum(losses, C)  # C fixed beforehand",
        cause="sensitivity",
    ),
    "adaptive-reads-test-data": Code(
        was="noise_std = tuned(right / questions)",
        should="charge(Gaussian(z))\n"
        "right = right + z * normal()\n"
        "noise_std = tuned(right / questions)",
        cause="uncharged",
    ),
}

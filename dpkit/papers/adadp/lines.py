"""The lines of code and the formulas that claims are about: as they were, as they should be."""

from dpkit.papers.claims import Code

EXAMPLE = Code(  # the numbers that the text gives for Theorem 1 are those of the other sampling
    was="theorem_1(sigma=0.9, q=0.01, steps=1800)\n# said: epsilon 4.0 at order 6",
    should="rdp(SampledGaussian(0.9, 0.01), steps=1800)\n# Poisson: epsilon 4.0 at order 6",
    cause="sampling",
)

LINES = {  # by the claim's name
    "lemma-1-derivative": Code(
        was="A'(H) = 1 / (4 sqrt(H)) + (eps / 2) H^(3/2)",
        should="A'(H) = 1 / (4 sqrt(H)) + (eps / 2) H^(-3/2)",
        cause="formula",
    ),
    "lemma-3": Code(
        was="|f(D)| <= 1: eps(a) = a / (2 s^2)",
        should="|f(D) - f(D')| <= 1: eps(a) = a / (2 s^2)\n|f(D)| <= 1: eps(a) = 4 a / (2 s^2)",
        cause="sensitivity",
    ),
    "lemma-6-exponent": Code(
        was="4 e^(1 / s^2 - 1)", should="4 (e^(1 / s^2) - 1)", cause="formula"
    ),
    "theorem-1-example": EXAMPLE,
    "theorem-1-alpha": EXAMPLE,
    "moments-needs-sigma-1": Code(
        was="moment(l) <= q^2 l (l + 1) / ((1 - q) s^2) + ...\n# s >= 1 and q < 1 / (16 s)",
        should="moment(l) = log(E[e^(l loss)])\n# computed, any s and q",
        cause="formula",
    ),
    "local-clipping-sensitivity": Code(
        was="g_i = clip(g_i, -s, s)\nmoved = s",
        should="g_i = clip(g_i, -s, s)\nmoved = 2 * s  # a record replaced",
        cause="sensitivity",
    ),
    "selected-on-test-accuracy": Code(
        was="if right / questions >= 0.96:\n    stop()",
        should="charge(Gaussian(z))\nif (right + z * normal()) / questions >= 0.96:\n    stop()",
        cause="uncharged",
    ),
    "raw-history-leak": Code(
        was="history = d * history + (1 - d) * mean(grads)**2",
        should="history = d * history + (1 - d) * noisy_mean**2",
        cause="uncharged",
    ),
}

# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What do papers claim, and what holds?
#
# **You will be able to**
#
# 1. turn a sentence of a paper into a number, a comparison and a verdict
# 2. tell the four verdicts apart, and say what is missing where a claim cannot be checked
# 3. find the line of code behind a claim that fails, and compute what it costs
#
# - **Time** 10 seconds to run on one core, 30 minutes to read, 10 for its exercises
# - **Memory** 250 MB
# - **Needs** [01_accountants](01_accountants.ipynb); no data, no download, no GPU
# - **Sources** the five papers of [03_dp_cgan](03_dp_cgan.ipynb), [11_dpgan](11_dpgan.ipynb), [12_rdp_gan](12_rdp_gan.ipynb), [13_small_images](13_small_images.ipynb) and [14_adadp](14_adadp.ipynb), and what three of them say of earlier ones
#
# A paper makes statements: a noise scale, an epsilon, a theorem, "this is post-processing". Its code makes more
# of them, line by line. An afternoon is enough to check many, and few are ever checked. Here each is written
# down once, with its place, what is said and how to compute it; the verdict follows.
#
# The aim is not to find fault. We learned most of what is here from these papers, and four of the five published
# their code. A claim that holds is as welcome as one that fails.
#
# ## 1. From a sentence to a verdict, by hand
#
# dpGAN's Table 1 says that the noise scale for MNIST is 1.086. The scripts say why: one release shall be
# $(4, 10^{-4})$-private, by the classic formula $z = \sqrt{2 \ln(1.25 / \delta)} / \varepsilon$. Four steps:
# what is *stated*, what is *computed*, how the two are *compared*, and the same a *second way*.

# %%
from math import log, sqrt

stated = 1.086
computed = sqrt(2 * log(1.25 / 1e-4)) / 4
print(f"stated {stated}, computed {computed:.6f}, apart {abs(computed - stated):.6f}")
print("holds" if abs(computed - stated) <= 0.0005 else "fails")  # half a unit of the last digit

# %% [markdown]
# The formula is proven for $\varepsilon < 1$ only. The second way asks what it is for: does that noise keep its
# promise at 4? The exact $\delta$ of a Gaussian release says yes, with room to spare.

# %%
from dpkit.privacy import Gaussian

exact = Gaussian(computed).profile([4.0]).max()
print(f"delta promised 1e-4, exact {exact:.3g}")
assert exact <= 1e-4

# %% [markdown]
# In dpkit the four steps are an object, a `Claim`, and `check` gives its verdict:

# %%
from dpkit.papers.claims import Claim, check

words = {"where": "text: Table 1", "says": "The noise scale is 1.086."}
why = "The classic formula for one release at (4, 1e-4)."
kind = "equals"  # or "at most", "at least", "in words", "computed", "unchecked"
compared = {"kind": kind, "stated": 1.086, "tolerance": 0.0005}
value = {"compute": lambda: sqrt(2 * log(1.25 / 1e-4)) / 4, "explanation": why}
noise = Claim("by_hand/noise", **words, **compared, **value)
print(check(noise).verdict)

# %% [markdown]
# ## 2. A claim about a line of code
#
# Some claims are about one line. Schwabedal et al. found this one in earlier work: a batch's *average* gradient is
# clipped to $C$, once, and receives noise as if no example could move it by more than $C$. Move one example and see.

# %%
import numpy as np


def clip(g, norm):
    return g / max(1.0, np.linalg.norm(g) / norm)


def as_it_was(grads, norm):
    return clip(np.mean(grads, axis=0), norm)

# %%
def as_it_should_be(grads, norm):
    return np.mean([clip(g, norm) for g in grads], axis=0)


rng = np.random.default_rng(7)
others, record = rng.standard_normal((99, 5)), 1e4 * rng.standard_normal((1, 5))
one, two = np.concatenate([others, record]), np.concatenate([others, -record])
for rule in (as_it_was, as_it_should_be):
    moved = np.linalg.norm(rule(one, 1.0) - rule(two, 1.0))
    print(f"{rule.__name__:16} one record of 100 moves the mean by {moved:.4f} C")

# %% [markdown]
# As it was, one record turns the whole mean from one end of a ball of radius $C$ to the other: by $2C$,
# however large the batch. As it should be, by $2C / 100$. The kit knows the slip by name, and its claim holds
# both lines, in our own words:

# %%
from dpkit.course.explorers.claims_wall import card
from dpkit.papers.small_images.prior_work import ClippedAfterMean

slip = ClippedAfterMean(max_grad_norm=1.0, batch_size=100)
print(f"moved by at most {slip.sensitivity('add-remove'):g} C, charged for C / 100")
card("small_images/clip-after-mean")

# %% [markdown]
# ## 3. Four verdicts
#
# | verdict | when |
# |---|---|
# | ✓ holds | the computed value is equal to the stated one, or on the right side of it, within a tolerance |
# | ✗ fails | it is not. An epsilon that does not exist is infinite, so "at most 9.6" fails |
# | = computed | nothing was stated to compare with; the number may still help a reader |
# | ? cannot be checked | the paper leaves out what decides the value, or a measurement is missing |
#
# A number decides a statement in words too ("does the noise change anything?": two trainings differ by 0). One of
# each verdict:

# %%
from dpkit.common.show import tabled
from dpkit.papers import PAPERS

verdicts = {claim.id: check(claim) for paper in PAPERS for claim in paper.CLAIMS}
names = ("dpgan/table-7-mnist-before", "dp_cgan/generator-labels")
examples = [verdicts[name] for name in (*names, "dp_cgan/steps-at-9.6", "adadp/other-functions")]
rows = [(v.claim.says, v.claim.shown(v.claim.stated) or "no number", v.claim.shown(v.computed), v.verdict)
        for v in examples]
tabled(rows, ["said", "stated", "computed", "verdict"])

# %% [markdown]
# Two things are never a verdict. A computation that ends in NaN proves nothing, and `check` raises an error. And
# where a sentence can be read in two ways, we do not guess what its authors meant: both readings are on the wall,
# each with its number, and the verdict is "cannot be checked" (RDP-GAN's noise on the *mean* of the losses costs
# 0.02, one draw on their *sum* 10).

# %%
nothing = Claim("by_hand/nan", "here", "Nothing.", "computed", lambda: float("nan"), "None.")
try:
    check(nothing)
except ArithmeticError as error:
    print(error)

# %% [markdown]
# ## 4. The wall
#
# Every claim is a tile. Run the cell, then press one, or filter by paper, verdict or any word. (Before it runs you
# see the tiles and one card.) The last row is the literature after the five papers. Guess first:
#
# 1. Of the claims that mention "misprint", does any change what a run costs?
# 2. Which paper's *numbers* hold to the last digit, while claims about what they mean do not?
# 3. Filter by "cannot be checked". What is missing in each?

# %%
from dpkit.course.explorers import ClaimsWall

ClaimsWall()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) No: AdaDP's Lemma 6 is right where Theorem 1 repeats it, DP-CGAN's "at least" and RDP-GAN's "sigma = 20" enter no
# charge. (2) dpGAN's: its noise scales and Table 7 come out as printed; what fails is how
# noise, groups and batches are charged. (3) What decides the value is not printed (a start, a length, a number of
# runs), or a sentence can be read in two ways.</details>
#
# Counted from the verdicts:

# %%
from collections import Counter

kinds = ("holds", "fails", "computed", "cannot be checked")
counts = {paper.NAME: Counter(verdicts[claim.id].verdict for claim in paper.CLAIMS) for paper in PAPERS}
rows = [{"paper": name, "claims": count.total()} | {kind: count[kind] for kind in kinds}
        for name, count in counts.items()]
tabled(rows)

# %% [markdown]
# These counts are not marks. They say how much of a paper *could* be checked, and that we could think of a check.
# RDP-GAN has the most claims that fail because it prints the most formulas; AdaDP has claims that cannot be checked
# because it has no public code; dpGAN's Table 7 can be reproduced because its authors published theirs.
#
# ## 5. Which slips recur?
#
# [06_how_guarantees_break](06_how_guarantees_break.ipynb) explains each kind of slip. Here are the different lines of
# code and formulas of each kind (five claims about dpGAN's Theorem 4.1 are one line; lines under Small Images are
# mostly of earlier work that it reviews, and one holds):

# %%
from dpkit.papers.claims import CAUSES

lines = {(claim.paper, claim.code) for paper in PAPERS for claim in paper.CLAIMS if claim.code}
names = [paper.NAME for paper in PAPERS]
count = Counter((code.cause, paper) for paper, code in lines)
rows = [{"slip": cause} | {name: count[cause, name] for name in names} for cause in CAUSES]
tabled([row | {"papers": sum(count[row["slip"], name] > 0 for name in names),
               "lines": sum(count[row["slip"], name] for name in names)} for row in rows])

# %% [markdown]
# Sensitivity is the one slip in every column. What recurs is not a line but a question that was not asked.
# ([04_six_lines_of_code](04_six_lines_of_code.ipynb) follows six lines to their price.) What does a slip cost? Some
# claims compare the stated epsilon with the epsilon of what was run:

# %% tags=["hide-input"]
WORDS = {
    "dpgan/every-tenth-iteration": "dpGAN: budget tested every tenth iteration",
    "dpgan/theorem-4.1-5-groups": "dpGAN, MNIST: 5 groups charged as one",
    "dpgan/theorem-4.1-7-groups": "dpGAN, MNIST: 7 groups charged as one",
    "dpgan/theorem-4.1-celeba": "dpGAN, CelebA: 5 groups charged as one",
    "dpgan/theorem-4.1-lsun-l": "dpGAN, LSUN-L: 7 groups charged as one",
    "dpgan/theorem-4.1-lsun-u": "dpGAN, LSUN-U: 7 groups charged as one",
    "dpgan/auto-grouping": "dpGAN: a group's tensors clipped one by one",
}

# %% tags=["hide-input"]
WORDS |= {
    "dpgan/stray-factor-4-devices": "dpGAN, 4 devices: noise 4 times too small",
    "dpgan/stray-factor-1-device": "dpGAN, 1 device: noise 8 times too small",
    "dp_cgan/noise-times-norm": "DP-CGAN: 1.232 charged, the noise is 1.12",
    "dp_cgan/true-sample-rate": "DP-CGAN: rate of 60,000, but 55,000 train",
    "dp_cgan/per-tensor-clipping": "DP-CGAN: 4 tensors clipped one by one",
    "dp_cgan/label-leak": "DP-CGAN: fakes carry the batch's labels",
    "dp_cgan/generator-labels": "DP-CGAN: generator reads the batch's labels",
    "adadp/raw-history-leak": "AdaDP: noise follows raw gradients",
}

# %%
STATED = (9.6, 4.0, 1.13, 10.0, 0.5)  # epsilons; 1.13 is what dpGAN's code charges for one device
limits = [v for v in verdicts.values() if v.claim.kind == "at most" and v.claim.code]
costs = {v.claim: v.computed / v.claim.stated for v in limits if v.claim.stated in STATED}
shown = sorted(costs, key=costs.get)
rows = [(WORDS[one.id], one.code.cause, f"{one.stated:g}", one.shown(costs[one] * one.stated, ".4g"))
        for one in shown]
tabled(rows, ["what happened", "kind of slip", "epsilon stated", "epsilon computed"])

# %% tags=["hide-input"]
from dpkit.common import plots

drawn, (ax,) = plots.figure(width=8.6, height=4.8)
ax.set_yticks(range(len(shown)), [WORDS[one.id] for one in reversed(shown)], fontsize=9)
ax.set(xscale="log", xlim=(0.95, 1e3), xlabel="computed epsilon / stated epsilon")
hues = dict(zip(("accounting", "noise", "sampling", "sensitivity", "uncharged"), plots.COLOURS, strict=False))
for cause, hue in hues.items():
    bars = {at: min(costs[one], 1e3) for at, one in enumerate(reversed(shown)) if one.code.cause == cause}
    ax.barh([*bars], [*bars.values()], color=hue, label=cause)

# %% tags=["hide-input"]
plots.plain(ax.xaxis, subs=(1,))
ax.legend(title="kind of slip", fontsize=9, frameon=False, loc="upper right")
for at, one in enumerate(reversed(shown)):
    if not np.isfinite(costs[one]):
        ax.text(900, at, "no finite epsilon", ha="right", va="center", fontsize=9)
plots.picture(drawn, "The most expensive slip is no wrong number but a line that nobody charged. DP-CGAN's corrections "
              "add up: each of its bars has those before it.")

# %% [markdown]
# A budget tested every tenth iteration costs one per cent. Tensors clipped one by one, or groups taken for disjoint
# data, cost several times what is stated. A private value read without noise leaves no epsilon at all, however
# careful the rest is.
#
# ## 6. One claim of each paper, to its end
#
# ### DP-CGAN: four tensors, clipped one by one
#
# "One Gaussian mechanism of sensitivity $C$ is charged per step." The discriminator has four tensors, each clipped
# to $C$. How long can the four be together?

# %%
C, tensors = 1.1, [rng.standard_normal(size) for size in (784, 128, 128, 1)]
apart = [clip(100 * tensor, C) for tensor in tensors]
together = clip(np.concatenate([100 * tensor for tensor in tensors]), C)
print(f"apart {np.linalg.norm(np.concatenate(apart)) / C:.4f} C")
print(f"jointly {np.linalg.norm(together) / C:.4f} C")

# %% [markdown]
# Twice as long, so the noise multiplier is half of what it says. The wall's first card prices that by the paper's
# own method, at 72.39. A second way: a certified accountant, below whose lower bound *no* method can go.

# %%
from dpkit.papers.dp_cgan.claims import TRUE_RATE, charged_steps
from dpkit.privacy import Release, SampledGaussian, pld

run = [Release(SampledGaussian(1.12 / 2, TRUE_RATE), charged_steps())]
proven = pld.epsilon(run, delta=1e-5)
print(f"{charged_steps():,} steps: {proven.lower:.2f} <= epsilon <= {proven.epsilon:.2f}")

# %% [markdown]
# ### dpGAN: parallel composition of groups
#
# "Clipped separately and noised, the groups of the gradient are as private as one." Parallel composition is about
# disjoint *records*. One record moves all groups at once, by $C \sqrt 7$. Two releases with the same profile have
# the same price:

# %%
from dpkit.privacy import GroupedGaussian

z, at = 1.0859, [0.5, 2.0, 8.0]
moved = {
    "seven groups": GroupedGaussian(z, 7),
    "sqrt(7) C": Gaussian(z / sqrt(7)),
    "C": Gaussian(z),
}
for name, mechanism in moved.items():
    deltas = ", ".join(f"{delta:.3g}" for delta in mechanism.profile(at).max(axis=0))
    print(f"moved by {name:12}: delta {deltas} at epsilon {at}")

# %%
card("dpgan/theorem-4.1-7-groups")

# %% [markdown]
# ### RDP-GAN: noise on the value of the loss
#
# "Noise added to the value of the loss does not vanish in back-propagation." A derivative is a difference, and noise
# drawn once is on both of its ends:

# %%
x, y = rng.standard_normal(50), rng.choice([-1.0, 1.0], 50)


def slope(added):
    up, down = (np.mean(np.log1p(np.exp(-y * x * w))) + added for w in (1.001, 0.999))
    return (up - down) / 0.002


for added in (0.0, 10 * rng.standard_normal()):
    print(f"noise {added:6.2f} on the loss, slope {slope(added):.4f}")

# %%
card("rdp_gan/loss-noise-changes-nothing")

# %% [markdown]
# ### Small Images: a finding that holds
#
# Schwabedal et al. read dpGAN's code: "at batch size 64 the noise is a factor of eight too small." It is: the noise
# on the sum was divided by $\sqrt{64}$. Measured rather than derived:

# %%
from dpkit.papers.dpgan.settings import NoiseOverSqrtBatch

rule = NoiseOverSqrtBatch(max_grad_norm=1.0, batch_size=64)
added = rule.noise_std(1.0) * rng.standard_normal(200_000)
print(f"due 1 C, added {added.std():.3f} C: {1 / added.std():.2f} times too small")
card("small_images/zhang-factor-8")

# %% [markdown]
# ### AdaDP: how far does a clipped coordinate move?
#
# "A coordinate clipped to $[-s, s]$ has sensitivity $s$." That is right for a record that is added or removed, not for
# one that is replaced. The paper's "differ in only one record" can mean either:

# %%
s, values = 1.5, np.array([-40.0, -1.0, 0.0, 0.7, 25.0])
clipped = values.clip(-s, s)
print(f"added or removed: {np.abs(clipped).max() / s:g} s; replaced: {np.ptp(clipped) / s:g} s")
card("adadp/local-clipping-sensitivity")

# %% [markdown]
# ## 7. Add one, or dispute one
#
# If you think that we judge a claim wrongly, open an issue with its name (`paper/claim`), the sentence, and the
# number that you would compute.
#
# - `python -m dpkit claims --paper dp_cgan` computes a paper's claims again (`--recompute`: with the measurements
#   that some rest on).
# - `dpkit/papers/<name>/claims.py` has each claim with its computation, `lines.py` the lines of code, in our own words.
# - [CONTRIBUTING](../CONTRIBUTING.md) says how to add a sixth paper. Its claims then appear on this wall.
#
# ## Your turn
#
# Put your answer in place of the dots. `turn.true_rate.hint(1)` helps, `turn.true_rate.solution()` shows the answer.
#
# "Our accountant uses the sample rate 256/50,000" is a claim of the kind of section 2. Write it with `kind="at most"`
# and `stated=3.62`, and let `check` decide.

# %% [markdown] tags=["question"]
# **Question 1.** A script charges the rate 256/50,000 (noise 1, 10,000 steps, delta 1e-5): epsilon 3.62. It
# drops 5,000 of the 50,000 images for validation. What does the run cost, by RDP with the classic conversion,
# as they did?

# %%
from dpkit.course.exercises import claims_ledger as turn

turn.true_rate.check(...)

# %% [markdown] tags=["question"]
# **Question 2.** Small Images shuffles, and charges as if batches were Poisson. Which epsilon does one pass
# cost at least, where 40 passes were charged 2.01?

# %%
turn.shuffled_at_least.check(...)

# %%
turn.sheet.quiz()

# %% [markdown]
# Take a paper that you know. Which sentence would you check first? Look for one that names a number, a
# noise and what it is added to.
#
# ## What to take away
#
# - A claim can be checked once it has a place, a number and a comparison. Write yours that way.
# - Check each number a second way, best with code that shares nothing with the first.
# - Most slips are not in the theorems: they are one line, where what is charged and what is done come apart.
# - Ask of every line that reads private records: who charges for it?
# - Where a sentence can be read in two ways, compute both, and say so.

# %% [markdown]
# **Next:** [21_best_private_gan](21_best_private_gan.ipynb) asks what a private GAN has to beat, and at which epsilon.

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
# > **You will** turn a sentence of a paper into a number and a verdict; look at the claims of five papers on
# > one wall; see which slips recur, and what they cost; follow one claim of each paper to its end; and add one.
# > **Time** 10 seconds to run on one core, 40 minutes to read. **Memory** 250 MB. **Needs** [01_accountants](01_accountants.ipynb) read before; no data, no download, no GPU.
# > **Sources** the five papers of notebooks [03](03_dp_cgan.ipynb) to [12](12_rdp_gan.ipynb), and what three of them say of earlier ones.
#
# A paper makes statements: a noise scale, an epsilon, a theorem, "this is post-processing". Its code makes more
# of them, line by line. Many can be checked by whoever has an afternoon, and few ever are. Here each is written
# down once, with its place, what is said and how to compute it; the verdict follows by itself.
#
# The aim is not to find fault. From these papers we learned most of what is here, and four of the five published
# what it takes to check them. A claim that holds is as welcome as one that fails.
#
# ## 1. From a sentence to a verdict, by hand
#
# dpGAN's Table 1 says that the noise scale for MNIST is 1.086. The scripts say where it comes from: one release
# shall be $(4, 10^{-4})$-private, by the classic formula $z = \sqrt{2 \ln(1.25 / \delta)} / \varepsilon$.
# Four steps: what is *stated*, what is *computed*, how the two are *compared*, and the same a *second way*.

# %%
from math import log, sqrt

stated = 1.086
computed = sqrt(2 * log(1.25 / 1e-4)) / 4
print(f"stated {stated}, computed {computed:.6f}, apart {abs(computed - stated):.6f}")
print("holds" if abs(computed - stated) <= 0.0005 else "fails")  # half a unit of the last digit

# %% [markdown]
# The second way asks the question behind the formula, which is proven for $\varepsilon < 1$ only: does that
# noise keep its promise at 4? The exact $\delta$ of a Gaussian release says yes, with room to spare.

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
# Some claims are about what one line does. Schwabedal et al. found this one in earlier work: a batch's *average*
# gradient is clipped to $C$, once, and noised as if no example could move it by more than $C$. Let us move one
# example and see.

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
# As it was, one record turns the whole mean round, from one end of a ball of radius $C$ to the other: by $2C$,
# however large the batch. As it should be, by $2C / 100$. Such a claim holds both lines, in the kit's own words.
# The kit knows the slip by name as well, and agrees:

# %%
from dpkit.course.explorers.claims_wall import card
from dpkit.privacy.wrong_clipping import ClippedAfterMean

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
# A statement in words is decided by what a reader would believe after seeing the number ("does the noise change
# anything?": the largest difference of two trainings is 0). One of each:

# %%
from dpkit.papers import PAPERS

verdicts = {claim.id: check(claim) for paper in PAPERS for claim in paper.CLAIMS}
examples = ("dpgan/table-7-mnist-before", "dp_cgan/generator-labels")
for identity in (*examples, "dp_cgan/steps-at-9.6", "adadp/other-functions"):
    found = verdicts[identity]
    stated = found.claim.shown(found.claim.stated) or "no number"
    print(f"{identity:27} {stated:>9} -> {found.claim.shown(found.computed):8} {found.verdict}")

# %% [markdown]
# Two things are never a verdict. A computation that ends in NaN proves nothing, and `check` raises an error. And
# a claim is not judged by what its authors may have meant: where a sentence can be read in two ways, both
# readings are on the wall, each with its number, and the verdict is "cannot be checked" (RDP-GAN's noise on the *mean*
# of the losses costs 0.02, one draw on their *sum* 10).

# %%
nothing = Claim("by_hand/nan", "here", "Nothing.", "computed", lambda: float("nan"), "None.")
try:
    check(nothing)
except ArithmeticError as error:
    print(error)

# %% [markdown]
# ## 4. The wall
#
# Every claim is a tile. Run the cell, then press one, or choose it by name; filter by paper, verdict or any word.
# (Before it runs you see the tiles, and one card.) The last row is the literature after the five papers. Guess first:
#
# 1. Of the claims that mention "misprint", does any change what a run costs?
# 2. Which paper's claims about its own *numbers* hold to the last digit, while those about what the numbers mean
#    do not?
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
# How many of each, counted again from the verdicts themselves:

# %%
from collections import Counter

for paper in PAPERS:
    count = Counter(verdicts[claim.id].verdict for claim in paper.CLAIMS)
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(count.items()))
    print(f"{paper.NAME:13} {len(paper.CLAIMS):3} claims: {told}")

# %% [markdown]
# Do not read these counts as marks. They say how much of a paper *could* be checked, and that we could think of
# a check. RDP-GAN has the most claims that fail because it prints the most formulas; AdaDP has claims that cannot
# be checked because it has no public code; dpGAN's Table 7 can be reproduced to the last digit because its
# authors published theirs.
#
# ## 5. Which slips recur?
#
# A claim that rests on a line of code or a formula says what lies between the line as it was and as it should be:

# %%
from dpkit.papers.claims import CAUSES

for cause, words in CAUSES.items():
    print(f"{cause:12} {words}")

# %% [markdown]
# Counted are different lines, not claims: five claims about Theorem 4.1 of dpGAN are one line. Those about
# earlier work that Small Images reviews count as Small Images'; one is a finding of its authors that holds.

# %%
from dpkit.common.show import tabled

lines = {(claim.paper, claim.code) for paper in PAPERS for claim in paper.CLAIMS if claim.code}
names = [paper.NAME for paper in PAPERS]
count = Counter((code.cause, paper) for paper, code in lines)
rows = [{"slip": cause} | {name: count[cause, name] for name in names} for cause in CAUSES]
tabled([row | {"papers": sum(count[row["slip"], name] > 0 for name in names),
               "lines": sum(count[row["slip"], name] for name in names)} for row in rows])

# %% [markdown]
# Sensitivity is the one slip in every column; noise, sampling and formulas come in four of five. (Most
# lines under Small Images are of the earlier work that it reviews; [notebook 04](04_six_lines_of_code.ipynb)
# follows them to their price.) They are not the same line twice: what recurs is the question that was not asked. [Notebook 06](06_how_guarantees_break.ipynb) looks at each kind, floating point
# included, in the literature after these papers.
#
# What does a slip cost? Some claims put the epsilon that a paper states beside the epsilon of what was run:

# %%
STATED = (9.6, 4.0, 1.13, 10.0, 0.5)  # epsilons; 1.13 is what dpGAN's code charges for one device
limits = [v for v in verdicts.values() if v.claim.kind == "at most" and v.claim.code]
costs = {v.claim: v.computed / v.claim.stated for v in limits if v.claim.stated in STATED}
for claim, times in sorted(costs.items(), key=lambda pair: pair[1]):
    epsilon = claim.shown(times * claim.stated, ".4g")
    print(f"{claim.id:38} {claim.code.cause:12} stated {claim.stated:4g}, computed {epsilon:>6}")

# %%
from dpkit.common import plots

drawn, (ax,) = plots.figure(height=4.8, left=0.43, bottom=0.1, right=0.97, top=0.98)
shown = sorted(costs, key=costs.get, reverse=True)
for place, claim in enumerate(shown):
    colour = plots.COLOURS[list(CAUSES).index(claim.code.cause)]
    ax.barh(place, min(costs[claim], 1e3), color=colour)
ax.set_yticks(range(len(shown)), [f"{one.id} ({one.code.cause})" for one in shown], fontsize=7)
ax.set(xscale="log", xlim=(1, 600), xlabel="computed / stated; cut off where none is finite")
words = "The dearest slips are those that nothing is charged for: no finite epsilon covers them."
plots.picture(drawn, words)

# %% [markdown]
# (DP-CGAN's corrections add up: each of its bars has those before it.) A budget that is looked at every tenth
# iteration costs a hundredth by its own accountant. Tensors clipped one by one, groups taken for disjoint data: several times what is
# stated. And one private value that is read without noise leaves no epsilon at all, however careful the rest is.
# The most expensive slip is no wrong number but a line that nobody thought of charging.
#
# ## 6. One claim of each paper, to its end
#
# ### DP-CGAN: four tensors, clipped one by one
#
# "One Gaussian mechanism of sensitivity $C$ is charged per step." The discriminator has four tensors, each clipped
# to $C$ by itself. How long can the four be together?

# %%
C, tensors = 1.1, [rng.standard_normal(size) for size in (784, 128, 128, 1)]
apart = [clip(100 * tensor, C) for tensor in tensors]
together = clip(np.concatenate([100 * tensor for tensor in tensors]), C)
print(f"apart {np.linalg.norm(np.concatenate(apart)) / C:.4f} C")
print(f"jointly {np.linalg.norm(together) / C:.4f} C")

# %% [markdown]
# Twice as long, so the noise multiplier is half of what it says. The card prices that by the paper's own method,
# at 72.39. A second way: a certified accountant, whose lower bound says what *no* method can go below.

# %%
from dpkit.papers.dp_cgan.claims import TRUE_RATE, charged_steps
from dpkit.privacy import Release, SampledGaussian, pld

run = [Release(SampledGaussian(1.12 / 2, TRUE_RATE), charged_steps())]
proven = pld.epsilon(run, delta=1e-5)
print(f"{charged_steps()} steps: {proven.lower:.2f} <= epsilon <= {proven.epsilon:.2f}")
card("dp_cgan/per-tensor-clipping")

# %% [markdown]
# ### dpGAN: parallel composition of groups
#
# "Clipped separately and noised, the groups of the gradient are as private as one." Parallel composition is about
# disjoint *records*. One record moves all groups at once, so their price is that of a longer move: $C \sqrt 7$.
# Two releases with the same profile have the same price:

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
# "Noise added to the value of the loss does not vanish in back-propagation." A derivative is a difference; noise
# drawn once is on both of its ends.

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
# Schwabedal et al. read dpGAN's code and said: "at batch size 64 the noise is a factor of eight too small." It is.
# The noise on the sum was divided by $\sqrt{64}$. Measured rather than derived:

# %%
from dpkit.privacy.wrong_clipping import NoiseOverSqrtBatch

rule = NoiseOverSqrtBatch(max_grad_norm=1.0, batch_size=64)
added = rule.noise_std(1.0) * rng.standard_normal(200_000)
print(f"due 1 C, added {added.std():.3f} C: {1 / added.std():.2f} times too small")
card("small_images/zhang-factor-8")

# %% [markdown]
# ### AdaDP: how far does a clipped coordinate move?
#
# "A coordinate clipped to $[-s, s]$ has sensitivity $s$." That is right for a record that is added or removed, not for
# one that is replaced. The paper's data sets "differ in only one record", which can mean either:

# %%
s, values = 1.5, np.array([-40.0, -1.0, 0.0, 0.7, 25.0])
clipped = values.clip(-s, s)
print(f"added or removed: {np.abs(clipped).max() / s:g} s; replaced: {np.ptp(clipped) / s:g} s")
card("adadp/local-clipping-sensitivity")

# %% [markdown]
# ## 7. Add one, or dispute one
#
# If you think that we judge a claim wrongly, say so: an issue with its name (`paper/claim`), the sentence, and the
# number that you would compute. Most of what is needed is there:
#
# - `python -m dpkit claims --paper dp_cgan` computes a paper's claims again, `--json` for a program,
#   `--recompute` with the measurements that some rest on;
# - `dpkit/papers/<name>/claims.py` has each claim with its computation, `lines.py` the lines as they were and as
#   they should be. Both are written from the paper and its public code, in our own words;
# - [CONTRIBUTING](../CONTRIBUTING.md) says how a sixth paper is added. Its claims come by themselves onto this wall.
#
# ## Your turn
#
# Put your answer in place of the dots. `hint(1)` helps, `solution()` shows the answer.
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
# - Most slips are not in the theorems: they are one line, where what is charged and what is done part.
# - Ask of every line that reads private records: who charges for it?

# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How do guarantees break?
#
# **You will be able to**
#
# 1. ask seven questions of private code, one for each way in which its guarantee can break
# 2. compute what a slip costs: the epsilon that was charged, and the one that the same run has
# 3. judge from a description whether a run is as private as it is charged
#
# - **Time** 20 seconds to run on one core, 25 minutes to read, 40 for its exercises
# - **Memory** 500 MB
# - **Needs** [01_accountants](01_accountants.ipynb), [02_train_twice](02_train_twice.ipynb),
#   [03_dp_cgan](03_dp_cgan.ipynb); no data set, no download, no GPU
# - **Sources** the public code and texts that each card names, read at the place it gives

# %% [markdown] tags=["slide", "lab2"]
# A proof of differential privacy is a chain: *this* is what one record can move, *this* is the noise, *so* are
# batches drawn, *nothing else* reads the records, *so* do costs add up. Code breaks the chain where it does
# something else than the proof says. It hardly ever looks wrong: losses fall, samples look fine, and the
# accountant prints a number.

# %% [markdown] tags=["slide", "lab2"]
# These slips were made by people who know the field, and most came to light because their code was published.
# Learn from them where to look. ([04_six_lines_of_code](04_six_lines_of_code.ipynb) follows six lines to a
# price and an attack.) The kit sorts slips into eight kinds. The last but one, "evaluation", is about scores
# and breaks no guarantee.

# %% tags=["fragment", "lab2"]
from dpkit.common.show import at_most, tabled
from dpkit.papers.claims import CAUSES

tabled(CAUSES.items(), ["kind", "what happens"])

# %% [markdown] tags=["slide", "lab2"]
# ## 1. Sensitivity: how far can one record move the sum?
#
# > **Ask:** take the worst record you can think of. How far apart are the sums with it and without it, before
# > the noise?
#
# A network has several tensors. Clip the gradient of each to $C$, and a single record still moves all of them.

# %% tags=["fragment", "lab2"]
import numpy as np

rng = np.random.default_rng(0)
gradient = [10 * rng.standard_normal(size) for size in (100_352, 128, 1_280, 10)]


def clip(tensor, norm):
    return tensor / max(1.0, np.linalg.norm(tensor) / norm)


one_by_one = [clip(tensor, 1.0) for tensor in gradient]
as_a_whole = clip(np.concatenate(gradient), 1.0)
print(f"one by one {np.linalg.norm(np.concatenate(one_by_one)):.3f} C")
print(f"as a whole {np.linalg.norm(as_a_whole):.3f} C")

# %% [markdown] tags=["fragment", "lab2"]
# Four tensors, $\sqrt{4}$ times the distance, so half the noise multiplier. What does half of it cost?

# %% tags=["fragment", "lab2"]
from dpkit.privacy import Gaussian, Release, SampledGaussian, pld

for noise in (1.0, 0.5):
    ledger = [Release(SampledGaussian(noise, 64 / 32_561), 5_000)]
    print(f"noise multiplier {noise}: epsilon {pld.epsilon(ledger, delta=1e-5).epsilon:.2f}")

# %% [markdown] tags=["lab2"]
# [DP-CGAN](03_dp_cgan.ipynb) clips this way. Here is a relative: the *mean* of a batch is clipped, so one
# record can turn the whole mean around.

# %% tags=["lab2"]
from dpkit.course.explorers.claims_wall import card

card("ledger/ctab-gan-batch-as-microbatch")

# %% [markdown] tags=["question", "lab2"]
# **Question 1.** A critic has nine tensors, each clipped to C = 0.1; each number gets noise of deviation 0.3.
# Which noise multiplier do you charge?

# %% tags=["lab2"]
from dpkit.course.exercises import how_guarantees_break as turn

turn.nine_tensors.check(...)

# %% [markdown] tags=["slide"]
# ## 2. Noise: is it on what is released?
#
# > **Ask:** follow the noise to the output. Does everything that depends on the records pass through it?
#
# A generator is trained by the gradient of a loss. Its authors add noise to the *loss*, a single number, and
# square the result. The noise does not depend on the weights: it scales the gradient and leaves its direction
# alone.

# %% tags=["fragment"]
theta, records = rng.standard_normal(50), rng.standard_normal((8, 50))


def loss_gradient(theta, noise):
    """Of (mean distance + noise)^2, whose noise does not depend on theta."""
    distance, slope = np.mean((records - theta) ** 2), 2 * (theta - records.mean(0)) / theta.size
    return 2 * (distance + noise) * slope


clean = loss_gradient(theta, 0.0)
for noise in (1.0, -10.0, 1e6):
    noisy = loss_gradient(theta, noise)
    cosine = clean @ noisy / np.linalg.norm(clean) / np.linalg.norm(noisy)
    print(f"noise {noise:9,.0f} on the loss: cosine with the private gradient {cosine:+.6f}")

# %% [markdown] tags=["fragment"]
# Two generators, one step apart, show the direction of the private gradient exactly, however large the noise.
# No finite epsilon covers that. [RDP-GAN](12_rdp_gan.ipynb) has the same slip; the two were published with
# epsilons of 1 and 0.5.

# %%
card("ledger/dp-kernel-noise-on-loss")

# %% [markdown] tags=["question"]
# **Question 2.** A gradient penalty is added after clipping and noise. What is the epsilon? (It keeps the
# critic's slope near 1, at mixtures of a real and a generated image.)

# %%
turn.penalty_after_noise.check(...)

# %% [markdown] tags=["slide", "lab2"]
# ## 3. Sampling: are batches drawn as they are charged?
#
# > **Ask:** find the loader. Does every record enter every batch by a coin of its own (Poisson), or are records
# > shuffled and dealt out?
#
# Accountants charge for Poisson's coins. Loaders shuffle: every record is in *exactly one* of an epoch's $T$
# batches. Take the worst case, in which all other gradients point away from the record's. An attacker looks at
# the largest of the $T$ noisy sums.

# %% tags=["lab2"]
T, runs, noise = 100, 5_000, 0.4
rng = np.random.default_rng(1)


def largest(others, record):
    """The largest noisy sum of each run, without the record and with it."""
    sums = others, others + record
    return [(one + noise * rng.standard_normal((runs, T))).max(axis=1) for one in sums]


first = np.eye(T)[0]  # shuffled: one other record a batch, but in the first, which is the record's
dealt = largest(first - 1.0, first)
tossed = largest(-rng.poisson(1.0, (runs, T)), rng.random((runs, T)) < 1 / T)

# %% tags=["hide-input", "fragment", "lab2"]
from dpkit.common import plots

drawn, axes = plots.figure(height=2.6, panels=2)
for ax, pair, name in zip(axes, (dealt, tossed), ("shuffled", "Poisson"), strict=True):
    for one, world, colour in zip(pair, ("without the record", "with it"), plots.COLOURS, strict=False):
        ax.hist(one, np.linspace(-0.6, 2.6, 50), density=True, alpha=0.55, color=colour, label=world)
    ax.set(xlabel="largest of 100 noisy sums (clip norms)", ylabel="density", title=name, ylim=(0, 2.4))
axes[0].legend(fontsize=8, frameon=False)
plots.picture(drawn, "A shuffled epoch gives the record away; Poisson's coins hide it. The same noise, 0.4 clip norms, "
              "and the same mean size of a batch.")

# %% tags=["lab2"]
for name, (without, with_it) in {"shuffled": dealt, "Poisson": tossed}.items():
    shares = np.mean(without > 0.7), np.mean(with_it > 0.7)
    print(f"{name:8} above 0.7: {shares[0]:.2f} of runs without the record, {shares[1]:.2f} with it")

# %% [markdown] tags=["lab2"]
# With the record, one shuffled sum stands out by 2; without it, by 1. Chua and others proved in 2024 what that
# costs:

# %% tags=["lab2"]
card("ledger/shuffled-chua")

# %% [markdown] tags=["lab2"]
# Batches of a fixed size, drawn anew for each step, are a third way. There neighbours differ in a record that
# is replaced, and a replaced record moves the sum by $2C$: `WithoutReplacementGaussian` prices it.

# %% [markdown] tags=["slide"]
# ## 4. Uncharged: what else reads the records?
#
# > **Ask:** list every line that touches private data: shapes, ranges, classes, means, labels, when to stop,
# > which run to keep. Each is free only if it is public.
#
# Here a column's mean is released with the right noise for values in [low, high]. But low and high are read off
# the data.

# %% tags=["fragment", "with-code"]
wages = np.append(rng.uniform(20, 60, 999), 4_000.0)  # thousands; one record stands out


def noisy_mean(values, noise=2.0):
    low, high = values.min(), values.max()
    mean = values.mean() + rng.normal(0, noise * (high - low) / len(values))
    return {"mean": mean, "range": (low, high)}


print(f"with the record up to {noisy_mean(wages)['range'][1]:,.0f}")
print(f"without it      up to {noisy_mean(wages[:-1])['range'][1]:,.0f}")

# %% [markdown]
# The range gives everything away. So does the mean: its noise is scaled to the range. Two more lines of this
# kind:
#
# - *Stop when accuracy on private validation data reaches 96 %.* The number of steps depends on records,
#   without noise.
# - *Try ten learning rates at epsilon 1 each, publish the best run.* Which one it is depends on all ten: charge
#   all, or a proven price of choosing (`python -m dpkit epsilon --best-of`).
#
# And here a branch votes without being charged (the numbers are shares of the batches):

# %%
card("ledger/pate-gan-uncharged-branch")

# %% [markdown] tags=["slide", "lab2"]
# ## 5. Accounting: is everything added up?
#
# > **Ask:** count the releases. Is each charged, with the records that it reads?
#
# One of 1,000 critics is drawn, each trained on its own records. It returns 32 gradients, and each of its
# records can influence all of them. Each gradient gets noise of its own. Is that 32 draws of a critic, or one
# draw that says 32 things?

# %% tags=["fragment", "lab2"]
draws = [Release(SampledGaussian(1.07, 1 / 1_000), 32 * 20_000)]
one_draw = [Release(SampledGaussian(1.07 / 32**0.5, 1 / 1_000), 20_000)]
for name, ledger in (("32 draws", draws), ("one draw of 32", one_draw)):
    print(f"{name:15} epsilon {at_most(pld.epsilon(ledger, delta=1e-5, gap=0.01).epsilon)}")

# %% [markdown] tags=["lab2"]
# Under the second reading a drawn record is used 32 times but hidden by sampling only once. That is what really
# happens:

# %% tags=["lab2"]
card("ledger/gs-wgan-32-gradients")

# %% [markdown]
# The tensors of section 1 can be miscounted in the same way, each charged as if it had a batch of its own
# (`ledger/dpwgan-per-tensor`: epsilon 1.46 becomes 6.87).

# %% [markdown] tags=["slide"]
# ## 6. Formula: is it what was proven?
#
# > **Ask:** recompute one number by hand, the noise first. Was the theorem proven for this range?
#
# The classic Gaussian noise for $\varepsilon = 1$, $\delta = 10^{-5}$, and two ways of writing it in code that
# were published:

# %% tags=["fragment"]
from math import log, sqrt

print(f"sqrt(2 ln(1.25 / delta)):  {sqrt(2 * log(1.25 / 1e-5)):.4f}")
print(f"10 ^ 5 in Python is        {10 ^ 5}")
print(f"10 ** delta is             {10**1e-5:.6f}")

# %%
card("ledger/pate-gan-xor")

# %%
card("ledger/pate-gan-power")

# %% [markdown]
# The proof of this formula needs an epsilon below 1. What happens at 8?

# %% [markdown] tags=["question"]
# **Question 3.** The classic formula for the noise, at epsilon 8 and delta 1e-5: which delta does it give?

# %%
turn.recipe_at_8.check(...)

# %% [markdown] tags=["slide"]
# ## 7. Floating point: are these the numbers of the proof?
#
# > **Ask:** how large are sums, how small are differences, and who sees the last bits?
#
# A running sum in single precision counts to $2^{24}$. Then it stands still, or leaps:

# %% tags=["fragment"]
total = np.float32(2**24)
for value in (np.float32(1.0), np.float32(1.0000001)):
    print(f"2^24 + {value:.7f} = {total + value:,.0f}, moved by {total + value - total:.0f}")

# %%
card("ledger/float32-sum")

# %%
card("ledger/float-laplace-support")

# %% [markdown]
# > **To think about.** On a CPU, torch's normal numbers in single precision, 16 or more at a time, never exceed
# > 5.77. Why does that matter for pure epsilon, and hardly for (epsilon, delta)?
# >
# > <details><summary>Answer</summary>An output beyond the bound is possible with the record only, so no finite
# > epsilon holds without delta. The chance of that, 8e-9 for each noisy number, goes into delta. Over many
# > numbers it adds up; <code>dpkit/training/noise.md</code> says how the kit deals with it.</details>

# %% [markdown] tags=["slide"]
# ## 8. What did they cost?
#
# One slip of each of the seven kinds, charged and computed: six from the cards above, and as "uncharged" the
# penalty of question 2. (For the formula, reprosyn's PATE-GAN: its noise is priced by a certified accountant at
# delta 1e-5.)

# %%
from dpkit.papers import literature
from dpkit.papers.claims import check

NAMES = {"sensitivity": "ctab-gan-batch-as-microbatch", "noise": "dp-kernel-noise-on-loss",
         "sampling": "shuffled-chua", "uncharged": "ctab-gan-penalty-after-noise",
         "accounting": "gs-wgan-32-gradients", "formula": "pate-gan-power",
         "floating point": "float-laplace-support"}
found = {claim.name: check(claim) for claim in literature.CLAIMS if claim.name in NAMES.values()}
costs = {kind: (found[name].claim.stated, found[name].computed) for kind, name in NAMES.items()}
noise = costs["formula"][1]
costs["formula"] = 1.0, pld.epsilon([Release(Gaussian(noise))], delta=1e-5).epsilon

# %% tags=["hide-input", "fragment"]
drawn, (ax,) = plots.figure(height=3.0)
for row, (charged, true) in enumerate(costs.values()):
    end, sign = min(true, 2e3), "o" if np.isfinite(true) else ">"
    ax.plot([charged, end], [row, row], color="0.8", linewidth=2, zorder=0)
    for x, name, look in ((charged, "charged", "o"), (end, "proven", sign)):
        ax.plot(x, row, look, color=plots.MEANINGS[name], label=name.replace("proven", "computed") * (row == 0))
    plots.note(ax, at_most(true).replace("inf", "no finite epsilon"), (end, row), (7, -3))
ax.set(xscale="log", xlim=(0.7, 9e3), xlabel="epsilon", yticks=range(len(costs)), yticklabels=costs, ylim=(6.6, -0.6))
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
plots.picture(drawn, "A slip multiplies epsilon by five or more, or leaves no finite one. Each row is a published case.")

# %% [markdown]
# ## Your turn
#
# (In the questions above, `turn.nine_tensors.hint(1)` helps, `turn.nine_tensors.solution()` shows the answer.)
#
# **Is it private, as charged?** Thirty cases, judged one by one. The first fifteen can be judged with what
# notebooks 00 to 06 taught. Each case says what is run; below it, who claims what about it. Your first answer
# counts, and the reply says why. Below the last case stands what you judged right, by kind of slip. Half of the
# thirty hold, because they were chosen so: that share says nothing about the field. ([All claims](../docs/claims.md) with their verdicts.)

# %% tags=["explorer"]
from dpkit.course.exercises.cases import Cases

Cases(turn.CASES)

# %% [markdown]
# Three questions with a choice:

# %%
turn.sheet.quiz()

# %% [markdown]
# **Homework.** Twenty lines of DP-SGD, with one fault. Draw yours by your name. Find the line, and what the run
# really costs (`"none"` if no finite epsilon covers it): `task.check(line, epsilon)`.

# %%
from dpkit.course.exercises import homework

task = homework.draw("Emmy")
task

# %% [markdown]
# **And your own code?** `check` runs a function of the data that returns what is released. It runs it on neighbouring
# data with the same draws, and names the line at which one record gets past the noise. Here it reads nine lines of
# DP-SGD. Which line will it name?

# %%
import torch

from dpkit.audit import check as judged

rng = torch.Generator().manual_seed(0)
records = 4 * torch.rand(60, 2, generator=rng) - 2, (torch.rand(60, generator=rng) < 0.5).float()
claimed = pld.epsilon([Release(SampledGaussian(2.0, 0.2), 20)], delta=1e-5).epsilon

# %%
def train(data):
    x, y = data
    w = torch.zeros(2)
    for _ in range(20):
        batch = torch.rand(len(x)) < 0.2
        g = (torch.sigmoid(x[batch] @ w) - y[batch])[:, None] * x[batch]
        g = g / g.norm(dim=1, keepdim=True).clamp(min=1)
        w = w - (g.sum(0) + 2.0 * torch.randn(2)) / batch.sum()
    return w

# %%
report = judged(train, records, claimed=claimed, delta=1e-5)
print(report.verdict, *(f"{one.finding}: {one.text}" for one in report.blame), sep="\n")

# %% [markdown]
# The batch's own size is a function of the records. Divide by 12, the expected size, and run the last two cells again. Then put
# a function of yours in place of `train`. ([What `check` does not see](../docs/training.md#check-a-program-of-your-own):
# it is experimental.)

# %% [markdown] tags=["slide"]
# ## What to take away
#
# - Seven questions find most slips: what moves, where the noise is, how batches are drawn, what else reads
#   records, what is added up, which theorem, which numbers.
# - A run with a slip looks like one without: only the code, or an attack, shows it.
# - Cost is rarely a few per cent: a slip multiplies epsilon, or leaves none.
# - Not everything that looks odd is wrong: compute before you judge.
# - If you find a claim to doubt or to confirm, [add it](../CONTRIBUTING.md#adding-a-finding) as you would tell
#   its authors.

# %% [markdown]
# **Next:** [07_your_own_gan](07_your_own_gan.ipynb) trains a private GAN on pictures of your own, and refuses
# most of these slips.

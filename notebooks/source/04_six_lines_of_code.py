# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Six lines of code, and what each costs
#
# **You will be able to**
#
# 1. find the fault in a line that clips, adds noise or draws a batch
# 2. compute how far one record moves what the line releases, and the epsilon that follows
# 3. set what was claimed against what is proven and what an attack measures
#
# - **Time** 20 seconds to run on one core, 40 minutes to read, 20 for its exercises
# - **Memory** 630 MB
# - **Needs** [00_start_here](00_start_here.ipynb) and [03_dp_cgan](03_dp_cgan.ipynb); no data set, no download, no GPU
# - **Sources** Schwabedal, Michel and Riontino, arXiv:2005.00783, 2020, section 3.1, and the public code that each
#   section names
#
# In 2020 Schwabedal, Michel and Riontino read the code of three earlier private GANs, to "prevent erroneous estimates
# of anonymity in the future". Their review comes down to five lines. A sixth is in the code of their own paper
# ([13_small_images](13_small_images.ipynb)). Each line is short, runs without an error and looks right. What does each
# cost?
#
# These works were among the first of their kind, and we know the lines because their authors published the code. Here
# the lines are in the kit's own words; each section says where to find the original.
#
# > **What a line has to get right.** Let $\Delta$ be the farthest that one record can move what is released, and let the
# > noise have standard deviation $s$. An accountant that is given the noise multiplier $z$ is right about the run if
# > $s \ge z\,\Delta$ and batches are drawn as it assumes. Where $s$ is smaller, the true noise multiplier is $s/\Delta$.
#
# So each section asks two questions: how far can one record move it, and how much noise is there? A record is added or
# removed (*add-remove*), unless a section says otherwise.

# %%
from dpkit.papers.small_images import prior_work
from dpkit.privacy import Release, SampledGaussian, pld


def price(noise_multiplier, sample_rate, steps):
    """Certified epsilon at delta 1e-5 of so many Poisson batches."""
    ledger = [Release(SampledGaussian(noise_multiplier, sample_rate), steps)]
    return pld.epsilon(ledger, delta=1e-5).epsilon


# %% [markdown]
# ## 1. Average, then clip
#
# | as it was | as it should be |
# |---|---|
# | `g = clip(mean(grads), C)` | `g = mean(clip(g_i, C) for g_i in grads)` |
#
# *Where:* Beaulieu-Jones, Wu, Williams and Greene 2017, greenelab/SPRINT_gan at 238bb65,
# `custom_keras/noisy_optimizers.py`, lines 27 to 30: the gradient of the batch's mean loss is clipped.
#
# In either order, what is released is at most $C$ long. Does the order matter? Guess before you run on:

# %% [markdown] tags=["question"]
# **Question 1.** 64 gradients are averaged, then the mean is clipped to length C. By how many C can one of
# the 64 records move the result, at most?

# %%
from dpkit.course.exercises import six_lines_of_code as turn

turn.mean_moved.check(...)

# %% [markdown]
# **What one record can do.** Let 63 gradients stay as they are. The 64th is very long, and turns once round.

# %%
import numpy as np

draws = np.random.default_rng(0)
others = draws.normal((1.0, 0.5), 1.0, (63, 2))  # gradients of two parameters
angles = np.linspace(0, 2 * np.pi, 73)
turning = 1e4 * np.stack((np.cos(angles), np.sin(angles)), 1)  # the one record's


def clipped(g, norm=1.0):
    """Each row scaled to length `norm` at most."""
    return g * np.minimum(1, norm / np.linalg.norm(g, axis=-1, keepdims=True))


# %% tags=["guessed", "hide-output"]
batches = [np.vstack((others, one)) for one in turning]
released = {
    "clip, then average": np.array([clipped(batch).mean(0) for batch in batches]),
    "average, then clip": np.array([clipped(batch.mean(0)) for batch in batches]),
}
for name, path in released.items():
    widest = np.linalg.norm(path[:36] - path[36:72], axis=1).max()
    print(f"{name}: one record moves it by up to {widest:.4f} C")

# %% tags=["guessed", "hide-output", "hide-input"]
from dpkit.common import plots

drawn, (ax,) = plots.figure(width=4.6, height=3.6)
for (name, path), colour, x in zip(released.items(), plots.COLOURS, (-0.9, 0.75), strict=False):
    ax.plot(*path.T, color=colour, linewidth=1.8)
    ax.text(x, path[:, 1].max() * 0.8, name, color=colour, fontsize=9)
ax.set(aspect="equal", xlabel="first parameter, in C", ylabel="second parameter, in C", xlim=(-1.2, 1.7))
plots.picture(drawn, "One record moves the average of clipped gradients a little, and the clipped average all the way. "
              "What is released as its gradient turns once round: circles of diameter 2/64 and 2.")

# %% [markdown]
# Here the record was exchanged (*replace-one*). If each gradient is clipped, that moves the average by $2C/64$, less as
# the batch grows; to add or remove a record moves it by $C/64$. If the average is clipped, both move it by $2C$, whatever
# the batch.
#
# **The price.** Their noise on the clipped mean is $z\,C$. (Until July 2018 it was $z\,C^2$, with $C = 10^{-4}$; the
# authors corrected that.) So $\Delta = 2C$ leaves half the noise multiplier. For one epoch of their 6,000 records in
# batches of 100:

# %%
epoch = {"sample_rate": 100 / 6000, "steps": 60}
for name, multiplier in {"as charged": 1.0, "as it is": 1 / 2}.items():
    print(f"{name:10} noise multiplier {multiplier:.2f}: epsilon {price(multiplier, **epoch):.3f}")

# %% [markdown]
# (Their published runs have batches of one record; section 5 is about those.)
#
# ## 2. A stray factor in the noise
#
# | as it was | as it should be |
# |---|---|
# | `noise = z * C * normal() / sqrt(batch)` | `noise = z * C * normal()` |
#
# *Where:* Zhang, Ji and Wang 2018, alps-lab/dpgan at 65cb105, `dp/clippers/basic.py`, lines 39 and 40.
#
# Here each example's gradient is clipped, as it should be. But the noise on their sum is divided by the root of the batch
# size: by eight at batch 64. (On the *mean* of the batch that would be more noise than needed.)
#
# **What one record can do.** It moves the sum by $C$. How well does the noise cover that? Take a softmax regression that
# knows nothing yet: the gradient of a digit is (its ten errors) x (its 64 pixels), so we can look at it.

# %%
from sklearn.datasets import load_digits

few = load_digits()
pixels, labels = few.data[:64] / 16, few.target[:64]
errors = np.eye(10)[labels] - 0.1  # of ten equal probabilities
each = clipped(np.einsum("ik,ip->ikp", errors, pixels).reshape(64, 640))  # clipped to C = 1


# %%
total = each.sum(0)
noise = draws.standard_normal(640)
seen = {"no noise": total, "noise C": total + noise, "noise C / 8": total + noise / 8}
for name, one in seen.items():
    cosine = one @ total / np.linalg.norm(one) / np.linalg.norm(total)
    print(f"{name:11} cosine with the clipped sum {cosine:.3f}")

# %% tags=["hide-input"]
rows = {name: np.pad(one.reshape(10, 8, 8), ((0, 0), (0, 0), (0, 1)), constant_values=np.nan)
        for name, one in seen.items()}
plots.picture(plots.image_rows(rows), "Noise C hides the shapes of the digits; noise C / 8 does not. "
              "The clipped sum of 64 gradients, one square for the weights of each digit.")

# %% [markdown]
# A whole batch may be seen; a single record should not be. Let the attacker know the other 63 records. They subtract
# these, and read what is left along the gradient of the 64th: 1 if it took part, 0 if not, plus noise. Above 1/2, they
# say "it took part".

# %%
for name, size in {"noise C": 1.0, "noise C / 8": 1 / 8}.items():
    left = size * draws.standard_normal((2, 100_000))  # in the direction of the one gradient
    right = ((left[0] + each[0] @ each[0] > 0.5).mean() + (left[1] <= 0.5).mean()) / 2
    print(f"{name:11} the attacker is right {right:.1%} of the time")

# %% [markdown]
# **The price** of their 560 iterations on MNIST, with their noise, on one device:

# %%
from dpkit.papers.dpgan.settings import MNIST

z, steps, factor = MNIST.noise_multiplier, 560 * MNIST.critic_steps, prior_work.noise_too_small(64)
for name, multiplier in {"as charged": z, "as it is": z / factor}.items():
    found = price(multiplier, 64 / MNIST.private_examples, steps)
    print(f"{name:10} noise multiplier {multiplier:.3f}: epsilon {found:.3f}")
print(f"the review says: too small by a factor of eight; computed: {factor:.3f}")

# %% [markdown]
# ## 3. Groups of parameters, clipped one by one
#
# | as it was | as it should be |
# |---|---|
# | `g_i = [clip(group, C) for group in g_i]` | `g_i = clip(g_i, C)` |
# | `price(z)` | or else `price(z / sqrt(len(g_i)))` |
#
# *Where:* the same repository, `dp/clippers/basic.py`, lines 16 to 26: each tensor is a group of its own, and gets
# noise of $z\,C$. Zhang, Ji and Wang argue in the text (Theorem 4.1) that all groups cost as much as one. Their code
# charges something else: each group, as if it had drawn a batch of its own (lines 28 and 29).
#
# [03_dp_cgan](03_dp_cgan.ipynb) had four tensors. And with nine?

# %% [markdown] tags=["question"]
# **Question 2.** Nine groups of parameters are clipped at C each. How many C long is the longest gradient?

# %%
turn.nine_groups.check(...)

# %% [markdown]
# **What one record can do.** Take a long gradient of 640 numbers, cut it into $k$ groups, and clip each to $C = 1$. How
# long is the whole?

# %% tags=["guessed", "hide-output"]
long = 100 * draws.standard_normal(640)
lengths = {}
for k in (1, 2, 4, 7, 9, 16, 25):
    parts = [clipped(part) for part in np.array_split(long, k)]
    lengths[k] = np.linalg.norm(np.concatenate(parts))
for k, length in lengths.items():
    print(f"{k:2} groups: {length:.3f}")

# %% tags=["guessed", "hide-output", "hide-input"]
groups = np.arange(1, 28)
drawn, (ax,) = plots.figure(height=2.8)
plots.lines(ax, {"proven: sqrt(k)": (groups, groups**0.5)},
            x="groups k, each clipped to C", y="length of the whole / C")
ax.plot(list(lengths), list(lengths.values()), "o", color=plots.MEANINGS["measured"])
ax.plot(groups[:9], groups[:9], ":", color="0.4")
plots.note(ax, "k, if lengths added up", (9, 9), (6, -3), color="0.4")
plots.picture(drawn, "The whole grows with the square root of the number of groups, not with the number. Dots: the "
              f"lengths above, {lengths[4]:.0f} at 4 groups, {lengths[9]:.0f} at 9, {lengths[25]:.0f} at 25.")

# %% [markdown]
# Lengths of orthogonal parts add as squares, so $k$ groups let one record move the whole by $C\sqrt{k}$. The review
# estimates that the gradients are longer "probably proportional to the number of groups [...] a factor of about 10". The
# noise is indeed too small; for Zhang et al.'s networks the factor is two to three.
#
# **The price** of seven tensors in the same run, now on all of its four devices. So batches hold 256 records, not 64, and
# the sample rate is four times that of section 2:

# %%
rate = MNIST.expected_batch_size / MNIST.private_examples
found = {"all as one, as the text has it": price(z, rate, steps),
         "seven, each with a batch of its own": price(z, rate, 7 * steps),
         "seven of one batch, as they are": price(z / 7**0.5, rate, steps)}
for name, one in found.items():
    print(f"{name:36} epsilon {one:6.3f}")

# %% [markdown]
# Parallel composition, to which the theorem appeals, is for parts of the *data*, each record in one of them. But every
# record is in every part of a gradient. The second price is nearer, but sampling hides a record once a batch, not once a
# group. ([11_dpgan](11_dpgan.ipynb) is about the rest of that paper.)
#
# ## 4. A bound that the noise ignores
#
# | as it was | as it should be |
# |---|---|
# | `noise = 5 * normal()`  (or 10, or 15) | `noise = z * 13449.216 * normal()` |
#
# *Where:* Xie, Lin, Wang, Wang and Zhou 2018, illidanlab/dpgan at 033a82f, `wgan.py`, lines 69 and 167 to 172 (the
# noise), and `test.py`, line 114 (the bound).
#
# This method clips the critic's *weights*, shows that gradients are then bounded, and computes the bound, 13,449.216.
# According to the review, the public repository lacks the algorithm, and it is open how the noise scales with the bound.
# The algorithm is in `wgan.py`. The noise's scale is easy to miss, in line 114 of a test script, where $q$ is the sample
# rate and $n_d$ the number of critic steps in one iteration, five:
#
# $$ \varepsilon = \frac{2\,q\,\sqrt{n_d \log(1/\delta)}}{\text{noise}\,/\,\text{bound}}. $$
#
# **What one record can do.** If its gradient is as long as the bound allows, it moves the sum by 13,449, and the noise
# is 15 at most:

# %%
script = prior_work.Xie(15)
print(f"noise multiplier {script.noise_multiplier:.5f}")
print(f"the line gives epsilon {script.published_epsilon():.3f}, at q = 64/60,000 and n_d log(1/delta) = 25")

# %% [markdown]
# **The price.** The line has the *form* of a theorem that holds for large noise and small $\varepsilon$. Compare it with
# the certified accountant, for the five critic steps of one iteration:

# %%
multipliers = np.geomspace(1e-3, 10, 17)
line = 2 * 64 / 60_000 * 5 / multipliers
certified = [price(one, sample_rate=64 / 60_000, steps=5) for one in multipliers]
for i in (0, 4, 8, 12, 16):
    print(f"noise multiplier {multipliers[i]:6.3f}: the line {line[i]:.4g}, certified {certified[i]:.4g}")

# %% tags=["hide-input"]
drawn, (ax,) = plots.figure(height=3.2)
ax.set(xscale="log", xlim=(7e-5, 12))
both = {"claimed by the line": (multipliers, line), "certified": (multipliers, certified)}
plots.lines(ax, both, x="noise multiplier", y="epsilon at delta 1e-5", y_scale="log")
for noise_std, side, across in ((5, "right", -5), (15, "left", 5)):
    where = prior_work.Xie(noise_std).noise_multiplier
    ax.axvline(where, color="0.3", linestyle=":")
    plots.note(ax, f"noise {noise_std}", (where, 1e-3), (across, 0), ha=side)
plots.picture(drawn, "At the noise of the scripts, the line is far below the certified epsilon. It is on the safe side "
              "where the noise is a few times the bound.")

# %% [markdown]
# At a thousandth of the bound, the line is too small by a factor of ninety thousand. A bound for the worst case may be
# far above this network's gradients. Clipping *gradients* lets one choose the bound, and then it holds.
#
# ## 5. A batch of one
#
# | as it was | as it should be |
# |---|---|
# | `charge(SampledGaussian(z, 1 / n))` | `charge(SampledGaussian(z / 2, 1 / n))` |
#
# *Where:* greenelab/SPRINT_gan again, `dp_gan.py`, lines 211 to 225 (one record is drawn for each step) and 263 (the
# charge).
#
# "Results presented by Beaulieu-Jones et al. may still be correct because the authors use a batch size of one", says
# the review. Indeed, with one example, averaging first and clipping first are the same. But how is the one example
# drawn? The accountant assumes Poisson batches: each record enters with probability 1/6000, and a batch may well be
# empty. A batch of one always holds somebody.
#
# > **What one record can do.** If it is not you, it is someone else, whose gradient may be the opposite of yours. Your
# > presence then moves the release from $-C$ to $+C$, by $2C$. With Poisson batches it moves it from 0 to $C$.
#
# **The price** of their 500 epochs of 6,000 steps at noise multiplier $z = 1$, by the review's accountant (RDP, classic
# conversion):

# %%
from dpkit.papers.small_images.claims import beaulieu_by_epoch, epsilon
from dpkit.privacy import rdp

published = prior_work.BeaulieuJones()
ledgers = {"charged: Poisson": published.claimed_ledger(),
          "batch of one, add-remove": published.ledger(),
          "batch of one, replace-one": published.ledger(adjacency="replace-one")}
for name, ledger in ledgers.items():
    best = rdp.epsilon(ledger, delta=1e-5).epsilon
    print(f"{name:26} {epsilon(ledger):7.3f}; by the best conversion {best:7.3f}")

# %% [markdown]
# The middle line is exact at each order, because the worst pair of data sets is known. The last one is a theorem's
# upper bound: a replaced record costs at least as much as the middle line says. Along the training:

# %% tags=["hide-input"]
curves = {"charged": beaulieu_by_epoch("claimed_ledger"),
          "proven, add-remove": beaulieu_by_epoch("worst_case_ledger")}
drawn, (ax,) = plots.figure(height=2.8)
lines = {name: (c.x, c.y) for name, c in curves.items()}
plots.lines(ax, lines, x="epochs", y="epsilon at delta 1e-5")
ends = ", ".join(f"{name} {c.y[-1]:.3f}" for name, c in curves.items())
plots.picture(drawn, f"A batch of one costs many times the charged epsilon, all along the run. After 500 epochs: {ends}.")

# %% [markdown]
# **Check it a second way.** A move of $2C$ with noise $z$ is like a move of $C$ with noise $z/2$. So the Poisson
# formula at half the noise must give the same number:

# %%
half = [Release(SampledGaussian(0.5, 1 / 6000), 3_000_000)]
print(f"Poisson at noise multiplier 0.5: {epsilon(half):.3f}")
assert abs(epsilon(half) - epsilon(published.ledger())) < 1e-9

# %% [markdown]
# The run costs more than it was charged, and it does have a guarantee: 13.6 in place of 1.9. (That is for a fresh draw at
# each step, which the first versions of the code did not make.)
#
# ## 6. Shuffled batches
#
# | as it was | as it should be |
# |---|---|
# | `for batch in DataLoader(data, 128, shuffle=True):` | `batch = data[uniform(n) < 128 / n]` |
# | `charge(SampledGaussian(z, 128 / n))` | `charge(SampledGaussian(z, 128 / n))` |
#
# *Where:* the review's own paper, jusjusjus/noise-in-dpsgd-2020 at 0171f0a, `train.py`, lines 115 and 116 (the loader)
# and 159 and 160 (the charge).
#
# The code clips each example, adds up, adds noise once and divides, all as it should be. Its batches come from a
# *shuffled pass* over the data: 469 batches, in which every record occurs exactly once. Its accountant assumes that
# each record enters each batch by a draw of its own. (Nearly all training code shuffles. How much that can cost was shown
# four years later, by Chua and others.)
#
# **What one record can do.** An accountant bounds the worst case, so take one: all gradients are $-C$, but yours is
# $+C$. Compare with the data set in which your place is *left empty*: a record without a gradient stands there, and all
# others stay in their batches. (A third adjacency; here too a record's coming or going moves a sum by $C$.) One batch,
# nobody knows which, is off by $2C$ if you are there, and by $C$ if you are not. *The largest noisy sum* then says more
# about you than the accountant allows. Draw a few passes. In which panel does the largest sum, circled, contain you more
# often?

# %%
from dpkit.course.explorers import ShuffledOrPoisson

ShuffledOrPoisson()

# %% [markdown]
# **Check it by experiment**: one pass of 10 batches at noise 1, delta 0.01. If the Poisson epsilon were right, no event
# could have a probability above $e^\varepsilon$ times its probability without you, plus 0.01.

# %%
passes, count, delta = 400_000, 10, 0.01
poisson = pld.epsilon([Release(SampledGaussian(1.0, 1 / count), count)], delta=delta)
noise = np.random.default_rng(0).standard_normal((2, passes, count))
noise[0, :, 0] += 2  # with you: one batch of the ten, and which one does not matter
noise[1, :, 0] += 1  # your place left empty
there, absent = (noise.max(2) > 3.0).mean(1)
allowed = np.exp(poisson.epsilon) * absent + delta
spread = 2 * np.sqrt(there * (1 - there) / passes)
print(f"Poisson epsilon {poisson.epsilon:.3f} allows the event a chance of {allowed:.4f}")
print(f"it has {there:.4f} +- {spread:.4f}")

# %% [markdown]
# So this experiment refutes the Poisson epsilon. **The price** at the paper's size: the least that *one* pass costs, and
# what the code charges for *forty*:

# %%
from dataclasses import replace

from dpkit.common.show import tabled
from dpkit.papers import small_images as paper

claims = {claim.name: claim for claim in paper.CLAIMS}
least = claims["shuffled-against-poisson"].curve()
runs = [replace(paper.SETTINGS, noise_multiplier=z) for z in least.x]
charged = [epsilon(run.claimed_ledger(public_size=60_000)) for run in runs]
rows = [*zip(least.x, least.y, charged, strict=True)][::2]
tabled(rows, ["noise multiplier", "one shuffled pass, at least", "charged for 40"])

# %% tags=["hide-input"]
drawn, (ax,) = plots.figure(height=2.8)
both = {"one pass, proven at least": (least.x, least.y), "charged for 40": (least.x, charged)}
plots.lines(ax, both, x="noise multiplier", y="epsilon at delta 1e-5")
plots.picture(drawn, "From noise 0.6 on, one shuffled pass costs more than the code charges for forty. At least "
              f"{least.y[0]:.2f} at noise 0.5, {least.y[-1]:.2f} at 1.0; charged {charged[0]:.2f} and {charged[-1]:.2f}.")

# %% [markdown]
# That does not show that shuffled training on MNIST *can* be attacked in practice. It shows that this accountant does not
# bound what an attack could reach. The repair is one line: draw Poisson batches.
#
# ## 7. Six lines, six prices
#
# Each row is one stored attack ([05_auditing](05_auditing.ipynb) builds such attacks from nothing) on a run that has
# the one line and is otherwise as it should be.
#
# - **Claimed or charged:** what the text or a script claims for it or, where nothing is claimed, what the paper's own
#   accountant charges.
# - **Proven:** an upper bound, computed anew (certified; in rows 1 and 5 by RDP, which is a little looser).
# - **In its section:** why the section's epsilons, charged and true, differ from this row's.
# - **Measured:** what the attack shows at 95 % confidence. The true epsilon lies between the last two.

# %%
LINES = {"1 average, then clip": ("small_images/clip-after-mean", "certified, not by RDP"),
         "2 a stray factor": ("dpgan/stray-factor-1-device", "certified; 4 is the text's"),
         "3 groups clipped one by one": ("dpgan/theorem-4.1", "certified; 4 is the text's"),
         "4 a bound that the noise ignores": ("small_images/xie-accountant", "five steps; here five hundred"),
         "5 a batch of one": ("small_images/beaulieu-jones", "by the classic conversion"),
         "6 shuffled batches": ("small_images/published", "one pass; here 40, replace-one, noise 0.5")}

# %%
from dpkit.papers.targets import chosen, results

lines, runs = {}, []
for line, (name, _) in LINES.items():
    (target,) = chosen(name)
    said = target.charged if target.claimed is None else target.claimed
    measured = results.stored(target)["measured"]
    lines[line] = {"claimed": said, "proven": target.proven().epsilon, "measured": measured}
    runs.append((line, target.says, target.adjacency))

# %%
from dpkit.common.show import at_least, at_most

rows = [(line, f"{one['claimed']:.4g}", at_most(one["proven"]), at_least(one["measured"]), LINES[line][1])
        for line, one in lines.items()]
tabled(rows, ["line", "claimed or charged", "proven", "measured by attack", "in its section"])

# %% tags=["hide-input"]
drawn, (ax,) = plots.figure(width=8, height=3.2)
ax.set(xscale="log", xlabel="epsilon at delta 1e-5", ylim=(6.6, 0.4))
ax.set_yticks(range(1, 7), lines)
for place, one in enumerate(lines.values(), 1):
    ax.plot([one["measured"], one["proven"]], [place, place], color="0.8", linewidth=3, zorder=0)
    for name, mark in {"claimed": "D", "measured": "^", "proven": "o"}.items():
        ax.plot(one[name], place, mark, color=plots.MEANINGS[name], label=name if place == 1 else None)
ax.legend(frameon=False, fontsize=8, loc="upper right")
plots.picture(drawn, "In every row the attack shows more than was claimed or charged. "
              "The true epsilon is on the bar from measured to proven.")

# %% [markdown]
# What exactly was attacked:

# %%
tabled(runs, ["line", "the run", "neighbours"])

# %% [markdown]
# [docs/claims.md](../docs/claims.md), under *Small images* and *dpGAN*, has every claim of the review and of these works
# with its verdict. The wall in [20_claims_ledger](20_claims_ledger.ipynb) gives the reasons.

# %% [markdown]
# ## Your turn
#
# Put your answer in place of the dots. `turn.noise_left.hint(1)` helps, `turn.noise_left.solution()` shows the answer.

# %% [markdown] tags=["question"]
# **Question 3.** The noise is divided by the root of the batch size, and noise multiplier 1 is charged. Which
# noise multiplier is left at batches of 256, on one device?

# %%
turn.noise_left.check(...)

# %% [markdown] tags=["question"]
# **Question 4.** Gradients up to 13,449.216 long, Poisson batches of 64 of 60,000, five steps, delta 1e-5. A
# script gives epsilon 9.564 for noise of standard deviation 15. How much noise does the certified accountant
# ask for at that epsilon?

# %%
turn.noise_at_the_bound.check(...)

# %% [markdown] tags=["question"]
# **Question 5.** Beaulieu-Jones et al. charged 1.89 for noise 1 at batches of one. Which noise multiplier
# would have made that true, for batches of one?

# %%
turn.beaulieu_noise.check(...)

# %%
turn.sheet.quiz()

# %% [markdown]
# ## What to take away
#
# - Ask first how far one record moves what is released, and then how much noise covers that: lines 1 to 4.
# - Average, then clip: $2C$, whatever the batch. Groups clipped one by one: $C\sqrt{k}$. Let one gradient be very long.
# - A stray factor, or a bound that the noise ignores: divide the noise that is really added by the bound.
# - Then ask who is in a batch. In a batch of one, somebody else stands in your place, $2C$ away; a shuffled pass holds you in
#   exactly one batch. Read the loader, then the accountant.
# - None of these questions takes a proof to ask.

# %% [markdown]
# **Next:** [05_auditing](05_auditing.ipynb) builds attacks from nothing: how much of epsilon can an attacker show?

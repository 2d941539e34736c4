# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does an attacker learn? Measuring epsilon
#
# **You will be able to**
#
# 1. turn an attack's errors into a lower bound on epsilon that holds with 95 % confidence
# 2. find out by attack whether a step of training protects a record as charged
# 3. say what a small measured epsilon shows, and what it does not
#
# - **Time** 25 seconds to run on two cores, 30 minutes to read, 15 for its exercises
# - **Memory** 600 MB
# - **Needs** [00_start_here](00_start_here.ipynb); no data set, no download, no GPU
# - **Sources** Kairouz, Oh, Viswanath 2015, Theorem 2.1; Jagielski, Ullman, Oprea 2020; Steinke, Nasr,
#   Jagielski 2023

# %% [markdown] tags=["slide", "lab2"]
# An accountant proves an *upper* bound: epsilon is at most so much, if the code does what the proof assumes. A proof
# cannot tell whether it does. An attack tests what actually comes out. It gives a *lower* bound, with 95 %
# confidence: a smaller claim is wrong. The truth lies between the two.

# %% [markdown] tags=["slide", "lab2"]
# ## 1. Two worlds and a threshold
#
# A count is released with Gaussian noise of standard deviation 1. Without your record the count is 100, with it
# 101. The attacker knows all of that, but not which of the two worlds they are in. They see one number, and say
# "present" if it is above a threshold. Where would you put it?

# %% tags=["lab2"]
import numpy as np

from dpkit.common import plots

rng = np.random.default_rng(0)
n = 10_000
absent, present = 100 + rng.standard_normal(n), 101 + rng.standard_normal(n)
print("absent: ", *(f"{x:.2f}" for x in absent[:6]))
print("present:", *(f"{x:.2f}" for x in present[:6]))

# %% [markdown] tags=["slide", "lab2"]
# This picture comes back in sections 4 and 5: the attacker's **scores** without the record and with it. The
# overlap is your protection.

# %% tags=["hide-input", "lab2"]
def worlds(scores, axis, words, names=("without the record", "with the record"), threshold=None):
    """Both worlds' scores as histograms."""
    drawn, (ax,) = plots.figure(height=2.6)
    look = {"alpha": 0.55, "histtype": "stepfilled", "color": plots.COLOURS[:2], "label": names}
    ax.hist(scores, 60, range=np.quantile(np.concatenate(scores), (0.001, 0.999)), density=True, **look)
    if threshold:
        plots.mark(ax, threshold, "threshold", top=False)
    ax.set(xlabel=axis, ylabel="density")
    drawn.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=9, reverse=True)
    return plots.picture(drawn, words)


# %% tags=["fragment", "lab2"]
worlds((absent, present), "released count (people)",
       "The worlds overlap: no threshold tells them apart. The threshold drawn is 102.", threshold=102)

# %% [markdown] tags=["slide", "lab2"]
# The attacker can be wrong in two ways. The **false positive rate** is how often they say "present" when the
# record is not there, the **false negative rate** how often they miss it.


# %% tags=["fragment", "with-code", "lab2"]
def rates(absent, present, threshold):
    """False positive and false negative rate of "present where score > threshold"."""
    return np.mean(absent > threshold), np.mean(present <= threshold)


for threshold in (100.5, 102, 103):
    fpr, fnr = rates(absent, present, threshold)
    print(f"threshold {threshold:5}: false positives {fpr:.3f}, false negatives {fnr:.3f}")

# %% [markdown] tags=["slide", "lab2"]
# > **From errors to epsilon.** "Score above the threshold" is an event. If the release is
# > $(\varepsilon, \delta)$-DP, then $1 - \text{fnr} \le e^{\varepsilon}\,\text{fpr} + \delta$, so that
# >
# > $$\varepsilon \ \ge\ \log \frac{1 - \text{fnr} - \delta}{\text{fpr}}.$$
# >
# > Exchange the two worlds, and the same holds with fpr and fnr exchanged.

# %% [markdown] tags=["slide", "lab2"]
# So the best threshold is not the one with the fewest errors. Which of the three above shows most? And is it
# *true*? We know the exact epsilon of this release at delta 1e-5:

# %% tags=["fragment", "lab2"]
from dpkit.privacy import Gaussian, Release, pld

delta = 1e-5
for threshold in (100.5, 102, 103):
    fpr, fnr = rates(absent, present, threshold)
    print(f"threshold {threshold:5}: seemingly epsilon at least {np.log((1 - fnr - delta) / fpr):.2f}")
print(f"proven: {pld.epsilon([Release(Gaussian(1.0))], delta=delta).epsilon:.2f}")

# %% [markdown] tags=["slide", "lab2"]
# ## 2. Why that bound proves nothing
#
# 3.10 happens to be true, as 4.38 is above it. But the method can lie: far out the ratio grows, and there it is
# one of small counts, mostly chance. Every audit has to pass this test: two worlds that are *the same*. Nothing can be learned there;
# epsilon is 0. What does the best threshold show? Guess first.

# %% tags=["fragment", "guessed", "hide-output", "lab2"]
same, again = rng.standard_normal((2, n))
best = 0.0
for threshold in np.quantile(same, 1 - np.geomspace(1, 5_000, 60) / n):
    fpr, fnr = rates(same, again, threshold)
    best = max(best, np.log(max(1 - fnr - delta, 1e-12) / fpr))
print(f"two equal worlds: seemingly epsilon at least {best:.2f}")

# %% [markdown] tags=["slide", "lab2"]
# We took observed rates for probabilities, and tested the threshold on the scores that chose it. Both can be
# fixed.
#
# **Intervals.** If 3 of 9,000 are false positives, how large can the probability be? Take the largest p at
# which 3 or fewer errors still happen 2.5 % of the time. That is the limit of Clopper and Pearson (1934); it
# holds for every n.

# %% tags=["fragment", "with-code", "lab2"]
from scipy.stats import beta, binom


def upper_limit(errors, trials, alpha):
    """The largest probability with which so few errors still have probability alpha."""
    return 1.0 if errors == trials else beta.ppf(1 - alpha, errors + 1, trials - errors)


limit = upper_limit(3, 9_000, 0.025)
rare = binom.cdf(3, 9_000, limit)
print(f"3 of 9,000: at most {limit:.2e}; then 3 or fewer have probability {rare:.4f}")


# %% [markdown] tags=["slide", "lab2"]
# Each limit holds with 97.5 %, so both hold together with 95 %, and so does the bound from both:


# %% tags=["fragment", "with-code", "lab2"]
def measured(absent, present, threshold, alpha=0.05):
    """A lower bound on epsilon at confidence 1 - alpha, for a threshold chosen beforehand."""
    fpr = upper_limit(np.sum(absent > threshold), len(absent), alpha / 2)
    fnr = upper_limit(np.sum(present <= threshold), len(present), alpha / 2)
    return max(0.0, np.log(max(1 - fnr - delta, 1e-300) / fpr))


print(f"the count, threshold 103: {measured(absent, present, 103):.3f}")
print(f"equal worlds, threshold 2: {measured(same, again, 2.0):.3f}")

# %% [markdown] tags=["lab2"]
# The kit's own function agrees:

# %% tags=["lab2"]
from dpkit.audit import bounds

asked = {"delta": delta, "adjacency": "add-remove"}
found = bounds.at_thresholds(absent, present, thresholds=[103], rng=rng, **asked)
print(f"epsilon at least {found.epsilon:.3f}, {found.confidence:.0%} confidence: {found.method}")

# %% [markdown] tags=["lab2"]
# **A threshold that costs nothing.** `clopper_pearson` lets some of the scores choose the threshold and tests
# it on the others. Equal worlds should now give 0 in all but 5 % of repetitions:

# %%
more = np.random.default_rng(1)
found = [
    bounds.clopper_pearson(*more.standard_normal((2, 1000)), rng=more, **asked).epsilon
    for _ in range(200)
]
print(f"above 0 in {sum(e > 0 for e in found)} of 200 repetitions")
print(f"the count: {bounds.clopper_pearson(absent, present, rng=more, **asked).epsilon:.2f} of 4.38")

# %% [markdown] tags=["lab2"]
# ## 3. How much can an attack show at all?
#
# Even 10,000 draws without a single false positive leave a limit of 4/10,000. So $n$ draws show little more
# than $\log (n / 4) = \log n - 1.4$, whatever leaks. Here the best possible attacker meets Gaussian releases of known epsilon.
# The last bound assumes that the whole trade-off curve is a Gaussian one. That is right here and nearly right
# for many small steps; it is an assumption, and the result says so.

# %% tags=["lab2"]
from dpkit.privacy import calibrate

deviations = {}
for epsilon in (1, 4, 8):
    noise = calibrate.noise_multiplier(epsilon, sample_rate=1.0, steps=1, delta=delta, accountant=pld.epsilon)
    deviations[epsilon] = 1 / noise
print({epsilon: round(mu, 3) for epsilon, mu in deviations.items()})

# %% tags=["lab2"]
from dpkit.common.show import tabled

rows = []
for size in (1_000, 10_000, 100_000):
    for epsilon, mu in deviations.items():
        pair = rng.standard_normal(size), mu + rng.standard_normal(size)
        either = (bounds.clopper_pearson, bounds.likelihood_ratio, bounds.gaussian)
        rows.append((size, epsilon, *(bound(*pair, rng=rng, **asked).epsilon for bound in either)))
columns = ["draws a world", "true epsilon", "Clopper-Pearson", "both rates jointly", "if Gaussian"]
tabled(rows, columns, digits=1)

# %% [markdown] tags=["lab2"]
# Remember this table when you read an audit: **a small measured epsilon is weak evidence of privacy**. From
# 1,000 draws, a release with epsilon 8 measures less than 3 without the Gaussian assumption. A measured epsilon
# *above* the claim, however, refutes it.

# %% [markdown] tags=["lab2"]
# Now you are the attacker, for twenty rounds:

# %% tags=["explorer", "lab2"]
from dpkit.course.explorers import PlayTheAttacker

PlayTheAttacker()

# %% [markdown] tags=["slide", "lab2"]
# ## 4. A gradient, and a mechanism that breaks
#
# A step of DP-SGD clips each example's gradient to norm $C$, sums the batch, and adds noise of deviation $zC$.
# The attacker may choose the worst record, a **canary**: a gradient far longer than $C$, in a direction that
# they know. They know all other records as well, subtract their part, and keep the release along that
# direction. Here $C = 1$, $z = 1$, with batches of 64 and 50 weights:

# %% tags=["lab2"]
C, z, batch, weights = 1.0, 1.0, 64, 50
others = rng.standard_normal((batch - 1, weights))
canary = np.zeros(weights)
canary[0] = 1_000.0


def clip(gradient):
    return gradient * min(1.0, C / np.linalg.norm(gradient))


def clipped_sum(gradients):
    return np.sum([clip(g) for g in gradients], axis=0)


# %% tags=["fragment", "lab2"]
def scores(release, noise_std, trials=20_000):
    """The noisy release along the canary, in units of its noise, without the canary and with it."""
    without = release(others)[0]
    with_it = release([*others, canary])[0]
    noise = rng.standard_normal((2, trials))
    return noise[0], (with_it - without) / noise_std + noise[1]


right = scores(clipped_sum, z * C)
axis, names = "release along the canary (deviations of its noise)", ("without the canary", "with the canary")
worlds(right, axis, "Each gradient clipped: the canary hides behind the noise. One deviation apart.", names)

# %% [markdown] tags=["slide", "lab2"]
# Now with one slip of published code ([04_six_lines_of_code](04_six_lines_of_code.ipynb), section 1): it clips
# the *mean* gradient, not each example's. The noise would be right for a mean of clipped gradients. How far can
# the canary move a clipped mean?

# %% tags=["fragment", "lab2"]
from dpkit.papers.small_images.prior_work import ClippedAfterMean

slip = ClippedAfterMean(max_grad_norm=C, batch_size=batch)


def clipped_mean(gradients):
    return slip.clip([np.sum(gradients, axis=0) / batch])[0]


wrong = scores(clipped_mean, slip.noise_std(z))
worlds(wrong, axis, "The mean clipped: the noise hides nothing. The worlds do not touch.", names)

# %% [markdown] tags=["slide", "lab2"]
# Both were charged alike, for Gaussian noise with multiplier 1:

# %% tags=["fragment", "lab2"]
charged = pld.epsilon([Release(Gaussian(z))], delta=delta).epsilon
for name, pair in {"clip, then sum": right, "mean, then clip": wrong}.items():
    found = bounds.clopper_pearson(*pair, rng=rng, **asked)
    verdict = "refuted" if found.epsilon > charged else "stands"
    print(f"{name:16} charged {charged:.2f}, measured {found.epsilon:.2f}: {verdict}")

# %% [markdown] tags=["fragment", "lab2"]
# The attack that refutes one mechanism measures about half of 4.38 on the other. More draws would show more:
# a million in each world, about 3.3.

# %% [markdown]
# ## 5. One run is enough
#
# Nobody trains a network 20,000 times. But one run can hold many canaries, if a coin decides for each whether
# it takes part. Each canary is then a trial, and the attacker guesses the coins. Here are 1,000 canaries, a
# network on the digits, and `dpkit.Private` at a certified epsilon of 8:

# %%
from dpkit.audit import one_run
from dpkit.audit.training import canaries

included = one_run.coins(rng, 1_000)
seen = canaries.dirac(rng, included, epsilon=8.0, delta=delta, steps=16)
print(f"{included.sum()} of {included.size} canaries take part")
print(f"noise multiplier {seen.plan.noise_multiplier}, {seen.plan.steps} steps, "
      f"proven epsilon {seen.plan.guarantee().epsilon:.2f}")

# %% [markdown]
# Each canary is a real record with a weight of its own in the network: its clipped gradient has length $C$ in a
# direction that no other record has. After training, that weight is its score.

# %%
pair = canaries.final_scores(seen)
worlds(pair, "the canary's weight after training (clip norms)", "One run shows both worlds: canaries trained on score "
       "higher, and many still hide. A thousand canaries, half of them trained on.", ("left out", "trained on"))

# %% [markdown]
# Steinke, Nasr and Jagielski: let the run be $(\varepsilon, \delta)$-DP. Then the chance that at least $k$ of $r$
# guesses are correct is at most the chance of at least $k$ heads of $r$ coins of bias
# $e^\varepsilon / (1 + e^\varepsilon)$, plus a small term in delta. The attacker may abstain, and guess only where they are sure. By hand, with $\delta = 0$:

# %%
ordered = np.sort(np.concatenate(pair))
low, high = ordered[100], ordered[-101]  # 100 guesses "out", 100 guesses "in"
correct = np.sum(pair.absent <= low) + np.sum(pair.present > high)
made = np.sum(np.concatenate(pair) <= low) + np.sum(np.concatenate(pair) > high)
for epsilon in (1.0, 2.0, 3.0):
    chance = binom.sf(correct - 1, made, np.exp(epsilon) / (1 + np.exp(epsilon)))
    print(f"epsilon {epsilon}: so many correct guesses are {'too rare' if chance < 0.05 else 'possible'}")

# %%
# tolerance=0.2: a network trained in single precision; one guess of a few hundred moves the bound
for bound in (one_run.one_run, one_run.one_run_fdp):
    found = bound(*pair, rng=np.random.default_rng(1), **asked)
    print(f"{bound.__name__:12} epsilon at least {found.epsilon:.1f}")

# %% [markdown]
# The second bound assumes Gaussian trade-off curves. By the first, one training run of a few seconds shows
# about as much as a thousand runs in each world (section 3).
#
# ## 6. Where no noise reaches
#
# Some slips need no statistics. Noise on the *value* of a loss ([12_rdp_gan](12_rdp_gan.ipynb)) leaves its
# gradient alone: an event has probability 1 in one world and 0 in the other, and no finite epsilon allows that.
# The kit computes the statistic under different noise, and checks that it is *constant* in each world:

# %%
import torch


def gradient_length(records, noise):
    net = torch.zeros(2, requires_grad=True)
    return torch.autograd.grad((records @ net).sum() + noise, net)[0].norm().item()


record, noises = torch.tensor([[3.0, 4.0]]), rng.normal(scale=10, size=(2, 20))
trials = [[gradient_length(one, x) for x in row] for one, row in zip((record[:0], record), noises, strict=True)]
bounds.distinguished(*trials, rng=rng, **asked).epsilon

# %% [markdown]
# ## 7. The audits of the kit
#
# The kit attacks every paper's main run, as published and repaired, with its own noise, sampling and number of
# steps. (Where the first steps refute every finite epsilon, only those are run.) `-`: the text states no
# epsilon, or the code charges none.

# %%
from dpkit.papers import PAPERS
from dpkit.papers.commands.audit import table

table(*(f"{paper.NAME}/{version}" for paper in PAPERS for version in ("published", "repaired")))

# %% [markdown]
# "No finite epsilon" is the case of section 6. `python -m dpkit audit list` has all 46 targets: single
# slips, ways to draw batches, releases of image data, and the kit's own training. Its two attacks are section 5's
# many canaries in one run, and one canary in each of many short runs:

# %%
table("training")

# %% [markdown]
# Look at `one-canary`: more is measured than is proven. Has the proof failed? No: each bound holds with 95 %
# confidence, so up to one in twenty may be too high where the attack is the best possible. This is one of
# 46, each drawn with the first seed. If the margin is this small, repeat the attack with a new seed.

# %% [markdown]
# ## Your turn
#
# Put your answer in place of the dots. `turn.bound.hint(1)` helps, `turn.bound.solution()` shows the answer.

# %% [markdown] tags=["question", "lab2"]
# **Question 1.** Write bound(fpr, fnr, delta): the epsilon that an attacker with these error rates proves.
# The larger of the two directions, and at least 0.

# %% tags=["lab2"]
from dpkit.course.exercises import auditing as turn

turn.bound.check(...)


# %% [markdown] tags=["question", "lab2"]
# **Question 2.** An attacker accuses 1 % of the others and finds 40 % of the members, at delta 1e-5. What is
# epsilon at least?

# %% tags=["lab2"]
turn.forty_of_a_hundred.check(...)

# %% [markdown]
# (For the next question: the kit's own function needs a few more draws, as some of them choose the threshold.)

# %% [markdown] tags=["question"]
# **Question 3.** You want to refute a claimed epsilon of 5 at delta 1e-5 by Clopper and Pearson. How many
# draws a world do you need, even if the two worlds never overlap? (At 95 %.)

# %%
turn.draws.check(...)

# %% tags=["lab2"]
turn.sheet.quiz()

# %% [markdown] tags=["slide"]
# ## What to take away
#
# - Accountants bound epsilon from above, attacks from below. Only together do they say where it lies.
# - A measured epsilon without an interval, or with a threshold chosen on its own scores, measures chance: test
#   it on equal worlds.
# - Without a further assumption, n draws show little more than log n - 1.4. A small measured epsilon proves
#   nothing.
# - One training run suffices, if it holds many canaries with a coin each.
# - Where no noise reaches, look for the event itself, not for a number.

# %% [markdown]
# **Next:** [06_how_guarantees_break](06_how_guarantees_break.ipynb) asks where guarantees break, and lets you
# judge thirty cases.

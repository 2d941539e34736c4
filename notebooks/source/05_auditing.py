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
# > **You will** build an attack from nothing, turn its errors into a lower bound on epsilon, see why the obvious
# > bound is wrong, break a mechanism, fail to break its repaired version, and audit a whole training run at once.
# > **Time** 25 seconds to run on two cores, 45 minutes to read. **Memory** 600 MB. **Needs** notebook 00; nothing else.
# > **Sources** Kairouz, Oh, Viswanath 2015, Theorem 2.1; Jagielski, Ullman, Oprea 2020; Steinke, Nasr, Jagielski
# > 2023; Gonzalez, Dulce, Ramdas, Ribero 2025.

# %% [markdown] tags=["slide"]
# An accountant proves an *upper* bound: epsilon is at most so much, if the code does what was priced. Whether it
# does, a proof cannot see. An attack looks at what comes out. It gives a *lower* bound: epsilon is at least so
# much, with 95 % confidence, and whoever claims less is wrong. Between the two lies the truth.

# %% [markdown] tags=["slide"]
# ## 1. Two worlds and a threshold
#
# A count is released with Gaussian noise of deviation 1. In one world your record is not in the data and the
# count is 100; in the other it is, and the count is 101. The attacker knows all of that but not which world it
# is. He sees one number, and says "present" if it is above a threshold. Where would you put it?

# %%
import numpy as np

rng = np.random.default_rng(0)
n = 10_000
absent, present = 100 + rng.standard_normal(n), 101 + rng.standard_normal(n)
print("absent: ", *(f"{x:.2f}" for x in absent[:6]))
print("present:", *(f"{x:.2f}" for x in present[:6]))

# %% [markdown] tags=["slide"]
# This picture will come back in every section: the attacker's **scores** without the record (blue) and with it
# (orange). What overlaps is what protects you.

# %%
from dpkit.common import plots


def worlds(scores, words, threshold=None):
    """Both worlds' scores as histograms."""
    drawn, (ax,) = plots.figure(height=2.4)
    edges = np.linspace(*np.quantile(np.concatenate(scores), (0.001, 0.999)), 60)
    for one, name, colour in zip(scores, ("absent", "present"), plots.COLOURS, strict=False):
        ax.hist(one, edges, density=True, alpha=0.55, color=colour, label=name)
    ax.vlines([threshold] if threshold else [], *ax.get_ylim(), color="black")
    return plots.picture(drawn, words)


# %% tags=["fragment"]
worlds((absent, present), "Two bell curves one deviation apart, cut at 102.", threshold=102)

# %% [markdown] tags=["slide"]
# He errs in two ways. The **false positive rate** is how often he says "present" when the record is not there,
# the **false negative rate** how often he misses it.


# %% tags=["fragment", "with-code"]
def rates(absent, present, threshold):
    """False positive and false negative rate of "present where score > threshold"."""
    return np.mean(absent > threshold), np.mean(present <= threshold)


for threshold in (100.5, 102, 103):
    fpr, fnr = rates(absent, present, threshold)
    print(f"threshold {threshold:5}: false positives {fpr:.3f}, false negatives {fnr:.3f}")

# %% [markdown] tags=["slide"]
# > **From errors to epsilon.** "Score above the threshold" is an event. If the release is
# > $(\varepsilon, \delta)$-DP, then $1 - \text{fnr} \le e^{\varepsilon}\,\text{fpr} + \delta$, so that
# > $$\varepsilon \ \ge\ \log \frac{1 - \text{fnr} - \delta}{\text{fpr}}.$$
# > Exchange the two worlds, and the same holds with fpr and fnr exchanged.

# %% [markdown] tags=["slide"]
# So the best threshold is not the one with the fewest errors. Which of the three above shows most? And is it
# *true*? The exact epsilon of this release at delta 1e-5 is known:

# %% tags=["fragment"]
from dpkit.privacy import Gaussian, Release, pld

delta = 1e-5
for threshold in (100.5, 102, 103):
    fpr, fnr = rates(absent, present, threshold)
    print(f"threshold {threshold:5}: epsilon seems at least {np.log((1 - fnr - delta) / fpr):.2f}")
print(f"proven: {pld.epsilon([Release(Gaussian(1.0))], delta=delta).epsilon:.2f}")

# %% [markdown] tags=["slide"]
# ## 2. Why that bound is wrong
#
# Far out the ratio grows. But far out there are few false positives, and a ratio of small counts is chance. The
# test that every audit has to pass: two worlds that are *the same*. Nothing can be learned there; epsilon is 0.
# What does the best threshold show?

# %% [markdown]
# Guess first.

# %% tags=["fragment"]
same, again = rng.standard_normal((2, n))
best = 0.0
for threshold in np.quantile(same, 1 - np.geomspace(1, 5_000, 60) / n):
    fpr, fnr = rates(same, again, threshold)
    best = max(best, np.log(max(1 - fnr - delta, 1e-12) / fpr))
print(f"two equal worlds: epsilon seems at least {best:.2f}")

# %% [markdown] tags=["slide"]
# Two things went wrong. Rates were taken for probabilities, and the threshold was chosen by looking at the very
# scores that it was then judged by. Both have a cure.
#
# **Intervals.** If 3 of 9,000 are false positives, how large may the probability be? So large that 3 or fewer
# would come up in only 2.5 % of repetitions. That is Clopper and Pearson's limit (1934); it holds for every n.

# %% tags=["fragment", "with-code"]
from scipy.stats import beta, binom


def upper_limit(errors, trials, alpha):
    """The largest probability with which so few errors still have probability alpha."""
    return 1.0 if errors == trials else beta.ppf(1 - alpha, errors + 1, trials - errors)


limit = upper_limit(3, 9_000, 0.025)
rare = binom.cdf(3, 9_000, limit)
print(f"3 of 9,000: at most {limit:.2e}; then 3 or fewer have probability {rare:.4f}")


# %% [markdown] tags=["slide"]
# With both limits at 97.5 %, both hold together with 95 %, and so does what follows from them. In five lines:


# %% tags=["fragment", "with-code"]
def measured(absent, present, threshold, alpha=0.05):
    """Epsilon is at least this with probability 1 - alpha, for a threshold chosen before."""
    fpr = upper_limit(np.sum(absent > threshold), len(absent), alpha / 2)
    fnr = upper_limit(np.sum(present <= threshold), len(present), alpha / 2)
    return max(0.0, np.log(max(1 - fnr - delta, 1e-300) / fpr))


print(f"the count, threshold 103: {measured(absent, present, 103):.3f}")
print(f"equal worlds, threshold 2: {measured(same, again, 2.0):.3f}")

# %% [markdown]
# The kit's own function gives the same, for a threshold fixed beforehand:

# %%
from dpkit.audit import bounds

asked = {"delta": delta, "adjacency": "add-remove"}
found = bounds.at_thresholds(absent, present, thresholds=[103], rng=rng, **asked)
print(f"epsilon at least {found.epsilon:.3f}, {found.confidence:.0%} confidence: {found.method}")

# %% [markdown]
# **A threshold that costs nothing.** Some of the scores choose it, and only the others are judged. That is
# `clopper_pearson`. Equal worlds now give 0, and should, in all but 5 % of repetitions:

# %%
found = [
    bounds.clopper_pearson(*rng.standard_normal((2, 1000)), rng=rng, **asked).epsilon
    for _ in range(200)
]
print(f"above 0 in {sum(e > 0 for e in found)} of 200 repetitions")
print(f"the count: {bounds.clopper_pearson(absent, present, rng=rng, **asked).epsilon:.2f} of 4.38")

# %% [markdown]
# ## 3. How much can an attack show at all?
#
# Of 10,000 draws without a single false positive, the limit is still 4/10,000. So without a
# further assumption $n$ draws show little more than $\log n - 1.4$, whatever leaks. Here is the best possible attacker on Gaussian releases of known
# epsilon. Another bound assumes that the whole trade-off curve is a Gaussian one. That is right here and nearly
# right for many small steps; it is an assumption, and the result says so.

# %%
from dpkit.privacy import calibrate

deviations = {}
for epsilon in (1, 4, 8):
    noise = calibrate.noise_multiplier(epsilon, sample_rate=1.0, steps=1, delta=delta, accountant=pld.epsilon)
    deviations[epsilon] = 1 / noise
print({epsilon: round(mu, 3) for epsilon, mu in deviations.items()})

# %%
from dpkit.common.show import tabled

rows = []
for size in (1_000, 10_000, 100_000):
    for epsilon, mu in deviations.items():
        pair = rng.standard_normal(size), mu + rng.standard_normal(size)
        either = (bounds.clopper_pearson, bounds.likelihood_ratio, bounds.gaussian)
        rows.append((size, epsilon, *(bound(*pair, rng=rng, **asked).epsilon for bound in either)))
columns = ["draws a world", "true epsilon", "Clopper-Pearson", "both rates jointly", "if Gaussian"]
tabled(rows, columns, digits=1)

# %% [markdown]
# Read it before you read any audit: **a small measured epsilon is weak evidence of privacy**. From 1,000 draws
# an honest release at epsilon 8 measures less than 3. A measured epsilon *above* what is claimed, however, is a
# refutation.

# %% [markdown]
# Try it yourself. Twenty rounds, and you are the attacker:

# %% tags=["explorer"]
from dpkit.course.explorers import PlayTheAttacker

PlayTheAttacker()

# %% [markdown] tags=["slide"]
# ## 4. A gradient, and a mechanism that breaks
#
# A step of DP-SGD clips each example's gradient to norm $C$, adds the batch up, and adds noise of deviation
# $zC$. The attacker may choose the worst record, his **canary**: a gradient far longer than $C$, in a direction
# that he knows. He knows all other records as well, subtracts what they add, and keeps the release along his
# direction. Here with $C = 1$, $z = 1$, batches of 64 and 50 weights:

# %%
C, z, batch, weights = 1.0, 1.0, 64, 50
others = rng.standard_normal((batch - 1, weights))
canary = np.zeros(weights)
canary[0] = 1_000.0


def clip(gradient):
    return gradient * min(1.0, C / np.linalg.norm(gradient))


def clipped_sum(gradients):
    return np.sum([clip(g) for g in gradients], axis=0)


# %% tags=["fragment"]
def scores(release, noise_std, trials=20_000):
    """The noised release along the canary, in units of its noise, without the canary and with it."""
    without = release(others)[0]
    with_it = release([*others, canary])[0]
    noise = rng.standard_normal((2, trials))
    return noise[0], (with_it - without) / noise_std + noise[1]


right = scores(clipped_sum, z * C)
worlds(right, "Two bell curves one deviation apart: the canary is hidden.")

# %% [markdown] tags=["slide"]
# Now the same with one slip, found in published code ([notebook 04](04_six_lines_of_code.ipynb), section 1): the
# *mean* gradient is clipped, and no example is. The noise is what would be right for a mean of clipped gradients.
# How far can the canary move a mean that is clipped?

# %% tags=["fragment"]
from dpkit.privacy.wrong_clipping import ClippedAfterMean

slip = ClippedAfterMean(max_grad_norm=C, batch_size=batch)


def clipped_mean(gradients):
    return slip.clip([np.sum(gradients, axis=0) / batch])[0]


wrong = scores(clipped_mean, slip.noise_std(z))
worlds(wrong, "Two bell curves that do not touch: the canary is seen.")

# %% [markdown] tags=["slide"]
# Both were charged the same, that of Gaussian noise with multiplier 1:

# %% tags=["fragment"]
charged = pld.epsilon([Release(Gaussian(z))], delta=delta).epsilon
for name, pair in {"clip, then sum": right, "mean, then clip": wrong}.items():
    found = bounds.clopper_pearson(*pair, rng=rng, **asked)
    verdict = "refuted" if found.epsilon > charged else "stands"
    print(f"{name:16} charged {charged:.2f}, measured {found.epsilon:.2f}: {verdict}")

# %% [markdown] tags=["fragment"]
# The same attack that broke the other finds about half of 4.4 here, and more draws would find more, up to 4.4.

# %% [markdown]
# ## 5. Stop as soon as it is refuted
#
# How many draws did that need? Whoever looks after every draw, and stops when the bound is above the claim,
# cheats: each look is another chance to err. Unless the test allows for it.
#
# > **Betting.** The attacker starts with a capital of 1 and bets against the claim, before each round, that the
# > record will be seen. Under the claim no bet has a gain on average. So the capital reaches 20 with probability
# > 1/20 at most, *ever* (Ville 1939): where it does, the claim is refuted at 95 %, whenever that happens.

# %%
from dpkit.audit import sequential

for name, pair in {"clip, then sum": right, "mean, then clip": wrong}.items():
    bet = sequential.refute(*pair, epsilon=charged, **asked)
    fixed = bounds.fewest_draws(*pair, epsilon=charged, rng=rng, **asked)
    print(f"{name:16} betting: {bet.draws or 'not refuted'}; Clopper-Pearson: {fixed or 'not refuted'}")

# %% [markdown]
# Draws in each world. For Clopper-Pearson it is the number that would have sufficed *had it been fixed before*;
# nobody knows it before. And where a claim is true, the bets lose, however long one goes on:

# %%
won = sum(
    sequential.refute(*rng.standard_normal((2, 500)), epsilon=0.0, **asked).draws is not None
    for _ in range(200)
)
print(f"equal worlds against the claim of epsilon 0: refuted in {won} of 200 repetitions")

# %% [markdown]
# ## 6. One run is enough
#
# Training a network 20,000 times is out of the question. But one run can hold many canaries, if each has a coin
# of its own that decides whether it takes part. Each is then a trial, and the attacker guesses the coins.
# For 1,000 canaries, a network on the digits, and `dpkit.Private` at a certified epsilon of 8:

# %%
from dpkit.audit import one_run
from dpkit.audit.training import canaries

included = one_run.coins(rng, 1_000)
seen = canaries.dirac(rng, included, epsilon=8.0, delta=delta, steps=16)
print(f"{included.sum()} of {included.size} canaries take part")
print(f"noise multiplier {seen.plan.noise_multiplier}, {seen.plan.steps} steps, "
      f"proven epsilon {seen.plan.guarantee().epsilon:.2f}")

# %% [markdown]
# Each canary is a real record with a weight of its own in the network, so that its clipped gradient is $C$ in a
# direction that no other record has. After training its score is read off that weight.

# %%
pair = canaries.final_scores(seen)
worlds(pair, "Two overlapping bell curves: canaries left out, and canaries trained on.")

# %% [markdown]
# Steinke, Nasr and Jagielski: if the run is $(\varepsilon, \delta)$-DP, then of $r$ guesses about independent
# coins no more are correct than of $r$ coins of bias $e^\varepsilon / (1 + e^\varepsilon)$, but for a term in
# delta. The attacker may abstain: he guesses only where he is sure. By hand, with $\delta = 0$:

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
# The second refines the first for a family of trade-off curves, again the Gaussian ones. One training run of a
# few seconds shows, by the first, about as much as a thousand runs in each world would (section 3).
#
# ## 7. Where no noise reaches
#
# Some slips need no statistics. RDP-GAN's text puts noise on the *value* of the loss (notebook 12). A gradient
# does not see a constant:

# %%
import torch

record, net = torch.tensor([[3.0, 4.0]]), torch.zeros(2, requires_grad=True)
for noise in (0.0, 10.0, -300.0):
    loss = (record @ net).sum() + noise
    print(f"loss {loss.item():7.1f}, gradient", torch.autograd.grad(loss, net)[0].tolist())

# %% [markdown]
# The gradient is a function of the record alone: in one world always this vector, in the other always another.
# An event has probability 1 here and 0 there, and no finite epsilon allows that. A lower bound from sampling
# would be a waste. The kit asks for the statistic under different noise, and that it is *constant* in each world:

# %%
def gradient_length(records, noise):
    net = torch.zeros(2, requires_grad=True)
    return torch.autograd.grad((records @ net).sum() + noise, net)[0].norm().item()


noises = rng.normal(scale=10, size=(2, 20))
trials = [[gradient_length(one, x) for x in row] for one, row in zip((record[:0], record), noises, strict=True)]
bounds.distinguished(*trials, rng=rng, **asked).epsilon

# %% [markdown]
# ## 8. The audits of the kit
#
# Every paper's main run, published and repaired, attacked with its own noise, sampling and number of steps. (Where
# its first steps already refute every finite epsilon, only those are run.)
# `-`: the text states no epsilon, or the code charges none.

# %%
from dpkit.papers import PAPERS
from dpkit.papers.commands.audit import table

table(*(f"{paper.NAME}/{version}" for paper in PAPERS for version in ("published", "repaired")))

# %% [markdown]
# "None fits" is what section 7 shows. `python -m dpkit audit list` has all targets, fifty of them: each slip by
# itself, ways to draw batches, attacks on training and on generators. Two of the latter are a lesson in modesty.
# An attacker who compares a generator's samples with a record, or who even asks the critic, measures next to nothing
# at a proven epsilon of 8. That does not mean that nothing leaks; it means that this attack is blind.

# %%
table("training")

# %% [markdown]
# Look at `one-canary`: more is measured than is proven. Has the proof failed? No: each bound holds with 95 %
# confidence, this attack is the best there is, and so up to one bound in twenty may be too high. It is one of eighty
# here, drawn with the first seed like all others. Whoever refutes a claim by so little should draw again.

# %% [markdown] tags=["slide"]
# ## What to take away
#
# - Accountants bound epsilon from above, attacks from below. Only together do they say where it lies.
# - A measured epsilon without an interval, or with a threshold chosen on its own scores, measures chance: test
#   it on equal worlds.
# - Without an assumption on the curve, n draws show little more than log n - 1.4. A small measured epsilon proves
#   nothing.
# - One training run suffices, if it holds many canaries with a coin each.
# - Where no noise reaches, look for the event itself, not for a number.

# %% [markdown]
# ## Your turn
#
# Put your answer in place of the dots. `hint(1)` helps, `solution()` shows the answer.

# %% [markdown] tags=["question"]
# **Question 1.** Write bound(fpr, fnr, delta): the epsilon that an attacker with these error rates proves.
# The larger of the two directions, and at least 0.

# %%
from dpkit.course.exercises import auditing as turn

turn.bound.check(...)


# %% [markdown] tags=["question"]
# **Question 2.** An attacker accuses 1 % of the others and finds 40 % of the members, at delta 1e-5. What is
# epsilon at least?

# %%
turn.forty_of_a_hundred.check(...)

# %% [markdown]
# (The kit's own function asks for a few more than the next one says: it tries 512, 724, 1,024 draws and so on, and some of
# them choose the threshold.)

# %% [markdown] tags=["question"]
# **Question 3.** You want to refute a claimed epsilon of 5 at delta 1e-5 by Clopper and Pearson. How many
# draws a world do you need, even if the two worlds never overlap? (At 95 %.)

# %%
turn.draws.check(...)

# %%
turn.sheet.quiz()

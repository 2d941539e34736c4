# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Start here: what does differential privacy buy you?
#
# **You will be able to**
#
# 1. publish a count privately, and compute the epsilon and delta that it costs
# 2. attack it, and say how far any attacker can get
# 3. compute the epsilon of a whole training run, and the noise that a budget needs
#
# - **Time** 5 seconds to run on one core, 25 minutes to read, 20 for its exercises
# - **Memory** 160 MB
# - **Needs** nothing: no data set, no download, no GPU
# - **Sources** Dwork and Roth 2014, section 3.5 and appendix A; Balle and Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 2.13

# %% [markdown] tags=["slide", "lab1"]
# A hospital trains a generator of synthetic patients and publishes it. Is any one patient recognisable in it?
# "It only learned averages" is a hope, not an answer. Differential privacy gives an answer that holds against
# every attacker, and it is a number: **epsilon**.

# %% [markdown]
# First, is this machine ready?

# %% tags=["hide-input"]
import sys
from importlib.metadata import version

for package in ("numpy", "scipy", "matplotlib", "dpkit"):
    print(f"{package:10} {version(package).split('.')[0]}.x is here")
assert sys.version_info >= (3, 11), "dpkit needs Python 3.11 or newer"

# %% [markdown] tags=["slide", "lab1"]
# ## Publish one number privately
#
# Suppose 200 people were asked whether they have a certain illness, and 37 said yes. Publishing 37 looks
# harmless. But someone who already knows 199 of the answers now knows the last one too.

# %% [markdown] tags=["slide", "lab1"]
# > **Definition 1 (neighbours).** Two data sets are neighbours if one is the other plus one record. This is
# > *add-remove* adjacency; dpkit always says which adjacency a number is for.
#
# > **Definition 2 (sensitivity).** The sensitivity of a number is the most it can change when one record is
# > added or removed. A count has sensitivity 1.
#
# The **Gaussian mechanism** adds noise with a standard deviation that is a multiple of the sensitivity.

# %% tags=["fragment", "with-code", "lab1"]
import numpy as np

count, sensitivity, noise_multiplier = 37, 1.0, 2.0
rng = np.random.default_rng(0)
published = count + noise_multiplier * sensitivity * rng.standard_normal()
print(f"true count {count}, published {published:.1f}")

# %% [markdown] tags=["lab1"]
# The count is still useful: 37, give or take 2. What did it cost the last person asked?

# %% [markdown] tags=["slide", "lab1"]
# ## What an output gives away
#
# Imagine two worlds. In one, that person did not take part and the count is 36; in the other they did, and it
# is 37. An attacker sees an output $y$ and asks in which world it is more likely. The logarithm of
# (density with the person / density without) is the **privacy loss** of $y$. It is positive where $y$ makes it
# more likely that they took part. Where does $y$ say nothing? Put your answer in place of the dots.

# %% [markdown] tags=["question", "lab1"]
# **Question 1.** The count is 37 with the person and 36 without. For which published y is the loss zero?

# %% tags=["lab1"]
from dpkit.course.exercises import start_here as turn

turn.zero_loss.check(...)

# %% tags=["fragment", "with-code", "lab1"]
def log_density(y, mean):  # up to a constant, which cancels in the loss
    return -((y - mean) ** 2) / (2 * noise_multiplier**2)


def privacy_loss(y):
    return log_density(y, 37) - log_density(y, 36)


for y in (30, 40, 45):
    print(f"output {y}: privacy loss {privacy_loss(y):+.3f}")

# %% [markdown] tags=["slide", "lab1"]
# Extreme outputs reveal a lot, but they are rare. That is why the definition has two numbers:
#
# > **Definition 3 ($(\varepsilon, \delta)$-differential privacy).** For every set $S$ of outputs and all
# > neighbours $d, d'$: $\Pr[M(d) \in S] \le e^\varepsilon \Pr[M(d') \in S] + \delta$.
#
# In words: because of one person, no event becomes more than $e^\varepsilon$ times as likely, up to a small
# probability $\delta$.

# %% [markdown] tags=["slide", "lab1"]
# For a given $\varepsilon$, the worst $S$ is the set of all $y$ with a loss above $\varepsilon$: exactly there
# (density with) exceeds $e^\varepsilon$ (density without), so every such $y$ adds to the $\delta$ that is needed,
# and no other does. Hence the smallest possible $\delta$ is
#
# $$\delta(\varepsilon) = \Pr[\text{loss} > \varepsilon \text{ with the person}] - e^\varepsilon \Pr[\text{loss} > \varepsilon \text{ without}].$$

# %% [markdown] tags=["lab1"]
# As a function of $y$ the loss is a straight line of slope 1 / noise², so one threshold on $y$ is enough.

# %% tags=["fragment", "with-code", "lab1"]
from scipy.special import ndtr  # the normal distribution function


def delta_by_hand(epsilon):
    threshold = (epsilon - privacy_loss(0)) * noise_multiplier**2  # there the loss is epsilon
    with_person = ndtr((37 - threshold) / noise_multiplier)
    without = ndtr((36 - threshold) / noise_multiplier)
    return with_person - np.exp(epsilon) * without


for epsilon in (0.5, 1.0, 2.0):
    print(f"epsilon {epsilon}: delta {delta_by_hand(epsilon):.2e}")

# %% [markdown] tags=["lab1"]
# ## Check delta a second way
#
# dpkit computes the same $\delta$ by a formula that keeps all digits where the probabilities are small (Dong,
# Roth, Su 2022, Corollary 2.13). Its answers for a record removed and for a record added must both agree with
# ours.

# %% tags=["lab1"]
from dpkit.privacy import Gaussian

mechanism = Gaussian(noise_multiplier=2.0)
for epsilon in (0.5, 1.0, 2.0):
    removed, added = mechanism.profile([epsilon])[:, 0]
    assert np.allclose([removed, added], delta_by_hand(epsilon), rtol=1e-9)
    print(f"epsilon {epsilon}: delta {removed:.2e} removed, {added:.2e} added")

# %% [markdown] tags=["slide", "lab1"]
# ## Attack it
#
# Play the attacker 200,000 times in each world: say "they were there" when the loss is above 0.2. Whatever rule
# you use, the definition promises: true-positive rate $\le e^\varepsilon \times$ false-positive rate
# $+\ \delta$.

# %% tags=["fragment", "with-code", "lab1"]
trials = 200_000
there = 37 + noise_multiplier * rng.standard_normal(trials)
absent = 36 + noise_multiplier * rng.standard_normal(trials)
right, false_alarm = (privacy_loss(there) > 0.2).mean(), (privacy_loss(absent) > 0.2).mean()
allowed = np.exp(0.2) * false_alarm + delta_by_hand(0.2)
spread = 2 * np.sqrt(right * (1 - right) / trials)
print(f"right {right:.4f} +- {spread:.4f}, allowed at most {allowed:.4f}")

# %% [markdown] tags=["slide", "lab1"]
# The attacker reaches the limit, up to chance, because this rule is the best there is at $\varepsilon = 0.2$.
# Another threshold trades one error for the other. All best attackers together make a curve:

# %% tags=["lab1"]
from scipy.special import ndtri  # the inverse of ndtr

alarms = np.linspace(0.001, 0.999, 99)  # of the worlds in which the person was absent
threshold = 36 + noise_multiplier * ndtri(1 - alarms)
missed = ndtr((threshold - 37) / noise_multiplier)

# %% tags=["hide-input", "lab1"]
from dpkit.common import plots

drawn, (ax,) = plots.figure(width=6.0, height=3.6)
plots.lines(ax, {"": (alarms, missed)}, x="false alarms (share)", y="members missed (share)")
ax.fill_between(alarms, 0, missed, color="0.92", linewidth=0)
ax.plot([0, 1], [1, 0], ":", color="grey")
ax.plot([false_alarm], [1 - right], "o", color="black")
labels = {"no attacker here": (0.1, 0.2), "guessing": (0.62, 0.42), "attacker": (0.28, 0.56)}
for label, place in labels.items():
    ax.annotate(label, place, fontsize=9)

# %% tags=["hide-input", "fragment", "lab1"]
plots.picture(
    drawn,
    "The best attackers lie on the curve, and none lies below it. Our attacker, at "
    f"({false_alarm:.2f}, {1 - right:.2f}), is on the curve; the dotted line is guessing.",
)

# %% [markdown] tags=["slide", "lab1"]
# ## Compute an epsilon for many releases
#
# Training a network privately is the same mechanism many times over. At each step, every example's gradient is
# **clipped**: scaled down to length $C$ if it is longer. The sum of the clipped gradients then has sensitivity
# $C$; it gets noise, and the network is updated with it. The losses of all steps add up (the epsilons do not
# simply multiply, as you will see). A list of what was released is a **ledger**, and an **accountant** computes
# what all of it costs together.

# %% [markdown] tags=["lab1"]
# (`rdp` is one accountant; [01_accountants](01_accountants.ipynb) explains it.)

# %% tags=["fragment", "with-code", "lab1"]
from dpkit.privacy import Release, SampledGaussian, rdp

for steps in (1, 100, 10_000):
    ledger = [Release(Gaussian(noise_multiplier=2.0), count=steps)]
    epsilon = rdp.epsilon(ledger, delta=1e-5).epsilon
    print(f"{steps:6} steps on everyone: epsilon {epsilon:9.2f}")

# %% [markdown] tags=["lab1"]
# Why 2.17 for one step, if `delta_by_hand` is below $10^{-5}$ at epsilon 2 already? RDP gives an *upper* bound,
# which is not the smallest. Find the exact epsilon: try `delta_by_hand` until it gives $10^{-5}$.
#
# <details><summary>Compare yours</summary>1.99.</details>

# %% [markdown] tags=["slide", "lab1"]
# That would be hopeless without **sampling**. If each step uses a random 1 % of the records, a person who is
# not drawn loses nothing, and nobody knows who is drawn.

# %% tags=["fragment", "with-code", "lab1"]
for steps in (1, 100, 10_000):
    ledger = [Release(SampledGaussian(noise_multiplier=2.0, sample_rate=0.01), count=steps)]
    epsilon = rdp.epsilon(ledger, delta=1e-5).epsilon
    print(f"{steps:6} steps on 1 %:      epsilon {epsilon:9.2f}")

# %% [markdown] tags=["slide", "lab1"]
# An epsilon without its context is worth little, so dpkit's answers carry theirs. (`method` names the
# accountant, `lower` is a proven lower bound: 0 where the method gives none.)

# %% tags=["fragment", "lab1"]
from dpkit.common.show import short

guarantee = rdp.epsilon(ledger, delta=1e-5)
for name, value in guarantee._asdict().items():
    print(f"{name:12} {short(value, 4) if isinstance(value, float) else value}")

# %% [markdown] tags=["lab1"]
# Which attackers can exist on this run of 10,000 steps? The next picture has the axes of the attackers' curve, and a
# mark for one attacker. No attacker lies in the grey area. Does less noise make that area larger or smaller? Guess,
# then move the noise multiplier. ([01_accountants](01_accountants.ipynb) explains the two accountants, RDP and PLD,
# and the rest of the table.)

# %% tags=["lab1"]
from dpkit.course.explorers import TradeOff

TradeOff()

# %% [markdown] tags=["slide", "lab1"]
# Now the other way round: which noise keeps 10,000 steps within epsilon 9.6?

# %% tags=["fragment", "with-code", "lab1"]
from dpkit.privacy import calibrate

noise = calibrate.noise_multiplier(9.6, sample_rate=0.01, steps=10_000, delta=1e-5)
spent = rdp.epsilon([Release(SampledGaussian(noise, 0.01), 10_000)], delta=1e-5)
assert spent.epsilon <= 9.6, "calibration ends on the private side"
print(f"noise multiplier {noise:.4f}: epsilon {spent.epsilon:.4f}")

# %% [markdown] tags=["lab1"]
# The same from a shell: `python -m dpkit noise --epsilon 9.6 --sample-rate 0.01 --steps 10000 --delta 1e-5`.

# %% [markdown] tags=["slide", "lab1"]
# ## Correct sums without a guarantee
#
# Noise protects only what it is added to. If a program also uses a private value without noise, no
# accountant can help, and dpkit says so instead of printing a small number:

# %% tags=["fragment", "with-code", "lab1"]
from dpkit.privacy import NoGuarantee

ledger = [Release(SampledGaussian(2.0, 0.01), 10_000)]
ledger += [Release(NoGuarantee("reads raw labels"))]
print(rdp.epsilon(ledger, delta=1e-5).epsilon)

# %% [markdown] tags=["slide", "lab1"]
# ## Back to the hospital
#
# Suppose that its generator came from the run above: 10,000 steps, each on 1 % of the records. Take an attacker
# who wrongly accuses 1 % of the people who were never patients. How many of the real patients can they find?
# Put it into Definition 3:

# %% tags=["fragment", "with-code", "lab1"]
most = np.exp(guarantee.epsilon) * 0.01 + guarantee.delta
print(f"at epsilon {guarantee.epsilon:.3f} at most {most:.1%} of the patients")

# %% [markdown] tags=["fragment", "lab1"]
# That holds for every attacker, on average over the noise and the batches, whatever else they know. The hospital
# may publish its generator with this sentence, if its code does what the ledger says. Does it? The course asks
# that of five published systems, and compares three numbers: the epsilon **claimed**, the epsilon **proven** and
# the epsilon **measured** by an attack.

# %% [markdown]
# ## Words
#
# | word | meaning |
# |---|---|
# | neighbours, adjacency | data sets that differ in one record: one more or less (add-remove), or one exchanged (replace-one) |
# | sensitivity | the most that one record can change what is computed, before noise |
# | noise multiplier | noise standard deviation / clip norm |
# | sample rate | the probability that a record is in a batch |
# | epsilon, delta | Definition 3; smaller is more private |
# | post-processing | what is computed from a release alone; it costs nothing more |
# | ledger, accountant | the list of what was released, and the rule that adds up its cost |
# | claimed | the epsilon that the authors state |
# | charged | the epsilon that their code's own accountant adds up |
# | proven | an epsilon that certainly holds; where a lower bound is known too, the pair is given: lower to upper |
# | measured | an epsilon that an attack has shown: the true one is at least that large |
# | repaired | a paper's method, changed where its guarantee needs it, so that the guarantee holds |
#
# ## How to read the kit
#
# - **The course**, four hours: 00 to 07, in this order.
# - **The five papers**: 10 to 14, one each, in any order.
# - **The rest**: 20 to 24, for whatever you doubt.

# %% [markdown] tags=["lab1"]
# ## Your turn
#
# Put your answer in place of the dots. `turn.weekly_noise.hint(1)` helps with question 4, and
# `turn.weekly_noise.solution()` shows its answer; so do the others. (Question 1 is above.)
#
# First, other noise: Laplace noise of scale $b$ has the density $e^{-|x| / b} / (2b)$.

# %% [markdown] tags=["question", "lab1"]
# **Question 2.** Write laplace_loss(y, scale): the privacy loss of y if the noise on 37 or 36 is Laplace.

# %% tags=["lab1"]
turn.laplace_loss.check(...)


# %% [markdown] tags=["question", "lab1"]
# **Question 3.** An attacker wrongly accuses 1 % of those who are not in the data. Which share of those who
# are can they find, at most, at epsilon 1 and delta 1e-5?

# %% tags=["lab1"]
turn.found_at_most.check(...)

# %% [markdown] tags=["question", "lab1"]
# **Question 4.** A count is published every week for a year, with fresh noise each time. Which is the
# smallest noise multiplier that keeps all 52 releases within epsilon 1 at delta 1e-5, by RDP, the accountant
# that `calibrate` asks?

# %% tags=["lab1"]
turn.weekly_noise.check(...)

# %% tags=["lab1"]
turn.sheet.quiz()

# %% [markdown] tags=["lab1"]
# ## What to take away
#
# - Epsilon bounds what *any* attacker learns about one person; delta is the probability left over.
# - The privacy loss compares two worlds, with the person and without. Rare outputs give the most away.
# - Losses add up over steps. Sampling makes 10,000 steps affordable.
# - An epsilon means little without its delta, its adjacency and its method.
# - If a single value is released without noise, no epsilon holds.

# %% [markdown]
# **Next:** [01_accountants](01_accountants.ipynb) answers why three accountants give one run three epsilons, all of them correct.

# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Why do three accountants give one run three correct epsilons?
#
# **You will be able to**
#
# 1. compute a run's epsilon by hand, from one moment of its privacy loss
# 2. say what three accountants look at, and why each of their epsilons holds
# 3. judge an epsilon that somebody else reports
#
# - **Time** 10 seconds to run on one core, 40 minutes to read, 10 for its exercises
# - **Memory** 220 MB
# - **Needs** [00_start_here](00_start_here.ipynb); no data set, no download, no GPU
# - **Sources** Mironov 2017; Mironov, Talwar, Zhang 2019; Balle et al. 2020; Asoodeh et al. 2021; Zhu, Dong, Wang 2022

# %% [markdown] tags=["lab1"]
# A network is trained on 60,000 examples for 60 epochs. Each example enters each batch independently at random;
# a batch holds 256 on average. The clipped gradients are summed, and noise of 1.1 times the clip norm is added.
# What does the run cost at $\delta = 10^{-5}$? Ask three accountants.

# %% tags=["lab1"]
from dpkit.privacy import Release, SampledGaussian, pld, rdp

size, batch, epochs, delta = 60_000, 256, 60, 1e-5
step = SampledGaussian(noise_multiplier=1.1, sample_rate=batch / size)
run = [Release(step, count=epochs * size // batch)]
classic = rdp.epsilon(run, delta=delta, conversion="classic")
improved = rdp.epsilon(run, delta=delta, conversion="improved")
certified = pld.epsilon(run, delta=delta)
for answer in (classic, improved, certified):
    print(f"epsilon {answer.epsilon:.4f}  {answer.method}")

# %% [markdown] tags=["lab1"]
# One run, one adjacency, one delta, and three epsilons. The largest is a quarter larger than the smallest. None
# of them is a mistake: each is a proven *upper bound*, and they differ in how much of the run they look at. To
# see what each looks at, begin with a single step.
#
# ## 1. What one step gives away
#
# > **Definition 1.1 (privacy loss).** Let a release have the distribution $P$ with a record and $Q$ without it.
# > The privacy loss of an output $y$ is $L = \log \frac{P(y)}{Q(y)}$. It is random, because $y$ is: drawn from
# > $P$ unless we say otherwise. (With the natural logarithm its unit is called the *nat*.)
#
# > **Definition 1.2 (privacy profile).** The smallest $\delta$ that makes the release
# > $(\varepsilon, \delta)$-private:
# >
# > $$\delta(\varepsilon) = \mathbb{E}_P\big[\max(0,\ 1 - e^{\varepsilon - L})\big] = P(L > \varepsilon) - e^\varepsilon\, Q(L > \varepsilon),$$
# >
# > and the same with $P$ and $Q$ exchanged (a record added instead of removed). The larger of the two counts.
#
# (Both forms agree: at the loss $l$, $Q$ has $e^{-l}$ times $P$'s mass.)
#
# In dpkit each mechanism knows its pair $(P, Q)$ and computes its own costs. Here are four:

# %%
import numpy as np

from dpkit.privacy import Gaussian, Laplace, RandomizedResponse

mechanisms = {
    "Gaussian": Gaussian(noise_multiplier=2.0),
    "Laplace": Laplace(scale=2.0),
    "randomised response": RandomizedResponse(epsilon=0.5),
    "sampled Gaussian": SampledGaussian(noise_multiplier=0.6, sample_rate=0.1),
}

# %%
epsilons = [0.0, 0.25, 0.5, 1.0, 2.0]
print(f"{'delta at epsilon':20}", *(f"{e:9}" for e in epsilons))
for name, mechanism in mechanisms.items():
    print(f"{name:20}", *(f"{abs(d):9.2e}" for d in mechanism.profile(epsilons).max(axis=0)))

# %% [markdown]
# Laplace noise and randomised response (answer truthfully with probability
# $e^\varepsilon / (1 + e^\varepsilon)$) have a *largest* loss, here 0.5. From there on $\delta$ is 0, which is
# called pure differential privacy. The losses of the two Gaussians have no limit. How often is the loss above a
# value $l$ (left), and what $\delta$ follows (right)? Before you look: which of the four loses a lot, but rarely?

# %%
losses = np.linspace(-1.2, 3.2, 881)
above, profiles = {}, {}
for name, mechanism in mechanisms.items():
    masses = mechanism.privacy_loss().masses(losses)[0]  # of P, between neighbouring losses
    tail = 1 - np.cumsum(masses)[:-1]
    deltas = mechanism.profile(losses[losses >= 0])[0]
    kept = deltas > 1e-7
    above[name] = (losses, tail)
    profiles[name] = (losses[losses >= 0][kept], deltas[kept])

# %% tags=["hide-input"]
from dpkit.common import plots

drawn, (left, right) = plots.figure(width=9.6, height=3.6, panels=2)
left.set(xlabel="loss l (nats)", ylabel="P(loss > l)")
right.set(xlabel="epsilon (nats)", ylabel="delta", yscale="log", ylim=(1e-7, 2))
for ax, curves in ((left, above), (right, profiles)):
    for colour, (name, (xs, ys)) in zip(plots.COLOURS, curves.items(), strict=False):
        ax.plot(xs, ys, color=colour, linewidth=1.8, label=name)

# %% tags=["hide-input"]
left.legend(frameon=False, fontsize=9)
places = ((2.1, 1e-5), (0.56, 3e-3), (0.56, 6e-2), (1.9, 6e-3))
for colour, name, place in zip(plots.COLOURS, mechanisms, places, strict=False):
    right.annotate(name, place, fontsize=9, color=colour)

# %% tags=["hide-input"]
often = {name: 1 - np.interp(0.1, losses, 1 - tail) for name, (losses, tail) in above.items()}
words = ", ".join(f"{name} {share:.2f}" for name, share in often.items())
plots.picture(
    drawn,
    "The sampled Gaussian usually loses little, but its tail is the longest. "
    f"Left, the chance of a loss above 0.1: {words}. Right, delta is 0 from epsilon 0.5 on for Laplace "
    "and randomised response.",
)

# %% [markdown]
# Randomised response has just two losses, $\pm 0.5$. Laplace loses exactly 0.5 in half of all releases. The
# sampled Gaussian usually loses almost nothing (nine times in ten the record is not even drawn), but now and then
# much more than any of the others. This skewness makes its accounting hard, and the two directions of
# Definition 1.2 differ:

# %%
removed, added = mechanisms["sampled Gaussian"].profile([0.05, 0.25, 1.0])
print("delta, record removed", *(f"{d:.3e}" for d in removed))
print("delta, record added  ", *(f"{d:.3e}" for d in added))

# %% [markdown] tags=["lab1"]
# With sampling at rate $q$, adding a record never costs more than
# $-\log(1-q) = 0.105$: beyond that, delta is 0. By hand we compute only the other direction, a record removed, which
# costs more here; the library takes the larger.
#
# ## 2. RDP: add up one moment
#
# The loss of a run is the **sum of the losses** of its steps: the logarithm of a product of ratios is a sum.
# Adding up whole distributions is slow. Adding up one moment, $\mathbb{E}[e^{(\alpha-1) L}]$, is easy.
#
# > **Definition 1.3 (Rényi differential privacy, RDP).**
# > $D_\alpha = \frac{1}{\alpha - 1} \log \mathbb{E}_P\big[e^{(\alpha-1) L}\big]$ for an **order** $\alpha > 1$.
# > Over independent steps it adds up: $T$ equal steps
# > cost $T D_\alpha$.
#
# In units of the clip norm a record moves the sum by 1; $\sigma$ is the noise multiplier,
# $q$ the sample rate. For the sampled Gaussian, $P = (1-q) N(0, \sigma^2) + q N(1, \sigma^2)$ and
# $Q = N(0, \sigma^2)$. As $P = e^L Q$, the expectation is also that of $(P/Q)^\alpha$ under $Q$. Here $P/Q$ is
# $1 - q + q r$, where $r$ is the ratio of the two Gaussians. At an integer order the power can be expanded;
# the last factor is the mean of $r^k$ (Mironov, Talwar, Zhang 2019, eq. 30):
#
# $$e^{(\alpha-1) D_\alpha} = \sum_{k=0}^{\alpha} \binom{\alpha}{k} (1-q)^{\alpha-k} q^k\, e^{k(k-1)/(2\sigma^2)}.$$

# %% tags=["lab1"]
from scipy.special import comb

noise, rate, steps = step.noise_multiplier, step.sample_rate, run[0].count


def terms(order):
    k = np.arange(order + 1)
    binomial = comb(order, k) * (1 - rate) ** (order - k) * rate**k
    return binomial * np.exp(k * (k - 1) / (2 * noise**2))


by_hand = {order: np.log(terms(order).sum()) / (order - 1) for order in range(2, 31)}
assert np.allclose(step.rdp(list(by_hand)), list(by_hand.values()), rtol=1e-9)
for order in (2, 8, 16, 30):
    print(f"order {order:2}: one step {by_hand[order]:.4e}, the run {steps * by_hand[order]:.4g}")

# %% [markdown] tags=["lab1"]
# A curve of orders is not an epsilon yet. Two theorems convert it:
#
# > **Theorem 1.4 (conversions).** A run of Rényi cost $D_\alpha$ is $(\varepsilon, \delta)$-private with
# > - classic (Mironov 2017, Prop. 3): $\varepsilon = D_\alpha + \frac{\log(1/\delta)}{\alpha - 1}$;
# > - improved (Balle et al. 2020, Thm 21): $\varepsilon = D_\alpha + \frac{\log(1/\delta) - \log \alpha}{\alpha - 1} + \log\big(1 - \tfrac{1}{\alpha}\big)$.
#
# The classic line is Markov's inequality, $P(L > \varepsilon) \le e^{(\alpha-1)(D_\alpha - \varepsilon)}$, set
# to $\delta$ and solved for $\varepsilon$. Each line holds at *every* order, so we take the order with the
# smallest value.

# %% tags=["lab1"]
orders = np.array(list(by_hand))
spent = steps * np.array(list(by_hand.values()))
hand_classic = spent + np.log(1 / delta) / (orders - 1)
hand_improved = spent + (np.log(1 / delta) - np.log(orders)) / (orders - 1) + np.log(1 - 1 / orders)
for name, found in (("classic", hand_classic), ("improved", hand_improved)):
    print(f"{name:9} by hand {found.min():.4f} at order {orders[found.argmin()]}")

# %% [markdown] tags=["lab1"]
# The library agrees to within 0.001; it also tries fractional orders. So two of the three epsilons come from
# **the same curve**. Why do they differ? The classic theorem takes Markov's bound on $P(L > \varepsilon)$ for
# $\delta$. But a loss barely above $\varepsilon$ hardly counts in Definition 1.2: its weight is only
# $1 - e^{\varepsilon - L}$. If we keep the weight, Markov's bound shrinks by a factor: the largest value of
# $(1 - e^{-x})\,e^{-(\alpha-1)x}$ over $x = L - \varepsilon$.

# %%
x, order = np.linspace(0, 2, 200_001), 8
largest = ((1 - np.exp(-x)) * np.exp(-(order - 1) * x)).max()
formula = (1 - 1 / order) ** (order - 1) / order
assert abs(largest / formula - 1) < 1e-9
less = -np.log(largest) / (order - 1)
print(f"order {order}: delta times {largest:.4f}, epsilon less {less:.4f}")

# %% [markdown]
# In general that factor is `formula`. Its logarithm over $\alpha - 1$ is just what the improved line adds to the
# classic one. That, and a slightly lower best order, is the difference between 3.01 and 2.60. Can the same curve
# give an even smaller epsilon? The best that can be proven from any *one* order is known (Asoodeh et al. 2021). To
# four digits it is the same here:

# %%
optimal = rdp.epsilon(run, delta=delta, conversion="optimal")
for answer in (classic, improved, optimal):
    print(f"{answer.epsilon:.4f}  {answer.method}")

# %% [markdown] tags=["lab1"]
# To do better, we must look at more than one moment.
#
# ## 3. PLD: add up the whole distribution
#
# > **Definition 1.5 (privacy loss distribution, PLD).** The distribution of $S = L_1 + \dots + L_T$, the sum
# > of the independent losses of all steps. The run's $\delta(\varepsilon)$ is Definition 1.2 with $S$ for $L$.
#
# (An attacker may choose the data set, and each step may depend on the ones before. One pair $(P, Q)$ per step is
# still enough: Zhu, Dong, Wang 2022, Thm 10.)
#
# A single step usually loses almost nothing. What will the sum of 100 look like, and the sum of 14,062? Guess,
# then move the steps (noise and rate are set to our run's). Each step convolves the histogram once more, and the
# tail beyond $\varepsilon$ makes $\delta$. Watch the dashed bell curve: where does it fit, and where not?

# %% tags=["lab1"]
from dpkit.course.explorers import LossesAddUp

ours = {"noise_multiplier": noise, "sample_rate": rate}  # LossesAddUp() opens with another run
LossesAddUp(controls=[one._replace(value=ours.get(one.name, one.value)) for one in LossesAddUp.controls])

# %% [markdown] tags=["lab1"]
# And for our run? Beyond the certified epsilon lies a small probability. With the weights of Definition 1.2 it is
# $\delta$:

# %% tags=["lab1"]
from dpkit.course.explorers.losses_add_up import summed

for k in (1, 10, 100, steps):
    total = summed(step, k)
    print(f"{k:6} steps: mean {total.mean:.2e}, standard deviation {total.deviation:.4f}")
tail = total.losses > certified.epsilon
counted = total.masses[tail] * -np.expm1(certified.epsilon - total.losses[tail])
print(f"beyond {certified.epsilon:.4f}: {total.masses[tail].sum():.1e}, weighted {counted.sum():.1e}")

# %% [markdown] tags=["lab1"]
# Now we can say why all three epsilons are correct. At each of them, the run's true $\delta$ is at most the
# $10^{-5}$ that was asked for:

# %% tags=["lab1"]
from dpkit.common.show import short, tabled

looks = {
    "one moment of the loss; its tail by Markov's inequality": classic,
    "the same moment; a loss just above epsilon hardly counts": improved,
    "the whole distribution of the loss, on a grid rounded up": certified,
}
deltas = [pld.delta(run, epsilon=answer.epsilon).delta for answer in looks.values()]
rows = zip(("RDP, classic", "RDP, improved", "PLD"), looks, looks.values(), deltas, strict=True)
table = [(name, looks_at, f"{a.epsilon:.2f}", short(d, 2)) for name, looks_at, a, d in rows]
tabled(table, ["accountant", "what it looks at", "epsilon", "true delta there"])

# %% [markdown] tags=["lab1"]
# At 2.38 the run has $\delta = 10^{-5}$, just as asked. At 2.60 its $\delta$ is nearly five times smaller, at 3.01
# more than a hundred times: those two epsilons hold, but understate the privacy.
# ([23_more_on_accountants](23_more_on_accountants.ipynb) simulates the run and compares these three $\delta$.)
#
# ## 4. Lower and upper: judge a number
#
# A computer adds up distributions as histograms, and moves probability to the nodes of a grid. That is a rounding
# error, and for privacy its *direction* matters. So dpkit rounds twice: once to an epsilon that is certainly too
# large, once to one that is certainly too small.

# %% [markdown]
# Take one step of a Gaussian and a very coarse grid, with *nodes* at multiples of log 2. Its *cell* of losses from 0
# to log 2 has mass 0.268 under P and 0.192 under Q.
#
# - **Upper: to both nodes.** Give 0.116 of P the loss 0, and 0.152 the loss log 2. Then Q gets 0.116 + 0.152 / 2,
#   its 0.192: both masses are kept. Plotted against $t = e^\varepsilon$, the profile becomes its **chords**, the
#   straight lines between its nodes. It is convex (a maximum of straight lines, one for each threshold), so they lie
#   above it.
# - **Lower: merge.** Replace all outputs of the cell by one, of loss log(0.268 / 0.192). That is post-processing: it
#   can only hide something, so the **merged** curve lies below.

# %%
gauss = Gaussian(noise_multiplier=1.0)
nodes = np.log(2.0) * np.arange(-1, 3)
p, q = gauss.privacy_loss().masses(nodes)  # of the cells between, and of the two beyond
t = np.linspace(0.5, 4, 400)
curve, ends = gauss.profile(np.log(t))[0], gauss.profile(nodes)[0]
chord = np.interp(t, np.exp(nodes), ends)
merged = np.maximum(0, p[:, None] - t * q[:, None]).sum(axis=0)
assert (np.diff([merged, curve, chord], axis=0) > -1e-12).all()

# %% tags=["hide-input"]
drawn, (ax,) = plots.figure(width=6.4, height=3.8)
ax.set(xlabel="t = exp(epsilon)", ylabel="delta")
certain = plots.MEANINGS["certified"]
shown = {"chords: upper": (chord, "-", certain), "profile": (curve, "-", "0.5")}
shown["merged: lower"] = (merged, "--", certain)
ax.plot(np.exp(nodes), ends, "o", color="0.5", label="nodes of the grid")
for label, (ys, style, colour) in shown.items():
    ax.plot(t, ys, style, color=colour, linewidth=1.8, label=label)

# %% tags=["hide-input"]
ax.legend(frameon=False)
at = np.searchsorted(t, 3.0)
print(f"at t = 3: merged {merged[at]:.4f} <= profile {curve[at]:.4f} <= chords {chord[at]:.4f}")
plots.picture(
    drawn,
    "The true profile lies between the merged curve and the chords. All three meet at the nodes; "
    f"at t = 3 they are {merged[at]:.4f}, {curve[at]:.4f} and {chord[at]:.4f}.",
)

# %% [markdown]
# Both roundings survive composition: if every step is charged too much, so is the run; if every step is charged
# too little, so is the run. After adding up, one grid gives `upper` and the other `lower`, and every error of the
# arithmetic counts on the safe side (proofs: `dpkit/privacy/accountants/pld/proof.md`). **The true epsilon lies
# between the two, for certain.** A finer grid brings them together:

# %%
for gap in (0.1, 0.01, 1e-3, 1e-4, 1e-5):
    pair = pld.epsilon(run, delta=delta, gap=gap)
    width = pair.epsilon - pair.lower
    print(f"gap {short(gap):>6}: {pair.lower:.5f} <= epsilon <= {pair.epsilon:.5f}, width {short(width, 2)}")

# %% [markdown]
# With such a pair we can *judge* a number that another program prints. Take 10,000 steps at rate 0.01 and noise
# 1.1. When we ran three other libraries, they gave 5.63199 (Opacus 1.6.0, RDP), 5.19262 (dp-accounting 0.6.0,
# PLD), and 5.18230 to 5.20287 (prv-accountant 0.2.0). A claim below `lower` is refuted; one above `upper`
# holds, but is loose.

# %%
theirs = [Release(SampledGaussian(1.1, 0.01), 10_000)]
pair_theirs = pld.epsilon(theirs, delta=delta, gap=1e-5)
print(f"dpkit: {pair_theirs.lower:.5f} <= epsilon <= {pair_theirs.epsilon:.5f}")
claims = {"Opacus, RDP": 5.63199, "dp-accounting, PLD": 5.19262, "prv, upper end": 5.20287}
for name, value in claims.items():
    verdict = "refuted" if value < pair_theirs.lower else "holds"
    print(f"{name:19} {value:.5f} {verdict}, {value / pair_theirs.epsilon - 1:.4%} above upper")

# %% [markdown]
# All hold. The first is loose because of its method, the other two because of their grids.
#
# ### Write your own accountant
#
# Chords, a Fourier transform and Definition 1.2 make an accountant of a dozen lines. A cell between nodes $a$ and $b$
# has masses $p$ of $P$ and $q$ of $Q$. If $u$ goes to $b$ and $p - u$ to $a$, then $Q$ keeps its mass where
# $q = (p - u) e^{-a} + u e^{-b}$. Multiply by $e^a$
# and solve: $u$ is `up` below. If one step's loss lies beyond the grid, it counts as infinite: its probability is
# added to delta.


# %%
def on_grid(mechanism, spacing, reach):
    """Nodes, masses of P (a record removed) on them, and the mass beyond; each cell keeps P and Q."""
    nodes = spacing * np.arange(-round(reach / spacing), round(reach / spacing) + 1)
    p, q = mechanism.privacy_loss().masses(nodes)
    up = (p[1:-1] - q[1:-1] * np.exp(nodes[:-1])) / -np.expm1(-spacing)  # to the upper end
    masses = np.append(p[0], up)
    masses[:-1] += p[1:-1] - up
    return nodes, masses, p[-1]


# %% [markdown]
# The sum can leave the grid, too. The transform is circular: such a sum comes back at the other end, as a *small*
# loss. `wraps` bounds the probability by Markov's inequality, as in Theorem 1.4, and it is added to $\delta$ as well.


# %%
def composed(nodes, masses, beyond, steps):
    """delta as a function of epsilon, after `steps` steps."""
    transform = np.fft.rfft(np.fft.ifftshift(masses))  # the transform wants loss 0 first
    summed = np.fft.fftshift(np.fft.irfft(transform**steps, masses.size))
    k = np.arange(1, 31)
    wraps = np.exp((steps * np.log(np.exp(np.outer(k, nodes)) @ masses) - k * nodes[-1]).min())

    def delta_at(epsilon):
        counts = np.maximum(0, -np.expm1(np.minimum(epsilon - nodes, 0)))
        return steps * beyond + wraps + counts @ summed

    return delta_at


# %%
from scipy.optimize import brentq


def epsilon_of(delta_at, delta=1e-5, most=20):
    """Where a falling profile reaches delta."""
    return brentq(lambda epsilon: delta_at(epsilon) - delta, 0, most)


for spacing in (0.005, 0.0025, 0.00125):
    mine = epsilon_of(composed(*on_grid(step, spacing, reach=16), steps))
    print(f"spacing {spacing:7}: epsilon {mine:.4f}, above lower by {mine - pair.lower:.4f}")

# %% [markdown]
# Half the spacing gives a quarter of the error. This is an upper bound, except for floating-point errors, which
# this small accountant does not count. (At `reach=2.5` and without `wraps`, it would say 2.28, below `lower`; with
# `wraps`, no epsilon.)
#
# ## 5. Compare accountants on a run of your choice
#
# Move noise, rate, steps and delta. Guess first: does half the noise double epsilon? ("Order ... decides": it gives
# the smallest epsilon. *Moments* is RDP at integer orders. *GDP* replaces the sum of losses by a bell curve.)

# %% tags=["lab1"]
from dpkit.course.explorers import Accountant

Accountant()

# %% [markdown] tags=["lab1"]
# ## Your turn
#
# `turn.one_order.hint(1)` helps with question 1, and `turn.one_order.solution()` shows its answer; so do the others.

# %% [markdown] tags=["question", "lab1"]
# **Question 1.** Take order 2 alone. Which epsilon does the improved conversion give for the run, at delta
# 1e-5?

# %% tags=["lab1"]
from dpkit.course.exercises import accountants as turn

turn.one_order.check(...)

# %% [markdown]
# The simplest way to a safe grid is to round every loss *up* to the next node. Change one line of `on_grid` (all
# of a cell's mass goes to its upper end: `up = p[1:-1]`), but predict the cost first.

# %% [markdown] tags=["question"]
# **Question 2.** By how much does rounding every loss up, on a grid of 0.00125, raise the epsilon of the run?
# The run is that of the beginning, 14,062 steps.

# %%
turn.rounding_cost.check(...)

# %% tags=["lab1"]
turn.sheet.quiz()

# %% [markdown]
# ## What to take away
#
# - Every valid upper bound is correct, and the smallest says most. Name the method, the adjacency and delta.
# - RDP looks at one moment of the loss, PLD at its whole distribution. Use PLD where every mechanism knows its
#   loss, RDP where a mechanism only knows its moments.
# - A certified pair, lower to upper, holds the true epsilon: a report below `lower` is refuted, one above `upper`
#   holds.
# - Sampling makes losses skewed: almost always next to nothing, rarely a lot.
# - Every theorem here has conditions; [22_theorems_that_mislead](22_theorems_that_mislead.ipynb) shows what happens
#   when they are forgotten.

# %% [markdown]
# **Next:** [02_train_twice](02_train_twice.ipynb) answers whether noise on the loss protects a record, by training twice.

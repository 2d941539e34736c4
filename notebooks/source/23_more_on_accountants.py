# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # More on accountants: check them, compose more, and go back from a budget
#
# **You will be able to**
#
# 1. estimate a delta of 1e-5 from 12,000 simulated runs, by importance sampling
# 2. tell apart what four composition rules charge as steps go on
# 3. find the noise, the steps or the batch that a budget allows
#
# - **Time** 30 seconds to run on one core, 25 minutes to read, 15 for its exercises
# - **Memory** 220 MB
# - **Needs** [01_accountants](01_accountants.ipynb); no data set, no download, no GPU
# - **Sources** Mironov, Talwar, Zhang 2019; Dwork and Roth 2014; Kairouz, Oh, Viswanath 2015

# %% [markdown]
# The definitions and theorems up to 1.5 are those of [01_accountants](01_accountants.ipynb), and so is the run:
# 60,000 examples, 60 epochs of batches of 256 on average, noise multiplier 1.1. Four mechanisms come along as
# well.

# %%
import numpy as np

from dpkit.privacy import Release, SampledGaussian, pld, rdp

size, batch, delta = 60_000, 256, 1e-5
noise, rate, steps = 1.1, batch / size, 60 * size // batch
step = SampledGaussian(noise_multiplier=noise, sample_rate=rate)
run = [Release(step, count=steps)]
certified = pld.epsilon(run, delta=delta)
print(f"{steps:,} steps: epsilon {certified.epsilon:.4f}")

# %%
from dpkit.privacy import Gaussian, Laplace, RandomizedResponse

mechanisms = {
    "Gaussian": Gaussian(noise_multiplier=2.0),
    "Laplace": Laplace(scale=2.0),
    "randomised response": RandomizedResponse(epsilon=0.5),
    "sampled Gaussian": SampledGaussian(noise_multiplier=0.6, sample_rate=0.1),
}

# %% [markdown]
# ## 1. Check each mechanism by quadrature
#
# Definition 1.2 is an integral of two densities. `dpkit.privacy.divergence` computes it literally, by
# quadrature: slow, simple, and independent of the mechanisms' own formulas. (Randomised response has two
# answers, so its integral is a sum of two terms.)

# %%
from dpkit.privacy import divergence

N0, N1 = divergence.normal(0, 0.6), divergence.normal(1, 0.6)
sampled = divergence.mixture([0.9, 0.1], [N0, N1])
normals = (divergence.normal(1, 2), divergence.normal(0, 2))
laplaces = (divergence.laplace(1, 2), divergence.laplace(0, 2))

# %%
pairs = {
    "Gaussian": (*normals, 25),
    "Laplace": (*laplaces, 120),
    "sampled Gaussian": (sampled, N0, 12),
}
for name, (p, q, far) in pairs.items():
    found = divergence.hockey_stick(p, q, 0.25, low=-far, high=far)
    own = mechanisms[name].profile([0.25])[0, 0]
    assert abs(found / own - 1) < 1e-7
    print(f"{name:20} by quadrature {found:.6e}, by the mechanism {own:.6e}")

# %%
yes = np.exp(0.5) / (1 + np.exp(0.5))  # the truth is yes; if it were no, 1 - yes
by_sum = max(0, yes - np.exp(0.25) * (1 - yes)) + max(0, (1 - yes) - np.exp(0.25) * yes)
own = mechanisms["randomised response"].profile([0.25])[0, 0]
assert abs(by_sum / own - 1) < 1e-12
print(f"{'randomised response':20} by a sum      {by_sum:.6e}, by the mechanism {own:.6e}")

# %% [markdown]
# Accountants ask for more than the profile: for a Rényi divergence (Definition 1.3; here of order 8), or for the
# $\mu$ of Gaussian DP ([22_theorems_that_mislead](22_theorems_that_mislead.ipynb), section 2). Where a mechanism has no
# proven answer, it says so instead of guessing:

# %%
from dpkit.privacy import Unsupported, WithoutReplacementGaussian


def asked(price):
    try:
        return f"{abs(price()):.4f}"
    except Unsupported:
        return "not known"


# %%
more = mechanisms | {"without replacement": WithoutReplacementGaussian(2.0, sample_rate=0.1)}
print(f"{'':20} {'order 8':>10} {'delta at 1':>11} {'mu':>10}")
for name, m in more.items():
    renyi = asked(lambda m=m: m.rdp([8])[0])
    profile = asked(lambda m=m: m.profile([1.0]).max())
    mu = asked(lambda m=m: m.gaussian_dp().mu)
    print(f"{name:20} {renyi:>10} {profile:>11} {mu:>10}")

# %% [markdown]
# ## 2. Check PLD by experiment
#
# The run's $\delta$ is the average of $\max(0, 1 - e^{\varepsilon - S})$, where $S$ is the sum of its 14,062
# losses. This definition is exact, so we can check it by experiment: simulate the run many times, and average.
# How many times?

# %% [markdown] tags=["question"]
# **Question 1.** An event has probability 1e-5. How many plain trials estimate that probability with a
# standard error of a tenth of it?

# %%
from dpkit.course.exercises import more_on_accountants as turn

turn.plain_trials.check(...)

# %% [markdown]
# Too many. **Importance sampling** is the way out: draw from another distribution under which large losses are
# common, and give each run a weight that corrects for it. Here we *tilt* $P$, to a distribution proportional to
# $P\,e^{7L}$. A run then has the weight $e^{-7S}$, up to a constant.
#
# How do we draw from it? $P e^{7 L} = Q\,(P/Q)^8$, multiplied out, is a mixture of $N(k, \sigma^2)$ for
# $k = 0, \dots, 8$. Its weights are the terms of the sum that gave the Rényi divergence of order 8 in
# [01_accountants](01_accountants.ipynb), section 2. (It takes about three seconds: 12,000 runs of 14,062 steps.)

# %%
from scipy.special import comb

k = np.arange(9)
weights = comb(8, k) * (1 - rate) ** (8 - k) * rate**k * np.exp(k * (k - 1) / (2 * noise**2))

# %%
rng = np.random.default_rng(1)
runs = 12_000
sums = np.empty(runs)  # the summed loss of each simulated run
for i, counts in enumerate(rng.multinomial(steps, weights / weights.sum(), size=runs)):
    y = np.repeat(np.arange(9), counts) + noise * rng.standard_normal(steps)
    sums[i] = np.log1p(rate * np.expm1((y - 0.5) / noise**2)).sum()

# %% [markdown]
# Where do the simulated runs lie, compared with runs drawn from $P$ itself?

# %%
from dpkit.common.show import short
from dpkit.course.explorers.losses_add_up import summed

total = summed(step, steps)
bins = np.linspace(-3, 6, 91)  # each 0.1 wide
plain = np.histogram(total.losses, bins, weights=total.masses)[0]
tilted = np.histogram(sums, bins)[0] / runs
beyond = total.masses[total.losses > certified.epsilon].sum()
often = (sums > certified.epsilon).mean()
print(f"beyond {certified.epsilon:.2f}: {short(beyond, 2)} of plain runs, {often:.2f} of tilted ones")

# %% tags=["hide-input"]
from dpkit.common import plots

drawn, (ax,) = plots.figure(width=7.0, height=3.4)
for bars, name, colour in ((plain, "drawn from P (computed)", plots.COLOURS[4]), (tilted, "tilted (simulated)", plots.COLOURS[3])):
    ax.stairs(bars, bins, baseline=1e-9, fill=True, alpha=0.5, color=colour, label=name)
ax.set(yscale="log", ylim=(1e-7, 2), xlabel="summed loss of a run (nats)", ylabel="probability of a bar")
ax.legend(frameon=False, loc="upper left", fontsize=9)
plots.mark(ax, certified.epsilon, f"epsilon {certified.epsilon:.2f}")

# %% tags=["hide-input"]
plots.picture(
    drawn,
    "Tilting moves the simulated runs to where delta comes from. Of runs drawn from P, "
    f"{1e5 * beyond:.0f} in 100,000 lose more than epsilon; of tilted runs, {100 * often:.0f} %.",
)

# %%
log_weight = steps * np.log(weights.sum()) - 7 * sums


def simulated(epsilon):
    """delta by importance sampling, and its standard error."""
    values = np.exp(log_weight) * np.maximum(0, 1 - np.exp(epsilon - sums))
    return values.mean(), values.std() / np.sqrt(runs)


# %%
answers = {"PLD": certified}
for conversion in ("improved", "classic"):
    answers[f"{conversion} RDP"] = rdp.epsilon(run, delta=delta, conversion=conversion)
for name, answer in answers.items():
    proven = pld.delta(run, epsilon=answer.epsilon).delta
    found, error = simulated(answer.epsilon)
    assert abs(found - proven) < 5 * error
    print(f"{name:12} epsilon {answer.epsilon:.4f}: delta {proven:.3e} by PLD (1e-5 / {delta / proven:.1f}),")
    print(f"{'':12} {found:.3e} +- {error:.1e} by experiment")

# %% [markdown]
# (The number after +- is one standard error. The experiment was for a record removed; adding one costs less
# here, and the accountant computes both.)
#
# ## 3. Compare four rules as steps go on
#
# What does it cost to go on? First a guess:

# %% [markdown] tags=["question"]
# **Question 2.** The run of the beginning goes on for another 14,062 steps. How many times as large is its
# certified epsilon?

# %%
turn.twice_as_long.check(...)

# %% tags=["guessed", "hide-output"]
longer = pld.epsilon([Release(step, count=2 * steps)], delta=delta)
print(f"epsilon {longer.epsilon:.4f}, {longer.epsilon / certified.epsilon:.4f} times as large")

# %% [markdown]
# The oldest rules add up neither moments nor distributions. They add up the finished $(\varepsilon, \delta)$ of
# each step.
#
# > **Theorem 1.6 (basic and advanced composition).** $k$ releases, each $(\varepsilon_0, \delta_0)$-private, are together
# > - basic: $(k \varepsilon_0,\ k \delta_0)$-private;
# > - advanced: $\big(\varepsilon_0 \sqrt{2 k \log(1/\delta')} + k \varepsilon_0 (e^{\varepsilon_0} - 1),\ k \delta_0 + \delta'\big)$-private, for any $\delta' > 0$ (Dwork and Roth 2014, Thm 3.20).
#
# For each step's $\varepsilon_0$ we take the exact one, from its profile at its share of $\delta$.

# %%
from dpkit.privacy import composition

small = SampledGaussian(noise_multiplier=2.0, sample_rate=0.01)
rules = (composition.basic, composition.advanced, rdp.epsilon, pld.epsilon)
names = ("basic", "advanced", "RDP", "PLD")
print(f"{'steps':>8}", *(f"{name:>10}" for name in names))
for k in (1, 10, 100, 1000, 10_000, 100_000):
    found = [rule([Release(small, k)], delta=delta).epsilon for rule in rules]
    print(f"{k:8}", *(f"{epsilon:10.3f}" for epsilon in found))

# %%
counts = np.unique(np.round(np.geomspace(1, 100_000, 16))).astype(int).tolist()
curves = {
    name: (counts, [rule([Release(small, k)], delta=delta).epsilon for k in counts])
    for name, rule in zip(names, rules, strict=True)
}

# %% tags=["hide-input"]
drawn, (ax,) = plots.figure(width=7.0, height=3.8)
ax.set_xscale("log")
plots.lines(ax, curves, x="steps (rate 0.01, noise 2)", y="epsilon at delta 1e-5", y_scale="log")
ends = ", ".join(f"{name} {ys[-1]:.4g}" for name, (_, ys) in curves.items())
plots.picture(
    drawn,
    "From ten steps on, accountants that look at the loss charge less than rules that add up epsilons. "
    f"After 100,000 steps: {ends}.",
)

# %% [markdown]
# - **Basic** is exact for one step. Afterwards it grows in proportion to the steps (a little faster, as each
#   step's share of $\delta$ shrinks).
# - **Advanced** grows more slowly. Somewhere between 10 and 100 steps it falls below basic. (Before that,
#   `advanced` answers with basic.)
# - **RDP** starts *worse* than basic: for a single step that reveals little, no order fits $\delta$ well. By ten
#   steps this disadvantage is gone.
# - **PLD** is the smallest everywhere, to within its gap.
#
# ### Check the rules by hand
#
# Theorem 1.6 by hand, at 1,000 steps. The library uses a sharper form of the advanced theorem (Kairouz, Oh,
# Viswanath 2015), so its number must be smaller.

# %%
from scipy.optimize import brentq


def epsilon_of(delta_at, delta=1e-5, most=20):
    """Where a falling profile reaches delta."""
    return brentq(lambda epsilon: delta_at(epsilon) - delta, 0, most)


# %%
k = 1000
share = epsilon_of(lambda e: small.profile([e]).max(), delta / k)
half = epsilon_of(lambda e: small.profile([e]).max(), delta / (2 * k))  # the other half is delta'
advanced = half * np.sqrt(2 * k * np.log(2 / delta)) + k * half * np.expm1(half)
own = [rule([Release(small, k)], delta=delta).epsilon for rule in rules[:2]]
assert abs(own[0] / (k * share) - 1) < 1e-9
assert own[1] <= advanced
print(f"basic: by hand {k * share:.4f}, the library {own[0]:.4f}")
print(f"advanced: by hand {advanced:.4f}, the library {own[1]:.4f}")

# %% [markdown]
# And the two accountants: without sampling, $k$ Gaussian releases are equivalent to one with $1/\sqrt{k}$ of
# the noise. So the truth (in the middle of each line below) is known in closed form.

# %%
for k in (1, 10, 100):
    many = [Release(Gaussian(20.0), k)]
    truth = epsilon_of(lambda e, k=k: Gaussian(20.0 / np.sqrt(k)).profile([e])[0, 0])
    pair = pld.epsilon(many, delta=delta)
    loose = rdp.epsilon(many, delta=delta).epsilon
    assert pair.lower <= truth <= pair.epsilon <= loose
    print(f"{k:3} steps: {pair.lower:.4f} <= {truth:.4f} <= {pair.epsilon:.4f}; RDP {loose:.4f}")

# %% [markdown]
# ## 4. Go back from a budget
#
# Usually the question is the other way round: which noise, how many steps, which sample rate fit a budget?
# **Calibration** asks an accountant (any of them) until two epsilons enclose the budget, and returns the setting
# on the private side. Which noise would our run need for epsilon 2? And with that noise, how many steps and
# which rate are allowed? The answers must lead back to 14,062 steps and to 256 in 60,000. (A few seconds.)

# %%
from dpkit.privacy import calibrate

fit = {"delta": delta, "accountant": pld.epsilon}
found = calibrate.noise_multiplier(2.0, sample_rate=rate, steps=steps, **fit)
most_steps = calibrate.steps(2.0, mechanism=SampledGaussian(found, rate), **fit)
best_rate = calibrate.sample_rate(2.0, noise_multiplier=found, steps=steps, **fit)
print(f"noise {found:.4f}; steps {most_steps}; rate {best_rate * size:.3f} in 60,000")


# %%
def price(noise, rate, steps):
    return pld.epsilon([Release(SampledGaussian(noise, rate), steps)], delta=delta).epsilon


inside = [(found, rate, steps), (found, rate, most_steps), (found, best_rate, steps)]
a_little = 1 + 1e-5
beyond = [(found / a_little, rate, steps), (found, rate, most_steps + 1), (found, best_rate * a_little, steps)]
assert all(price(*one) <= 2.0 for one in inside)
assert all(price(*one) > 2.0 for one in beyond)
print(f"at most {max(price(*one) for one in inside):.5f}; a little further {min(price(*one) for one in beyond):.5f}")

# %% [markdown]
# Each answer keeps to the budget, and a little further it would not. By RDP the same budget needs more noise, so
# a looser accountant costs accuracy:

# %%
by_rdp = calibrate.noise_multiplier(2.0, sample_rate=rate, steps=steps, delta=delta)
print(f"noise for epsilon 2: RDP {by_rdp:.4f}, PLD {found:.4f}: {by_rdp / found - 1:.1%} more")

# %% [markdown]
# ### Noise that changes
#
# A ledger may hold as many different releases as you like. Here the noise falls from 2 to 1 over 1,000 steps,
# and the accountant adds up a thousand different distributions.

# %%
from dpkit.privacy.schedules import Linear

schedule = Linear(start=2.0, end=1.0, over=999)
noises = np.array([schedule(i) for i in range(1000)])
falling = [Release(SampledGaussian(n, sample_rate=0.01)) for n in noises.tolist()]
pair = pld.epsilon(falling, delta=delta, gap=0.01)
same = calibrate.noise_multiplier(pair.epsilon, sample_rate=0.01, steps=1000, **fit)
print(f"{pair.lower:.4f} <= epsilon <= {pair.epsilon:.4f}")
print(f"constant noise of the same cost: {same:.4f}; mean of the schedule {noises.mean():.4f}")

# %% [markdown]
# The constant noise is less than the mean: the last, least noisy steps cost more than the first ones save.
# Check the cost a second, faster way. More noise never costs more. So round all noises *down* to multiples of
# 0.05 for an upper bound, or *up* for a lower one, and only 21 different releases are left.


# %%
def rounded_noise(way):
    levels, counts = np.unique(way(noises * 20) / 20, return_counts=True)
    parts = zip(levels.tolist(), counts.tolist(), strict=True)
    return pld.epsilon([Release(SampledGaussian(n, 0.01), k) for n, k in parts], delta=delta)


high, low = rounded_noise(np.floor), rounded_noise(np.ceil)
assert low.lower <= pair.lower <= pair.epsilon <= high.epsilon
print(f"{low.lower:.4f} <= epsilon <= {high.epsilon:.4f}")

# %% [markdown]
# ## Your turn
#
# `turn.clinic_batch.hint(1)` helps with question 4, and `turn.clinic_batch.solution()` shows its answer; so do the
# others. (Questions 1 and 2 are above.)

# %% [markdown] tags=["question"]
# **Question 3.** A step has rate 0.01 and noise 2; delta is 1e-5. From how many steps on is
# `composition.advanced` smaller than `composition.basic`?

# %%
turn.advanced_pays.check(...)

# %% [markdown] tags=["question"]
# **Question 4.** A clinic may spend epsilon 1 on 5,000 steps with noise 1 (delta 1e-5, add-remove). How large
# may its average batch of 60,000 patients be, by PLD?

# %%
turn.clinic_batch.check(...)

# %% [markdown]
# ## What to take away
#
# - An exact definition can be checked by experiment; tilting makes rare large losses common.
# - Rules that add up finished epsilons are exact for one step, and loose after ten.
# - Calibration goes back from a budget to noise, steps or rate, and ends on the private side.
# - A looser accountant costs noise: RDP needs 5.8 % more here than PLD.
# - Noise may change from step to step; the least noisy steps cost the most.

# %% [markdown]
# **Next:** [24_explorers](24_explorers.ipynb) answers what each number costs, by moving it.

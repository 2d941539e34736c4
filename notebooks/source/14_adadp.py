# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # AdaDP: should the noise follow the gradient?
#
# **You will be able to**
#
# 1. compute what noise of any shape costs, and tell which shape keeps a gradient's direction best
# 2. find the one record that AdaDP's noise gives away, and say why no epsilon covers it
# 3. tell apart what may steer the next step's noise and what may not, and compute when a repair runs away
#
# - **Time** 60 seconds to run on two cores, 60 minutes to read, 15 for its exercises
# - **Memory** 880 MB
# - **Needs** [01_accountants](01_accountants.ipynb); the digits come with scikit-learn: no download, no GPU
# - **Source** Xu, Shi, Liu, Zhao and Chen, "An Adaptive and Fast Convergent Approach to Differentially Private Deep Learning", INFOCOM 2020 (preprint 2019). It has no public code.
#
# DP-SGD gives every coordinate of a gradient the same noise. AdaDP's noise *follows the gradient*: it clips each
# coordinate separately, at a bound learned from that coordinate's past, and adds noise in proportion to the bound.
# With a learning rate that adapts in the same way (RMSProp), the paper reports half the privacy cost of DP-SGD at
# equal accuracy. Its networks are classifiers, and so is a private GAN's discriminator.
#
# ## 1. One price, three shapes
#
# A query has two coordinates. One record moves the first by up to $s_1 = 12$ and the second by up to
# $s_2 = 6$. We add noise of deviation $\sigma_1$ to the first and $\sigma_2$ to the second.
#
# > **Lemma 1.** With $\sum_i s_i^2 / \sigma_i^2 \le 1 / \sigma_*^2$, the release is as private as a query of
# > sensitivity 1 with noise $\sigma_*$.
#
# The paper calls the sum $H$, and spends $1 / \sigma_*^2 = 1$ of it in three ways: noise in proportion to the
# sensitivity (*adaptive*), the same for both (*uniform*, as in DP-SGD), or more where the sensitivity is small
# (*inverse*, which it ascribes to the rival DpOpt).

# %%
from dpkit.papers.adadp import example

s = example.SENSITIVITIES
for name, noise in example.PRINTED.items():
    used = example.privacy_used(s, noise)
    spent = example.price(s, noise, delta=1e-5)
    print(f"{name:9} noise {noise}: H {used:.4f}, epsilon {spent.epsilon:.4f} at delta 1e-5")
print(spent.adjacency, "by", spent.method)

# %% [markdown]
# All three keep the promise. **Check it a second way.** By the proof, the privacy loss is normal
# with mean $H/2$ and variance $H$. Draw noise, and compute the loss:

# %%
import numpy as np

draws = np.random.default_rng(0).standard_normal((1_000_000, 2))
for name, noise in example.PRINTED.items():
    z, shift = draws, np.divide(s, noise)  # both in units of the noise
    loss = (((z + shift) ** 2 - z**2) / 2).sum(axis=1)
    print(f"{name:9} mean {loss.mean():.3f}, variance {loss.var():.3f}")

# %% [markdown]
# Means of a half and variances of one, as they should be. At exactly $H = 1$ (the paper rounds upwards) all three cost
# the same. Which one does the least harm?
#
# The paper measures harm by direction: the mean cosine between the value $f = (10, 5)$ and $f$ plus noise, over
# 10,000 draws. It concludes from its three that coordinates with a larger sensitivity tolerate more noise; all else
# builds on that. What do you expect?

# %%
for name, noise in example.PRINTED.items():
    fair = example.to_one_level(s, noise, noise_multiplier=1.0)
    drawn = example.mean_cosine(example.VALUES, noise, draws=10_000, seed=0)
    exact = [example.exact_mean_cosine(example.VALUES, n) for n in (noise, fair)]
    print(f"{name:9} printed {example.PRINTED_COSINES[name]}, drawn {drawn.value:.3f} +- "
          f"{drawn.standard_error:.3f}, exact {exact[0]:.4f}, at H = 1 {exact[1]:.4f}")

# %% [markdown]
# *Exact* is an integral, *drawn* an average. They agree with each other and not with the printed values, and the
# order differs too: *uniform* noise keeps the direction best.
#
# Why? Adaptive noise has the total variance $\sigma_*^2\, m \sum s_i^2$, with $m$ coordinates, and uniform noise has
# the same. Adaptive noise is not *less* noise, only turned towards the sensitive coordinates. By Cauchy and
# Schwarz, noise in proportion to the *square root* of the sensitivity has the least variance:

# %%
def shape(power):
    """Noise in proportion to a power of the sensitivities, at H = 1."""
    return example.shaped(s, power=power, noise_multiplier=1.0)


shapes = {name: shape(power) for name, power in example.POWERS.items()}
for name, noise in shapes.items():
    cosine = example.exact_mean_cosine(example.VALUES, noise)
    print(f"{name:11} s^{example.POWERS[name]:+.1f}: variance {sum(np.square(noise)):5.1f}, cosine {cosine:.4f}")

# %% tags=["hide-input"]
from matplotlib.patches import Ellipse

from dpkit.common import plots

drawn, (left, right) = plots.figure(width=9.4, height=4, panels=2)
hues = dict(zip(shapes, (*plots.COLOURS[:3], "black"), strict=True))
for name, (first, second) in shapes.items():
    left.add_patch(Ellipse(example.VALUES, 2 * first, 2 * second, fill=False, edgecolor=hues[name], lw=1.8))
left.annotate("", example.VALUES, (0, 0), arrowprops={"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0})
left.set(xlim=(-17, 37), ylim=(-21, 31), aspect="equal", xlabel="coordinate 1", ylabel="coordinate 2")
powers = np.linspace(-1.5, 2, 36)

# %% tags=["hide-input"]
right.plot(powers, [example.exact_mean_cosine(example.VALUES, shape(p)) for p in powers.tolist()], color="0.6")
for name, power in example.POWERS.items():
    cosine = example.exact_mean_cosine(example.VALUES, shapes[name])
    right.plot(power, cosine, "o", color=hues[name])
    offset, side = ((6, 4), "left") if power >= 0.5 else ((-6, 4), "right")
    plots.note(right, name, (power, cosine), offset, color=hues[name], ha=side, bbox=None)
right.set(xlabel="noise in proportion to s to this power", ylabel="mean cosine with the value", ylim=(0.35, 0.5))
plots.picture(drawn, "The price is fixed, the shape is free: at epsilon 4.38, noise like the square root of the "
              "sensitivity keeps the direction best. Left: the value (arrow), one standard deviation of each noise; "
              "right: the mean cosine by power, best at 0.43.")

# %% [markdown]
# Is uniform always better than adaptive? Guess: with a value five times as long, (50, 25), which noise would you
# choose? And with (5, 10)?

# %%
from dpkit.common.show import tabled

asked = ((10, 5), (20, 10), (30, 15), (50, 25), (5, 10))
tabled([{"value": str(value)} | {name: example.exact_mean_cosine(value, noise) for name, noise in shapes.items()}
        for value in asked], digits=4)

# %% [markdown]
# A value that stands out from its noise prefers the adaptive shape; so does one that is large where a record
# moves little. In private
# training most steps drown in their noise instead. Only training can settle the matter.
#
# ## 2. What the theorem charges
#
# Theorem 1 adds up $T$ steps on lots of $L$ records out of $N$. Its example, $L = 600$, $N = 60{,}000$,
# $\sigma_* = 0.9$ and 1,800 steps, states best order 6 and $\varepsilon = 4.0$ at $\delta = 10^{-5}$. Compute
# it as printed, and as Algorithm 1 samples, by Poisson lots of rate $q = L/N$:

# %%
from dpkit.papers.adadp.theorems import ORDERS, Theorem1
from dpkit.privacy import Release, SampledGaussian, WithoutReplacementGaussian, pld, rdp

stated = Theorem1(0.9, sample_rate=0.01).epsilon(1800, delta=1e-5)
run = [Release(SampledGaussian(0.9, 0.01), 1800)]
poisson = rdp.epsilon(run, delta=1e-5, conversion="classic", orders=ORDERS)
proven = pld.epsilon(run, delta=1e-5)
print(f"Theorem 1: {stated.epsilon:.3f} at order {stated.order}")
print(f"Poisson sampling, RDP at the same orders: {poisson.epsilon:.3f}; {poisson.method}")
print(f"Poisson sampling, certified: {proven.lower:.4f} to {proven.epsilon:.4f}, {proven.adjacency}")

# %%
fixed = pld.epsilon([Release(WithoutReplacementGaussian(0.9, 0.01), 1800)], delta=1e-5)
print(f"lots of a fixed size, certified: {fixed.lower:.4f} to {fixed.epsilon:.4f}, {fixed.adjacency}")

# %% [markdown]
# The theorem does not give 4.0; the algorithm's own sampling does, at order 6. Theorem 1 is for lots of a *fixed*
# size and one record *replaced* by another, whose gradient is at most $C$ away. For those, too, a certified
# accountant proves less than 4.0: the number is right for both samplings, and the theorem charges too much. (Two
# gradients clipped at $C$ can be $2C$ apart. Then Theorem 1's epsilon is more than 24.)

# %%
steps = [100, 200, 400, 800, 1200, 1800]
charge, z = Theorem1(0.9, sample_rate=0.01), SampledGaussian(0.9, 0.01)
curves = {
    "Theorem 1, charged": [charge.epsilon(n, delta=1e-5).epsilon for n in steps],
    "Poisson, RDP": [rdp.epsilon([Release(z, n)], delta=1e-5, conversion="classic",
                                 orders=ORDERS).epsilon for n in steps],
    "Poisson, certified": [pld.epsilon([Release(z, n)], delta=1e-5).epsilon for n in steps],
}

# %% tags=["hide-input"]
drawn, (ax,) = plots.figure(width=6.4, height=3.2)
shown = {name: (steps, values) for name, values in curves.items()}
plots.lines(ax, shown, x="steps", y="epsilon at delta 1e-5")
ax.set_ylim(0)
ends = ", ".join(f"{name} {values[-1]:.2f}" for name, values in curves.items())
print("after 1,800 steps:", ends)
plots.picture(drawn, f"Theorem 1 charges more than twice what is proven, all along the run. After 1,800 steps: {ends}.")

# %% [markdown]
# The paper's data sets "differ in only one record". A coordinate clipped to $[-s_i, s_i]$ moves by $s_i$ if that
# record is *added or removed*, but by up to $2 s_i$ if it is *replaced*. From here on everything is add-remove.
#
# ## 3. A race on Beale's function
#
# The paper's second experiment walks down Beale's function for 150 steps, with noise and without, and
# reports how far the noise drives each method from its own course: 0.21 for AdaDP and 0.90 for DP-SGD. The
# function's last term is printed with the exponent 3 instead of 2:

# %%
from dpkit.papers.adadp.trajectories import BEALE, BEALE_AS_PRINTED

for name, place in (("at its minimum", (3.0, 0.5)), ("in a corner", (4.5, -4.5))):
    usual, printed = (one.value(*place) for one in (BEALE, BEALE_AS_PRINTED))
    print(f"{name} {place}: {usual:.0f} as usual, {printed:.0f} as printed")

# %% [markdown]
# A cube has no minimum: down there the function falls for ever, probably a misprint. What matters more: start,
# learning rate, noise level and clip norm are not printed. So we declare some, and run both methods with the
# same noise.

# %%
from dpkit.papers.adadp import trajectories

normals = np.random.default_rng(0).standard_normal((150, 1, 2))
start = np.array([[1.0, 1.0]])
methods = {"AdaDP": trajectories.adadp, "DP-SGD": trajectories.dp_sgd}
for rate, noise in ((0.003, 1.0), (0.03, 1.0), (0.03, 3.0), (0.1, 1.0), (0.1, 3.0)):
    setting = trajectories.TrajectorySetting(rate, noise, 1.0)
    found = {name: trajectories.distances(walk, BEALE, start, setting, normals)[0].item()
             for name, walk in methods.items()}
    told = ", ".join(f"{name} {distance:.3f}" for name, distance in found.items())
    print(f"rate {rate:5}, noise {noise}: {told}")

# %%
def path(walk, rate, noise):
    """The start and the 150 places after it, (151, 2), at clip norm 1."""
    setting = trajectories.TrajectorySetting(rate, noise, 1.0)
    return np.concatenate([start, *walk(BEALE, start, setting, normals)])


paths = {(name, rate, noise): path(walk, rate, noise)
         for name, walk in methods.items() for rate in (0.03, 0.1) for noise in (0.0, 3.0)}
for (name, rate, noise), places in paths.items():
    print(f"{name:6} rate {rate:4}, noise {noise}: ends at ({places[-1, 0]:.2f}, {places[-1, 1]:.2f})")

# %% tags=["hide-input"]
drawn, axes = plots.figure(width=8.6, height=3.8, panels=2)
x, y = np.meshgrid(np.linspace(-1, 8.5, 191), np.linspace(-1.6, 1.9, 141))
for ax, rate in zip(axes, (0.03, 0.1), strict=True):
    ax.contour(x, y, np.log1p(BEALE.value(x, y)), levels=16, colors="0.87", linewidths=0.7)
    for name, colour in zip(methods, plots.COLOURS, strict=False):
        ax.plot(*paths[name, rate, 3.0].T, color=colour, linewidth=1, label=f"{name}, noise 3")
        ax.plot(*paths[name, rate, 0.0].T, color="black", linewidth=1.6, linestyle=":",
                label="noise-free" if name == "AdaDP" else None)
    ax.plot(3, 0.5, "*", color=plots.COLOURS[2], markersize=11, zorder=3)

# %% tags=["hide-input"]
for ax, rate in zip(axes, (0.03, 0.1), strict=True):
    ax.set_title(f"learning rate {rate:g}", fontsize=10)
    ax.set(xlabel="x", ylabel="y")
axes[0].legend(fontsize=9, frameon=False, loc="lower right")
plots.picture(drawn, "Which method stays closer to its course depends on the learning rate. At 0.03 the noise drives "
              "AdaDP further away, at 0.1 DP-SGD, out to x = 8. Beale's function from (1, 1), 150 steps at clip "
              "norm 1; the star is the minimum.")

# %% [markdown]
# AdaDP's noisy path lags behind at rate 0.03, because its own noise enters the size that RMSProp divides by. The kit
# stores the distances over a declared grid of 1,920 settings. What they say of the paper's two numbers:

# %%
from dpkit.papers import adadp as paper
from dpkit.papers.claims import check

claims = {claim.id.split("/")[1]: claim for claim in paper.CLAIMS}


def explained(*names):
    """A table of claims with their verdicts and explanations."""
    found = [check(claims[name]) for name in names]
    return tabled([(v.claim.name, v.verdict, v.explanation) for v in found], ["claim", "verdict", "why"])


explained("beale-adadp", "beale-dpsgd")

# %% [markdown]
# ## 4. Algorithm 1, and what its text leaves open
#
# Algorithm 1 keeps a history $E'_i$ of each coordinate's squared gradient. Once its variance over coordinates
# exceeds $G$, clipping and noise go by coordinate (*local* clipping); before that they are DP-SGD's. The listing
# in our words:
#
# | line | what happens |
# |---|---|
# | 3 to 5 | draw a lot, each record with probability $L / N$; compute the gradient $g_t(x)$ of each |
# | 7 | is the variance over coordinates of the history's roots above $G$? |
# | 9, 10 | if so, clip coordinate $i$ to $\pm s_i = \pm\beta \sqrt{E'_i}$ |
# | 12, 13 | and give it noise of deviation $\sigma_i = \sigma_* \sqrt{m}\, s_i$ |
# | 16, 18 | if not, clip the whole gradient to $C$, with noise of deviation $C \sigma_*$ |
# | 22 | $E$: a history of the squares of *noised* gradients, for the learning rate |
# | 23 | $E'$: a history of the squares of gradients *without noise*, for clipping and noise |
# | 25, 26 | divide by $\sqrt{E + \epsilon_0}$, average over the lot, take the step |
#
# The step's code names these lines:

# %%
from dpkit.course.step_source import step_source
from dpkit.papers.adadp.noise_shapes import RawHistory

step_source(paper.step, RawHistory.now, RawHistory.switched, RawHistory.see)

# %% [markdown]
# (`super()` is DP-SGD's clipping at $C$, and `update` is torch's RMSProp, which keeps $E$.)
#
# | the paper | the kit | below |
# |---|---|---|
# | $\sigma_*$, noise scale | `noise_multiplier` | 2 |
# | $L$ of $N$, lot | `sampling`, `public_size`; $q = L / N$ | 240 of 1,437 |
# | $C$, $\beta$, $G$, $\gamma'$ | in `noise`: `Published(...)` | as in the paper |
# | $\gamma$ | `decay` of `RmsProp`, which is $1 - \gamma$ | 0.9, so $\gamma = 0.1$ |
#
# Besides the neighbours (section 2), three things are open, and each changes the noise by a large factor:
#
# | question | readings |
# |---|---|
# | whose gradient enters the history? | the lot's *mean*, its *sum*, or each *example*'s |
# | where is noise added? | to the lot's *sum*, once (line 26), or to each *example* (lines 10 to 13 say $g_t(x)$) |
# | whose variance is compared with $G$? | that of $\sqrt{E'}$ (line 7: *root*) or of $E'$ (the text: *square*) |
#
# All are settings of the kit. The network here is small, 784-30-10, for scikit-learn's digits.

# %%
from dataclasses import replace

import torch

from dpkit import datasets
from dpkit.papers.adadp.settings import Flat, Published
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.training.optimizers import RmsProp, Sgd

# Training amplifies the last digits, which are a machine's own: in double precision they stay small.
torch.set_default_dtype(torch.float64)

# %%
published = replace(
    paper.SETTINGS, widths=(784, 30, 10), pca_noise=None, sampling=PoissonSampling(240),
    noise_multiplier=2.0, target_epsilon=4.0, optimizer=RmsProp(Constant(0.01), decay=0.9),
    max_steps=80, chosen="by hand, on the public digits",
)
ledger = published.as_if_public(public_size=1437, steps=80)
print(f"charged (Theorem 1) {published.charged(public_size=1437, steps=80):.3f}")
print(f"if the history were public {pld.epsilon(ledger, delta=1e-5).epsilon:.3f}")
own = pld.epsilon(published.ledger(public_size=1437, steps=80), delta=1e-5)
print(f"proven {own.epsilon}, delta 1e-5, {own.adjacency}")

# %% [markdown]
# *Proven: infinite.* Section 5 shows why.
#
# ### One step, piece by piece
#
# Take a lot of four digits. `paper.step` makes the first step, in which $E'$ is still 0 and clipping is global. We
# make the second one ourselves: lines 4 and 5, and the rule by line 7.

# %%
from tqdm.auto import tqdm

from dpkit.training import Data, generator_on, train

digits, cpu = datasets.digits(split="train"), torch.device("cpu")
images, labels = torch.from_numpy(digits.flat()).double(), torch.from_numpy(digits.labels)
data, test = Data(images, labels, public_size=1437), datasets.digits(split="test")
asked = torch.from_numpy(test.flat()).double(), torch.from_numpy(test.labels)

# %%
from dpkit.papers.adadp.algorithm import itself
from dpkit.training import noised_each, per_example, set_rate, update

four, lot = replace(published, sampling=PoissonSampling(4)), (images[:4], labels[:4])
model, rng = paper.new_classifier(four, seed=0, device=cpu), generator_on(cpu, reproducible_seed=0)
paper.step(model, *lot, settings=four, index=0, rng=rng)
gradients, losses = per_example(model.net, itself, *lot)  # lines 4, 5
print("losses", losses.detach().numpy().round(3), "clipped locally (line 7):", model.shape.switched())
for (name, _), norms in zip(model.net.net.named_parameters(), gradients.norms(), strict=True):
    print(f"{name:8} norm of each example's gradient", norms.numpy().round(3))

# %% [markdown]
# Next come the bounds $s_i$, the deviations $\sigma_i$ and the noisy sum (norms over each tensor):

# %%
rule, stds = model.shape.now()  # lines 9, 12
each = next(gradients.each())  # full gradients, (examples, *shape) of each tensor
sums = [g.clip(-s, s).sum(0) for g, s in zip(each, rule.bounds, strict=True)]  # line 10
noisy = noised_each(sums, noise_stds=stds, rng=rng)  # line 13, once for the lot
names = [name for name, _ in model.net.net.named_parameters()]
for name, g, *rest in zip(names, each, rule.bounds, stds, sums, noisy, strict=True):
    told = zip(("s", "sigma", "clipped sum", "noisy sum"), rest, strict=True)
    print(f"{name:8} {tuple(g.shape)!s:13}", ", ".join(f"{what} {x.norm():.3g}" for what, x in told))
print(f"coordinates that are released, m: {rule.coordinates:,}")

# %% [markdown]
# In every coordinate the deviation is $\sigma_* \sqrt{m}$ times the bound, here 157 times. Coordinates outside $m$,
# such as weights of pixels without ink, have $s_i = \sigma_i = 0$ (section 5). What remains is line 23, which
# squares the lot's *raw* mean gradient, and the update. **Check it a second way** with `paper.step`:

# %%
model.shape.see(noisy, lambda of: [g.mean(0).square() for g in each])  # line 23
set_rate(model.optimizer, four.optimizer.rate(1))
update(model.optimizer, list(model.net.parameters()), [n / four.lot for n in noisy])  # lines 22, 25, 26
whole, rng = paper.new_classifier(four, seed=0, device=cpu), generator_on(cpu, reproducible_seed=0)
for index in range(2):
    paper.step(whole, *lot, settings=four, index=index, rng=rng)
for part in ("net", "shape"):  # the weights, and E' with the shape's buffers
    ours, theirs = (getattr(one, part).state_dict().values() for one in (model, whole))
    assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(ours, theirs, strict=True))
print(f"all {sum(p.numel() for p in model.net.parameters()):,} weights and their E' agree with paper.step")

# %% [markdown]
# ### Each reading, trained
#
# Train each reading for 80 steps on the same lots, with DP-SGD and *AdaL*, which is DP-SGD's noise with
# AdaDP's learning rate. Guess the order, then wait about half a minute.

# %%
def trained(settings, steps=80):
    """A classifier after some steps, and its accuracy on test images before and after them."""
    model = paper.new_classifier(settings, seed=0, device=cpu)
    before = paper.accuracy(model.net.net, *asked)
    rng = generator_on(cpu, reproducible_seed=0)
    run = train(paper.step, model, data, settings=settings, rng=rng, steps=steps)
    for _ in tqdm(run, total=steps, leave=False):
        pass
    return model, before, paper.accuracy(model.net.net, *asked)

# %%
readings = {
    "DP-SGD": replace(published, noise=Flat(4.0), optimizer=Sgd(Constant(0.5))),
    "AdaL": replace(published, noise=Flat(4.0)),
    "AdaDP, the listing": published,
    "history of the sum": replace(published, noise=Published(4.0, history="sum")),
    "history of examples": replace(published, noise=Published(4.0, history="example")),
    "noise on examples": replace(published, noise=Published(4.0, noise_on="example")),
    "variance of squares": replace(published, noise=Published(4.0, spread="square")),
}

# %%
models = {name: trained(settings) for name, settings in readings.items()}
for name, (_, before, after) in models.items():
    print(f"{name:20} accuracy {before:.3f} before, {after:.3f} after")
shape = models["variance of squares"][0].shape
print("variance of squares, clipped locally:", shape.switched())

# %% [markdown]
# With the variance *of squares* nothing is ever clipped locally at this size: it is AdaL. Noise on examples is
# $\sqrt{240}$ times as much, and nothing is learned. The listing learns, but far less than DP-SGD with the same
# $\sigma_*$. Where is it lost?
#
# **Check it a second way**, by the paper's own measure. After 20 steps of AdaL, how well does each kind of clipping,
# and then of noise, keep the direction of a lot's mean gradient? Local clipping even gets the *right* bounds, $1.2$
# times the mean gradient's own coordinates. The last kind clips gradients *whole*, in units $d_i$ that follow the
# size of their coordinates, with noise in the same units:

# %%
model = trained(readings["AdaL"], steps=20)[0]

# %%
gradients, _ = per_example(model.net, itself, images[:240], labels[:240])
each = torch.cat([torch.cat([g.flatten(1) for g in part], 1) for part in gradients.each()])
mean, m = each.mean(0), each.shape[1]
s = 1.2 * mean.abs()
local = each.clip(-s, s).mean(0)
flat = (each * (4 / each.norm(dim=1, keepdim=True)).clip(max=1)).mean(0)
print(f"{m:,} coordinates; an example's gradient is {each.norm(dim=1).median():.1f} long, "
      f"their mean {mean.norm():.1f}")

# %%
d = each.square().mean(0).sqrt()
d = d + 0.1 * d.max()
d = d * (each / d).norm(dim=1).median()
scaled = (each / (each / d).norm(dim=1, keepdim=True).clip(min=1)).mean(0)
rng = torch.Generator().manual_seed(0)
draws = torch.randn(100, m, generator=rng) * published.noise_multiplier / 240

# %%
noises = {"flat, uniform": (flat, torch.full((m,), 4.0)),
          "local, adaptive": (local, m**0.5 * s),
          "local, uniform": (local, s.norm().expand(m)),
          "local, square root": (local, (s * s.sum()).sqrt()),
          "whole, adaptive": (scaled, d)}
for name, (kept, noise) in noises.items():
    clipped = torch.cosine_similarity(kept, mean, dim=0)
    noisy = torch.cosine_similarity(kept + draws * noise, mean[None], dim=1).mean()
    print(f"{name:19} cosine {clipped:.3f} after clipping, {noisy:.3f} after the noise")

# %% [markdown]
# Local *clipping* turns the gradient: single examples are several times as long as their mean, and bounds taken
# from the mean cut most of what they say. *Adaptive noise* gains nothing over uniform noise; the square root does.
# Clipped whole, the direction survives, and noise that follows the gradient keeps it twice as well as flat noise.
# The idea has merit. But all these bounds and units were read from private gradients.
#
# ## 5. The record that gives itself away
#
# Lemma 1 takes $s_i$ and $\sigma_i$ as fixed. Line 23 computes them from raw gradients. Among
# the 1,437 training digits a single one has ink at pixel 648. With and without that digit, make two steps on lots that
# hold every record, and look only at the weights of that pixel:

# %%
inked = (images[:, 648] > 0).nonzero().flatten().tolist()
print("digits with ink at pixel 648:", inked, "label", labels[inked].tolist())
everyone = torch.arange(1437)
neighbours = {"with it": everyone, "without it": everyone[everyone != inked[0]]}
lots = {name: (images[rows], labels[rows]) for name, rows in neighbours.items()}

# %%
def moved(settings, lot, seed):
    """How many of the pixel's 30 weights the second step moves, with noise of that seed."""
    model = paper.new_classifier(settings, seed=0, device=cpu)
    rng, weights = generator_on(cpu, reproducible_seed=seed), next(model.net.parameters())
    for index in range(2):
        before = weights[:, 648].detach().clone()
        paper.step(model, *lot, settings=settings, index=index, rng=rng)
    return int((weights[:, 648] != before).sum())


for name, lot in lots.items():
    print(f"{name:10}", [moved(published, lot, seed) for seed in range(1, 6)], "of 30 weights")

# %% [markdown]
# Without the record, its coordinates have a history of 0, so
# $s_i = \sigma_i = 0$: no noise at all. An attacker who sees the weights knows *with
# certainty* whether the digit was there. No epsilon covers that:

# %%
explained("raw-history-leak")

# %% [markdown]
# ## 6. The obvious repair, and why it runs away
#
# The obvious repair: keep the history of *noised* gradients, which costs nothing more. On the
# lot's mean, coordinate $i$ has noise of variance
# $(\sigma_* \sqrt{m}\, s_i / L)^2 = \sigma_*^2\, m\, \beta^2 E'_i / L^2$. So even if all gradients were 0,
#
# $$ \mathbb{E}\,[E'_{t+1}] = \Bigl(\gamma' + (1 - \gamma') \frac{\beta^2 \sigma_*^2\, m}{L^2}\Bigr)\, E'_t . $$
#
# The history feeds on its own noise. At the paper's settings ($m = 71{,}010$, $L = 600$, $\beta = 1.2$,
# $\gamma' = 0.9$), guess whether the factor is above 1:

# %%
def factor(noise, coordinates=71_010, lot=600, beta=1.2, decay=0.9):
    """By what E' is multiplied in each step, in expectation."""
    return decay + (1 - decay) * (beta * noise / lot) ** 2 * coordinates


for noise in (8.0, 4.0, 2.0):
    print(f"sigma_* {noise:g}: times {factor(noise):.4f} a step, {factor(noise) ** 50:.3g} in 50 steps")

# %% [markdown]
# **Check it a second way**: draw the noise, and follow the *median* coordinate too:

# %%
rng, paths = np.random.default_rng(0), {}
for noise in (8.0, 4.0, 2.0):
    history, means, medians = np.ones(71_010), [1.0], [1.0]
    for _ in range(50):
        growth = 0.9 + 0.1 * (1.2 * noise / 600) ** 2 * 71_010 * rng.standard_normal(71_010) ** 2
        history = history * growth
        means.append(history.mean())
        medians.append(float(np.median(history)))
    paths[noise] = means, medians
    print(f"sigma_* {noise:g}: first step {means[1]:.3f}, median after 50 steps {medians[-1]:.3g}")

# %% [markdown]
# The median grows about twofold a step at noise 8. Clipping no longer binds, and the gradient drowns.
#
# The kit's repair has three parts. The noise's *variance* $v_i$ is public, so subtract it: the expectation of
# $\tilde g_i^2 - v_i$ is $g_i^2$. Take from the history only the noise's *proportions*, within a factor of 4
# each way. And clip *whole* gradients in these proportions. Here it is with noise alone:

# %%
from dpkit.papers.adadp.noise_shapes import ReleasedHistory

repaired = {}
for noise in (8.0, 4.0, 2.0):
    shape = ReleasedHistory([torch.zeros(71_010)], noise_multiplier=noise, max_grad_norm=4.0, lot=600)
    draw, repaired[noise] = torch.Generator().manual_seed(0), []
    for _ in range(51):
        std = shape.now().noise_stds[0]
        repaired[noise].append((std.square().mean() / (noise * 4.0) ** 2).item())
        shape.see([std * torch.randn(71_010, generator=draw)], list)

# %% tags=["hide-input"]
drawn, axes = plots.figure(width=8.6, height=3.2, panels=2)
steps = list(range(51))
for noise, values in repaired.items():
    print(f"sigma_* {noise:g}: times {paths[noise][0][-1]:.3g} with the obvious repair, {values[-1]:.3f} ours")

# %% tags=["hide-input"]
shown = {f"$\\sigma_*$ {noise:g}": (steps, means) for noise, (means, _) in paths.items()}
plots.lines(axes[0], shown, x="steps", y="mean history, relative to the start", y_scale="log")
plots.lines(axes[1], {"repaired": (steps, repaired[8.0])}, x="steps", y="noise variance / DP-SGD's")
axes[1].set_ylim(0)
plots.picture(drawn, "Fed with noise alone, the obvious repair grows without end and the kit's repair settles. Left: "
              "the obvious repair's history, though no gradient is there. Right: the kit's noise, at any sigma_*, "
              "settles at a sixth of DP-SGD's variance.")

# %% [markdown]
# This is the kit's variant, not
# the paper's algorithm. It costs what DP-SGD costs, since all that it reads was released:

# %%
from dpkit.papers.adadp.settings import Repaired

ours = replace(published, noise=Repaired(4.0))
ledger = ours.ledger(public_size=1437, steps=80)
spent, (_, before, after) = pld.epsilon(ledger, delta=1e-5), trained(ours)
print(f"proven epsilon {spent.epsilon:.3f}, delta 1e-5, {spent.adjacency}")
print(f"accuracy {before:.3f} before, {after:.3f} after; DP-SGD at the same price {models['DP-SGD'][2]:.3f}")

# %% [markdown]
# About as good as DP-SGD at the same price: following the gradient does no harm, if done with care. Does it help?
#
# ## 7. Does noise that follows the gradient win?
#
# Stored runs on real MNIST: 60 private principal components (DP-PCA), one layer of 1,000 units, lots of 600, at the
# paper's three levels.
#
# - *Noise* is the paper's: 8, 4 and 2 for the steps, 16, 7 and 4 for DP-PCA.
# - *Length* is what Theorem 1 allows at epsilon 0.5, 2 and 8: 1,635, 6,095 and 18,131 steps. (The paper prints the
#   first epsilon, and no lengths.) With DP-PCA that costs 0.27, 0.91 and 3.2: proven, add-remove,
#   $\delta = 10^{-5}$, and for AdaDP as published only *as if* its history were public. AGD's filter spends its whole
#   level.
# - *Rates and clip norms* are the paper's, except in the rows *repaired* and *tuned*, and in AGD's (none printed).
# - *AGD* (Lee and Kifer 2018) also releases a noisy choice of each step's length. *DpOpt* (Xiang, Yang and Li 2019)
#   adds less noise where the loss is steep.
#
# Accuracy in per cent, with the range over three seeds:

# %%
from dpkit.papers.adadp import tables
from dpkit.papers.experiments import store


def ranged(spread):
    """A mean over seeds with its range; blank where nothing is stored."""
    ends = f" ({spread['lowest']:.1f} to {spread['highest']:.1f})" if spread["seeds"] > 1 else ""
    return "" if spread["mean"] is None else f"{spread['mean']:.1f}{ends}"

# %%
mnist = store.load("adadp", "figure_2")
rows = tables.levels(mnist)
tabled([{"method": row["method"]} | {e: ranged(row[e]) for e in row if e != "method"} for row in rows])

# %% [markdown]
# The leads of AdaDP as published, in points: printed, and here with a 95 % interval over the seeds. The verdict is
# *ahead* or *behind* if the whole interval lies on one side of 0. The *paired* interval is that of the differences seed
# by seed. The last column is the repaired run's lead:

# %%
tabled(tables.gains(mnist), digits=1)

# %% tags=["hide-input"]
names = {"adadp": "AdaDP", "repaired": "repaired", "dpsgd": "DP-SGD", "dpsgd-tuned": "DP-SGD, tuned"}
curves = tables.curves(mnist, [f"{key}-0.5" for key in names])
drawn, (ax,) = plots.figure(width=6.8, height=3.4)
shown = {names[key.rsplit("-", 1)[0]]: curve for key, curve in curves.items()}
plots.lines(ax, shown, x="steps", y="accuracy on test images (share)")
ends = ", ".join(f"{name} {ys[-1]:.3f}" for name, (_, ys) in shown.items())
print(f"at step {shown['AdaDP'][0][-1]:,}:", ends)
plots.picture(drawn, "At epsilon 0.5 AdaDP as published stays behind DP-SGD all along the run. First seed's "
              f"runs; at the end {ends}.")

# %% [markdown]
# The paper's noise leaves half of each epsilon unspent, or more (46 % at 0.5). Here are the same methods with the noise at which ten
# epochs spend it all: 2.62, 0.978 and 0.589. (*Repaired* and *tuned* were chosen for the first of these.)

# %%
ten = tables.levels(store.load("adadp", "ten_epochs"))
tabled([{"method": row["method"]} | {e: ranged(row[e]) for e in row if e != "method"} for row in ten])

# %% [markdown]
# The readings of section 4 on MNIST at the first level (*the listing* is used in the rows above):

# %% tags=["hide-input"]
readings = store.load("adadp", "readings") | mnist
order = ("switch-by-square", "history-example", "adadp-0.5", "noise-on-examples", "history-sum")
words = ("variance of squares", "history of examples", "the listing", "noise on examples", "history of the sum")
curves = dict(zip(words, tables.curves(readings, order).values(), strict=True))
drawn, (ax,) = plots.figure(width=6.8, height=3.4)
plots.lines(ax, curves, x="steps", y="accuracy on test images (share)")
ends = ", ".join(f"{name} {ys[-1]:.3f}" for name, (_, ys) in curves.items())
print(f"at step {curves['the listing'][0][-1]:,}:", ends)
plots.picture(drawn, f"Two of the five readings do not learn. The first seed's runs, 1,635 steps: {ends}.")

# %% [markdown]
# The history of the sum has bounds 600 times as large, and noise on each example drowns it.
#
# On CIFAR-10, 250 lots of 2,000 train three connected layers behind frozen convolutions, three seeds each. There
# AdaDP as published is behind its rivals wherever the paper prints a gain, at seven of nine by more than its seeds
# explain. It is not the paper's setting: all layers are clipped at 3 (the paper: 3, and 6 for the softmax layer), and the convolutions learned
# from 10,000 images of CIFAR-10 (the paper: CIFAR-100). (Our own settings were chosen by hand, DP-SGD's poorly at
# epsilon 0.5.)

# %%
cifar = tables.levels(store.load("adadp", "figure_3"))
tabled([{"method": row["method"]} | {e: ranged(row[e]) for e in row if e != "method"} for row in cifar])

# %% [markdown]
# Figure 4 takes AdaDP apart: its learning rate alone (*AdaL*: DP-SGD's noise) and its noise alone (*AdaN*: a
# constant rate), and finds AdaN the better. It also shows that the history follows the gradient, and that both
# shrink between steps 100 and 1,000:

# %%
from dpkit.papers.experiments.store import values

parts = store.load("adadp", "figure_4")
for name in ("adadp", "adal", "adan"):
    reached = np.mean([one["accuracy"] for one in values(parts, name)])
    print(f"{name:6} accuracy {reached:.3f}")
watched = values(parts, "adadp")[0]["watched"]
titles = {"estimate": "estimate", "gradient": "gradient", "noise": "noise on the sum"}
rows = [{"step": step, "of": titles[what]} | {f"{float(q):.0%}": f"{x:.3g}" for q, x in one[what].items()}
        for step, one in watched.items() for what in titles]
tabled(rows)

# %% [markdown]
# (Quantiles over all 71,010 coordinates, first seed; DP-SGD's noise is 32 on each of them.) The history does follow
# the gradient, at the median to a factor of two, and both shrink. A tenth of the coordinates have a noise above 29 at
# step 100 and above 11 at step 1,000: the order of magnitude of the paper's Figure 4 (d). But the learning rate is the
# half that works: AdaL is ahead of AdaDP, AdaN far behind. (We did not run Figure 4 (b), on CIFAR-10.)
#
# Figure 5 changes one value at a time, at epsilon 0.5, each time for as many steps as Theorem 1 allows. The paper finds
# more than 93 % at its best values. Here the rate of 0.002 is best, too, and noise between 6 and 10, lots between 300
# and 800 and beta differ by no more than seeds do:

# %%
rows = tables.figure_5(store.load("adadp", "figure_5"), mnist)
tabled([row | {"value": f"{row['value']:,g}"} for row in rows], digits=1)

# %% [markdown]
# Table I: at which epsilon does a run first reach an accuracy? *Charged* is Theorem 1, without DP-PCA; *proven* is
# the certified epsilon of both, as if AdaDP's history were public ($\delta = 10^{-4}$, as printed). Neither charges
# for stopping when an accuracy is reached, here on test images. Runs last 4,000 steps, DP-SGD's as published 26,835,
# for which Theorem 1 charges the 5.48 that the paper prints at 96 %. (Blank: not every run got there.)

# %%
absent = {"accuracy": "CIFAR-10", "method": "all", "reached": "not run"}
tabled([*tables.table_1(store.load("adadp", "table_1")), absent], digits=2)

# %% [markdown]
# Table II gives the time of an iteration, of code that is not public. Ratios to DP-SGD can be compared (stored,
# one processor):

# %%
from dpkit.common.records import read_json
from dpkit.papers.adadp import trajectories

tabled(tables.table_2(read_json(trajectories.TIME.path)["values"]), digits=1)

# %% [markdown]
# AdaDP takes two to three times DP-SGD's time here, since clipping by coordinate needs each example's gradient in
# full.
#
# The answer on MNIST: not by itself. At the paper's noise AdaDP as published is two to four points behind DP-SGD and
# DpOpt at each level (at 8 three runs, two of DP-SGD, one of DpOpt), where the paper prints that it leads. Over AGD it
# gains .8 at 8 (two runs of AGD; the paper prints 6.7), which nine such intervals together do not decide; nor is the
# rest decided. With less noise, in ten epochs, it is behind DP-SGD at 0.5, level with it at 2 and ahead at 8: noise
# that follows the gradient pays where there is little of it. But no guarantee covers that run. Repaired, it beats DP-SGD *with the
# paper's settings* there at each level. So do DP-SGD and DP-Adam, once rate and clip norm are chosen with the same
# care, and the better of the two is level with it or ahead. At the paper's noise, for which nothing was chosen, all
# three fall behind DP-SGD as published. The size of the steps matters more here than the shape of their noise.
#
# (Settings of the rows *repaired* and *tuned* were chosen on scikit-learn's digits, which are public. But we
# had seen a first form of each method on MNIST before: a look that no epsilon here charges.)
#
# ## 8. Every claim, computed

# %%
verdicts = [check(claim) for claim in paper.CLAIMS]
rows = [
    (v.claim.name, *(v.claim.shown(x, ".4g") for x in (v.claim.stated, v.computed)), v.verdict)
    for v in verdicts
]
tabled(rows, ["claim", "stated", "computed", "verdict"])

# %%
explained("moments-needs-sigma-1", "two-clip-norms", "delta-above-1-over-n")

# %% [markdown]
# `python -m dpkit claims --paper adadp` prints the others. Some are misprints, from which nothing else follows: the
# exponent in the proof of Lemma 1 cancels in the next line, and Lemma 6 is right where Theorem 1 repeats it.
#
# ## 9. Claimed, proven and measured
#
# Each row is one stored attack at 95 % confidence (`python -m dpkit audit run adadp`; [05_auditing](05_auditing.ipynb)
# builds such attacks). The true epsilon of a row lies between *measured* and *proven*. `-`: the text states
# no epsilon, or the code charges none. `none`: no finite epsilon is proven. Some rows are shorter runs;
# [docs/audits.md](../docs/audits.md) describes each.

# %%
from dpkit.papers.commands.audit import table as audits

audits("adadp")

# %% [markdown]
# And the two runs, side by side:

# %%
from dpkit.papers.commands.audit import ending

stored_charge = values(mnist, "adadp-0.5")[0]["epsilon_charged"]
print(f"Theorem 1 charges 0.3915 for 1,000 steps at noise 8, {stored_charge:.4f} for the stored runs' 1,635")
tens = {name: part for name, part in store.load("adadp", "ten_epochs").items() if "repaired-0.5" in name}
both = {name: part for name, part in mnist.items() if "repaired" not in name} | tens
ending("adadp", both, **{"adadp-0.5": "1,635 steps, noise 8", "repaired-0.5": "1,000 steps, noise 2.62"})

# %% [markdown]
# ## Your turn
#
# Put your answer in place of the dots. `hint(1)` helps, `solution()` shows the answer.

# %% [markdown] tags=["question"]
# **Question 1.** Write privacy_used(sensitivities, noise): the paper's H, the sum of s^2 / sigma^2.

# %%
from dpkit.course.exercises import adadp as turn

turn.privacy_used.check(...)

# %% [markdown] tags=["question"]
# **Question 2.** A query with s = (12, 6) has the value (10, 5). Of all noise s^p with H = 1, which power p
# keeps the direction best? (To two digits.)

# %%
turn.best_power.check(...)

# %%
turn.sheet.quiz()

# %% [markdown] tags=["question"]
# **Question 4.** With how large a lot, at least, does the obvious repair stop growing at sigma_* = 8? All
# else as in the paper: m = 71,010 and beta = 1.2.

# %%
turn.lot.check(...)

# %% [markdown]
# ## What to take away
#
# - At one price, noise in proportion to the sensitivity has as much variance as uniform noise. The *square root*
#   has the least.
# - Clipping each coordinate separately bounds more than it needs to, and turns the gradient.
# - A number that steers noise or clipping is a release: charge it, or compute it from what was released.
# - Noise that follows its own past can feed on itself. Subtract its known variance, and bound the rest.
# - On MNIST at epsilon 0.5, 2 and 8, in ten epochs, the repaired method reaches 91.4, 94.4 and 95.4 %; the better of a
#   tuned DP-SGD and a tuned DP-Adam 92.2, 94.4 and 95.6 %. (With the paper's noise it reaches 86.7, 90.3 and 92.9 %.)

# %% [markdown]
# **Next:** [20_claims_ledger](20_claims_ledger.ipynb) turns a sentence of a paper into a number and a verdict.

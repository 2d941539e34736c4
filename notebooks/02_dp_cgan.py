# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # DP-CGAN: one algorithm, one table, and what epsilon 9.6 stands on
#
# > **You will** take one private training step apart, run the algorithm on handwritten digits, price
# > the run as its authors did and as it was really run, and read Table 1 beside our own runs.
# > **Time** 20 seconds to run on two cores, 40 minutes to read. **Memory** 580 MB. **Needs** nothing: the digits come with scikit-learn.
# > **Source** Torkzadehmahani, Kairouz and Paten, CVPR Workshops 2019, and their public code.
#
# The paper trains a small conditional GAN on MNIST so that both images *and labels* can be published. Its
# idea is in the clipping: gradients on real and on generated examples are clipped **apart**, because only
# the real ones need protection. It reports classifiers trained on the synthetic images at
# $(\varepsilon, \delta) = (9.6, 10^{-5})$. Three questions: how does a step work, does the run cost 9.6,
# and what does the method reach when all of it is honest?

# %%
from dpkit.papers import dp_cgan as paper

for name in ("noise_multiplier", "max_grad_norm", "sampling", "target_epsilon", "clipping"):
    print(f"{name:17} {getattr(paper.SETTINGS, name)}")

# %% [markdown]
# `SETTINGS` is what the paper's code runs; `REPAIRED` is what this notebook ends with.
#
# ## 1. The data and the two networks
#
# All live cells use scikit-learn's digits, brought to MNIST's 28 x 28. The networks are the paper's: a
# generator 110-128-784 and a discriminator 794-128-1, each fed with a label as well.

# %%
import torch

from dpkit import datasets
from dpkit.training.loop import Data, generator_on, train

# Training amplifies the last digits, which are a machine's own: in double precision they stay small.
torch.set_default_dtype(torch.float64)
digits, cpu = datasets.digits(split="train"), torch.device("cpu")
images = torch.from_numpy(digits.flat()).double()
data = Data(images, torch.from_numpy(digits.labels), public_size=1437)
gan = paper.new_gan(paper.SMALL, seed=0, device=cpu)
print(tuple(data.features.shape), *(tuple(p.shape) for p in gan.discriminator.parameters()))

# %% [markdown]
# ## 2. One step, taken apart
#
# > **Definition (per-example clipping).** Each example's gradient $g_i$ is scaled to $g_i \min(1, C / \lVert g_i \rVert)$
# > *before* the sum. Then no record moves the sum by more than $C$, whatever it is.
#
# A gradient for each of 600 examples would be 600 x 101,889 numbers. They are never formed: a linear layer's
# gradient for one example is (gradient at its output) x (its input), and norms and sums follow from the two.

# %%
from dpkit.privacy.clipping import FlatClipping, PerTensorClipping
from dpkit.training.losses import called_real
from dpkit.training.per_example import capture

images, labels = data.features[:6], data.labels[:6]
with capture(gan.discriminator) as captured:
    losses = called_real(gan.discriminator(images, labels))
gradients = captured.gradients(losses)
norms = gradients.norms()  # (tensors, batch)
print("norm of each example's whole gradient:", norms.square().sum(0).sqrt().numpy().round(3))

# %% [markdown]
# **Check it a second way**: one ordinary backward pass for each example, clipped and added up.

# %%
clip = FlatClipping(1.1)
slow = [torch.zeros_like(p) for p in gan.discriminator.parameters()]
for image, label in zip(images, labels, strict=True):
    loss = called_real(gan.discriminator(image[None], label[None]))[0]
    one = torch.autograd.grad(loss, list(gan.discriminator.parameters()))
    scale = min(1.0, 1.1 / torch.cat([g.flatten() for g in one]).norm().item())
    slow = [total + scale * g for total, g in zip(slow, one, strict=True)]
fast = gradients.weighted_sum(clip.weights(norms))
print(all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(fast, slow, strict=True)))

# %% [markdown]
# ## 3. How far can one record move the sum?
#
# The published code clips each of the discriminator's four tensors to $C$ **by itself**. Before you run the cell:
# by how much does the whole gradient of one record then exceed $C$ at most?

# %%
for rule in (FlatClipping(1.1), PerTensorClipping(1.1, tensors=4)):
    moved = (rule.weights(norms * 100) * norms * 100).square().sum(0).sqrt().max()
    print(
        f"{type(rule).__name__:18} moved by {moved:.2f}, bound {rule.sensitivity('add-remove'):.2f}"
    )

# %% [markdown]
# $C\sqrt{4} = 2C$. The accountant was told $C$. And the generated examples are asked for with *the private
# batch's labels*: a record's label decides what the $i$-th fake is, so the fake gradients move too, by as
# much again. Sensitivity belongs to the clipping rule, so the rule is asked:

# %%
for name, settings in (("as published", paper.SETTINGS), ("honest", paper.REPAIRED)):
    moved = settings.clipping.sensitivity("add-remove")
    ratio = settings.noise_std / moved
    print(
        f"{name:13} one record moves {moved:.2f}; noise {settings.noise_std:.3f} is {ratio:.2f} times that"
    )

# %% [markdown]
# ## 4. Train it
#
# The loop yields a record a step, and stops before the step that would overspend. (A record describes private
# data and is not itself private: it is for us, in this room.)

# %%
from dpkit.memory_guard import require

require(200, what="this training")  # MB: a sentence instead of a kernel that dies

# %%
from tqdm.auto import tqdm

rng = generator_on(cpu, seed=0)
run = train(paper.step, gan, data, settings=paper.SMALL, rng=rng)
records = list(tqdm(run, total=150, leave=False))
for record in records[:: len(records) // 5]:
    print(
        f"step {record.step:3}  batch {record.batch_size:3}  loss {record.discriminator_loss:.3f}"
        f"  clipped {record.clipped:.0%}"
    )

# %% [markdown]
# Batches differ in size because they are Poisson samples: every record enters each one independently, which is
# what the accountant's formula assumes. What did these steps cost, at a declared size of 1,437?

# %%
from dpkit.privacy import rdp

spent = rdp.epsilon(paper.SMALL.ledger(public_size=1437, steps=len(records)), delta=1e-5)
print(f"epsilon {spent.epsilon:.3f} at delta {spent.delta}, {spent.adjacency}\n{spent.method}")

# %%
from dpkit import plots

classes = torch.arange(10)
rows = {
    "digits": data.features[[int((data.labels == k).nonzero()[0]) for k in range(10)]],
    f"{len(records)} steps": paper.generate(gan, classes, settings=paper.SMALL, rng=rng),
}
shown = {name: images.reshape(-1, 28, 28).numpy() for name, images in rows.items()}
plots.picture(
    plots.image_rows(shown), "Ten digits, and below them ten speckled squares: 150 steps are few."
)

# %% [markdown]
# ## 5. Does the run cost 9.6?
#
# The code stops at the largest number of steps whose epsilon, as it charges them, is within 9.6. Start there and
# mend one thing at a time; the method (RDP, Poisson, classic conversion, the code's orders) stays the paper's.

# %%
import pandas as pd

from dpkit.claims import check

verdicts = [check(claim) for claim in paper.CLAIMS]
rows = [(v.claim.id.split("/")[1], v.claim.stated, v.computed, v.verdict) for v in verdicts]
pd.DataFrame(rows, columns=["claim", "stated", "computed", "verdict"]).round(3)

# %%
for verdict in verdicts:
    print(f"{verdict.claim.id.split('/')[1]}: {verdict.explanation}\n")

# %% [markdown]
# One by one, with the curve of each:

# %%
from dpkit.explorers import Claims

Claims()

# %% [markdown]
# The corrections add up along the run (logarithmic scale):

# %%
names = ("steps-at-9.6", "noise-times-norm", "per-tensor-clipping", "label-leak")
curves = {v.claim.id.split("/")[1]: v.claim.curve() for v in verdicts if v.claim.curve}
lines = {name: (curves[name].x[1:], curves[name].y[1:]) for name in names}

# %%
drawn, (ax,) = plots.figure(height=3.4)
plots.lines(ax, lines, x="steps", y="epsilon at delta 1e-5", y_scale="log")
ends = ", ".join(f"{name} {ys[-1]:.4g}" for name, (_, ys) in lines.items())
plots.picture(drawn, f"Epsilon against steps; at the last step: {ends}.")

# %% [markdown]
# No curve is drawn for the last correction: the generator's own update reads the private labels *without noise*,
# and no finite epsilon covers that. The repair costs nothing: draw labels from a public distribution, here
# uniformly.
#
# The honest run does that, clips jointly, samples as Poisson does and feeds the accountant with what is really
# added. The same epsilon then buys fewer, larger, quieter steps. How such settings are chosen is part of the
# cost, so the settings say it:

# %%
import textwrap

honest = paper.REPAIRED
for name in ("noise_multiplier", "sampling", "max_steps", "discriminator_optimizer", "label_scale"):
    print(f"{name:24} {getattr(honest, name)}")
print(textwrap.fill(f"chosen: {honest.chosen}", 100))

# %% [markdown]
# ## 6. Table 1
#
# Each column is a training set; each row a classifier trained on it and tested on real images. The score is the
# area under the ROC curve, all ten one-against-the-rest decisions pooled, in per cent. The published code trains on
# images in $[0, 1]$ and tests on images in $0..255$. Stored runs are on MNIST at the paper's scale.

# %%
from dpkit.experiments import store
from dpkit.papers.dp_cgan.tables import table_1

stored = store.load("dp_cgan", "table_1")
frame = pd.DataFrame(table_1(stored)).round(2)
frame.astype(object).where(frame.notna(), "")

# %% [markdown]
# The spread between seeds is wide, and there is a reason: on images 255 times as bright as those it was trained on,
# a classifier's intercepts no longer count and its scores saturate at 0 and 1. Even on real data logistic regression
# is right for 72 % of the images only, instead of 92 %. So here are the same classifiers tested on images in
# $[0, 1]$, as they were trained. The paper has no such row.

# %%
frame = pd.DataFrame(table_1(stored, protocol="auroc")).round(2).drop(columns="paper")
frame.astype(object).where(frame.notna(), "")

# %%
names = {"published": "as published", "repaired": "repaired",
         "basic_dp": "basic DP", "cgan": "CGAN"}  # fmt: skip
shown = {
    title: store.load_images("dp_cgan", "table_1", f"{key}-seed0-train")
    for key, title in names.items()
    if f"{key}-seed0-train" in stored
}
plots.picture(plots.image_rows(shown), f"Generated digits 0 to 9, a row each: {', '.join(shown)}.")

# %% [markdown]
# ## 7. Claimed, proven, measured

# %%
rows = []
for key, title in names.items():
    values = stored[f"{key}-seed0-train"]["values"]
    rows.append((title, values["steps"], values["epsilon_claimed"], values["epsilon_proven"]))
frame = pd.DataFrame(rows, columns=["run", "steps", "claimed", "proven"])
frame.astype(object).where(frame.notna(), "")

# %% [markdown]
# Proven: RDP, improved conversion, add-remove, delta 1e-5; `inf` means that no guarantee covers the run. No attack
# has been run on these models yet, so there is no measured column.
#
# The honest run does better than the published one, not only in privacy: in $[0, 1]$ by several points with both
# classifiers. By the published protocol its logistic regressions are above the printed 87.57 %, its multi-layer
# perceptrons on average below the printed 88.16 %. It differs in batch, steps, optimiser, averaging and labels.
#
# The labels deserve a look. The discriminator sees a label as one feature of size 1 beside 784 pixels; in a gradient
# that is clipped and noised so small a part is easily lost, and the generator then ignores the label. A pilot run
# without the weight of 20 is stored too. (It also had 5,000 steps, more noise in each, and half the discriminator's
# learning rate, so the weight is not the only difference.)

# %%
pilot = store.load("dp_cgan", "pilot")["repaired-seed0-lr"]["values"]
honest_run = stored["repaired-seed0-lr"]["values"]
for name in ("auroc_255", "auroc", "accuracy"):
    print(f"{name:10} pilot {pilot[name]:.3f}, honest run {honest_run[name]:.3f}")

# %% [markdown]
# Looking at a pilot costs privacy too, and so do further seeds: whoever publishes several runs on the same records
# publishes all of their releases. Each run's 9.6 is the price of that run alone; together:

# %%
from dpkit.privacy import Release, SampledGaussian

one = paper.REPAIRED.ledger(public_size=60_000)
first = [Release(SampledGaussian(noise_multiplier=1.713, sample_rate=0.04), 5_000)]
bundles = {"one run": one, "pilot and run": first + one, "three seeds": 3 * one,
           "pilot and three seeds": first + 3 * one}  # fmt: skip
for name, ledger in bundles.items():
    print(f"{name:22} epsilon {rdp.epsilon(ledger, delta=1e-5).epsilon:6.2f}")

# %% [markdown]
# ## 8. This live run, beside the table
#
# The same scores for the 150 steps above, on the digits: a classifier trained on 1,437 generated images.

# %% tags=["tolerance=0.01"]
from dpkit.metrics import utility

# tolerance=0.01: a fit ends where a gradient is small: elsewhere on another processor
test = datasets.digits(split="test")
asked = torch.arange(1437) % 10
made = paper.generate(gan, asked, settings=paper.SMALL, rng=rng).numpy()
for name, x, y in (("digits", digits.flat(), digits.labels), ("generated", made, asked.numpy())):
    classifier = utility.fit(utility.logistic_regression(), x, y)
    scores = utility.evaluate(classifier, test.pixels.reshape(len(test.labels), -1), test.labels)
    print(f"{name:10} AUROC in 0..255 {scores['auroc_255']:.3f}, in [0, 1] {scores['auroc']:.3f}")

# %% [markdown]
# ## 9. On real MNIST
#
# With the data at hand (`DPKIT_DATA`), 60 honest steps at the honest run's batch size. Skipped by the comparison.

# %% tags=["nbval-skip"]
import os

if "DPKIT_DATA" in os.environ:
    require(600, what="training on MNIST")
    mnist = datasets.mnist(split="train")
    real = Data(torch.from_numpy(mnist.flat()).double(), torch.from_numpy(mnist.labels), 60_000)
    gan = paper.new_gan(paper.REPAIRED, seed=0, device=cpu)
    run = train(paper.step, gan, real, settings=paper.REPAIRED, rng=rng, steps=60)
    print([round(record.discriminator_loss, 3) for record in run][::10])
else:
    print("set DPKIT_DATA to a folder with mnist/ to run this cell")

# %% [markdown]
# The whole table: `python -m dpkit reproduce dp_cgan table_1 --scale paper`; it tells each part as it is stored.
#
# ## Your turn
#
# The published noise covers a sensitivity of $C$, the published code needs $4C$. Which noise multiplier would have
# made the *discriminator's* 30,303 steps honest at 9.6 (sample rate 600/55000, the kit's default conversion)? Write `noise = ...`.
#
# <details><summary>Hint</summary><code>calibrate.noise_multiplier</code> answers for a sensitivity of C.</details>
# <details><summary>Answer</summary>Four times the noise multiplier that 30,303 steps need.</details>

# %% tags=["solution"]
from dpkit.privacy import calibrate

needed = calibrate.noise_multiplier(9.6, sample_rate=600 / 55_000, steps=30_303, delta=1e-5)
print(f"noise multiplier {needed:.3f} for a sensitivity of C, {4 * needed:.3f} for 4C")

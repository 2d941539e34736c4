# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train twice: does noise on the loss protect?
#
# **You will be able to**
#
# 1. tell by two trainings whether a noise reaches the weights
# 2. say why noise on the value of a loss leaves every gradient as it is
# 3. find every image of a batch in a gradient whose noise only mixes the batch's images
#
# - **Time** 20 seconds to run on one core, 15 minutes to read, 15 for its exercises
# - **Memory** 630 MB
# - **Needs** [00_start_here](00_start_here.ipynb); no data set: the digits come with scikit-learn
# - **Sources** Ma, Li, Ding, Liu, Wei, Weng and Poor, arXiv:2007.02056, 2020 (RDP-GAN), and their public code

# %% [markdown] tags=["slide", "lab1"]
# A **GAN** is two networks that train each other. The *discriminator* learns to tell real records from generated
# ones; the *generator* learns to make records that pass for real. Only the discriminator sees real records, so its
# updates must be private. The usual way, DP-SGD, clips each record's gradient and adds noise to all coordinates:
# thousands of noisy numbers a step.
#
# RDP-GAN (2020) proposes something lighter. Add *one* noisy number to the value of the discriminator's loss, clip
# nothing, and let back-propagation carry the noise into the gradients. The paper states $\varepsilon = 0.5$ for 1,000
# iterations at noise $\sigma = 10$. Before any theory, let us do it.

# %% [markdown] tags=["slide", "lab1"]
# ## 1. Train twice
#
# Here is one step of the discriminator as the paper's Algorithm 1 has it. Line 9 adds the noise, and line 10 follows
# the gradient of the noisy loss. ([12_rdp_gan](12_rdp_gan.ipynb) goes through the algorithm line by line.)

# %% tags=["lab1"]
from dpkit.course.step_source import step_source
from dpkit.papers import rdp_gan as paper

step_source(paper.loss_value_step)

# %% [markdown] tags=["lab1"]
# We train a GAN of handwritten digits twice, with the same starting weights, the same batches and the same random
# numbers. The only difference is $\sigma$: 10 or none.

# %% tags=["hide-input", "lab1"]
from dataclasses import replace

import numpy as np
import torch

from dpkit import datasets
from dpkit.common import plots
from dpkit.training import Data, generator_on, train

# %% tags=["lab1"]
# Training amplifies the last digits, which are a machine's own: in double precision they stay small.
torch.set_default_dtype(torch.float64)
digits, cpu = datasets.digits(split="train"), torch.device("cpu")
data = Data(2 * torch.from_numpy(digits.flat()).double() - 1, torch.from_numpy(digits.labels), 1437)
print(paper.SMALL.noise, "for", paper.SMALL.iterations, "generator iterations")


# %% tags=["fragment", "with-code", "lab1"]
def trained(settings, step=paper.loss_value_step):
    """A GAN after all iterations of `settings`."""
    gan = paper.new_gan(settings, seed=0, device=cpu)
    list(train(step, gan, data, settings=settings, rng=generator_on(cpu, reproducible_seed=0)))
    return gan


quiet = replace(paper.SMALL, noise=paper.NON_PRIVATE.noise)
noisy_gan, quiet_gan = trained(paper.SMALL), trained(quiet)

# %% [markdown] tags=["slide", "lab1"]
# How far apart are the weights of the two? The loss itself is near 1.4, so $\sigma = 10$ is about seven times as much.

# %% [markdown] tags=["lab1"]
# Guess before you run on:

# %% [markdown] tags=["question", "lab1"]
# **Question 1.** Two trainings, same seeds: one with noise of deviation 10 on the loss, one with none. By how
# much do their weights differ at the end, at most?

# %% tags=["lab1"]
from dpkit.course.exercises import train_twice as turn

turn.apart.check(...)


# %% tags=["guessed", "hide-output", "fragment", "lab1"]
def weights(gan):
    """Every weight of both networks, in one vector."""
    networks = (gan.discriminator, gan.generator_net)
    return torch.cat([p.detach().flatten() for net in networks for p in net.parameters()])


apart = (weights(noisy_gan) - weights(quiet_gan)).abs().max()
print(f"largest difference among {len(weights(noisy_gan)):,} weights: {apart.item()}")

# %% [markdown] tags=["slide", "lab1"]
# (The folded output has the answer.) Training did move the weights:

# %% tags=["fragment", "lab1"]
start = weights(paper.new_gan(paper.SMALL, seed=0, device=cpu))
moved = (weights(quiet_gan) - start).abs().max().item()
print(f"training moved a weight by up to {moved:.3f}")

# %% [markdown]
# Thirty iterations draw no digits yet. Here is what two stored runs of 1,000 iterations on all of MNIST learned (a
# short training: the 1 is only specks in both):

# %%
from dpkit.papers.experiments import store

parts = {"noise 10 on the loss": "loss-value-seed0", "no noise": "none-seed0"}
drawn = {name: store.load_images("rdp_gan", "table_4", part)[:20] for name, part in parts.items()}
assert np.array_equal(*drawn.values())

# %% tags=["hide-input"]
plots.picture(plots.image_rows(drawn, columns=20), "With noise 10 on the loss and with none, the GAN draws the same "
              "pictures. Digits 0 to 9, twice; every pixel of the two rows is equal.")

# %% [markdown] tags=["slide", "lab1"]
# So the published generator is exactly the one that training *without* privacy gives. No finite epsilon covers that.
# Suppose the attacker knows everything but one record: the state before a step, the generated images, the rest of the
# batch. They compute the update with that record and without it. If the record is in the data, the first update comes
# out whenever it is drawn, far more often than $\delta$; if it is not, never. In Definition 3, no $e^\varepsilon$ makes up for a zero.
#
# The kit's settings of the method know it:

# %% tags=["fragment", "lab1"]
from dpkit.privacy import pld

ledger = paper.SETTINGS.ledger(public_size=60_000)
print(f"claimed {paper.SETTINGS.target_epsilon}, proven {pld.epsilon(ledger, delta=1e-5).epsilon}")
print(ledger[0].mechanism.reason)

# %% [markdown] tags=["slide", "lab1"]
# ## 2. Why nothing arrives
#
# > **Why.** An update needs the *gradient* of the loss. With $\tilde F(W) = F(W) + n$ and a number $n$ that does not
# > depend on $W$, $\nabla_W \tilde F = \nabla_W F + 0$.

# %% tags=["hide-input", "fragment", "lab1"]
figure, (ax,) = plots.figure(height=3.2)
w, at = np.linspace(-2, 3, 101), 1.5
for n, colour in ((-5, "0.6"), (0, "0"), (10, "0.4")):
    ax.plot(w, w**2 + n, color=colour, linewidth=1.8)
    ax.plot(at + np.array([-1, 1]), at**2 + n + 2 * at * np.array([-1, 1]), "--", color=colour)
    plots.note(ax, f"noise {n}", (-2, 4 + n), (6, 4), color=colour)
ax.set(xlabel="weight w", ylabel="loss $w^2$ + noise")
plots.picture(figure, "Noise on the value moves the graph of a loss up or down; the slope stays. The three tangents at "
              "w = 1.5 (dashed) all have slope 3, and training follows nothing but the slope.")

# %% [markdown] tags=["slide", "lab1"]
# **Check it a second way**, by autograd on one line:

# %% tags=["fragment", "with-code", "lab1"]
w = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
loss = (w**2).sum()
for noise in (0.0, 10.0, -1e6):
    (slope,) = torch.autograd.grad(loss + noise, w, retain_graph=True)
    print(f"noise {noise:12,.0f}: loss {(loss + noise).item():12,.0f}, gradient {slope.tolist()}")

# %% [markdown]
# ## 3. Could it have been meant otherwise?
#
# There are two other readings of the method:
#
# - **Multiplicative.** A later version of the code takes loss + noise x loss / |its value|. The gradient is then
#   multiplied by *one random number*. (|its value| counts as a constant. If it were differentiated as well,
#   loss / |its value| would be a mere sign, and no noise would arrive at all.)
# - **Eq. 9.** Read literally, the paper's eq. 9 adds noise to each record's error at the output layer, and
#   back-propagation spreads it from there.
#
# Both do change the weights:

# %%
readings = {"multiplicative": (paper.MULTIPLICATIVE, paper.multiplicative_step),
            "output error (eq. 9)": (paper.OUTPUT_ERROR, paper.output_error_step)}
for name, (settings, step) in readings.items():
    gan = trained(replace(settings, iterations=30), step)
    apart = (weights(gan) - weights(quiet_gan)).abs().max().item()
    print(f"{name:21} moves a weight by up to {apart:.3f} away from the run without noise")

# %% [markdown]
# Do they protect? A random multiple of a vector still points along the vector. And the gradient of a linear layer is a
# sum of (error of record $i$) x (input of record $i$). Whatever happens to the errors, the rows of the first layer's
# gradient are combinations of its inputs (sums of multiples of them): *the private images themselves* and the
# generated ones. All such combinations are called the *span* of the images. The layer has 256 units, so 256 rows;
# an input is 784 pixels and 10 for the label.
#
# To compare, add a third way that does bound each record: clip every gradient, then add noise to every coordinate.


# %%
def released(settings, step, batch=16):
    """The gradient that one step hands to the optimiser: of the first layer, for pixels (256, 784)."""
    gan = paper.new_gan(settings, seed=1, device=cpu)
    images, labels = data.features[:batch], data.labels[:batch]
    step(gan, images, labels, settings=settings, index=0, rng=generator_on(cpu, reproducible_seed=1))
    return next(gan.discriminator.parameters()).grad[:, :784]


# %%
from dpkit.papers.rdp_gan.repaired import repaired

private = replace(paper.SMALL, noise=repaired("digits", target_epsilon=5.0, public_size=60_000).noise)
ways = {"loss value": (paper.SETTINGS, paper.loss_value_step), **readings,
        "repaired": (private, paper.repaired_step)}
gradients, true = {n: released(*way) for n, way in ways.items()}, released(quiet, paper.loss_value_step)
for name, gradient in gradients.items():
    cosine = torch.cosine_similarity(gradient.flatten(), true.flatten(), dim=0).item()
    rank = torch.linalg.matrix_rank(gradient, rtol=1e-9).item()
    print(f"{name:21} cosine with the true gradient {cosine:+.4f}, rank {rank} of 256")

# %% [markdown]
# The first two release the true direction, up to a sign. Eq. 9's gradient points elsewhere, but its rank is at most
# 80: it lies in the span of the 16 real images that we gave the step and of the 64 that it generates (a batch of the
# paper has 64 of each). Noise on all coordinates has rank 256.
#
# That makes an attack possible. An image that was in the batch is a combination of the gradient's rows; an image that
# was not in it is not. How much of an image is left once every such combination is taken away?


# %%
def left(gradient):
    """The share of each of 32 images that is no combination of the gradient's rows."""
    rank = torch.linalg.matrix_rank(gradient, rtol=1e-9)
    basis = torch.linalg.svd(gradient, full_matrices=False)[2][:rank].T  # spans the rows
    images = data.features[:32]
    return (images - images @ basis @ basis.T).norm(dim=1) / images.norm(dim=1)


# %%
shares = {name: left(gradient) for name, gradient in gradients.items()}
for name, share in shares.items():
    inside, others = (f"{part.min():.2f} to {part.max():.2f}" for part in (share[:16], share[16:]))
    inside = "below 1e-9" if share[:16].max() < 1e-9 else inside
    print(f"{name:21} in the batch: {inside:14} others: {others}")

# %% tags=["hide-input"]
figure, axes = plots.figure(width=8.4, height=3.0, panels=2)
for ax, (name, share) in zip(axes, list(shares.items())[2:], strict=True):
    for who, colour, of in (("in the batch", "0", slice(0, 16)), ("not in it", "0.6", slice(16, 32))):
        ax.plot(np.arange(1, 33)[of], share.clamp(min=1e-9)[of], "o", color=colour, label=who)
    ax.set(xlabel="image", ylabel="share left of the image", ylim=(-0.02, 1.0 if name == "repaired" else 0.25))
    ax.set_title(name)
axes[0].legend(frameon=False, loc="upper left")
plots.picture(figure, "Eq. 9's gradient gives every image of the batch away; the repaired one tells none apart. Left: "
              "of the 16 in the batch less than 1e-9 is left. Right: members and others look alike.")

# %% [markdown]
# With each of the three noises every member is found, and nobody else is accused. To hide a record, noise must reach
# every direction, not only those that the batch spans. The repaired gradient does that, and a clip bounds what one
# record adds to it. Its epsilon follows from the accountants of [01_accountants](01_accountants.ipynb).
#
# ## Your turn
#
# Put your answer in place of the dots. `turn.slope.hint(1)` helps with question 2, and `turn.slope.solution()` shows
# its answer; so do the others.

# %% [markdown] tags=["question", "lab1"]
# **Question 2.** Write slope(w, noise): the gradient with respect to w of sum(w^2) + noise.

# %% tags=["lab1"]
turn.slope.check(...)

# %% tags=["lab1"]
turn.sheet.quiz()

# %% [markdown] tags=["question"]
# **Question 4.** With noise by eq. 9, how many real images can a batch have, and the attack still find each?
# As many generated images are with them (not always 64), and the first layer has 256 units.

# %%
turn.members.check(...)

# %% [markdown] tags=["lab1"]
# ## What to take away
#
# - Train twice: with noise and without, same seeds. If the weights are equal, the noise protects nothing.
# - Noise on the value of a loss has no gradient, so it never reaches an update.
# - A random length or sign leaves the direction, and the records in it, recognisable.
# - Noise within the span of the batch's images lets an attacker find every member of the batch.
# - Noise protects if it reaches every coordinate of an update that a clip has bounded.

# %% [markdown]
# **Next:** [03_dp_cgan](03_dp_cgan.ipynb) takes one private training step apart and asks whether its epsilon of 9.6
# holds.

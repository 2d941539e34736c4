# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Small Images: DP-WGAN-GP, and a careful reading of others
#
# > **You will** take a private step of a Wasserstein GAN apart, gradient penalty included; find out when Adam forgets
# > the clip norm; repeat the paper's review of three earlier private GANs, each as one line of code; price its runs, and read Figures 1 to 3 beside ours.
# > **Time** 60 seconds to run on two cores, 50 minutes to read. **Memory** 850 MB. **Needs** nothing: the digits come with scikit-learn.
# > **Source** Schwabedal, Michel and Riontino, arXiv:2005.00783, 2020, and their public code.
#
# The paper does two things that few do. It asks how the quality of generated digits depends on *every* knob of private
# training: clip norm, noise, size of the network. And it reads the work before it line by line, to
# "prevent erroneous estimates of anonymity in the future". Here we do both, and extend the second courtesy to the paper itself. (Words such as
# *sensitivity*, *noise multiplier*, *add-remove* and *PLD* are introduced in [00_start_here](00_start_here.ipynb) and
# [01_mechanisms_and_accountants](01_mechanisms_and_accountants.ipynb).)

# %%
from dpkit.papers import small_images as paper

for name in ("clipping", "noise_multiplier", "sampling", "critic_optimizer", "capacity"):
    print(f"{name:17} {getattr(paper.SETTINGS, name)}")
print("steps", paper.SETTINGS.max_steps, "of the critic, as many of the generator")

# %% [markdown]
# `SETTINGS` is the run that all three figures share; `SMALL` is the same method on a laptop, in seconds, with batches that an accountant can price.
#
# ## 1. One step, taken apart
#
# The critic $D$ scores images; the generator makes images that score high. Each real example $x_i$ meets a generated one, $\tilde x_i$, and a
# point $\hat x_i$ at a random place between the two. Algorithm 2 trains the critic on
#
# $$ \ell_i = D(\tilde x_i) - D(x_i) + 10\,\bigl(\lVert \nabla D(\hat x_i) \rVert - 1\bigr)^2. $$
#
# > **Definition (a DP step).** The gradient $g_i$ of **all** of $\ell_i$, over all parameters together, is clipped to norm $C$; the
# > clipped gradients are added up, noise $z\,C$ is added **once** to each coordinate of the sum, and the result is divided by the batch size.
#
# Before you run the cells: which of the three terms of $\ell_i$ needs protection?

# %%
import torch

from dpkit import datasets
from dpkit.papers.small_images import scores
from dpkit.training.loop import Data, generator_on, train

digits, cpu = datasets.digits(split="train"), torch.device("cpu")
images, labels = scores.as_images(digits, cpu), torch.from_numpy(digits.labels)
data = Data(images, labels, public_size=1437)
gan = paper.new_gan(paper.SMALL, seed=0, device=cpu)
print(tuple(images.shape), *(tuple(p.shape) for p in gan.discriminator.parameters()))

# %% [markdown]
# The second does, and so does the third: $\hat x_i$ is a mixture that *contains* the private image. So they must be clipped together, and
# that is what the paper's code does.

# %%
from dpkit.privacy.clipping import FlatClipping
from dpkit.training import gradient_penalty

rng = generator_on(cpu, seed=0)
real, fake = images[:64], paper.generate(gan, 64, settings=paper.SMALL, rng=rng)
mixing = torch.rand(64, generator=rng)
gradients, losses = gradient_penalty.per_example(gan.discriminator, real, fake, mixing=mixing)
norms = gradients.norms()  # (tensors, batch)
whole = norms.square().sum(0).sqrt()
print(f"64 gradients of {sum(p.numel() for p in gan.discriminator.parameters()):,} numbers")
print(f"norms from {whole.min():.2f} to {whole.max():.2f}")

# %% [markdown]
# Not one of these 64 gradients was formed: norms and sums come from what passes through each layer (as in [02_dp_cgan](02_dp_cgan.ipynb)), the
# penalty's second derivative included. Clip to $C = 1$, add up, add noise once, divide:

# %%
from dpkit.training.optimizers import noised

clip, z = FlatClipping(1.0), paper.SMALL.noise_multiplier
weights = clip.weights(norms)
sums = gradients.weighted_sum(weights)
noisy = noised(sums, noise_std=z * clip.sensitivity("add-remove"), rng=rng)
means = [total / 64 for total in noisy]
length = [torch.cat([t.flatten() for t in ts]).norm().item() for ts in (sums, noisy)]
print(f"norms after clipping: at most {(weights * whole).max():.4f}")
print(f"the sum of 64 is {length[0]:.1f} long; with the noise, {length[1]:.1f}")

# %% [markdown]
# The noise is longer than all that the batch has to say. That is no accident: it is added to each of 16,769 coordinates, and $\sqrt{16769} \approx 129$.
# Training works because noise has no direction, and gradients of one step and the next do.
#
# **Check it a second way**: `torch.func` differentiates the definition itself, example by example.

# %%
from torch.func import functional_call, grad, vmap

net = gan.discriminator


def loss_of_one(parameters, x, made, place):
    """D(made) - D(x) + 10 (|grad D| - 1)^2 for one image (1, 28, 28)."""
    critic = lambda image: functional_call(net, parameters, image[None]).squeeze()
    slope = grad(critic)(torch.lerp(made, x, place))
    return critic(made) - critic(x) + 10 * (slope.norm() - 1) ** 2


# %%
values = {name: p.detach() for name, p in net.named_parameters()}
each = vmap(grad(loss_of_one), (None, 0, 0, 0))(values, real[:6], fake[:6], mixing[:6])
flat = torch.cat([g.flatten(1) for g in each.values()], 1)  # (6, parameters)
slow = (flat / flat.norm(dim=1, keepdim=True).clip(min=1.0)).sum(0)
six, _ = gradient_penalty.per_example(net, real[:6], fake[:6], mixing=mixing[:6])
fast = torch.cat([t.flatten() for t in six.weighted_sum(clip.weights(six.norms()))])
print("the six norms agree:", torch.allclose(flat.norm(dim=1), whole[:6], rtol=1e-4))
print("the clipped sums agree:", torch.allclose(fast, slow, rtol=1e-3, atol=1e-5))

# %% [markdown]
# In a picture: each gradient's norm before clipping and after it.

# %%
from dpkit import plots

order = whole.argsort()
before, after = whole[order].tolist(), (weights[0] * whole)[order].tolist()
drawn, (ax,) = plots.figure(height=2.6)
ranks = list(range(1, 65))
plots.lines(ax, {"before": (ranks, before), "after": (ranks, after)}, x="example", y="L2 norm")
ax.set_ylim(0)
plots.picture(drawn, f"Norms {before[0]:.2f} to {before[-1]:.2f} before, all {after[0]:.3f} after.")

# %% [markdown]
# ## 2. Train it
#
# A generator step (it sees no data and needs no noise), then a noised critic step, 100 times; some seconds. Beside it the same without clipping and noise.

# %%
from dataclasses import replace

from tqdm.auto import tqdm

from dpkit.memory_guard import require
from dpkit.privacy.clipping import Unclipped

require(400, what="training two GANs")
quiet = replace(
    paper.SMALL, clipping=Unclipped(), noise_multiplier=0.0, target_epsilon=None, chosen=None
)


# %%
def trained(settings, steps=100):
    """A GAN after some steps, and a record of each."""
    gan = paper.new_gan(settings, seed=0, device=cpu)
    rng = generator_on(cpu, seed=0)
    run = train(paper.step_of(settings), gan, data, settings=settings, rng=rng, steps=steps)
    return gan, list(tqdm(run, total=steps, leave=False))


(private, records), (plain, _) = trained(paper.SMALL), trained(quiet)
for r in records[::25]:
    print(f"step {r.step:2}  batch {r.batch_size}  critic's loss {r.discriminator_loss:6.2f}")

# %% [markdown]
# (Records describe private data: they are for us, in this room.) Batches are Poisson samples, so that a step is a subsampled Gaussian, and
# 100 of them cost, at the declared size 1,437:

# %%
from dpkit.privacy import pld, rdp

spent = pld.epsilon(paper.SMALL.ledger(public_size=1437), delta=1e-5)
print(f"epsilon between {spent.lower:.4f} and {spent.epsilon:.4f}, {spent.adjacency}")
print(f"by RDP {rdp.epsilon(paper.SMALL.ledger(public_size=1437), delta=1e-5).epsilon:.4f}")


# %%
def pictures(gan, count=10):
    """Generated images, (count, 28, 28), of the same latents each time."""
    rng = generator_on(cpu, seed=5)
    return paper.generate(gan, count, settings=paper.SMALL, rng=rng)[:, 0].numpy()


shown = {"digits": digits.pixels[:10], "private": pictures(private), "plain": pictures(plain)}
kinds = {name: f"{one.std(0).mean() / digits.pixels.std():.2f}" for name, one in
         (("private", 127.5 * shown["private"]), ("plain", 127.5 * shown["plain"]))}  # fmt: skip
plots.picture(plots.image_rows(shown), "Ten digits; ten images of either GAN after 100 steps: no "
              f"digits yet. How much a pixel varies, over that of digits: {kinds}.")  # fmt: skip

# %% [markdown]
# Neither makes digits yet: 100 steps are few, with noise or without. The stored runs of section 6 took thousands.
#
# ## 3. What does an inception score say?
#
# The paper measures images by one number.
#
# > **Definition (inception score).** A classifier gives each image probabilities $p(y \mid x)$; $p(y)$ is their mean. The score is
# > $\exp\bigl(\text{mean of } \mathrm{KL}(p(y \mid x)\,\Vert\,p(y))\bigr)$: between 1 and the number of classes.
#
# Guess the score of (a) one image, repeated; (b) one image of each digit, repeated 100 times. First a classifier (a few seconds; at a smaller
# size the one that the stored runs use):

# %%
from dpkit.papers.small_images import networks
from dpkit.training.loop import seeded

learning = scores.CLASSIFIERS["digits"]
with seeded(learning.seed):
    classifier = networks.classifier(width=learning.width, hidden=learning.hidden)
for _ in tqdm(scores.learn(classifier, images, labels, learning=learning), leave=False):
    pass


# %%
def probabilities(images):
    """Of each digit, (images, 10), for images in [-1, 1]."""
    with torch.no_grad():
        return classifier.eval()(images).double().softmax(1).numpy()


test = datasets.digits(split="test")
right = probabilities(scores.as_images(test, cpu)).argmax(1) == test.labels
print(f"right for {right.mean():.1%} of {len(right)} test images")

# %%
from dpkit.metrics.inception import inception_score

one_of_each = images[[int((labels == k).nonzero()[0]) for k in range(10)]]
sets = {"digits": images, "(a) one image": images[:1].expand(1000, -1, -1, -1),
        "(b) one of each": one_of_each.repeat(100, 1, 1, 1),
        "100 private steps": torch.from_numpy(pictures(private, 1000))[:, None]}  # fmt: skip
for name, some in sets.items():
    score = inception_score(probabilities(some))
    print(f"{name:18} {score.mean:6.3f}, between splits +- {score.spread:.3f}")

# %% [markdown]
# **Check it a second way**, by the definition, in two lines, on (b):

# %%
import numpy as np

p = probabilities(one_of_each)
divergence = (p * np.log(p / p.mean(0))).sum(1)
print(f"exp(mean KL) = {np.exp(divergence.mean()):.3f}")

# %% [markdown]
# Ten copied training images score *higher than the digits themselves*. The score asks for sure and various classes; it cannot
# see copying, nor variety within a class. So it is no measure of privacy, and a high score is a beginning, not an end. The classifier, too, has seen the private images without noise
# (the paper says so in its discussion): a score belongs into a study of a method, not into a release.

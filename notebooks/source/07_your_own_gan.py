# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own GAN: from a folder of pictures to a generator that you may release
#
# **You will be able to**
#
# 1. train a private GAN on a folder of images, with networks of your own
# 2. state its guarantee in one sentence, and check the epsilon a second way
# 3. release one file that others can price again, and say what must stay private
#
# - **Time** 30 seconds to run on two cores, 15 minutes to read, 10 for its exercises
# - **Memory** 600 MB
# - **Needs** [00_start_here](00_start_here.ipynb); no download, no GPU; the pictures are scikit-learn's digits
# - **Sources** DP-SGD: Abadi et al. 2016
#
# You have pictures that you may not publish, and want to give away *something like them*. A GAN whose critic is
# trained privately can do that: its generator sees no picture, only the critic, and what the critic learned is
# protected.

# %% [markdown]
# ## 1. A folder of pictures
#
# So that this notebook runs anywhere, the first cell makes a folder: 1,437 small PNGs in ten sub-folders, one a
# class. With pictures of your own, start at the next cell.

# %% tags=["hide-input"]
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

folder, digits = Path(tempfile.mkdtemp()), load_digits()
labelled = zip(digits.images[:1437], digits.target[:1437], strict=True)
for i, (pixels, label) in enumerate(labelled):
    (folder / "pictures" / str(label)).mkdir(parents=True, exist_ok=True)
    Image.fromarray((pixels * 255 / 16).astype("uint8")).save(folder / f"pictures/{label}/{i:04}.png")
print(sorted(path.name for path in (folder / "pictures").iterdir()))

# %%
from dpkit.datasets import image_folder

images = image_folder(folder / "pictures", size=8, channels=1)
print(images.pixels.shape, images.pixels.dtype, "labels", sorted(set(images.labels.tolist())))

# %% [markdown]
# ## 2. Two networks
#
# Any torch modules will do that keep the examples of a batch apart. (No batch normalisation in the critic: one
# picture would change the scores of all others. `nn.GroupNorm` is fine.) The generator takes a latent and a
# label, the critic an image and a label.

# %%
import torch
from torch import nn
from torch.nn.functional import one_hot


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(26, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())

    def forward(self, z, y):
        return self.body(torch.cat((z, one_hot(y, 10).to(z)), 1)).view(-1, 1, 8, 8)


# %%
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.label = nn.Linear(64, 64), nn.Embedding(10, 64)
        self.rest = nn.Sequential(nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def forward(self, x, y):
        return self.rest(self.image(x.flatten(1)) + self.label(y))


# %% [markdown]
# ## 3. Train
#
# Before you train, decide what it may cost: epsilon and delta for the whole run, and the number of steps. The
# noise follows; everything else has a default. Guess first, in place of the dots:

# %% [markdown] tags=["question"]
# **Question 1.** 600 steps, each looking at 128 of 1,437 pictures on average, at epsilon 8, delta 1e-5. A
# picture's gradient is clipped to length 1. How large is the noise on each coordinate?

# %%
from dpkit.course.exercises import your_own_gan as turn

turn.noise.check(...)

# %% [markdown]
# Leave `reproducible_seed` out for private data: a reader who knows the seed can remove the noise. It is here
# so that you see our numbers. We also tried several settings on these digits; on private data each try would
# have to be charged (the statement of section 4 says "Tuning of hyperparameters: not charged").

# %% tags=["guessed", "hide-output"]
from dpkit import PrivateGan

torch.set_default_dtype(torch.float64)  # so that other processors print the same
with torch.random.fork_rng():
    torch.default_generator.manual_seed(0)
    generator, critic = Generator(), Critic()
gan = PrivateGan(generator, critic, epsilon=8, delta=1e-5, classes=10, latent_size=16, loss="bce",
                 generator_decay=0.95, reproducible_seed=0)
gan.fit(images.pixels, images.labels, steps=600)
print(f"noise {gan.plan_.noise_multiplier:.3f} times the clip norm, {gan.plan_.steps} steps")

# %% [markdown]
# One step draws a Poisson batch, clips each picture's gradient, adds noise to the sum, and updates the critic.
# Then the generator learns from the critic, on labels that are drawn, not read. `curves_` holds the critic's
# loss; it describes your data, so look at it, but do not publish it. You may publish the samples:

# %%
from dpkit.common import plots

asked = torch.arange(10).repeat(2)
made = (gan.sample(asked, reproducible_seed=1)[:, 0].numpy() + 1) / 2
shown = {"a real one each": digits.images[:10] / 16, "generated": made[:10], "again": made[10:]}
plots.picture(plots.image_rows(shown), "At epsilon 8 most generated digits can be read. Each row: 0 to 9. "
              "The two lower rows are nearly alike: the generator knows little more than one picture of each digit.")

# %% [markdown]
# (We may show real ones, because these digits are public.)
#
# ## 4. What may I say?
#
# > **Definition.** A run is $(\varepsilon, \delta)$-private under *add-remove* adjacency if adding or removing
# > any one record changes the probability of every outcome by a factor of at most $e^\varepsilon$, up to
# > $\delta$.
#
# An epsilon says little without its delta, its adjacency and its accountant. So the run writes the sentence for
# your paper, and what it assumes:
#
# - **The sentence**, bold below: the guarantee, the unit, the steps that cost it, the accountant.
# - **The rest**: how batches are drawn, and whether the code does so; what is not charged; what must be true of
#   your code and data. What is false there makes the sentence false, too.

# %%
from IPython.display import Markdown

sentence, sampling, rest = gan.statement(unit="one picture").partition(" Sampling assumed")
Markdown(f"> **{sentence}**\n>\n> {(sampling + rest).strip()}")

# %% [markdown]
# **Check it a second way.** The run's ledger is public. Renyi DP, another accountant, computes in a different
# way; its bound must lie above, and not far.

# %%
from dpkit.privacy import pld, rdp

ledger = gan.plan_.ledger()
certified, renyi = pld.epsilon(ledger, delta=1e-5), rdp.epsilon(ledger, delta=1e-5)
print(f"proven {certified.lower:.3f} to {certified.epsilon:.3f} ({certified.method})")
print(f"Renyi DP: at most {renyi.epsilon:.3f}")

# %% [markdown]
# ## 5. Is it any good?
#
# A classifier learns from 1,437 generated digits, another from the real ones. Both are tested on 360 real
# digits that took no part in training.

# %% tags=["tolerance=0.05"]
# tolerance=0.05: a fit ends where a gradient is small: a little apart on another processor
from sklearn.linear_model import LogisticRegression

labels = torch.arange(1437) % 10
fakes = gan.sample(labels, reproducible_seed=2)
test = digits.images[1437:].reshape(-1, 64) / 8 - 1
for name, x, y in (("generated", fakes, labels.numpy()), ("real", images.pixels / 127.5 - 1, images.labels)):
    classifier = LogisticRegression(max_iter=1000).fit(x.reshape(-1, 64), y)
    print(f"{name:9}  right for {(classifier.predict(test) == digits.target[1437:]).mean():.2f}")

# %% [markdown]
# Most of what a classifier can learn from these pictures survives. More pictures help: with 60,000, the same
# noise hides a forty times larger crowd.
#
# ## 6. Release it
#
# One file holds the generator's weights, the sentence and the ledger, and nothing else: no critic, no curves,
# no state of a random generator. Its readers can compute the epsilon again:

# %%
import subprocess
import sys

path = folder / "generator.safetensors"
gan.save(path, unit="one picture")
print(path.name, f"{path.stat().st_size / 1000:.0f} kB")
command = "-m dpkit epsilon --accountant pld --delta 1e-5 --ledger"
answer = subprocess.run([sys.executable, *command.split(), path], capture_output=True, text=True)
print(answer.stdout or answer.stderr)

# %%
again = PrivateGan(Generator(), Critic(), epsilon=8, delta=1e-5, classes=10, latent_size=16).load(path)
same = again.sample([3, 1, 4], reproducible_seed=1), gan.sample([3, 1, 4], reproducible_seed=1)
print("the loaded generator draws the same:", torch.equal(*same))

# %% [markdown]
# ## 7. Can I get it wrong without noticing?
#
# Private training fails in silence: a wrong run looks just like a right one. So the kit refuses the mistakes
# that it can detect, with the reason. Here are three. What is wrong with the second?

# %%
class Centred(Critic):
    def forward(self, x, y):
        scores = super().forward(x, y)
        return scores - scores.mean()


normed = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
settings = {"epsilon": 8, "delta": 1e-5, "classes": 10, "latent_size": 16, "loss": "bce"}

# %%
from dpkit.common.show import tabled

refusals = []
for wrong in (normed, Centred(), generator):
    try:
        PrivateGan(generator, wrong, **settings).fit(images.pixels, images.labels, steps=9)
    except (TypeError, ValueError) as error:
        refusals.append((type(wrong).__name__, f"{error}"))
tabled(refusals, ["critic", "refused because"])

# %% [markdown]
# ## 8. Not a GAN?
#
# `Private` trains any network in a loop of your own. Each `step` is one release: it clips, adds noise and
# charges, whatever the loop around it does. The loop ends when the budget does.

# %%
from torch.nn.functional import cross_entropy

from dpkit import Private

net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
private = Private(net, torch.optim.Adam(net.parameters(), 5e-3), images.pixels, images.labels,
                  epsilon=8, delta=1e-5, steps=200, batch_size=256)
for x, y in private:
    private.step(lambda x, y: cross_entropy(net(x), y, reduction="none"), x, y)
right = net(torch.tensor(test).view(-1, 1, 8, 8)).argmax(1) == torch.tensor(digits.target[1437:])
print("more than 0.8 of 360 right:", bool(right.double().mean() > 0.8))

# %% [markdown]
# ## Your turn
#
# Put your answer in place of the dots. `turn.two_generators.hint(1)` helps,
# `turn.two_generators.solution()` shows the answer.

# %% [markdown] tags=["question"]
# **Question 2.** You train it twice on the same pictures, at epsilon 8 each, and publish both. What do both
# cost together? (600 steps at rate 128/1437 each, delta 1e-5, certified.)

# %%
turn.two_generators.check(...)

# %%
turn.sheet.quiz()

# %% [markdown]
# ## What to take away
#
# - Choose epsilon, delta and the number of steps beforehand; the noise follows.
# - State epsilon with its delta, its adjacency, its accountant, and what one record is.
# - Release the generator with its ledger. The guarantee covers the critic, too, but nobody needs it. It does not
#   cover losses and scores on private data: keep them.
# - A wrong run looks like a right one: let the kit refuse it, and compute the epsilon a second way.

# %% [markdown]
# **Next:** the papers. [10_dp_cgan_tables](10_dp_cgan_tables.ipynb) runs the tables of the first one again; or
# open any notebook whose numbers you doubt.

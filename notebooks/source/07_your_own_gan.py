# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own GAN: from a folder of pictures to a generator that may be released
#
# > **You will** train a private GAN on a folder of images, with networks of your own; read the sentence that
# > belongs into your paper; check its epsilon a second way; release one file; and see which mistakes are refused.
# > **Time** 30 seconds to run on two cores, 25 minutes to read. **Memory** 600 MB. **Needs** nothing: the pictures are scikit-learn's digits.
# > **Source** DP-SGD: Abadi et al. 2016; the certified accountant: notebook 01; clipping a critic: notebooks 03 and 13.
#
# You have pictures that you may not publish, and you would like to give away *something like them*. A GAN whose
# critic is trained privately can do that: its generator never sees a picture, only the critic, and what the
# critic learned is protected. Three questions: what do I write, what may I say afterwards, and can I get it
# wrong without noticing?

# %% [markdown]
# ## 1. A folder of pictures
#
# So that this notebook runs anywhere, we first make such a folder: ten sub-folders, one for each class, 1,437
# little PNGs. With pictures of your own, start at the next cell.

# %%
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
# Any torch modules will do, as long as they keep the examples of a batch apart. (No batch normalisation in the
# critic: there, one picture would change what the network says of all others. `nn.GroupNorm` is fine.) The
# generator takes a latent and a label, the critic an image and a label.

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
# Before you train, you decide what it may cost: epsilon and delta for the whole run, and how many steps there
# will be. The noise follows from that. Everything else has a default.
#
# Guess first, in place of the dots:

# %% [markdown] tags=["question"]
# **Question 1.** 600 steps, each looking at 128 of 1,437 pictures on average, at epsilon 8, delta 1e-5. A
# picture's gradient is clipped to length 1. How large is the noise on each coordinate?

# %%
from dpkit.course.exercises import your_own_gan as turn

turn.noise.check(...)

# %% [markdown]
# (`reproducible_seed` is here only so that you see the numbers that we saw. Leave it out for data that matter:
# who knows the seed can take the noise off again. And the settings were found by trying some on these same
# digits. On private data that would have to be paid for, too.)

# %%
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
# One step: draw a Poisson batch, take each picture's own gradient, clip it, add up, add noise once, and let the
# critic follow. Then the generator learns from the critic, on labels that are drawn, not read. `curves_` shows
# what the critic's loss did; it describes your data, so look at it and do not publish it. The samples may be
# published:

# %%
from dpkit.common import plots

asked = torch.arange(10).repeat(2)
made = (gan.sample(asked, reproducible_seed=1)[:, 0].numpy() + 1) / 2
shown = {"a real one each": digits.images[:10] / 16, "generated": made[:10], "again": made[10:]}
plots.picture(plots.image_rows(shown), "Ten digits a row, 0 to 9: rough, but most can be read.")

# %% [markdown]
# (Showing real ones is fine here, because these digits are public.) The two lower rows are nearly alike: so far
# the generator knows little more than one picture of each digit.
#
# ## 4. What may I say?
#
# > **Definition.** A run is $(\varepsilon, \delta)$-private under *add-remove* adjacency if adding or removing any
# > one record changes the probability of every outcome by a factor of at most $e^\varepsilon$, up to $\delta$.
#
# An epsilon without its delta, its adjacency and the way it was computed says little. So the run writes the
# sentence itself:

# %%
import textwrap

print(textwrap.fill(gan.statement(unit="one picture"), 100))

# %% [markdown]
# **Check it a second way.** The ledger of the run is public. Another accountant, Renyi DP, knows nothing of the
# grids of the first; its bound must lie above, and not far.

# %%
from dpkit.privacy import pld, rdp

ledger = gan.plan_.ledger()
certified, renyi = pld.epsilon(ledger, delta=1e-5), rdp.epsilon(ledger, delta=1e-5)
print(f"proven {certified.lower:.3f} to {certified.epsilon:.3f} ({certified.method})")
print(f"Renyi DP: at most {renyi.epsilon:.3f}")

# %% [markdown]
# ## 5. Is it any good?
#
# A classifier learns from 1,437 generated digits and is tested on 360 real ones that nobody has seen. Beside it:
# what it would learn from the real pictures.

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
# So most of what a classifier can learn from these pictures survives. With more of them it would be more: on
# 60,000 pictures the same noise is spread over a forty times larger crowd.
#
# ## 6. Release it
#
# One file holds the generator's weights, the sentence and the ledger, and nothing else: no critic, no curves, no
# state of any random generator. Who gets it can price it again.

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
# Private training fails in silence: a wrong run looks just like a right one. So the kit refuses the mistakes that it
# can see, with the reason. Three of the mistakes that one makes (guess what is wrong with the second):

# %%
class Centred(Critic):
    def forward(self, x, y):
        scores = super().forward(x, y)
        return scores - scores.mean()


normed = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
settings = {"epsilon": 8, "delta": 1e-5, "classes": 10, "latent_size": 16, "loss": "bce"}

# %%
for wrong in (normed, Centred(), generator):
    try:
        PrivateGan(generator, wrong, **settings).fit(images.pixels, images.labels, steps=9)
    except (TypeError, ValueError) as error:
        print(textwrap.fill(f"{type(wrong).__name__}: {error}", 100))

# %% [markdown]
# ## 8. Not a GAN?
#
# The same object trains any network in a loop of your own. Each `step` is one release: clipped, noised and
# charged, whatever the loop around it does; the loop ends when the budget does.

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
# Put your answer in place of the dots. `hint(1)` helps, `solution()` shows the answer.

# %% [markdown] tags=["question"]
# **Question 3.** You train it twice on the same pictures, at epsilon 8 each, and publish both. What do both
# cost together? (600 steps at rate 128/1437 each, delta 1e-5, certified.)

# %%
turn.two_generators.check(...)

# %%
turn.sheet.quiz()

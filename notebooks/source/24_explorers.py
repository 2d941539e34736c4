# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Explorers: move a number and see what it costs
#
# **You will be able to**
#
# 1. find the epsilon of a run, and the noise, steps or sample rate for an epsilon
# 2. tell apart what is proven, what is estimated and what an attacker can show
# 3. say why shuffled batches, noise that decays and a record in four tensors cost more than they seem to
#
# - **Time** 25 seconds to run on one core, 40 minutes to read, 10 for its exercises
# - **Memory** 300 MB
# - **Needs** nothing: no data set, no download, no GPU
# - **Sources** the notebooks before this one, which explain every word used here
#
# Run a cell and its explorer comes alive: move a slider with the mouse or the arrow keys, or type a number. Until
# then you see the picture of its first setting. *Setting* loads a preset; *Guess first* hides the numbers until you
# have guessed. Grey curves are those before your last move. `make app` shows all of them without code.

# %% [markdown]
# ## 1. What does this run cost?
#
# *Proven* means an upper bound: no attacker gains more than this epsilon allows. *At least* is a proven lower bound.
#
# **Guess first.** Halve the noise: does epsilon double? Then switch *find* to the noise multiplier: how much more
# noise does RDP ask for than PLD at epsilon 1? Which order decides with noise 50 and one step?
#
# <details><summary>Answers</summary>It more than doubles: below noise 1, epsilon grows faster than 1 / noise. RDP asks
# for 8 % more. Order 10,230 decides, and orders to 64 alone prove 298 times as much.</details>

# %%
from dpkit.course.explorers import Accountant

Accountant()

# %% [markdown]
# ## 2. Can this attacker exist?
#
# An attacker accuses some non-members and misses some members. A guarantee excludes the grey region.
#
# **Guess first.** How many members can be found without any false alarm? What would an attacker in the grey region
# prove?
#
# <details><summary>Answers</summary>Hardly any. An attacker in the grey region proves that the guarantee is wrong: this
# is how an audit refutes an epsilon.</details>

# %%
from dpkit.course.explorers import TradeOff

TradeOff()

# %% [markdown]
# ## 3. Can you tell who was in?
#
# Now you are the attacker. A count is released with noise, and a coin decides in every round whether the record is in.
#
# **Guess first.** How many of twenty rounds will you get right at noise 1, and at noise 3? Which epsilon do twenty
# right guesses prove?
#
# <details><summary>Answers</summary>About 14 and 11: 69 % and 57 % of the numbers lie on the right side of the crossing.
# Twenty right guesses prove 1.82 and no more, however weak the noise: few rounds prove little.</details>

# %%
from dpkit.course.explorers import PlayTheAttacker

PlayTheAttacker()

# %% [markdown]
# ## 4. How far can one record move the sum?
#
# Each point is one example's gradient. Clipping limits what one record can do, and noise hides the rest.
#
# **Guess first.** Make the record's gradient very long. Which rule no longer limits it?
#
# <details><summary>Answer</summary>Clipping after the mean: one long gradient turns the whole mean, so one record can
# move it by twice the clip norm, however large the batch.</details>

# %%
from dpkit.course.explorers import ClippingAndNoise

ClippingAndNoise()

# %% [markdown]
# ## 5. Should the noise decay?
#
# **Guess first.** When is most of the budget spent? Is the constant noise of the same cost below or above the mean of
# the schedule?
#
# <details><summary>Answers</summary>At the end, where the noise is smallest. Below the mean: the noisy steps save less
# than the others cost.</details>

# %%
from dpkit.course.explorers import Schedules

Schedules()

# %% [markdown]
# ## 6. Shuffled, or by chance?
#
# One pass, drawn twice with the same noise. In a Poisson pass every record enters each batch by a coin. Dots in colour
# hold the record; the ring marks the largest sum.
#
# **Guess first.** At noise 0.3, how often does the largest shuffled sum contain the record? Go from 100 to 1,000
# batches: which of the two costs falls?
#
# <details><summary>Answers</summary>Nearly always. Poisson's falls, because a record is found in fewer of the batches;
# the shuffled cost stays near that of one Gaussian release.</details>

# %%
from dpkit.course.explorers import ShuffledOrPoisson

ShuffledOrPoisson()

# %% [markdown]
# ## 7. How do losses add up?
#
# Each step has a privacy loss, and a run's loss is their sum.
#
# **Guess first.** Go from one step to 10, then to 100. What happens to the mean and to the width? On which side is the
# bell curve wrong?
#
# <details><summary>Answers</summary>The mean grows with the steps, the width with their square root. The bell curve is
# too small in the right tail, so its epsilon is too small. It is right at sample rate 1.</details>

# %%
from dpkit.course.explorers import LossesAddUp

LossesAddUp()

# %% [markdown]
# ## 8. What is left of epsilon 9.6?
#
# DP-CGAN's published epsilon, counted again ([03_dp_cgan](03_dp_cgan.ipynb)). Check one box after the other.
#
# **Guess first.** Which correction costs the most? Which one can no epsilon pay for?
#
# <details><summary>Answers</summary>Of the corrections that leave epsilon finite, the labels of the fakes cost most: from 72 to 1,108. The labels that
# reach the generator carry no noise at all; labels from a public distribution repair it.</details>

# %%
from dpkit.course.explorers import RepairIt

RepairIt()

# %% [markdown]
# ## 9. What do papers claim, and does it hold?
#
# **Guess first.** Of all statements with a verdict, does the larger part hold?

# %%
from dpkit.course.explorers import ClaimsWall

ClaimsWall()

# %% [markdown]
# ## Your turn
#
# Put your answer in place of the dots. `hint(1)` helps, `solution()` shows the answer.

# %% [markdown] tags=["question"]
# **Question 1.** Noise multiplier 1.1, sample rate 0.01, 10,000 steps, delta 1e-5; then half the noise. How
# many times as large is the certified epsilon?

# %%
from dpkit.course.exercises import explorers as turn

turn.half_the_noise.check(...)

# %% [markdown] tags=["question"]
# **Question 2.** 'Noise multiplier 0.7, batch 600 of 60,000, 100 epochs, and epsilon is 6.' What is the
# certified epsilon at delta 1e-5, for Poisson batches and add-remove?

# %%
turn.colleague.check(...)

# %%
turn.sheet.quiz()

# %% [markdown]
# ## What to take away
#
# - An epsilon is the price of one run: noise, sample rate, steps, delta and how batches are drawn.
# - PLD gives bounds on both sides; a bell curve is an estimate, and is often too small.
# - A guarantee is a statement about every attacker, so one attacker in the grey region refutes it.
# - What one record can move decides the price; check that first.

# %% [markdown]
# **Next:** this is the last notebook; [all of them](README.md) stand in reading order, each with its question.

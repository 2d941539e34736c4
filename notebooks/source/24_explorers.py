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
# > **You will** turn the knobs of a private training run and watch every accountant answer; find the noise for
# > a budget; see which order decides; play the attacker, by a point and by twenty guesses; move one record; let
# > the noise decay or take another shape; count a published epsilon again; and browse the papers' claims.
# > **Time** 25 seconds to run on one core, an hour to play. **Memory** 300 MB. **Needs** nothing: no data set, no download, no GPU.
# > **Sources** the notebooks before this one, which explain every word used here.
#
# Run a cell and its explorer comes alive: move a slider with the mouse or the arrow keys, or type a number
# beside it. Until then, the table shows the numbers of the initial setting. *Setting* goes to one worth a look and
# back; with *Guess first*, numbers wait for your guess. The grey curves are those before your last move.

# %% [markdown]
# ## 1. What does a run cost?
#
# Five accountants price one run. *Proven* means an upper bound: no attacker can gain more than this epsilon
# allows. The PLD accountant also gives a lower bound, in the column *at least*: no smaller epsilon can be
# proven. (*GDP* is the subject of [22](22_theorems_that_mislead.ipynb), section 2.)
#
# 1. Halve the noise. Does epsilon double, or is it worse than that?
# 2. Set the sample rate to 0.0001 and the noise to 0.3, with 1,000 steps. Which accountant falls below the
#    proven lower bound, and what follows?
# 3. Four times the steps: what happens to epsilon?

# %%
from dpkit.course.explorers import Accountant

Accountant()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) Worse: below noise 1, epsilon grows much faster than 1 / noise. (2) GDP's central limit: it is an
# approximation, and here it is refuted. (3) It about doubles, unless it is large: costs grow with the square
# root of the steps.</details>
#
# ## 2. What can I afford?
#
# The other way round: given a budget, find the noise, the steps or the sample rate.
#
# 1. How much more noise does RDP make you add than PLD, at epsilon 1 and at epsilon 10?
# 2. Ask for epsilon 0.0001. What does the explorer say?

# %%
from dpkit.course.explorers import Calibration

Calibration()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) About 8 % more at epsilon 1 and 3.5 % more at epsilon 10: a looser proof costs noise, but less of it as
# the budget grows. (2) Noise in the thousands; for steps or sample rate, a message, because not even one step
# fits.</details>
#
# ## 3. Which order decides?
#
# RDP proves one bound for each order; the smallest of them counts.
#
# 1. Take much noise and one step. Where does the best order go? What would a list of orders that ends at 64 have
#    cost?
# 2. Take little noise. Where does it go now?

# %%
from dpkit.course.explorers import RenyiOrders

RenyiOrders()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) Far up, into the hundreds and beyond: a list that ends at 64 can cost many times too much. (2) Down, towards 1.</details>
#
# ## 4. Can this attacker exist?
#
# The curve is a limit for every attacker: whoever accuses non-members with probability alpha misses members
# with at least the probability that the curve shows.
#
# 1. Put the attacker's point below the curve. What would such an attacker prove?
# 2. How many members can be found without any false accusation?

# %%
from dpkit.course.explorers import TradeOff

TradeOff()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) That the guarantee is wrong: this is how an audit refutes an epsilon. (2) Hardly any: as alpha goes to 0,
# the share of members that is missed goes to 1.</details>
#
# ## 5. Can you tell who was in?
#
# Now be that attacker. A count is released with noise; in every round a coin decides whether one record is in
# it, and you see the number. Say *In* or *Out*, or pass; [05_auditing](05_auditing.ipynb) does the same by code.
#
# 1. Before you press a button: how many of twenty will you get right at noise multiplier 1, and at 3?
# 2. You get all twenty right. Which epsilon have you proven, and why not the release's own?
# 3. Hide the curves. After how many rounds do you know where to put your threshold?

# %%
from dpkit.course.explorers import PlayTheAttacker

PlayTheAttacker()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) About 14 and 11 if you guess as well as anyone can: the two curves cross halfway, and 69 % or 57 % of the
# numbers lie on the right side. (2) At least 1.82: who only guesses at epsilon 1.82 is still right twenty times
# in one game of twenty. A few rounds cannot show a large epsilon, however bad the release is. (3) After a dozen
# or so: the truths that you are told show where the two groups lie. A real attacker makes such rounds by himself,
# with records of his own.</details>
#
# ## 6. How far can one record move the sum?
#
# Each point is one example's gradient. Clipping limits what one record can do, and noise hides the rest.
#
# 1. Make one record's gradient very long. Which clipping rules still limit it, and which does not?
# 2. What does clipping *after the mean* claim to protect, and what does it really protect?

# %%
from dpkit.course.explorers import ClippingAndNoise

ClippingAndNoise()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) All rules that clip example by example. Clipping after the mean does not: one long gradient turns the
# whole mean. (2) It claims that one record moves the release by the clip norm divided by the batch size. Really
# it can be twice the clip norm, however large the batch.</details>
#
# ## 7. Should the noise decay?
#
# 1. Let the noise decay exponentially. When is most of the budget spent?
# 2. Which constant noise would have cost the same, and is it below or above the mean of the schedule?

# %%
from dpkit.course.explorers import Schedules

Schedules()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) At the end, where the noise is smallest. (2) Below the mean: the noisy steps save less than the others
# cost.</details>
#
# ## 8. What does noise on the loss buy?
#
# RDP-GAN ([12_rdp_gan](12_rdp_gan.ipynb)) adds noise to the value of the loss. Here are its theorems, its eq.
# 23 and the proven epsilon of such noisy values, side by side.
#
# 1. Double sigma. Which epsilon falls by a factor of 4, which by 2, and what does the certified one do?
# 2. Set n_g to 1: which theorem is refuted?
# 3. Raise the noise until the *training* has a guarantee.

# %%
from dpkit.course.explorers import LossNoise

LossNoise()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) Those of the theorems by 4, eq. 23 by 2; the certified one by about 2. (2) Theorem 2, and with it Theorem
# 4: both are below the certified lower bound. (3) No noise gives it one: to the gradient, noise on the value of
# a loss is a constant.</details>
#
# ## 9. Which epsilon belongs to a score?
#
# Small Images (Schwabedal, Michel and Riontino 2020) plots the inception score of its digits against epsilon.
# Its code shuffles the data into batches, but charges them as if they were Poisson batches.
#
# 1. In Figure 1, go through the three choices of epsilon. Which way does the curve move, and does the score
#    change?
# 2. In Figure 2 double the noise, from 0.5 to 1. How much less is charged, and how much less is proven?
# 3. The grey bar begins at the lower bound for the batches as drawn. On which side of it is the epsilon
#    charged, and what follows?

# %%
from dpkit.course.explorers import ScoreAgainstEpsilon

ScoreAgainstEpsilon()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) Left, from 8.99 to 6.18, if the same assumption is priced exactly; far right, to about 100, if nothing is
# assumed. The score stays the same. (2) After 3,000 steps, about 7 times less is charged and about 2.8 times
# less is proven. (3) To the left: in the worst case, shuffled batches cost more than is charged.</details>
#
# ## 10. How far does one record move k groups?
#
# dpGAN (Zhang, Ji and Wang 2018) clips its gradient in groups, each at C, and adds noise to each. By one argument in
# the proof of its Theorem 4.1, all of them cost as much as one. Its code charges each group as a release from a separate batch. But
# within one step, all groups read the same batch.
#
# 1. Go from one group to seven. Which epsilon stays the same, which grows a little, and what do all groups
#    together cost?
# 2. The code divides the noise by the square root of the batch size. Switch to the noise that it adds: look at
#    the dots, then at epsilon.
# 3. With seven groups and the noise as charged, how large must z be to keep 560 iterations within epsilon 4?

# %%
from dpkit.course.explorers import GroupDirections

GroupDirections()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) Theorem 4.1's stays at 1.66 and the code's charge grows to 4.03; together they go from 1.15 to 22,
# certified. (2) The dots around the corner no longer overlap those around the centre: the release shows whether
# the record was there. Epsilon is about 1,230, on one device 2,340. (3) About 1.8, certified; 2.0 by
# RDP.</details>
#
# ## 11. Should the noise follow the sensitivity?
#
# AdaDP ([14_adadp](14_adadp.ipynb)) clips each coordinate by itself and gives it noise in proportion to its
# sensitivity. What noise costs depends on one sum, H, so four shapes of noise can be compared at the same
# price. Which one keeps the direction of the query's value best?
#
# 1. As it opens: which of adaptive and uniform noise has more variance, and which keeps the direction better?
# 2. Keep the value's direction, and make it longer: (20, 10), (30, 15), (50, 25). When does the order change?
# 3. Set the value to (5, 10): the coordinate that a record moves most is now the small one. Who gains?
# 4. Make the two sensitivities equal. What is left of the question?

# %%
from dpkit.course.explorers import NoiseShapes

NoiseShapes()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) Their variances are the same, 360, and uniform keeps the direction better, 0.481 to 0.471; the paper drew
# the opposite conclusion. Noise in proportion to the square root has the least variance, 324, and 0.490. (2) At
# about (28, 14): a value that is large beside its noise prefers the adaptive shape. (3) Adaptive, 0.544 to
# 0.481: its noise is small where the value is large. (4) Nothing: all shapes are one.</details>
#
# ## 12. How were the batches drawn?
#
# Most code shuffles the data and cuts it into batches; most accountants price Poisson batches. Each bar is what is
# proven of the same run, from both sides.
#
# 1. Take one pass: 100 steps at batch 600 of 60,000. Which way costs least, and why less than Poisson batches?
# 2. What does it cost to cut Poisson batches to a fixed shape?
# 3. Which bar is widest, and what would it take to make it narrower?

# %%
from dpkit.course.explorers import BatchesAsDrawn

BatchesAsDrawn()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) Balls and bins, 0.62 beside 0.72: a record is in exactly one batch of a pass, and never in three by chance.
# (2) Next to nothing, if the largest batch is large enough: 752 for 600. With 650, ten passes cost 5.1 instead of 1.8
# (`python -m dpkit epsilon --sampling truncated --largest-batch 650`). (3) That of shuffled batches, from 5.4 to 10 for
# one pass: balls and bins prove the lower end, and above it no amplification within a pass is known. It would take a
# theorem.</details>
#
# ## 13. Shuffled, or by chance?
#
# One pass, drawn twice with the same noise: at the left every record enters each batch by a coin, at the right
# the data are shuffled. Dots in colour hold the record, the ring marks the largest sum.
#
# 1. Make the noise 0.3. How often is the largest shuffled sum the record's? Move *draw* to see some.
# 2. Go from 100 batches to 1,000. Which of the two costs falls, and which stays?
# 3. When does a pass by chance cost *more* than a shuffled one?

# %%
from dpkit.course.explorers import ShuffledOrPoisson

ShuffledOrPoisson()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) Nearly always. (2) Poisson's falls, for a record is found in fewer batches; that of shuffled ones stays at that of
# one Gaussian release: among 1,000 sums of noise 0.5 the one that the record moved still stands out. (3) With few
# batches: at ten, a record may by chance be in three of them.</details>
#
# ## 14. How do losses add up?
#
# Each step has a privacy loss; a run's is their sum. Add steps, and watch the histogram become a bell in the
# middle, but not in the tail that delta cuts.
#
# 1. Take one step, then 10, then 100. What happens to the mean, and to the width?
# 2. Where does the bell curve go wrong, and on which side?
# 3. When is it right?

# %%
from dpkit.course.explorers import LossesAddUp

LossesAddUp()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) The mean grows with the steps, the width with their square root. (2) In the right tail, where it is too
# small: so is its epsilon. (3) With a sample rate of 1, where every loss is normal; or after so many steps that the
# tail at delta belongs to the middle.</details>
#
# ## 15. What is left of epsilon 9.6?
#
# DP-CGAN's ([03_dp_cgan](03_dp_cgan.ipynb)) published epsilon, counted again. Check one box after the other.
#
# 1. Which correction costs the most? Guess, then count.
# 2. Which one cannot be paid for by any epsilon, and what would repair it?

# %%
from dpkit.course.explorers import RepairIt

RepairIt()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) The labels of the fakes, from 72 to 1,108: twice the distance at little noise costs far more than twice.
# (2) The generator's labels: they reach it without noise. Labels drawn from a public distribution repair it.</details>
#
# ## 16. What does epsilon buy?
#
# Digits of stored generators, all trained on MNIST with a proven epsilon, and what a classifier learns of them.
#
# 1. Compare DP-CGAN at epsilon 10 with class moments, which train no GAN, at epsilon 1.
# 2. Which method gains most from ten times the epsilon?

# %%
from dpkit.course.explorers import SamplesByEpsilon

SamplesByEpsilon()

# %% [markdown]
# <details><summary>Answers</summary>
# (1) 78.8 % beside 96.3 %: the simplest thing does better, at a tenth of the epsilon. (2) DP-MERF, from 70.3 % to
# 78.4 %; [21_best_private_gan](21_best_private_gan.ipynb) has all of them.</details>
#
# ## 17. What do the papers claim, and does it hold?
#
# Filter by paper and verdict, and choose a claim.

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

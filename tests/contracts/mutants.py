"""Faults put in by hand, each of a kind that was found in privacy code: the tests must catch all.

`make mutants` first runs the tests that are named with the faults on the code as it is: a test
that fails without a fault catches nothing. Then it makes one fault at a time, in a copy of the
package and its tests, and runs the fault's tests until the first failure. A fault that no test
notices is a hole in the tests. One whose text is no longer in the source, or that keeps its tests
from running, is an error here. `python tests/contracts/mutants.py noise half` tries the faults
with both words in their names.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import NamedTuple
from xml.etree import ElementTree

CHECKOUT = Path(__file__).resolve().parents[2]
NEEDED = ("dpkit", "tests", "data/results", "pyproject.toml")
# What a test raises where a fault leaves code that cannot run: no test has to look for that.
BROKEN = ("SyntaxError", "ImportError", "ModuleNotFoundError", "NameError", "UnboundLocalError")
# Plugins take longer to start than most tests to run, and no test of a fault needs one.
ALONE = {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class Mutant(NamedTuple):
    """`right` in `file` (in dpkit) becomes `wrong`, and `tests` should notice it.

    tests: a file, or one test of it where the file takes more than a few seconds.
    """

    name: str
    file: str
    right: str
    wrong: str
    tests: str


# As a diff: after "==" a file of dpkit, then each fault: its name, after "@" what should notice it
# (in tests; as the fault before where it is left out), the lines as they are, those in their place;
# or, after "~", one line that has «what is there→what comes in its place».
FAULTS = """
== privacy/ledger.py
a dropped count
@ privacy/test_rdp.py::test_the_published_orders_give_the_published_numbers
~total = total + «count * →»mechanism.rdp(orders)
equal releases on two lines counted once
@ privacy/test_rdp.py::test_parallel_parts_cost_the_dearest_or_the_dearest_two
~counts[mechanism] = «counts.get(mechanism, 0) + →»count
mixed adjacencies are added up
@ privacy/test_rdp.py::test_costs_add_up_and_adjacencies_do_not_mix
~if len(adjacencies) > «1→2»:
a ledger that was read before costs nothing
@ privacy/test_inputs.py::test_a_tuple_is_as_good_as_a_list_and_what_is_read_once_is_refused
~if not isinstance(listed, «list | tuple→Iterable»):
a count keeps its 16 bits
@ privacy/test_inputs.py::test_counts_of_few_bits_do_not_overflow
~return Release(entry[0], «count→entry[1]»)
parts that show how many take part are priced
@ privacy/test_inputs.py::test_parts_that_a_record_may_change_need_mechanisms_that_hide_who_takes_part
~if not getattr(mechanism, "hides_participation", «False→True»):
== privacy/mechanisms/sampled_gaussian.py
q and 1 - q swapped
@ privacy/test_certified_pair.py::test_common_and_hard_runs_have_a_narrow_pair
~rest = «(1 - q)→q» * base
groups clipped apart charged as one
@ privacy/test_gaussian_variants.py
~else own« / math.sqrt(self.groups)→»
a parameter keeps its 16 bits
@ privacy/test_inputs.py::test_a_parameter_of_few_bits_is_the_number_that_it_is
-checks.plain_fields(self)
-        check_noise(self.noise_multiplier)
-        checks.in_range(0, 1, sample_rate=self.sample_rate)
-
+check_noise(self.noise_multiplier)
+
a group that never meets in one batch
@ privacy/test_groups.py
~«comb(k, j) * q**j * (1 - q) ** (k - j)→((1 - k * q) if j == 0 else k * q if j == 1 else 0)»
== privacy/accountants/pld/__init__.py
a forgotten direction of the PLD
@ privacy/test_certified_pair.py::test_common_and_hard_runs_have_a_narrow_pair
-worse, other = _directions(releases, looks, wanted, cut=cut)
+worse, other = (_directions(releases, looks, wanted, cut=cut)[1],) * 2
a direction left out that was not shown to cost less
@ privacy/test_composed_loss.py
~return «compose(parts, look, direction.blur).epsilon_above(delta) <= epsilon→True»
a delta between two epsilons as at the larger one
@ privacy/test_tradeoff.py
~return deltas[below] - «share * fall * (1 - 1e-12)→fall»
a profile of the cheaper direction
~proven = found.«max→min»(axis=0)
pure DP with a little delta
@ privacy/test_stated.py
~return composition.basic(ledger, delta=«0→1e-9»)
== privacy/statement.py
tuning that cost what one run does
@ privacy/test_statement.py
~«[Release(one, tried * n) for one, n in ledger.releases]→ledger»
== training/batches.py
the first records of a batch that is too large are kept
@ training/test_batches.py
~kept = torch.«randperm(len(drawn), generator=rng, device=rng.device)[:most]→arange(most)»
a last record that no draw with replacement meets
~(_uniform(batch, rng) * «size→(size - 1)»).long()
== privacy/mechanisms/gaussian.py
a wrong exponent in Gaussian RDP
@ privacy/test_sampled_gaussian.py::test_over_a_fine_net_it_grows_up_to_the_unsampled_and_its_moment_is_convex
~as_orders(orders) * (shift «* shift →»/ 2)
== privacy/accountants/pld/composed_loss.py
NaN passes for private
@ privacy/test_composed_loss.py
~failing = «~(first - second + doubt <= target)→first - second + doubt > target»
an infinite loss that costs nothing
~target = delta * np.exp(-self.factor)« - self.infinite→»
wrap-around is not bounded
-        if best < ENOUGH:
-            break
-    return best
+        if best < ENOUGH:
+            break
+    return 0.0
a row of discounted sums that ends at its last node
-    found[:-1] += found[1:, :1] * falling[:0:-1]
-
chirps with half their period
@ privacy/test_blocks.py
~turn = k * k % «(2 * self.size)→self.size»
releases side by side share one middle
~places = (np.arange(weights.shape[1]) - middles[:«→1», None]) % length
a row's count taken for its block's
~in zip(counts«[some]→[:1] * len(counts[some])», logs, more, strict=True)
a release that is mostly at its middle, priced as if it always were
@ privacy/test_composed_loss.py
~z, error = «z - rest.sum()→0 * z», error
== privacy/mechanisms/base.py
replace-one moves a sum as little as add-remove
@ privacy/test_sampled_gaussian.py::test_over_a_fine_net_it_grows_up_to_the_unsampled_and_its_moment_is_convex
~return 1.0« if adjacency == "add-remove" else 2.0→»
NaN noise is let in
@ privacy/test_refusals.py::test_bad_values_are_refused_with_their_name
-    checks.positive(**{name: value})
-    if not 1e-9 <= value <= 1e13:
-
+    if value < 1e-9 or value > 1e13:
+
== privacy/accountants/conversions.py
a conversion divides by the order
@ privacy/test_rdp.py::test_delta_is_the_inverse_of_epsilon
~return np.maximum(rdp - np.log(delta) / «(orders - 1)→orders», 0.0)
the optimal conversion three times too far at its end
@ privacy/test_contracts.py::test_the_epsilon_from_rdp_holds_by_the_profile
~at_end = epsilon - «→3 * »np.log1p(-delta)
== privacy/calibrate.py
calibration ends on the other side
@ privacy/test_calibrate.py
-            return inside
-
+            return outside
+
== privacy/accountants/pld/loss_grid.py
cells rounded down where they should be split
@ privacy/test_loss_grid.py
~high = np.where(known, np.clip(high, 0.0, p)«→ / 2», p)
shares that are not lowered
~lowered[..., :-1] = «np.minimum(up[..., :-1], (1 - up[..., 1:]) * lift)→up[..., :-1] + 0 * lift»
the finest lattice becomes the spacing
@ privacy/test_inputs.py::test_a_cheap_release_on_a_fine_lattice_keeps_the_pair_narrow
-    if not lattices or not min(lattices) >= spacing:
-
+    if not lattices:
+
== privacy/accountants/filters.py
a filter that looks at its budget before the charge
@ privacy/test_filters.py
~return self._spent «+ cost →»<= Fraction(self._budget)
two threads charge a filter at once
@ privacy/test_filters.py::test_threads_do_not_charge_beyond_the_budget_together
-        with self._lock:
-
+        if True:
+
== papers/rdp_gan/schedule_calibration.py
a solved schedule priced at one release an iteration
@ papers/rdp_gan/test_schedule_calibration.py::test_a_start_and_the_iterations_it_affords_agree
~ledger = [Release(one, count« * releases_each→») for one, count in ledger]
== privacy/sampling.py
batches without replacement priced by the clip norm
@ privacy/test_sampling.py
~return WithoutReplacementGaussian(noise« / 2→», sample_rate)
shuffled batches as sensitive as under add-remove
@ privacy/test_drawn_truth.py
~Assuming(Gaussian(noise_multiplier, «adjacency→"add-remove"»), assumed)
== privacy/normals.py
noise whose tail is cut
@ training/test_noise.py::test_draws_are_normal_wherever_the_tail_begins
~draws[far] = np.copysign(«ndtri(depth * ndtr(-TAIL))→TAIL», draws[far])
== training/noise.py
noise from a seed that everybody has
@ training/test_noise.py::test_a_generator_that_everybody_knows_is_refused
~if rng.initial_seed() «== torch.Generator().initial_seed()→is None»:
the noise of a forked process again
@ training/test_noise.py::test_a_forked_process_does_not_draw_its_parents_noise
-    if made_in != os.getpid():
-
+    if made_in < 0:
+
no noise where a GPU's deviation is no number
@ training/test_transfers.py::test_a_deviation_or_bound_that_is_wrong_leaves_no_sum_without_noise
~return torch.where(stds «== 0, totals, noisy→> 0, noisy, totals»)
noise from a key that serves again
@ training/test_noise.py::test_no_block_of_noise_enters_twice
-key = torch.randint(2**32, (8,), generator=rng, device=rng.device).tolist()
+key = torch.randint(2**32, (8,), generator=torch.Generator().set_state(rng.get_state())).tolist()
blocks of a release that are alike
~normals.standard_normals(size, rng=«own→np.random.default_rng(key)»)
== training/device.py
only 32 bits of a seed count
@ training/test_noise.py::test_all_of_the_entropy_counts
~«words = np.frombuffer(entropy, np.uint32).astype(np.uint64)→return rng»
== privacy/best_of.py
many Poisson runs charged one run's delta
@ privacy/test_best_of.py::test_no_choice_among_runs_costs_more_than_is_charged
~lost = «mean→min(mean, 1.0)» * self
no run at all, of a Poisson number, left out
-chosen = np.logaddexp(math.log(mean) + (alpha - 1) * (one + lost), -mean)
+chosen = math.log(mean) + (alpha - 1) * (one + lost)
a choice among runs without the number of runs
@ privacy/test_best_of.py
~return one + (1 + eta) * float(told.min())« + math.log(mean) / (alpha - 1)→»
what the number of runs gives away is left out
~return one + «(1 + eta) * float(told.min()) + →»math.log(mean) / (alpha - 1)
a Poisson number of runs with a delta at too large an epsilon
@ privacy/test_best_of.py::test_a_poisson_number_of_runs_costs_what_theorem_6_says
~np.log1p(«1→2» / (alpha - 1))
== private/model.py
a step that is not charged
@ private/test_model.py::test_every_step_is_charged_and_none_beyond_the_budget_runs
-        self.steps_done += 1
-
a batch that can be chosen
@ private/test_around_the_step.py::test_empty_batches_cannot_be_skipped
-            if not self._drawn.unused:
-
+            if True:
+
a budget spent by a run that cannot start
@ private/test_around_the_step.py::test_a_run_that_could_not_start_leaves_the_budget_as_it_was
~self._budget.«check→reserve»(self.plan.ledger(), **self._run)
where a run stopped is published
@ private/test_around_the_step.py::test_runs_that_stopped_at_different_steps_publish_the_same_words
-words["statement"] = self.statement(unit=unit)
+words |= {"statement": self.statement(unit=unit), "steps_done": self.steps_done}
two releases of one batch
@ private/test_around_the_step.py::test_two_threads_do_not_use_one_batch_twice
-        self._drawn.unused = False
-
== private/release.py
two threads use one batch
@ private/test_around_the_step.py::test_two_threads_do_not_use_one_batch_twice
~if not «self._lock.acquire(blocking=False)→(self._lock.locked() or self._lock.acquire())»:
spectral norms that tell an empty batch
@ private/test_around_the_step.py::test_the_vectors_of_a_spectral_norm_do_not_tell_an_empty_batch_from_another
~with «functional.still(self)→torch.no_grad()»:
one record in every row of a batch
@ private/test_model.py::test_what_is_not_the_batch_row_by_row_is_not_taken_for_it
~«len(view) == 1 or view.stride(0) == within→True»
== private/budget.py
a budget for each name of its file
@ private/test_budget.py::test_a_link_and_another_folder_lead_to_the_same_budget
~return Path(«os.path.realpath(vars(self)["_absolute"])→vars(self)["_absolute"]»)
a budget of the folder that is current
~return Path(os.path.realpath(«vars(self)["_absolute"]→self.path»))
== training/gradients/independence.py
one record that is read unseen
@ private/test_around_the_step.py::test_a_loss_that_reads_other_records_is_refused_before_anything_is_charged
-np.shares_memory(*pair, max_work=WORK)
+(lambda a, b: a.shape == b.shape and np.shares_memory(a, b))(*pair)
a loss that follows the number of examples
@ training/gradients/test_examples_meet.py::test_a_loss_that_follows_how_many_examples_there_are_is_refused
~if «same→False» and (whole
a later read unseen
@ private/test_around_the_step.py::test_a_loss_that_begins_to_read_later_is_found_out
~return «secrets.randbelow(ONE_IN) == 0→False»
examples that meet are looked for once
@ training/gradients/test_examples_meet.py::test_what_fades_in_is_seen_by_the_next_power_of_two
~return self.batches «& (self.batches + 1) →»== 0
== private/gan.py
a run that is charged before it can start
@ private/test_gan.py::test_a_run_that_does_not_start_reserves_nothing_and_keeps_what_was_fitted
~charge(Budget.«check→reserve»)
losses and batch sizes in a pickle
@ private/test_around_the_step.py::test_a_pickled_gan_holds_no_curves_and_no_labels
~k not in («"curves_", "transform_"→"transform_",»)
== training/gradients/layers.py
a record that is not finite ends the run
@ training/gradients/test_clipped.py::test_a_record_whose_gradient_is_not_finite_adds_nothing
~return weights«.masked_fill(~(weights.isfinite() & (weights != 0)).all(0), 0)→»
== private/networks.py
records in a published buffer
@ private/test_around_the_step.py::test_a_record_that_the_loop_put_into_a_buffer_is_not_saved
~if meet(extents(held), places)« or any(_holds_rows(held, part) for part in data)→»:
weights that something else moved unnoticed
@ private/test_around_the_step.py::test_weights_that_something_else_moved_are_noticed
~or «same_sums(self._left, self._sums())→True»
the optimiser's own steps, without noise
@ private/test_mistakes.py::test_the_optimizer_is_not_stepped_beside_private_step
-    if not _steps[optimizer]:
-
+    if False:
+
== private/data.py
a standardisation with half its noise
@ private/test_standardise.py::test_a_record_moves_the_sum_by_its_bound_at_most
~std = self.noise_multiplier * sqrt«(2 * size)→(size) / 2»
== private/plan.py
a standardisation that costs nothing
@ private/test_standardise.py::test_it_is_the_first_release_of_the_same_budget
-return [*_scaling(self.scaling_noise), Release(one, count)]
+return [*(_scaling(self.scaling_noise) if count else ()), Release(one, count)]
half of the noise that was calibrated
@ private/test_model.py::test_the_noise_is_what_the_certified_accountant_asks_for
~return self.noise_multiplier * self.clipping.sensitivity("add-remove")«→ / 2»
== training/optimizers.py
an optimiser of other parameters is stepped
@ training/test_training.py::test_an_optimizer_that_holds_other_parameters_is_refused
-    if held != given:
-
+    if not given <= held:
+
== privacy/clipping.py
noise by coordinate without the root of their number
@ privacy/test_clipping.py
~scale = noise_multiplier «* _float64(self._released()) ** 0.5 →»+ whole
== papers/adadp/noise_shapes.py
a gradient clipped in another norm than its noise's
@ papers/adadp/test_noise_shapes.py::test_clipped_sums_are_those_of_gradients_one_by_one
~squares.append(((d.square() @ next(left).«square().→»reciprocal()) * a.square()).sum(1))
a released history that reads the raw gradient
@ papers/adadp/test_noise_shapes.py::test_a_released_history_estimates_the_squares_under_the_noise
~squares = «((n / self.lot) ** 2 - (z * d / self.lot) ** 2 for n, d in pairs)→raw("mean")»
== papers/adadp/settings.py
a choice of the step that is not charged
@ papers/adadp/test_agd.py::test_gradient_and_choice_cost_what_one_gaussian_does
~choice = «len(self.rates) / self.choice_noise**2→0.0»
a projection that no ledger knows of
@ papers/adadp/test_algorithm.py::test_noise_of_a_level_costs_it_and_little_less
~return [«*self.projection(), →»Release(step, steps)]
a guarantee for a raw history
@ papers/adadp/test_algorithm.py::test_no_guarantee_covers_the_published_history
~if «not isinstance(self.noise, Flat | Repaired | Optimised)→self.noise is None»:
== synthesizers/random_features.py
features longer than 1
@ synthesizers/test_releases.py
~axis=1) / sqrt(len(frequencies)«→ - 1»)
half the noise that is charged
~noise_std=settings.noise_std«→ / 2», rng=rng
== synthesizers/feature_matching.py
a generator that matches the sums without noise
@ synthesizers/test_feature_matching.py::test_training_sees_the_noised_sums_alone
-released = release(images, labels, settings=settings, rng=rng)
+released = release(images, labels, settings=settings, rng=rng)
+    from dpkit.synthesizers.random_features import embedded_sums
+    released = embedded_sums(images, labels, settings=settings)
== synthesizers/class_moments.py
a sensitivity without the count
@ synthesizers/test_class_moments.py
~sum(weight**2 for weight in self.weights«→[1:]»)
two releases charged as one of them
~tuple(self.noise_multiplier «/ sqrt(share) →»for share in shares)
moments of records that are not clipped
@ synthesizers/test_releases.py
~return z« / np.maximum(np.sqrt(np.square(z).sum(1, keepdims=True)), 1)→»
symmetric noise that is averaged on the diagonal too
~np.einsum("gii->gi", noisy)[:] «= normals.noised(diagonal, noise_std=seconds, rng=rng)→*= 0.7»
== privacy/accountants/pld/large.py
atoms moved up by half
@ privacy/test_large_runs.py::test_atoms_are_above_and_below_the_hockey_stick
-    masses = np.append(cells.p[:1], share * p)
+    share = share / 2
+    masses = np.append(cells.p[:1], share * p)
atoms beyond the last node forgotten
~    return Atoms(cells.nodes, masses, beyond«→ * 0»)
a cell's loss read at its upper end
@ privacy/test_large_runs.py::test_the_true_epsilon_lies_in_a_narrow_pair
~losses = «np.log1p((p - q) / q) - lowered[:-1]→cells.nodes[1:] - lowered[:-1] - 5 * lowered[-1]»
all releases shift the loss as one does
@ privacy/test_random_ledgers.py::test_gaussians_against_one
~shift += «float(count * mean)→mean»
epsilon refuted at the first doubt
@ privacy/test_large_runs.py::test_an_epsilon_is_refuted_beyond_one_that_is_in_doubt
~            «lambda good: good.size - int(np.argmin(np.append(good[::-1], False)))→np.argmax»,
== privacy/groups.py
a group's delta without its chain
@ privacy/test_groups.py
~return math.log(left) «+ grown →»<= math.log(delta)
== privacy/sampling.py
a begun pass is free
@ privacy/test_drawn_formulas.py::test_a_begun_pass_costs_more_than_none_and_at_most_a_whole_one
~parts = [(batches, 1.0, whole)«, (begun, begun / batches, 1)→»]
== privacy/mechanisms/poisson_sampled.py
a forgotten direction of the profile
@ privacy/test_contracts.py::test_the_profile_equals_the_definition_in_both_directions
~return np.stack([removed, «added→removed»])
an amplified epsilon without its sample rate
@ privacy/test_inputs.py::test_the_profile_keeps_its_digits_where_records_are_rare
~removed = q * mechanism.profile(«tilt(eps, q)→eps»)[0]
a sample's loss without the records that are not drawn
@ privacy/test_stated.py::test_a_sample_of_a_gaussian_is_the_sampled_gaussian
~«(1 - q) * other + q * →»p, other
a sample of groups priced as one of records
@ privacy/test_refusals.py
~or «hasattr(own, "group_size")→False»
== privacy/mechanisms/stated.py
a delta in one direction alone
@ privacy/test_stated.py
~found[1, «0→1»] += self.delta
== privacy/mechanisms/with_replacement.py
a draw in place of another moves the sum by one clip norm
@ privacy/test_drawn_truth.py::test_batches_with_replacement_of_small_data_sets
~self.noise_multiplier« / 2→», 1 / self.records
== privacy/mechanisms/pure.py
a choice by score at the middle loss alone
@ privacy/test_stated.py
~«np.log1p(-1 / alpha) + log_d - log_less→-self.epsilon / 2»
== privacy/risk.py
a mu that leaves out more than its tail
@ privacy/test_risk.py
~np.maximum(deltas - «→100 * »tail, 0.0)
false alarms counted as true ones
~power = «1 - →»tradeoff
== privacy/mechanisms/truncated_poisson.py
a batch that is full keeps every record of the fewest others
@ privacy/test_drawn_truth.py
~rate * room / «(int(others) + 1)→self.records»
records that are cut cost nothing
-parts = zip(map(float, chances), [self._plain, step(halved, rate), *cut], strict=True)
+parts = zip(map(float, chances), [self._plain] * (2 + len(cut)), strict=True)
== privacy/mechanisms/lognormal_sums.py
a sum's cells merged where they should be spread
@ privacy/test_drawn_formulas.py::test_both_laws_have_their_means_and_bracket_the_spread
~found = _sum(one, count, «_spread→_merged», noise)
== privacy/mechanisms/balls_and_bins.py
the mass that is left out is lost
@ privacy/test_drawn_formulas.py::test_two_batches_by_quadrature
-    p[[0, -1]] += at_least, at_most
-
== private/images.py
images fitted before the budget is asked
@ private/test_images.py::test_a_budget_adds_up_fits_and_one_that_exceeds_it_charges_nothing
-            budget.reserve(ledger, data=checksum(pixels, labels), seed=self.reproducible_seed)
+            self.model_ = fit(rows, labels, settings=settings, rng=rng)
+            budget.reserve(ledger, data=checksum(pixels, labels), seed=self.reproducible_seed)
== audit/bounds.py
two error rates, each limited at the whole confidence
@ audit/test_bounds.py::test_without_any_error_both_limits_have_a_closed_form
~z = quantile(«(1 - confidence) / 2→1 - confidence»)
many thresholds at the confidence of one
@ audit/test_bounds.py::test_more_thresholds_cost_their_number
~z = quantile((1 - confidence) / «(2 * tried.size)→2»)
== papers/targets/results.py
repeated attacks that all draw the same
@ audit/test_results.py::test_every_repetition_draws_scores_of_its_own
~np.random.default_rng([seed, 1«, one→»])
== audit/runs.py
an attacked record that is in every batch
@ audit/test_runs.py::test_losses_of_poisson_runs_have_the_ledgers_profile
~draws += shift« * (rng.random((trials, count)) < rate)→»
== papers/claims.py
evidence of other inputs
@ papers/test_claims.py
~return record if «same and →»record["values"] else None
NaN bears a claim out
~holds = «computed <=→not computed >» stated + claim.tolerance
whatever is negative counts as rounding
~if «abs(computed)→computed» <= claim.rounding:
== datasets/tables.py
categories learned from the records
@ datasets/test_tables.py
~name: «pd.CategoricalDtype(values)→"category"» if values else "int64"
== datasets/encoding.py
values beyond the edges moved into the nearest bin
@ datasets/test_encoding.py::test_a_bad_table_is_refused_with_row_column_value_and_remedy
-        low, high = self.edges[0], self.edges[-1]
-
+        low, high = self.edges[0], self.edges[-1]
+        values = np.clip(values, low, high)
+
a checksum of the bins alone
@ datasets/test_encoding.py::test_the_checksum_is_of_the_content
~«(column if values is None else values.astype("<f8"))→column».tobytes()
== datasets/files.py
a file that is read whatever its checksum
@ datasets/test_bad_input.py
~if stopped is None« and found == sha256→»:
== datasets/images.py
test images among the training images
@ datasets/test_digits.py
~chosen = test if split == "test" else «~test→np.ones_like(test)»
== commands/accounting.py
the best of many runs at the price of one
@ commands/test_command_line.py::test_epsilon_of_a_group_and_of_the_best_of_several_runs
~found = pricing.epsilon(«priced→releases», delta)
a noise multiplier printed to the nearest digit
@ commands/test_command_line_ledgers.py::test_noise_lies_on_the_private_side_and_shows_its_epsilon
~{«at_most(value, 6)→value:.6g»}
== commands/ledger_file.py
steps of one adjacency priced under the other
@ commands/test_ledger_file.py::test_a_ledger_that_does_not_say_the_run_is_refused
-    if own != adjacency:
-
+    if own not in ADJACENCIES:
+
== privacy/mechanisms/base.py
a profile below 0 by its own direction
@ privacy/test_contracts.py::test_the_profile_is_a_hockey_stick_curve
~np.exp(-size) * found«[::-1]→»)
== privacy/numerics.py
bisections that end on the side that is not private
@ privacy/test_rdp.py
~np.where(there, low, «middle), np.where(there, middle, high→low), np.where(there, middle, middle»)
== privacy/accountants/composition.py
each release at all of delta
@ privacy/test_composition.py
~each = spent «/ max(counts[others].sum(), 1.0) →»* ROUNDED_DOWN
what is stated with a delta as pure DP
~e «if d == 0 else math.inf →»for e, d in known
== __main__.py
an error that ends as if all were well
@ commands/test_command_line.py::test_bad_input_is_one_line_and_exit_code_2
-    sys.exit(2)
-
+    sys.exit(0)
+
== course/explorers/accountant.py
an explorer's batches of a fixed size priced by the clip norm
@ course/explorers/test_accountant.py
~WithoutReplacementGaussian(step.noise_multiplier« / 2→», step.sample_rate)
== course/explorers/schedules.py
an upper bound at noise that was rounded up
@ course/explorers/test_schedules.py::test_prices_enclose_those_of_the_steps_own_noise
~spent = rdp.epsilon(ledger(«down→up», sample_rate), delta=delta).epsilon
== course/explorers/trade_off.py
an attacker who may not answer the opposite
@ course/explorers/test_trade_off.py::test_verdicts_on_points
~REFUTES if beta < least «or 1 - beta < opposite →»else verdict
== course/explorers/shuffled_or_poisson.py
a pass of Poisson batches at the price of one
@ course/explorers/test_shuffled_or_poisson.py
~[Release(SampledGaussian(noise_multiplier, 1 / count), «count→1»)]
"""  # noqa: E501
FAULT = re.compile(r"^([^@~+\-\n].*)\n(?:@ (.*)\n)?(~.*\n|(?:-.*\n)+)((?:\+.*\n)*)", re.MULTILINE)
CHANGE = re.compile("«(.*?)→(.*?)»")


def read(text: str) -> Iterator[Mutant]:
    """The faults that a text in the form of FAULTS tells."""
    for part in text.split("\n== ")[1:]:
        file, _, rest = part.partition("\n")
        tests = ""
        for name, own, *lines in FAULT.findall(rest + "\n"):
            tests = own or tests
            if lines[0][0] == "~":  # both in one line
                lines = [CHANGE.sub(rf"\{group}", lines[0]) for group in (1, 2)]
            right, wrong = ("\n".join(line[1:] for line in one.splitlines()) for one in lines)
            yield Mutant(name, file, right, wrong, f"tests/{tests}")


MUTANTS = tuple(read(FAULTS))


def mutated(mutant: Mutant) -> str:
    """The text of the mutant's file, with the fault.

    Raises:
        ValueError: the fault's text is not in its file exactly once.
        SyntaxError: the fault leaves no Python.
    """
    text = (CHECKOUT / "dpkit" / mutant.file).read_text(encoding="utf-8")
    if (found := text.count(mutant.right)) != 1:
        raise ValueError(f"{mutant.name}: its text is in {mutant.file} {found} times, not once")
    text = text.replace(mutant.right, mutant.wrong)
    compile(text, mutant.file, "exec")
    return text


def copy(folder: Path) -> None:
    """Copy what the tests need, without what was compiled of it."""
    compiled = shutil.ignore_patterns("__pycache__")
    for name in NEEDED:
        if (CHECKOUT / name).is_dir():
            shutil.copytree(CHECKOUT / name, folder / name, ignore=compiled)
        else:
            shutil.copy(CHECKOUT / name, folder / name)


def first_failure(folder: Path, tests: str) -> str | None:
    """The first test that fails in a copy, slow ones left out; None where none does.

    Raises:
        ValueError: there are no such tests, or what they need to run failed rather than a test.
    """
    with tempfile.TemporaryDirectory() as elsewhere:
        report = Path(elsewhere) / "report.xml"
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *options, tests]
        own = {**os.environ, **ALONE, "PYTHONPATH": str(folder)}
        run = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True)
        cases = ElementTree.parse(report).iter("testcase") if run.returncode == 1 else ()
        failures = [(case, why) for case in cases for why in case.iter("failure")]
    if run.returncode == 0:
        return None
    if not failures or failures[0][1].get("message", "").startswith(BROKEN):
        raise ValueError(f"{tests} did not run\n{run.stdout[-2000:]}")
    file, test = (failures[0][0].get(name, "") for name in ("classname", "name"))
    return f"{file.replace('.', '/')}.py::{test}"


def catching(mutant: Mutant) -> str | None:
    """The first test that fails with this one fault; None where none does."""
    with tempfile.TemporaryDirectory() as folder:
        copy(Path(folder))
        (Path(folder) / "dpkit" / mutant.file).write_text(mutated(mutant), encoding="utf-8")
        return first_failure(Path(folder), mutant.tests)


def check_passing(tests: list[str]) -> None:
    """Run tests as the code is.

    Raises:
        ValueError: one of them fails, or cannot run.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        copy(Path(folder))
        found = pool.map(lambda one: first_failure(Path(folder), one), tests)
        for one, failed in zip(tests, found, strict=True):
            if failed is not None:
                raise ValueError(f"{failed} fails without a fault; mend it first")
            print(f"{'passes':8} {one}", flush=True)


def main() -> int:
    """Try each fault whose name has the words given, or all; 1 where one went unnoticed."""
    asked = [one for one in MUTANTS if all(word in one.name for word in sys.argv[1:])]
    start, missed = perf_counter(), 0
    check_passing(sorted({mutant.tests for mutant in asked}))
    with ThreadPoolExecutor(2) as pool:
        for mutant, test in zip(asked, pool.map(catching, asked), strict=True):
            print(f"{'caught' if test else 'MISSED':8} {mutant.name}: {test}", flush=True)
            missed += test is None
    minutes = (perf_counter() - start) / 60
    print(f"{len(asked) - missed} of {len(asked)} faults caught, in {minutes:.1f} minutes")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

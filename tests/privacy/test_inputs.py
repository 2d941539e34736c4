"""What enters an accountant: ledgers, numbers of every type, and what it may not be asked."""

import math
from fractions import Fraction
from functools import partial
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from truths import direction, larger, tails

from dpkit.privacy import DiagonalGaussian, Gaussian, RenyiFilter, SampledGaussian, calibrate, risk
from dpkit.privacy.accountants import composition, filters, gdp, moments, pld, rdp
from dpkit.privacy.ledger import FIXED, Ledger, Release, parallel
from dpkit.privacy.mechanisms import DiscreteGaussian, GroupedGaussian, WithoutReplacementGaussian
from dpkit.privacy.mechanisms.base import NoGuarantee, Unsupported, rounding
from dpkit.privacy.mechanisms.pure import Laplace, RandomizedResponse
from dpkit.privacy.sampling import FixedSizeBatches, PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import ExponentialDecay, TimeDecay

REPLACE = "replace-one"
LEDGER = [Release(SampledGaussian(1.1, 0.01), 1000), Release(Gaussian(20.0), 3)]

# Every public function that takes a ledger.
TAKES_A_LEDGER = {
    "rdp.epsilon": partial(rdp.epsilon, delta=1e-5),
    "rdp.delta": partial(rdp.delta, epsilon=1.0),
    "rdp.curve": lambda ledger: rdp.curve(ledger, [2, 8])[1].tolist(),
    "pld.epsilon": partial(pld.epsilon, delta=1e-5),
    "pld.delta": partial(pld.delta, epsilon=1.0),
    "moments.epsilon": partial(moments.epsilon, delta=1e-5),
    "moments.delta": partial(moments.delta, epsilon=1.0),
    "moments.curve": lambda ledger: moments.curve(ledger)[1].tolist(),
    "moments.exceeded_at": partial(moments.exceeded_at, target_epsilon=9, target_delta=1e-5),
    "gdp.epsilon": partial(gdp.epsilon, delta=1e-5),
    **{"gdp.delta": partial(gdp.delta, epsilon=1.0), "gdp.mu": gdp.mu},
    "basic": partial(composition.basic, delta=1e-5),
    "advanced": partial(composition.advanced, delta=1e-5),
    "pld.profile": lambda x: list(pld.profile(x, [0.0, 1.0])),
    "risk": risk,
    "parallel": parallel,
    "best_order": lambda ledger: filters.best_order(9.0, delta=1e-5, ledger=ledger),
    "Ledger.of": Ledger.of,
}
EPSILONS = {"rdp": rdp, "pld": pld, "moments": moments, "gdp": gdp}
PRICES = {name: one.epsilon for name, one in EPSILONS.items()}
PRICES |= {"basic": composition.basic, "advanced": composition.advanced}
NOTHING = [[], [Release(Gaussian(1.0), 0)], [Release(NoGuarantee("x"), 0)]]
NOTHING += [[Release(SampledGaussian(1.0, 0.0), 9)]]
LARGER = pytest.mark.slow("a pair wrong at one very large noise")
SLOW = [(1e13, 1e-30, 8.2419e-13), (1e12, 1e-30, 8.50948e-12)]
FINITE = [-0.4, -6e-7, -1e-7, 1e-8, 3e-7, 9e-7, 1e-3, 0.7, 9.0]
LARGE = [680.0, 690.0, 695.0, 701.0, 760.0]  # exp(loss), or that over the rate, is no float


@pytest.mark.parametrize("function", TAKES_A_LEDGER.values(), ids=list(TAKES_A_LEDGER))
def test_a_tuple_is_as_good_as_a_list_and_what_is_read_once_is_refused(function):
    """A generator costs 0 when something has read it before: no accountant can see that."""
    listed = function(list(LEDGER))
    assert function(tuple(LEDGER)) == listed
    assert function([LEDGER[1], *LEDGER[:1], Release(Laplace(2.0), 0)]) is not None
    with pytest.raises(ValueError, match=r"must be a list of Release.* list_iterator; pass list"):
        function(iter(LEDGER))
    once = [(release for release in LEDGER), map(tuple, LEDGER), filter(None, LEDGER)]
    once.append(zip([SampledGaussian(1.1, 0.01)], [1000], strict=True))
    for wrong in (*once, "", None, {}, set(), SampledGaussian(1.1, 0.01), 3):
        with pytest.raises(ValueError, match=r"ledger must be a list of Release\(mechanism, count"):
            function(wrong)


@pytest.mark.parametrize("price", PRICES.values(), ids=list(PRICES))
def test_nothing_costs_nothing_and_no_guarantee_is_infinite(price):
    for ledger in NOTHING:
        for delta in (1e-300, 1e-5, 0.999):
            assert price(ledger, delta=delta)[:3] == (0, delta, 0)
    found = price([Release(Gaussian(1.0)), Release(NoGuarantee("raw labels"))], delta=1e-5)
    assert (found.epsilon, found.lower) == (math.inf, 0)
    assert "no guarantee: raw labels" in found.assumptions
    assert 0 <= price([Release(Gaussian(1e5))], delta=1 - 1e-12).epsilon < 1e-4
    assert price([Release(Gaussian(1.0, REPLACE))], delta=0.1).adjacency == REPLACE


@pytest.mark.parametrize("accountant", EPSILONS.values(), ids=list(EPSILONS))
def test_the_delta_of_nothing_is_0_of_no_guarantee_1_and_never_rounded_to_0(accountant):
    for ledger in NOTHING[:3]:
        assert accountant.delta(ledger, epsilon=0.0).delta == 0
    shown = [Release(Gaussian(1.0)), Release(NoGuarantee("raw labels"))]
    for epsilon in (3.0, 1e307):  # a moment and lambda * epsilon are both infinite
        assert accountant.delta(shown, epsilon=epsilon).delta == 1
    assert accountant.delta([Release(Gaussian(1.0))], epsilon=1e3).delta > 0


def test_a_ledger_is_folded_once():
    ledger = Ledger.of([*LEDGER, Release(SampledGaussian(1.1, 0.01), 5), Release(Laplace(1.0), 0)])
    assert ledger.releases == (Release(SampledGaussian(1.1, 0.01), 1005), LEDGER[1])
    assert ledger.total == 1008
    assert Ledger.of(ledger) is ledger
    assert Ledger.of(LEDGER[1]).releases == (LEDGER[1],)
    by_hand = [Release(Gaussian(noise), np.int8(100)) for noise in (1.0, 2.0)]
    assert Ledger(tuple(by_hand), "add-remove").total == 200


# --- numbers of other types -----------------------------------------------------------------------

FLOATS = [np.float16, np.float32, np.float64, np.longdouble, Fraction]
WHOLE = [np.int8, np.uint8, np.int16, np.int32, np.uint64]
MADE_OF_FLOATS = {
    **{"Gaussian": lambda z, q: Gaussian(z), "SampledGaussian": SampledGaussian},
    "replace-one": lambda z, q: SampledGaussian(z, q, REPLACE),
    "WithoutReplacementGaussian": WithoutReplacementGaussian,
    "Laplace": lambda z, q: Laplace(z),
    "RandomizedResponse": lambda z, q: RandomizedResponse(z),
    "DiscreteGaussian": lambda z, q: DiscreteGaussian(z),
    "DiagonalGaussian": lambda z, q: DiagonalGaussian((z, z)),
    "GroupedGaussian": lambda z, q: GroupedGaussian(z, 2, q),
    "groups": lambda z, q: GroupedGaussian((z, z), 2, q),
    "drawn": lambda z, q: PoissonSampling(3).release(noise_multiplier=z, sample_rate=q),
    "fixed": lambda z, q: FixedSizeBatches(3).release(noise_multiplier=z, sample_rate=q),
    "TimeDecay": lambda z, q: TimeDecay(z, q),
    "ExponentialDecay": lambda z, q: ExponentialDecay(z, q),
}


@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("make", MADE_OF_FLOATS.values(), ids=list(MADE_OF_FLOATS))
def test_a_parameter_of_few_bits_is_the_number_that_it_is(make, kind):
    z, q = kind(0.7), kind(0.013)
    ours, theirs = make(float(z), float(q)), make(z, q)
    assert ours == theirs
    assert repr(ours) == repr(theirs)  # the type too: arithmetic would go on in 16 bits
    if isinstance(ours, TimeDecay | ExponentialDecay):
        assert ours(7) == theirs(7)
        return
    assert (ours.rdp([1.5, 8]) == theirs.rdp([1.5, 8])).all()


@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.__name__)
def test_delta_epsilon_and_targets_of_few_bits_are_what_they_are(kind):
    delta, epsilon = kind(1e-3), kind(1.3)
    d, e = float(delta), float(epsilon)
    for accountant in (rdp, pld, moments, gdp):
        assert accountant.epsilon(LEDGER, delta=delta) == accountant.epsilon(LEDGER, delta=d)
        assert accountant.delta(LEDGER, epsilon=epsilon) == accountant.delta(LEDGER, epsilon=e)
    for rule in (composition.basic, composition.advanced):
        assert rule(LEDGER, delta=delta) == rule(LEDGER, delta=d)
    run = {"sample_rate": kind(0.01), "steps": 10, "delta": delta}
    same = {"sample_rate": float(kind(0.01)), "steps": 10, "delta": d}
    assert calibrate.noise_multiplier(epsilon, **run) == calibrate.noise_multiplier(e, **same)
    one = RenyiFilter.for_target(epsilon, delta=delta, order=kind(8))
    assert one.guarantee() == RenyiFilter.for_target(e, delta=d, order=8.0).guarantee()
    spent = moments.exceeded_at(LEDGER, target_epsilon=epsilon, target_delta=delta)
    assert spent == moments.exceeded_at(LEDGER, target_epsilon=e, target_delta=d)


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.__name__)
def test_counts_of_few_bits_do_not_overflow(kind):
    most = min(int(np.iinfo(kind).max), 30_000)
    entries = [Release(SampledGaussian(1.1, 0.01), kind(most))] * 3
    ours = [Release(SampledGaussian(1.1, 0.01), most * 3)]
    entries += [Release(Gaussian(11.0 + z), kind(most)) for z in range(3)]
    ours += [Release(Gaussian(11.0 + z), most) for z in range(3)]
    for accountant in (rdp.epsilon, pld.epsilon, moments.epsilon, gdp.epsilon):
        assert accountant(entries, delta=1e-5) == accountant(ours, delta=1e-5)
    assert composition.basic(entries, delta=1e-5) == composition.basic(ours, delta=1e-5)
    assert GroupedGaussian(1.0, kind(100)) == GroupedGaussian(1.0, 100)
    passes = {"noise_multiplier": 1.0, "public_size": kind(100)}
    found = ShuffledBatches(kind(7)).passes(**passes, steps=kind(120))
    assert found == ShuffledBatches(7).passes(noise_multiplier=1.0, public_size=100, steps=120)


# --- what a guarantee assumes ---------------------------------------------------------------------


def test_every_guarantee_says_that_its_ledger_was_fixed_beforehand():
    for accountant in (rdp, pld, moments, gdp):
        for found in (accountant.epsilon(LEDGER, delta=1e-5), accountant.delta(LEDGER, epsilon=1)):
            assert FIXED in found.assumptions
            assert any("the size of the batch is not released" in a for a in found.assumptions)
    assert FIXED in composition.advanced(LEDGER, delta=1e-5).assumptions
    one = RenyiFilter(8, 1.0, delta=1e-5)  # that is what a filter is for
    one.charge(Gaussian(9.0))
    assert FIXED not in one.guarantee().assumptions


def test_parts_that_a_record_may_change_need_mechanisms_that_hide_who_takes_part():
    """Two numbers of answers differ under replace-one: no finite epsilon, and 1.99998 was said."""
    shown = [
        *(RandomizedResponse(1.0), WithoutReplacementGaussian(1.0, 0.1)),
        ShuffledBatches(5).passes(noise_multiplier=1.0, public_size=50, steps=10).mechanism,
    ]
    for mechanism in shown:
        with pytest.raises(Unsupported, match="does not hide how many records take part"):
            parallel([Release(mechanism)], [Release(mechanism)])
    hidden = SampledGaussian(1.0, 0.1, REPLACE)
    two = parallel([Release(hidden, 3)], [Release(hidden, 2)], [])
    assert two[0].mechanism.rdp([2.0]) == pytest.approx(5 * hidden.rdp([2.0]))

    class Undeclared:
        adjacency, assumptions = REPLACE, ()

        def rdp(self, orders):
            return np.ones(np.size(orders))

    with pytest.raises(Unsupported, match="Undeclared does not hide"):
        parallel([Release(Undeclared())])


def test_a_calibration_by_an_approximation_warns_and_a_second_adjacency_is_refused():
    run = {"sample_rate": 0.01, "steps": 1000, "delta": 1e-5}
    with pytest.warns(calibrate.ApproximationWarning, match="may exceed epsilon 1; use pld"):
        noise = calibrate.noise_multiplier(1.0, accountant=gdp.epsilon, **run)
    assert pld.epsilon([Release(SampledGaussian(noise, 0.01), 1000)], delta=1e-5).lower > 1.06
    exact = calibrate.noise_multiplier(
        1.0, accountant=gdp.epsilon, mechanism=Gaussian, sample_rate=1, steps=3, delta=1e-5
    )
    assert exact > 5
    with pytest.raises(ValueError, match="adjacency replace-one has no effect with `mechanism`"):
        calibrate.noise_multiplier(1.0, mechanism=Gaussian, adjacency=REPLACE, **run)


# --- tiny rates, single releases, mixed lattices, limits of work ----------------------------------


@pytest.mark.parametrize("q", [1e-9, 1e-6, 1e-3, 0.3])
def test_the_profile_keeps_its_digits_where_records_are_rare(q):
    with mp.workdps(60):
        for noise in (0.3, 1.1, 8.0):
            for eps in (0.0, 1e-3 * q, 0.5 * q, 1e-4, 0.2, 3.0):
                found = SampledGaussian(noise, q).profile([eps])[:, 0]
                for sign, value in zip((1, -1), found, strict=True):
                    true = direction(noise, q, eps, sign)
                    if true > 1e-60:
                        assert value == pytest.approx(float(true), rel=1e-11)


@pytest.mark.parametrize("noise", [1e-3, 0.3, 3.0, 49.0, 51.0, 1e4, 1e7, 1e10, 1e13])
@pytest.mark.parametrize("q", [1e-9, 1e-3, 0.4, 1 - 1e-6])
def test_profiles_keep_their_digits_at_any_noise(noise, q):
    """At noise 1e13 a difference of normal tails was 24 % too small: it is an integral now."""
    for z in (0.0, 0.5, 5.0, 20.0):
        eps = z * q / noise if noise > 1 else z
        with mp.workdps(80):
            pairs = [
                (SampledGaussian(noise, q), larger(noise, q, eps)),
                (SampledGaussian(noise, q, REPLACE), direction(noise, q, eps, 1, REPLACE)),
                (Gaussian(noise), direction(noise, 1, eps)),
            ]
        for mechanism, true in pairs:
            if true > 1e-190:
                error = float(abs(mechanism.profile([eps]).max() - true) / true)
                assert error <= mechanism.profile_error / 5


@pytest.mark.parametrize(
    ("noise", "delta", "true"),
    [(1e13, 1e-100, 1.96693e-12), *(pytest.param(*one, marks=LARGER) for one in SLOW)],
)
def test_pairs_at_very_large_noise(noise, delta, true):
    """The upper end was 44 % too small at delta 1e-100; the truth is by 80 digits."""
    found = pld.epsilon([Release(Gaussian(noise))], delta=delta)
    assert found.lower <= true * (1 + 1e-5)
    assert found.epsilon >= true * (1 - 1e-5)
    with mp.workdps(80):
        at = [direction(noise, 1, e) for e in (found.epsilon, found.lower)]
    assert at[0] <= delta <= at[1]
    assert composition.basic([Release(Gaussian(noise))], delta=delta).epsilon >= found.lower


def test_a_discrete_gaussian_of_large_scale_is_rounded_up():
    """Two tails lose up to a relative 2e-5 of their difference: never downwards."""
    for noise in (1e6, 1e10):
        for z in (1.0, 5.0, 8.0):
            found = DiscreteGaussian(noise).profile([z / noise])[0, 0]
            with mp.workdps(60):  # smooth at such a scale: the Gaussian's, but for 1 / noise
                assert found >= direction(noise, 1, z / noise) * (1 - 20 / noise)


def test_a_ledger_made_by_hand_is_checked_too():
    one, other = Release(Gaussian(1.0)), Release(Gaussian(1.0, REPLACE))
    counted = [(one._replace(count=count),) for count in (0.001, -5, 0)]
    for entries in (iter(LEDGER), list(LEDGER), (one, other), *counted, (other,)):
        with pytest.raises(ValueError, match=r"ledger|Ledger|count|adjacency"):
            Ledger(entries, "add-remove")
    with pytest.raises(ValueError, match="adjacency"):
        Ledger((), "none")


@pytest.mark.parametrize(
    ("noise", "q", "delta"),
    [
        *((0.0285, 3.4e-9, 2.6e-12), (0.169, 6.6e-7, 6.9e-4), (0.374, 3.8e-7, 7.8e-11)),
        *((0.463, 2.9e-8, 4e-24), (3.0, 1e-5, 1e-9)),
    ],
)
def test_one_release_has_a_narrow_pair_however_rare(noise, q, delta):
    found = pld.epsilon([Release(SampledGaussian(noise, q))], delta=delta)
    assert found.epsilon - found.lower <= 1e-3 * found.epsilon
    with mp.workdps(60):
        true = [larger(noise, q, e) for e in found[:3:2]]
    assert true[0] <= delta
    assert found.lower == 0 or true[1] >= delta


def test_what_is_drawn_more_rarely_than_delta_costs_nothing():
    found = pld.epsilon([Release(SampledGaussian(0.05, 1e-170), 3)], delta=1e-5)
    assert (found.epsilon, found.lower) == (0, 0)
    assert pld.epsilon([Release(SampledGaussian(0.4, 1e-9), 100)], delta=1e-6).epsilon == 0


@pytest.mark.parametrize(
    "cheap",
    [DiscreteGaussian(1000.0), DiscreteGaussian(100.0, 1000), DiscreteGaussian(1e4), Laplace(1e6)],
    ids=repr,
)
def test_a_cheap_release_on_a_fine_lattice_keeps_the_pair_narrow(cheap):
    """The pair was [0, 5.63], after 77 s and 3.9 GB: the finest lattice became the spacing."""
    found = pld.epsilon([Release(SampledGaussian(1.1, 0.01), 10_000), Release(cheap)], delta=1e-5)
    assert 5.19 < found.lower < found.epsilon < 5.20
    assert found.epsilon - found.lower <= 1e-3 * found.epsilon


def test_what_has_no_grid_is_priced_by_rdp_and_not_called_certified():
    beyond = [Release(SampledGaussian(1e-9, 0.01), 10**15)]
    found = pld.epsilon(beyond, delta=1e-5)
    assert found.epsilon == rdp.epsilon(beyond, delta=1e-5).epsilon < math.inf
    assert "upper end by RDP, whose rounding has no proven bound" in found.method
    assert pld.delta(beyond, epsilon=1.0).delta == 1
    far = pld.delta([Release(Gaussian(1e-6), 10**12)], epsilon=5.0000000500000113e23)
    assert 0 < far.delta < 1e-4
    assert "upper end by RDP" in far.method


def test_losses_of_very_different_sizes_do_not_crash():
    mixed = [
        Release(Gaussian(47.3, REPLACE), 5),
        Release(SampledGaussian(0.00136, 0.19, REPLACE), 6),
        Release(SampledGaussian(7.3, 0.033, REPLACE), 3),
    ]
    found = pld.epsilon(mixed, delta=5.7e-8)
    assert found.epsilon < rdp.epsilon(mixed, delta=5.7e-8).epsilon
    masses = SampledGaussian(0.001, 0.1, REPLACE).privacy_loss().masses(np.zeros(1))
    np.testing.assert_allclose(masses, [[0.45, 0.55], [0.55, 0.45]])


@pytest.mark.parametrize(
    ("noise", "q"),
    [*product([0.003, 0.08, 0.7, 5.0, 60.0, 1e5], [1e-9, 1e-4, 0.01, 0.3, 0.999]), (0.0268, 1e-9)],
)
@pytest.mark.parametrize("adjacency", ["add-remove", REPLACE])
def test_masses_keep_what_the_pairs_proof_takes_from_them(noise, q, adjacency):
    """Both masses beyond an edge, within `rounding` of those beyond one that 16 units moved."""
    one = SampledGaussian(noise, q, adjacency)
    edges = [*FINITE, *LARGE, float(np.log1p(-q)) * (1 - 1e-9)]
    for edge in edges:
        masses = one.privacy_loss().masses(np.array([edge]))
        with mp.workdps(60):
            ends = [mp.mpf(edge) * (1 + sign * 16 * mp.mpf(2) ** -53) for sign in (1, -1)]
            moved = [tails(noise, q, adjacency, end) for end in ends]
        for found, ends in zip(masses[:, ::-1].ravel(), zip(*moved, strict=True), strict=True):
            least, most = sorted(ends)
            if most > 1e-200:
                allowed = rounding(np.array([float(most)]))[0] * most
                assert least - allowed <= found <= most + allowed

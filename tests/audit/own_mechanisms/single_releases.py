"""Each mechanism once, under each adjacency it knows, with the best attack."""

from dpkit.papers.targets.target import Target
from dpkit.privacy.accountants import rdp
from dpkit.privacy.best_of import best_of
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import (
    Adjacency,
    DiagonalGaussian,
    DiscreteGaussian,
    Gaussian,
    GroupedGaussian,
    Laplace,
    RandomizedResponse,
    SampledGaussian,
    WithoutReplacementGaussian,
)
from dpkit.privacy.mechanisms.balls_and_bins import BallsAndBinsGaussian
from dpkit.privacy.mechanisms.sampled_gaussian import GroupSampledGaussian
from dpkit.privacy.mechanisms.truncated_poisson import TruncatedPoissonGaussian
from own_mechanisms.priced import single, target
from own_mechanisms.worst_pairs import of_ledger

REPLACE: Adjacency = "replace-one"

SINGLE: tuple[Target, ...] = (
    single("gaussian", "a clipped sum plus normal noise", Gaussian(1.0), "gaussian"),
    single(
        "gaussian-replace-one",
        "a clipped sum plus normal noise, one record replaced by its opposite",
        Gaussian(2.0, REPLACE),
        "gaussian",
    ),
    single(
        "sampled-gaussian",
        "a Poisson batch's clipped sum plus normal noise",
        SampledGaussian(0.6, 0.3),
        "sampled_gaussian",
    ),
    single(
        "sampled-gaussian-other-way",
        "the same, attacked the other way round: sure where the record is not there",
        SampledGaussian(0.6, 0.3),
        "sampled_gaussian",
        worlds=lambda: of_ledger([Release(SampledGaussian(0.6, 0.3))]).swapped(),
    ),
    single(
        "sampled-gaussian-replace-one",
        "a Poisson batch's clipped sum plus normal noise, one record replaced by its opposite",
        SampledGaussian(1.0, 0.3, REPLACE),
        "sampled_gaussian",
    ),
    single("laplace", "a sum clipped in L1 norm plus Laplace noise", Laplace(0.5), "pure"),
    single(
        "laplace-replace-one",
        "a sum clipped in L1 norm plus Laplace noise, one record replaced by its opposite",
        Laplace(1.0, REPLACE),
        "pure",
    ),
    single(
        "randomized-response",
        "one of four answers, the truth more often than each other",
        RandomizedResponse(2.0, 4),
        "pure",
    ),
    single(
        "discrete-gaussian",
        "a count plus discrete Gaussian noise",
        DiscreteGaussian(1.0),
        "discrete_gaussian",
    ),
    single(
        "discrete-gaussian-replace-one",
        "a sum of integers from -3 to 3 plus discrete Gaussian noise, a 3 in the place of a -3",
        DiscreteGaussian(2.0, 3, REPLACE),
        "discrete_gaussian",
    ),
    single(
        "diagonal-gaussian",
        "a sum clipped coordinate by coordinate, with each coordinate's own noise",
        DiagonalGaussian((1.5, 2.0, 3.0)),
        "sampled_gaussian",
    ),
    single(
        "diagonal-gaussian-replace-one",
        "the same, with a record in one corner of the box replaced by one in the opposite corner",
        DiagonalGaussian((3.0, 4.0, 6.0), REPLACE),
        "sampled_gaussian",
    ),
    single(
        "grouped-gaussian",
        "a Poisson batch's sum clipped in four groups, each at its own bound",
        GroupedGaussian(1.5, 4, 0.5),
        "sampled_gaussian",
    ),
    single(
        "grouped-gaussian-replace-one",
        "a sum of all records clipped in two groups, one record replaced by its opposite",
        GroupedGaussian((2.0, 4.0), 2, 1.0, REPLACE),
        "sampled_gaussian",
    ),
    single(
        "without-replacement-gaussian",
        "the sum of 3 out of 10 records, no record twice, plus normal noise",
        WithoutReplacementGaussian(0.6, 0.3),
        "without_replacement",
    ),
    single(
        "truncated-poisson-gaussian",
        "a Poisson batch's sum plus normal noise, of which 2 of 6 records are kept at most",
        TruncatedPoissonGaussian(1.0, 0.4, 2, 6),
        "truncated_poisson",
    ),
    single(
        "balls-and-bins-gaussian",
        "a pass of five noised sums, of which each record is in one at random",
        BallsAndBinsGaussian(0.6, 5),
        "balls_and_bins",
    ),
    single(
        "group-sampled-gaussian",
        "a Poisson batch's sum plus normal noise, three records added at once",
        GroupSampledGaussian(1.0, 0.3, 3),
        "sampled_gaussian",
    ),
    target(
        "best-of",
        "the best of a geometric number of noised sums, 10 on average",
        best_of([Release(Gaussian(2.0))], mean=10.0),
        where="dpkit/privacy/best_of.py",
        price=rdp.epsilon,
    ),
)

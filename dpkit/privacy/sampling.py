"""Ways to draw batches, as accountants see them (training draws the batches)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Protocol

from dpkit.common import checks
from dpkit.privacy import shuffled
from dpkit.privacy.accountants import pld
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.privacy.mechanisms import (
    ADJACENCIES,
    Adjacency,
    BallsAndBinsGaussian,
    Gaussian,
    Mechanism,
    SampledGaussian,
    TruncatedPoissonGaussian,
    Unsupported,
    WithoutReplacementGaussian,
    WithReplacementGaussian,
)
from dpkit.privacy.mechanisms.base import PricedAsOne

# What a caller may assume of a run where no accountant prices what it does.
SHUFFLED_AS_POISSON = "shuffled batches priced as Poisson batches"
PUBLIC_SIZE = "the number of records is public and the same in both data sets"
ZERO_OUT = "a record that leaves is replaced by an empty one, in its place (zero-out)"

ASSUMPTIONS: tuple[str, ...] = (SHUFFLED_AS_POISSON,)


class Sampling(Protocol):
    """A batch sampler as an accountant sees it. Sizes are public, never the private count."""

    @property
    def expected_batch_size(self) -> int: ...
    @property
    def adjacency(self) -> Adjacency: ...
    @property
    def assumptions(self) -> tuple[str, ...]: ...

    def release(
        self, *, noise_multiplier: float, sample_rate: float, assume: Collection[str]
    ) -> Mechanism:
        """One noisy sum of a batch (see `mechanism`, which checks what it is given)."""
        ...


def sample_rate(sampling: Sampling, *, public_size: int) -> float:
    """Probability that a record enters a batch, for a declared (public) size of the data set.

    Raises:
        ValueError: public_size is not an integer >= 1, or the batch is larger.
    """
    public_size = checks.whole(1, public_size=public_size)
    if not sampling.expected_batch_size <= public_size:
        raise ValueError(
            f"expected_batch_size must be <= public_size, got {sampling.expected_batch_size} "
            f"and {public_size}; declare the data set's public size"
        )
    return sampling.expected_batch_size / public_size


def mechanism(
    sampling: Sampling,
    *,
    noise_multiplier: float,
    public_size: int,
    assume: Collection[str] = (),
) -> Mechanism:
    """One step's release: the clipped sum of a batch drawn by `sampling`, plus Gaussian noise.

    Args:
        sampling: how the batch is drawn, which decides the adjacency.
        noise_multiplier: noise standard deviation / clip norm C, under either adjacency.
        public_size: the declared size of the data set, from which the sample rate follows.
        assume: SHUFFLED_AS_POISSON, where the truth has no price. A needed assumption is among
            the mechanism's, and so in every Guarantee.

    Raises:
        ValueError: bad input, or an assumption of another name.
        Unsupported: no accountant prices such batches without an assumption that is not given.
    """
    if isinstance(assume, str):
        raise ValueError(f"assume must be a tuple, got {assume!r}; write ({assume!r},)")
    for one in assume:
        checks.one_of(ASSUMPTIONS, assume=one)
    rate = sample_rate(sampling, public_size=public_size)
    return sampling.release(noise_multiplier=noise_multiplier, sample_rate=rate, assume=assume)


@dataclass(frozen=True)
class Assuming(PricedAsOne):
    """A mechanism whose prices hold on further assumptions, which come first in what it states."""

    one: Mechanism
    assumed: tuple[str, ...]

    @property
    def adjacency(self) -> Adjacency:
        return self.one.adjacency

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (*self.assumed, *self.one.assumptions)

    @property
    def hides_participation(self) -> bool:
        hides = getattr(self.one, "hides_participation", False)
        return hides and PUBLIC_SIZE not in self.assumed


class _Steps:
    """Ways to draw batches whose steps have a price."""

    def guarantee(
        self: Sampling, *, noise_multiplier: float, public_size: int, steps: int, delta: float
    ) -> Guarantee:
        """The epsilon of a run, as a certified pair.

        Args:
            noise_multiplier: noise on a step's sum, over C.
            public_size: declared size of the data.
            steps: batches that were drawn, >= 0.
            delta: in (0, 1).

        Raises:
            ValueError: the batch is larger than public_size, or a number is out of range.
        """
        step = mechanism(self, noise_multiplier=noise_multiplier, public_size=public_size)
        return pld.epsilon([Release(step, steps)], delta=delta)


@dataclass(frozen=True)
class _Batches(_Steps):
    expected_batch_size: int
    adjacency: Adjacency = "add-remove"
    assumptions: tuple[str, ...] = ()
    known: ClassVar[tuple[str, ...]] = ADJACENCIES  # under which they have a price

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.whole(1, expected_batch_size=self.expected_batch_size)
        checks.one_of(self.known, adjacency=self.adjacency)


class PoissonSampling(_Batches):
    """Batches that every record enters independently, as SampledGaussian assumes.

    Raises:
        ValueError: the size is not an integer >= 1, or adjacency is unknown.
    """

    def release(
        self, *, noise_multiplier: float, sample_rate: float, assume: Collection[str] = ()
    ) -> Mechanism:
        """A SampledGaussian."""
        return SampledGaussian(noise_multiplier, sample_rate, self.adjacency)


@dataclass(frozen=True)
class ShuffledBatches(_Batches):
    """Epochs of shuffled batches of a fixed size: common in code, not in accounting.

    Whole passes over the data have a price (`passes`), a single step has none here. It has one
    where the caller says that Poisson batches are priced in its place (SHUFFLED_AS_POISSON), which
    is no bound on what the run costs.

    Raises:
        ValueError: the size is not an integer >= 1, or adjacency is unknown.
    """

    assumptions: tuple[str, ...] = (SHUFFLED_AS_POISSON,)

    def release(
        self, *, noise_multiplier: float, sample_rate: float, assume: Collection[str] = ()
    ) -> Mechanism:
        """A SampledGaussian that states the assumption; Unsupported without it."""
        if SHUFFLED_AS_POISSON not in assume:
            raise Unsupported(
                "no accountant here prices a step of shuffled batches: price the run, by "
                "ShuffledBatches.guarantee; or pass assume=(SHUFFLED_AS_POISSON,) to price Poisson "
                "batches in their place and say so; or draw Poisson batches"
            )
        return Assuming(
            SampledGaussian(noise_multiplier, sample_rate, self.adjacency),
            (SHUFFLED_AS_POISSON,),
        )

    def passes(
        self,
        *,
        noise_multiplier: float,
        public_size: int,
        steps: int,
        adjacency: Adjacency = "replace-one",
    ) -> Release:
        """The release that bounds `steps` steps, without amplification.

        Each record is in at most one batch of a pass, where replacing it moves a sum clipped at C
        by 2C: each pass that is begun is one Gaussian release. A short last batch is dropped, as
        `training.batches` draws them.

        Args:
            noise_multiplier: noise on a step's sum, over C.
            public_size: declared size of the data, the same in both data sets.
            steps: batches that were drawn, >= 0; a pass's short last one is not.
            adjacency: "add-remove" for a record that leaves its place empty, which moves a sum by
                C.

        Raises:
            ValueError: the batch is larger than public_size, or a number is out of range.
        """
        steps = checks.whole(steps=steps)
        sample_rate(self, public_size=public_size)  # checks the batch
        begun = -(-steps // (int(public_size) // self.expected_batch_size))
        assumed = (PUBLIC_SIZE,) if adjacency == "replace-one" else (PUBLIC_SIZE, ZERO_OUT)
        return Release(Assuming(Gaussian(noise_multiplier, adjacency), assumed), begun)

    def guarantee(
        self, *, noise_multiplier: float, public_size: int, steps: int, delta: float
    ) -> Guarantee:
        """The epsilon of a run as it shuffles, as a proven pair: (lower, epsilon).

        A pass costs at most one Gaussian release (`passes`; of a shift C where a record leaves its
        place empty, which is what add-remove means here), or less where batches are of one record
        (`shuffled.amplified`). A pass that is only begun is charged whole. It costs at least what
        `shuffled.lower` says.

        Args:
            delta: in (0, 1). The others, and errors, are those of `passes`.
        """
        whole = self.passes(
            noise_multiplier=noise_multiplier,
            public_size=public_size,
            steps=steps,
            adjacency=self.adjacency,
        )
        found = pld.epsilon([whole], delta=delta)
        if self.expected_batch_size == 1 and whole.count:
            amplified = shuffled.amplified(
                noise_multiplier, records=public_size, passes=whole.count, delta=delta
            )
            if amplified < found.epsilon:
                found = found._replace(epsilon=amplified, method="amplification by shuffling")
        least = shuffled.lower(
            noise_multiplier,
            self.adjacency,
            public_size=public_size,
            batch=self.expected_batch_size,
            steps=steps,
            delta=delta,
        )
        return found._replace(
            lower=least, method=f"{found.method}; lower end of shuffled batches"
        )


@dataclass(frozen=True)
class TruncatedPoisson(_Steps):
    """Poisson batches of a fixed shape: of more than `most` records drawn a random `most` are kept.

    Fewer are padded with empty examples, which add nothing to a sum and cost nothing.

    Raises:
        ValueError: a size is not an integer >= 1, most is less than expected_batch_size, or
            adjacency is unknown.
    """

    expected_batch_size: int
    most: int
    adjacency: Adjacency = "add-remove"
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.whole(1, expected_batch_size=self.expected_batch_size, most=self.most)
        if not self.most >= self.expected_batch_size:
            raise ValueError(
                f"most must be >= expected_batch_size, got {self.most} and "
                f"{self.expected_batch_size}; keep more records of a batch, or draw fewer"
            )
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    def release(
        self, *, noise_multiplier: float, sample_rate: float, assume: Collection[str] = ()
    ) -> Mechanism:
        """A TruncatedPoissonGaussian of public_size records."""
        records = round(self.expected_batch_size / sample_rate)
        return TruncatedPoissonGaussian(
            noise_multiplier, sample_rate, self.most, records, self.adjacency
        )


@dataclass(frozen=True)
class FixedSizeBatches(_Batches):
    """Batches of a fixed size, each drawn afresh without replacement.

    Raises:
        ValueError: the size is not an integer >= 1, or adjacency is not "replace-one": the data
            sets that are compared hold equally many records.
    """

    adjacency: Adjacency = "replace-one"
    known = ("replace-one",)

    def release(
        self, *, noise_multiplier: float, sample_rate: float, assume: Collection[str] = ()
    ) -> Mechanism:
        """A WithoutReplacementGaussian: a replaced record moves a sum clipped at C by 2C."""
        noise = checks.positive(noise_multiplier=noise_multiplier)
        return WithoutReplacementGaussian(noise / 2, sample_rate)


class WithReplacement(_Batches):
    """Batches of as many draws, each of any record: one may be met more than once.

    Raises:
        ValueError: the size is not an integer >= 1, or adjacency is not "add-remove".
    """

    known = ("add-remove",)

    def release(
        self, *, noise_multiplier: float, sample_rate: float, assume: Collection[str] = ()
    ) -> Mechanism:
        """A WithReplacementGaussian; at least 2 records are needed."""
        batch = self.expected_batch_size
        return WithReplacementGaussian(noise_multiplier, batch, round(batch / sample_rate))


class BallsAndBins(_Batches):
    """Passes in which every record enters one of public_size // expected_batch_size batches.

    A pass has a price (`guarantee`), a step by itself has none here.

    Raises:
        ValueError: the size is not an integer >= 1, or adjacency is not "add-remove".
    """

    known = ("add-remove",)

    def release(
        self, *, noise_multiplier: float, sample_rate: float, assume: Collection[str] = ()
    ) -> Mechanism:
        """Unsupported."""
        raise Unsupported(
            "no accountant here prices a step of balls and bins: price the run, by "
            "BallsAndBins.guarantee; or draw Poisson batches"
        )

    def guarantee(
        self, *, noise_multiplier: float, public_size: int, steps: int, delta: float
    ) -> Guarantee:
        """The epsilon of a run (Chua et al. 2025, "Balls-and-bins sampling for DP-SGD").

        A pass that is only begun holds a record with the chance that its batch is among those that
        were drawn. The price is never above that of being told which batch that may be.
        """
        sample_rate(self, public_size=public_size)
        batches = public_size // self.expected_batch_size
        whole, begun = divmod(checks.whole(steps=steps), batches)
        parts = [(batches, 1.0, whole), (begun, begun / batches, 1)]
        parts = [part for part in parts if part[0] and part[2]]
        found, told = (
            pld.epsilon([Release(one(t, q), n) for t, q, n in parts], delta=delta)
            for one in (
                lambda t, q: BallsAndBinsGaussian(noise_multiplier, t, q),
                lambda _, q: SampledGaussian(noise_multiplier, q),
            )
        )
        if told.epsilon < found.epsilon:
            return found._replace(
                epsilon=told.epsilon, method=f"one batch a pass: {told.method}"
            )
        return found

"""AGD's settings and its price: noise that falls while training, each choice of a step charged.

Lee and Kifer 2018, "Concentrated differentially private gradient descent with adaptive
per-iteration privacy budget" (KDD). AdaDP compares with it and prices it by Theorem 1 (section
IV-A), as if the gradient were all that is released. The candidates' losses are released as well.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log, sqrt

from dpkit.common import checks
from dpkit.papers.adadp.settings import MAX_STEPS, PUBLIC_SIZE
from dpkit.privacy import numerics
from dpkit.privacy.accountants import rdp
from dpkit.privacy.accountants.filters import RenyiFilter, best_order
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.privacy.mechanisms import Gaussian, Mechanism
from dpkit.privacy.sampling import PoissonSampling, mechanism


@dataclass(frozen=True)
class AgdSettings:
    """A private classifier trained by AGD on Poisson lots.

    A step releases a noisy gradient, then the noisy changes of the loss that candidate rates bring,
    on the same lot: Gaussian releases, the second one chosen by what the first has shown. Given the
    lot they protect together as one Gaussian with 1 / z^2 = 1 / z_g^2 + k / z_l^2, k candidates
    (Dong, Roth, Su 2022, Cor. 3.3), so that the step on a Poisson lot costs what `SampledGaussian`
    of that z costs (Zhu, Dong, Wang 2022, Thm 11: sampling a dominated mechanism).

    The noise follows what was released, so that no list made beforehand is the run's price. A Renyi
    filter ends the run within its target, whatever happens.

    Args:
        noise_multiplier: z_g of the first step; noise over max_grad_norm.
        least_noise_multiplier: below which z_g does not fall.
        growth: gamma; where no candidate lowers the loss, 1 / z_g^2 grows by the factor 1 + gamma.
        max_grad_norm: clip norm of an example's gradient.
        rates: candidate step sizes beside 0.
        choice_noise: z_l; noise on the sum of an example's changes, over max_change.
        max_change: an example's change of loss is clipped to +-max_change. (The paper clips losses
            and compares them; their differences need less room.)
        sampling: of the lots.
        target_epsilon, target_delta: of the whole run, under add-remove.
        public_size: declared number of records.
        pca_noise: sigma_p of DP-PCA, None where inputs are not projected.
        widths: of the network, as the paper's other settings.
        max_steps: an end where the budget would allow more.
        chosen: how settings came about that the paper does not print.

    Raises:
        ValueError: a number is out of range.
    """

    noise_multiplier: float
    least_noise_multiplier: float
    max_grad_norm: float
    choice_noise: float
    sampling: PoissonSampling
    target_epsilon: float
    rates: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    growth: float = 0.1
    max_change: float = 0.1
    target_delta: float = 1e-5
    public_size: int = PUBLIC_SIZE
    pca_noise: float | None = None
    widths: tuple[int, ...] = (60, 1000, 10)
    max_steps: int = MAX_STEPS
    chosen: str | None = None

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.positive(
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            choice_noise=self.choice_noise,
            growth=self.growth,
            max_change=self.max_change,
            **{f"rates[{i}]": rate for i, rate in enumerate(self.rates)},
        )
        checks.positive(least_noise_multiplier=self.least_noise_multiplier)
        if not self.least_noise_multiplier <= self.noise_multiplier:
            raise ValueError(
                "least_noise_multiplier must be <= noise_multiplier, got "
                f"{self.least_noise_multiplier} and {self.noise_multiplier}"
            )
        if not self.rates:
            raise ValueError("rates must name a step size beside 0, got none")

    @property
    def lot(self) -> int:
        """Records a lot, on average: L."""
        return self.sampling.expected_batch_size

    @property
    def levels(self) -> int:
        """Number of noise multipliers that z_g can take."""
        falls = 2 * log(self.noise_multiplier / self.least_noise_multiplier) / log(1 + self.growth)
        return 1 + ceil(falls)

    def gradient_noise(self, level: int) -> float:
        """z_g after it fell `level` times."""
        fallen = self.noise_multiplier * (1 + self.growth) ** (-level / 2)
        return max(fallen, self.least_noise_multiplier)

    def joint_noise(self, level: int) -> float:
        """z of the one Gaussian that protects as the gradient and the choice together do."""
        choice = len(self.rates) / self.choice_noise**2
        return 1 / sqrt(1 / self.gradient_noise(level) ** 2 + choice)

    def release(self, level: int, *, public_size: int) -> Mechanism:
        """What a step releases whose z_g fell `level` times."""
        noise = self.joint_noise(level)
        return mechanism(self.sampling, noise_multiplier=noise, public_size=public_size)

    def budget(self, *, public_size: int) -> RenyiFilter:
        """The filter of a run before its first step; DP-PCA is charged. Its order is public.

        Raises:
            ValueError: public_size is not the settings', or the target does not allow one step.
        """
        if public_size != self.public_size:
            raise ValueError(
                f"public_size must be the settings', {self.public_size}, which the run's filter "
                f"charges by, got {public_size}"
            )
        budget = RenyiFilter.for_target(
            self.target_epsilon, delta=self.target_delta, order=_order(self)
        )
        for one in self.projection():
            budget.charge(one.mechanism)
        return budget

    def guarantee(self, *, public_size: int) -> Guarantee:
        """What holds of a run, however its noise falls and wherever it stops: the filter's."""
        return self.budget(public_size=public_size).guarantee()

    def steps_allowed(self, *, public_size: int) -> int:
        """Steps if the noise never falls. Where it does the budget ends sooner, and steps idle."""
        budget = self.budget(public_size=public_size)
        first = self.release(0, public_size=public_size)
        steps = int(budget.remaining / float(first.rdp([budget.order])[0]))
        while steps and not budget.allows(first, steps):
            steps -= 1
        return min(steps, self.max_steps)

    def ledger(self, *, public_size: int, steps: int) -> list[Release]:
        """What `steps` steps release at most: a fall at each step, until the least noise.

        It bounds each of the steps, whatever happens; of a whole run `guarantee` says less.
        """
        *higher, _ = range(self.levels)
        counts = [1] * min(len(higher), steps)
        counts += [steps - len(counts)]
        levels = enumerate(counts)
        releases = [Release(self.release(i, public_size=public_size), n) for i, n in levels if n]
        return [*self.projection(), *releases]

    def projection(self) -> list[Release]:
        """What DP-PCA releases, if inputs are projected."""
        return [] if self.pca_noise is None else [Release(Gaussian(self.pca_noise))]


@lru_cache(maxsize=64)
def _order(settings: AgdSettings) -> float:
    """The filter's: that which allows the most steps if the noise does not fall."""

    def plan(steps: int) -> list[Release]:
        first = settings.release(0, public_size=settings.public_size)
        return [*settings.projection(), Release(first, steps)]

    def within(steps: int) -> bool:
        spent = rdp.epsilon(plan(steps), delta=settings.target_delta)
        return spent.epsilon <= settings.target_epsilon

    if not within(1):
        raise ValueError(
            f"target_epsilon {settings.target_epsilon} does not allow one step: raise it, or the "
            "noise"
        )
    most = settings.max_steps
    steps = most if within(most) else numerics.most(within, limit=2 * most)
    return best_order(settings.target_epsilon, delta=settings.target_delta, ledger=plan(steps))


# The paper prints no setting of AGD's. Of each step's price, at the first noise, the choice has a
# fifth; gamma is that of Lee and Kifer.
AGD = AgdSettings(
    noise_multiplier=8.0,
    least_noise_multiplier=2.0,
    max_grad_norm=4.0,
    choice_noise=32.0,
    sampling=PoissonSampling(600),
    target_epsilon=0.5,
    pca_noise=16.0,
    chosen="by hand; the paper prints none",
)

"""What the made-up paper ran."""

from dataclasses import dataclass, replace

from dpkit.privacy import Release, calibrate
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.sampling import PoissonSampling, mechanism
from dpkit.privacy.schedules import Constant
from dpkit.training.optimizers import Adam

PUBLIC_SIZE = 1_437  # declared size of the embedded digits' training part


@dataclass(frozen=True)
class Settings:
    """A run of DP-SGD on the discriminator; `noise_multiplier` is in clip norms."""

    clipping: FlatClipping
    noise_multiplier: float
    sampling: PoissonSampling
    target_epsilon: float
    target_delta: float
    optimizer: Adam
    hidden: int = 16
    latent_size: int = 8
    max_steps: int = 40

    def ledger(self, *, public_size: int, steps: int) -> list[Release]:
        """One Poisson-sampled Gaussian release a step."""
        return [Release(self._released(public_size), steps)]

    def steps_allowed(self, *, public_size: int) -> int:
        """Steps within the target epsilon."""
        allowed = calibrate.steps(
            self.target_epsilon, mechanism=self._released(public_size), delta=self.target_delta
        )
        return min(allowed, self.max_steps)

    def _released(self, public_size: int):
        noise = self.noise_multiplier
        return mechanism(self.sampling, noise_multiplier=noise, public_size=public_size)


SETTINGS = Settings(
    clipping=FlatClipping(1.0),
    noise_multiplier=1.5,
    sampling=PoissonSampling(64),
    target_epsilon=4.0,
    target_delta=1e-5,
    optimizer=Adam(Constant(1e-3), betas=(0.5, 0.999)),
)
SMALL = replace(SETTINGS, max_steps=6)

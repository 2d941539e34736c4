"""A warm GAN with fit and sample, as scikit-learn's estimators have them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dpkit.common import checks
from dpkit.private.budget import Budget, check_budget
from dpkit.private.plan import size_of
from dpkit.private.statement import ALL_RECORDS, OF_IMAGES, Priced, generator
from dpkit.synthesizers import class_moments
from dpkit.synthesizers.records import arrays, checksum, in_unit, wanted_labels
from dpkit.synthesizers.warm_gan.settings import WarmGanSettings, calibrated
from dpkit.synthesizers.warm_gan.step import generate_from, new_gan, step
from dpkit.training import Data, device_named, generator_on, train


class WarmGan(Priced):
    """A private conditional GAN of images that starts from the class moments.

        from dpkit import datasets
        from dpkit.synthesizers.warm_gan import WarmGan

        gan = WarmGan(classes=10, epsilon=10, delta=1e-5, batch_size=256).fit(datasets.digits())
        gan.sample([0, 1, 2])

    A share of the budget buys the moments of each class; the rest, noisy steps of a critic. An
    average of the generator is released. Another `fit` starts anew, and costs epsilon again.

    Attributes:
        generator_: the released network.
        settings_: what it was trained with, and its ledger.

    Args:
        classes: number of labels 0, 1, ..., which is public.
        epsilon, delta: of the whole fit, in nats, under add-remove adjacency.
        share: of mu^2 that the moments take, in (0, 1).
        steps, batch_size, max_grad_norm: of the critic, as `dpkit.private.plan.Plan`.
        public_size: declared number of records; by default that of the data, taken as public.
        device: "auto", "cpu", "cuda", ...
        reproducible_seed: of moments, batches and noise, as `Private`.
        options: more of `WarmGanSettings`, by name.
    """

    def __init__(
        self,
        classes: int,
        *,
        epsilon: float,
        delta: float,
        share: float = 0.5,
        steps: int = 150,
        batch_size: int = 2048,
        max_grad_norm: float = 1.0,
        public_size: int | None = None,
        device: str = "auto",
        reproducible_seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.generator_: nn.Module
        self.settings_: WarmGanSettings
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.share = share
        self.steps = steps
        self.batch_size = batch_size
        self.max_grad_norm = max_grad_norm
        self.public_size = public_size
        self.device = device
        self.reproducible_seed = reproducible_seed
        self.options = options

    def fit(self, x: Any, y: Any = None, *, budget: Budget | None = None) -> "WarmGan":
        """Train on private data.

        Args:
            x, y: arrays of images and labels, or `Images`, in the form of `PrivateImages.fit`.
            budget: adds up the runs on these data (see `Budget`).

        Raises: as `PrivateImages.fit`; TypeError where options name what there is not, too.
        """
        check_budget(budget)
        pixels, labels = arrays(x, y, classes=checks.whole(1, classes=self.classes))
        images = in_unit(pixels)
        size = size_of(len(images), public_size=self.public_size, delta=self.delta)
        settings = self._calibrated(images.shape[1:], size)
        device, seed = device_named(self.device), self.reproducible_seed
        ledger = settings.ledger(public_size=size)
        if budget is not None:
            budget.reserve(ledger, data=checksum(pixels, labels), seed=seed)
        rng = generator_on(device, reproducible_seed=seed)
        model = class_moments.fit(
            images, labels, settings=settings.moments, rng=generator(seed, stream=0)
        )
        # initial weights are public: released ones shall not lead to the noise's seed
        gan = new_gan(settings, model, seed=0, device=device)
        records = torch.as_tensor(images).float().to(device)
        data = Data(records, torch.as_tensor(labels).to(device), size)
        for _ in train(step, gan, data, settings=settings, rng=rng):
            pass
        self.generator_, self.settings_ = gan.averaged_net.eval(), settings
        drawn, public = f"{ALL_RECORDS} and Poisson", OF_IMAGES.format(settings.classes)
        self._priced(ledger, settings.guarantee(), drawn, size, public)
        return self

    def _calibrated(self, shape: tuple[int, ...], size: int) -> WarmGanSettings:
        checks.positive(epsilon=self.epsilon)
        return calibrated(
            self.epsilon,
            delta=checks.between(0, 1, delta=self.delta),
            public_size=size,
            classes=self.classes,
            shape=shape,
            share=self.share,
            steps=self.steps,
            batch_size=self.batch_size,
            max_grad_norm=self.max_grad_norm,
            seeded=self.reproducible_seed is not None,
            **(self.options or {}),
        )

    def sample(self, n: Any, *, reproducible_seed: int | None = None) -> NDArray[np.float32]:
        """Draw images of `n` as `PrivateImages.sample`, which costs nothing."""
        net, classes = self._fitted().generator_, self.settings_.classes
        labels = wanted_labels(n, classes=classes, rng=generator(reproducible_seed, stream=2))
        device = next(net.parameters()).device
        rng = generator_on(device, reproducible_seed=reproducible_seed, stream="samples")
        return generate_from(net, labels, classes=classes, rng=rng)

"""A GAN of your own networks, trained privately: fit, sample, save."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn
from tqdm.auto import tqdm

from dpkit.common import checks
from dpkit.privacy.ledger import Guarantee
from dpkit.private import saved, statement
from dpkit.private.budget import Budget, check_budget
from dpkit.private.data import (
    Transform,
    checksum,
    data_for,
    examples,
    held_in,
    labels_for,
    left_behind,
    published,
    settled,
    tensors,
    warn_of_range,
)
from dpkit.private.gan_step import new_gan, normal, step, try_step
from dpkit.private.networks import check_network, check_no_records, check_pair
from dpkit.private.plan import Plan, gan_settings, latent_shape
from dpkit.synthesizers.records import wanted_labels
from dpkit.training import Checkpoints, Record, device_named, generator_on, train
from dpkit.training.checkpoint.ledger import read_charged
from dpkit.training.device import floats
from dpkit.training.gradients.independence import Watched, extents

AT_ONCE = 1024  # samples made together
COLUMNS = {  # of the table of curves -> of a record
    "step": "step",
    "batch_size": "batch_size",
    "critic_loss": "discriminator_loss",
    "generator_loss": "generator_loss",
    "clipped": "clipped",
}


class PrivateGan(BaseEstimator):
    """A GAN whose generator may be released: its critic alone sees the data, privately.

        from dpkit import PrivateGan, datasets
        from dpkit.private.image_networks import image_networks
        generator, critic = image_networks((1, 28, 28), classes=10, latent_size=64)
        gan = PrivateGan(generator, critic, epsilon=8, delta=1e-5, classes=10, batch_size=64)
        gan.fit(datasets.digits(), steps=20)
        gan.sample([0, 1, 2])
        gan.save("generator.safetensors")

    Each critic step is one release: a Poisson batch, each example's gradient clipped as a whole,
    one noise on the sum, divided by `batch_size`. The generator learns from the critic alone, on
    labels drawn uniformly. An average of its weights is released. Another `fit` starts anew, and
    costs epsilon again. Attributes that end in `_` come with `fit`. The fitted object may be
    released by joblib or pickle where no seed was given: `curves_` and transforms stay behind.

    Attributes:
        generator_: the released network, on the device it was trained on.
        plan_: what was released.
        settings_: the arguments that `save` publishes, with what a NoisyStandardised released.
        transform_: the transform of the features; of a NoisyStandardised, by released numbers.
        curves_: step, batch size, losses and share clipped; of a resumed run, of its own steps.
            They describe private data without noise: do not release them.

    Args:
        generator: generator(z, y), or generator(z) without classes; z normal, (batch, latent_size).
            It may hold batch normalisation.
        critic: critic(x, y), or critic(x), to (batch, 1) or (batch,); of layers that keep examples
            apart. Both networks are copied; `fit` leaves them as they are.
        epsilon, delta: the budget of one fit, in nats, under add-remove adjacency.
        classes: number of labels 0, 1, ..., which is public; None for data without.
        loss: "wasserstein" with a gradient penalty, "hinge" or "bce".
        latent_size: numbers in a latent, or their shape, such as (100, 1, 1).
        n_critic: critic steps to a step of the generator.
        learning_rate, generator_learning_rate, betas: of Adam; the generator's is the critic's
            where it is None.
        penalty_weight: of the gradient penalty of "wasserstein".
        generator_decay: of the released average of the generator's weights, in [0, 1).
        batch_size, max_grad_norm, public_size: as `Private`.
        transform: as `Private`, but whole numbers become floats, too.
        device: "auto", "cpu", "cuda", "cuda:1", ...
        reproducible_seed: of batches and noise, as `Private`: keep it secret.
    """

    def __init__(
        self,
        generator: nn.Module,
        critic: nn.Module,
        *,
        epsilon: float,
        delta: float,
        classes: int | None = None,
        loss: str = "wasserstein",
        latent_size: int | tuple[int, ...] = 64,
        batch_size: int = 128,
        max_grad_norm: float = 1.0,
        n_critic: int = 1,
        learning_rate: float = 2e-3,
        generator_learning_rate: float | None = None,
        betas: tuple[float, float] = (0.5, 0.9),
        penalty_weight: float = 10.0,
        generator_decay: float = 0.99,
        public_size: int | None = None,
        transform: Transform | None = None,
        device: str = "auto",
        reproducible_seed: int | None = None,
    ) -> None:
        self.generator_: nn.Module
        self.plan_: Plan
        self.settings_: dict[str, Any]
        self.transform_: Transform | None
        self.curves_: pd.DataFrame
        self.generator = generator
        self.critic = critic
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.loss = loss
        self.latent_size = latent_size
        self.batch_size = batch_size
        self.max_grad_norm = max_grad_norm
        self.n_critic = n_critic
        self.learning_rate = learning_rate
        self.generator_learning_rate = generator_learning_rate
        self.betas = betas
        self.penalty_weight = penalty_weight
        self.generator_decay = generator_decay
        self.public_size = public_size
        self.transform = transform
        self.device = device
        self.reproducible_seed = reproducible_seed

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        steps: int = 1000,
        checkpoint: str | Path | Checkpoints | None = None,
        budget: Budget | None = None,
        progress: bool = False,
    ) -> "PrivateGan":
        """Train on private data.

        Args:
            x, y: tensors, arrays, or one Dataset, DataLoader or Images without y (see
                `dpkit.private.data.tensors`).
            steps: of the critic, each a release; the noise is calibrated for exactly these.
            checkpoint: a file from which a run with the same seed, or again none, resumes after a
                crash, charged once. It is PRIVATE (see `dpkit.training.Checkpoints`).
            budget: adds up the runs on these data (see `Budget`).
            progress: show a bar.

        Raises:
            ValueError: a number is out of range, data or networks do not fit, or the checkpoint is
                of another run.
            TypeError: data or networks of a kind that is not trained here.
        """
        check_budget(budget)
        device = device_named(self.device)
        generator, critic = self._networks(device)
        if self.classes is not None:
            checks.whole(1, classes=self.classes)
        parts = tensors(x) if y is None else tensors(x, y)
        features, labels = parts[0], labels_for(self.classes, len(parts[0]), parts)
        settings = gan_settings(self, records=len(features), steps=steps)
        rng = generator_on(device, reproducible_seed=self.reproducible_seed)
        size = settings.plan.public_size
        resumed = checkpoint is not None and self.reproducible_seed is None
        if resumed and settings.plan.scaling_noise:
            raise ValueError(
                "a resumed run would draw a NoisyStandardised again: give a reproducible_seed, or "
                "Standardised(mean, std) of public numbers"
            )
        transform = settled(self.transform, features, public_size=size, rng=rng)
        data = data_for(
            features,
            labels,
            like=next(generator.parameters()),
            public_size=size,
            transform=transform,
            whole_numbers=False,
        )
        memory = extents(data.features, *parts, *held_in(x, y))
        real = examples(data, rng=rng, memory=memory)
        for net in (generator, critic):
            check_no_records(net, parts, attributes=True)
        with Watched("a network", memory, remedy="let it read its inputs and weights alone"):
            fakes, *conditions = check_pair(
                generator,
                critic,
                shape=tuple(real.shape[1:]),
                latent_size=settings.latent_size,
                classes=self.classes,
            )
            try_step(generator, critic, real, fakes, *conditions, settings=settings)
        warn_of_range(real, fakes, given=features)
        gan = new_gan(generator, critic, settings)
        place = Checkpoints(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
        known = {"data": checksum(parts), "seed": self.reproducible_seed} if budget else {}

        def charge(how: Any) -> None:
            if budget is not None:
                # the ledger of its steps names a run, which is charged once
                held = None if place is None else read_charged(Path(place.path))
                how(budget, settings.plan.ledger(), run=held and held.identity, **known)

        charge(Budget.check)
        records = train(
            step,
            gan,
            data,
            settings=settings,
            rng=rng,
            checkpoint=place,
            begins=partial(charge, Budget.reserve),
        )
        seen = list(watched(records, steps=steps, bar=progress))
        released, _ = self._networks(device)  # without what a class kept of the labels it saw
        released.load_state_dict(gan.averaged_net.state_dict())
        self.generator_, self.plan_ = released.eval(), settings.plan
        self.settings_ = self._public() | published(transform, settings.plan)
        rows = [floats(*(getattr(one, name) for name in COLUMNS.values())) for one in seen]
        # "private" is printed over the columns
        curves = pd.DataFrame(rows, columns=pd.Index(COLUMNS, name="private"))
        curves["step"] += 1
        self.transform_, self.curves_ = transform, curves
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle; of a fitted GAN without `curves_` and transforms."""
        state = {k: x for k, x in vars(self).items() if k not in ("curves_", "transform_")}
        if hasattr(self, "generator_") and self.transform is not None:
            state["transform"] = left_behind
        return state

    def _networks(self, device: torch.device) -> list[nn.Module]:
        """Copies of the two networks, on the device."""
        for name in ("generator", "critic"):
            check_network(getattr(self, name), name, keeps_apart=False)
        if self.generator is self.critic:
            raise ValueError("generator and critic must be two networks, got one twice")
        return [deepcopy(net).to(device) for net in (self.generator, self.critic)]

    def sample(self, n: Any, *, reproducible_seed: int | None = None) -> Tensor:
        """Draw from the released generator, which costs nothing.

        Args:
            n: how many, of labels drawn uniformly; or, with classes, a label for each, (number,),
                integers in 0 .. classes - 1.
            reproducible_seed: of labels and latents; None takes the operating system's entropy.

        Returns:
            (number, ...) on the CPU, in the generator's own range.

        Raises:
            NotFittedError: there is no generator yet.
            ValueError: n is neither an integer >= 0 nor labels of this GAN.
        """
        network, classes = self._fitted().generator_, self.settings_["classes"]
        if classes is None:
            count, conditions = checks.whole(n=n), ()
        else:
            draws = statement.generator(reproducible_seed, stream=2)
            conditions = (torch.from_numpy(wanted_labels(n, classes=classes, rng=draws)),)
            count = len(conditions[0])
        like = next(network.parameters())
        rng = generator_on(like.device, reproducible_seed=reproducible_seed, stream="samples")
        z = normal(count, self.settings_["latent_size"], like=like, rng=rng)
        rows = (z, *(one.to(like.device) for one in conditions))
        parts = zip(*(row.split(AT_ONCE) for row in rows), strict=True)
        with torch.no_grad():
            return torch.cat([network(*part).cpu() for part in parts])

    def guarantee(self) -> Guarantee:
        """The certified bound on all that `fit` released."""
        return self._fitted().plan_.guarantee()

    def statement(
        self, *, unit: str = "one training example", tried: int | None = None
    ) -> str:
        """The sentences that a paper should carry; unit and tried as of `Priced.statement`."""
        plan, classes = self._fitted().plan_, self.settings_["classes"]
        return statement.statement(plan, unit=unit, classes=classes, tried=tried)

    def save(self, path: str | Path, *, unit: str = "one training example") -> None:
        """Write the released generator with its statement and price, to be published.

        It holds neither critic, nor curves, nor random states.

        Args:
            path: of the safetensors file; its folder must exist.
            unit: as `statement`.
        """
        words = {
            "statement": self.statement(unit=unit),
            "settings": self.settings_,
            "shape": list(self.sample(1).shape[1:]),
        }
        saved.save(path, self.generator_, plan=self.plan_, words=words)

    def load(self, path: str | Path) -> "PrivateGan":
        """Take a generator that `save` wrote; `generator` must have its architecture.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no such file, of another architecture, or of other labels or latents.
        """
        generator, _ = self._networks(device_named(self.device))
        facts = saved.load(path, generator)
        for name in ("classes", "latent_size"):
            stored, own = facts["settings"][name], self._public()[name]
            if stored != (list(own) if isinstance(own, tuple) else own):
                raise ValueError(f"{path} has {name} {stored}, got {own}")
        self.generator_, self.plan_ = generator.eval(), Plan(**facts["plan"])
        self.settings_ = facts["settings"]
        return self

    def _public(self) -> dict[str, Any]:
        """The settings that may be published: all but networks, seed and device."""
        hidden = {"generator", "critic", "reproducible_seed", "device", "transform"}
        own = {name: value for name, value in self.get_params().items() if name not in hidden}
        own |= {"latent_size": latent_shape(self.latent_size), "betas": tuple(self.betas)}
        return {name: checks.plain(value) for name, value in own.items()}

    def _fitted(self) -> "PrivateGan":
        if not hasattr(self, "generator_"):
            raise NotFittedError(
                "there is no generator yet: call fit(x, y), or load(path), first"
            )
        return self


def watched(records: Iterable[Record], *, steps: int, bar: bool) -> Iterator[Record]:
    """The same records, with a bar if wanted."""
    with tqdm(total=steps, disable=not bar, unit="step") as progress:
        for record in records:
            progress.update(record.step + 1 - progress.n)
            yield record

"""What is run for the tables: a GAN trained and judged, or a pair of classifiers, is one part."""

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from dpkit.experiments import trial
from dpkit.experiments.part import Part, Progress, Result, Work
from dpkit.papers.dpgan import algorithm, scores, semi_supervised
from dpkit.papers.dpgan.material import material
from dpkit.papers.dpgan.semi_supervised import Learning
from dpkit.papers.dpgan.settings import Settings
from dpkit.paths import cache_dir
from dpkit.privacy import moments, pld
from dpkit.privacy.clipping import GroupClipping, Unclipped
from dpkit.privacy.sampling import ShuffledBatches
from dpkit.records import describe, json_number, write_bytes
from dpkit.training.checkpoint import Checkpoints
from dpkit.training.device import device_label, device_named, generator_on
from dpkit.training.loop import train
from dpkit.training.types import Data

EVERY = 100  # steps between two checkpoints
JUDGED = {"paper": 60_000, "reduced": 10_000}  # generated images; the text has 600 times 100
SHOWN = 50
TESTED = 10_000  # test images of MNIST
PUBLIC = "the images that bounds and the warm start read are public"


class Run(NamedTuple):
    """One GAN trained with one seed, and what it generates judged."""

    key: str
    settings: Settings
    seed: int
    scale: str
    device: str
    progress: Progress
    records: str = "mnist"

    @property
    def part(self) -> Part:
        """Its name and settings, and what computes it."""
        described = describe(self.settings) | {"records": self.records}
        name = f"{self.key}-seed{self.seed}"
        return Part(name, described, self.seed, self.compute, self.work, self.prices)

    def prices(self, values: dict[str, Any]) -> dict[str, Any]:
        """What the steps of stored values cost."""
        return priced(self.settings, steps=values["steps"])

    def work(self) -> list[Work]:
        """What is left to do: the classifier's training, the GAN's, and the images' scores."""
        return [*self.training(), *scores.work(self.records, images=JUDGED[self.scale])]

    def training(self) -> list[Work]:
        """The steps that are left, of the warm start and private ones."""
        settings, device = self.settings, device_named(self.device)
        public = trial.made_up(settings.public_examples, settings.image_shape, device=device)
        warm = algorithm.warm_settings(settings, examples=len(public))
        steps = partial(
            trial.training, new_gan=algorithm.new_gan, shape=settings.image_shape, device=device,
            every=settings.critic_steps,
        )  # fmt: skip
        left = steps(
            algorithm.step_of(settings, public), settings=settings, size=settings.private_examples,
            left=self.steps - trial.steps_done(self._file("private")),
        )  # fmt: skip
        if not settings.warm_start:
            return [left]
        first = warm.max_steps - trial.steps_done(self._file("warm"))
        return [steps(algorithm.plain_step, settings=warm, size=len(public), left=first), left]

    def compute(self) -> Result:
        """Train, judge, and say what is claimed and proven of it."""
        net, settings = self.trained(), self.settings
        rng = generator_on(torch.device("cpu"), seed=self.seed, stream="judged")
        codes = torch.randn(JUDGED[self.scale], settings.latent_size, generator=rng)
        images = algorithm.generate(net, codes)
        steps = self.steps
        values = {
            "steps": steps, "iterations": steps // settings.critic_steps,
            "warm_start": settings.warm_start,
            **scores.judged(images, records=self.records, seed=self.seed),
            **priced(settings, steps=steps),
        }  # fmt: skip
        label = device_label(device_named(self.device))
        return Result(
            values, material(self.records).checksums, label, shown(images[:SHOWN])
        )  # fmt: skip

    def trained(self) -> nn.Module:
        """Train, from where an interrupted run stopped; keep the generator in the cache.

        The generator is on the CPU. Checkpoints hold the raw state of the noise: they go when the
        generator is stored.
        """
        settings, device = self.settings, device_named(self.device)
        real = material(self.records)
        public, private = real.public.to(device), real.private.to(device)
        if len(private) != settings.private_examples or len(public) != settings.public_examples:
            raise ValueError(
                f"private_examples and public_examples must be those of {self.records}, "
                f"{len(private)} and {len(public)}, got {settings.private_examples} and "
                f"{settings.public_examples}"
            )
        gan = algorithm.new_gan(settings, seed=self.seed, device=device)
        places = [self._file(what) for what in ("warm", "private")]
        if settings.warm_start:
            warm = algorithm.warm_start(
                gan, public, settings=settings,
                rng=generator_on(device, seed=self.seed, stream="warm start"),
                checkpoint=Checkpoints(places[0], every=EVERY),
            )  # fmt: skip
            total = settings.warm_start * settings.critic_steps
            for _ in self.progress(warm, total=total, desc=f"{self.key} seed {self.seed}, warm"):
                pass
        records = train(
            algorithm.step_of(settings, public), gan,
            Data(private, torch.zeros(len(private), dtype=torch.int64, device=device),
                 settings.private_examples),
            settings=settings, rng=generator_on(device, seed=self.seed),
            checkpoint=Checkpoints(places[1], every=EVERY),
        )  # fmt: skip
        for _ in self.progress(records, total=self.steps, desc=f"{self.key} seed {self.seed}"):
            pass
        net = gan.generator_net.cpu()
        write_bytes(self.weights, save(net.state_dict()))
        for place in places:
            for path in place.parent.glob(f"{place.name}*"):
                path.unlink()
        return net.eval()

    def released(self) -> nn.Module:
        """The generator as it lies in the cache, on the CPU; trained if it is not there."""
        path = self.weights
        if not path.exists():
            return self.trained()
        cpu = torch.device("cpu")
        net = algorithm.new_gan(self.settings, seed=self.seed, device=cpu).generator_net
        net.load_state_dict(load_file(path))
        return net.eval()

    @property
    def steps(self) -> int:
        """Private steps of the critic."""
        size = self.settings.private_examples
        return trial.steps_allowed(self.settings, public_size=size)

    @property
    def weights(self) -> Path:
        """Where the generator is kept, as safetensors."""
        return self._file("safetensors")

    def _file(self, what: str) -> Path:
        described = json.dumps(describe(self.settings), sort_keys=True)
        digest = sha256(described.encode()).hexdigest()[:12]
        name = f"{self.scale}-{self.records}-{self.key}-seed{self.seed}-{digest}.{what}"
        return cache_dir() / "runs" / "dpgan" / name


def real_part(records: str, *, scale: str) -> Part:
    """The tables' row "real": the test images judged as generated ones are."""

    def compute() -> Result:
        real = material(records)
        values = scores.judged(real.test, records=records, seed=0)
        return Result(values, real.checksums, "cpu", shown(real.test[:SHOWN]))

    def work() -> list[Work]:
        return scores.work(records, images=TESTED)

    return Part("real", {"records": records, "scale": scale}, None, compute, work)


def priced(settings: Settings, *, steps: int) -> dict[str, Any]:
    """Epsilon as claimed, as the code charges it, and as it is proven, of so many steps.

    Proven is certified by a numerical accountant, or "inf"; assumptions are what it rests on.
    `epsilon_if_poisson` is certified too, add-remove, but of batches that a shuffled run has not.
    """
    size, delta = settings.private_examples, settings.target_delta
    found = pld.epsilon(settings.ledger(public_size=size, steps=steps), delta=delta)
    poisson = pld.epsilon(settings.poisson_ledger(public_size=size, steps=steps), delta=delta)
    private, charged = settings.noise_multiplier > 0, None
    if settings.moments is not None:
        claimed = settings.claimed_ledger(public_size=size, steps=steps)
        charged = moments.epsilon(claimed, delta=delta, moments=settings.moments).epsilon
    reads = settings.warm_start > 0 or not isinstance(settings.clipping, GroupClipping | Unclipped)
    shuffled = isinstance(settings.sampling, ShuffledBatches)  # the price of passes is no lower one
    return {
        "epsilon_claimed": settings.target_epsilon if private else None,
        "epsilon_charged": json_number(charged),
        "epsilon_proven": json_number(found.epsilon),
        "epsilon_lower": None if shuffled else json_number(found.lower),
        "delta": found.delta, "adjacency": found.adjacency, "method": found.method,
        "assumptions": [*found.assumptions, *((PUBLIC,) if reads else ())],
        "epsilon_if_poisson": json_number(poisson.epsilon),
        "if_poisson_adjacency": poisson.adjacency,
        "if_poisson_assumptions": list(poisson.assumptions),
    }  # fmt: skip


class Classified(NamedTuple):
    """Tables 5 and 6: a classifier of so many public labels, alone or with one GAN's images."""

    key: str
    labels: int
    learning: Learning
    seed: int
    device: str
    records: str = "mnist"
    gan: Run | None = None  # None: the supervised baseline

    @property
    def part(self) -> Part:
        """Its name and settings, and what computes it."""
        described = describe(self.learning) | {"labels": self.labels, "records": self.records}
        if self.gan is not None:
            described["gan"] = describe(self.gan.settings)
        name = f"{self.key}-n{self.labels}-seed{self.seed}"
        prices = None if self.gan is None else self.prices
        return Part(name, described, self.seed, self.compute, self.work, prices)

    def prices(self, values: dict[str, Any]) -> dict[str, Any]:
        """What the GAN cost; its images are post-processing."""
        if self.gan is None:
            return {}
        steps = values.get("gan_steps", self.gan.steps)
        return {"gan_steps": steps, **priced(self.gan.settings, steps=steps)}

    def work(self) -> list[Work]:
        """The iterations, and before them the GAN's training where it is not in the cache."""
        learning, device = self.learning, device_named(self.device)
        alone = partial(semi_supervised.trial, settings=learning, device=device)
        kind = ("labelled", learning, str(device))
        if self.gan is None:
            return [Work(kind, learning.iterations, alone)]
        gan, weights = self.gan.settings, self.gan.weights
        steps = [] if weights.exists() else self.gan.training()
        joined = learning.iterations - learning.joined_at

        def both() -> Iterator[Any]:
            net = algorithm.new_gan(gan, seed=0, device=device).generator_net.eval()
            generate = partial(algorithm.generate, net)
            return alone(generate=generate, code_size=gan.latent_size)

        return [
            *(one._replace(once=str(weights)) for one in steps),
            Work(kind, learning.joined_at, alone), Work((*kind, gan), joined, both),
        ]  # fmt: skip

    def compute(self) -> Result:
        """Train on the first so many of the public images in a random order; test on real ones."""
        real, device = material(self.records), device_named(self.device)
        if not 1 <= self.labels <= len(real.public):
            raise ValueError(
                f"labels must lie in [1, {len(real.public)}], the public images of {self.records}, "
                f"got {self.labels}"
            )
        chosen = torch.randperm(
            len(real.public), generator=generator_on(torch.device("cpu"), seed=self.seed,
                                                     stream="labelled")
        )[: self.labels]  # fmt: skip
        images, labels = real.public[chosen].to(device), real.public_labels[chosen].to(device)
        size = self.gan.settings.latent_size if self.gan is not None else 0
        pair = semi_supervised.new_pair(
            real.image_shape, code_size=size, settings=self.learning, seed=self.seed, device=device
        )
        rng = generator_on(device, seed=self.seed, stream="labelled batches")
        values: dict[str, Any] = {"labels": self.labels}
        if self.gan is None:
            steps = semi_supervised.supervised(
                pair, images, labels, settings=self.learning, rng=rng
            )
        else:
            net = self.gan.released().to(device)
            steps = semi_supervised.semi_supervised(
                pair, images, labels, partial(algorithm.generate, net), code_size=size,
                settings=self.learning, rng=rng,
                codes_rng=generator_on(device, seed=self.seed, stream="codes"),
            )  # fmt: skip
            values |= self.prices(values)
        for _ in steps:
            pass
        test, answers = real.test.to(device), real.test_labels.to(device)
        values["accuracy"] = semi_supervised.accuracy(pair.first, test, answers)
        return Result(values, real.checksums, device_label(device))


def shown(images: Tensor) -> np.ndarray:
    """Images as bytes, uint8 (images, height, width)."""
    return ((images[:, 0] + 1) * 127.5).round().byte().cpu().numpy()

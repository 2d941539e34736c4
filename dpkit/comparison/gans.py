"""The private GANs that are compared: a repaired one, a WGAN-GP, and one with a warm start."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import nn

from dpkit.baselines import class_moments
from dpkit.baselines.jitter import Jitter
from dpkit.comparison.task import CLASSES, SHAPE, Made, Task
from dpkit.experiments.run import Run
from dpkit.papers.dp_cgan import algorithm
from dpkit.papers.dp_cgan.settings import REPAIRED, Settings
from dpkit.privacy import calibrate, pld, rdp
from dpkit.privacy.ledger import Release
from dpkit.privacy.sampling import mechanism
from dpkit.private import PrivateGan
from dpkit.private.plan import Plan, calibrated
from dpkit.training.networks import Conditional, mlp
from dpkit.training.types import Data
from dpkit.warm_gan.settings import WarmGanSettings
from dpkit.warm_gan.settings import calibrated as calibrated_warm_gan
from dpkit.warm_gan.step import generate, new_gan, step

PIXELS, HIDDEN, LATENT = prod(SHAPE), 256, 64


def dp_cgan_settings(task: Task) -> Settings:
    """The repaired DP-CGAN with its own settings, but for the noise of this epsilon."""
    sampling = replace(
        REPAIRED.sampling, expected_batch_size=min(REPAIRED.expected_batch_size, task.size // 10)
    )
    steps = task.steps(REPAIRED.max_steps)
    noise = calibrate.noise_multiplier(
        task.epsilon,
        sample_rate=sampling.expected_batch_size / task.size,
        steps=steps,
        delta=task.delta,
        accountant=pld.epsilon,
    )
    one = mechanism(sampling, noise_multiplier=noise, public_size=task.size)
    charged = rdp.epsilon([Release(one, steps)], delta=task.delta).epsilon
    return replace(  # the paper's settings count their steps by Renyi DP
        REPAIRED,
        noise_multiplier=noise,
        sampling=sampling,
        target_epsilon=charged * (1 + 1e-9),
        target_delta=task.delta,
        max_steps=steps,
    )


def ledger(task: Task, settings: Settings | WarmGanSettings) -> list[Release]:
    """All steps of a run."""
    return settings.ledger(public_size=task.size)


def dp_cgan(task: Task, settings: Settings) -> Made:
    """Train it, or take what is kept of the same run."""
    run = Run(
        "comparison",
        f"dp_cgan-{task.key}",
        settings,
        task.seed,
        task.size,
        device_name=task.device_name,
        progress=task.progress,
    )
    gan = algorithm.new_gan(settings, seed=task.seed, device=run.device)
    if not run.weights.exists():
        images = task.records()
        flat, labels = (torch.from_numpy(part) for part in (images.flat(), images.labels))
        data = Data(flat.to(run.device), labels.to(run.device), task.size)
        run.finish(run.train(algorithm.step, gan, data), total=run.steps)
        run.keep(gan.averaged_net)
    run.load(gan.averaged_net)

    def sample(labels: np.ndarray) -> np.ndarray:
        wanted = torch.from_numpy(labels).to(run.device)
        made = algorithm.generate(gan, wanted, settings=settings, rng=run.rng("synthesis"))
        return made.reshape(-1, *SHAPE).cpu().numpy()

    return Made(sample)


def warm_gan_settings(task: Task) -> WarmGanSettings:
    """Half of the budget for the moments, half for the critic's steps."""
    return calibrated_warm_gan(
        task.epsilon,
        delta=task.delta,
        public_size=task.size,
        classes=CLASSES,
        shape=SHAPE,
        steps=task.steps(150),
        batch_size=min(2_048, task.size // 10),
    )


def warm_gan(task: Task, settings: WarmGanSettings, *, jitter: Jitter | None) -> Made:
    """Train it, or take what is kept of the same run."""
    run = Run(
        "comparison",
        f"warm_gan-{task.key}",
        settings,
        task.seed,
        task.size,
        device_name=task.device_name,
        progress=task.progress,
    )
    images = task.records()
    model = class_moments.fit(
        task.pixels(), images.labels, settings=settings.moments, rng=task.rng(0)
    )
    gan = new_gan(settings, model, seed=0, device=run.device)
    if not run.weights.exists():
        pixels, labels = (torch.from_numpy(part) for part in (task.pixels(), images.labels))
        data = Data(pixels.to(run.device), labels.to(run.device), task.size)
        run.finish(run.train(step, gan, data), total=run.steps)
        run.keep(gan.averaged_net)
    run.load(gan.averaged_net)

    def sample(wanted: np.ndarray) -> np.ndarray:
        made = generate(gan, wanted, settings, run.rng("synthesis"))
        return made if jitter is None else jitter(made, rng=task.rng(2))

    return Made(sample)


def wgan_gp_settings(task: Task) -> dict[str, Any]:
    """Arguments of a `PrivateGan` with a gradient penalty."""
    return {
        "epsilon": task.epsilon,
        "delta": task.delta,
        "loss": "wasserstein",
        "latent_size": LATENT,
        "batch_size": min(2_048, task.size // 10),
        "n_critic": 2,
        "learning_rate": 2e-3,
        "betas": (0.5, 0.99),
        "generator_decay": 0.99,
        "public_size": task.size,
        "steps": task.steps(600),
        "hidden": HIDDEN,
        "label_scales": (4.0, 20.0),
        "chosen": "the best of five at epsilon 10 on distorted copies of scikit-learn's digits",
    }


def wgan_gp_ledger(task: Task, settings: dict[str, Any]) -> list[Release]:
    """All critic steps of a run."""
    return _plan(settings, task).ledger()


def wgan_gp(task: Task, settings: dict[str, Any]) -> Made:
    """Train it, or take what is kept of the same run."""
    run = Run(
        "comparison",
        f"wgan_gp-{task.key}",
        settings,
        task.seed,
        task.size,
        device_name=task.device_name,
    )
    own = ("steps", "hidden", "label_scales", "chosen")
    given = {key: value for key, value in settings.items() if key not in own}
    gan = PrivateGan(
        *_mlps(settings, task.seed),
        classes=CLASSES,
        device=task.device_name,
        reproducible_seed=task.seed,
        **given,
    )
    if run.weights.exists():
        gan.load(run.weights)
    else:
        images = task.records()
        gan.fit(images.flat(), images.labels, steps=settings["steps"])
        run.weights.parent.mkdir(parents=True, exist_ok=True)
        gan.save(run.weights)

    def sample(labels: np.ndarray) -> np.ndarray:
        made = gan.sample(labels, reproducible_seed=task.seed)
        return made.reshape(-1, *SHAPE).numpy()

    return Made(sample)


def _plan(settings: dict[str, Any], task: Task) -> Plan:
    names = ("delta", "steps", "batch_size", "public_size")
    known = {name: settings[name] for name in names}
    return calibrated(settings["epsilon"], records=task.size, **known)


def _mlps(settings: dict[str, Any], seed: int) -> list[nn.Module]:
    """A generator and a critic of one hidden layer each, which see the label."""
    hidden, rng = settings["hidden"], torch.Generator().manual_seed(seed)
    bodies = (
        mlp((LATENT + CLASSES, hidden, PIXELS), last=nn.Sigmoid(), rng=rng),
        mlp((PIXELS + CLASSES, hidden, 1), last=None, rng=rng),
    )
    return [
        Conditional(body, classes=CLASSES, label_scale=scale)
        for body, scale in zip(bodies, settings["label_scales"], strict=True)
    ]

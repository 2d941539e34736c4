"""What is run for the made-up paper's table."""

from functools import partial
from typing import Any

import torch
from dpkit.papers.sixth import algorithm
from dpkit.papers.sixth.settings import PUBLIC_SIZE, SETTINGS, SMALL

from dpkit import datasets
from dpkit.common.progress import Progress
from dpkit.papers.experiments.run import Run, as_bytes
from dpkit.papers.experiments.store import Part, Result, priced
from dpkit.privacy import rdp
from dpkit.training.types import Data


def plan_table_1(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Table 1: how bright the generated digits are (reduced: six steps)."""
    settings = SETTINGS if scale == "paper" else SMALL
    where = {"device_name": device, "progress": progress, "every": 2}
    runs = [
        Run("sixth", "repaired", settings, seed, PUBLIC_SIZE, scale, **where)
        for seed in range(seeds)
    ]
    return [run.part(partial(_train, run), prices=partial(_prices, run)) for run in runs]


PLANS = {"table_1": plan_table_1}


def _train(run: Run) -> Result:
    digits = datasets.digits(split="train")
    images = torch.from_numpy(digits.flat()).to(run.device)
    data = Data(images, torch.zeros(len(images), dtype=torch.int64, device=run.device), run.size)
    gan = algorithm.new_gan(run.settings, seed=run.seed, device=run.device)
    run.finish(run.train(algorithm.step, gan, data), total=run.steps)
    run.keep(gan.generator_net)
    with torch.no_grad():
        made = gan.generator_net(algorithm.latents(9, run.settings, run.rng("samples")))
    values = {"steps": run.steps, "brightness": made.mean().item()}
    run.forget()
    samples = as_bytes(made.reshape(-1, 28, 28), low=0.0)
    return run.result(values | _prices(run, values), {digits.name: digits.checksum}, samples)


def _prices(run: Run, values: dict[str, Any]) -> dict[str, Any]:
    ledger = run.settings.ledger(public_size=run.size, steps=values["steps"])
    proven = rdp.epsilon(ledger, delta=run.settings.target_delta)
    return priced(proven, claimed=run.settings.target_epsilon)

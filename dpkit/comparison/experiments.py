"""What is run for the comparison: each method at each epsilon, with several seeds, and scored."""

from functools import partial
from typing import Any

import numpy as np

from dpkit import datasets
from dpkit.comparison.methods import METHODS
from dpkit.comparison.tables import run_name
from dpkit.comparison.task import CLASSES, SHAPE, SIZES, Task
from dpkit.experiments.part import Part, Progress, Result, Work, priced
from dpkit.experiments.rows import part_name
from dpkit.metrics.trained_on_synthetic import Protocol, accuracy, cnn, logistic, mlp, training_work
from dpkit.privacy import pld
from dpkit.records import describe
from dpkit.training.device import device_label, device_named

EPSILONS = (10.0, 1.0, 3.0, 0.5)
DELTA = 1e-5
IMAGES = 60_000  # generated ones that classifiers are trained on
# Bfloat16 is a third to half of the time where a processor has it; accuracies agree within seeds.
PROTOCOLS = {"paper": Protocol(bfloat16=True), "reduced": Protocol(epochs=3, held_out=500)}
NETWORKS = {"cnn": cnn, "mlp": mlp, "logistic": logistic}
# DPImageBench's protocol: 55,000 records to fit on, and delta 1 / (n log n) of that number.
BENCH_RECORDS, BENCH_DELTA, BENCH_EPSILONS = 55_000, 1.6658e-6, (10.0, 1.0)
BENCH_METHODS = ("moments_jittered",)


def plan(data: str, *, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Accuracy and likeness of what each method makes (reduced: 6,000 images, shorter training).

    Args:
        data: name of an image set.
        scale: "paper" (60,000 generated images, 10 epochs) or "reduced".
        seeds: fits of each method at each epsilon.
        device: auto, cpu or cuda.
        progress: wraps the steps of a training.
    """
    tasks = [
        (method, Task(data, SIZES[data], epsilon, DELTA, seed, device, progress))
        for seed in range(seeds)
        for epsilon in EPSILONS
        for method in METHODS
    ]
    if SIZES[data] > BENCH_RECORDS:
        tasks += [
            (method, Task(data, BENCH_RECORDS, epsilon, BENCH_DELTA, seed, device, progress))
            for seed in range(seeds)
            for epsilon in BENCH_EPSILONS
            for method in BENCH_METHODS
        ]
    return [_part(method, task, scale) for method, task in tasks]


PLANS = {data: partial(plan, data) for data in SIZES}


def _part(method: str, task: Task, scale: str) -> Part:
    chosen = METHODS[method]
    settings = chosen.settings(task)
    protocol, images = PROTOCOLS[scale], _images(scale)
    known = {
        "method": describe(settings),
        "post_processing": chosen.post_processing,
        "records": task.size,
        "epsilon": task.epsilon,
        "delta": task.delta,
        "images": images,
        "protocol": describe(protocol),
    }
    bench = task.delta == BENCH_DELTA
    name = part_name(run_name(method, task.epsilon, bench=bench), task.seed)
    return Part(
        name,
        known,
        task.seed,
        partial(_score, method, task, scale),
        partial(_work, task, scale),
        partial(_prices, method, task),
    )


def _images(scale: str) -> int:
    return IMAGES if scale == "paper" else IMAGES // 10


def _work(task: Task, scale: str) -> list[Work]:
    device = device_named(task.device_name)
    return [
        training_work(
            network, SHAPE, images=_images(scale), protocol=PROTOCOLS[scale], device=device
        )
        for network in NETWORKS.values()
    ]


def _score(method: str, task: Task, scale: str) -> Result:
    """Fit the method, generate images of each class equally often, and train on them."""
    chosen = METHODS[method]
    made = chosen.make(task, chosen.settings(task))
    labels = np.arange(_images(scale)) % CLASSES
    images, test = made.sample(labels), datasets.load(task.data, split="test")
    values: dict[str, Any] = dict(made.notes)
    for name, network in NETWORKS.items():
        found = accuracy(
            network,
            (images, labels),
            (test.pixels, test.labels),
            protocol=PROTOCOLS[scale],
            seed=task.seed,
            device=device_named(task.device_name),
            progress=task.progress,
        )
        values |= {f"{name}_accuracy": found.chosen, f"{name}_epoch": found.epoch}
    records = task.records()
    checksums = {f"{s.name} {w}": s.checksum for s, w in ((records, "train"), (test, "test"))}
    shown = np.round(images[:100, 0] * 255).astype(np.uint8) if task.seed == 0 else None
    label = device_label(device_named(task.device_name))
    return Result(values | _prices(method, task, values), checksums, label, shown)


def _prices(method: str, task: Task, values: dict[str, Any]) -> dict[str, Any]:
    """What a fit costs, by the certified accountant."""
    chosen = METHODS[method]
    ledger = chosen.ledger(task, chosen.settings(task))
    return priced(pld.epsilon(ledger, delta=task.delta), claimed=None)

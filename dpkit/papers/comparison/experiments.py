"""The comparison's runs: each method at each epsilon, with several seeds, and scored."""

import io
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load, save

from dpkit import datasets
from dpkit.common.files import cache_dir, results_dir
from dpkit.common.progress import Progress, silent
from dpkit.common.records import describe, read_json, write_bytes
from dpkit.metrics.judge import CLASSES, SIZES, Judge, Learning, as_images, initial, judge
from dpkit.metrics.likeness import classifier_fid, precision_recall
from dpkit.metrics.trained_on_synthetic import Protocol, accuracy, cnn, logistic, mlp
from dpkit.papers.comparison import NAME
from dpkit.papers.comparison.methods import INVARIANT, METHODS, ImageTask
from dpkit.papers.comparison.tables import run_name
from dpkit.papers.comparison.tabular import plan_table
from dpkit.papers.experiments import store
from dpkit.papers.experiments.store import Part, Result, Values, part_name, priced
from dpkit.privacy import pld
from dpkit.training.device import device_label, device_named

DELTA = 1e-5


class ComparisonScale(NamedTuple):
    """The size of a run.

    epsilons: of each method, the most important first.
    images: generated ones to train classifiers on.
    protocol: of that training.
    compared: generated images, and real ones, to compare in a classifier's features.
    """

    epsilons: tuple[float, ...]
    images: int
    protocol: Protocol
    compared: int


# Bfloat16 is less work where a processor has it. On 20,000 samples, 3 epochs and two seeds a CNN
# came to 96.7 and 96.5 %, to 96.9 and 96.6 % in float32: no further apart than seeds are.
SCALES = {
    "paper": ComparisonScale((10.0, 1.0, 3.0, 0.5), 60_000, Protocol(bfloat16=True), 10_000),
    "reduced": ComparisonScale((10.0, 1.0), 6_000, Protocol(epochs=3, held_out=500), 360),
    "small": ComparisonScale((10.0,), 600, Protocol(epochs=1, held_out=100), 300),
}
NETWORKS = {"cnn": cnn, "mlp": mlp, "logistic": logistic}
# DPImageBench's protocol: 5,000 records fewer than there are to fit on; delta 1 / (n log n) of them
BENCH = {"mnist": (55_000, 1.6658e-6), "cifar10": (45_000, 2.0741e-6)}
BENCH["fashion_mnist"] = BENCH["mnist"]
BENCH_EPSILONS = (10.0, 1.0)
BENCH_METHODS = {name: METHODS[name] for name in ("moments_jittered", "private_images")}
COLOUR = {"private_images": METHODS["private_images"]}  # what takes images in colour
RECORDS = SIZES | {"cifar10": 50_000}
# The small classifier in whose features images are compared, of each image set.
LEARNINGS = {name: Learning(name, width=8, hidden=128, epochs=6) for name in SIZES}
SETTLED = results_dir().parent / "settled.json"
FOLDER = store.folder("comparison", "classifier", scale="paper")


def plan(data: str, *, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Accuracy of classifiers trained on what each method makes (reduced: scikit-learn's digits).

    Args:
        data: name of an image set; at the scales "reduced" and "small" the digits stand in for it.
        scale: "paper" (60,000 generated images, 10 epochs), "reduced" (6,000, 3 epochs) or "small".
        seeds, device, progress: as `PartsPlan`.
    """
    data = data if scale == "paper" else "digits"
    planned = partial(
        _planned, data=data, scale=scale, seeds=seeds, device=device, progress=progress
    )
    grey = data != "cifar10"
    budgets = [(RECORDS[data], epsilon, DELTA) for epsilon in SCALES[scale].epsilons]
    parts = planned(METHODS if grey else COLOUR, budgets)
    if scale == "paper":
        count, delta = BENCH[data]
        bench = [(count, epsilon, delta) for epsilon in BENCH_EPSILONS]
        parts += planned(BENCH_METHODS if grey else COLOUR, bench)
    return parts


def _planned(
    methods: Iterable[str],
    budgets: Iterable[tuple[int, float, float]],
    *,
    data: str,
    scale: str,
    seeds: int,
    device: str,
    progress: Progress,
) -> list[Part]:
    """The parts of methods for each seed and each budget: of records, their epsilon and delta."""
    made = partial(
        ImageTask, data, device_name=device, progress=progress, brief=scale == "small"
    )
    tasks = [
        made(size=size, epsilon=epsilon, delta=delta, seed=seed)
        for seed, (size, epsilon, delta) in product(range(seeds), budgets)
    ]
    return [part for task, one in product(tasks, methods) for part in _parts(one, task, scale)]


def plan_classifier(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """The classifier of MNIST in whose features images are compared (reduced: of the digits).

    There is one, whatever the seeds; at scale "paper" its weights are stored with the kit.
    """
    del seeds
    made, data = (train_and_store, "mnist") if scale == "paper" else (trained, "digits")
    learning, where = LEARNINGS[data], device_named(device)
    return [
        Part(
            data,
            describe(learning),
            learning.seed,
            partial(made, data, device=where, progress=progress),
        )
    ]


PLANS = (
    {"classifier": plan_classifier}
    | {data: partial(plan, data) for data in ("mnist", "fashion_mnist", "cifar10")}
    | {data: partial(plan_table, data) for data in ("adult", "census")}
)


def _parts(method: str, task: ImageTask, scale: str) -> list[Part]:
    """A fit's accuracies, and its images' likeness to real ones."""
    chosen = METHODS[method]
    known = {
        "method": describe(chosen.settings(task)),
        "post_processing": chosen.post_processing,
        "records": task.size,
        "epsilon": task.epsilon,
        "delta": task.delta,
    }
    more = {"images": SCALES[scale].images, "protocol": describe(SCALES[scale].protocol)}
    name = part_name(run_name(method, task.epsilon, bench=task.delta != DELTA), task.seed)
    if method == "private_images":
        more["invariant_to"] = list(INVARIANT[task.data])
        if scale == "paper" and SETTLED.exists():
            more["settled_sha256"] = sha256(SETTLED.read_bytes()).hexdigest()
    scored = Part(
        name,
        known | more,
        task.seed,
        partial(_score, method, task, scale),
        prices=partial(_prices, method, task),
    )
    if method == "private_images":  # test images are read once
        return [scored]
    compared = {"images": SCALES[scale].compared, "classifier": describe(LEARNINGS[task.data])}
    likeness = Part(
        f"{name}-likeness", known | compared, task.seed, partial(_liken, method, task, scale)
    )
    return [scored, likeness._replace(after=name)]


def _score(method: str, task: ImageTask, scale: str) -> Result:
    """Fit the method, generate images of each class equally often, and train on them."""
    chosen = METHODS[method]
    made = chosen.make(task, chosen.settings(task))
    labels = np.arange(SCALES[scale].images) % CLASSES
    images, test = made(labels), datasets.load(task.data, split="test")
    if task.delta != DELTA:
        path = cache_dir() / "runs" / NAME / f"{method}-{task.key}-seed{task.seed}.gen.npz"
        save_generated(path, images, labels)
    values: Values = {}
    for name, network in NETWORKS.items():
        found = accuracy(
            network,
            (images, labels),
            (test.pixels, test.labels),
            protocol=SCALES[scale].protocol,
            seed=task.seed,
            device=device_named(task.device_name),
            progress=task.progress,
        )
        values |= {f"{name}_accuracy": found.chosen, f"{name}_epoch": found.epoch}
    pictures = np.round(images[:100].transpose(0, 2, 3, 1) * 255).astype(np.uint8)
    shown = (
        (pictures[..., 0] if pictures.shape[3] == 1 else pictures) if not task.seed else None
    )
    label = device_label(device_named(task.device_name))
    return Result(values | _prices(method, task, values), _checksums(task.data), label, shown)


def _liken(method: str, task: ImageTask, scale: str) -> Result:
    """Fit the method, and compare its images with as many real test images."""
    count, device = SCALES[scale].compared, device_named(task.device_name)
    chosen, test = METHODS[method], datasets.load(task.data, split="test")
    made = chosen.make(task, chosen.settings(task))(np.arange(count) % CLASSES)
    classifier = feature_classifier(task.data, device=device, progress=task.progress)
    images = torch.from_numpy(made).to(device) * 2 - 1
    real = classifier.features(as_images(test, device)[:count])
    features = classifier.features(images)
    among = precision_recall(real, features)
    values = {
        "classifier_fid": classifier_fid(real, features),
        "precision": among.precision,
        "recall": among.recall,
        "inception_score": classifier.score(images).mean,
        "classifier_accuracy": classifier.accuracy,
    }
    return Result(values, _checksums(task.data), device_label(device))


def _checksums(data: str) -> dict[str, str]:
    """Checksums of the files that a part reads, in whole or in part."""
    both = ("train", "test")
    return {f"{data} {split}": datasets.load(data, split=split).checksum for split in both}


def _prices(method: str, task: ImageTask, values: Values) -> Values:
    """A fit's cost, by the certified accountant."""
    chosen = METHODS[method]
    ledger = chosen.ledger(task, chosen.settings(task))
    return priced(pld.epsilon(ledger, delta=task.delta), claimed=None)


def feature_classifier(
    records: str, *, device: torch.device, progress: Progress = silent
) -> Judge:
    """The classifier of an image set: as it is stored, or trained and kept in the cache.

    With stored weights, scores come out alike on every machine.

    Args:
        records: "mnist", "fashion_mnist" or "digits".

    Raises:
        ValueError: the stored weights do not fit the record beside them.
    """
    learning, path = LEARNINGS[records], FOLDER / f"{records}.json"
    stored = read_json(path) if path.exists() else None
    if stored is None or stored["provenance"]["settings"] != describe(learning):
        return judge(learning, device=device, progress=progress)
    values, weights = stored["values"], path.with_suffix(".safetensors").read_bytes()
    if sha256(weights).hexdigest() != values["weights_sha256"]:
        raise ValueError(
            f"{path.with_suffix('.safetensors')} holds other weights than {path.name} says; check "
            "both out again, or remove both and run `dpkit reproduce comparison classifier`"
        )
    net = initial(learning, device)
    net.load_state_dict(load(weights))
    data, seconds = stored["provenance"]["data"], values["training_seconds"]
    return Judge(net.eval(), learning, values["accuracy"], data, seconds)


def trained(records: str, *, device: torch.device, progress: Progress = silent) -> Result:
    """Train the classifier, or take it from the cache; return its data and its accuracy."""
    found = judge(LEARNINGS[records], device=device, progress=progress)
    values = {"accuracy": found.accuracy, "training_seconds": found.seconds}
    return Result(values, found.checksums, device_label(device))


def train_and_store(
    records: str, *, device: torch.device, progress: Progress = silent
) -> Result:
    """As `trained`; write the weights where `feature_classifier` looks for them."""
    found = judge(LEARNINGS[records], device=device, progress=progress)
    state = {key: value.cpu().contiguous() for key, value in found.net.state_dict().items()}
    weights = save(state)
    write_bytes(FOLDER / f"{records}.safetensors", weights)
    digest = {"weights_sha256": sha256(weights).hexdigest()}
    result = trained(records, device=device, progress=progress)  # from the cache
    return result._replace(values=result.values | digest)


def save_generated(path: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    """Write generated images and labels as DPImageBench reads them, whole or not at all.

    Args:
        path: of the file, such as "gen.npz": x and y, without pickle.
        images: in [0, 1], (n, channels, height, width); stored as float32.
        labels: integers, (n,); stored as int64.

    Raises:
        ValueError: images or labels are of another form, or a value is NaN or outside [0, 1].
    """
    if images.ndim != 4 or labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
        raise ValueError(
            "images and labels must be (n, channels, height, width) and n integers, got "
            f"{images.shape} and {labels.dtype} {labels.shape}"
        )
    if not ((images >= 0) & (images <= 1)).all():  # NaN fails
        raise ValueError("images must lie in [0, 1] without NaN; divide bytes by 255")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=images.astype(np.float32), y=labels.astype(np.int64))
    return write_bytes(path, buffer.getvalue())

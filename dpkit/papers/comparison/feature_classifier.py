"""The small classifier in whose features images are compared, stored with the kit for MNIST."""

from hashlib import sha256

import torch
from safetensors.torch import load, save

from dpkit.common.files import write_bytes
from dpkit.common.progress import Progress, silent
from dpkit.common.records import describe, read_json
from dpkit.metrics.judge import SIZES, Judge, Learning, initial, judge
from dpkit.papers.experiments import store
from dpkit.papers.experiments.part import Result
from dpkit.training.device import device_label

LEARNINGS = {name: Learning(name, width=8, hidden=128, epochs=6) for name in SIZES}
FOLDER = store.folder("comparison", "classifier", scale="paper")


def feature_classifier(records: str, *, device: torch.device, progress: Progress = silent) -> Judge:
    """The classifier of an image set: as it is stored, or trained and kept in the cache.

    With stored weights, scores come out alike on every machine.

    Args:
        records: "mnist", "fashion_mnist" or "digits".

    Raises:
        ValueError: the stored weights are not those of the record beside them.
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
    """Train the classifier, or take it from the cache; what it was trained on, and its accuracy."""
    return _result(judge(LEARNINGS[records], device=device, progress=progress), device)


def train_and_store(records: str, *, device: torch.device, progress: Progress = silent) -> Result:
    """Do as `trained`, and write the weights where `feature_classifier` looks for them."""
    found = judge(LEARNINGS[records], device=device, progress=progress)
    state = {key: value.cpu().contiguous() for key, value in found.net.state_dict().items()}
    weights = save(state)
    write_bytes(FOLDER / f"{records}.safetensors", weights)
    digest = {"weights_sha256": sha256(weights).hexdigest()}
    result = _result(found, device)
    return result._replace(values=result.values | digest)


def _result(found: Judge, device: torch.device) -> Result:
    values = {"accuracy": found.accuracy, "training_seconds": found.seconds}
    return Result(values, found.checksums, device_label(device))

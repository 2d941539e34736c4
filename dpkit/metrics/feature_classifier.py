"""The small classifier in whose features images are compared, stored with the kit for MNIST."""

import torch
from safetensors.torch import load_file, save

from dpkit.experiments import store
from dpkit.experiments.part import Progress, Result, silent
from dpkit.metrics.judge import SIZES, Judge, Learning, initial, judge
from dpkit.records import describe, read_json, write_bytes
from dpkit.training.device import device_label

LEARNINGS = {name: Learning(name, width=8, hidden=128, epochs=6) for name in SIZES}
FOLDER = store.folder("comparison", "classifier", scale="paper")


def feature_classifier(records: str, *, device: torch.device, progress: Progress = silent) -> Judge:
    """The classifier of an image set: as it is stored, or trained and kept in the cache.

    With stored weights, scores come out alike on every machine.

    Args:
        records: "mnist", "fashion_mnist" or "digits".
    """
    learning, path = LEARNINGS[records], FOLDER / f"{records}.json"
    if path.exists():
        stored = read_json(path)
        known = stored["provenance"]
        if known["settings"] == describe(learning):
            net = initial(learning, device)
            net.load_state_dict(load_file(path.with_suffix(".safetensors")))
            values = stored["values"]
            return Judge(
                net.eval(), learning, values["accuracy"], known["data"], known["wall_seconds"]
            )
    return judge(learning, device=device, progress=progress)


def trained(records: str, *, device: torch.device, progress: Progress = silent) -> Result:
    """Train the classifier, or take it from the cache; what it was trained on, and its accuracy."""
    found = judge(LEARNINGS[records], device=device, progress=progress)
    return Result({"accuracy": found.accuracy}, found.checksums, device_label(device))


def train_and_store(records: str, *, device: torch.device, progress: Progress = silent) -> Result:
    """Do as `trained`, and write the weights where `feature_classifier` looks for them."""
    result = trained(records, device=device, progress=progress)
    weights = judge(LEARNINGS[records], device=device).net.state_dict()
    kept = {key: value.cpu().contiguous() for key, value in weights.items()}
    write_bytes(FOLDER / f"{records}.safetensors", save(kept))
    return result

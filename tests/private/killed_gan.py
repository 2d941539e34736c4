"""Fits a PrivateGan with a checkpoint; as a program it kills itself on the way if asked.

Arguments: the checkpoint, the budget file, and after how many steps the process ends (0: never).
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from small_networks import X, Y, gan_of

from dpkit.private import Budget, gan
from dpkit.training import Checkpoints, spent

STEPS = 12


def ended_after(steps: int, end: Callable[[], None]):
    """What watches a run, and ends it after so many steps."""

    def watched(records, **_):
        for record in records:
            yield record
            if record.step + 1 == steps:
                end()

    return watched


def fitted(checkpoint: Path, budget: Path) -> dict:
    """What was fitted, and what it cost."""
    gan = gan_of(n_critic=2, batch_size=32, reproducible_seed=5)
    kept = Checkpoints(checkpoint, every=5, reserve=8)
    gan.fit(X, Y, steps=STEPS, checkpoint=kept, budget=Budget(budget, epsilon=20, delta=1e-5))
    digest = hashlib.sha256()
    for name, tensor in sorted(gan.generator_.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return {
        "digest": digest.hexdigest(),
        "spent": spent(checkpoint),
        "runs": len(json.loads(budget.read_text())["runs"]),
    }


def main(checkpoint: Path, budget: Path, kill_after: int) -> None:
    torch.set_num_threads(1)
    gan.watched = ended_after(kill_after, lambda: os.kill(os.getpid(), signal.SIGKILL))
    sys.stdout.write(json.dumps(fitted(checkpoint, budget)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))

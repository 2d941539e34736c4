"""One training run of a paper: trained, resumed, kept in the cache, and timed beforehand."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import time
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from dpkit.common.files import cache_dir
from dpkit.common.progress import Progress, silent
from dpkit.common.records import describe, read_json, write_bytes, write_json
from dpkit.papers.experiments.store import Part, Result, Values, part_name
from dpkit.training import Checkpoints, train
from dpkit.training.device import device_label, device_named, generator_on
from dpkit.training.types import Data, Model, R, TrainingSettings

CPU = torch.device("cpu")
GO = uuid4().hex  # this process


class Run(NamedTuple):
    """A model trained with one seed: its settings, device and files.

    paper: package that names its folder of the cache.
    key: its name in the table.
    settings: the paper's. They and `also` decide whether two runs are the same.
    size: declared number of private records.
    scale, records: further parts of its files' names.
    device_name: auto, cpu or cuda.
    progress: wraps its records, as tqdm does.
    every: steps between two checkpoints; None stores none. With checkpoints a run draws other
        batches and noise from its seed (see `Checkpoints`): only with `every` as it was, None or
        not, is a stored result repeated.
    also: further settings, as JSON values.
    """

    paper: str
    key: str
    settings: Any
    seed: int
    size: int
    scale: str = ""
    records: str = ""
    device_name: str = "auto"
    progress: Progress = silent
    every: int | None = None
    also: Mapping[str, Any] = MappingProxyType({})

    @property
    def device(self) -> torch.device:
        """The run's device."""
        return device_named(self.device_name)

    @property
    def tf32(self) -> bool:
        """Whether it trains in TF32: where `device.precision` around it says so."""
        return torch.backends.cuda.matmul.fp32_precision == "tf32"  # pyright: ignore

    @property
    def steps(self) -> int:
        """Steps within the settings' budget."""
        return _steps_allowed(self.settings, public_size=self.size)

    @property
    def weights(self) -> Path:
        """Path of the released network, as safetensors."""
        return self.file("safetensors")

    def checkpoint(self, what: str = "checkpoint") -> Path:
        """Path of an unfinished run's checkpoint. PRIVATE, as the data are (see `Checkpoints`)."""
        return self.file("run") / what

    def file(self, what: str) -> Path:
        """A path in the cache that no run with other settings, or precision, has."""
        known = self._described() | ({"tf32": True} if self.tf32 else {})
        digest = sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]
        words = (self.scale, self.records, part_name(self.key, self.seed), digest)
        return cache_dir() / "runs" / self.paper / f"{'-'.join(filter(None, words))}.{what}"

    def part(
        self,
        compute: Callable[[], Result],
        *,
        what: str = "",
        prices: Callable[[Values], Values] | None = None,
        **more: Any,
    ) -> Part:
        """A part of a table, named after the run; `more` are settings of the part alone."""
        name = part_name(self.key, self.seed, what)
        return Part(name, self._described() | more, self.seed, compute, prices)

    def result(
        self, values: Values, data: dict[str, str], images: np.ndarray | None = None
    ) -> Result:
        """The measurements, with the run's device, and the seconds of earlier goes at it."""
        earlier = 0.0 if self.every is None else self._earlier()
        self.file("goes.json").unlink(missing_ok=True)
        return Result(values, data, device_label(self.device), images, earlier)

    def rng(
        self, stream: str = "training", *, device: torch.device | None = None
    ) -> torch.Generator:
        """A fresh source of randomness for one purpose, on the run's device by default."""
        on = self.device if device is None else device
        return generator_on(on, reproducible_seed=self.seed, stream=stream)

    def place(self, what: str = "checkpoint") -> Checkpoints | None:
        """The run's checkpoints, None for none; from now on this process is at work on it."""
        if self.every is None:
            return None
        self._earlier()
        return Checkpoints(self.checkpoint(what), every=self.every)

    def _earlier(self) -> float:
        """Seconds of earlier processes' work, each up to the last file that it stored."""
        path = self.file("goes.json")
        goes = read_json(path) if path.exists() else {"by": None, "begun": 0.0, "earlier": 0.0}
        if goes["by"] != GO:
            stored = [file.stat().st_mtime for file in self.file("run").glob("*")]
            spent = max([0.0, *(at - goes["begun"] for at in stored if goes["by"])])
            goes = {"by": GO, "begun": time(), "earlier": goes["earlier"] + spent}
            write_json(path, goes)
        return goes["earlier"]

    def train(
        self,
        step: Callable[..., R],
        gan: Model,
        data: Data,
        *,
        settings: Any = None,
        steps: int | None = None,
    ) -> Iterator[R]:
        """Train `gan`, from where an interrupted run stopped: a record a step, as `loop.train`.

        Args:
            step, gan, data: of the paper's algorithm, on the run's device.
            settings: of the training, where the records' form changes the run's own.
            steps: fewer than the budget allows.
        """
        return train(
            step,
            gan,
            data,
            settings=self.settings if settings is None else settings,
            rng=self.rng(),
            steps=steps,
            checkpoint=self.place(),
            tf32=self.tf32,
        )

    def shown(self, records: Iterable[Any], *, total: int, what: str = "") -> Iterable[Any]:
        """The records, with their progress."""
        return self.progress(records, total=total, desc=f"{self.key} seed {self.seed}{what}")

    def finish(self, records: Iterable[Any], *, total: int, what: str = "") -> None:
        """Run through all records, with their progress."""
        for _ in self.shown(records, total=total, what=what):
            pass

    def keep(self, net: nn.Module) -> None:
        """Store the released network; scores and samples are made of it again."""
        write_bytes(self.weights, save(net.state_dict()))

    def load(self, net: nn.Module) -> nn.Module:
        """Give `net` the stored weights, in evaluation mode."""
        net.load_state_dict(load_file(self.weights))
        return net.eval()

    def forget(self) -> None:
        """Remove a finished run's checkpoints, whose readers could remove the noise."""
        begun, done = self.file("run"), self.file("done")
        if begun.exists():
            shutil.rmtree(done, ignore_errors=True)
            begun.rename(done)  # at once: never a measured curve without its checkpoint
            shutil.rmtree(done)

    def _described(self) -> Values:
        return describe(self.settings) | dict(self.also)


@cache
def _steps_allowed(settings: TrainingSettings, *, public_size: int) -> int:
    """The settings' own, computed once: an accountant may take seconds for it."""
    return settings.steps_allowed(public_size=public_size)


def as_bytes(images: Tensor, *, low: float = -1.0) -> np.ndarray:
    """Convert images between `low` and 1 to bytes: uint8 (images, height, width)."""
    return ((images - low) * (255 / (1 - low))).round().byte().cpu().numpy()

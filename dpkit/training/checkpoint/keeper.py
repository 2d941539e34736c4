"""Training that goes on after a crash with the same batches and noise: each step charged once."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import shake_256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpkit.common import checks
from dpkit.training import ranks
from dpkit.training.checkpoint.file import Saved, restored, write_saved
from dpkit.training.checkpoint.fingerprint import fingerprint, state_of
from dpkit.training.checkpoint.follower import Follower, replayed
from dpkit.training.checkpoint.guards import RNG, check_untouched, global_draws_follow, present
from dpkit.training.checkpoint.ledger import (
    Charged,
    check_alone,
    locked,
    mark,
    read_charged,
    rows_of,
    write_charged,
)
from dpkit.training.device import WORDS, filled
from dpkit.training.types import Data, Model


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often training is stored, so that it goes on after a crash.

    The checkpoint is PRIVATE, as the data are: it holds the raw state of the generator of all
    noise, and with it anybody takes the noise off again. Its file is its owner's alone (mode 0600).
    Beside it lie `<name>.ledger.json`, which counts the charged steps (see `spent`; where the
    settings have a `ledger(public_size=, steps=)` of Gaussian steps, `python -m dpkit epsilon
    --ledger` prices it), and
    `<name>.lock`, which says that a run began there, and how many steps were charged: without its
    ledger none begins again, and an older copy of the ledger is refused. Never delete the lock of a
    run at work. Older copies of all three files put back together are not noticed.

    Charges are on disk before the steps run, `reserve` of them at once. Training that goes on
    repeats what a crash lost with the same batches and noise: the same releases, charged once. It
    does so to the bit, so everything that the steps depend on must be the same (`fingerprint`:
    settings, data, step, networks, device, version of torch, number of threads); the rng that is
    passed takes the stored state, whatever its seed. Where anything differs, or the checkpoint is
    lost, training refuses to go on. Torch's global generators (dropout) are seeded from the rng and
    the step's index within each step; draws from Python's or numpy's are not repeated. Between two
    steps nobody else uses the rng, or changes the networks, the optimisers (of these, the settings
    and the tensors' sums are checked) or the data (not checked).

    The step is a function of a module, a partial of one, or a frozen dataclass with __call__;
    what it and the settings hold can be pickled, and does not change. Of the step's code, what it
    does itself is compared (the source of its module; in a notebook, its own), not what it calls,
    and of networks what they print and their tensors' shapes, not their code. A helper, a layer or
    a class of settings that changes elsewhere is not seen: use a new seed then, or two different
    releases share their noise.

    A run that begins draws its batches and noise from its seed together with its fingerprint and
    its initial weights: the same seed is the same release where all is the same, and other noise
    where anything differs. (So it differs from a run without a checkpoint, too.)

    Args:
        path: the checkpoint's file; one path for each training run. Its folder is made.
        every: steps between two checkpoints. One is also written before the first step, at the end,
            and when the records' iterator is closed.
        reserve: steps that are charged at once, ahead.

    Raises:
        ValueError: every or reserve is not an integer >= 1.
    """

    path: Path | str
    every: int = 100
    reserve: int = 64

    def __post_init__(self) -> None:
        checks.whole(1, every=self.every, reserve=self.reserve)


class Keeper:
    """One run and its files: charges each step, stores what it did, knows how many remain."""

    def __init__(
        self,
        place: Checkpoints,
        gan: Model,
        rng: torch.Generator,
        *,
        words: dict[str, str],
        steps: int,
        lock: int,
        rows: Callable[..., list[dict[str, Any]] | None],
    ) -> None:
        """Go on from the files, or start; afterwards all of them lie there and agree."""
        self.step, self.steps = 0, steps
        self._place, self._path, self._gan, self._rng = place, Path(place.path), gan, rng
        self._words, self._lock = words, lock  # the fingerprint; an open file
        self._rows = rows  # what a number of steps releases
        self._stored = -1  # step of the checkpoint on disk
        self._process = os.getpid()
        self._whole = True  # False within a step, whose half cannot be stored
        charged = read_charged(self._path)
        self._charged = Charged(os.urandom(16).hex()) if charged is None else charged
        if self._charged.steps or self._path.exists():
            self._restore()
        else:
            self._draw_anew()
        self._floor = self._charged.steps  # a process before this one may have come so far
        if charged is None:
            write_charged(self._path, self._charged, lock=lock, rows=rows(steps=0))
        mark(lock, self._charged)
        self._left = present(gan, rng)
        if self._stored < 0:
            self._store()

    @property
    def position(self) -> tuple[int, Tensor, int]:
        """The step to be done, and where its batch is drawn: what a `Follower` needs."""
        return self.step, self._drawn_from, self._drawn

    def _restore(self) -> None:
        saved = restored(self._path, self._words, self._charged)
        if not saved.step <= self.steps:
            raise ValueError(
                f"steps must be at least the {saved.step} that the checkpoint has done, got "
                f"{self.steps}; give another path for a shorter run"
            )
        for name, state in saved.gan.items():
            getattr(self._gan, name).load_state_dict(state)
        self._rng.set_state(saved.rng)
        self._drawn_from, self._drawn = saved.drawn_from, saved.drawn
        self.step = self._stored = saved.step

    def _draw_anew(self) -> None:
        """Seed the rng from everything that identifies the run: no other draws the same noise."""
        seed = shake_256(self._rng.get_state().numpy().tobytes())
        seed.update(repr(sorted(self._words.items())).encode() + state_of(self._gan).encode())
        filled(self._rng, seed.digest(4 * WORDS))
        self._drawn_from, self._drawn = self._rng.get_state(), 0

    def replayed(self, draws: Iterator[Tensor]) -> Iterator[Tensor]:
        """Bring a new drawer of batches to where the stored one was; the rng stays in place."""
        return replayed(draws, self._rng, self._drawn_from, self._drawn)

    def draw(self, draws: Iterator[Tensor]) -> Tensor:
        """The next batch. A draw that leaves the rng alone took it from an earlier permutation."""
        before = self._rng.get_state()
        chosen = next(draws)
        if torch.equal(before, self._rng.get_state()):
            self._drawn += 1
        else:
            self._drawn_from, self._drawn = before, 1
        return chosen

    @contextmanager
    def one_step(self) -> Iterator[None]:
        """Charge a step on disk before the block; count it after, and store it at its turn."""
        self._check_process()
        self._whole = False  # nothing is stored of what a caller changed, nor of half a step
        check_untouched(self._left, present(self._gan, self._rng))
        if self.step >= self._charged.steps:
            self._charge(min(self.step + self._place.reserve, self.steps))
        with global_draws_follow(self._rng, self.step):
            yield
        self._check_process()
        self._left = present(self._gan, self._rng)
        self.step += 1
        self._whole = True
        if self.step % self._place.every == 0:
            self._store()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("a forked process cannot continue its parent's run; start a new one")

    def close(self) -> None:
        """Store the last whole step. What this run reserved and did not need is given back."""
        if not self._whole or os.getpid() != self._process:  # a fork's copy has nothing to store
            return
        if self._stored != self.step:
            self._store()
        needed = max(self.step, self._floor)
        if needed < self._charged.steps:
            self._charge(needed)

    def _charge(self, steps: int) -> None:
        check_alone(self._path, self._charged, lock=self._lock)
        charged = self._charged._replace(steps=steps)
        write_charged(self._path, charged, lock=self._lock, rows=self._rows(steps=steps))
        self._charged = charged

    def _store(self) -> None:
        check_alone(self._path, self._charged, lock=self._lock)
        saved = Saved(
            fingerprint=self._words,
            identity=self._charged.identity,
            step=self.step,
            gan={name: getattr(self._gan, name).state_dict() for name in self._gan._fields},
            rng=self._left[RNG],
            drawn_from=self._drawn_from,
            drawn=self._drawn,
        )
        write_saved(self._path, saved)
        self._stored = self.step


@contextmanager
def kept(
    place: Checkpoints,
    gan: Model,
    data: Data,
    *,
    step: Any,
    settings: Any,
    rng: torch.Generator,
    steps: int,
    tf32: bool,
) -> Iterator[Keeper | Follower]:
    """The run at `place`, brought into `gan` and `rng`; stored and unlocked when the block ends.

    Of several ranks (`ranks`), the first alone reads and writes the files.

    Raises:
        ValueError: the files are of another run, damaged or lost, or have done more than `steps`.
        RuntimeError: another run is at work there, or its lock or ledger was changed meanwhile.
    """
    rank, world = ranks.here()
    if rank:
        step_, drawn_from, drawn = ranks.take_states(gan, rng)
        yield Follower(rng, step=step_, steps=steps, drawn_from=drawn_from, drawn=drawn)
        return
    words = fingerprint(gan, data, step=step, settings=settings, rng=rng, tf32=tf32)
    if world > 1:
        words["ranks"] = str(world)  # which round sums otherwise
    rows = partial(rows_of, settings, public_size=data.public_size)
    with locked(Path(place.path)) as lock:
        keeper = Keeper(place, gan, rng, words=words, steps=steps, lock=lock, rows=rows)
        try:
            if world > 1:
                ranks.take_states(gan, rng, keeper.position)
            yield keeper
        finally:
            keeper.close()

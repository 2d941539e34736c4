"""Training that goes on after a crash with the same batches and noise: each step charged once."""

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpkit import checks
from dpkit.training.reservation import Charged, locked, read_charged, spent, write_charged
from dpkit.training.saved import (
    CannotRestore,
    Saved,
    check_same,
    checksum,
    describe_gan,
    describe_settings,
    made_with,
    read_saved,
    write_saved,
)

if TYPE_CHECKING:
    from dpkit.training.loop import Data, Gan

__all__ = [
    "AFTER_LOSS",
    "Checkpoints",
    "Keeper",
    "interrupts_wait",
    "kept",
    "spent",
    "steps_to_run",
]

AFTER_LOSS = ("stop", "charge again")


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often training is stored, so that it goes on after a crash.

    The checkpoint is PRIVATE, as the data are: it holds the raw state of the generator of all
    noise, and with it anybody takes the noise off again. Its file is its owner's alone (mode 0600).
    Beside it lie `<name>.ledger.json`, what is charged (see `spent`), and `<name>.lock`.

    Charges are on disk before the steps run, `reserve` of them at once. Training that goes on
    repeats what a crash lost with the same batches and noise: the same releases, charged once. It
    does so to the bit on one device, with the same code, version of torch and number of threads;
    the rng that is passed takes the stored state, whatever its seed. What draws from torch's global
    generator (dropout) is not repeated. One process at a time trains at a path.

    Where the checkpoint is lost, or is of another device or version of torch, whose noise is not
    the same, training refuses to go on. With after_loss="charge again" it does: from the stored
    weights if they can be read, from those passed if not, with noise of its own. What was reserved
    stays charged, the steps now run are charged on top, and the budget counts both.

    Args:
        path: the checkpoint's file; one path for each training run. Its folder is made.
        every: steps between two checkpoints. One is also written before the first step, at the end,
            when the records' iterator is closed, and on an interrupt (which waits for its step).
        reserve: steps that are charged at once, ahead.
        after_loss: "stop" (an error) or "charge again".

    Raises:
        ValueError: every or reserve is not an integer >= 1, or after_loss is another word.
    """

    path: Path | str
    every: int = 100
    reserve: int = 64
    after_loss: str = "stop"

    def __post_init__(self) -> None:
        checks.whole(1, every=self.every, reserve=self.reserve)
        checks.one_of(AFTER_LOSS, after_loss=self.after_loss)


class Keeper:
    """One run and its files: says which steps remain, charges each, stores what it did."""

    def __init__(
        self, place: Checkpoints, gan: "Gan", rng: torch.Generator, *,
        of: dict[str, str], priced: dict[str, str],
    ) -> None:  # fmt: skip
        self.step, self.steps = 0, 0
        self._place, self._path, self._gan, self._rng = place, Path(place.path), gan, rng
        self._of, self._priced = of, priced
        self._drawn_from, self._drawn = rng.get_state(), 0
        self._stored = -1  # step of the checkpoint on disk
        self._process = os.getpid()
        self._whole = True  # False within a step, whose half cannot be stored

    def begin(self, steps: int | None, allowed: int) -> None:
        """Go on from the files, or start; afterwards both files lie there and agree."""
        charged = read_charged(self._path, self._priced)
        found = Charged() if charged is None else charged
        saved, problem = None, None
        try:
            saved = read_saved(self._path)
            source = made_with(self._rng)
            check_same(self._path, saved, of=self._of, made_with=source, charged=found)
        except CannotRestore as error:
            problem = error
        if found.total == 0 and not self._path.exists():
            problem = None  # nothing was run yet
        if problem is not None:
            if self._place.after_loss == "stop":
                raise ValueError(
                    f"{problem}. Steps charged here: {found.total}. Restore what is missing, or "
                    "pass after_loss='charge again': they stay charged and new ones come on top"
                ) from problem
            start = 0 if saved is None else saved.step
            if not found.total < allowed:
                raise ValueError(
                    f"{problem}, and all of the {allowed} steps that the settings' budget allows "
                    f"are charged ({found.total}): none is left to run again"
                )
            found = Charged(found.run + 1, found.total - start, start)
        self.step = 0 if saved is None else saved.step
        self.steps = steps_to_run(steps, allowed=allowed, done=self.step, earlier=found.earlier)

        if saved is not None:
            for name, state in saved.gan.items():
                getattr(self._gan, name).load_state_dict(state)
        if problem is not None:
            self._charge_again(found, problem, readable=saved is not None)
        elif saved is not None:
            self._rng.set_state(saved.rng)
            self._drawn_from, self._drawn, self._stored = saved.drawn_from, saved.drawn, saved.step
        self._charged, self._floor = found, found.reserved
        if charged != found:
            write_charged(self._path, found, self._priced)
        if self._stored < 0:
            self._store()

    def _charge_again(self, found: Charged, problem: CannotRestore, *, readable: bool) -> None:
        """Noise of its own, whatever the seed; a file that cannot be read is kept aside."""
        warnings.warn(
            f"{problem}. {found.total} steps stay charged; the {self.steps - self.step} that "
            "follow are charged on top",
            stacklevel=6,
        )
        lost = self._rng.get_state().numpy().tobytes() + str(found.run).encode()
        self._rng.manual_seed(int.from_bytes(sha256(lost).digest()[:8], "big") >> 1)
        self._drawn_from = self._rng.get_state()
        if not readable and self._path.exists():
            os.replace(self._path, self._path.with_name(f"{self._path.name}.lost{found.run}"))

    def replayed(self, draws: Iterator[Tensor]) -> Iterator[Tensor]:
        """A new drawer of batches, brought to where the stored one was; the rng stays in place."""
        now = self._rng.get_state()
        self._rng.set_state(self._drawn_from)
        for _ in range(self._drawn):
            next(draws)
        self._rng.set_state(now)
        return draws

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
        """Around a step: it is charged on disk before, and counts and is stored after."""
        if os.getpid() != self._process:
            raise RuntimeError("a forked process cannot go on with its parent's run; start it anew")
        if self.step >= self._charged.reserved:
            end = min(self.step + self._place.reserve, self.steps)
            self._charge(self._charged._replace(reserved=end))
        self._whole = False
        with interrupts_wait():
            yield
            self.step += 1
            self._whole = True
        if self.step % self._place.every == 0:
            self._store()

    def close(self) -> None:
        """Store the last whole step. What this run reserved and did not need is given back."""
        if not self._whole or os.getpid() != self._process:  # a fork's copy has nothing to store
            return
        if self._stored != self.step:
            self._store()
        needed = max(self.step, self._floor)  # a process before this one may have come further
        if needed < self._charged.reserved:
            self._charge(self._charged._replace(reserved=needed))

    def _charge(self, charged: Charged) -> None:
        write_charged(self._path, charged, self._priced)
        self._charged = charged

    def _store(self) -> None:
        saved = Saved(
            of=self._of, made_with=made_with(self._rng), run=self._charged.run,
            earlier=self._charged.earlier, step=self.step,
            gan={name: getattr(self._gan, name).state_dict() for name in self._gan._fields},
            rng=self._rng.get_state(), drawn_from=self._drawn_from, drawn=self._drawn,
        )  # fmt: skip
        write_saved(self._path, saved)
        self._stored = self.step


@contextmanager
def kept(
    place: Checkpoints, gan: "Gan", data: "Data", *, step: Any, settings: Any,
    rng: torch.Generator, steps: int | None, allowed: int,
) -> Iterator[Keeper]:  # fmt: skip
    """The run at `place`, brought into `gan` and `rng`; stored and unlocked when the block ends.

    Raises:
        ValueError: the files are of another run, damaged or lost, or the budget is short.
        RuntimeError: another run is at work there.
    """
    priced = {**describe_settings(settings), "public_size": str(data.public_size)}
    of = {**priced, **describe_gan(gan), "step": getattr(step, "__qualname__", type(step).__name__)}
    of["data"] = checksum(data)
    with locked(Path(place.path)):
        keeper = Keeper(place, gan, rng, of=of, priced=priced)
        keeper.begin(steps, allowed)
        try:
            yield keeper
        finally:
            keeper.close()


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """An interrupt (Ctrl-C) within the block takes effect at its end; a second one at once."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if waiting:
            usual(number, frame)
        waiting.append(number)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if waiting:
        usual(signal.SIGINT, None)


def steps_to_run(steps: int | None, *, allowed: int, done: int = 0, earlier: int = 0) -> int:
    """How many steps the run is to have in all."""
    left = allowed - earlier
    if steps is None:
        steps = left
    if not 0 <= steps <= left:
        charged = f" beside the {earlier} charged to what was lost" if earlier else ""
        raise ValueError(
            f"steps must be between 0 and the {left} that the settings' budget allows{charged}, "
            f"got {steps}; raise the target epsilon or the noise"
        )
    if steps < done:
        raise ValueError(
            f"steps must be at least the {done} that the checkpoint has done, got {steps}; "
            "give another path for a shorter run"
        )
    return steps

"""Training that goes on after a crash with the same batches and noise: each step charged once."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from dpkit import checks
from dpkit.training.budget import allowed_after, steps_to_run
from dpkit.training.identity import (
    checksum,
    describe_arithmetic,
    describe_gan,
    describe_settings,
    describe_step,
    state_of,
)
from dpkit.training.reservation import (
    Charged,
    charged_steps,
    locked,
    mark_begun,
    read_charged,
    spent,
    write_charged,
)
from dpkit.training.saved import CannotRestore, Saved, check_same, read_saved, write_saved
from dpkit.training.stepping import check_untouched, global_draws_follow, interrupts_wait, present
from dpkit.training.types import Data, Gan

__all__ = ["AFTER_LOSS", "Checkpoints", "Keeper", "charged_steps", "kept", "spent"]

AFTER_LOSS = ("stop", "charge again")


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often training is stored, so that it goes on after a crash.

    The checkpoint is PRIVATE, as the data are: it holds the raw state of the generator of all
    noise, and with it anybody takes the noise off again. Its file is its owner's alone (mode 0600).
    Beside it lie `<name>.ledger.json`, what is charged (see `spent` and `charged_steps`), and
    `<name>.lock`, which says that a run began there: without its ledger none begins again.

    Charges are on disk before the steps run, `reserve` of them at once. Training that goes on
    repeats what a crash lost with the same batches and noise: the same releases, charged once. It
    does so to the bit on one device, with the same code, version of torch, number of threads and
    tf32; the rng that is passed takes the stored state, whatever its seed. Torch's global
    generators (dropout) are seeded from it within each step. One process at a time trains at a
    path, and between two steps nobody else uses the rng or changes the networks.

    What another process must be able to compare is stored: settings, data, the step and what is
    bound to it, networks. The step is a function of a module, a partial of one, or a frozen
    dataclass with __call__; of its code what it does itself is compared, not what it calls. What
    draws from Python's or numpy's global generators is not repeated.

    A run that begins draws its batches and noise from its seed together with all of that and with
    the initial weights: the same seed is the same release where all is the same, and has noise of
    its own where anything differs. (So it differs from a run without a checkpoint, too.)

    Where the checkpoint is lost, or its steps cannot be repeated (another device, version of torch,
    number of threads), training refuses to go on. With after_loss="charge again" it does: from the
    stored weights if they can be read, from those passed if not, with fresh noise that no seed
    repeats. What was reserved stays charged, the steps now run are charged on top, and the budget
    counts both; settings whose steps cost differently must be able to price that (`allowed_after`).

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


class _Limit(Protocol):
    """How many steps a run from `start` may have, with those in `charged` on top."""

    def __call__(self, *, charged: list[range], start: int) -> int: ...


class Keeper:
    """One run and its files: says which steps remain, charges each, stores what it did."""

    def __init__(
        self, place: Checkpoints, gan: Gan, rng: torch.Generator, *,
        of: dict[str, str], priced: dict[str, str], made_with: dict[str, str],
    ) -> None:  # fmt: skip
        self.step, self.steps = 0, 0
        self._place, self._path, self._gan, self._rng = place, Path(place.path), gan, rng
        self._of, self._priced, self._made_with = of, priced, made_with
        self._stored = -1  # step of the checkpoint on disk
        self._process = os.getpid()
        self._whole = True  # False within a step, whose half cannot be stored
        self._drawn = 0

    def begin(self, steps: int | None, limit: _Limit) -> None:
        """Go on from the files, or start; afterwards all of them lie there and agree."""
        charged = read_charged(self._path, self._priced)
        found = Charged(os.urandom(16).hex()) if charged is None else charged
        saved, problem = None, None
        try:
            saved = read_saved(self._path)
            check_same(self._path, saved, of=self._of, made_with=self._made_with, charged=found)
        except CannotRestore as error:
            problem = error
        if found.total == 0 and not self._path.exists():
            problem = None  # nothing was run yet
        self.step = 0 if saved is None else saved.step
        if problem is not None:
            found = self._lost(found, problem, limit)
        earlier = found.steps[:-1]
        allowed = limit(charged=earlier, start=found.start)
        before = sum(map(len, earlier))
        self.steps = steps_to_run(steps, allowed=allowed, done=self.step, charged=before)

        if saved is not None:
            for name, state in saved.gan.items():
                getattr(self._gan, name).load_state_dict(state)
        if saved is not None and problem is None:
            self._rng.set_state(saved.rng)
            self._drawn_from, self._drawn, self._stored = saved.drawn_from, saved.drawn, saved.step
        else:
            self._draw_anew(b"" if problem is None else os.urandom(32))
        if problem is not None:
            self._warn(found, problem, readable=saved is not None)
        self._charged, self._floor = found, found.reserved
        if charged != found:
            write_charged(self._path, found, self._priced)
        mark_begun(self._path, found)
        self._left = present(self._gan, self._rng)
        if self._stored < 0:
            self._store()

    def _lost(self, found: Charged, problem: CannotRestore, limit: _Limit) -> Charged:
        """The charges, with a run of its own for the steps that are charged again."""
        if self._place.after_loss == "stop":
            raise ValueError(
                f"{problem}. Steps charged here: {found.total}. Restore what is missing, or "
                "pass after_loss='charge again': they stay charged and new ones come on top"
            ) from problem
        again = found.again(self.step)
        if not limit(charged=again.steps[:-1], start=self.step) > self.step:
            raise ValueError(
                f"{problem}, and all of the steps that the settings' budget allows are charged "
                f"({found.total}): none is left to run again"
            )
        return again

    def _draw_anew(self, fresh: bytes) -> None:
        """Batches and noise that no run with anything else has, whatever it shares of the seed."""
        own = sha256(fresh + self._rng.get_state().numpy().tobytes())
        own.update(repr((sorted(self._of.items()), sorted(self._made_with.items()))).encode())
        own.update(state_of(self._gan).encode())
        self._rng.manual_seed(int.from_bytes(own.digest()[:8], "big") >> 1)
        self._drawn_from = self._rng.get_state()

    def _warn(self, found: Charged, problem: CannotRestore, *, readable: bool) -> None:
        """Say what is charged again; a file that cannot be read is kept aside."""
        warnings.warn(
            f"{problem}. {found.total} steps stay charged; the {self.steps - self.step} that "
            "follow are charged on top",
            stacklevel=6,
        )
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
        self._whole = False  # nothing is stored of what a caller changed, nor of half a step
        check_untouched(self._left, present(self._gan, self._rng))
        self._whole = True
        if self.step >= self._charged.reserved:
            self._charge(self._charged.up_to(min(self.step + self._place.reserve, self.steps)))
        self._whole = False
        with interrupts_wait():
            with global_draws_follow(self._rng):
                yield
            self.step += 1
            self._left = present(self._gan, self._rng)
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
            self._charge(self._charged.up_to(needed))

    def _charge(self, charged: Charged) -> None:
        write_charged(self._path, charged, self._priced)
        self._charged = charged

    def _store(self) -> None:
        saved = Saved(
            of=self._of, made_with=self._made_with, identity=self._charged.identity,
            run=self._charged.run, step=self.step,
            gan={name: getattr(self._gan, name).state_dict() for name in self._gan._fields},
            rng=self._left[0], drawn_from=self._drawn_from, drawn=self._drawn,
        )  # fmt: skip
        write_saved(self._path, saved)
        self._stored = self.step


@contextmanager
def kept(
    place: Checkpoints, gan: Gan, data: Data, *, step: Any, settings: Any,
    rng: torch.Generator, steps: int | None, allowed: int, tf32: bool,
) -> Iterator[Keeper]:  # fmt: skip
    """The run at `place`, brought into `gan` and `rng`; stored and unlocked when the block ends.

    Raises:
        ValueError: the files are of another run, damaged or lost, or the budget is short.
        RuntimeError: another run is at work there.
    """
    codes: list[str] = []
    size = data.public_size
    priced = {**describe_settings(settings), "public_size": str(size)}
    of = {**priced, "step": describe_step(step, codes), **describe_gan(gan, codes)}
    of["data"] = checksum(data)
    made_with = describe_arithmetic(rng, tf32=tf32, codes=codes)
    limit = partial(allowed_after, settings, allowed=allowed, public_size=size)
    with locked(Path(place.path)):
        keeper = Keeper(place, gan, rng, of=of, priced=priced, made_with=made_with)
        keeper.begin(steps, limit)
        try:
            yield keeper
        finally:
            keeper.close()

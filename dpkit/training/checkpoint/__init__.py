"""Checkpoints: training that resumes after a crash, each step charged once.

A checkpoint's file is written whole, and refused where it is damaged or of another run. Around each
step guards see that networks were left alone and that draws repeat.
"""

import inspect
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from hashlib import sha256, shake_256
from pathlib import Path
from pickle import Pickler, PicklingError
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from dpkit.common import __version__, checks
from dpkit.common.files import write_bytes
from dpkit.training.checkpoint import ledger
from dpkit.training.checkpoint.ledger import Charged, spent
from dpkit.training.device import (
    WORDS,
    device_label,
    draws_put_back,
    filled,
    same_sums,
    sums_of,
)
from dpkit.training.types import Data, Model

__all__ = [
    "Checkpoints",
    "Keeper",
    "Saved",
    "described",
    "digest",
    "fingerprint",
    "kept",
    "read_saved",
    "spent",
]

_HEADER = (
    b"dpkit checkpoint 4. PRIVATE: the state of the random generator in it reveals the noise that "
    b"protects the data; do not release it. sha256 "
)
RNG = "the rng"  # the name of its state in `_present`


@dataclass(frozen=True)
class Checkpoints:
    """The place and interval of storing a run, to resume it after a crash.

    The checkpoint is PRIVATE, as the data are: it holds the state of the generator of all noise,
    with which anybody can remove the noise. Its file is its owner's alone (mode 0600).
    Beside it lie `<name>.ledger.json`, which counts the charged steps (see `spent`; where the
    settings have a `ledger(public_size=, steps=)` of Gaussian steps, `python -m dpkit epsilon
    --ledger` prices it), and
    `<name>.lock`, which says that a run began there, and how many steps were charged: without its
    ledger none begins again, and an older copy of the ledger is refused. Never delete the lock of a
    run at work. Older copies of all three files put back together are not noticed.

    Charges are on disk before the steps run, `reserve` of them at once. A resumed run repeats what
    a crash lost with the same batches and noise: the same releases, charged once. On a CPU it does
    so bit for bit. Everything that the steps depend on must be the same (`fingerprint`:
    settings, data, step, networks, device, version of torch, number of threads); the rng that is
    passed takes the stored state, whatever its seed. Where anything differs, or the checkpoint is
    lost, training refuses to resume.

    On a GPU sums differ in their last digits, unless `torch.use_deterministic_algorithms(True)` is
    called before each process's first step. Training amplifies them: two versions of a lost step
    share their noise, and their difference shows the records. One charge does not cover both: do
    not release weights, or images, that a process made after its last checkpoint before a crash.

    Torch's global generators (dropout) are seeded from rng and the step's index within each step;
    draws from Python's or numpy's are not repeated. Between two steps nobody else uses the rng, or
    changes the networks, the optimisers (of these, the settings and the tensors' sums are checked)
    or the data (not checked).

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


class Saved(NamedTuple):
    """The content of a checkpoint. It is private: `rng` lets anybody remove the noise."""

    fingerprint: dict[str, str]
    identity: str  # the ledger's
    step: int  # steps done
    gan: dict[str, Any]  # the state of each network and optimiser
    rng: Tensor
    drawn_from: Tensor  # the rng's state before the last draw of a batch that advanced it
    drawn: int  # batches drawn since, with that one: the place in a shuffled epoch


def read_saved(path: Path) -> Saved:
    """Read a checkpoint, its tensors on the CPU; no code in it is run.

    Raises:
        ValueError: it is missing, damaged, or holds more than tensors and plain values.
    """
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"the checkpoint {path} is gone") from None
    header, _, content = whole.partition(b"\n")
    if header != _HEADER + sha256(content).hexdigest().encode():
        raise ValueError(
            f"the checkpoint {path} is damaged or of another version of dpkit (its header and "
            "checksum differ)"
        )
    try:
        return Saved(**torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    except Exception as error:  # torch names no class for its reader's errors
        raise ValueError(f"the checkpoint {path} cannot be read: {error}") from error


@contextmanager
def _globals_seeded(rng: torch.Generator, step: int) -> Iterator[None]:
    """Seed torch's global generators (dropout) for a step; they are put back after the block.

    Also by the step's index, as a step that draws nothing from rng leaves its state to the next.
    """
    digest = sha256(b"global draws of step %d" % step)
    digest.update(rng.get_state().numpy().tobytes())
    seed, device = int.from_bytes(digest.digest()[:8], "big") >> 1, rng.device
    with draws_put_back(device):
        torch.default_generator.manual_seed(seed)
        if device.type != "cpu":
            module = torch.get_device_module(device)
            module.default_generators[device.index or 0].manual_seed(seed)
        yield


class Keeper:
    """One run and its files: charges each step, stores it, knows how many remain."""

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
        """Resume from the files, or start; afterwards all are there and agree."""
        self.step, self.steps = 0, steps
        self._place, self._path, self._gan, self._rng = place, Path(place.path), gan, rng
        self._words, self._lock = words, lock  # the fingerprint; an open file
        self._rows = rows  # what a number of steps releases
        self._stored = -1  # step of the checkpoint on disk
        self._process = os.getpid()
        self._whole = True  # False within a step, whose half cannot be stored
        charged = ledger.read_charged(self._path)
        self._charged = Charged(os.urandom(16).hex()) if charged is None else charged
        if self._charged.steps or self._path.exists():
            self._restore()
        else:
            self._draw_anew()
        self._floor = self._charged.steps  # a process before this one may have come so far
        if charged is None:
            ledger.write_charged(self._path, self._charged, lock=lock, rows=rows(steps=0))
        ledger.mark(lock, self._charged)
        self._left = _present(gan, rng)
        if self._stored < 0:
            self._store()

    def _restore(self) -> None:
        saved = _restored(self._path, self._words, self._charged)
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
        """Seed the rng from all that identifies the run: no other draws the same noise."""
        seed = shake_256(self._rng.get_state().numpy().tobytes())
        state = digest("gan", [part.state_dict() for part in self._gan])
        seed.update(repr(sorted(self._words.items())).encode() + state.encode())
        filled(self._rng, seed.digest(4 * WORDS))
        self._drawn_from, self._drawn = self._rng.get_state(), 0

    def replay(self, draws: Iterator[Tensor]) -> None:
        """Bring a new drawer of batches to the stored one's place; the rng stays."""
        now = self._rng.get_state()
        self._rng.set_state(self._drawn_from)
        for _ in range(self._drawn):
            next(draws)
        self._rng.set_state(now)

    def draw(self, draws: Iterator[Tensor]) -> Tensor:
        """The next batch; a draw that leaves the rng alone is of an earlier permutation."""
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
        self._whole = False  # neither half a step nor a caller's change is stored
        now = _present(self._gan, self._rng)
        names = [name for name, left in self._left.items() if not same_sums(left, now[name])]
        if names:
            raise RuntimeError(
                f"{', '.join(names)} changed between two steps, which after a crash could not be "
                "repeated; the checkpoint is unchanged; resume with new networks and rng, draw "
                "from another generator, and look at copies of the networks"
            )
        if self.step >= self._charged.steps:
            self._charge(min(self.step + self._place.reserve, self.steps))
        with _globals_seeded(self._rng, self.step):
            yield
        self.step += 1
        self._check_process()
        self._left = _present(self._gan, self._rng)
        self._whole = True
        if self.step % self._place.every == 0:
            self._store()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "a forked process cannot continue its parent's run; start a new one"
            )

    def close(self) -> None:
        """Store the last whole step; give back what was reserved and not needed."""
        # a fork's copy has nothing to store
        if not self._whole or os.getpid() != self._process:
            return
        if self._stored != self.step:
            self._store()
        needed = max(self.step, self._floor)
        if needed < self._charged.steps:
            self._charge(needed)

    def _charge(self, steps: int) -> None:
        ledger.check_alone(self._path, self._charged, lock=self._lock)
        charged = self._charged._replace(steps=steps)
        ledger.write_charged(
            self._path, charged, lock=self._lock, rows=self._rows(steps=steps)
        )
        self._charged = charged

    def _store(self) -> None:
        ledger.check_alone(self._path, self._charged, lock=self._lock)
        saved = Saved(
            fingerprint=self._words,
            identity=self._charged.identity,
            step=self.step,
            gan={name: getattr(self._gan, name).state_dict() for name in self._gan._fields},
            rng=self._left[RNG],
            drawn_from=self._drawn_from,
            drawn=self._drawn,
        )
        buffer = io.BytesIO()
        torch.save(saved._asdict(), buffer)
        content = buffer.getvalue()
        header = _HEADER + sha256(content).hexdigest().encode() + b"\n"
        write_bytes(self._path, header + content, private=True)
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
) -> Iterator[Keeper]:
    """The run at `place`, brought into `gan` and `rng`; stored and unlocked at the end.

    Raises:
        ValueError: the files are of another run, damaged or lost, or have done more than `steps`.
        RuntimeError: another run is at work there, or its lock or ledger was changed meanwhile.
    """
    words = fingerprint(gan, data, step=step, settings=settings, rng=rng, tf32=tf32)
    rows = partial(ledger.rows_of, settings, public_size=data.public_size)
    with ledger.locked(Path(place.path)) as lock:
        keeper = Keeper(place, gan, rng, words=words, steps=steps, lock=lock, rows=rows)
        try:
            yield keeper
        finally:
            keeper.close()


def _restored(path: Path, words: Mapping[str, str], charged: Charged) -> Saved:
    """Read the checkpoint at `path` that a run with this fingerprint and these charges left.

    Raises:
        ValueError: it is missing or damaged, of another run, or has done more steps than are
            charged.
    """
    try:
        saved = read_saved(path)
    except ValueError as error:
        raise ValueError(
            f"{error}, so training cannot continue after the {charged.steps} steps charged here; "
            "restore its newest copy, or give Checkpoints another path, whose steps cost on top of "
            "these"
        ) from error
    stored = saved.fingerprint
    unlike = [  # with values that are no hashes
        name + f" (stored {stored.get(name)}, now {words.get(name)})" * (name != "data")
        for name in sorted(dict(stored.items() ^ words.items()))
    ]
    if unlike:
        raise ValueError(
            f"{path} is of another run; these differ: {'; '.join(unlike)}. Use the settings it "
            "was started with, or give Checkpoints another path, whose steps cost on top of those "
            "charged here"
        )
    if saved.identity != charged.identity:
        raise ValueError(
            f"{path} is of another run than the ledger beside it (a copy from elsewhere?), which "
            "does not count its releases; put back the newest copy of the two files that belong "
            "together"
        )
    if saved.step > charged.steps:
        raise ValueError(
            f"{path} has done {saved.step} steps, and its ledger counts {charged.steps}; restore "
            "the ledger's newest copy"
        )
    return saved


def _present(gan: Model, rng: torch.Generator) -> dict[str, Any]:
    """The state that a step of `gan` starts from, to compare with the last one's end."""
    networks = nn.ModuleList(part for part in gan if isinstance(part, nn.Module))
    optimizers = [part for part in gan if not isinstance(part, nn.Module)]
    held = [x for part in optimizers for state in part.state.values() for x in state.values()]
    tensors = [*networks.parameters(), *networks.buffers(), *filter(torch.is_tensor, held)]
    return {
        RNG: rng.get_state(),
        "the networks' modes (train or eval)": [
            module.training for module in networks.modules()
        ],
        "the optimisers' settings": repr(optimizers),
        "weights, buffers or the optimisers' states": sums_of(tensors),
        "torch's number of threads": torch.get_num_threads(),
    }


def fingerprint(
    gan: Model, data: Data, *, step: Any, settings: Any, rng: torch.Generator, tf32: bool
) -> dict[str, str]:
    """The parts that must agree for a run to resume (ValueError: incomparable)."""
    if not getattr(getattr(settings, "__dataclass_params__", None), "frozen", False):
        raise ValueError(
            f"settings must be a frozen dataclass with a checkpoint, got {settings!r}"
        )
    held = {
        **{
            f"settings.{field.name}": getattr(settings, field.name)
            for field in fields(settings)
        },
        "step": step,
        "transform": data.transform,
    }
    return {
        "settings": f"{type(settings).__module__}.{type(settings).__qualname__}",
        **{name: described(name, value) for name, value in held.items()},
        **{f"gan.{name}": _part(getattr(gan, name)) for name in gan._fields},
        "public_size": str(data.public_size),
        "data": digest("data", data[:2]),
        "dpkit": __version__,
        "torch": str(torch.__version__),
        "device": device_label(rng.device),
        "dtype": str(torch.get_default_dtype()),
        "tf32": str(tf32),
        "threads": str(torch.get_num_threads()),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
    }


def described(name: str, value: Any) -> str:
    """The value of a name in words, and a part of its `digest`."""
    kind = "source" if callable(value) else "digest"
    return f"{_said(value)[:200]} of {kind} {digest(name, value)[:16]}"


def digest(name: str, value: Any) -> str:
    """SHA-256 of a value as `_Pickler` writes it, or ValueError."""
    written = sha256()
    pickler = _Pickler(cast(Any, SimpleNamespace(write=written.update)), protocol=5)
    # An object is written again wherever it stands, whether or not it is one
    pickler.fast = True
    try:
        pickler.dump(value)
    except (
        PicklingError,
        AttributeError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(
            f"{name} must be something that another process can compare, to be stored with a "
            f"checkpoint ({error}); use a function of a module, a partial of one with plain "
            "arguments, or a frozen dataclass"
        ) from error
    return written.hexdigest()


class _Pickler(Pickler):
    """A tensor is its type, shape and bytes; a function or a __call__, name and source."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor) and not value.is_quantized:
            plain = value.flatten().contiguous().view(torch.uint8).numpy(force=True)
            return str, (type(value).__name__, str(value.dtype), tuple(value.shape), plain)
        code = value.__call__ if isinstance(value, type) else getattr(value, "__func__", value)
        if not isinstance(code, FunctionType):
            return NotImplemented
        name, bound = (
            f"{value.__module__}.{value.__qualname__}",
            getattr(value, "__self__", None),
        )
        return str, (name, _source(name, code), code.__defaults__, code.__kwdefaults__, bound)


def _source(name: str, code: FunctionType) -> str:
    """The source of its module on disk; without a file, as in a notebook, its own."""
    module = inspect.getmodule(code)
    held: Any = module if getattr(module, "__file__", None) else code
    free = {*code.__code__.co_freevars} - {"__class__"}  # which super() is given
    if "<" in name or free or inspect.getfile(held) == "<string>":
        raise PicklingError(f"{name} is a lambda, a closure or made by a function or exec")
    return inspect.getsource(held)


def _said(one: Any) -> str:
    words = (
        f"{one.__module__}.{one.__qualname__}" if isinstance(one, FunctionType) else repr(one)
    )
    return " ".join(re.sub(" at 0x[0-9a-f]+", "", words).split())


def _part(part: nn.Module | torch.optim.Optimizer) -> str:
    """Layers and tensors of a network; kind of an optimiser."""
    if not isinstance(part, nn.Module):
        return type(part).__qualname__
    state = part.state_dict()
    if lost := [name for name, _ in part.named_buffers() if name not in state]:
        raise ValueError(
            f"no checkpoint holds a network's buffers {lost}: register them with persistent=True"
        )
    shapes = [
        f"{k} {tuple(x.shape)} {x.dtype}" for k, x in state.items() if isinstance(x, Tensor)
    ]
    frozen = [name for name, x in part.named_parameters() if not x.requires_grad]
    flags = [module.training for module in part.modules()]
    return f"{_said(part)}; {', '.join(shapes)}; frozen: {frozen}; training: {flags}"


def __dir__() -> list[str]:
    return __all__

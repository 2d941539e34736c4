"""The parts of a training run: networks, the data, a step and its record."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from dpkit.privacy.sampling import Sampling
from dpkit.training.device import floats


class Model(Protocol):
    """A named tuple of networks and optimisers: what a step updates and a checkpoint keeps.

    Whatever else outlives a step (a history of gradients) is a module's buffer among them.
    """

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Gan(NamedTuple):
    """Two networks and what updates them; `averaged_net` follows the generator and is released."""

    generator_net: nn.Module
    averaged_net: nn.Module
    discriminator: nn.Module
    generator_optimizer: torch.optim.Optimizer
    discriminator_optimizer: torch.optim.Optimizer


class Data(NamedTuple):
    """The private training set: tensors on rng's device or on the CPU, or numpy arrays.

    What lies on the CPU may be memory-mapped (`numpy.load(path, mmap_mode="r")`): of it, only the
    rows of a batch are moved to rng's device. So data may be larger than the device's memory.
    """

    features: Any  # (records, ...), of any type that `transform` takes
    labels: Any  # (records,) int64
    public_size: int  # the declared size; sample rates follow from it alone
    transform: Callable[[Tensor], Tensor] | None = None
    """Of a batch's features, (batch, ...), after the draw: uint8 to floats, for example. It acts on
    each example by itself, which is checked at times; a run that is stored takes a function of a
    module."""


class Recorded:
    """One step's measurements. They describe private data: do not release them.

    A step gives numbers or tensors, as it has them. All become floats when the first is read, in
    one transfer: a step does not wait for its device. Records are equal where their numbers are.
    """

    _form: ClassVar[Any]  # a NamedTuple of step, batch_size and the numbers

    def __init__(self, step: int, batch_size: int, *numbers: float | Tensor | None) -> None:
        self.step = step
        self.batch_size = batch_size
        given: tuple[Any, ...] = numbers
        self._numbers = tuple(n.detach() if isinstance(n, Tensor) else n for n in given)

    def _measured(self) -> Any:
        self._numbers = floats(*self._numbers)
        return type(self)._form(self.step, self.batch_size, *self._numbers)

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._form._fields:
            return getattr(self._measured(), name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def _asdict(self) -> dict[str, Any]:
        """The numbers by name, as of a NamedTuple."""
        return self._measured()._asdict()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._measured())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._measured() == other._measured()

    def __hash__(self) -> int:
        return hash(self._measured())

    def __repr__(self) -> str:
        form = type(self)._form.__name__
        return repr(self._measured()).replace(form, type(self).__name__, 1)


class StepRecord(NamedTuple):
    """The numbers of a GAN's record."""

    step: int
    batch_size: int
    discriminator_loss: float  # of the batch, as its paper adds it up
    generator_loss: float | None  # None where this step did not train the generator
    clipped: float  # share of the batch whose gradient was scaled down


class Record(Recorded):
    """A GAN step's measurements (see `Recorded`): the numbers of `StepRecord`."""

    _form = StepRecord
    discriminator_loss: float
    generator_loss: float | None
    clipped: float

    def __init__(
        self,
        step: int,
        batch_size: int,
        discriminator_loss: float | Tensor,
        generator_loss: float | Tensor | None,
        clipped: float | Tensor,
    ) -> None:
        super().__init__(step, batch_size, discriminator_loss, generator_loss, clipped)


class TrainingSettings(Protocol):
    """The loop's view of a paper's settings."""

    @property
    def sampling(self) -> Sampling: ...

    def steps_allowed(self, *, public_size: int) -> int:
        """Number of steps that the budget, or the settings' own limit, allows."""
        ...


Step = Callable[..., Record]
R = TypeVar("R")  # what a step returns: a Record, or another paper's own

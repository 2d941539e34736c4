"""Noise drawn ahead: on a CPU a thread draws the next release's while the network computes.

Which noise comes follows from a key alone, which the generator draws when noise is added. Before
that, a copy of the generator's state tells the key that comes next if nothing else is drawn. A
thread draws from that key. If another key comes, or other sizes, what it drew is thrown away. So
the noise is the same with the thread and without it, also after a crash, and each key, which is
drawn once, serves one release.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import local
from weakref import ref

import numpy as np
import torch

from dpkit.privacy import normals
from dpkit.training.device import PrivateGenerator

LEAST, MOST = 2**15, 2**22  # coordinates: fewer are not worth a thread, nor more the memory
MISSES = 2  # in a row, after which a generator's noise is not drawn ahead any more


class _Ahead:
    """What is drawn ahead of one generator's next release, if anything."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1)
        self.sizes: Sequence[int] = ()  # of the last release's blocks
        self.next: Planned | None = None  # changed as a whole: threads may share a generator
        self.misses = 0


# The key that is foreseen, the sizes of the blocks, and these
Planned = tuple[list[int], Sequence[int], Iterator[normals.Floats]]
_last = local()  # rng: a weak reference to the generator of this thread's last release


def begin() -> None:
    """Draw ahead what this thread's last release would get if it came next."""
    rng = getattr(_last, "rng", lambda: None)()
    if rng is None or rng.process != os.getpid():
        return
    own, sizes = rng.ahead, rng.ahead.sizes
    if own.misses < MISSES and LEAST <= sum(sizes) <= MOST:
        twin = torch.Generator(rng.device)
        key = _key(twin.set_state(rng.get_state()))
        if own.next is None or own.next[0] != key:
            own.misses += own.next is not None
            with suppress(RuntimeError):  # no thread starts once the interpreter shuts down
                own.next = key, sizes, own.thread.map(_normals(key), sizes)


def drawn(rng: torch.Generator, sizes: Sequence[int]) -> Iterator[normals.Floats]:
    """Standard normals of a key that rng draws, in blocks of these sizes: drawn ahead, or now."""
    key = _key(rng)
    if not isinstance(rng, PrivateGenerator):
        return map(_normals(key), sizes)
    own = rng.ahead = rng.ahead or _Ahead()
    _last.rng = ref(rng)
    planned, own.next, own.sizes = own.next, None, sizes
    if planned is None or planned[:2] != (key, sizes):
        own.misses += planned is not None
        return map(_normals(key), sizes)
    own.misses = 0
    return planned[2]


def _key(rng: torch.Generator) -> list[int]:
    """Eight words, of which SFC64 takes 128 bits."""
    return torch.randint(2**32, (8,), generator=rng, device=rng.device).tolist()


def _normals(key: list[int]) -> Callable[[int], normals.Floats]:
    own = np.random.Generator(np.random.SFC64(np.random.SeedSequence(key)))
    return partial(normals.standard_normals, rng=own)

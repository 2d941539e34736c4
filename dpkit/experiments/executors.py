"""Where a sweep's parts are computed: here, in processes of their own, or by Dask's workers."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context, parent_process
from threading import Thread, local
from typing import Any

from dpkit import checks
from dpkit.experiments.sweep import Submits
from dpkit.missing import remedy

KINDS = "serial, processes:N (such as processes:4) or dask://HOST:PORT"


class Processes:
    """A number of processes, each of which computes one call at a time.

    Unlike a `ProcessPoolExecutor`, of which one lost process ends all the others, it loses with a
    process its own call alone (`BrokenExecutor`), and starts another process for the next.

    Args:
        count: number of processes, >= 1.
    """

    def __init__(self, count: int) -> None:
        checks.whole(1, count=count)
        self._threads = ThreadPoolExecutor(count)  # each waits for one process
        self._own = local()
        self._pools: dict[ProcessPoolExecutor, int] = {}  # with the process's id

    def submit(self, call: Callable[..., Any], /, *args: Any) -> Future:
        """Call it in a process as soon as one is free."""
        return self._threads.submit(self._called, call, *args)

    def close(self) -> None:
        """End the processes, and with them what they are computing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pool, process in list(self._pools.items()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
            pool.shutdown()

    def _called(self, call: Callable[..., Any], *args: Any) -> Any:
        pool = getattr(self._own, "pool", None) or self._started()
        try:
            return pool.submit(call, *args).result()
        except BrokenExecutor:
            self._own.pool = None
            self._pools.pop(pool, None)
            raise

    def _started(self) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_end_with_the_parent
        )
        self._pools[pool] = pool.submit(os.getpid).result()
        self._own.pool = pool
        return pool


class Here:
    """This process, in which a call is over when it is submitted."""

    def submit(self, call: Callable[..., Any], /, *args: Any) -> Future:
        """Call it."""
        future: Future = Future()
        try:
            future.set_result(call(*args))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def opened(name: str) -> Iterator[Submits | None]:
    """The executor that a word names, closed afterwards; None for "serial", which needs none.

    Args:
        name: "serial", "processes:4" or "dask://host:port", the address of a Dask scheduler.

    Raises:
        ValueError: it is none of these, or Dask is not installed.
        OSError: no scheduler answers at the address.
    """
    kind, _, number = name.partition(":")
    if name == "serial":
        yield None
    elif kind == "processes" and number.isdecimal() and int(number) > 0:
        processes = Processes(int(number))
        try:
            yield processes
        finally:
            processes.close()
    elif kind == "dask" and number.startswith("//"):
        with _client(number.removeprefix("//")) as client:
            yield client.get_executor(pure=False)
    else:
        raise ValueError(f"executor must be {KINDS}, got {name!r}")


def _client(address: str) -> Any:
    try:
        client = import_module("distributed").Client
    except ModuleNotFoundError as error:
        raise ValueError(
            f"executor dask://{address} needs Dask, which is not installed: "
            f"{remedy('distributed')}, here and where the workers run"
        ) from error
    return client(f"tcp://{address}")


def _end_with_the_parent() -> None:
    """End this process when the one that started it is gone, however that went."""
    Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

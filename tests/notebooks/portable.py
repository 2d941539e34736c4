"""Run what compares with stored values, and every notebook, as another processor would.

`python tests/notebooks/portable.py PROCESSOR [-n WORKERS]`. Environment variables make torch, MKL
and OpenBLAS take the code paths of another processor, which adds in another order. They do so on
x86 machines; elsewhere they change nothing. `make portable` takes the processor furthest from
today's, without AVX and with two threads; `make slow` the other.
"""

import argparse
import os
import subprocess
import sys
from typing import NamedTuple

import compare


class Processor(NamedTuple):
    """A processor to emulate: how many threads compute, and what sets the libraries' code paths."""

    threads: int
    variables: dict[str, str]


PROCESSORS = {
    "no-avx": Processor(  # nor one that MKL knows
        2,
        {
            "ATEN_CPU_CAPABILITY": "default",
            "OPENBLAS_CORETYPE": "Nehalem",
            "MKL_CBWR": "COMPATIBLE",
        },
    ),
    "avx2": Processor(1, {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell"}),
}


def stored_values(workers: int, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The tests marked `stored`, but for the slow ones."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "stored and not slow", "-n", str(workers)],
        cwd=compare.CHECKOUT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processor", choices=PROCESSORS)
    parser.add_argument("-n", dest="workers", type=int, default=1)
    arguments = parser.parse_args()
    threads, variables = PROCESSORS[arguments.processor]
    print(f"Processor {arguments.processor}, threads {threads}: {variables}", flush=True)
    variables = variables | {"OMP_NUM_THREADS": str(threads)}
    at_once = max(arguments.workers // threads, 1)
    failed = False
    for result in (
        stored_values(at_once, variables),
        compare.compare(workers=at_once, variables=variables),
    ):
        lines = result.stdout.splitlines()
        kept = [line for line in lines if " numbers within " in line or " passed" in line]
        print("\n".join(kept if result.returncode == 0 else lines), flush=True)
        failed |= result.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

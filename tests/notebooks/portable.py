"""Run what compares with stored values, and every notebook, as other processors would.

`python tests/notebooks/portable.py [-n WORKERS]`. Environment variables make torch, MKL and
OpenBLAS take the code paths of other processors, which add in another order. They do so on x86
machines; elsewhere they change nothing.
"""

import argparse
import os
import subprocess
import sys
from time import monotonic
from typing import NamedTuple

import compare


class Processor(NamedTuple):
    """A processor to emulate: what sets the libraries' code paths, and how many threads compute."""

    name: str
    threads: int
    variables: dict[str, str]


PROCESSORS = (
    Processor(
        "without AVX, that MKL does not know",
        2,
        {
            "ATEN_CPU_CAPABILITY": "default",
            "OPENBLAS_CORETYPE": "Nehalem",
            "MKL_CBWR": "COMPATIBLE",
        },
    ),
    Processor("with AVX2", 1, {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell"}),
)


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
    parser.add_argument("-n", dest="workers", type=int, default=1)
    workers = parser.parse_args().workers
    failed = False
    for name, threads, variables in PROCESSORS:
        print(f"A processor {name}, threads {threads}: {variables}", flush=True)
        variables = variables | {"OMP_NUM_THREADS": str(threads)}
        at_once = max(workers // threads, 1)
        start = monotonic()
        for result in (
            stored_values(at_once, variables),
            compare.compare(workers=at_once, variables=variables),
        ):
            lines = result.stdout.splitlines()
            kept = [line for line in lines if " numbers within " in line or " passed" in line]
            print("\n".join(kept if result.returncode == 0 else lines), flush=True)
            failed |= result.returncode != 0
        print(f"{monotonic() - start:.0f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Run what compares with stored values, and every notebook, as another processor would.

`python tests/notebooks/portable.py PROCESSOR [-n WORKERS]`. Environment variables make torch, MKL
and OpenBLAS take the code paths of another processor, which adds in another order. They do so on
x86 machines; elsewhere they change nothing. `make portable` takes the processor furthest from
today's, without AVX, where torch computes in two threads; `make slow` the other, where OpenBLAS
does. (One library at a time: threads that wait for each other in a queue cost half as much again.)
"""

import argparse
import os
import sys

import compare

TESTS = compare.CHECKOUT / "tests"
PROCESSORS = {  # what sets the libraries' code paths and threads
    "no-avx": {  # nor one that MKL knows
        **{"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Nehalem"},
        **{"MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "2"},
        **{"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_NUM_THREADS": "1"},
    },
    "avx2": {
        **{"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell"},
        **{"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "2"},
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processor", choices=PROCESSORS)
    parser.add_argument("-n", dest="workers", type=int, default=1)
    arguments = parser.parse_args()
    variables = PROCESSORS[arguments.processor]
    print(f"Processor {arguments.processor}: {variables}", flush=True)
    failed = False
    marked = "mark.stored"  # only such files are read: the others are most of them
    files = [path for path in TESTS.rglob("test_*.py") if marked in path.read_text("utf-8")]
    stored = [sys.executable, "-m", "pytest", "-q", "-m", "stored and not slow", *map(str, files)]
    for result in (
        compare.tests_of([*stored, "-n", str(arguments.workers)], os.environ | variables),
        compare.compare(workers=arguments.workers, variables=variables),
    ):
        lines = result.stdout.splitlines()
        kept = [line for line in lines if " numbers within " in line or " passed" in line]
        print("\n".join(kept if result.returncode == 0 else lines), flush=True)
        failed |= result.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

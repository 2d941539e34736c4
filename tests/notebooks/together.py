"""How much memory a Lab server and the kernels of notebooks take together (Linux).

`python tests/notebooks/together.py [source.py ...]` runs each source in a kernel of its own and
leaves the kernels open, as tabs would be; where none is named, 03_dp_cgan twice. Pages that several
processes share are counted once: the sum of their proportional set sizes (PSS).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from execute import kernel_environment, new_client, peak_memory
from pairs import NOTEBOOKS, SOURCES, code_cells, read_source

START_SECONDS = 120
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def pss(pid: int) -> float:
    """A process's proportional set size in MB (10^6 bytes)."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


@contextmanager
def lab(folder: str):
    """A running Lab server; yields its process id."""
    own = {f"JUPYTER_{name}_DIR": folder for name in ("CONFIG", "DATA", "RUNTIME")}
    as_root = ["--allow-root"] if os.getuid() == 0 else []
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--port=0", *as_root],
        cwd=NOTEBOOKS,
        env=os.environ | own | ONE_THREAD | {"HOME": folder},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + START_SECONDS
        while not list(Path(folder).glob("jpserver-*.json")):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the Lab server did not start")
            time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


def main() -> None:
    """Print each process's PSS while all of them are open, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path, nargs="*", help="default: 03_dp_cgan, twice")
    sources = parser.parse_args().sources or [SOURCES / "03_dp_cgan.py"] * 2
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="together-"))
        processes = {"Lab server": stack.enter_context(lab(folder))}
        for number, source in enumerate(sources, start=1):
            notebook = read_source(source.resolve())
            client = new_client(notebook, NOTEBOOKS)
            stack.enter_context(client.setup_kernel(env=kernel_environment(folder) | ONE_THREAD))
            for index, cell in code_cells(notebook):
                client.execute_cell(cell, index)
            pid = getattr(client.km, "provisioner").pid  # noqa: B009 (Any, for the type checker)
            processes[f"{number}: {source.stem} (peak RSS {peak_memory(client):.0f} MB)"] = pid
        sizes = {name: pss(pid) for name, pid in processes.items()}
    for name, size in sizes.items():
        print(f"{size:7.0f} MB PSS  {name}")
    print(f"{sum(sizes.values()):7.0f} MB together")


if __name__ == "__main__":
    main()

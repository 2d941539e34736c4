"""Install dpkit's wheel as a user does, and run what README shows, away from the checkout.

`python tests/contracts/wheel_check.py` (or `make wheel-check`): the wheel with its extra `train`
goes into a fresh environment beside the pinned torch, then every command line and Python block of
README.md runs in an empty folder, and what its sentences name. A second environment gets the wheel
alone: there BEYOND_CORE must run once the remedies that it prints were followed.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from test_blocks import blocks, commands

CHECKOUT = Path(__file__).resolve().parents[2]
TRAIN = "python -m dpkit train {} --epsilon 8 --delta 1e-4 --steps 20 --batch-size 32 --out {}"
COMMANDS = [
    "dpkit --version",
    *(f"python -m dpkit {name}" for name in ("claims", "data list", "data verify")),
    *(f"python -m dpkit {name}" for name in ("audit list", "audit run sampling/label-histogram")),
]
BEYOND_CORE = [
    "python -c 'from dpkit import PrivateGan'",
    TRAIN.format("digits", "digits.safetensors"),
    TRAIN.format("pictures --size 16", "pictures.safetensors"),
    "python -m dpkit sample digits.safetensors --labels 0,1,2 --out samples",
    "python -m dpkit epsilon --ledger digits.safetensors --delta 1e-4",
    "python -m dpkit reproduce dp_cgan table_1 --scale small --results results",
    "python -m dpkit reproduce dp_cgan --all --scale small --results results",  # and the report
]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
SHOWN = [*commands(README), *(f"python -c {shlex.quote(code)}" for code in blocks(README))]


def run(line: str, folder: Path) -> tuple[int, str]:
    """Run one line in the folder's environment, say how it ended: exit code and last line."""
    environment = {name: value for name, value in os.environ.items() if name != "DPKIT_DATA"} | {
        "PATH": f"{folder / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONSTRAINT": str(folder / "pin.txt"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    began, words = time.monotonic(), shlex.split(line, comments=True)
    cwd = folder / "work"
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    last = (done.stderr if done.returncode else done.stdout).strip().rpartition("\n")[2]
    print(" ".join(line.split())[:150])
    took = time.monotonic() - began
    print(f"  rc {done.returncode}, {took:.0f} s: {last[:150]}", flush=True)
    return done.returncode, last


def followed(line: str, folder: Path) -> int:
    """Run one line until it runs, at most three times after a remedy that it named."""
    code, last = run(line, folder)
    for _ in range(3):
        remedy = re.search("install it: (pip install .+)", last)
        if remedy is not None:
            run(remedy[1], folder)
            code, last = run(line, folder)
    return code


def install(wheel: str, folder: Path) -> int:
    """Install `FILE` or `FILE[train]` into a fresh environment; write what README's lines read."""
    pins = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pixels = np.random.default_rng(0).integers(256, size=(64, 20, 20, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):  # small pictures of two classes
        pictures = folder / "work" / "pictures" / "ab"[number % 2]
        pictures.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(pictures / f"{number}.png")
    (folder / "work" / "steps.csv").write_text("noise_multiplier,sample_rate,count\n1.1,0.01,9\n")
    (folder / "pin.txt").write_text(next(pin for pin in pins if pin.startswith("torch==")))
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    return run(f"pip install -q --disable-pip-version-check {shlex.quote(wheel)}", folder)[0]


def main() -> int:
    """Install and run; 0 where everything ran."""
    with tempfile.TemporaryDirectory(prefix="wheel-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        make = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, CHECKOUT]
        subprocess.run(make, check=True)
        (wheel,) = folder.glob("*.whl")
        train, core = folder / "train", folder / "core"
        codes = [install(f"{wheel}[train]", train), install(str(wheel), core)]
        codes += [run(line, train)[0] for line in [*SHOWN, *COMMANDS, *BEYOND_CORE]]
        codes += [followed(line, core) for line in BEYOND_CORE]
    failed = sum(map(bool, codes))
    print(f"{failed} of {len(codes)} failed")
    return min(1, failed)


if __name__ == "__main__":
    sys.exit(main())

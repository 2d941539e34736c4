"""What the package computes, prints and documents, as one JSON file, to be alike before and after.

`python tests/contracts/golden.py write FILE` at one commit and `... compare FILE` at another: every
difference is listed. Numbers may differ by rounding; names are compared without their modules.
"""

import argparse
import contextlib
import inspect
import io
import json
import math
import pkgutil
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import dpkit
from dpkit import Private, PrivateGan, PrivateImages, PrivateTable
from dpkit.__main__ import main as command_line
from dpkit.training import seeded

CHECKOUT = Path(__file__).resolve().parents[2]
ROUNDING, TRAINED = 1e-9, 1e-3  # relative: of computations, and of what was trained in float32
STEPS = "--noise-multiplier 1.1 --delta 1e-5"
DRAWN = (
    "--sample-rate 0.01 --steps 10000",
    "--sample-rate 1 --steps 3",
    "--sample-rate 0.2 --steps 40",
    "--sample-rate 0.02 --steps 500 --group-size 4",
    "--sample-rate 0.02 --steps 500 --best-of 10",
    "--sampling shuffled --batch-size 600 --data-size 60000 --steps 300",
)
LINES = (
    *(
        f"epsilon {STEPS} {drawn} {how} --json"
        for drawn in DRAWN
        for how in (
            *("", "--conversion classic", "--conversion optimal", "--accountant pld"),
            *("--adjacency replace-one", "--statement"),
        )
    ),
    *(
        f"noise --epsilon {epsilon} --delta 1e-5 --sample-rate {rate} --steps {steps} --json"
        for epsilon in (0.3, 2, 9.6)
        for rate, steps in ((0.01, 1000), (0.3, 20), (1, 5))
    ),
    "supports",
    "supports --json",
    "claims --json",
    "audit list --json",
    "data list --json",
    *(f"{one} --help" for one in ("epsilon", "noise", "supports", "train", "sample", "claims")),
    *(f"{one} --help" for one in ("reproduce", "audit list", "audit run", "data list", "data get")),
)


def printed(line: str) -> Any:
    """Exit code, output and first line of error of a command line; JSON is read."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            command_line(line.split())
            code: Any = 0
        except SystemExit as stopped:
            code = stopped.code
    text = out.getvalue()
    with contextlib.suppress(ValueError):
        text = json.loads(text)
    return [code, text, err.getvalue().strip()[:300]]


def weights(net: nn.Module) -> list[float]:
    """Sum and norm of each tensor of a network."""
    state = [x.detach().double() for x in net.state_dict().values()]
    return [float(number) for x in state for number in (x.sum(), x.norm())]


def front_door() -> Iterator[tuple[str, Any]]:
    """Seeded runs: what they release and state."""
    digits: Any = load_digits()
    x = torch.tensor(digits.images / 8 - 1, dtype=torch.float32)
    y = torch.tensor(digits.target)
    plan = {"epsilon": 8, "delta": 1e-5, "reproducible_seed": 3}
    with seeded(0):
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
        generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64), nn.Tanh())
        critic = nn.Sequential(nn.Linear(64, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    private = Private(
        net, torch.optim.Adam(net.parameters(), 0.01), x, y, **plan, steps=20, batch_size=64
    )
    for rows, labels in private:
        private.step(
            lambda a, b: nn.functional.cross_entropy(net(a), b, reduction="none"), rows, labels
        )
    yield "Private", [weights(net), private.statement(), private.guarantee().epsilon]
    for loss in ("wasserstein", "hinge", "bce"):
        gan = PrivateGan(generator, critic, **plan, loss=loss, latent_size=8, n_critic=2)
        gan.fit(x.flatten(1), steps=6)
        with tempfile.TemporaryDirectory() as folder:
            gan.save(Path(folder) / "generator.safetensors")
        yield f"PrivateGan {loss}", [weights(gan.generator_), gan.statement()]
    images = PrivateImages(epsilon=4, delta=1e-5, reproducible_seed=3)
    images.fit((digits.images * 15).astype(np.uint8), digits.target)
    made = images.sample([0, 1, 2], reproducible_seed=1)
    yield "PrivateImages", [float(np.asarray(made, float).sum()), images.statement()]
    import pandas as pd

    frame = pd.DataFrame({"a": digits.target.astype(str), "b": (digits.target % 2).astype(str)})
    columns = {"a": [str(i) for i in range(10)], "b": ["0", "1"]}
    table = PrivateTable(columns, epsilon=1, delta=1e-5, reproducible_seed=3).fit(frame)
    drawn = table.sample(500, reproducible_seed=1)
    yield "PrivateTable", [drawn["b"].value_counts().sort_index().tolist(), table.statement()]


def documented() -> dict[str, list[list[Any]]]:
    """Of each public name, without its module: lines and digest of its docstring, sorted."""
    found: defaultdict[str, list[list[Any]]] = defaultdict(list)
    for module in pkgutil.walk_packages(dpkit.__path__, "dpkit."):
        if module.name.rpartition(".")[2] == "__main__":
            continue
        held = import_module(module.name)
        for name, thing in vars(held).items():
            if name.startswith("_") or getattr(thing, "__module__", "") != module.name:
                continue
            if inspect.isfunction(thing) or inspect.isclass(thing):
                _note(found, name, thing)
    return {name: sorted(entries) for name, entries in sorted(found.items())}


def _note(found: dict[str, list[list[Any]]], name: str, thing: Any) -> None:
    text = inspect.cleandoc(thing.__doc__ or "")
    found[name].append([len(text.splitlines()), sha256(text.encode()).hexdigest()[:12]])
    for own, part in vars(thing).items() if inspect.isclass(thing) else ():
        if not own.startswith("_") and (inspect.isfunction(part) or isinstance(part, property)):
            _note(found, f"{name}.{own}", part)


def stored() -> dict[str, str]:
    """The digest of each stored result."""
    files = sorted(path for path in (CHECKOUT / "data/results").rglob("*") if path.is_file())
    return {
        path.relative_to(CHECKOUT).as_posix(): sha256(path.read_bytes()).hexdigest()[:16]
        for path in files
    }


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "printed": lambda: {line: printed(line) for line in LINES},
    "front door": lambda: dict(front_door()),
    "documented": documented,
    "stored": stored,
}


def differing(one: Any, other: Any, place: str, rough: float) -> Iterator[str]:
    """Where two values differ by more than rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if key not in one or key not in other:
                yield f"{place}/{key} is {'new' if key in other else 'gone'}"
            else:
                yield from differing(one[key], other[key], f"{place}/{key}", rough)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, f"{place}/{i}", rough)
    elif isinstance(one, float | int) and isinstance(other, float | int):
        if not (one == other or math.isclose(one, other, rel_tol=rough, abs_tol=rough)):
            yield f"{place}: {one} became {other}"
    elif one != other:
        yield f"{place}: {one!r:.160} became {other!r:.160}"


def main() -> int:
    """Write the file, or list what differs from it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    now = json.loads(json.dumps({name: part() for name, part in PARTS.items()}))
    if asked.what == "write":
        asked.file.write_text(json.dumps(now, indent=1, sort_keys=True), encoding="utf-8")
        return 0
    before = json.loads(asked.file.read_text(encoding="utf-8"))
    lines = [
        line
        for name in PARTS
        for line in differing(
            before[name], now[name], name, TRAINED if name == "front door" else ROUNDING
        )
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines) + f"{len(lines)} differences\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())

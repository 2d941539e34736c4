"""MST and AIM as smartnoise-synth has them, with its defaults: a script for a Python that has it.

    python peers.py mst EPSILON DELTA SEED TABLE.npz

reads codes (records, columns) and sizes (of each column), and writes as many rows to TABLE.npy.
MST: McKenna, Miklau, Sheldon 2021; AIM: McKenna et al. 2022. OpenDP's noise has no seed.

Rows are drawn here, from a model's joint shares: those of mbi 1.1.0 do not always follow its model
(ryan112358/mbi #145, mended in 2.0.0, which smartnoise-synth 1.0.8 does not take).
"""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

PEERS = {"smartnoise-synth": "1.0.8", "mbi": "1.1.0"}


def model_of(method: str, codes: np.ndarray, sizes: Any, budget: tuple[float, float]) -> Any:
    """A method's model within (epsilon, delta), and what undoes its merging of categories."""
    import mbi  # pyright: ignore[reportMissingImports]
    import snsynth.aim  # pyright: ignore[reportMissingImports]
    import snsynth.mst  # pyright: ignore[reportMissingImports]
    import snsynth.utils  # pyright: ignore[reportMissingImports]

    domain = mbi.Domain([f"column{one}" for one in range(len(sizes))], list(map(int, sizes)))
    data = mbi.Dataset(codes, domain)
    if method == "mst":
        made = snsynth.mst.MSTSynthesizer(*budget)
        made.MST(data, *budget)
        return made.synthesizer, made.undo_compress_fn
    made = snsynth.aim.AIMSynthesizer(*budget)
    made.rho = snsynth.utils.cdp_rho(*budget)
    kept = {"degree": made.degree, "max_cells": made.max_cells}
    made.AIM(data, made.get_workload(data, **kept, num_marginals=made.num_marginals))
    return made.synthesizer, lambda rows: rows


def drawn(joint: np.ndarray, rows: int, *, rng: np.random.Generator) -> np.ndarray:
    """Rows of codes (rows, columns) from a table's joint counts, one axis a column."""
    shares = joint.astype(np.float64).ravel()
    cells = rng.choice(shares.size, rows, p=shares / shares.sum())
    return np.stack(np.unravel_index(cells, joint.shape), 1)


def main(method: str, epsilon: float, delta: float, seed: int, path: Path) -> None:
    """Fit, draw and write; ValueError where the packages are of another version."""
    found = {name: version(name) for name in PEERS}
    if found != PEERS:
        raise ValueError(f"packages must be {PEERS}, got {found}")
    np.random.seed(seed)  # noqa: NPY002, TID251 - what the packages draw from
    with np.load(path) as table:
        codes, sizes = table["codes"], table["sizes"]
    model, undo = model_of(method, codes, sizes, (epsilon, delta))
    names = tuple(model.domain.attrs)
    joint = np.asarray(model.project(names).datavector(flatten=False))
    rows = drawn(joint, len(codes), rng=np.random.default_rng(seed))
    import mbi  # pyright: ignore[reportMissingImports]

    made = undo(mbi.Dataset(rows, model.domain)).df[list(names)]
    np.save(path.with_suffix(".npy"), made.to_numpy(np.int64))


if __name__ == "__main__":
    name, epsilon, delta, seed, path = sys.argv[1:]
    main(name, float(epsilon), float(delta), int(seed), Path(path))

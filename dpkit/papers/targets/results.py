"""Running a target's attack: a row of the table of audits, stored with its provenance."""

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from dpkit.audit.scores import LowerBound, Scores
from dpkit.common import checks, files, records
from dpkit.papers.targets.target import Target

BINS = 48  # of the two stored histograms
COPIED = ("version", "says", "where", "claimed", "charged")  # from the target into its row
SHOWN = 0.002  # share of either world's scores that may lie beyond the histogram's ends


def run(target: Target, *, seed: int = 0, confidence: float = 0.95) -> dict[str, Any]:
    """Attack a target once: its stated, proven and measured epsilons, as JSON values.

    Raises:
        ValueError: seed is no integer >= 0, confidence not in (0, 1), or the attack's scores are
            none that a bound can take.
    """
    seed = checks.whole(seed=seed)
    confidence = checks.between(0, 1, confidence=confidence)
    start = perf_counter()
    scores = target.scores(np.random.default_rng([seed, 0]), target.trials)
    bound = _bound(target, scores, seed, confidence)
    seconds = perf_counter() - start
    proven = target.proven()
    return {
        "target": target.id,
        **{name: getattr(target, name) for name in COPIED},
        "proven": records.json_number(proven.epsilon),
        "proven_by": proven.method,
        "measured": records.json_number(bound.epsilon),
        "refuted": target.said is not None and bound.epsilon > target.said,
        **{name: getattr(bound, name) for name in ("delta", "confidence", "adjacency")},
        "attack": target.attack,
        "method": bound.method,
        "assumes": [*target.assumes, *bound.assumptions],
        "trials": bound.trials,
        "seconds": round(seconds, 2),
        "scores": _histogram(scores),
        "provenance": records.provenance(
            settings=settings(target),
            seed=seed,
            data=target.data(),
            device="cpu",
            wall_seconds=seconds,
            scale=target.scale,
        ),
    }


def repeat(
    target: Target, *, times: int, trials: int, seed: int = 0, confidence: float = 0.95
) -> dict[str, Any]:
    """Attack a target many times; count the runs whose measured epsilon is within the proven.

    Args:
        times: runs, >= 1, each with a seed of its own.
        trials: scores a world in each.
        seed, confidence: as `run`.

    Raises:
        ValueError: times or trials is no integer >= 1, or as `run`.
    """
    times, trials = checks.whole(1, times=times, trials=trials)
    proven = target.proven().epsilon
    measured = []
    for one in range(times):
        scores = target.scores(np.random.default_rng([seed, 1, one]), trials)
        measured.append(_bound(target, scores, seed + one, confidence).epsilon)
    return {
        "times": times,
        "trials": trials,
        "confidence": confidence,
        "at_most_proven": sum(epsilon <= proven for epsilon in measured),
        "largest": records.json_number(max(measured)),
        "median": records.json_number(float(np.median(measured))),
    }


def settings(target: Target) -> dict[str, Any]:
    """All settings: stored results of other settings are not used."""
    return {
        "target": target.id,
        "trials": target.trials,
        "delta": target.delta,
        "bound": getattr(target.bound, "__name__", str(target.bound)),
        **target.settings,
    }


def path(target: Target) -> Path:
    """Path of a target's stored result: data/results/audit/<group>-<name>.json."""
    return files.results_dir() / "audit" / f"{target.id.replace('/', '-')}.json"


def store(row: dict[str, Any], target: Target) -> Path:
    """Write a row where `stored` finds it; stored repetitions of the same settings stay."""
    kept = {name: x for name, x in (stored(target) or {}).items() if name == "repetitions"}
    return records.write_json(path(target), kept | row)


def stored(target: Target) -> dict[str, Any] | None:
    """The stored row; None where there is none, or one of other settings."""
    if not path(target).exists():
        return None
    row = records.read_json(path(target))
    same = records.alike(
        row["provenance"]["settings"], settings(target), within=records.SETTINGS
    )
    return {**row, "where": target.where} if same else None  # the file may have moved


def _bound(target: Target, scores: Scores, seed: int, confidence: float) -> LowerBound:
    bound = target.bound(
        *scores,
        delta=target.delta,
        adjacency=target.adjacency,
        confidence=confidence,
        rng=np.random.default_rng([seed, 2]),
    )
    if not bound.epsilon >= 0:
        raise ArithmeticError(f"{target.id}: the bound on epsilon is {bound.epsilon}")
    return bound


def _histogram(scores: Scores) -> dict[str, list[float]]:
    """Both worlds' scores in bins of one width; the last bins hold all beyond the ends."""
    finite = [world[np.isfinite(world)] for world in scores]
    ends = [np.quantile(world, (SHOWN, 1 - SHOWN)) for world in finite if world.size]
    low, high = (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else (0.0, 1.0)
    margin = 0.05 * (high - low) or max(abs(high), 1.0)
    edges = np.linspace(low - margin, high + margin, BINS + 1)
    shown = {"edges": [float(f"{edge:.9g}") for edge in edges]}
    for name, world in scores._asdict().items():
        counts, _ = np.histogram(np.clip(world, edges[0], edges[-1]), edges)
        shown[name] = [float(f"{share:.4g}") for share in counts / counts.sum()]
    return shown

"""One command for a rented GPU: what holds there, how fast, and the papers' runs (`make gpu`).

Stages are stored in OUT as they end, and skipped if stored: correctness.json, bench-DEVICE.json,
speeds.json, then a part of a paper's table after another in results/. At the deadline children are
stopped; their checkpoints lie in OUT/cache, where the next call goes on with them.
"""

import ctypes
import heapq
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from subprocess import STDOUT, Popen
from time import monotonic, perf_counter, sleep
from typing import Any, NamedTuple

from dpkit.common.files import results_dir
from dpkit.common.records import read_json, write_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = Path(os.environ.get("OUT") or ROOT / "build" / "gpu").expanduser().absolute()
DEVICE, SCALE = os.environ.get("DEVICE") or "cuda", os.environ.get("SCALE") or "paper"
AT_ONCE, TF32 = int(os.environ.get("AT_ONCE") or 4), int(os.environ.get("TF32") or 0)
ONLY = tuple((os.environ.get("ONLY") or "").split(","))  # beginnings of tables' names
FIRST = (  # beginnings of names, in the order of their worth; the others come shortest first
    *("small_images classifier", "small_images common base", "small_images figure_1"),
    *("small_images figure_2 noise-1", "small_images figure_3 capacity-96"),
    *("small_images figure_3 capacity-128", "dpgan table_9 none", "dpgan table_2 all"),
    *("dpgan table_2 gan", "dpgan table_2 public", "small_images", "dpgan table_2", "dpgan"),
)
WARM_UP, STEPS, SECONDS, LOAD = 17, 14, 3.0, 40  # after a network's 16th batch; LOAD: to get there
ME, LIBC = str(Path(__file__).resolve()), ctypes.CDLL(None)
NEEDED = "filelock joblib pandas rich safetensors scipy sklearn threadpoolctl torch tqdm typer"
START = 15.0  # seconds of a run before its first step
Row = dict[str, Any]


class Job(NamedTuple):
    """A command, the job that it waits for, and the cache that it works in."""

    command: Sequence[str]
    after: str | None = None
    cache: Path = OUT / "cache"


def side_by_side(jobs: Mapping[str, Job], *, until: float, at_once: int = AT_ONCE) -> list[str]:
    """Run the jobs until a moment; the names of those that failed."""
    waiting, running, failed = dict(jobs), {}, []
    try:
        while (waiting or running) and monotonic() < until:
            for name, process in list(running.items()):
                if process.poll() is not None:
                    del running[name]
                    print(f"{'FAILED' if process.returncode else 'done'}: {name}", flush=True)
                    failed += [name] if process.returncode else []
            ready = [n for n, job in waiting.items() if job.after not in {*waiting, *running}]
            for name in ready[: at_once - len(running)]:
                running[name] = started(name, waiting.pop(name))
            sleep(0.1)
    finally:
        for process in running.values():
            process.kill()
        for process in running.values():
            process.wait()
    return failed


def started(name: str, job: Job) -> Popen[Any]:
    """The job's process, which dies with this one, on its share of the processors."""
    threads = str(max((os.cpu_count() or 1) // AT_ONCE, 1))
    paths = os.pathsep.join(map(str, (ROOT, HERE)))
    own = {"DPKIT_CACHE": str(job.cache), "PYTHONPATH": paths, "OMP_NUM_THREADS": threads}
    own |= {"DEVICE": DEVICE, "OUT": str(OUT), "SCALE": SCALE}
    if (ROOT / "data" / "cache").is_dir() and not os.environ.get("DPKIT_DATA"):
        own["DPKIT_DATA"] = str(ROOT / "data" / "cache")  # where data lie without DPKIT_CACHE
    log = OUT / "logs" / f"{name.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    dies = partial(LIBC.prctl, 1, signal.SIGKILL) if sys.platform == "linux" else None
    with log.open("ab") as file:
        how: Any = {"stdout": file, "stderr": STDOUT, "cwd": ROOT, "env": os.environ | own}
        return Popen([sys.executable, *job.command], preexec_fn=dies, **how)


def tables() -> dict[str, Any]:
    """The plan of each table that the kit does not store at this scale, the first ones first."""
    from dpkit.papers import PAPERS, comparison, plans_of
    from dpkit.papers.experiments.store import folder

    known = (*PAPERS, comparison)
    plans = {(p.NAME, t): plan for p in known for t, plan in plans_of(p.NAME, known).items()}
    del plans["comparison", "classifier"]  # which writes weights into the checkout
    new = {
        f"{paper} {table}": plan
        for (paper, table), plan in plans.items()
        if f"{paper} {table}".startswith(ONLY)
        and not any(folder(paper, table, scale=SCALE, results=results_dir()).glob("*.json"))
    }
    return {label: new[label] for label in sorted(new, key=rank)}


def rank(label: str) -> int:
    """Its place in FIRST; of a table that of its first part."""
    fits = (i for i, one in enumerate(FIRST) if label.startswith(one) or one.startswith(label))
    return next(fits, len(FIRST))


class Cut(Exception):
    """Enough steps were seen: their number in all, and the seconds of one."""


def timed(records: Iterable[Any], /, *, total: int, desc: str) -> Iterator[Any]:
    """The first records of a run, by a clock that waits for the device; then Cut.

    A warm start, named after a comma, is cut short, for the training behind it.
    """
    import training as device

    began = perf_counter()
    warm_up = done = min(WARM_UP, total // 2)
    for done, record in enumerate(records):
        if done == warm_up:
            device.wait()
            began = perf_counter()
        if done > warm_up and (done == warm_up + STEPS or perf_counter() - began > SECONDS):
            break
        yield record
    if not re.search(r"seed \d+, ", desc):
        device.wait()
        raise Cut(total, (perf_counter() - began) / max(done - warm_up, 1))


def measure(table: str) -> None:
    """Seconds a step of each part of a table, each stored as it is measured."""
    from dpkit.metrics.judge import Judge, initial

    def untrained(learning: Any, *, device: Any, progress: Any) -> Judge:
        return Judge(initial(learning, device).eval(), learning, 0.5, {}, 0.0)

    def late(*_: object) -> None:
        raise TimeoutError(f"no step in {LOAD} s")

    signal.signal(signal.SIGALRM, late)
    if not table.endswith("classifier"):
        scored: Any = import_module("dpkit.papers.small_images.experiments")
        scored.judge = untrained
    parts = tables()[table](scale=SCALE, seeds=1, device=DEVICE, progress=timed)
    path = OUT / "speeds" / f"{table}.json"
    rows: dict[str, Row] = {
        f"{table} {part.name}": {"after": part.after and f"{table} {part.after}"} for part in parts
    }
    write_json(path, rows)
    for part in parts:
        row = rows[f"{table} {part.name}"]
        if part.after is not None:
            continue
        signal.alarm(LOAD)
        try:
            part.compute()
            row["note"] = "shows no steps"
        except Cut as cut:
            row["steps"], row["seconds_a_step"] = cut.args
        except Exception as error:
            row["note"] = f"{type(error).__name__}: {error}"[:200]
        signal.alarm(0)
        write_json(path, rows)


def speeds(until: float) -> dict[str, Row]:
    """The parts of all tables by name, with their speeds side by side; stored.

    What was not listed in time is measured by the next call; here it is a table of one part, "*".
    """
    folder = OUT / "speeds"
    with tempfile.TemporaryDirectory() as cache:
        asked = {*tables()}
        for known in folder.glob("*.json"):
            rows = read_json(known).values()
            seen = all({"steps", "note"} & {*row} or row["after"] for row in rows)
            if seen and "DataNotFound" not in known.read_text():
                asked.discard(known.stem)
        for_table = {t: Job([ME, "measure", t], None, Path(cache) / t) for t in asked}
        jobs = {f"measure {t}": for_table[t] for t in sorted(asked, key=rank)}
        side_by_side(jobs, until=until)
    found = {path.stem: read_json(path) for path in folder.glob("*.json")}
    parts: dict[str, Row] = {}
    for one in tables():
        unknown = {f"{one} *": {"after": None, "note": "not listed in time: call again"}}
        parts |= found.get(one, unknown)
    write_json(OUT / "speeds.json", {"at_once": AT_ONCE, "parts": parts})
    return parts


def seconds(row: Row) -> float | None:
    """A run's time by its speed; None where it was not measured."""
    return START + row["steps"] * row["seconds_a_step"] if "steps" in row else None


def planned(parts: dict[str, Row], minutes: Sequence[float]) -> list[str]:
    """The parts in their order, printed with their times and whether they fit in the minutes."""

    def key(label: str) -> tuple[float, float]:
        return rank(label), seconds(parts[label]) or 1e9

    free = [0.0] * AT_ONCE
    fits = "".join(f"{f'in {m:g} min':>12}" for m in minutes)
    print(f"{'run':52}{'steps':>9}{'ms a step':>11}{'seconds':>9}{'ends at':>9}{fits}")
    order = sorted(parts, key=key)
    for label in order:
        row, needs = parts[label], seconds(parts[label])
        if needs is None:
            print(f"{label:52}  {row.get('note') or 'after ' + (row['after'] or 'measuring')}")
            continue
        end = heapq.heappop(free) + needs
        heapq.heappush(free, end)
        fits = "".join(f"{'yes' if end <= 60 * m else 'no':>12}" for m in minutes)
        step = 1000 * row["seconds_a_step"]
        print(f"{label:52}{row['steps']:9}{step:11.3g}{needs:9.0f}{end:9.0f}{fits}")
    print(f"{AT_ONCE} side by side; {START:g} s of each to start; scores are not counted.")
    return order


def stored(label: str) -> Path:
    """The file of a part's result."""
    paper, table, name = label.split()
    return OUT / "results" / paper / table / SCALE / f"{name}.json"


def main() -> int:
    """All stages; 1 where something failed."""
    if lacking := [name for name in NEEDED.split() if find_spec(name) is None]:
        raise SystemExit(f"{sys.executable} must have {', '.join(lacking)}: install them there")
    began, minutes = monotonic(), float(os.environ.get("MINUTES") or 25)
    until = began + 60 * minutes - 3  # to stop all
    over = f"the {minutes:g} minutes are over: call again, with what {OUT} holds"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(over))  # whatever goes on
    signal.alarm(max(int(60 * minutes), 1))
    asked, kept = {"device": DEVICE, "scale": SCALE, "tf32": TF32}, OUT / "asked.json"
    if kept.exists() and read_json(kept) != asked:
        raise SystemExit(f"OUT must be another folder: {OUT} holds results of {read_json(kept)}")
    write_json(kept, asked)
    failed, estimate = [], os.environ.get("ESTIMATE", "") not in ("", "0")
    bench = OUT / f"bench-{DEVICE}.json"
    if not estimate:
        checks = OUT / "correctness.json"
        first = {"correctness": (checks, Job([str(HERE / "on_device.py"), str(checks)]))}
        for name, (path, job) in (first | {"bench": (bench, Job([ME, "bench"]))}).items():
            if not path.exists():
                most = min(until, monotonic() + max(90, min(300, 12 * minutes)))
                failed += side_by_side({name: job}, until=most)
                if not path.exists() and monotonic() < until:
                    failed.append(f"{name}: nothing stored, see {OUT}/logs")
        if checks.exists():
            rows = read_json(checks)
            failed += [f"{name}: {row}" for name, row in rows.items() if not row.get("ok", True)]
    parts = speeds(min(until, monotonic() + 60 * minutes * (1 if estimate else 0.15)))
    order = planned(parts, sorted({minutes, 25, 300}) if estimate else (minutes,))
    if not estimate:
        run = ["-m", "dpkit", "reproduce"]
        how = ["--scale", SCALE, "--seeds", "1", "--device", DEVICE, "--results", f"{OUT}/results"]
        how += ["--tf32"] * TF32
        jobs = {}
        for label in order:
            paper, table, name = label.split()
            if not stored(label).exists():
                only = [] if name == "*" else ["--parts", name]
                command = [*run, paper, table, *only, *how]
                jobs[label] = Job(command, parts[label]["after"])
        failed += side_by_side(jobs, until=until)
        left = [label for label in order if label[-1] != "*" and not stored(label).exists()]
        print(f"{len(list(OUT.glob('results/*/*/*/*.json')))} parts are stored, {len(left)} left")
    print(*(f"FAILED: {one}" for one in failed), f"{monotonic() - began:.0f} s; {OUT}", sep="\n")
    return int(bool(failed))


def benched() -> None:
    """The benchmarks of training, on a CPU of one network."""
    import bench
    import training

    bench.OUTPUT = OUT / f"bench-{DEVICE}.json"
    bench.benchmarks = lambda _: iter([training])
    if DEVICE == "cpu":
        training.REPEATS, training.CASES = 1, {"mlp": training.CASES["mlp"]}
    bench.main()


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:])
    elif sys.argv[1:] == ["bench"]:
        benched()
    else:
        sys.exit(main())

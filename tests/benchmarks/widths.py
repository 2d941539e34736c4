"""How wide the certified pair is over random settings: prints shares, draws docs/widths.png.

`python tests/benchmarks/widths.py 1000` (minutes). With `--peer` each setting is also asked of
dp-accounting, from below and from above, which must contradict neither end (hours).

Settings are log-uniform over noise .2 to 20, rate 1e-9 to 1, steps 1 to 1e9, delta 1e-15 to .1,
seed 0; those are kept whose epsilon lies in .001 to 100.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from resource import RLIMIT_AS, setrlimit
from signal import ITIMER_REAL, SIGALRM, default_int_handler, setitimer, signal
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dpkit.common import plots
from dpkit.privacy import Release, SampledGaussian, pld

PICTURE = Path(__file__).parents[2] / "docs/widths.png"
RANGES = ((0.2, 20), (1e-9, 1), (1, 1e9), (1e-15, 0.1))
WIDTHS = (0.001, 0.01, 1.0)  # relative, of the classes in the picture
PEERS_ERROR = 1e-13, 2.0**-51  # of its deltas, by rounding, and more a step: it does not say so
MEMORY, SECONDS = 2**30, 5  # bytes and time, after which the peer is asked on no finer grid


class Width(NamedTuple):
    """A setting, its pair, and the seconds that it took."""

    noise: float
    rate: float
    steps: int
    delta: float
    lower: float
    epsilon: float
    seconds: float

    @property
    def relative(self) -> float:
        return 1 - self.lower / self.epsilon


def widths(count: int, *, rng: np.random.Generator) -> Iterator[Width]:
    """The first `count` of the settings that are kept."""
    while count:
        noise, rate, steps, delta = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in RANGES)
        ledger, begun = [Release(SampledGaussian(noise, rate), round(steps))], perf_counter()
        found = pld.epsilon(ledger, delta=delta)
        seconds = perf_counter() - begun
        if found.epsilon >= 1e-3 and found.lower <= 100:
            count -= 1
            yield Width(noise, rate, round(steps), delta, found.lower, found.epsilon, seconds)


def contradicted(width: Width) -> str | None:
    """What dp-accounting's bounds say against the pair, or nothing; None without an answer."""
    from dp_accounting.pld import privacy_loss_distribution as peer

    noise, rate, steps, delta = width[:4]
    doubt = PEERS_ERROR[0] + PEERS_ERROR[1] * steps
    if delta < 2 * doubt:
        return None
    finest, said = max(1e-3 * width.epsilon / max(steps**0.5, 1), 40 / noise**2 / 1e6), None
    signal(SIGALRM, default_int_handler)
    setitimer(ITIMER_REAL, SECONDS)
    with suppress(MemoryError, KeyboardInterrupt):
        for interval in finest * 10.0 ** -np.arange(-3, 1):
            deltas = []
            for above, at in ((False, width.epsilon), (True, width.lower)):
                how: Any = {"pessimistic_estimate": above, "use_connect_dots": above}
                how |= {"sampling_prob": rate, "value_discretization_interval": interval}
                one = peer.from_gaussian_mechanism(noise, **how).self_compose(steps)
                deltas.append(one.get_delta_for_epsilon(at))
            wrong = deltas[0] > delta * (1 + 1e-6) + doubt
            wrong |= deltas[1] < delta * (1 - 1e-6) - doubt
            said = said or (f"{width} against {deltas}" if wrong else "")
    setitimer(ITIMER_REAL, 0)
    return said


def draw(found: list[Width], path: Path) -> None:
    """Settings by the mean number of draws of a record and by delta, coloured by width."""
    drawn, (ax,) = plots.figure(width=7.0, height=3.6)
    at = np.array([(one.rate * one.steps, one.delta) for one in found])
    relative, least = np.array([one.relative for one in found]), -1.0
    names = ("within 0.1 %", "within 1 %", "wider")
    for most, name, colour in zip(WIDTHS, names, plots.COLOURS, strict=False):
        here = (relative > least) & (relative <= most)
        ax.plot(
            *at[here].T,
            ".",
            color=colour,
            markersize=4 if most < 0.01 else 6,
            label=f"{name}: {here.sum():,}",
        )
        least = most
    ax.set(xscale="log", yscale="log", ylabel="delta")
    ax.set_xlabel("sample rate times steps: how often a record is drawn, on average")
    ax.legend(fontsize=8, frameon=False, loc="upper left")
    path.write_bytes(plots.picture(drawn, "widths of certified pairs").png())


def main(count: int, *, peer: bool) -> None:
    found, answers = [], Counter[bool]()
    if peer:
        setrlimit(RLIMIT_AS, (MEMORY, MEMORY))
    for one in widths(count, rng=np.random.default_rng(0)):
        found.append(one)
        if peer:
            said = contradicted(one)
            answers[said is not None] += 1
            if said:
                print("contradicted:", said, flush=True)
    relative = np.array([one.relative for one in found])
    print(f"the peer was asked of {answers[True]}, and not of {answers[False]}")
    print([f"{100 * (relative <= most).mean():.1f} % within {most}" for most in WIDTHS[:2]])
    print(f"the slowest took {max(one.seconds for one in found):.2f} s")
    for i in np.argsort(-relative)[:20]:
        print(f"{relative[i]:.3g} {found[i]}")
    draw(found, PICTURE)


if __name__ == "__main__":
    main(int(sys.argv[1]), peer="--peer" in sys.argv)

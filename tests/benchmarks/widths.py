"""How wide the certified pair is over random settings: prints shares, draws docs/widths.png.

`python tests/benchmarks/widths.py 1000` (minutes). With `--peer` each setting is also asked of
dp-accounting, from below and from above, which must contradict neither end (hours).

Settings are log-uniform over noise .2 to 20, rate 1e-9 to 1, steps 1 to 1e9, delta 1e-15 to .1,
seed 0; those are kept whose epsilon lies in .001 to 100.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from dpkit.common import plots
from dpkit.privacy import Release, SampledGaussian, pld

PICTURE = Path(__file__).parents[2] / "docs/widths.png"
RANGES = ((0.2, 20), (1e-9, 1), (1, 1e9), (1e-15, 0.1))
WIDTHS = (0.001, 0.01, 1.0)  # relative, of the classes in the picture


class Setting(NamedTuple):
    noise: float
    rate: float
    steps: int
    delta: float

    @property
    def ledger(self) -> list[Release]:
        return [Release(SampledGaussian(self.noise, self.rate), self.steps)]


class Width(NamedTuple):
    """A setting, its pair, and the seconds that it took."""

    setting: Setting
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
        setting = Setting(noise, rate, round(steps), delta)
        begun = perf_counter()
        found = pld.epsilon(setting.ledger, delta=delta)
        seconds = perf_counter() - begun
        if found.epsilon >= 1e-3 and found.lower <= 100:
            count -= 1
            yield Width(setting, found.lower, found.epsilon, seconds)


def contradicted(width: Width) -> str:
    """What dp-accounting says against the pair, if it does."""
    from dp_accounting.pld import privacy_loss_distribution as peer

    noise, rate, steps, delta = width.setting
    bounds = []
    for above in (False, True):
        how = {"sampling_prob": rate, "pessimistic_estimate": above, "use_connect_dots": above}
        # as fine as a peer's grid of 10^6 cells holds
        how["value_discretization_interval"] = max(
            1e-4 * width.epsilon / max(steps**0.5, 1), 40 / noise**2 / 1e6
        )
        one = peer.from_gaussian_mechanism(noise, **how)
        bounds.append(one.self_compose(steps).get_epsilon_for_delta(delta))
    if bounds[0] * (1 - 1e-6) > width.epsilon or width.lower * (1 - 1e-6) > bounds[1]:
        return f"{width} against {bounds}"
    return ""


def draw(found: list[Width], path: Path) -> None:
    """Settings by the mean number of draws of a record and by delta, coloured by width."""
    drawn, (ax,) = plots.figure(width=7.0, height=3.6)
    at = np.array([(one.setting.rate * one.setting.steps, one.setting.delta) for one in found])
    relative, least = np.array([one.relative for one in found]), -1.0
    names = ("within 0.1 %", "within 1 %", "wider")
    for most, name, colour in zip(WIDTHS, names, plots.COLOURS, strict=False):
        here = (relative > least) & (relative <= most)
        ax.plot(*at[here].T, ".", color=colour, markersize=4, label=f"{name}: {here.sum():,}")
        least = most
    ax.set(xscale="log", yscale="log", ylabel="delta")
    ax.set_xlabel("sample rate times steps: how often a record is drawn, on average")
    ax.legend(fontsize=8, frameon=False, loc="lower right")
    path.write_bytes(plots.picture(drawn, "widths of certified pairs").png())


def main(count: int, *, peer: bool) -> None:
    found = []
    for one in widths(count, rng=np.random.default_rng(0)):
        found.append(one)
        if peer and (said := contradicted(one)):
            print("contradicted:", said, flush=True)
    relative = np.array([one.relative for one in found])
    print([f"{100 * (relative <= most).mean():.1f} % within {most}" for most in WIDTHS[:2]])
    print(f"the slowest took {max(one.seconds for one in found):.2f} s")
    for i in np.argsort(-relative)[:20]:
        print(f"{relative[i]:.3g} {found[i]}")
    draw(found, PICTURE)


if __name__ == "__main__":
    main(int(sys.argv[1]), peer="--peer" in sys.argv)

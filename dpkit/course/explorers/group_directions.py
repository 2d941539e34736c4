"""Groups of a gradient: dpGAN's two ways to count them beside one record's reach in all."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, counted, interval, short
from dpkit.course.explorers.certified import LEAST_CERTIFIED, certified, finding
from dpkit.course.explorers.controls import choice, logarithmic, whole
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.papers.claims import OPACUS_ORDERS
from dpkit.papers.dpgan.settings import MNIST, TABLE_7
from dpkit.privacy import GroupedGaussian, Release, SampledGaussian, rdp
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.sampling import ShuffledBatches

CHARGED, ADDED = "as charged", "as the code adds it"
NOISES = (CHARGED, ADDED)
EACH = 64  # examples a device
DELTA, RECORDS = MNIST.target_delta, MNIST.private_examples
LEAST = (
    math.log10(MNIST.noise_multiplier) - 0.5
)  # so that the slider stops at the paper's noise
LEAST_NOISE, MOST_NOISE = 0.1, 1e4
MOST_GROUPS, MOST_DEVICES, MOST_ITERATIONS = 16, 16, 100_000
GROUPS = (1, 2, 5, 7, 9)
DEVICES = {f"1 x {EACH}": 1, f"4 x {EACH}": 4}
MOST_SHOWN = 3000  # iterations of the slider and the picture
COUNTS = tuple(int(n) for n in np.geomspace(10, MOST_SHOWN, 31))  # of the curves
DRAWS, SEED = 150, 5  # of the noise, the same each time but for its size
NAMES = {"claimed, Thm 4.1": "alone", "proven, together": "together", "charged": "charge"}
ALONE, TOGETHER, CHARGE = plots.colours(NAMES).values()
HEADINGS = (f"epsilon at delta {short(DELTA)} of", "value", "by", "assumes", "finding")
BY_RDP = "RDP, classic, the paper's orders"
PARTS = (
    "Parallel composition is for disjoint parts of the data. Groups are parts of the parameters: "
    "every one is computed from the same batch, so one record moves them all, by C sqrt(k)."
)


class GroupDirections(Explorer):
    """Groups clipped apart: one alone, each charged by itself, and all together.

    It opens with the paper's run on MNIST before grouping: seven groups, 560 iterations.
    """

    title = "How far does one record move k groups?"
    controls: ClassVar = {
        "groups": choice(
            "groups k",
            {str(k): k for k in GROUPS},
            "Parts of the gradient clipped apart: 7 are the tensors, 5 have one of biases",
            value=7,
        ),
        "noise_multiplier": logarithmic(
            "noise multiplier z",
            LEAST,
            LEAST + 1.5,
            MNIST.noise_multiplier,
            "Noise standard deviation / clip norm, of each group; the paper: "
            f"{MNIST.noise_multiplier:.4f}",
            continuous_update=False,
        ),
        "devices": choice(
            "devices x batch", DEVICES, "The paper's runs are on four devices", value=4
        ),
        "noise": choice(
            "noise", NOISES, "z C, or what the public code's division leaves of it"
        ),
        "iterations": whole(
            "iterations",
            10,
            MOST_SHOWN,
            TABLE_7["mnist"][0],
            "Each of 4 critic steps; Table 7 allows 560 to 7 groups, 780 to 5",
            step=10,
            continuous_update=False,
        ),
    }
    presets: ClassVar = {
        "one group": {"groups": 1},
        "the noise that the code adds": {"noise": ADDED},
        "twice the noise": {"noise_multiplier": 2.0},
    }

    @staticmethod
    def compute(
        *, groups: int, noise_multiplier: float, devices: int, noise: str, iterations: int
    ) -> Result:
        """Epsilon at delta 1e-5, by who counts: `alone`, `charge`, `together`, `pair`.

        `alone` is one group's, `charge` that of each group as a release with its own batch, both
        at the noise that is charged; `together` and the certified `pair` (lower, upper) are of all
        groups of one batch at the chosen noise. The first three are RDP at the paper's orders with
        the classic conversion, the pair is PLD's; all under add-remove, batches taken as Poisson.
        Lengths are in units of the clip norm C: `noise_std` lies on each coordinate of the clipped
        sum, which a record moves by up to `sensitivity`.

        Args:
            groups: k, each clipped at C.
            noise_multiplier: z, charged for each group.
            devices: each with 64 examples of the batch.
            noise: one of NOISES. The code's is smaller by sqrt(batch) / devices.
            iterations: of the generator, each of 4 steps of the critic.
        """
        checks.whole(1, groups=groups, devices=devices, iterations=iterations)
        checks.in_range(1, MOST_GROUPS, groups=groups)
        checks.in_range(1, MOST_DEVICES, devices=devices)
        checks.in_range(1, MOST_ITERATIONS, iterations=iterations)
        checks.in_range(LEAST_NOISE, MOST_NOISE, noise_multiplier=noise_multiplier)
        checks.one_of(NOISES, noise=noise)
        settings = replace(  # the paper's run on MNIST, with these
            MNIST,
            noise_multiplier=noise_multiplier,
            sampling=ShuffledBatches(EACH * devices),
            devices=devices,
            noise_over_sqrt_batch=noise == ADDED,
        )
        rate = settings.expected_batch_size / settings.private_examples
        added = noise_multiplier / settings.noise_divisor
        run = {
            **{"groups": groups, "noise_multiplier": noise_multiplier, "devices": devices},
            **{"noise": noise, "iterations": iterations},
            "batch": settings.expected_batch_size,
            "sample_rate": rate,
            "steps": MNIST.critic_steps * iterations,
            "noise_std": added,
            "divisor": settings.noise_divisor,
            "sensitivity": math.sqrt(groups),
            "effective": GroupedGaussian(added, groups, rate).one.noise_multiplier,
        }
        curves = {name: values[0] for name, values in by_iteration(run, [iterations]).items()}
        return {
            **run,
            **curves,
            "pair": certified(run["effective"], rate, run["steps"], DELTA),
        }

    def says(self, result: Result) -> str:
        """Compare the code's charge with the cost of all groups together."""
        return (
            f"The code charges epsilon {at_most(result['charge'], 3)}; "
            f"{_together(result['groups'])} cost {interval(*result['pair'], digits=3)} at delta "
            f"{short(DELTA)}."
        )

    def table(self, result: Result) -> Table:
        """A row for each way to count, with notes on a record's and the noise's move of a sum."""
        k, z = result["groups"], result["noise_multiplier"]
        charged, added = f"noise {z:.4g} C", f"noise {result['noise_std']:.4g} C"
        pair = result["pair"]
        moves = f"a record moves {_reach(k)}; {added}"
        by_rdp = {
            "alone": (
                "one group alone: Theorem 4.1's parallel composition",
                f"a record moves one group; {charged}",
            ),
            "charge": (
                f"{counted(k, 'release')} a step: the code's charge",
                f"a separate batch for each group; {charged}",
            ),
            "together": (f"{_together(k)}: RDP", moves),
        }
        rows = [
            (name, at_most(result[key]), BY_RDP, assumed, finding(result[key], pair))
            for key, (name, assumed) in by_rdp.items()
        ]
        proven = "proven from both sides" if math.isfinite(pair[1]) else "no bound found"
        if result["effective"] < LEAST_CERTIFIED:
            proven = (
                f"not computed: noise below {short(LEAST_CERTIFIED)} of what a record moves"
            )
        rows.append((f"{_together(k)}: certified", interval(*pair), "PLD", moves, proven))
        run = (
            f"All of {result['steps']} critic steps, add-remove, Poisson batches at rate "
            f"{result['batch']} / {RECORDS:,} (the code shuffles), clip norms that do not depend "
            "on private data."
        )
        return Table(HEADINGS, rows, (run, _of_the_noise(result), PARTS))

    def draw(self, result: Result) -> plots.Picture:
        """Draw left two groups, a record's move and the noise, right epsilon by iterations."""
        room = {"left": 0.07, "right": 0.87, "bottom": 0.12, "top": 0.85, "wspace": 0.3}
        figure, (left, right) = plots.figure(width=9.8, height=4.1, panels=2, **room)
        left.set_visible(False)  # while names find their places
        _draw_by_iteration(right, result)
        left.set_visible(True)
        _draw_groups(left, result)
        k = result["groups"]
        words = (
            f"Left: one record moves {_reach(k)}, the noise on each coordinate is "
            f"{result['noise_std']:.3g} C. Right: after {result['iterations']} iterations one "
            f"group alone costs {at_most(result['alone'], 3)}, the code charges "
            f"{at_most(result['charge'], 3)}, and {_together(k)} "
            f"{'costs' if k == 1 else 'cost'} {at_most(result['together'], 3)} by RDP, "
            f"{interval(*result['pair'])} by PLD."
        )
        return plots.picture(figure, words)


def by_iteration(run: Result, iterations: Sequence[int]) -> dict[str, list[float]]:
    """The RDP epsilons `alone`, `charge` and `together` after each count of iterations."""
    rate, charged, groups = run["sample_rate"], run["noise_multiplier"], run["groups"]
    steps = [MNIST.critic_steps * count for count in iterations]
    return {
        "alone": [epsilon(charged, rate, n) for n in steps],
        "charge": [epsilon(charged, rate, groups * n) for n in steps],
        "together": [epsilon(run["effective"], rate, n) for n in steps],
    }


def epsilon(noise_multiplier: float, sample_rate: float, releases: int) -> float:
    """RDP's epsilon at delta 1e-5, classic conversion, the least over the paper's orders."""
    orders, costs = _curve(noise_multiplier, sample_rate)
    return float(np.min(rdp.classic(orders, releases * costs, DELTA)))


@lru_cache(maxsize=64)
def _curve(noise_multiplier: float, sample_rate: float) -> tuple[Floats, Floats]:
    """One release's RDP at the paper's 151 orders; slow where the noise is small."""
    return rdp.curve([Release(SampledGaussian(noise_multiplier, sample_rate))], OPACUS_ORDERS)


def _together(groups: int) -> str:
    return "the one group" if groups == 1 else f"all {groups} groups together"


def _reach(groups: int) -> str:
    """One record's move of the clipped sum, in words."""
    if groups == 1:
        return "the one group by up to C"
    return f"{groups} groups by up to C sqrt({groups}) = {math.sqrt(groups):.4g} C"


def _of_the_noise(result: Result) -> str:
    over = f"Noise over what a record moves: {at_least(result['effective'])}."
    if result["noise"] == CHARGED:
        return f"The noise is the one that is charged. {over}"
    devices = counted(result["devices"], "device")
    return (
        f"The code clips g / B at C, takes the mean over {devices}, and divides the noise by "
        f"sqrt({result['batch']}): {result['divisor']:.4g} times less than z C. {over}"
    )


def _draw_groups(ax: Axes, result: Result) -> None:
    """The plane of two groups, one direction of each: lengths in units of C."""
    k, noise = result["groups"], result["noise_std"]
    corner = (1.0, 1.0 if k > 1 else 0.0)
    clouds = noise * np.random.default_rng(SEED).standard_normal((2, DRAWS, 2))
    reach = max(1.75, 1.1 + 2.6 * noise)
    for cloud, place, colour in zip(
        clouds, ((0.0, 0.0), corner), ("0.45", TOGETHER), strict=True
    ):
        ax.scatter(*(cloud + place).T, s=7, color=colour, alpha=0.45, linewidths=0)
    ax.add_patch(Circle((0, 0), 1, fill=False, edgecolor=ALONE, linewidth=1.6))
    if k > 1:
        box = Rectangle((-1, -1), 2, 2, fill=False, edgecolor=TOGETHER, linewidth=1.6)
        ax.add_patch(box)
    arrow = {
        "arrowstyle": "-|>",
        "color": "black",
        "linewidth": 1.5,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    ax.annotate("", corner, (0, 0), zorder=4, arrowprops=arrow)
    here = "C" if k == 1 else "C√2" if k == 2 else f"C√2 here, C√{k} for all {k}"
    plots.note(ax, here, corner, (12, 7), ha="right", va="bottom", zorder=5)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    shapes = (
        "circle: clipped at C" if k == 1 else "circle: a joint clip; square: a clip by group"
    )
    ax.set_title(
        y=1.0,
        label=f"{shapes}\nnoise {noise:.3g} C: grey without the record, blue with it",
        fontsize=9,
    )
    one, other = ("one coordinate", "another") if k == 1 else ("one group", "another group")
    ax.set_xlabel(f"{one} (units of C)")
    ax.set_ylabel(f"{other} (units of C)")


def _draw_by_iteration(ax: Axes, result: Result) -> None:
    now = result["iterations"]
    counts = sorted({*COUNTS, now})
    epsilons = by_iteration(result, counts)
    curves: Any = {shown: (counts, epsilons[name]) for shown, name in NAMES.items()}
    low, high = result["pair"]
    everything = [value for one in epsilons.values() for value in one]
    bottom = min(*everything, low or math.inf, MNIST.target_epsilon) / 2
    top = 2 * max(*everything, MNIST.target_epsilon)
    ax.set(xlim=(0, counts[-1]), ylim=(bottom, top))
    shown = "left", "bottom", "labelleft", "labelbottom"
    ax.tick_params(which="both", **dict.fromkeys(shown, False))  # until they are few and plain
    plots.lines(
        ax, curves, x="iterations", y=f"epsilon at delta {short(DELTA)}", y_scale="log"
    )
    few = (1.0,) if top > 1000 * bottom else (1.0, 2.0, 5.0)
    plots.plain(ax.yaxis, subs=few, numticks=8)
    ax.tick_params(**dict.fromkeys(shown, True))
    ax.axvline(now, color="0.4", linestyle=":", linewidth=1)
    ax.axhline(MNIST.target_epsilon, color="0.4", linestyle="--", linewidth=1)
    for name, colour in (("alone", ALONE), ("together", TOGETHER), ("charge", CHARGE)):
        ax.plot(now, result[name], "o", color=colour, markersize=5, zorder=3, clip_on=False)
    if math.isfinite(high):
        ax.plot([now, now], [low, high], color="black", linewidth=2, zorder=4)
        ax.plot(now, high, "D", color="black", markersize=6, zorder=4, clip_on=False)
    certified_now = f"◆ certified: {interval(*result['pair'])}"
    ax.set_title(
        y=1.0,
        label=f"{certified_now}\ndashed: the target, {MNIST.target_epsilon:g}",
        fontsize=9,
    )

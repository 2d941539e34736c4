"""Clipping and noise at work: a cloud of gradients in 2-D, and one record that moves."""

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle, Rectangle

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.course.explorers.controls import (
    Control,
    RoundSlider,
    choice,
    degrees,
    noise_control,
    whole,
)
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.papers.small_images.prior_work import ClippedAfterMean
from dpkit.privacy import Gaussian, Release, gdp
from dpkit.privacy.clipping import FlatClipping, GroupClipping, PerCoordinateClipping

WRONG = "after the mean (wrong)"
RULES = ("flat", "per coordinate", "per group", WRONG)
DELTA = 1e-5
MOST_EXAMPLES = 500  # that a picture can still show
ROOM: Any = {"left": 0.11, "right": 0.985, "bottom": 0.13, "top": 0.92, "wspace": 0.3}
SEED = 7  # of the cloud: a batch of more examples holds those of fewer
BEFORE, WITHOUT, WITH = "#808080", plots.COLOURS[0], plots.COLOURS[1]


class ClippingAndNoise(Explorer):
    """A batch's gradients, clipped and noised, with and without one more record.

    It opens with forty gradients clipped flat at 1, noise multiplier 1.1, a record of length 5.
    """

    title = "What does clipping bound, and what does noise hide?"
    controls: ClassVar = (
        Control(
            *("rule", choice, RULES[0], RULES, "rule"),
            "What is clipped: each example, or only the mean",
        ),
        Control(
            *("max_grad_norm", RoundSlider, 1.0, (0.1, 10), "clip norm"),
            "Of an example, a coordinate, a group, or the mean",
        ),
        noise_control(1.1, 0.1, 10),
        Control(
            *("batch_size", whole, 40, (1, MOST_EXAMPLES), "batch size"),
            "Examples in the batch",
        ),
        Control(
            *("length", RoundSlider, 5.0, (0.1, 10_000), "record's length"),
            "L2 norm of the one record's gradient",
        ),
        Control(
            *("angle", degrees, 120.0, (0, 360), "record's angle"),
            "Degrees from the first coordinate",
        ),
    )
    presets: ClassVar = {
        "one very long record": {"length": 1000.0},
        "the same, clipped after the mean": {"length": 1000.0, "rule": WRONG},
        "per coordinate": {"rule": "per coordinate"},
    }

    @staticmethod
    def compute(
        *,
        rule: str,
        max_grad_norm: float,
        noise_multiplier: float,
        batch_size: int,
        length: float,
        angle: float,
    ) -> Result:
        """The releases with and without the record, and its protection.

        Gradients are arrays (batch, 2); "per group" takes each coordinate as a group. `claimed`
        and `proven` hold the noise multiplier and epsilon of one step (`lower` is the same but for
        rounding); they differ where clipping comes after the mean.
        """
        checks.one_of(RULES, rule=rule)
        checks.positive(max_grad_norm=max_grad_norm, noise_multiplier=noise_multiplier)
        checks.whole(1, batch_size=batch_size)
        checks.in_range(1, MOST_EXAMPLES, batch_size=batch_size)
        checks.non_negative(length=length)
        checks.in_range(-360, 360, angle=angle)
        cloud = gradients(batch_size)
        turned = math.radians(angle)
        record = length * np.array([[math.cos(turned), math.sin(turned)]])
        released = _after_mean if rule == WRONG else partial(_each_example, rule)
        release = released(cloud, record, max_grad_norm, noise_multiplier)
        claimed, proven = release.pop("multipliers")
        return {
            "rule": rule,
            "max_grad_norm": max_grad_norm,
            "batch_size": batch_size,
            "claimed": _priced(claimed),
            "proven": _priced(proven),
            "cloud": cloud,
            "record": record[0],
            "length": length,
            "moved": float(np.linalg.norm(release["with"] - release["without"])),
            **release,
        }

    def says(self, result: Result) -> str:
        """State the record's move of the release, and a step's cost."""
        proven = at_most(result["proven"]["epsilon"])
        claimed = at_most(result["claimed"]["epsilon"])
        claim = f", not the {claimed} that is claimed" if result["rule"] == WRONG else ""
        return (
            f"This record moves the {'mean' if result['rule'] == WRONG else 'sum'} by "
            f"{result['moved']:.4g}; one step costs epsilon {proven}{claim} "
            f"(delta {short(DELTA)})."
        )

    def table(self, result: Result) -> Table:
        """The record's move against sensitivity and noise; claimed beside proven for the slip."""
        wrong = result["rule"] == WRONG
        both = result["claimed"], result["proven"]
        moved, noise_std = (f"{result[name]:.4g}" for name in ("moved", "noise_std"))
        sensitivity = map(at_most, result["sensitivity"])
        noise = (at_least(one["noise"]) for one in both)
        epsilon = (at_most(one["epsilon"]) for one in both)
        clipped = f"{result['clipped']:.1%}"
        rows = [
            (f"this record moves the {'mean' if wrong else 'sum'} by", moved, moved),
            ("any record moves it by at most (sensitivity)", *sensitivity),
            ("noise standard deviation, each coordinate", noise_std, noise_std),
            ("noise multiplier of what is released", *noise),
            (f"epsilon of one step, delta {short(DELTA)} (exact)", *epsilon),
            ("share of examples that are clipped", clipped, clipped),
        ]
        notes = (_note(result), "A record is added or removed, no sampling.")
        if wrong:
            return Table(("quantity", "claimed", "proven"), rows, notes)
        return Table(("quantity", "value"), [(name, value) for name, _, value in rows], notes)

    def draw(self, result: Result) -> plots.Picture:
        """Draw left the gradients before and after clipping, right the release with its noise."""
        figure, (left, right) = plots.figure(width=7.2, height=3.8, panels=2, **ROOM)
        _draw_gradients(left, result)
        _draw_released(right, result)
        claimed, proven = (at_most(result[name]["epsilon"]) for name in ("claimed", "proven"))
        claim = f" (claimed: {claimed})" if result["rule"] == WRONG else ""
        words = (
            f"Left: {result['batch_size']} gradients, clipping {result['rule']} at "
            f"{result['max_grad_norm']:.3g}; {result['clipped']:.0%} of them are clipped. Right: "
            f"the record, of length {result['length']:.3g}, moves what is released by "
            f"{result['moved']:.4g}; any record by at most {at_most(result['sensitivity'][1])}; "
            f"noise {result['noise_std']:.3g}. Epsilon of one step: at most {proven}{claim}."
        )
        return plots.picture(figure, words)


def gradients(batch_size: int) -> np.ndarray:
    """The cloud, the same each time, (batch_size, 2): most gradients point one way."""
    normal = np.random.default_rng(SEED).standard_normal((batch_size, 2))
    return np.array([0.8, 0.5]) + normal * np.array([0.9, 0.6])


def _each_example(
    rule: str, cloud: np.ndarray, record: np.ndarray, bound: float, noise_multiplier: float
) -> Result:
    """Clip every example, then sum."""
    both = np.concatenate([cloud, record])
    proven = noise_multiplier
    if rule == "flat":
        chosen = FlatClipping(bound)
        after = both * chosen.weights(np.linalg.norm(both, axis=1)[None])[0][:, None]
        noise_std = noise_multiplier * bound
    elif rule == "per coordinate":
        chosen = PerCoordinateClipping((np.full(2, bound),))
        after = chosen.clip([both])[0]
        noise_stds = chosen.noise_stds(noise_multiplier)
        noise_std = float(noise_stds[0][0])
        proven = chosen.mechanism(noise_stds).noise_multiplier
    else:
        chosen = GroupClipping((bound, bound), (0, 1))
        after = both * chosen.weights(abs(both).T).T
        noise_std = chosen.noise_stds(noise_multiplier)[0]
        proven = chosen.mechanism(noise_multiplier=noise_multiplier).one.noise_multiplier
    sensitivity = chosen.sensitivity("add-remove")
    return {
        "after": after[:-1],
        "record_after": after[-1],
        "without": after[:-1].sum(0),
        "with": after.sum(0),
        "noise_std": noise_std,
        "sensitivity": (sensitivity, sensitivity),
        "clipped": float((after[:-1] != cloud).any(axis=1).mean()),
        "multipliers": (proven, proven),
    }


def _after_mean(
    cloud: np.ndarray, record: np.ndarray, bound: float, noise_multiplier: float
) -> Result:
    """Clip the mean alone: sums over the batch size, with the record and without."""
    wrong = ClippedAfterMean(bound, len(cloud))
    means = cloud.sum(0) / len(cloud), (cloud.sum(0) + record[0]) / len(cloud)
    without, moved = (wrong.clip([mean])[0] for mean in means)
    noise_std = wrong.noise_std(noise_multiplier)
    return {
        "after": cloud,
        "record_after": record[0],
        "without": without,
        "with": moved,
        "means": means,
        "noise_std": noise_std,
        "clipped": 0.0,
        "sensitivity": (
            wrong.claimed_sensitivity("add-remove"),
            wrong.sensitivity("add-remove"),
        ),
        "multipliers": (noise_multiplier, noise_std / wrong.sensitivity("add-remove")),
    }


def _priced(noise: float) -> dict[str, float]:
    pair = gdp.epsilon([Release(Gaussian(noise))], delta=DELTA)  # exact for a Gaussian
    return {"noise": noise, "epsilon": pair.epsilon, "lower": pair.lower}


def _note(result: Result) -> str:
    bound = f"{result['max_grad_norm']:.3g}"
    return {
        "flat": f"Every gradient is scaled to length {bound} or less: one circle, one bound.",
        "per coordinate": f"Every coordinate is cut to [-{bound}, {bound}]: a record moves both, "
        "and each gets the square root of 2 times the noise, so the noise multiplier is kept.",
        "per group": f"Every group is clipped at {bound} and noised for {bound}; one record moves "
        "both groups, so the noise multiplier of the two together is smaller by the square root "
        "of 2.",
        WRONG: "No example is clipped, the mean is: a large record turns it across the ball of "
        f"radius {bound}, while the noise is that of a mean of clipped examples. What was claimed "
        f"is {2 * result['batch_size']} times the noise multiplier that is left.",
    }[result["rule"]]


def _draw_gradients(ax: Axes, result: Result) -> None:
    cloud, after = result["cloud"], result["after"]
    bound, wrong = result["max_grad_norm"], result["rule"] == WRONG
    size = 14 if len(cloud) <= 100 else 6
    reach = 1.12 * max(float(abs(cloud).max()), 1.3 * bound)
    if not wrong:
        ax.scatter(*after.T, s=size, color=WITHOUT, linewidths=0)
        paths = np.stack([cloud, after], axis=1)  # (batch, 2 ends, 2 coordinates)
        ax.add_collection(
            LineCollection(list(paths), colors=BEFORE, linewidths=0.6, alpha=0.6)
        )
    ax.scatter(*cloud.T, s=size, facecolors="none", edgecolors=BEFORE, linewidths=0.8)
    if result["rule"] in RULES[1:3]:
        shape: Any = Rectangle((-bound, -bound), 2 * bound, 2 * bound, fill=False)
    else:
        shape = Circle((0, 0), bound, fill=False)
    shape.set(edgecolor="black", linewidth=1.2, linestyle="--")
    ax.add_patch(shape)
    if wrong:
        ax.scatter(*result["without"], s=45, marker="D", color=WITHOUT, zorder=3)
        ax.scatter(*result["with"], s=45, marker="D", color=WITH, zorder=3)
    record, kept = result["record"], result["record_after"]
    ax.plot([0, record[0]], [0, record[1]], color=WITH, linewidth=1, linestyle=":")
    ax.scatter(*record, s=30, facecolors="none", edgecolors=WITH, linewidths=1.5, zorder=3)
    if not wrong:
        ax.scatter(*kept, s=30, color=WITH, zorder=3)
    outside = float(abs(record).max()) > reach
    at = record * (0.8 * reach / float(abs(record).max())) if outside else record
    name = f"record, length {result['length']:.3g}" + (", outside" if outside else "")
    (across, side), up = (
        ((5, "left") if at[0] < 0 else (-5, "right")),
        5 if at[1] >= 0 else -11,
    )
    plots.note(ax, name, at, (across, up), color=WITH, ha=side)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    title = (
        "grey: gradients; diamonds: the clipped mean" if wrong else "grey: before; blue: after"
    )
    ax.set_title(y=1.0, label=title, fontsize=10)
    ax.set(xlabel="gradient, coordinate 1", ylabel="gradient, coordinate 2")


def _draw_released(ax: Axes, result: Result) -> None:
    noise, (_, most) = result["noise_std"], result["sensitivity"]
    start, end = ((float(x), float(y)) for x, y in (result["without"], result["with"]))
    wrong = result["rule"] == WRONG
    centre, radius = ((0.0, 0.0), most / 2) if wrong else (start, most)
    for place, colour in ((start, WITHOUT), (end, WITH)):
        ax.add_patch(Circle(place, noise, color=colour, alpha=0.22, linewidth=0))
        ax.scatter(*place, s=6 if wrong else 22, color=colour, zorder=3)
    ax.add_patch(Circle(centre, radius, fill=False, linestyle="--", linewidth=1.2))
    ax.plot([start[0], end[0]], [start[1], end[1]], color="black", linewidth=1.2)
    reach = 1.25 * max(radius, noise + (0 if wrong else result["moved"]))
    up = 1 if end[1] >= start[1] else -1
    middle: Any = {"ha": "center", "va": "center", "bbox": None}
    plots.note(ax, "without", start, (0, -10 * up), color=WITHOUT, **middle)
    plots.note(ax, "with the record", end, (0, 10 * up), color=WITH, **middle)
    xlim, ylim = ((one - reach, one + reach) for one in centre)
    ax.set(xlim=xlim, ylim=ylim, aspect="equal")
    dashed = "all means" if wrong else "sensitivity"
    ax.set_title(y=1.0, label=f"discs: noise (1 std), dashed: {dashed}", fontsize=10)
    name = "released mean" if wrong else "released sum"
    ax.set(xlabel=f"{name}, coordinate 1", ylabel=f"{name}, coordinate 2")

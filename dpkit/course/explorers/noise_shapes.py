"""The shape of noise: four ways to share it out over two coordinates, at one privacy level."""

from functools import partial
from typing import Any, ClassVar, NamedTuple

import ipywidgets as widgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse
from matplotlib.patheffects import withStroke

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_most, short
from dpkit.course.explorers.controls import control, logarithmic
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.papers.adadp.example import (
    NOISE_MULTIPLIER,
    POWERS,
    SENSITIVITIES,
    VALUES,
    exact_mean_cosine,
    price,
    privacy_used,
    shaped,
)
from dpkit.privacy import Guarantee
from dpkit.privacy.mechanisms import Floats

DELTA = 1e-5
MOST = 100.0  # of a sensitivity and of a value, in the query's unit; the least is one over it
CURVE: Floats = np.linspace(-1.5, 2, 36)  # powers of the picture
LEAST_ROOM = 0.001  # below the picture's cosines, where all are alike
# Of its noise in the picture, in units of the widest other noise or value
MOST_OF_INVERSE = 2.0
ROOT = "square root"
PROPORTION = {
    "adaptive": "s (AdaDP)",
    "uniform": "1 (DP-SGD)",
    "inverse": "1 / s (DpOpt, says the paper)",
    ROOT: "the root of s",
}
COLOURS = dict(zip(POWERS, (*plots.COLOURS[:3], "black"), strict=True))
BESIDE: Any = {  # where a name stands: offset in points, alignment
    "adaptive": ((6, 5), "left"),
    "uniform": ((-6, 5), "right"),
    "inverse": ((-6, 5), "right"),
    ROOT: ((0, 8), "center"),
}
OUTLINE = [withStroke(linewidth=3, foreground="white")]  # around words over lines
ARROW = {"arrowstyle": "-|>", "color": "0.25", "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
HEADINGS = (
    "noise",
    "in proportion to",
    "deviations",
    "variance",
    "H",
    "epsilon",
    "mean cosine",
)
PRINTED = (
    "At 12, 6, 10, 5 and 1, the paper prints cosines 0.52 (adaptive), 0.36 (uniform) and 0.28 "
    "(inverse), for noise that it rounds upwards; 0.470, 0.478 and 0.399 are right for that noise."
)


class Shape(NamedTuple):
    """Noise in proportion to a power of the sensitivities.

    used: H, the sum of s_i^2 / sigma_i^2. variance: of both coordinates together.
    """

    name: str
    noise_stds: tuple[float, ...]
    used: float
    price: Guarantee
    variance: float
    cosine: float


def _slider(name: str, low: float, high: float, value: float) -> Any:
    moves = "How far one record moves this coordinate"
    tooltip = moves if low > 0 else "The query's true value in this coordinate"
    ends = {"min": low, "max": high, "step": 0.5}
    return control(widgets.FloatSlider, 420, name, tooltip, value=value, **ends)


class NoiseShapes(Explorer):
    """Noise of four shapes around a query's value, at one price, to find the best direction.

    It opens with AdaDP's example: sensitivities 12 and 6, value (10, 5), noise multiplier 1.
    """

    title = "Should the noise follow the sensitivity?"
    controls: ClassVar = {
        "sensitivity_1": _slider("sensitivity 1", 0.5, 30, SENSITIVITIES[0]),
        "sensitivity_2": _slider("sensitivity 2", 0.5, 30, SENSITIVITIES[1]),
        "value_1": _slider("value 1", -50, 50, VALUES[0]),
        "value_2": _slider("value 2", -50, 50, VALUES[1]),
        "noise_multiplier": logarithmic(
            "noise multiplier sigma_*",
            -1,
            1,
            NOISE_MULTIPLIER,
            "Of the one Gaussian that costs as much: H is 1 / sigma_*^2",
        ),
    }
    presets: ClassVar = {
        "a longer value": {"value_1": 50.0, "value_2": 25.0},
        "the small one moves most": {"value_1": 5.0, "value_2": 10.0},
        "equal sensitivities": {"sensitivity_2": 12.0},
    }

    @staticmethod
    def compute(
        *,
        sensitivity_1: float,
        sensitivity_2: float,
        value_1: float,
        value_2: float,
        noise_multiplier: float,
    ) -> Result:
        """The four shapes, each with price and mean cosine; and the cosine by power.

        `shapes` are of one release, a record added or removed; `curve` holds the mean cosine of
        noise in proportion to s_i^power for the powers of CURVE, at the same price.

        Args:
            sensitivity_1: s_1, in the query's unit.
            sensitivity_2: s_2.
            value_1: f_1, in the same unit.
            value_2: f_2, not 0 where f_1 is.
            noise_multiplier: sigma_*.

        Raises:
            ValueError: a value is out of range.
        """
        checks.in_range(
            1 / MOST, MOST, sensitivity_1=sensitivity_1, sensitivity_2=sensitivity_2
        )
        checks.in_range(-MOST, MOST, value_1=value_1, value_2=value_2)
        checks.in_range(1 / MOST, MOST, noise_multiplier=noise_multiplier)
        if not max(abs(value_1), abs(value_2)) >= 1 / MOST:
            raise ValueError(
                "value_1 and value_2 are both 0: a point has no direction; move one"
            )
        sensitivities, values = (sensitivity_1, sensitivity_2), (value_1, value_2)
        noises = partial(shaped, sensitivities, noise_multiplier=noise_multiplier)
        curve = [exact_mean_cosine(values, noises(power=power)) for power in CURVE.tolist()]
        shapes = []
        for name, power in POWERS.items():
            noise = noises(power=power)
            used, spent = (
                privacy_used(sensitivities, noise),
                price(sensitivities, noise, delta=DELTA),
            )
            variance = sum(sigma**2 for sigma in noise)
            cosine = exact_mean_cosine(values, noise)
            shapes.append(Shape(name, noise, used, spent, variance, cosine))
        return {"shapes": shapes, "curve": curve, "values": values, "noise": noise_multiplier}

    def says(self, result: Result) -> str:
        """State the shape that keeps the direction best."""
        shapes = result["shapes"]
        best = max(shape.cosine for shape in shapes)
        return (
            f"At one price, epsilon {at_most(shapes[0].price.epsilon, 3)} at delta {short(DELTA)}, "
            f"the direction is kept best by: {_best(result)} (mean cosine {best:.3f})."
        )

    def table(self, result: Result) -> Table:
        """A row for each shape; its price is every other's."""
        rows = [
            (
                shape.name,
                PROPORTION[shape.name],
                ", ".join(f"{sigma:.4g}" for sigma in shape.noise_stds),
                f"{shape.variance:.4g}",
                f"{shape.used:.4g}",
                at_most(shape.price.epsilon),
                f"{shape.cosine:.4f}",
            )
            for shape in result["shapes"]
        ]
        price = result["shapes"][0].price
        notes = (
            f"Epsilon of one release at delta {short(DELTA)}, {price.adjacency}, by "
            f"{price.method}. It follows from H = sum s_i^2 / sigma_i^2 alone (Lemma 1), so all "
            "shapes cost the same.",
            "Variance is of both coordinates together; mean cosine: between the value and the "
            f"noisy value. Best of the four: {_best(result)}.",
            PRINTED,
        )
        return Table(HEADINGS, rows, notes)

    def draw(self, result: Result) -> plots.Picture:
        """Draw left the value with one deviation of noise around it, right the cosine by power."""
        room = {"left": 0.08, "right": 0.98, "bottom": 0.13, "top": 0.91, "wspace": 0.24}
        figure, (left, right) = plots.figure(width=9.8, height=4.3, panels=2, **room)
        _draw_ellipses(left, result)
        _draw_cosines(right, result)
        shapes = result["shapes"]
        sizes = (f"{s.name} {s.noise_stds[0]:.3g} by {s.noise_stds[1]:.3g}" for s in shapes)
        cosines = (f"{shape.name} {shape.cosine:.4f}" for shape in shapes)
        words = (
            f"Left: the value {result['values']} and one standard deviation of noise around it: "
            f"{', '.join(sizes)}. Right: the mean cosine, {', '.join(cosines)}. Each costs epsilon "
            f"{at_most(shapes[0].price.epsilon, 3)} at delta {short(DELTA)}. Best: {_best(result)}."
        )
        return plots.picture(figure, words)


def _best(result: Result) -> str:
    """The names of the shapes whose cosine is the largest, to four digits."""
    cosines = {shape.name: round(shape.cosine, 4) for shape in result["shapes"]}
    best = [name for name, cosine in cosines.items() if cosine == max(cosines.values())]
    return " and ".join(best) if len(best) < len(cosines) else "all alike"


def _draw_ellipses(ax: Axes, result: Result) -> None:
    values, shapes = result["values"], result["shapes"]
    for shape in shapes:
        colour = COLOURS[shape.name]
        style: Any = {"linewidth": 1.8, "linestyle": "--" if shape.name == ROOT else "-"}
        sizes = [2 * sigma for sigma in shape.noise_stds]
        ax.add_patch(Ellipse(values, *sizes, color=colour, alpha=0.08, linewidth=0))
        ax.add_patch(Ellipse(values, *sizes, fill=False, edgecolor=colour, **style))
    ax.plot(0, 0, "o", color="0.25", markersize=4)
    ax.annotate("", values, (0, 0), arrowprops=ARROW, zorder=4)
    spread = {shape.name: max(shape.noise_stds) for shape in shapes}
    rest = max(sigma for name, sigma in spread.items() if name != "inverse")
    widest = min(max(spread.values()), MOST_OF_INVERSE * max(rest, *map(abs, values)))
    ends = [(min(0, value - widest), max(0, value + widest)) for value in values]
    box = ax.get_window_extent()
    across, up = 1.06 * np.diff(ends)[:, 0]
    half = max(up, across * box.height / box.width) / 2 * np.array([box.width / box.height, 1])
    (left, bottom), (right, top) = np.mean(ends, axis=1) + np.array([-half, half])
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    ax.set(xlabel="coordinate 1", ylabel="coordinate 2")
    cut = "; inverse goes on" if widest < spread["inverse"] else ""
    ax.set_title(
        y=1.0, label=f"arrow: the value; ellipses: its noise, 1 std{cut}", fontsize=10
    )


def _draw_cosines(ax: Axes, result: Result) -> None:
    ax.plot(CURVE, result["curve"], color="0.6", linewidth=1.8)
    for shape in result["shapes"]:
        at, colour = (POWERS[shape.name], shape.cosine), COLOURS[shape.name]
        ax.plot(*at, "o", color=colour, markersize=9, zorder=3)
        offset, align = BESIDE[shape.name]
        told = f"{shape.name}\n{shape.cosine:.4f}"
        style: Any = {"color": colour, "ha": align, "bbox": None, "path_effects": OUTLINE}
        plots.note(ax, told, at, offset, **style)
    low, high = min(result["curve"]), max(result["curve"])
    room = max(0.12 * (high - low), LEAST_ROOM)
    ax.set(ylim=(low - room, high + 2.5 * room))
    ax.set_xticks(list(POWERS.values()), [f"{power:g}" for power in POWERS.values()])
    ax.set(xlabel="noise in proportion to the sensitivity to this power", ylabel="mean cosine")
    ax.set_title(
        y=1.0, label=f"all at one price: $\\sigma_* = {result['noise']:.3g}$", fontsize=10
    )

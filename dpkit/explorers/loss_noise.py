"""Noise on the loss: RDP-GAN's theorems beside the certified price of publishing noised losses."""

import math
from typing import Any

import ipywidgets as widgets
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

from dpkit import plots
from dpkit.explorers.explorer import STYLE, WIDE, Explorer, logarithmic, number
from dpkit.explorers.loss_noise_numbers import LEAST_MULTIPLIER, TOP, certified, formulas, numbers
from dpkit.papers.rdp_gan import accounting
from dpkit.papers.rdp_gan.settings import DELTA
from dpkit.privacy import SampledGaussian
from dpkit.privacy.privacy_loss import Floats
from dpkit.show import Table, at_least, at_most, interval

BATCHES = {"64": 64, "128": 128}
RECORDS = {"20,000 (Adult)": 20_000, "60,000 (MNIST)": 60_000}
LEAST_NOISE, MOST_NOISE = 0.3, 300.0  # of the slider and the picture
NOISES: Floats = np.geomspace(LEAST_NOISE, MOST_NOISE, 13)  # of the picture
ORDERS, NEAR = 24, 16  # of the picture, and of it around the order up to which Theorem 1 holds
THEOREM_4, CERTIFIED, EQ_23 = "Theorem 4 ∝ 1/σ²", "certified", "eq. 23 ∝ 1/σ"  # curves
PAPER = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1}  # behind words on lines
HEADINGS = ("what", "value", "what it is")
ENOUGH = "enough: not below the certified upper bound"
OPEN = "between the certified bounds"
TOO_SMALL = "too small: below the certified lower bound"
CONDITIONAL = (
    "All of this is conditional on C: the cross-entropy of a sigmoid has no largest value, and the "
    "paper reads C from the private data. Where a loss is above C nothing here holds, the "
    "certified bounds included. Eq. 13 is the sensitivity of a mean; that of eq. 8's sum is C."
)
CONSTANT = (
    "Certified is a mechanism that would publish each noised loss and nothing else. Training, as "
    "Algorithm 1 reads, publishes updates, and noise added to a loss is a constant to its "
    "gradient: the updates are those of training without noise."
)


class LossNoise(Explorer):
    """Noise on a loss of at most C: the paper's formulas, certified bounds, and what training has.

    Certified is a mechanism that publishes the noised losses themselves.
    """

    title = "What does noise on the loss buy?"

    def __init__(self) -> None:
        """The paper's Adult run: noise 10, C 20, batches of 64, 1,000 times 5 steps, order 2."""
        super().__init__(
            {
                "noise_std": logarithmic(
                    "noise sigma", math.log10(LEAST_NOISE), math.log10(MOST_NOISE), 10.0,
                    "Standard deviation of the noise, in the loss's own unit",
                ),
                "largest_loss": number(
                    "largest loss C", 20.0,
                    "Table II takes 20 and 23 on Adult, 25 and 28 on MNIST, for batches 64 and 128",
                ),
                "batch": _one_of("batch", BATCHES, "Records a step, on average"),
                "records": _one_of("records N", RECORDS, "In the training set"),
                "discriminator_steps": widgets.IntSlider(
                    value=5, min=1, max=10, description="discriminator steps n_d", style=STYLE,
                    tooltip="Noised losses in each generator iteration", layout=WIDE,
                ),
                "iterations": logarithmic(
                    "generator iterations n_g", 0, math.log10(3000), 1000, "Each of n_d steps"
                ),
                "order": widgets.FloatLogSlider(  # of base 2, so that it stops at 2 itself
                    value=2.0, base=2, min=0.15, max=6, step=0.05, description="order alpha",
                    tooltip="Of the Renyi divergence; 2 is best for Theorems 1 to 4", style=STYLE,
                    layout=WIDE, readout_format=".4g",
                ),
            }
        )  # fmt: skip

    @staticmethod
    def compute(**values: Any) -> dict[str, Any]:
        """The theorems' values, certified pairs, and up to which order Theorem 1 holds: `numbers`.

        Raises:
            ValueError: a value is out of range.
        """
        return numbers(**values)

    def table(self, result: dict[str, Any]) -> Table:
        """The formulas, each with what is certified of as many releases; then training itself."""
        each, every = (_releases(result[name]) for name in ("discriminator_steps", "releases"))
        rows = [
            (
                "sensitivity", f"{result['sensitivity']:.4g}",
                f"C / batch (eq. 13); noise over sensitivity: {result['noise_multiplier']:.4g}",
            ),
            ("Theorem 1: 1 release", _told(result["theorem_1"]), _of_theorem_1(result)),
            (
                f"Theorem 2: {each}", _told(result["theorem_2"]),
                _verdict(result, "theorem_2", "pair_each"),
            ),
            (f"certified: {each}", interval(*result["pair_each"]), "of noised losses"),
            (
                f"Theorem 4: {every}", _told(result["theorem_4"]),
                _verdict(result, "theorem_4", "pair"),
            ),
            (f"eq. 23: {every}", _told(result["eq_23"]), _verdict(result, "eq_23", "pair")),
            (f"certified: {every}", interval(*result["pair"]), "of noised losses"),
            ("training by Algorithm 1", f"{result['training']:g}", "no guarantee at any noise"),
        ]  # fmt: skip
        run = (
            f"Theorem 1: Renyi divergence in nats; the others: epsilon at delta {DELTA:g}, which "
            "Theorem 4 keeps for the sum; eq. 23 leaves the sensitivity out. Poisson batches at "
            f"rate {result['sample_rate']:.4g}, add-remove: the densities of Theorem 1's proof."
        )
        return Table(HEADINGS, rows, (run, CONDITIONAL, CONSTANT))

    def draw(self, result: dict[str, Any]) -> plots.Picture:
        """Left epsilon of all releases by noise, right the divergence of one by order."""
        figure, (left, right) = plots.figure(width=9.8, height=3.7, panels=2)
        figure.set_layout_engine(None)  # room by hand: laying out three times takes long
        figure.subplots_adjust(left=0.095, right=0.92, bottom=0.14, top=0.9, wspace=0.68)
        _draw_by_noise(left, result)
        _draw_by_order(right, result)
        words = (
            f"Left: at noise {result['noise_std']:.3g}, of {_releases(result['releases'])}, "
            f"Theorem 4 gives {_told(result['theorem_4'], 3)} and eq. 23 "
            f"{_told(result['eq_23'], 3)}; publishing the noised losses costs "
            f"{interval(*result['pair'], 3)}, and training as the algorithm reads has no finite "
            f"epsilon. Right: Theorem 1 bounds the exact divergence of one release "
            f"{_up_to(result)}; at order {result['order']:.3g} it gives "
            f"{result['theorem_1']:.3g}, and {result['exact']:.3g} is exact."
        )
        return plots.picture(figure, words)


def _verdict(result: dict[str, Any], name: str, pair: str) -> str:
    """What the certified pair says of a value."""
    (low, high), value = result[pair], result[name]
    if value is None:
        spent = result["theorem_1"] ** 2 * result["discriminator_steps"]
        return f"its condition fails: log(1/delta) {-math.log(DELTA):.4g} < eps^2 n_d {spent:.4g}"
    if value < low:
        return TOO_SMALL
    return ENOUGH if value >= high else OPEN


def _of_theorem_1(result: dict[str, Any]) -> str:
    which = "above" if result["theorem_1"] >= result["exact"] else "below"
    order = f"order {result['order']:.4g}"
    return f"{which} the exact {result['exact']:.4g} at {order}; a bound {_up_to(result)}"


def _up_to(result: dict[str, Any]) -> str:
    to = result["holds_to"]
    return f"up to order {at_least(to)}" if to < TOP else "at all orders up to a million"


def _told(value: float | None, digits: int = 4) -> str:
    return "no value" if value is None else f"{value:.{digits}g}"


def _releases(count: int) -> str:
    return "1 release" if count == 1 else f"{count} releases"


def _draw_by_noise(ax: Any, result: dict[str, Any]) -> None:
    rate, releases, now = result["sample_rate"], result["releases"], result["noise_std"]
    noises = np.union1d(NOISES, now)
    found = [formulas(result, noise) for noise in noises]
    multipliers = noises / now * result["noise_multiplier"]
    multipliers[noises == now] = result["noise_multiplier"]  # to the bit: it is remembered
    unknown = math.nan, math.nan
    pairs = [
        certified(float(z), rate, releases) if z >= LEAST_MULTIPLIER else unknown
        for z in multipliers
    ]
    lower, upper = np.array(pairs).T
    curves = {
        THEOREM_4: (noises, [one["theorem_4"] for one in found]),
        CERTIFIED: (noises, upper),
        EQ_23: (noises, [one["eq_23"] for one in found]),
    }
    colours = _log_lines(ax, curves, x="noise σ", y=f"epsilon at delta {DELTA:g}")
    ax.fill_between(
        noises, lower, upper, color=colours.get(CERTIFIED, "none"), alpha=0.3, linewidth=0
    )
    spent = "" if result["pair"][1] else f" (certified 0 at σ {now:.3g})"
    ax.set_title(f"Epsilon of {_releases(releases)}{spent}", fontsize=11)
    _mark(ax, now, f"σ {now:.3g}", late=now > math.sqrt(LEAST_NOISE * MOST_NOISE))
    dots = zip(
        (THEOREM_4, CERTIFIED, EQ_23),
        (result["theorem_4"], result["pair"][1], result["eq_23"]), strict=True,
    )  # fmt: skip
    for name, value in dots:
        if value:  # there is one, and it has a place on a logarithmic axis
            ax.plot(now, value, "o", color=colours[name], markersize=5, zorder=3)


def _draw_by_order(ax: Any, result: dict[str, Any]) -> None:
    order, to = result["order"], result["holds_to"]
    least = min(0.1, (to - 1) / 3, order - 1)
    most = max(order, min(max(64, 4 * to), TOP))
    near = np.clip(1 + (to - 1) * np.geomspace(0.5, 2, NEAR), 1 + least, most)
    orders = np.union1d(1 + np.geomspace(least, most - 1, ORDERS), near).clip(max=most)
    exact = SampledGaussian(result["noise_multiplier"], result["sample_rate"]).rdp(orders)
    step = {name: result[name] for name in ("sample_rate", "sensitivity", "noise_std")}
    stated = [accounting.theorem_1(float(one), **step) for one in orders]
    curves = {"Theorem 1": (orders, stated), "exact": (orders, exact)}
    colours = _log_lines(ax, curves, x="order α", y="Renyi divergence (nats)")
    ax.set_title("One release", fontsize=11)
    if to < TOP:
        ax.axvspan(to, most, color="0.93", linewidth=0, zorder=0)
        _mark(ax, to, f"α {at_most(to, 3)}", late=False)
        ax.set_title("One release: Theorem 1 too small in grey", fontsize=11)
    for name, value in (("Theorem 1", result["theorem_1"]), ("exact", result["exact"])):
        ax.plot(order, value, "o", color=colours[name], markersize=5, zorder=3)


def _log_lines(ax: Any, curves: dict[str, Any], *, x: str, y: str) -> dict[str, str]:
    """Lines on logarithmic axes, where they are finite and above 0; the colours of those drawn."""
    drawn: Any = {}
    for name, (xs, ys) in curves.items():
        values = np.array(ys, dtype=np.float64)
        kept = np.isfinite(values) & (values > 0)
        if kept.any():
            drawn[name] = (xs[kept], values[kept])
    shown = "left", "bottom", "labelleft", "labelbottom"
    ax.tick_params(which="both", **dict.fromkeys(shown, False))  # until they are few and plain
    ax.set_xscale("log")
    plots.lines(ax, drawn, x=x, y=y, y_scale="log")
    for axis, ticks in ((ax.xaxis, 5), (ax.yaxis, 7)):
        axis.set_major_locator(LogLocator(numticks=ticks))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    ax.tick_params(**dict.fromkeys(shown, True))
    for text in ax.texts:
        text.set_bbox(PAPER)
    return dict(zip(drawn, plots.COLOURS, strict=False))


def _mark(ax: Any, x: float, text: str, *, late: bool) -> None:
    """A dotted line with its name: left of it at the top where it is late, else right, below."""
    ax.axvline(x, color="0.4", linestyle=":", linewidth=1)
    ax.annotate(
        text, (x, 1 if late else 0), (-3, -3) if late else (4, 4),
        xycoords=("data", "axes fraction"), textcoords="offset points", color="0.3", fontsize=8,
        rotation=90, ha="right" if late else "left", va="top" if late else "bottom", bbox=PAPER,
    )  # fmt: skip


def _one_of(description: str, options: dict[str, int], tooltip: str) -> Any:
    return widgets.Dropdown(
        options=list(options.items()), description=description, tooltip=tooltip, style=STYLE,
        layout=widgets.Layout(width="240px"),
    )  # fmt: skip

"""Noise on the loss: RDP-GAN's theorems beside the certified price of publishing noised losses."""

import math
from typing import Any, ClassVar

import numpy as np

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, counted, interval, short
from dpkit.course.explorers.certified import certified, finding
from dpkit.course.explorers.controls import choice, logarithmic, number, whole
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.papers.rdp_gan import theorems
from dpkit.papers.rdp_gan.settings import DELTA, LossValueNoise
from dpkit.privacy import SampledGaussian, pld
from dpkit.privacy.mechanisms import LARGEST_ORDER, Floats
from dpkit.privacy.schedules import Constant

LEAST_MULTIPLIER = 0.1  # below it epsilon is in the hundreds and more, and takes PLD long
MOST_MULTIPLIER = 1e12
HALVINGS = 20  # of log2(order - 1), which lies in (-20, 20)
TOP = 1e6 + 0.5  # orders up to here are looked at; one that is not whole is priced sooner
BATCHES = {"64": 64, "128": 128}
RECORDS = {"20,000 (Adult)": 20_000, "60,000 (MNIST)": 60_000}
LEAST_NOISE, MOST_NOISE = 0.3, 300.0  # of the slider and the picture
NOISES: Floats = np.geomspace(LEAST_NOISE, MOST_NOISE, 13)  # of the picture
ORDERS, NEAR = 24, 16  # of the picture, and of it around the order up to which Theorem 1 holds
THEOREM_4, CERTIFIED, EQ_23 = "Theorem 4 ∝ 1/σ²", "certified", "eq. 23 ∝ 1/σ"  # curves
HEADINGS = ("what", "value", "what it is")
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
    """Noise on a loss of at most C: the paper's formulas, certified bounds, training itself.

    Certified is a mechanism that publishes the noised losses themselves.

    It opens with the paper's Adult run: noise 10, C 20, batches of 64, 1,000 x 5 steps, order 2.
    """

    title = "What does noise on the loss buy?"
    controls: ClassVar = {
        "noise_std": logarithmic(
            "noise sigma",
            math.log10(LEAST_NOISE),
            math.log10(MOST_NOISE),
            10.0,
            "Standard deviation of the noise, in the loss's own unit",
        ),
        "largest_loss": number(
            "largest loss C",
            20.0,
            "Table II takes 20 and 23 on Adult, 25 and 28 on MNIST, for batches 64 and 128",
        ),
        "batch": choice("batch", BATCHES, "Records a step, on average"),
        "records": choice("records N", RECORDS, "In the training set"),
        "discriminator_steps": whole(
            "discriminator steps n_d", 1, 10, 5, "Noised losses in each generator iteration"
        ),
        "iterations": logarithmic(
            "generator iterations n_g", 0, math.log10(3000), 1000, "Each of n_d steps"
        ),
        "order": logarithmic(
            "order alpha",
            math.log10(1.1),
            math.log10(64),
            2.0,
            "Of the Renyi divergence; 2 is best for Theorems 1 to 4",
        ),
    }
    presets: ClassVar = {
        "n_g 1: Theorem 2 is refuted": {"iterations": 1.0},
        "MNIST, as published": {"largest_loss": 25.0, "records": 60_000},
        "much more noise": {"noise_std": 300.0},
    }

    @staticmethod
    def compute(
        *,
        noise_std: float,
        largest_loss: float,
        batch: int,
        records: int,
        discriminator_steps: int,
        iterations: float,
        order: float,
    ) -> Result:
        """The theorems' values, certified pairs, and the order up to which Theorem 1 holds.

        Pairs (lower, upper) are of Poisson-sampled Gaussian releases under add-remove, at delta
        1e-5. Theorems 2 and 4 are None where their condition fails.

        Args:
            noise_std: sigma, in the unit of the loss.
            largest_loss: C > 0, taken to bound every example's loss.
            batch: records a step, on average.
            records: N, at least `batch`.
            discriminator_steps: n_d.
            iterations: n_g, of the generator; rounded.
            order: of the Renyi divergence, in (1, 2^20].

        Raises:
            ValueError: a value is out of range, or noise over sensitivity is not in [0.1, 1e12].
        """
        checks.positive(noise_std=noise_std)
        checks.whole(1, batch=batch, records=records, discriminator_steps=discriminator_steps)
        checks.in_range(1, 1e6, iterations=iterations)
        if not batch <= records:
            raise ValueError(f"batch must be at most records, {records}, got {batch}")
        if not 1 < order <= LARGEST_ORDER:
            raise ValueError(f"order must lie in (1, {LARGEST_ORDER}], got {order:g}")
        sensitivity = theorems.sensitivity(largest_loss, batch_size=batch)
        multiplier = noise_std / sensitivity if sensitivity else math.inf
        if not LEAST_MULTIPLIER <= multiplier <= MOST_MULTIPLIER:
            raise ValueError(
                f"noise over sensitivity must lie in [{LEAST_MULTIPLIER}, "
                f"{short(MOST_MULTIPLIER)}], got {short(multiplier, 3)} from noise_std "
                f"{short(noise_std)} and largest_loss {short(largest_loss)}; change one of them"
            )
        rate, rounds = batch / records, round(iterations)
        releases = discriminator_steps * rounds
        run = {"noise_std": noise_std, "order": order, "sample_rate": rate}
        run |= {
            "sensitivity": sensitivity,
            "noise_multiplier": multiplier,
            "releases": releases,
        }
        run |= {"discriminator_steps": discriminator_steps, "iterations": rounds}
        return {
            **run,
            **formulas(run, noise_std),
            "exact": float(SampledGaussian(multiplier, rate).rdp([order])[0]),
            "holds_to": holds_to(multiplier, rate),
            "pair_each": certified(multiplier, rate, discriminator_steps, DELTA),
            "pair": certified(multiplier, rate, releases, DELTA),
            "training": of_training(noise_std),
        }

    def says(self, result: Result) -> str:
        """State the epsilons of the paper, of publishing the losses, and of training."""
        theorem = _value(result["theorem_4"], 3)
        return (
            f"Theorem 4 says epsilon {theorem}; publishing the noised losses costs "
            f"{interval(*result['pair'], digits=3)} at delta {short(DELTA)}; training has no "
            "finite one."
        )

    def table(self, result: Result) -> Table:
        """A row for each formula with the pair of as many releases; then training itself."""
        each, every = (
            counted(result[name], "release") for name in ("discriminator_steps", "releases")
        )
        ratio = short(result["noise_multiplier"], 4)
        ratio = f"C / batch (eq. 13); noise over sensitivity: {ratio}"
        theorem_2 = _verdict(result, "theorem_2", "pair_each")
        theorem_4, eq_23 = (_verdict(result, name, "pair") for name in ("theorem_4", "eq_23"))
        rows = [
            ("sensitivity", short(result["sensitivity"], 4), ratio),
            ("Theorem 1: 1 release", _value(result["theorem_1"]), _of_theorem_1(result)),
            (f"Theorem 2: {each}", _value(result["theorem_2"]), theorem_2),
            (f"certified: {each}", interval(*result["pair_each"]), "of noised losses"),
            (f"Theorem 4: {every}", _value(result["theorem_4"]), theorem_4),
            (f"eq. 23: {every}", _value(result["eq_23"]), eq_23),
            (f"certified: {every}", interval(*result["pair"]), "of noised losses"),
            (
                "training by Algorithm 1",
                short(result["training"]),
                "no guarantee at any noise",
            ),
        ]
        run = (
            f"Theorem 1: Renyi divergence in nats; the others: epsilon at delta {short(DELTA)}, "
            "which Theorem 4 keeps for the sum; eq. 23 leaves the sensitivity out. Poisson "
            f"batches at rate {short(result['sample_rate'], 4)}, add-remove: the densities of "
            "Theorem 1's proof."
        )
        return Table(HEADINGS, rows, (run, CONDITIONAL, CONSTANT))

    def draw(self, result: Result) -> plots.Picture:
        """Draw left epsilon of all releases by noise, right the divergence of one by order."""
        room = {"left": 0.095, "right": 0.92, "bottom": 0.14, "top": 0.9, "wspace": 0.68}
        figure, (left, right) = plots.figure(width=9.8, height=3.7, panels=2, **room)
        _draw_by_noise(left, result)
        _draw_by_order(right, result)
        words = (
            f"Left: at noise {short(result['noise_std'], 3)}, of "
            f"{counted(result['releases'], 'release')}, Theorem 4 gives "
            f"{_value(result['theorem_4'], 3)} and eq. 23 {_value(result['eq_23'], 3)}; publishing "
            f"the noised losses costs {interval(*result['pair'], digits=3)}, and training as the "
            "algorithm reads has no finite epsilon. Right: Theorem 1 bounds the exact divergence "
            f"of one release {_up_to(result)}; at order {short(result['order'], 3)} it gives "
            f"{short(result['theorem_1'], 3)}, and {short(result['exact'], 3)} is exact."
        )
        return plots.picture(figure, words)


def formulas(run: Result, noise_std: float) -> Result:
    """The values of Theorems 1, 2 and 4 and of eq. 23 for all iterations, at that noise.

    Theorems 2 and 4 are None where their condition log(1 / delta) >= eps^2 n_d fails.
    """
    step = {"sample_rate": run["sample_rate"], "sensitivity": run["sensitivity"]}
    each: Any = {"discriminator_steps": run["discriminator_steps"], "delta": DELTA}
    values: dict[str, Any] = {"theorem_2": None, "theorem_4": None}
    values["theorem_1"] = theorems.theorem_1(run["order"], noise_std=noise_std, **step)
    if theorems.condition_of_theorem_2(values["theorem_1"], **each):
        given = {**step, **each, "noise_std": noise_std, "order": run["order"]}
        values["theorem_2"] = theorems.theorem_2(**given)
        values["theorem_4"] = theorems.theorem_4(generator_steps=run["iterations"], **given)
    rate = run["sample_rate"]
    moments = theorems.moments_accountant_epsilon(noise_std, sample_rate=rate, **each)
    return {**values, "eq_23": run["iterations"] * moments}


def holds_to(noise_multiplier: float, sample_rate: float) -> float:
    """The order, to four digits and at most TOP, up to which Theorem 1 is no underestimate.

    (order - 1) times the exact divergence starts below (order - 1) times Theorem 1's, which is a
    parabola, and crosses it once, where the part of the mixture with the record begins to rule.
    """
    mechanism = SampledGaussian(noise_multiplier, sample_rate)
    step = {"sample_rate": sample_rate, "sensitivity": 1.0, "noise_std": noise_multiplier}

    def enough(power: float) -> bool:
        order = 1 + 2**power
        return bool(theorems.theorem_1(order, **step) >= mechanism.rdp([order])[0])

    low, high = -20.0, math.log2(TOP - 1)
    if enough(high):
        return TOP
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return 1 + 2**low


def of_training(noise_std: float) -> float:
    """Epsilon of the updates themselves, by the ledger of Algorithm 1 as printed: inf."""
    return pld.epsilon(LossValueNoise(Constant(noise_std)).ledger(), delta=DELTA).epsilon


def _verdict(result: Result, name: str, pair: str) -> str:
    """The certified pair's verdict on a value."""
    value = result[name]
    if value is None:
        spent = result["theorem_1"] ** 2 * result["discriminator_steps"]
        return (
            f"its condition fails: log(1/delta) {-math.log(DELTA):.4g} < eps^2 n_d "
            f"{short(spent, 4)}"
        )
    return finding(value, result[pair])


def _of_theorem_1(result: Result) -> str:
    which = "above" if result["theorem_1"] >= result["exact"] else "below"
    order = f"order {short(result['order'], 4)}"
    return (
        f"{which} the exact {short(result['exact'], 4)} at {order}; a bound {_up_to(result)}"
    )


def _up_to(result: Result) -> str:
    to = result["holds_to"]
    return f"up to order {at_least(to)}" if to < TOP else "at all orders up to a million"


def _value(value: float | None, digits: int = 4) -> str:
    return "no value" if value is None else short(value, digits)


def _draw_by_noise(ax: Any, result: Result) -> None:
    rate, releases, now = result["sample_rate"], result["releases"], result["noise_std"]
    noises = np.union1d(NOISES, now)
    at = [formulas(result, noise) for noise in noises]
    multipliers = noises / now * result["noise_multiplier"]
    multipliers[noises == now] = result["noise_multiplier"]  # to the bit: it is remembered
    unknown = math.nan, math.nan
    priced = [float(z) if z >= LEAST_MULTIPLIER else 0.0 for z in multipliers]
    pairs = [certified(z, rate, releases, DELTA) if z else unknown for z in priced]
    lower, upper = np.array(pairs).T
    curves = {
        THEOREM_4: (noises, [one["theorem_4"] for one in at]),
        CERTIFIED: (noises, upper),
        EQ_23: (noises, [one["eq_23"] for one in at]),
    }
    colours = _log_lines(ax, curves, x="noise σ", y=f"epsilon at delta {short(DELTA)}")
    ax.fill_between(
        noises, lower, upper, color=colours.get(CERTIFIED, "none"), alpha=0.3, linewidth=0
    )
    spent = "" if result["pair"][1] else f" (certified 0 at σ {now:.3g})"
    ax.set_title(y=1.0, label=f"Epsilon of {counted(releases, 'release')}{spent}", fontsize=11)
    plots.mark(ax, now, f"σ {now:.3g}", top=now > math.sqrt(LEAST_NOISE * MOST_NOISE))
    values = result["theorem_4"], result["pair"][1], result["eq_23"]
    for name, value in zip((THEOREM_4, CERTIFIED, EQ_23), values, strict=True):
        if value:  # there is one, and it has a place on a logarithmic axis
            ax.plot(now, value, "o", color=colours[name], markersize=5, zorder=3)


def _draw_by_order(ax: Any, result: Result) -> None:
    order, to = result["order"], result["holds_to"]
    least = min(0.1, (to - 1) / 3, order - 1)
    most = max(order, min(max(64, 4 * to), TOP))
    near = np.clip(1 + (to - 1) * np.geomspace(0.5, 2, NEAR), 1 + least, most)
    orders = np.union1d(1 + np.geomspace(least, most - 1, ORDERS), near).clip(max=most)
    exact = SampledGaussian(result["noise_multiplier"], result["sample_rate"]).rdp(orders)
    step = {name: result[name] for name in ("sample_rate", "sensitivity", "noise_std")}
    stated = [theorems.theorem_1(float(one), **step) for one in orders]
    curves = {"Theorem 1": (orders, stated), "exact": (orders, exact)}
    colours = _log_lines(ax, curves, x="order α", y="Renyi divergence (nats)")
    ax.set_title(y=1.0, label="One release", fontsize=11)
    if to < TOP:
        ax.axvspan(to, most, color="0.93", linewidth=0, zorder=0)
        plots.mark(ax, to, f"α {at_most(to, 3)}", top=False)
        ax.set_title(y=1.0, label="One release: Theorem 1 too small in grey", fontsize=11)
    for name, value in (("Theorem 1", result["theorem_1"]), ("exact", result["exact"])):
        ax.plot(order, value, "o", color=colours[name], markersize=5, zorder=3)


def _log_lines(ax: Any, curves: dict[str, Any], *, x: str, y: str) -> dict[str, str]:
    """Lines on logarithmic axes, where finite and above 0; the colours of those drawn."""
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
        plots.plain(axis, subs=(1,), numticks=ticks)
    ax.tick_params(**dict.fromkeys(shown, True))
    for text in ax.texts:
        text.set_bbox(plots.LABEL_BOX)
    return dict(zip(drawn, plots.COLOURS, strict=False))

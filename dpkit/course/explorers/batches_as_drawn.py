"""One run under five ways of drawing its batches, each bounded from both sides."""

import math
from typing import Any, ClassVar

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_most, interval, short
from dpkit.course.explorers.controls import DELTA, logarithmic, steps_control
from dpkit.course.explorers.explorer import LATER, Explorer, Result
from dpkit.privacy import as_drawn

QUICK = ("poisson", "truncated", "fixed")  # the others take a second
ROOM: Any = {"left": 0.15, "right": 0.97, "bottom": 0.18, "top": 0.96}
HEADINGS = ("batches", "epsilon", "adjacency", "drawn")


class BatchesAsDrawn(Explorer):
    """Noise, batch, data, steps and delta of a run: its cost as its batches are drawn.

    It opens with 10 passes over 60,000 records in batches of 600 with noise multiplier 1.
    """

    title = "How were the batches drawn?"
    controls: ClassVar = {
        "noise_multiplier": logarithmic(
            "noise multiplier", -0.5, 2, 1.0, "Noise standard deviation / clip norm"
        ),
        "batch_size": logarithmic("batch", 1, 4, 600, "Records a batch, on average or always"),
        "data_size": logarithmic("data", 1, 6, 60_000, "Number of records, which is public"),
        "steps": steps_control(5, 1000),
        "delta": DELTA,
    }
    presets: ClassVar = {
        "one pass": {"steps": 100.0},
        "Small Images, as charged": {
            "noise_multiplier": 0.5,
            "batch_size": 128.0,
            "steps": 18_760.0,
        },
        "DP-CGAN, as charged": {"noise_multiplier": 1.232, "steps": 30_303.0},
    }

    @staticmethod
    def compute(
        *,
        noise_multiplier: float,
        batch_size: float,
        data_size: float,
        steps: float,
        delta: float,
    ) -> Result:
        """The pair of each way; sizes and steps are rounded.

        Raises:
            ValueError: a value is out of range, or the batch larger than the data.
        """
        checks.positive(batch_size=batch_size, data_size=data_size, steps=steps)
        run = as_drawn.DrawnRun(
            noise_multiplier, round(batch_size), round(data_size), round(steps)
        )
        if not 1 <= run.batch_size <= run.public_size:
            raise ValueError(
                f"batch must lie between 1 and data, got {run.batch_size} of {run.public_size} "
                "records"
            )
        quick = as_drawn.every_way(run, delta=delta, ways=QUICK)
        return {"found": quick, "run": run, "delta": delta}

    def late(self, result: Result) -> Result:
        """Add the ways that take a second: sums of lognormals are convolved."""
        slow = [way for way in as_drawn.WAYS if way not in QUICK]
        found = result["found"] | as_drawn.every_way(
            result["run"], delta=result["delta"], ways=slow
        )
        return {**result, "found": {way: found[way] for way in as_drawn.WAYS}}

    def says(self, result: Result) -> str:
        """Compare the bound for Poisson batches with the cost of shuffled ones."""
        found, delta = result["found"], result["delta"]
        poisson = f"Poisson batches cost epsilon {at_most(found['poisson'].epsilon)}"
        if "shuffled" not in found:
            return f"{poisson} at delta {short(delta)}."
        low, high = found["shuffled"].lower, found["shuffled"].epsilon
        return f"{poisson}, shuffled ones {interval(low, high)} at delta {short(delta)}."

    def table(self, result: Result) -> Table:
        """A row for each way."""
        rows = [
            (name, _epsilon(found), found.adjacency, what)
            if (found := result["found"].get(name))
            else (name, LATER, "", what)
            for name, what in as_drawn.WAYS.items()
        ]
        run = result["run"]
        passes = run.steps * run.batch_size / run.public_size
        note = (
            f"{run.steps:,} steps, {short(passes, 3)} passes over the data, at delta "
            f"{short(result['delta'])}. Compare lines of one adjacency: to replace a record is to "
            "remove one and to add one."
        )
        return Table(HEADINGS, rows, (note,))

    def draw(self, result: Result) -> plots.Picture:
        """An interval for each way, coloured by adjacency."""
        figure, (ax,) = plots.figure(width=7.6, height=2.9, **ROOM)
        found = result["found"]
        top = max(
            (one.epsilon for one in found.values() if math.isfinite(one.epsilon)), default=1
        )
        for at, one in enumerate(reversed(found.values())):
            colour = plots.COLOURS[one.adjacency != "add-remove"]
            high = one.epsilon if math.isfinite(one.epsilon) else 3 * top
            low = max(one.lower, high / 1e4)
            ax.plot([low, high], [at, at], color=colour, linewidth=7, solid_capstyle="butt")
            ax.plot([low, high], [at, at], "|", color=colour, markersize=14)
            ax.annotate(
                _epsilon(one), (high, at), (8, 0), textcoords="offset points", va="center"
            )
        ax.set_yticks(range(len(found)), list(reversed(found)))
        ax.set(
            xscale="log",
            xlabel=f"epsilon at delta {short(result['delta'])}",
            ylim=(-0.6, len(found) - 0.4),
        )
        ax.set_xlim(right=ax.get_xlim()[1] * 8)
        plots.plain(ax.xaxis, subs=(1,), numticks=7)
        for number, adjacency in enumerate(("add-remove", "replace-one")):
            ax.plot([], [], color=plots.COLOURS[number], linewidth=5, label=adjacency)
        ax.legend(loc="upper right", frameon=False, fontsize=8)
        words = "; ".join(
            f"{name} {_epsilon(one)}, {one.adjacency}" for name, one in found.items()
        )
        return plots.picture(figure, f"Proven epsilons of the same run: {words}.")


def _epsilon(found: Any) -> str:
    return (
        interval(found.lower, found.epsilon)
        if found.lower
        else f"at most {at_most(found.epsilon)}"
    )

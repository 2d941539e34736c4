"""An attacker's least errors on a run: a trade-off curve, and the privacy profile."""

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.course.explorers.controls import (
    Control,
    RoundSlider,
    RunInput,
    run_controls,
    run_input,
)
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.privacy import pld, rdp, risk, tradeoff
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.risk import Risk

PAIRS = 10  # (epsilon, delta) pairs whose lines bound the curve from below
TAIL = 1e-5  # the largest epsilon that is asked has about this delta
LEAST_ALPHA = 1e-4  # of the slider: lines steeper than its inverse say nothing
LEAST_SHOWN = 1e-8  # delta, in the picture
ROOM: Any = {"left": 0.1, "right": 0.92, "bottom": 0.16, "top": 0.92, "wspace": 0.5}
ALARMS, MISSED = "false alarms (share)", "members missed (share)"
HEADINGS = ("what", "value", "note")
POSSIBLE, WORSE, REFUTES = "possible", "possible, worse than guessing", "refutes the guarantee"
_SAYS = {
    POSSIBLE: "nothing proven here excludes such an attacker",
    WORSE: "such an attacker does better by answering the opposite",
    REFUTES: "no attacker on this run has both errors, or both opposites, so low",
}
MEASURED = (
    "Error rates measured on finitely many trials refute a guarantee only where their confidence "
    "limits do."
)


class TradeOff(Explorer):
    """A run's noise, rate and steps, and a point (alpha, beta), possible to attackers or not.

    It opens with 10,000 steps at sample rate 0.01, noise multiplier 2; alpha 0.1, beta 0.85.
    """

    title = "Can this attacker exist?"
    controls: ClassVar = (
        *run_controls(2.0, 10_000),
        Control(
            *("alpha", RoundSlider, 0.1, (LEAST_ALPHA, 1), "false alarms"),
            "Share of non-members whom the attacker calls members",
        ),
        Control(
            *("beta", RoundSlider, 0.85, (LEAST_ALPHA, 1), "members missed"),
            "Share of members whom the attacker misses",
        ),
    )
    presets: ClassVar = {
        "an attacker who refutes": {"alpha": 0.01, "beta": 0.5},
        "DP-CGAN, as charged": {"noise_multiplier": 1.232, "steps": 30_303.0},
        "one step, everyone in it": {
            "noise_multiplier": 1.0,
            "sample_rate": 1.0,
            "steps": 1.0,
        },
    }

    @staticmethod
    def compute(*, alpha: float, beta: float, **run: Any) -> Result:
        """The least beta at alpha, the pair that proves it, and whether (alpha, beta) is possible.

        Args: alpha and beta, and the arguments of `run_input`.
        """
        checks.in_range(0, 1, alpha=alpha, beta=beta)
        described = run_input(**run)
        pairs = _pairs(described)
        epsilons, deltas = pairs["epsilons"], pairs["deltas"]
        at_alpha = [
            tradeoff.from_profile([e], [d], [alpha])[0]
            for e, d in zip(epsilons, deltas, strict=True)
        ]
        best = int(np.argmax(at_alpha))
        least, by_rdp = (
            float(tradeoff.from_profile(epsilons, d, [alpha])[0])
            for d in (deltas, pairs["rdp"])
        )
        opposite = float(tradeoff.from_profile(epsilons, deltas, [1 - alpha])[0])
        verdict = WORSE if beta > 1 - alpha else POSSIBLE
        return {
            "run": described,
            "alpha": alpha,
            "beta": beta,
            "verdict": REFUTES if beta < least or 1 - beta < opposite else verdict,
            "least_beta": least,
            "by_rdp": by_rdp,
            "advantage": float(deltas[0]),  # delta at epsilon 0 bounds 1 - alpha - beta
            "epsilon": float(epsilons[best]),
            "delta": float(deltas[best]),
            "proven_by": "PLD" if deltas[best] < pairs["rdp"][best] else "RDP",
            "risk": _risk(described),
        }

    def says(self, result: Result) -> str:
        """State the most that an attacker can find, and whether the point is possible."""
        found = at_most(100 * (1 - result["least_beta"]))
        end = {
            POSSIBLE: "The attacker at the mark may exist.",
            WORSE: "The attacker at the mark is worse than guessing.",
            REFUTES: "The attacker at the mark cannot exist.",
        }
        return (
            f"With {100 * result['alpha']:.3g} % false alarms an attacker finds at most {found} % "
            f"of the members. {end[result['verdict']]}"
        )

    def table(self, result: Result) -> Table:
        """The attacker's best errors, the line that proves them, and the point's verdict."""
        alpha, least, verdict = result["alpha"], result["least_beta"], result["verdict"]
        line, why = "none", "that no member is missed is not excluded"
        if least > 0:
            line = f"epsilon {at_most(result['epsilon'])}, delta {at_most(result['delta'])}"
            why = f"proven by {result['proven_by']}"
        best = f"at most {at_most(result['advantage'])}"
        risky = result["risk"]
        mu, covers = "none found", "of a Gaussian release that covers it"
        if risky.mu < float("inf"):
            mu, covers = f"at most {at_most(risky.mu)}", "one Gaussian release covers it"
            covers += (
                f", but for a delta of {short(risky.tail)}; regret {at_most(risky.regret, 2)}"
            )
        rows = [
            ("members missed", f"at least {at_least(least)}", f"at {alpha:.4g} false alarms"),
            ("the same by RDP", f"at least {at_least(result['by_rdp'])}", "a looser proof"),
            ("members found", f"at most {at_most(1 - least)}", "1 - members missed"),
            ("advantage", best, "found minus falsely accused, at any rate of alarms"),
            ("AUROC", f"at most {at_most(risky.auroc)}", "area of found over falsely accused"),
            ("mu", mu, covers),
            ("line that binds", line, why),
            (f"point ({alpha:.4g}, {result['beta']:.4g})", verdict, _SAYS[verdict]),
        ]
        run = (
            f"{result['run'].steps:,} steps, {result['run'].step.adjacency}, Poisson batches."
        )
        return Table(HEADINGS, rows, (run, MEASURED))

    def draw(self, result: Result) -> plots.Picture:
        """The trade-off curve with both points, and the profile with the pair that binds."""
        pairs = _pairs(result["run"])
        figure, (left, right) = plots.figure(width=7.2, height=3.4, panels=2, **ROOM)
        _draw_curve(left, result, pairs)
        _draw_profile(right, result, pairs)
        words = (
            f"With {result['alpha']:.3g} false alarms every attacker misses at least "
            f"{at_least(result['least_beta'])} of the members (RDP alone proves "
            f"{at_least(result['by_rdp'])}). The point ({result['alpha']:.3g}, "
            f"{result['beta']:.3g}): {result['verdict']}. The profile falls from delta "
            f"{at_most(pairs['deltas'][0])} at epsilon 0 to {at_most(pairs['deltas'][-1])} "
            f"at epsilon {at_most(pairs['epsilons'][-1])}."
        )
        return plots.picture(figure, words)


@lru_cache(maxsize=64)
def _pairs(run: RunInput) -> dict[str, Floats]:
    """epsilons, deltas (the smaller of PLD's and RDP's) and RDP's, each (PAIRS,) or fewer."""
    ledger = run.ledger
    top = min(-math.log(LEAST_ALPHA), rdp.epsilon(ledger, delta=TAIL).epsilon)
    epsilons = np.unique(
        top * np.linspace(0, 1, PAIRS) ** 1.5
    )  # closer where delta falls fast
    by_rdp = np.array([rdp.delta(ledger, epsilon=float(one)).delta for one in epsilons])
    by_rdp = np.minimum.accumulate(by_rdp)  # what holds at an epsilon holds beyond it
    by_pld = pld.profile(ledger, epsilons)
    return {"epsilons": epsilons, "deltas": np.minimum(by_pld, by_rdp), "rdp": by_rdp}


@lru_cache(maxsize=64)
def _risk(run: RunInput) -> Risk:
    return risk(run.ledger)


def _draw_curve(ax: Any, result: Result, pairs: dict[str, Floats]) -> None:
    alphas = np.union1d(np.linspace(0, 1, 201), np.geomspace(1e-5, 0.01, 40))
    proven, by_rdp = (
        tradeoff.from_profile(pairs["epsilons"], pairs[name], alphas)
        for name in ("deltas", "rdp")
    )
    colours = {"proven": plots.MEANINGS["PLD"], "RDP": plots.MEANINGS["RDP"]}
    ax.fill_between(alphas, 0, proven, color="0.92", linewidth=0)
    ax.plot(alphas, by_rdp, color=colours["RDP"], linewidth=1.4, label="RDP proves")
    ax.plot(alphas, proven, color=colours["proven"], linewidth=2, label="PLD proves")
    ax.plot(alphas, 1 - alphas, "--", color="0.5", linewidth=1.2, label="guessing")
    ax.text(0.03, 0.05, "no attacker here", color="0.3")
    alpha, beta, least = result["alpha"], result["beta"], result["least_beta"]
    ax.plot([alpha, alpha], [least, beta], color="0.5", linestyle=":", linewidth=1)
    best: Any = {"clip_on": False, "zorder": 3, "color": colours["proven"]}
    ax.plot(alpha, least, "o", **best)
    refutes = result["verdict"] == REFUTES
    mark, name = ("X", "cannot exist") if refutes else ("D", "your attacker")
    ax.plot(alpha, beta, mark, color="black", markersize=9, clip_on=False, zorder=3)
    across, side = (9, "left") if alpha < 0.6 else (-9, "right")
    plots.note(ax, name, (alpha, beta), (across, 0), va="center", ha=side)
    ax.legend(loc="upper right", fontsize=9, frameon=False, handlelength=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=ALARMS, ylabel=MISSED)
    ax.set_title(y=1.0, label="Errors of an attacker", fontsize=11)


def _draw_profile(ax: Any, result: Result, pairs: dict[str, Floats]) -> None:
    curves: Any = {}
    for name, label in (("deltas", "PLD"), ("rdp", "RDP")):
        shown = pairs[name] > LEAST_SHOWN
        if shown.any():
            curves[label] = (pairs["epsilons"][shown], pairs[name][shown])
    if curves:
        plots.lines(ax, curves, x="epsilon (nats)", y="delta", y_scale="log")
    if result["least_beta"] > 0 and result["delta"] > LEAST_SHOWN:
        at = result["epsilon"], result["delta"]
        ax.plot(*at, "o", color=plots.MEANINGS["PLD"], zorder=3)
        plots.note(ax, "proves the dot", at, (8, 5), ha="left", va="bottom")
    plots.plain(ax.yaxis, subs=(1,), numticks=6)
    ax.set_title(y=1.0, label="What proves it: the profile", fontsize=11)

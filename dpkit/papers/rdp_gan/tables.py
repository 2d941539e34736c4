"""Tables and figures of the paper, from stored runs.

`PRINTED` holds the paper's numbers; every other one is of a stored run, or of the formulas. A
stored run has `scores` at the tables' iterations; by reading:

* loss value: a schedule only decides the end of the one run, which each column reads at its
  printed iteration;
* repaired: each schedule is a separate run.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dpkit.papers.experiments.store import Rows, Shown, Stored, joined, mean, spread, values
from dpkit.papers.rdp_gan import theorems
from dpkit.papers.rdp_gan.recomputed import TABLE_2, StatedColumn, certified, costs
from dpkit.papers.rdp_gan.repaired import DECAYS, EPSILONS, RATES, SWEEPS, decay
from dpkit.papers.rdp_gan.settings import DELTA, GENERATOR_STEPS, SIGMA

ATTRIBUTES = (
    "age",
    "occupation",
    "education",
    "gender",
    "work class",
    "marital status",
    "work hours",
    "income",
)
COLUMNS = ("none", *DECAYS)
PRINTED: dict[str, Any] = {
    "table_2": {"digits": (23.534, 26.823), "census": (17.852, 21.242)},  # batches 64, 128
    "table_3": {
        "no privacy": (1.09, 0.68, 0.92, 0.01, 0.834, 0.36, 1.66, 0.06),
        "5": (1.1, 1.23, 1.23, 0.009, 1.11, 0.57, 1.65, 0.17),
        "0.5": (3.0, 1.75, 1.87, 0.048, 2.21, 0.69, 2.55, 0.44),
    },
    "accuracy": {  # Tables IV and V, by COLUMNS
        "digits": dict(zip(COLUMNS, (0.995, 0.863, 0.874, 0.876, 0.898, 0.908), strict=True)),
        "census": dict(zip(COLUMNS, (0.964, 0.825, 0.836, 0.828, 0.839, 0.843), strict=True)),
    },
    "figure_8": {  # (a), by the names of parts
        "loss-value": ".964 without privacy, .825 at 0.5",
        "dp-gan": ".784 at 0.5",
    },
}
PRINTED_ITERATIONS = {  # Tables IV and V
    "digits": {"time": 657, "step": 564, "exp": 902, "ant": 868},
    "census": {"time": 632, "step": 532, "exp": 894, "ant": 845},
}
METHODS = (  # on census records: title, and how the names of its parts begin
    ("real records", "real"),
    ("as published (epsilon: none)", "loss-value"),
    ("as published, its code's 40,040 iterations", "code-loss-value"),
    *((f"repaired GAN, epsilon {e:g}", f"repaired-constant-{e:g}") for e in EPSILONS[::-1]),
    *((f"private marginals, epsilon {e:g}", f"marginals-{e:g}") for e in EPSILONS[::-1]),
)
READINGS = {
    "loss-value": "noise on the loss value",
    "multiplicative": "multiplicative noise",
    "output-error": "eq. 9: noise on the output error",
    "dp-gan": "DP-GAN: noise on parameters",
}
SCORES = ("accuracy", "spread", "trained_on_generated")
TITLES = {  # by key; the first of each group is a row of Table IV
    "repaired-constant-5": "repaired, epsilon 5: batch 256, rate 0.002",
    "repaired-5-batch": "epsilon 5, batch 128",
    "repaired-5-rate": "epsilon 5, rate 0.001",
    "repaired-5-both": "epsilon 5, batch 128, rate 0.001",
    "repaired-constant-0.5": "repaired, epsilon 0.5: batch 128, rate 0.001",
    "repaired-0.5-both": "epsilon 0.5, batch 256, rate 0.002",
    "dp-gan": "DP-GAN",
    "dp-gan-no-noise": "DP-GAN without noise",
    "dp-gan-no-norm": "DP-GAN without its largest norm",
    "dp-gan-longer": "DP-GAN, ten times as many iterations of one step",
    "dcgan-loss-value": "the text's networks, one GAN of all digits",
    "dcgan-label": "the text's networks, label weight 20",
    "dcgan-rate": "the text's networks, the code's rates",
    "dcgan-both": "the text's networks, label weight 20, code's rates",
    "none": "the code's networks, one GAN a digit",
    "none-one-gan": "the code's networks, one GAN of all digits",
}


def table_2(stored: Stored) -> Rows:
    """Largest loss, C and sensitivity: printed, and of our runs without noise.

    Keys: data, batch, printed_largest, one_record and batch_mean (largest over the run, mean over
    seeds), C (printed), printed_sensitivity, sensitivity (C / batch).
    """
    return [
        {
            "data": column.data,
            "batch": column.batch,
            "printed_largest": PRINTED["table_2"][records][column.batch == 128],
            "one_record": mean(one["one_record"] for one in found),
            "batch_mean": mean(one["mean_of_a_batch"] for one in found),
            "C": column.largest_loss,
            "printed_sensitivity": column.printed,
            "sensitivity": column.sensitivity,
            "seeds": len(found),
        }
        for column in TABLE_2
        for records in ("digits" if column.data == "MNIST" else "census",)
        for found in (values(stored, f"{records}-{column.batch}"),)
    ]


def table_3(stored: Stored) -> Rows:
    """Error of each attribute's PMF (eq. 22): printed, and of our runs, mean over seeds.

    Rows: the paper's three, the published reading (which is the run without privacy), repaired
    GANs and private marginals at each epsilon. Of eq. 22's weights: see `tasks.pmf_error`.
    """
    rows = [
        {
            "row": f"paper, {name if name == 'no privacy' else f'epsilon {name}'}",
            **dict(zip(ATTRIBUTES, errors, strict=True)),
        }
        for name, errors in PRINTED["table_3"].items()
    ]
    for title, key in METHODS:
        means = mean_score(stored, key, "pmf_error")
        if means is not None:
            rows.append({"row": title, **dict(zip(ATTRIBUTES, means, strict=True))})
    return rows


def table_4(stored: Stored, records: str, *, score: str = "accuracy") -> Rows:
    """Tables IV ("digits") and V ("census"): a row each for the paper, as published, and repaired.

    Keys: row, epsilon (proven, or "none"), and for each of COLUMNS "<column>" (mean over seeds),
    "<column>_range" (lowest and highest), "<column>_iterations". Scores: "accuracy" (the paper's),
    "trained_on_generated", and, of digits, "spread". Parts are those of "table_4" or "table_5".
    """
    printed = PRINTED["accuracy"][records] if score == "accuracy" else {}
    iterations = dict.fromkeys(("none", "constant"), GENERATOR_STEPS)
    iterations |= PRINTED_ITERATIONS[records]
    paper = {"row": "paper", "epsilon": "0.5 (claimed)", **printed}
    rows = [paper | {f"{c}_iterations": n for c, n in iterations.items()}]
    published: dict[str, Any] = {"row": READINGS["loss-value"], "epsilon": "none"}
    for column, n in iterations.items():
        published |= _cell(stored, "loss-value", score, column, iterations=n)
    rows.append(published)
    for key in ("multiplicative", "output-error", "dp-gan"):
        row = {"row": READINGS[key], "epsilon": "none"} | _cell(stored, key, score, "constant")
        rows.append(row)
    for epsilon in EPSILONS:
        row = {"row": "repaired", "epsilon": f"{epsilon:g}"}
        for name in DECAYS:
            row |= _cell(stored, f"repaired-{name}-{epsilon:g}", score, name)
        rows.append(row)
    text = "the text's networks (DCGAN), one GAN in all"
    others = [
        (text, "none", "dcgan-loss-value"),
        *(
            ("the text's networks, repaired", f"{e:g}", f"dcgan-repaired-{e:g}")
            for e in EPSILONS
        ),
    ]
    if records == "census":
        others += [("private marginals", f"{e:g}", f"marginals-{e:g}") for e in EPSILONS]
    else:
        others.insert(1, ("the same, one GAN a digit", "none", "dcgan-digit-loss-value"))
    rows += [
        {"row": title, "epsilon": epsilon} | _cell(stored, key, score, "constant")
        for title, epsilon, key in others
    ]
    real = _scores(stored, "real", score)
    return [*rows, {"row": "real records", "epsilon": "none", "none": mean(real)}]


def figure_3(
    column: StatedColumn, noises: Sequence[float], *, iterations: int = 1
) -> dict[str, list[float]]:
    """Epsilon of generator iterations by noise on the loss: by the paper, eq. 23, and certified.

    Returns "noise"; "paper" (Theorem 4; of one iteration, as in the figure, eq. 16); "eq. 23",
    added up; "lower" and "upper", certified for n_d noisy loss values an iteration, of the
    sensitivity C / |X|, if nothing else were released. Delta 1e-5, add-remove.
    """
    setting = column.setting
    rate, each = setting["sample_rate"], setting["discriminator_steps"]
    pairs = [certified(column.release(noise), iterations * each) for noise in noises]
    return {
        "noise": list(noises),
        "paper": [
            theorems.theorem_4(noise_std=noise, generator_steps=iterations, **setting)
            for noise in noises
        ],
        "eq. 23": [
            iterations
            * theorems.moments_accountant_epsilon(
                noise, sample_rate=rate, discriminator_steps=each, delta=DELTA
            )
            for noise in noises
        ],
        "lower": [pair.lower for pair in pairs],
        "upper": [pair.epsilon for pair in pairs],
    }


def figure_5(stored: Stored) -> dict[str, tuple[list[int], list[float]]]:
    """Accuracy along training, mean over seeds: name -> (iterations, accuracy)."""
    names = {
        **READINGS,
        **{f"repaired-constant-{e:g}": f"repaired, epsilon {e:g}" for e in EPSILONS},
    }
    return {
        title: (
            some[0]["iterations"],
            np.mean([one["accuracy"] for one in some], axis=0).tolist(),
        )
        for key, title in names.items()
        if (some := [one["curve"] for one in values(stored, key)])
    }


def figure_6(stored: Stored) -> dict[str, list[float]]:
    """Each digit's accuracy at the end of training, mean over seeds, as published."""
    return {
        READINGS[key]: np.mean([one["curve"]["by_digit"] for one in some], 0).T[-1].tolist()
        for key in ("loss-value", "dp-gan")
        if (some := values(stored, key))
    }


def figure_7(stored: Stored, attribute: int) -> dict[str, list[float]]:
    """The PMF of one attribute in each method's records, mean over seeds."""
    return {
        title: np.mean([one[attribute] for one in some], axis=0).tolist()
        for title, key in METHODS
        if (some := _scores(stored, key, "pmf"))
    }


def figure_8(stored: Stored) -> Rows:
    """Classifiers of income: trained on real and asked about generated records, and the reverse."""
    rows = []
    for title, key in (*METHODS, ("published DP-GAN", "dp-gan")):
        row: dict[str, Any] = {"trained on or tested on": title}
        row["printed"] = PRINTED["figure_8"].get(key, "")
        for score in ("accuracy", "trained_on_generated", "balanced", "high_income"):
            row |= _mean_and_range(score, _scores(stored, key, score))
        rows.append(row)
    return rows


def figure_9(sweep: Stored, stored: Stored, records: str) -> Rows:
    """Figures 9 and 10: scores by schedule and rising decay rate, repaired at epsilon 0.5.

    Keys: schedule, rate, seeds, iterations, accuracy and trained_on_generated (means, with
    "_range"); published: accuracy of noise on the loss value after the iterations that cost, by
    Theorem 4, what 1,000 do at constant noise (None of tuned noise, or before the first point).
    """
    found = []
    curves = [one["curve"] for one in values(stored, "loss-value")]
    for name, rates in SWEEPS.items():
        own = {RATES[records][name]: (stored, f"repaired-{name}-0.5")}
        keys = own | {rate: (sweep, f"{name}-{rate:g}") for rate in rates}
        for rate, runs in sorted(keys.items(), key=lambda pair: pair[0]):
            row: dict[str, Any] = {"schedule": name, "rate": rate, "seeds": len(values(*runs))}
            row["iterations"] = mean(one["iterations"] for one in values(*runs))
            for score in ("accuracy", "trained_on_generated"):
                row |= _mean_and_range(score, _scores(*runs, score))
            row["published"] = None
            if name != "ant" and curves:
                spent = costs(decay(name, rate)(SIGMA), GENERATOR_STEPS)
                points = np.searchsorted(
                    curves[0]["iterations"], (spent <= GENERATOR_STEPS).sum(), side="right"
                )
                if points:
                    row["published"] = mean(one["accuracy"][points - 1] for one in curves)
            found += [row] if row["seeds"] else []
    return found


def mean_score(stored: Stored, key: str, score: str) -> "list[float] | None":
    """A score of several numbers (one an attribute), mean over a method's seeds."""
    found = _scores(stored, key, score)
    return np.mean(found, axis=0).tolist() if found else None


def ablation_rows(stored: Stored) -> Rows:
    """Rows of Table IV with an odd score, each beside the runs that change one thing about it.

    At each run's end, mean and range over seeds, of runs that are stored. Keys: run, seeds, and
    for each of SCORES "<score>" and "<score>_range". Of "ablations" and "table_4" together.
    """
    rows = []
    for key, title in TITLES.items():
        row: dict[str, Any] = {"run": title, "seeds": len(values(stored, key))}
        for score in SCORES:
            row |= _mean_and_range(score, _scores(stored, key, score))
        rows += [row] if row["seeds"] else []
    return rows


def _cell(
    stored: Stored, key: str, score: str, column: str, *, iterations: int | None = None
) -> dict[str, Any]:
    """One column of a row: mean, range over seeds, and iterations."""
    found = _scores(stored, key, score, iterations)
    if not found:
        return {}
    counts = iterations or mean(one["iterations"] for one in values(stored, key))
    return _mean_and_range(column, found) | {f"{column}_iterations": counts}


def _mean_and_range(name: str, numbers: list[float]) -> dict[str, Any]:
    every = spread(numbers)
    ends = (every["lowest"], every["highest"]) if numbers else None
    return {name: every["mean"], f"{name}_range": ends}


def _scores(stored: Stored, key: str, score: str, iterations: int | None = None) -> list[Any]:
    """A score of each seed's run, at `iterations` or at its end."""
    at = [
        one["scores"].get(str(iterations or one["iterations"]), {})
        for one in values(stored, key)
    ]
    return [scores[score] for scores in at if score in scores]


SHOWN = (
    Shown(
        "Table II: the largest loss, and the sensitivity that follows", ("table_2",), table_2
    ),
    Shown("Table III: errors of attributes' PMFs (eq. 22)", ("table_5",), table_3),
    Shown(
        "Table IV: accuracy of generated digits by a classifier of real ones",
        ("table_4",),
        partial(table_4, records="digits"),
    ),
    Shown(
        "Table V: accuracy of generated census records by a classifier of real ones",
        ("table_5",),
        partial(table_4, records="census"),
    ),
    Shown("Table IV, one change at a time", ("table_4", "ablations"), joined(ablation_rows)),
    Shown("Figure 8: classifiers of income, both ways", ("table_5",), figure_8),
    *(
        Shown(
            f"Figure {number}: decay rates at epsilon 0.5, {records}",
            (f"figure_{number}", table),
            partial(figure_9, records=records),
        )
        for number, table, records in ((9, "table_5", "census"), (10, "table_4", "digits"))
    ),
)

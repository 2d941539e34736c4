"""epsilon, noise: what a training run costs, and the noise that a target allows."""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import typer

from dpkit import __version__
from dpkit.commands.output import AsJson, print_json
from dpkit.commands.pricing import OVER_CLIP_NORM, Pricing, accountant_of, chosen, steps_of
from dpkit.common import checks
from dpkit.common.show import Table, at_most, interval, short
from dpkit.privacy import Guarantee, Release, Unsupported, as_drawn, groups
from dpkit.privacy.best_of import best_of as choice
from dpkit.privacy.risk import risk
from dpkit.privacy.statement import is_upper_bound
from dpkit.privacy.statement import statement as written

SampleRate = typer.Option(help="Batch size / number of records, in [0, 1].")
Steps = typer.Option(help="Number of noisy steps.")
Delta = Annotated[float, typer.Option(help="In (0, 1); below 1 / number of records.")]
Accountant = Annotated[
    str | None,
    typer.Option(
        help="rdp (Renyi DP; the default), pld (a certified pair; the default for "
        "dpkit's own *.safetensors and *.ledger.json), moments (Abadi et al. 2016) or gdp "
        "(Gaussian DP; with sampling no upper bound)."
    ),
]
Conversion = Annotated[
    str | None,
    typer.Option(help="For rdp: classic, improved (the default) or optimal, ever tighter."),
]
AdjacencyName = Annotated[
    str | None, typer.Option("--adjacency", help="add-remove (the default) or replace-one.")
]


def epsilon(
    delta: Delta,
    noise_multiplier: Annotated[
        float | None,
        typer.Option(help="Noise standard deviation / clip norm C of each example, > 0."),
    ] = None,
    sample_rate: Annotated[float | None, SampleRate] = None,
    steps: Annotated[int | None, Steps] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="All steps from a file: CSV with columns noise_multiplier,sample_rate,count, JSON "
            "as a list of such objects, a checkpoint's ledger (its charged steps), a released "
            "generator (*.safetensors), or an Opacus accountant's state (JSON).",
        ),
    ] = None,
    accountant: Accountant = None,
    conversion: Conversion = None,
    adjacency: AdjacencyName = None,
    statement: Annotated[
        bool, typer.Option(help="Print the sentence that a paper should carry.")
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            help="Say what an attacker may reach, and the mu of Gaussian DP that covers the run."
        ),
    ] = False,
    unit: Annotated[
        str, typer.Option(help="For --statement: what one record is.")
    ] = "one training example",
    sampling_used: Annotated[
        str, typer.Option(help="For --statement: how batches were really drawn.")
    ] = "not stated",
    tuning: Annotated[
        str | None, typer.Option(help="For --statement: whether tuning was charged.")
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(help="For pld: most records of a user or group, which change together."),
    ] = None,
    best_of: Annotated[
        float | None,
        typer.Option(
            metavar="MEAN",
            help="For rdp: release the best of a random, secret number of such runs, drawn from "
            "the geometric law with this mean.",
        ),
    ] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            help="poisson, truncated, balls-and-bins, with-replacement, shuffled or fixed: compare "
            "the run's cost under all of these, certified from both sides; --batch-size and "
            "--data-size replace --sample-rate."
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="For --sampling: records a batch, on average or always.")
    ] = None,
    data_size: Annotated[
        int | None,
        typer.Option(help="For --sampling: the number of records, which is public."),
    ] = None,
    largest_batch: Annotated[
        int | None,
        typer.Option(
            help="For --sampling: most records of a truncated batch; by default the least that "
            "takes at most 1 % of delta."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The epsilon of DP-SGD.

    What did 10,000 steps with noise 1.1 on Poisson batches of 1 % cost?

      python -m dpkit epsilon --noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5

    Sample rate 1 is a Gaussian mechanism on all records; 0 steps cost nothing. The tightest answer,
    as a pair that holds the true one; the steps from a file, such as Opacus saves:

      python -m dpkit epsilon ... --accountant pld

      python -m dpkit epsilon --ledger steps.csv --delta 1e-5

    The sentence for a paper, and the older conversion that many papers used:

      python -m dpkit epsilon ... --statement --sampling-used "shuffled epochs"

      python -m dpkit epsilon ... --conversion classic

    What an attacker may reach, and the mu of Gaussian DP that covers the run:

      python -m dpkit epsilon ... --report

    For users of up to 4 records, and where the best of some 10 such runs was kept:

      python -m dpkit epsilon ... --accountant pld --group-size 4

      python -m dpkit epsilon ... --best-of 10

    Batches as code really draws them, all ways side by side:

      python -m dpkit epsilon --noise-multiplier 1 --steps 10000 --delta 1e-5
      --sampling shuffled --batch-size 600 --data-size 60000
    """
    drawn = {
        "--batch-size": batch_size,
        "--data-size": data_size,
        "--largest-batch": largest_batch,
    }
    if sampling is None:
        leave_out(drawn, "it belongs to --sampling")
    else:
        others = {
            "--sample-rate": sample_rate,
            "--ledger": ledger,
            "--accountant": accountant,
            "--conversion": conversion,
            "--adjacency": adjacency,
            "--statement": statement or None,
            "--report": report or None,
            "--group-size": group_size,
            "--best-of": best_of,
        }
        leave_out(others, "with --sampling each way has its own accountant and adjacency")
        show(
            sampling,
            {"--noise-multiplier": noise_multiplier, "--steps": steps, **drawn},
            delta,
            as_json=as_json,
        )
        return
    if accountant is None and conversion is None:
        accountant = accountant_of(ledger)
    pricing = chosen(accountant, adjacency, conversion)
    releases = steps_of(
        pricing,
        ledger=ledger,
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        steps=steps,
    )
    priced = releases if best_of is None else choice(releases, mean=best_of)
    charged = "not charged"
    if best_of is not None:
        charged = f"charged: of {short(best_of)} such runs, on average, the best is released"
    if group_size is not None:
        if pricing.accountant != "pld":
            raise ValueError(
                f"--group-size is for accountant pld, got {pricing.accountant}: add "
                "--accountant pld"
            )
        found = groups.epsilon(priced, group_size=group_size, delta=delta)
        unit = unit if group_size == 1 else f"up to {group_size} records, each {unit}"
    else:
        found = pricing.epsilon(priced, delta)
    total = sum(release.count for release in releases)
    asked = {"group_size": group_size, "best_of": best_of}
    result = {
        **_fields(found, pricing, noise_multiplier, sample_rate, total),
        "ledger": ledger,
        "releases": _listed(releases),
        **{name: value for name, value in asked.items() if value is not None},
    }
    told = None
    if report or (statement and total):
        with suppress(*(() if report else (Unsupported, ArithmeticError))):
            told = risk(groups.in_groups(priced, group_size or 1))
    if statement:
        how = {"sampling": sampling_used, "tuning": tuning or charged, "told": f"{told or ''}"}
        result["statement"] = written(found, releases, unit=unit, **how)
    if edge := pricing.edge(found):
        result["note"] = edge
    if report and told:
        result["risk"] = told._asdict()
    if as_json:
        print_json(result)
    elif statement:
        print(result["statement"])
    else:
        lines = [_line(found), edge and f"note: {edge}", told and f"{told}."]
        print("\n".join(str(line) for line in lines if line))


def noise(
    epsilon: Annotated[float, typer.Option(help="The target, > 0.")],
    sample_rate: Annotated[float, SampleRate],
    steps: Annotated[int, Steps],
    delta: Delta,
    accountant: Accountant = None,
    conversion: Conversion = None,
    adjacency: AdjacencyName = None,
    as_json: AsJson = False,
) -> None:
    """The least noise multiplier that keeps a run within a target epsilon.

      python -m dpkit noise --epsilon 9.6 --sample-rate 0.01 --steps 10000 --delta 1e-5

      python -m dpkit noise --epsilon 9.6 ... --accountant pld

    The result lies on the private side: priced again, it costs no more than the target, for pld
    with the upper of both bounds. It is noise standard deviation / clip norm C.
    """
    from dpkit.privacy import calibrate

    pricing = chosen(accountant, adjacency, conversion)
    if 0 < epsilon <= (least := pricing.floor(delta) if 0 < delta < 1 else 0):
        raise ValueError(
            f"--epsilon {short(epsilon)} is out of reach: by 32 moments no noise brings epsilon "
            f"below {short(least, 4)}; take accountant pld"
        )
    with warnings.catch_warnings():  # the line printed says so itself
        warnings.simplefilter("ignore", calibrate.ApproximationWarning)
        value = calibrate.noise_multiplier(
            epsilon,
            sample_rate=sample_rate,
            steps=steps,
            delta=delta,
            accountant=pricing.price,
            mechanism=lambda noise: pricing.step(noise, sample_rate),
            **pricing.options,
        )
    # 0: nothing is released
    releases = [Release(pricing.step(value or 1.0, sample_rate), steps)]
    found = pricing.epsilon(releases, delta)
    if as_json:
        print_json(
            {"target_epsilon": epsilon, **_fields(found, pricing, value, sample_rate, steps)}
        )
    else:
        print(f"noise multiplier {at_most(value, 6)}: {_line(found)}")


def _fields(
    found: Guarantee,
    pricing: Pricing,
    noise: float | None,
    sample_rate: float | None,
    steps: int,
) -> dict[str, Any]:
    """What there is to say of a price; noise and rate are None where steps come from a file."""
    return {
        "epsilon": found.epsilon,
        "lower": found.lower,
        "delta": found.delta,
        "adjacency": found.adjacency,
        "accountant": pricing.accountant,
        "upper_bound": is_upper_bound(found),
        "conversion": pricing.conversion,
        "noise_multiplier": noise,
        "noise_meaning": None if noise is None else OVER_CLIP_NORM,
        "sample_rate": sample_rate,
        "steps": steps,
        "method": found.method,
        "assumptions": list(found.assumptions),
        "version": __version__,
    }


def _listed(releases: list[Release]) -> list[dict[str, Any]]:
    """Each release as a ledger file has it."""
    return [
        {name: value for name, value in vars(mechanism).items() if name != "adjacency"}
        | {"count": count}
        for mechanism, count in releases
    ]


def _line(found: Guarantee) -> str:
    about = "" if found.lower > 0 or is_upper_bound(found) else "about "
    assumed = "".join(f"\nassumes {one}" for one in found.assumptions)
    delta, how = short(found.delta), f"{found.adjacency} ({found.method})"
    return f"epsilon {about}{_epsilon(found)} at delta {delta}, {how}{assumed}"


def leave_out(options: Mapping[str, Any], reason: str) -> None:
    """Refuse (ValueError) options that are given where they mean nothing."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{option} is given, and {reason}; leave it out")


def show(sampling: str, run: Mapping[str, Any], delta: float, *, as_json: bool) -> None:
    """Print a line for each of as_drawn.WAYS to draw batches, the one asked for first.

    ValueError: an option of `run`, which has five in their order, is missing or out of range.
    """
    checks.one_of(tuple(as_drawn.WAYS), sampling=sampling)
    missing = [
        name for name, value in run.items() if value is None and name != "--largest-batch"
    ]
    if missing:
        raise ValueError(f"--sampling needs {' and '.join(missing)} as well")
    noise, steps, batch_size, data_size, largest = run.values()
    if not 1 <= batch_size <= data_size:
        raise ValueError(
            f"--batch-size must lie between 1 and --data-size, got {batch_size} and {data_size}"
        )
    checks.whole(**{"--steps": steps})
    priced = as_drawn.DrawnRun(noise, batch_size, data_size, steps)
    if largest is None:
        largest = as_drawn.largest_batch(priced, delta=delta)
    checks.whole(batch_size, **{"--largest-batch": largest})
    found = as_drawn.every_way(priced, delta=delta, largest=largest)
    found = {sampling: found.pop(sampling), **found}
    if as_json:
        settings = {name[2:].replace("-", "_"): value for name, value in run.items()}
        ways = {name: one._asdict() for name, one in found.items()}
        print_json(
            {**settings, "largest_batch": largest, "version": __version__, "ways": ways}
        )
        return
    rows = [
        (name, _epsilon(one), one.adjacency, as_drawn.WAYS[name])
        for name, one in found.items()
    ]
    notes = (
        f"At delta {short(delta)}, certified; truncated batches hold {largest} records at most.",
        "To replace a record is to remove one and to add one: compare lines of one adjacency.",
    )
    print(Table(("batches", "epsilon", "adjacency", "drawn"), rows, notes))


def _epsilon(found: Guarantee) -> str:
    return interval(found.lower, found.epsilon) if found.lower else at_most(found.epsilon)

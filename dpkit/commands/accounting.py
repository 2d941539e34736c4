"""epsilon and noise: what a training run costs, and the noise that a target allows."""

from typing import Annotated, Any

import typer

from dpkit import __version__, checks
from dpkit.commands.output import AsJson, print_json, rounded_up
from dpkit.privacy import Guarantee, Release, SampledGaussian, calibrate, rdp
from dpkit.privacy.mechanisms import Adjacency

ACCOUNTANTS = {"rdp": rdp.epsilon}

SampleRate = Annotated[
    float,
    typer.Option(help="Chance of each record to enter a batch: batch size / number of records."),
]
Steps = Annotated[int, typer.Option(help="Number of noisy steps.")]
Delta = Annotated[float, typer.Option(help="In (0, 1); below 1 / number of records.")]
Accountant = Annotated[str, typer.Option(help="How costs are added up: rdp.")]
Conversion = Annotated[
    str,
    typer.Option(help="From RDP to epsilon: classic, improved or optimal (ever tighter)."),
]
AdjacencyName = Annotated[
    str,
    typer.Option("--adjacency", help="What neighbours differ in: add-remove or replace-one."),
]
Orders = Annotated[
    str | None,
    typer.Option(help="Renyi orders, such as 2,4,8.5; chosen automatically if not given."),
]


def epsilon(
    noise_multiplier: Annotated[
        float, typer.Option(help="Noise standard deviation / clip norm, > 0.")
    ],
    sample_rate: SampleRate,
    steps: Steps,
    delta: Delta,
    accountant: Accountant = "rdp",
    conversion: Conversion = "improved",
    adjacency: AdjacencyName = "add-remove",
    orders: Orders = None,
    statement: Annotated[
        bool, typer.Option(help="Print the sentence that a paper should carry.")
    ] = False,
    unit: Annotated[
        str, typer.Option(help="For --statement: what one record is.")
    ] = "one training example",
    sampling_used: Annotated[
        str, typer.Option(help="For --statement: how batches were really drawn.")
    ] = "not stated",
    tuning: Annotated[
        str, typer.Option(help="For --statement: whether tuning was charged.")
    ] = "not charged",
    as_json: AsJson = False,
) -> None:
    """The epsilon of DP-SGD with Poisson sampling.

    What did 10,000 steps with noise 1.1 on batches of 1 % cost?

      python -m dpkit epsilon --noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5

    Sample rate 1 is a Gaussian mechanism on all records; 0 steps cost nothing. The sentence for a
    paper, and the older conversion that many papers used:

      python -m dpkit epsilon ... --statement --sampling-used "shuffled epochs"

      python -m dpkit epsilon ... --conversion classic
    """
    price, chosen = _accountant(accountant), _orders(orders)
    adjacent = _adjacency(adjacency)
    checks.whole(steps=steps)
    ledger = [Release(SampledGaussian(noise_multiplier, sample_rate, adjacent), steps)]
    found = price(ledger, delta=delta, conversion=conversion, orders=chosen)
    result = _fields(found, accountant, conversion, chosen, sample_rate, steps)
    result["noise_multiplier"] = noise_multiplier
    if statement:
        result["statement"] = _sentence(result, unit, sampling_used, tuning)
    if as_json:
        print_json(result)
    else:
        print(result["statement"] if statement else _line(found))


def noise(
    epsilon: Annotated[float, typer.Option(help="The target, > 0.")],
    sample_rate: SampleRate,
    steps: Steps,
    delta: Delta,
    accountant: Accountant = "rdp",
    conversion: Conversion = "improved",
    adjacency: AdjacencyName = "add-remove",
    orders: Orders = None,
    as_json: AsJson = False,
) -> None:
    """The least noise multiplier that keeps a run within a target epsilon.

      python -m dpkit noise --epsilon 9.6 --sample-rate 0.01 --steps 10000 --delta 1e-5

    The result lies on the private side: priced again, it costs no more than the target.
    """
    price, chosen, adjacent = _accountant(accountant), _orders(orders), _adjacency(adjacency)
    value = calibrate.noise_multiplier(
        epsilon, sample_rate=sample_rate, steps=steps, delta=delta, accountant=price,
        adjacency=adjacent, conversion=conversion, orders=chosen,
    )  # fmt: skip
    mechanism = SampledGaussian(value or 1.0, sample_rate, adjacent)  # 0: nothing is released
    found = price([Release(mechanism, steps)], delta=delta, conversion=conversion, orders=chosen)
    if as_json:
        fields = _fields(found, accountant, conversion, chosen, sample_rate, steps)
        print_json({"noise_multiplier": value, "target_epsilon": epsilon, **fields})
    else:
        print(f"noise multiplier {value:.6g}: {_line(found)}")


def _accountant(name: str) -> Any:
    checks.one_of(tuple(ACCOUNTANTS), accountant=name)
    return ACCOUNTANTS[name]


def _adjacency(name: str) -> Adjacency:
    checks.one_of(("add-remove", "replace-one"), adjacency=name)
    return "add-remove" if name == "add-remove" else "replace-one"


def _orders(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"orders must be numbers > 1 with commas between, got {text!r}") from None


def _fields(
    found: Guarantee,
    accountant: str,
    conversion: str,
    orders: list[float] | None,
    sample_rate: float,
    steps: int,
) -> dict[str, Any]:
    return {
        "epsilon": found.epsilon,
        "lower": found.lower,
        "delta": found.delta,
        "adjacency": found.adjacency,
        "accountant": accountant,
        "conversion": conversion,
        "orders": orders,
        "sample_rate": sample_rate,
        "steps": steps,
        "method": found.method,
        "assumptions": list(found.assumptions),
        "version": __version__,
    }


def _line(found: Guarantee) -> str:
    assumed = "".join(f"\nassumes {one}" for one in found.assumptions)
    return (
        f"epsilon {rounded_up(found.epsilon)} at delta {found.delta:g}, {found.adjacency} "
        f"({found.method}){assumed}"
    )


def _sentence(result: dict[str, Any], unit: str, sampling_used: str, tuning: str) -> str:
    """Epsilon, delta, adjacency, unit, accountant and version, sampling, tuning."""
    return (
        f"Training satisfies ({rounded_up(result['epsilon'])}, {result['delta']:g})-differential "
        f"privacy under {result['adjacency']} adjacency, the unit of privacy being {unit}: "
        f"{result['steps']} steps with noise multiplier {result['noise_multiplier']:g} and sample "
        f"rate {result['sample_rate']:g}, accounted by dpkit {result['version']} "
        f"({result['method']}). Sampling assumed: Poisson; sampling used: {sampling_used}. "
        f"Tuning of hyperparameters: {tuning}."
    )

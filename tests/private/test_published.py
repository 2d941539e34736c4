"""What is published, of 200 runs with one record more and of 200 without it, tells them apart by no
more than the stated epsilon: files, pickles, words, and the step at which a run stopped.

Each attack knows all other records, and the record is one that every clip cuts. Bounds hold with a
confidence of 1 - 1e-4 each, so that a right kit fails here once in 1,000 times.

What such attacks can see, controls say: a network with a twentieth of its noise, a table of 200
times its epsilon, a published stop by records. Half the noise they do not see, nor what images and
a GAN tell at any noise: too little comes through a clipped mean or a critic in 200 runs.
"""

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from dpkit.audit import bounds
from dpkit.private import NoisyStandardised, Private, PrivateGan, PrivateImages, PrivateTable

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow("a leak into what is published that no check of its parts names"),
]

RUNS, EPSILON, DELTA, RECORDS = 200, 2.0, 1e-5, 60
PLAN = {"epsilon": EPSILON, "delta": DELTA, "steps": 20, "batch_size": 12, "public_size": RECORDS}
SEEN = PLAN | {"steps": 4, "batch_size": RECORDS}  # every record in each batch: the most is seen
GAN = {name: value for name, value in PLAN.items() if name != "steps"} | {"learning_rate": 0.05}


def rows(present: bool) -> torch.Tensor:
    """Rows of zeros, and one far along the first coordinate."""
    x = torch.zeros(RECORDS - 1 + present, 4)
    if present:
        x[-1, 0] = 100.0
    return x


def trained(
    present: bool,
    *,
    stop: Callable[[Private, nn.Module], bool] = lambda private, net: False,
    plan: dict[str, Any] = PLAN,
    noise: float = 1.0,
    **transform: Any,
):
    """A network that moves along the noised sums, until it is stopped; with a part of its noise."""
    net = nn.Linear(4, 1, bias=False)
    nn.init.zeros_(net.weight)
    x = rows(present)
    private = Private(net, torch.optim.SGD(net.parameters(), 1.0), x, **plan, **transform)
    whole = private.plan.noise_multiplier
    private.plan = replace(private.plan, noise_multiplier=noise * whole)
    for (batch,) in private:
        private.step(lambda x: net(x).squeeze(1), batch)
        if stop(private, net):
            break
    return private


def by_weights(private: Private, net: nn.Module) -> bool:
    """As released values decide."""
    return float(net.weight[0, 0]) < -0.3


def by_loss(private: Private, net: nn.Module) -> bool:
    """As records decide: what the sentence does not cover."""
    return abs(private.curves.loss.iloc[-1]) > 1.0


def read(private: Private, folder: Any) -> tuple[dict[str, float], str]:
    """Scores from a published file, and its words."""
    private.save(folder / "net.safetensors")
    with safe_open(str(folder / "net.safetensors"), framework="pt") as file:
        facts, weight = json.loads(file.metadata()["dpkit"]), file.get_tensor("weight")
    facts.pop("standardised", None)  # released numbers, of which `standardised` scores one
    steps = facts.pop("steps_done", 0)  # as long as no file says it
    return {"weights": -float(weight[0, 0]), "steps": -steps}, json.dumps(facts)


def file_of_a_network(present: bool, folder: Any) -> tuple[dict[str, float], str]:
    return read(trained(present, plan=SEEN), folder)


def file_stopped_by_released_values(present: bool, folder: Any) -> tuple[dict[str, float], str]:
    return read(trained(present, stop=by_weights), folder)


def words_stopped_by_records(present: bool, folder: Any) -> tuple[dict[str, float], str]:
    """The words alone: the weights of such a run are not covered, and the sentence says so."""
    scores, words = read(trained(present, stop=by_loss), folder)
    return {"steps": scores["steps"]}, words


def standardised(present: bool, folder: Any) -> tuple[dict[str, float], str]:
    transform = NoisyStandardised(0.0, 100.0, 6.0)
    private = trained(present, transform=transform)
    mean = float(private.transform.mean[0])
    scores, words = read(private, folder)
    return scores | {"mean": mean}, words


def pickled_gan(present: bool, folder: Any) -> tuple[dict[str, float], str]:
    torch.manual_seed(0)  # noqa: TID251  the same first weights in each run
    networks = nn.Linear(2, 4), nn.Linear(4, 1)
    gan = PrivateGan(*networks, latent_size=2, loss="hinge", **GAN)
    gan.fit(rows(present) / 100, steps=20)
    again = pickle.loads(pickle.dumps(gan))
    assert set(vars(again)) == set(vars(gan)) - {"curves_", "transform_"}
    return {"bias": float(again.generator_.bias[0])}, again.statement()


def pickled_images(present: bool, folder: Any) -> tuple[dict[str, float], str]:
    x = np.zeros((RECORDS - 1 + present, 2, 2))
    x[RECORDS - 1 :] = 1.0
    made = PrivateImages(classes=1, epsilon=EPSILON, delta=DELTA, public_size=RECORDS)
    made = pickle.loads(pickle.dumps(made.fit(x, np.zeros(len(x), int))))
    return {"mean": float(made.sample(np.zeros(300, int)).mean())}, made.statement()


def pickled_table(
    present: bool, folder: Any, epsilon: float = EPSILON
) -> tuple[dict[str, float], str]:
    import pandas as pd

    cells = ["a"] * (RECORDS - 1) + ["b"] * present
    frame = pd.DataFrame({"one": cells, "two": cells})
    columns = {"one": ["a", "b"], "two": ["a", "b"]}
    made = PrivateTable(columns, epsilon=epsilon, delta=DELTA, public_size=RECORDS)
    made = pickle.loads(pickle.dumps(made.fit(frame)))
    return {"share": float((made.sample(3000)["one"] == "b").mean())}, made.statement()


PUBLISHED = (
    *(file_of_a_network, file_stopped_by_released_values, words_stopped_by_records),
    *(standardised, pickled_gan, pickled_images, pickled_table),
)


def measured(absent: list[float], present: list[float], confidence: float) -> float:
    asked = {"delta": DELTA, "adjacency": "add-remove", "confidence": confidence}
    return bounds.clopper_pearson(absent, present, **asked, rng=np.random.default_rng(0)).epsilon


def in_both_worlds(publish: Callable[[bool], Any]) -> list[list[Any]]:
    """What is published without the record, and with it."""
    return [[publish(present) for _ in range(RUNS)] for present in (False, True)]


def attacked(publish: Any, folder: Any) -> Iterator[tuple[str, list[float], list[float], set[str]]]:
    """Of each score its values in the two worlds; and all words that were published."""
    found = in_both_worlds(lambda present: publish(present, folder))
    words = {text for world in found for _, text in world}
    for name in found[0][0][0]:
        absent, present = ([scores[name] for scores, _ in world] for world in found)
        yield name, absent, present, words


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("publish", PUBLISHED)
def test_what_is_published_tells_no_more_than_is_stated(publish, tmp_path):
    for name, absent, present, words in attacked(publish, tmp_path):
        at_95, sure = (measured(absent, present, c) for c in (0.95, 1 - 1e-4))
        print(f"{publish.__name__}, {name}: at least {at_95:.3f} (95 %), stated {EPSILON}")
        assert sure <= EPSILON
        assert len(words) == 1  # the same in both worlds, to the letter


@pytest.mark.parametrize(
    "publish",
    [
        lambda present: (
            -float(trained(present, plan=SEEN, noise=0.05).net.get_parameter("weight")[0, 0])
        ),
        lambda present: pickled_table(present, None, 200 * EPSILON)[0]["share"],
        lambda present: -trained(present, stop=by_loss).steps_done,  # as records decide: published
    ],
    ids=["a twentieth of the noise", "200 times the epsilon", "a stop by records"],
)
def test_the_attacks_would_find_more_than_is_stated(publish):
    """The controls."""
    assert measured(*in_both_worlds(publish), 1 - 1e-4) > EPSILON

"""A run that goes on is the run that was begun, or says what differs; two runs share no noise."""

import importlib
import linecache
import sys
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from tiny import SHUFFLED, STEPS, Plain, Run, data, killed_in, networks, step
from torch import nn

from dpkit.privacy.clipping import PerCoordinateClipping
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.training.checkpoint import Checkpoints, described, spent
from dpkit.training.checkpoint.ledger import ledger_path
from dpkit.training.networks import Conditional
from dpkit.training.types import StepRecord


def another_step(*args, **keywords):
    return step(*args, **keywords)


@dataclass(frozen=True)
class Scaled:
    """A step with a number."""

    scale: float

    def __call__(self, *args, **keywords):
        return step(*args, scale=self.scale, **keywords)


def changed(change):
    gan = networks()
    change(gan)
    return {"gan": gan}


FROZEN = changed(lambda gan: gan.discriminator[0].weight.requires_grad_(False))
IN_EVAL = changed(lambda gan: gan.discriminator[2].eval())
WITH_A_BUFFER = changed(lambda gan: gan.generator_net.register_buffer("more", torch.zeros(3)))
IN_DOUBLE = changed(lambda gan: gan.averaged_net.double())


def with_optimizer(kind, parameters=None):
    """A gan whose critic has another optimiser, of some of its parameters."""
    gan = networks()
    mine = list(gan.discriminator.parameters())[:parameters]
    return {"gan": gan._replace(discriminator_optimizer=kind(mine, lr=0.1))}


# What is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": Plain(noise=Constant(2.0))}, r"settings\.noise \(stored .*1\.0.*now .*2\.0"),
        ({"settings": Plain(sampling=PoissonSampling(5))}, r"settings\.sampling"),
        ({"settings": SHUFFLED}, r"settings\.sampling"),
        ({"settings": Plain(bounds=np.ones(3))}, r"settings\.bounds"),
        ({"on": data(seed=1)}, r"these differ: data\."),
        ({"on": data(size=19)}, r"these differ: data\."),
        ({"on": data()._replace(features=data().features.double())}, r"these differ: data\."),
        ({"on": data(public_size=21)}, r"public_size \(stored 20, now 21\)"),
        ({"on": data()._replace(transform=torch.neg)}, r"transform \(stored None .*, now .* neg"),
        ({"by": another_step}, r"step \(stored tiny\.step .*, now .*\.another_step"),
        ({"by": partial(step, scale=1.0)}, r"step \(stored tiny\.step"),
        ({"tf32": True}, r"tf32 \(stored False, now True\)"),
        ({"gan": networks(nn.ReLU)}, r"gan\.discriminator .*Tanh.*ReLU"),
        ({"gan": networks(dropout=0.5)}, r"gan\.discriminator .*p=0\.0.*p=0\.5"),
        (FROZEN, r"gan\.discriminator .*frozen: \['0\.weight'\]"),
        (IN_EVAL, r"gan\.discriminator .*True, False"),
        (WITH_A_BUFFER, r"gan\.generator_net .* more \(3,\) torch.float32"),
        (IN_DOUBLE, r"gan\.averaged_net .*float64"),
        (with_optimizer(torch.optim.SGD), r"stored Adam, now SGD"),
        (with_optimizer(torch.optim.Adam, 2), "parameter group that doesn't match the size"),
    ],
)
def test_another_run_is_refused_and_nothing_is_lost(place, change, words):
    killed_in(place, 4)
    before = {path.name: path.read_bytes() for path in place.path.parent.iterdir()}
    with pytest.raises(ValueError, match=words):
        next(Run(place, **change).records)
    assert before == {path.name: path.read_bytes() for path in place.path.parent.iterdir()}
    assert Run(place).all().done[0] == 3


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (partial(step, scale=1.0), partial(step, scale=-1.0)),
        (partial(partial(step, scale=1.0)), partial(step, scale=2.0)),
        (Scaled(1.0), Scaled(-1.0)),
        (Scaled(1.0).__call__, Scaled(2.0).__call__),
    ],
)
def test_another_argument_of_a_step_is_refused(place, first, then):
    killed_in(place, 4, by=first)
    with pytest.raises(ValueError, match=r"step \(stored .*1\.0"):
        Run(place, by=then).all()
    Run(place, by=first).all()
    assert spent(place.path) == STEPS


def test_another_version_of_torch_or_number_of_threads_is_refused(place, monkeypatch):
    killed_in(place, 4)
    torch.set_num_threads(2)
    with pytest.raises(ValueError, match=r"differ: threads \(stored 1, now 2\)\. Use the settings"):
        next(Run(place).records)
    torch.set_num_threads(1)
    monkeypatch.setattr("torch.__version__", "0.0")
    with pytest.raises(ValueError, match=r"differ: torch \(stored .*, now 0\.0\)"):
        next(Run(place).records)


OWN = """
import tiny

def by(*args, **keywords):
    return tiny.step(*args, **keywords)

class Step:
    def method(self, *args, **keywords):
        return tiny.step(*args, **keywords)

    __call__ = method
"""


@pytest.mark.parametrize("of", ["by", "Step()", "Step().method", "partial(by)"])
def test_a_step_whose_source_was_changed_is_refused(place, tmp_path, monkeypatch, of):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "own_step.py"
    path.write_text(OWN)
    monkeypatch.delitem(sys.modules, path.stem, raising=False)
    by = eval(of, vars(importlib.import_module(path.stem)) | {"partial": partial})
    killed_in(place, 4, by=by)
    path.write_text(OWN + "later = True\n")
    with pytest.raises(ValueError, match=r"step \(stored .*source"):
        next(Run(place, by=by).records)
    path.write_text(OWN)
    assert Run(place, by=by).all().done[0] == 3


def typed(source):
    """A function typed into a notebook: its module has no file, its cell has a source."""
    cell = f"<cell {hash(source)}>"
    linecache.cache[cell] = (len(source), None, source.splitlines(True), cell)
    module = ModuleType("notebook")
    exec(compile(source, cell, "exec"), module.__dict__)
    return module.__dict__["by"]


def test_a_step_typed_into_a_notebook_is_compared_by_its_own_source(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "notebook", ModuleType("notebook"))
    source = "import tiny\ndef by(*args, **keywords):\n    return tiny.step(*args, **keywords)\n"
    killed_in(place, 4, by=typed(source))
    other = source.replace("(*args, **keywords)\n", "(*args, **keywords, scale=2.0)\n")
    with pytest.raises(ValueError, match=r"step \(stored notebook\.by of source"):
        next(Run(place, by=typed(other)).records)
    assert Run(place, by=typed(source)).all().done[0] == 3


def local_step(function=step):
    def inner(*args, **keywords):
        return function(*args, **keywords)

    return inner


def exec_made():
    names = {"__name__": "nowhere"}
    exec("def by(*args, **keywords):\n    pass", names)
    return names["by"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"by": lambda *args, **keywords: None}, "lambda"),
        ({"by": local_step()}, r"local_step\.<locals>\.inner is a lambda, a closure"),
        ({"by": wraps(another_step)(local_step())}, "another_step is a lambda, a closure"),
        ({"by": partial(local_step())}, "closure"),
        ({"by": partial(step, scale=lambda x: x)}, "lambda"),
        ({"by": exec_made()}, r"nowhere\.by is .* made by a function or exec"),
        ({"settings": Plain(bounds=lambda x: x)}, "<lambda>"),
        ({"on": data()._replace(transform=lambda x: x)}, "<lambda>"),
    ],
)
def test_what_no_other_process_can_compare_is_refused(place, bad, words):
    names = {"by": "step", "settings": r"settings\.bounds", "on": "transform"}
    (name,) = (names[key] for key in bad)
    with pytest.raises(ValueError, match=f"{name} must be something .*{words}"):
        Run(place, **bad).all()
    assert not ledger_path(place.path).exists()
    assert not place.path.exists()


def test_settings_that_may_change_and_buffers_that_no_checkpoint_would_hold_are_refused(place):
    @dataclass
    class Loose:
        sampling: object = Plain.sampling
        steps_allowed = Plain.steps_allowed

    with pytest.raises(ValueError, match=r"settings must be a frozen dataclass .* got .*Loose"):
        next(Run(place, settings=Loose()).records)
    gan = networks()
    gan.discriminator[0].register_buffer("k", torch.ones(1), persistent=False)
    with pytest.raises(ValueError, match=r"no checkpoint holds .*'0\.k'.*persistent=True"):
        Run(place, gan=gan).all()


@pytest.mark.parametrize("held", [{"a": 1.0}, [1.0], (1.0, [])], ids=str)
def test_a_collection_in_the_settings_is_compared(place, held):
    killed_in(place, 4, settings=Plain(bounds=held))
    assert Run(place, settings=Plain(bounds=deepcopy(held))).all().done[0] == 3
    with pytest.raises(ValueError, match=r"settings\.bounds"):
        Run(place, settings=Plain(bounds=[2.0])).all()


def test_a_layers_numbers_are_part_of_a_network_and_a_place_in_memory_is_not(place):
    wide, wider = (Conditional(nn.Linear(5, 1), classes=2, label_scale=s) for s in (1.0, 2.0))
    assert str(wide) != str(wider)

    class Own(nn.Tanh):
        def extra_repr(self):
            return object.__repr__(self)

    killed_in(place, 4, gan=networks(Own))
    assert Run(place, gan=networks(Own)).all().done[0] == 3


# Noise that no other run shares


@pytest.mark.parametrize(
    "change",
    [
        *({"settings": Plain(noise=Constant(1.1))}, {"settings": Plain(bounds=np.ones(3))}),
        *({"on": data(seed=1)}, {"by": partial(step, scale=2.0)}),
        {"gan": networks(seed=1)},  # other initial weights
        {"gan": networks(nn.ReLU)},
        {"tf32": True},
        {"seed": 1},
    ],
    ids=lambda change: "-".join(change),
)
def test_another_run_with_the_same_seed_has_other_noise(tmp_path, change):
    """Else a difference of the two takes the noise off. Equal normals: probability 0."""
    one, other = Run(Checkpoints(tmp_path / "a")), Run(Checkpoints(tmp_path / "b"), **change)
    next(one.records), next(other.records)
    assert not (one.noise == other.noise).any()


# Values in words


class Colour(Enum):
    RED = 1
    BLUE = 2


DIFFERENT = [
    *(1, 1.0, True, "1", b"1", None, 0.1, 0.1 + 2**-56, -0.0, 0.0, float("nan"), float("inf")),
    *((1,), [1], {1}, {1: 1}, (1, 1), ("1, 1",), Path("a"), np.float32(1), np.float64(1)),
    *(np.ones(1), np.ones((1, 1)), np.ones(1, dtype="f4"), np.array([-0.0]), np.array([0.0])),
    *(np.array([0, one], dtype=object) for one in "ab"),
    *(np.ma.masked_array([0, 1], mask) for mask in ([False, True], [True, False])),
    *(torch.ones(1), torch.ones(1, 1), torch.ones(1).half(), torch.ones(1).bfloat16()),
    *(torch.zeros(4)[1:2], torch.tensor(1), {"a": np.ones(2)}, {"a": np.zeros(2)}),
    *(np.arange(2000) == place for place in (1000, 1001)),  # which print alike
    *(torch.arange(2000) == place for place in (1000, 1001)),
    *(PerCoordinateClipping((np.array([1 + last]),)) for last in (0, 2.0**-52)),
    *(Colour.RED, Colour.BLUE, Plain(), SHUFFLED, Plain(bounds=(np.ones(2),))),
    *(Plain(bounds=[np.ones(2)]), step, another_step, partial(step), partial(step, 1)),
    *(Plain, Scaled, torch.float32, torch.float64, StepRecord(1, 1, 0.0, None, 0.0)),
]


def test_different_values_have_different_descriptions_and_equal_ones_the_same():
    words = [described("it", value) for value in DIFFERENT]
    assert len(set(words)) == len(words)
    assert [described("it", deepcopy(value)) for value in DIFFERENT] == words
    transposed = torch.arange(6).reshape(2, 3).T
    assert described("it", transposed) == described("it", transposed.contiguous())


@pytest.mark.parametrize(
    "value",
    [
        *(lambda x: x, local_step(), {"a": [local_step()]}, np.array([local_step()])),
        *(torch.ones(2).to_sparse(), (one for one in ()), partial(local_step())),
    ],
)
def test_what_has_no_stable_description_is_refused(value):
    for held in (value, Plain(bounds=(value,))):
        with pytest.raises(ValueError, match="it must be something"):
            described("it", held)

"""A run that goes on is the run that was begun, or says what differs; two runs share no noise."""

import json
import shutil
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dpkit.privacy import rdp
from dpkit.privacy.clipping import PerCoordinateClipping
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import SampledGaussian
from dpkit.privacy.no_guarantee import NoGuarantee
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant, Linear, noise_ledger
from dpkit.training.batches import batches
from dpkit.training.budget import allowed_after
from dpkit.training.checkpoint import Checkpoints, charged_steps, spent
from dpkit.training.device import generator_on
from dpkit.training.identity import Unstable, described
from dpkit.training.loop import train
from dpkit.training.reservation import ledger_path, lock_path
from dpkit.training.saved import read_saved
from dpkit.training.types import Data, Gan, Record

pytestmark = pytest.mark.torch


CPU = torch.device("cpu")
STEPS, RATE = 8, 0.2
ONE, FOUR = Constant(1.0), PoissonSampling(4)


@dataclass(frozen=True)
class Plain:
    """Settings without a ledger."""

    noise: Any = ONE
    bounds: Any = None
    steps: int = STEPS
    sampling: PoissonSampling = FOUR

    def steps_allowed(self, *, public_size):
        return self.steps


@dataclass(frozen=True)
class Priced(Plain):
    """Settings with one: the noise follows a schedule."""

    def ledger(self, *, public_size, steps):
        return noise_ledger(self.noise, steps=steps, release=lambda z: SampledGaussian(z, RATE))


@dataclass(frozen=True)
class Ranged(Priced):
    """Settings that price ranges of steps: as many as their steps 0, 1, ... cost in one run."""

    def steps_allowed_after(self, charged, *, start, public_size):
        def cost(ranges):
            indices = [index for steps in ranges for index in steps]
            releases = [Release(SampledGaussian(self.noise(index), RATE)) for index in indices]
            return rdp.epsilon(releases, delta=1e-5).epsilon

        budget, end = cost([range(self.steps)]), start
        while end < self.steps and cost([*charged, range(start, end + 1)]) <= budget:
            end += 1
        return end


def networks(activation=nn.Tanh, dropout=0.0, seed=0, **held):
    rng = torch.Generator().manual_seed(seed)
    critic = nn.Sequential(nn.Linear(3, 4), activation(), nn.Dropout(dropout), nn.Linear(4, 1))
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng))
    generator = nn.Linear(1, 1)
    for parameter in generator.parameters():
        nn.init.zeros_(parameter)
    for name, value in held.items():
        setattr(critic[0], name, value)
    return Gan(
        generator, deepcopy(generator), critic,
        torch.optim.SGD(generator.parameters(), lr=0.1),
        torch.optim.SGD(critic.parameters(), lr=0.1),
    )  # fmt: skip


def data(seed=0):
    features = torch.rand(20, 3, generator=torch.Generator().manual_seed(seed))
    return Data(features, torch.zeros(20, dtype=torch.int64), public_size=20)


def step(gan, features, labels, *, settings, index, rng, scale=1.0, dies_at=None):
    """Not private: what counts here is which noise is drawn, and what it is added to."""
    if index == getattr(gan.discriminator, "dies_at", [None])[0]:
        raise KeyError("dies")
    gan.discriminator_optimizer.zero_grad()
    (scale * gan.discriminator(features).tanh().sum()).backward()
    seen = getattr(gan.discriminator, "seen", [])
    for parameter in gan.discriminator.parameters():
        noise = torch.randn(parameter.shape, generator=rng)
        parameter.grad += settings.noise(index) * noise
        seen.append((index, noise))
    gan.discriminator_optimizer.step()
    return Record(index, len(features), 0.0, None, 0.0)


def another_step(*args, **keywords):
    return step(*args, **keywords)


@dataclass(frozen=True)
class Callable:
    """A step with numbers of its own."""

    scale: float

    def __call__(self, *args, **keywords):
        return step(*args, scale=self.scale, **keywords)


class Run:
    """A run, the noise it drew and what it trained."""

    def __init__(self, place=None, *, by=step, gan=None, on=None, settings=None, seed=0,
                 steps=None, dies_at=None, tf32=False):  # fmt: skip
        self.gan, self.rng = networks() if gan is None else gan, generator_on(CPU, seed=seed)
        self.gan.discriminator.seen = self.seen = []
        self.gan.discriminator.dies_at = [dies_at]
        self.settings = Plain() if settings is None else settings
        self.records = train(
            by, self.gan, data() if on is None else on, settings=self.settings, rng=self.rng,
            steps=steps, checkpoint=place, tf32=tf32,
        )  # fmt: skip

    def all(self):
        for _ in self.records:
            pass
        return self

    def killed(self):
        with pytest.raises(KeyError, match="dies"):
            self.all()
        return self

    @property
    def noise(self):
        return torch.cat([noise.reshape(-1) for _, noise in self.seen])

    @property
    def weights(self):
        return torch.cat([tensor.reshape(-1) for tensor in self.gan.discriminator.parameters()])


@pytest.fixture
def place(tmp_path):
    return Checkpoints(tmp_path / "run" / "it", every=3, reserve=4)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def frozen_first():
    gan = networks()
    gan.discriminator[0].weight.requires_grad_(False)
    return gan


def in_eval():
    gan = networks()
    gan.discriminator[2].eval()
    return gan


def hooked():
    gan = networks()
    gan.discriminator[0].register_forward_hook(partial(reduce))
    return gan


# A replay is of the same release


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        (
            step,
            another_step,
            r"step \(stored .*test_identity\.step with .*, now .*\.another_step\)",
        ),
        (partial(step, scale=1.0), partial(step, scale=-1.0), r"step \(stored .*scale=1\.0.*-1\.0"),
        (partial(step, scale=1.0), step, r"step \(stored partial"),
        (partial(partial(step, scale=1.0)), partial(step, scale=2.0), r"step \(stored"),
        (Callable(1.0), Callable(-1.0), r"step \(stored .*Callable\(scale=1\.0"),
        (Callable(1.0).__call__, Callable(2.0).__call__, r"step \(stored .*scale=1\.0"),
    ],
)
def test_another_step_is_refused(place, first, then, words):
    Run(place, by=first, dies_at=2).killed()
    for after_loss in ("stop", "charge again"):
        with pytest.raises(ValueError, match=words):
            Run(replace(place, after_loss=after_loss), by=then).all()
    Run(place, by=first).all()
    assert spent(place.path) == STEPS


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (partial(networks, nn.ReLU), r"gan\.discriminator\.layers .*Tanh.*ReLU"),
        (partial(networks, dropout=0.5), r"gan\.discriminator\.layers .*p=0\.0.*p=0\.5"),
        (partial(networks, scale=2.0), r"gan\.discriminator\.layers .*scale=2\.0"),
        (hooked, r"gan\.discriminator\.layers"),
        (frozen_first, r"gan\.discriminator \(stored .*frozen: \['0\.weight'\]"),
        (in_eval, r"gan\.discriminator\.training \(stored True, now \(True, .*False"),
    ],
)
def test_another_network_of_the_same_shapes_is_refused(place, other, words):
    Run(place, dies_at=2).killed()
    with pytest.raises(ValueError, match=words):
        Run(place, gan=other()).all()


def test_other_arithmetic_is_no_replay_and_is_charged_again(place):
    Run(place, settings=Priced(), dies_at=2).killed()
    changes = {
        "tf32": lambda: Run(place, settings=Priced(), tf32=True).all(),
        "threads": lambda: torch.set_num_threads(2) or Run(place, settings=Priced()).all(),
    }
    for name, run in changes.items():
        with pytest.raises(ValueError, match=rf"cannot be repeated as they were: {name} \(stored"):
            run()
        torch.set_num_threads(1)
    again = Run(replace(place, after_loss="charge again"), settings=Priced(), tf32=True)
    with pytest.warns(UserWarning, match="4 steps stay charged"):
        again.all()
    assert charged_steps(place.path) == [range(4), range(4)]


def test_a_step_whose_code_was_changed_is_no_replay(place, monkeypatch):
    Run(place, settings=Priced(), dies_at=2).killed()
    monkeypatch.setattr(step, "__code__", (lambda *args, scale=1.0, dies_at=None, **k: 0).__code__)
    with pytest.raises(ValueError, match="cannot be repeated as they were: code"):
        Run(place, settings=Priced()).all()


def local_step():
    number = 2.0

    def inner(*args, **keywords):
        return step(*args, scale=number, **keywords)

    return inner


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda *args, **keywords: None, "lambda"),
        (local_step(), r"local_step\.<locals>\.inner is a lambda, a closure"),
        (partial(step, scale=object()), "object at 0x.* is neither a plain value"),
        (partial(local_step()), "closure"),
        (partial(step, scale=lambda x: x), "lambda"),
    ],
)
def test_a_step_that_no_other_process_can_compare_is_refused(place, bad, words):
    with pytest.raises(ValueError, match=f"step must be something .*{words}"):
        Run(place, by=bad).all()
    assert not ledger_path(place.path).exists()


def test_dropout_is_repeated_and_torchs_global_state_is_left_alone(place, tmp_path):
    whole = Run(Checkpoints(tmp_path / "whole"), gan=networks(dropout=0.5)).all()
    Run(place, gan=networks(dropout=0.5), dies_at=5).killed()  # stored after 3 steps
    gan = networks(dropout=0.5)
    torch.rand(7)
    before = torch.get_rng_state()
    again = Run(place, gan=gan).all()
    assert {index for index, _ in again.seen} == {3, 4, 5, 6, 7}
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(whole.weights, again.weights)
    assert not torch.equal(whole.weights, Run(Checkpoints(tmp_path / "without")).all().weights)


# Noise of its own


def test_the_same_run_elsewhere_is_the_same_release(tmp_path):
    one, other = (Run(Checkpoints(tmp_path / name)).all() for name in "ab")
    assert torch.equal(one.noise, other.noise)
    assert torch.equal(one.weights, other.weights)


@pytest.mark.parametrize(
    "change",
    [
        {"settings": Plain(noise=Constant(1.1))},
        {"settings": Plain(bounds=np.ones(3))},
        {"on": data(seed=1)},
        {"by": partial(step, scale=2.0)},
        {"gan": networks(seed=1)},  # other initial weights
        {"gan": networks(nn.ReLU)},
        {"tf32": True},
        {"seed": 1},
    ],
    ids=lambda change: "-".join(change),
)
def test_another_run_with_the_same_seed_has_noise_of_its_own(tmp_path, change):
    """Else a difference of the two takes the noise off. Equal normals: probability 0."""
    one, other = Run(Checkpoints(tmp_path / "a")), Run(Checkpoints(tmp_path / "b"), **change)
    next(one.records), next(other.records)
    assert not (one.noise == other.noise).any()


def test_runs_charged_again_share_no_noise(tmp_path):
    """Nor with each other, of whatever seed they are."""
    found = []
    for name in "ab":
        place = Checkpoints(tmp_path / name, after_loss="charge again")
        found.append(Run(place, settings=Priced(), steps=2).all().noise)
        place.path.unlink()
        with pytest.warns(UserWarning, match="charged on top"):
            found.append(Run(place, settings=Priced(), steps=2).all().noise)
    assert torch.equal(found[0], found[2])
    assert not (found[0] == found[1]).any()
    assert not (found[1] == found[3]).any()


def test_without_a_checkpoint_the_rng_is_used_as_it_is():
    run = Run().all()
    by_hand, rng = networks(), generator_on(CPU, seed=0)
    by_hand.discriminator.seen = []
    draws = batches(Plain().sampling, size=20, public_size=20, rng=rng)
    for index in range(STEPS):
        step(by_hand, data().features[next(draws)], None, settings=Plain(), index=index, rng=rng)
    assert torch.equal(run.noise, torch.cat([n.reshape(-1) for _, n in by_hand.discriminator.seen]))


# Which steps are charged


def test_the_steps_that_were_charged_again_are_told_by_their_index(place):
    settings = Ranged(noise=Linear(1.0, 1.3, over=STEPS))
    Run(place, settings=settings, steps=3).all()
    assert charged_steps(place.path) == [range(3)]
    place.path.unlink()
    allowed = settings.steps_allowed_after([range(3)], start=0, public_size=20)
    again = Run(replace(place, after_loss="charge again"), settings=settings)
    with pytest.warns(UserWarning, match=f"3 steps stay charged; the {allowed} that follow"):
        again.all()
    charged = charged_steps(place.path)
    assert charged == [range(3), range(allowed)]
    assert spent(place.path) == 3 + allowed

    def price(indices):
        releases = [Release(SampledGaussian(settings.noise(i), RATE)) for i in indices]
        return rdp.epsilon(releases, delta=1e-5).epsilon

    true = price([index for steps in charged for index in steps])
    assert true <= price(range(STEPS))  # the budget
    # noise grows: the price of so many first steps is more than that of the count
    assert true > price(range(spent(place.path)))
    assert 0 < allowed < STEPS - 3
    # and going on keeps to it
    assert Run(place, settings=settings).all().seen == []
    with pytest.raises(ValueError, match=f"between 0 and the {allowed} .* beside the 3 charged"):
        Run(place, settings=settings, steps=allowed + 1).all()


@pytest.mark.parametrize("settings", [Plain(), Priced(noise=Linear(0.6, 4.0, over=STEPS))])
def test_steps_of_unequal_or_unknown_cost_are_not_counted_again(place, settings):
    Run(place, settings=settings, steps=3).all()
    place.path.unlink()
    with pytest.raises(ValueError, match="the cost of a step must be the same for all to count"):
        Run(replace(place, after_loss="charge again"), settings=settings).all()
    assert charged_steps(place.path) == [range(3)]


class Fixed:
    def __init__(self, ledger):
        self.ledger = lambda *, public_size, steps: ledger(steps)


def test_equal_costs_are_told_from_unequal_ones():
    a, b = SampledGaussian(1.0, 0.1), SampledGaussian(2.0, 0.1)
    equal = [
        lambda n: [Release(a, n)],
        lambda n: [Release(a, n), Release(b, 2 * n)],
        lambda n: [Release(b, 3), Release(a, n)],  # something released beforehand
        lambda n: [Release(NoGuarantee("no noise is added"))],
        lambda n: [Release(a, 1)] * n,
    ]
    unequal = [
        lambda n: [Release(a, min(n, 1)), Release(b, max(n - 1, 0))],
        lambda n: [Release(a, min(n, 9)), Release(b, max(n - 9, 0))],
    ]
    keywords = {"charged": [range(6), range(0), range(2, 4)], "start": 3, "public_size": 9}
    for ledger in equal:
        assert allowed_after(Fixed(ledger), allowed=10, **keywords) == 10 - 8 + 3
    for ledger in unequal:
        with pytest.raises(ValueError, match="Fixed; give it a method steps_allowed_after"):
            allowed_after(Fixed(ledger), allowed=10, **keywords)
    for ledger in equal + unequal:  # nothing was charged
        keywords = {"charged": [range(0)], "start": 0, "public_size": 9}
        assert allowed_after(Fixed(ledger), allowed=10, **keywords) == 10


# Values in words


class Colour(Enum):
    RED = 1
    BLUE = 2


def bounds(kind, change=None):
    values = np.ones(2000, dtype=np.float32)
    if change is not None:
        values[1000] = change
    return PerCoordinateClipping((kind(values),))


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_settings_with_other_bounds_are_refused(place, kind):
    """Two arrays that print alike: they differ in the middle, or in the seventh digit."""
    near = float(np.nextafter(np.float32(1), np.float32(2)))
    Run(place, settings=Plain(bounds=bounds(kind)), dies_at=2).killed()
    for change in (5e5, near):
        with pytest.raises(ValueError, match=r"settings\.bounds \("):
            Run(place, settings=Plain(bounds=bounds(kind, change))).all()
    Run(place, settings=Plain(bounds=bounds(kind))).all()


DIFFERENT = [
    1, 1.0, True, "1", b"1", None, 0.1, 0.1 + 2**-56, -0.0, 0.0, (1,), [1], {1}, {1: 1}, (1, 1),
    ("1, 1",), Path("a"),
    np.float32(1), np.float64(1), np.ones(1), np.ones((1, 1)), np.ones(1, dtype="f4"),
    np.array([-0.0]), np.array([0.0]), torch.ones(1), torch.ones(1, 1), torch.ones(1).half(),
    torch.ones(1).bfloat16(), torch.zeros(4)[1:2], torch.tensor(1), {"a": np.ones(2)},
    {"a": np.zeros(2)}, Colour.RED, Colour.BLUE, Plain(), Priced(), Plain(bounds=(np.ones(2),)),
    Plain(bounds=[np.ones(2)]), step, another_step, partial(step), partial(step, 1), Plain, Priced,
    torch.float32, torch.float64, Record(1, 1, 0.0, None, 0.0), float("nan"),
    float("inf"),
]  # fmt: skip


def test_different_values_have_different_descriptions_and_equal_ones_the_same():
    found = [described(value) for value in DIFFERENT]
    assert len(set(found)) == len(found)
    assert [described(deepcopy(value)) for value in DIFFERENT] == found
    assert described({"a": 1, "b": 2}) == described({"b": 2, "a": 1})
    transposed = np.arange(6).reshape(2, 3).T
    assert described(transposed) == described(np.ascontiguousarray(transposed))


@dataclass
class Mutable:
    number: int = 1


@pytest.mark.parametrize(
    "value",
    [
        object(), lambda x: x, local_step(), Mutable(), (1, Mutable()), {"a": [object()]},
        np.array([object()]), torch.ones(2).to_sparse(), nn.Linear(1, 1), iter([]),
        partial(local_step()),
    ],
)  # fmt: skip
def test_what_has_no_stable_description_is_refused(value):
    with pytest.raises(Unstable):
        described(value)
    with pytest.raises(Unstable):
        described(Plain(bounds=(value,)))


# The files belong together


def test_a_checkpoint_of_another_run_beside_a_ledger_is_refused(tmp_path):
    a, b = (Checkpoints(tmp_path / name) for name in "ab")
    Run(a, steps=2).all()
    Run(b, steps=6, seed=1).all()
    shutil.copy(a.path, b.path)
    for after_loss in ("stop", "charge again"):
        with pytest.raises(ValueError, match="of another run than the ledger beside it"):
            Run(replace(b, after_loss=after_loss), seed=1).all()
    shutil.copy(ledger_path(a.path), ledger_path(b.path))  # both: then the lock tells
    with pytest.raises(ValueError, match="of another run than the one that began here"):
        Run(b).all()
    with pytest.raises(ValueError, match="of another run than the one that began here"):
        spent(b.path)
    # without its lock a run may be moved
    c = Checkpoints(tmp_path / "c" / "c")
    c.path.parent.mkdir()
    shutil.copy(a.path, c.path)
    shutil.copy(ledger_path(a.path), ledger_path(c.path))
    assert len({index for index, _ in Run(c).all().seen}) == STEPS - 2


def test_a_run_whose_files_vanished_does_not_begin_again_in_silence(place):
    Run(place, steps=2).all()
    place.path.unlink()
    ledger_path(place.path).unlink()
    for after_loss in ("stop", "charge again"):
        with pytest.raises(ValueError, match=r"ledger\.json is gone.* moved away"):
            Run(replace(place, after_loss=after_loss)).all()
    with pytest.raises(ValueError, match=r"ledger\.json is gone"):
        spent(place.path)
    lock_path(place.path).unlink()
    assert len(Run(place).all().seen) == 4 * STEPS


def test_a_torn_lock_is_mended_where_the_ledger_is_there(place):
    Run(place, steps=2).all()
    lock_path(place.path).write_text("12ab")
    Run(place).all()
    identity = json.loads(ledger_path(place.path).read_text())["id"]
    assert lock_path(place.path).read_text().startswith(identity + " ")


def use_rng(run):
    torch.rand(3, generator=run.rng)


def change_weight(run):
    with torch.no_grad():
        run.gan.discriminator[0].weight.mul_(2)


def to_eval(run):
    run.gan.averaged_net.eval()


def other_rate(run):
    run.gan.discriminator_optimizer.param_groups[0]["lr"] = 0.2


def more_threads(run):
    torch.set_num_threads(2)


@pytest.mark.parametrize(
    ("meddle", "words"),
    [
        (use_rng, "the rng changed"), (change_weight, r"the networks .* changed"),
        (to_eval, r"the networks .* changed"), (other_rate, "the optimisers' settings changed"),
        (more_threads, "threads changed"),
    ],
)  # fmt: skip
def test_what_changes_between_two_steps_ends_the_run_before_the_next(
    place, tmp_path, meddle, words
):
    whole = Run(Checkpoints(tmp_path / "whole")).all()
    run = Run(place)
    for _ in range(5):
        next(run.records)
    meddle(run)
    with pytest.raises(RuntimeError, match=words):
        next(run.records)
    assert len(run.seen) == 4 * 5
    assert read_saved(place.path).step == 3
    torch.set_num_threads(1)
    assert torch.equal(whole.weights, Run(place).all().weights)
    assert spent(place.path) == STEPS


def test_the_rng_may_be_used_after_the_last_step(place, tmp_path):
    whole = Run(Checkpoints(tmp_path / "whole")).all()
    for steps in (4, STEPS):
        run = Run(place, steps=steps)
        for record in run.records:
            if record.step == steps - 1:
                use_rng(run)
    assert torch.equal(whole.weights, run.weights)

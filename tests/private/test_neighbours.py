"""The same mistakes in other guises: three neighbours of each kind, thought up without the code.

Each is refused, noticed or made right here. What nobody can see from within (statistics that were
taken beforehand, settings that follow private values) is said in docs/limits.md and in every
statement, and is named at the end of this file.
"""

import copy
import itertools
import pickle
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from small_networks import FLAT, Critic, Generator, X, Y, begun, classifier, each, private_of, run
from torch import nn
from torch.nn.functional import cross_entropy

from dpkit import Budget, PrivateGan, PrivateTable
from dpkit.private import saved
from dpkit.training import generator_on, noised
from dpkit.training.gradients.independence import ReadsData
from dpkit.training.gradients.unsupported import MixesExamples

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


# A. A batch may be chosen


def test_a_batch_that_does_not_fit_in_memory_is_not_left_out():
    private, seen = private_of(), []

    def too_large(x, y):
        seen.append(len(x))
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="no step was made on the last batch"):  # noqa: PT012
        for x, y in private:
            with pytest.raises((torch.OutOfMemoryError, ValueError)):
                private.step(too_large, x, y)
            continue
    assert next(iter(private))[0] is x
    assert run(private).steps_done == 4


def test_batches_are_not_drawn_ahead():
    with pytest.raises(RuntimeError, match="no step was made on the last batch"):
        list(itertools.islice(private_of(), 8))


# B. One batch, two releases


def test_neither_parts_of_a_batch_nor_one_draw_serve_two_steps():
    net, first, x, y = begun()
    with pytest.raises(ValueError, match="from one record of the batch"):
        first.step(each(net), x[:5], y[:5])
    first.step(each(net), x, y)
    second = private_of()
    with pytest.raises(RuntimeError, match="no batch was drawn"):
        second.step(each(second.net), x, y)
    next(iter(second))
    with pytest.raises(ValueError, match="of the batch just drawn"):
        second.step(each(second.net), x, y)


def test_each_call_of_noised_draws_its_own_noise():
    """Averaging four of them is four releases: `check_step` counts them."""
    rng, sums = generator_on(CPU), [torch.zeros(50)]
    made = [noised(sums, noise_std=1.0, rng=rng)[0] for _ in range(4)]
    assert len({tuple(one.tolist()) for one in made}) == 4  # but for a chance below 2^-200


# C. Stops, and what is kept, by private values


def test_the_best_step_by_a_private_loss_is_noticed(tmp_path):
    private, kept = private_of(net := classifier()), []
    for x, y in private:
        private.step(each(net), x, y)
        kept.append(copy.deepcopy(net.state_dict()))
    net.load_state_dict(kept[int(private.curves.loss[:-1].argmin())])
    with pytest.warns(UserWarning, match="have changed since the last step"):
        private.save(tmp_path / "net.safetensors")
    facts = saved.load(tmp_path / "net.safetensors", classifier())
    assert "from released values and public numbers alone" in facts["statement"]


def test_a_stop_by_the_clock_says_what_it_may_have_followed():
    """Time grows with batch sizes. The words do not tell when it was."""
    private = run(private_of(), steps=1)
    stopped = private.statement()
    assert "where released values or public numbers alone decided that" in stopped
    assert run(private).statement() == stopped


# D. A budget forks


def test_each_folder_that_a_job_runs_in_does_not_make_its_own_budget(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    budget = Budget("budget.json", epsilon=8, delta=1e-5)
    for name in ("age", "income"):
        Path(name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        run(private_of(budget=budget, epsilon=2))
        monkeypatch.chdir(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")] == ["budget.json"]
    assert budget.share_spent() > 0


# E. Charged and not run, run and not charged


def test_what_is_never_run_costs_nothing_and_weights_that_leave_after_a_step_are_charged(tmp_path):
    """Whoever ends here, by exit or by a kill, has the whole plan in the file."""
    budget = Budget(tmp_path / "budget.json", epsilon=8, delta=1e-5)
    assert "No step was made yet" in private_of(budget=budget).statement()
    next(iter(private_of(budget=budget)))
    assert budget.share_spent() == 0
    run(private_of(budget=budget), steps=1)
    assert Budget(tmp_path / "budget.json", epsilon=8, delta=1e-5).share_spent() == 1


# F. The same noise


def test_steps_inside_fork_rng_have_noise_of_their_own():
    rng, made = generator_on(CPU), []
    for _ in range(2):
        with torch.random.fork_rng():
            made.append(noised([torch.zeros(50)], noise_std=1.0, rng=rng)[0])
    assert not torch.equal(*made)


@pytest.mark.parametrize(
    "send",
    [pickle.dumps, copy.copy, lambda rng: pickle.dumps(np.array([rng], object))],
    ids=["pickled", "copied", "in an array, as a pool would"],
)
def test_a_generator_that_is_sent_elsewhere(send):
    with pytest.raises(TypeError, match="cannot be copied"):
        send(generator_on(CPU))


# G. Records beyond the batch


class Queue(nn.Module):
    """MoCo's: embeddings of earlier rows beside the batch's."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, 10)
        self.register_buffer("queue", torch.randn(30, 10))

    def forward(self, x):
        z = self.encoder(x)
        out = z @ self.queue.T
        self.queue = torch.cat((z.detach(), self.queue))[:30]
        return out


class Codes(nn.Module):
    """A codebook that follows the rows by a moving average."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, 4)
        self.last = nn.Linear(4, 10)
        self.register_buffer("codes", torch.randn(8, 4))

    def forward(self, x):
        z = self.encoder(x)
        k = torch.cdist(z, self.codes).argmin(1)
        with torch.no_grad():
            self.codes.index_copy_(0, k, 0.99 * self.codes[k] + 0.01 * z)
        return self.last(z)


@pytest.mark.filterwarnings("ignore:.*torch.func")
@pytest.mark.parametrize("network", [Queue, Codes])
def test_a_network_that_keeps_earlier_rows(network):
    private = private_of(net := network())
    with pytest.raises((MixesExamples, ValueError), match=r"queue|codes|keeps something"):
        private.step(each(net), *next(iter(private)))
    assert private.steps_done == 0


def test_partners_of_a_mixture_from_the_whole_set():
    def mixed(rows):
        return 0.5 * rows + 0.5 * FLAT[torch.randint(len(FLAT), (len(rows),))]

    with pytest.raises(ReadsData, match="transform"):
        next(iter(private_of(transform=mixed)))


# H. What is published


def test_an_example_on_the_network_is_not_in_the_file(tmp_path):
    net = classifier()
    net.shape_of = FLAT[0]  # for its shape alone
    run(private_of(net)).save(tmp_path / "net.safetensors")
    with safe_open(str(tmp_path / "net.safetensors"), framework="pt") as file:
        assert set(file.keys()) == set(net.state_dict())
    assert (tmp_path / "net.safetensors").stat().st_size < 20_000


def shifted(rows, by):
    return rows + by


def test_a_transform_that_holds_a_record_is_not_pickled():
    given = {"epsilon": 8, "delta": 1e-5, "classes": 10, "latent_size": 16}
    gan = PrivateGan(Generator(), Critic(), transform=partial(shifted, by=X[3].clone()), **given)
    assert pickle.loads(pickle.dumps(gan)).transform is not None  # not fitted: to a worker, say
    again = pickle.loads(pickle.dumps(gan.fit(X, Y, steps=2)))
    assert "by" not in getattr(again.transform, "keywords", {})
    with pytest.raises(ValueError, match=r"set_params\(transform="):
        again.fit(X, Y, steps=2)
    again.set_params(transform=partial(shifted, by=0.0)).fit(X, Y, steps=2)


def test_categories_that_the_type_carries_are_not_taken():
    frame = pd.DataFrame({"a": pd.Categorical(["x", "x"], categories=["x", "rare"]), "b": [1, 2]})
    table = PrivateTable({"a": ["x", "y"], "b": [1, 2]}, epsilon=1, delta=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert b"rare" not in pickle.dumps(table.fit(frame))


# I. What else moves the weights


def test_two_optimizers_on_tied_weights_are_noticed():
    net = classifier()
    other = torch.optim.SGD(net[0].parameters(), 0.1)
    private = run(private_of(net), steps=1)
    x, y = next(iter(private))
    net[0](x).square().mean().backward()
    other.step()
    with pytest.warns(UserWarning, match="have changed since the last step"):
        private.step(each(net), x, y)


def test_a_gradient_that_is_left_over_is_not_stepped_along():
    net, private, x, y = begun(reproducible_seed=0)
    each(net)(x, y).sum().backward()
    private.step(each(net), x, y)
    clean = run(private_of(reproducible_seed=0), steps=1).net
    for p, q in zip(net.parameters(), clean.parameters(), strict=True):
        torch.testing.assert_close(p, q)


# K. One record decides


def test_batch_normalisation_without_running_statistics():
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    net = nn.Sequential(nn.Linear(64, 8), norm, nn.Linear(8, 10))
    for mode in (True, False):
        with pytest.raises(MixesExamples, match="mixes the examples"):
            private_of(net.train(mode))


def test_a_loss_that_raises_for_a_class_is_found_out_before_the_run():
    labels = Y.clone()
    labels[700] = 10

    def loss(x, y):
        if len(y) and y.max() >= 10:
            raise ValueError("unknown class")
        return cross_entropy(net(x), y, reduction="none")

    private = private_of(net := nn.Linear(64, 12), FLAT, labels, batch_size=20)
    x, y = next(iter(private))
    with pytest.raises(ValueError, match="unknown class"):
        private.step(loss, x, y)
    assert private.steps_done == 0


# M. Messages


def test_words_of_torch_that_quote_a_label_are_passed_on_with_a_warning():
    with pytest.raises(ValueError, match=r"Target 10 is out of bounds.*keep it to yourself"):
        run(private_of(None, FLAT, torch.full_like(Y, 10)))


def test_what_a_private_prints_of_itself_holds_no_numbers():
    assert "loss" not in repr(run(private_of()))


# N. What is a record


@pytest.mark.parametrize(
    "windows",
    [
        lambda series: series.unfold(0, 64, 8),
        lambda series: series[:64].expand(100, 64),
        lambda series: np.lib.stride_tricks.sliding_window_view(series.numpy(), 64),
    ],
)
def test_windows_that_overlap_are_warned_of(windows):
    rows = windows(torch.rand(2000))
    labels = torch.zeros(len(rows), dtype=torch.int64)
    with pytest.warns(UserWarning, match="rows of x overlap in memory"):
        private_of(None, rows, labels)


def test_views_that_do_not_overlap_are_not_warned_of():
    labels, wide = torch.zeros(50, dtype=torch.int64), torch.rand(50, 200)
    apart = torch.rand(64, 50).T, torch.rand(100, 64)[::2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (wide[:, 3:67], wide[:, ::3][:, :64], *apart):
            private_of(None, rows, labels)


def test_what_nobody_can_see_from_within_is_said():
    """Pilot runs, copied budgets, restored states, settings, statistics, persons with more rows."""
    limits = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
    for words in (
        "settings do not follow from the records",
        "numbers computed from records beforehand",
        "a copy of it another",
        "one restored from a stored state",
        "a person with several rows is not known",
        "nor a learning rate",
    ):
        assert words in " ".join(limits.split())
    assert "Tuning of hyperparameters: not charged" in private_of().statement()

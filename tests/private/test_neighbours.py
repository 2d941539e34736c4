"""The same mistakes in other guises: three neighbours of each kind, thought up without the code.

Each is refused, noticed or made right here. What nobody can see from within (statistics that were
taken beforehand, settings that follow private values) is said in docs/limits.md and in every
statement, and is named at the end of this file.
"""

import copy
import pickle
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from small_networks import FLAT, Critic, X, Y, begun, classifier, each, gan_of, private_of, run
from torch import nn
from torch.nn.functional import cross_entropy

from dpkit import Budget, PrivateTable
from dpkit.training.gradients.unsupported import MixesExamples

pytestmark = pytest.mark.torch

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


# F. The same noise


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_would_draw_the_same_noise(how):
    with pytest.raises(TypeError, match="the same noise"):
        how(private_of())


def test_a_forked_process_does_not_go_on(monkeypatch):
    net, private, x, y = begun()
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked"):
        private.step(each(net), x, y)


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
    gan = gan_of(transform=partial(shifted, by=X[3].clone()))
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


def test_a_gradient_that_is_left_over_is_not_stepped_along():
    net, private, x, y = begun(reproducible_seed=0)
    each(net)(x, y).sum().backward()
    private.step(each(net), x, y)
    clean = run(private_of(reproducible_seed=0), steps=1).net
    for p, q in zip(net.parameters(), clean.parameters(), strict=True):
        torch.testing.assert_close(p, q)


# What happens once, or around a loss


class ActNorm(nn.Module):
    """Glow's: it takes means and deviations from the first batch that it sees."""

    def __init__(self, size, *, by_attribute):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(size))
        self.register_buffer("done", torch.tensor(0))
        self.by_attribute, self.was = by_attribute, False

    def forward(self, x):
        if not (self.was if self.by_attribute else self.done):
            with torch.no_grad():
                self.loc.copy_(-x.mean(0))
                self.done.fill_(1)
            self.was = True
        return x + self.loc


@pytest.mark.parametrize("by_attribute", [False, True])
def test_what_sets_itself_up_in_its_first_pass_does_so_on_noise(by_attribute):
    net = nn.Sequential(ActNorm(64, by_attribute=by_attribute), nn.Linear(64, 10))
    run(private_of(net, rate=0.0), steps=1)
    assert net[0].was
    assert (net[0].loc + FLAT.mean(0)).abs().max() > 0.3  # of numbers in [-1, 1]
    assert (net[0].loc + 0.5).abs().max() < 0.5  # minus the mean of uniform noise


def test_a_transform_that_sets_itself_up_does_so_on_noise():
    seen = []

    def centred(rows):
        if not seen:
            seen.append(rows.mean(0))
        return rows - seen[0]

    next(iter(private_of(transform=centred)))
    assert (seen[0] - 0.5).abs().max() < 0.5
    assert (seen[0] - FLAT.mean(0)).abs().max() > 0.3


class Counting(nn.Module):
    """A generator that counts the labels it was asked for."""

    def __init__(self, *, renormalised):
        super().__init__()
        self.label = nn.Embedding(10, 16, max_norm=1.0 if renormalised else None)
        self.body = nn.Linear(16, 64)
        self.register_buffer("uses", torch.zeros(10))

    def forward(self, z, y):
        if not self.label.max_norm:
            self.uses += torch.bincount(y, minlength=10)
        return self.body(z + self.label(y)).view(-1, 1, 8, 8)


@pytest.mark.parametrize("renormalised", [False, True])
def test_a_generator_that_keeps_what_it_was_asked_for(renormalised):
    gan = gan_of(Counting(renormalised=renormalised), Critic())
    with pytest.raises((TypeError, ValueError), match=r"max_norm|private examples"):
        gan.fit(X, Y, steps=3)


def contrastive(out, y):
    return cross_entropy(out @ out.T, torch.arange(len(out)), reduction="none")


def criterion(out, y):
    return cross_entropy(out, y, reduction="none")


def test_a_criterion_that_is_exchanged_is_looked_at_again(monkeypatch):
    private = private_of(net := nn.Linear(64, 10))
    batches = iter(private)
    private.step(lambda x, y: criterion(net(x), y), *next(batches))
    private.step(lambda x, y: criterion(net(x), y), *next(batches))
    monkeypatch.setitem(globals(), "criterion", contrastive)
    rows = next(batches)
    with pytest.raises(TypeError, match="other examples change"):
        private.step(lambda x, y: criterion(net(x), y), *rows)


# K. One record decides


def test_batch_normalisation_without_running_statistics():
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    net = nn.Sequential(nn.Linear(64, 8), norm, nn.Linear(8, 10))
    for mode in (True, False):
        with pytest.raises(MixesExamples, match="mixes the examples"):
            private_of(net.train(mode))


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
        *("settings do not follow from the records", "numbers computed from records beforehand"),
        *("a copy of it another", "one restored from a stored state"),
        *("a person with several rows is not known", "nor a learning rate"),
    ):
        assert words in " ".join(limits.split())
    assert "Tuning of hyperparameters: not charged" in private_of().statement()

"""What lies around the step: which batch it takes, what steers it, what reads, what is published.

Each mistake of an honest user is refused or said, and the honest code nearest to it runs.
"""

import gc
import io
import json
import pickle
import warnings
import weakref
from functools import partial
from threading import Event, Thread

import joblib
import numpy as np
import pytest
import torch
from per_example_tests import Calls
from safetensors import safe_open
from small_networks import FLAT, Generator, X, Y, begun, classifier, each, gan_of, private_of, run
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrizations
from torch.nn.utils import spectral_norm as by_hook
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split

from dpkit.private import Budget, Private, model
from dpkit.training import seeded
from dpkit.training.gradients import independence
from dpkit.training.gradients.independence import ReadsData

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*torch.func")]

WEIGHTS = {label: 1 + label / 10 for label in range(10)}  # no other label has one


# Which batch


def test_the_batch_on_hand_stays_until_a_step_has_used_it_and_a_loop_may_have_parts():
    net, private, first, y = begun()
    assert all(next(iter(private))[0] is first for _ in range(20))
    private.step(each(net), first, y)
    assert next(iter(private))[0] is not first
    assert run(run(private, steps=2)).steps_done == 4


def test_empty_batches_cannot_be_skipped():
    """Else records are drawn at rate .0079 in place of .005: epsilon 10.18, where 8 is stated."""
    private = private_of(net := classifier(), FLAT[:200], Y[:200], batch_size=1, steps=40)
    empty = 0
    while private.steps_done < 40:
        x, y = next(iter(private))
        if not len(x):
            empty += 1
            assert next(iter(private))[0] is x
        private.step(each(net), x, y)
    assert empty  # but for 1 run in 10^8: (1 - 1 / e)^40
    assert all(p.isfinite().all() for p in net.parameters())


def test_two_threads_do_not_use_one_batch_twice():
    net, private, x, y = begun()
    inside, go_on = Event(), Event()

    def slow(x, y):
        inside.set()
        go_on.wait(10)
        return each(net)(x, y)

    thread = Thread(target=lambda: private.step(slow, x, y), daemon=True)
    thread.start()
    inside.wait(10)
    for other in (lambda: private.step(each(net), x, y), lambda: next(iter(private))):
        with pytest.raises(RuntimeError, match="a step is running"):
            other()
    go_on.set()
    thread.join()
    assert private.steps_done == 1 == len(private.curves)
    with pytest.raises(RuntimeError, match="already used"):
        private.step(each(net), x, y)


def test_a_loss_that_calls_step_is_refused_and_a_thread_that_trains_alone_is_not():
    net, private, x, y = begun()
    with pytest.raises((RuntimeError, ValueError), match="a step is running"):
        private.step(lambda x, y: private.step(each(net), x, y), x, y)
    thread = Thread(target=lambda: run(private), daemon=True)
    thread.start()
    thread.join()
    assert private.steps_done == 4


# What reads


def leaks(net, x_all):
    """Losses that read other records, by how."""

    def helper():
        return net(x_all).square().mean()

    def rows():
        yield x_all

    class Holder:
        data = x_all

    holder, mapping = Holder(), {"x": [x_all]}
    return {
        "a lambda": lambda x, y: each(net)(x, y) + net(x_all).mean(),
        "a helper that closes over it": lambda x, y: each(net)(x, y) + helper(),
        "an attribute": lambda x, y: each(net)(x, y) + net(holder.data).mean(),
        "a container": lambda x, y: each(net)(x, y) + net(mapping["x"][0]).mean(),
        "a generator": lambda x, y: each(net)(x, y) + net(next(rows())).mean(),
        "a default": lambda x, y, own=x_all: each(net)(x, y) + net(own).mean(),
        "the mean": lambda x, y: each(net)(x - x_all.mean(0), y),
        "one record": lambda x, y: each(net)(x - x_all[7], y),
        "its NumPy array": lambda x, y: each(net)(x - torch.from_numpy(x_all.numpy()).mean(0), y),
        "its labels": lambda x, y: each(net)(x, Y[: len(x)]),
    }


@pytest.mark.parametrize("form", leaks(None, FLAT))
def test_a_loss_that_reads_other_records_is_refused_before_anything_is_charged(form):
    net, private, x, y = begun()
    with pytest.raises(ReadsData, match=r"the loss reads the data set.*\(NoisyStandardised"):
        private.step(leaks(net, FLAT)[form], x, y)
    assert private.steps_done == 0


@pytest.mark.parametrize(
    ("wrap", "size"),
    [
        (lambda whole: Subset(whole, range(0, 1797, 2)), 899),
        (lambda whole: random_split(whole, [97, 1700])[0], 97),
        (lambda whole: ConcatDataset([Subset(whole, range(9)), whole]), 1806),
        (lambda whole: DataLoader(Subset(whole, range(1797))), 1797),
    ],
    ids=["Subset", "random_split", "ConcatDataset", "DataLoader"],
)
def test_a_loss_that_reads_what_a_data_set_was_made_of_is_refused(wrap, size):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="of the DataLoader")
        net, private, x, y = begun(wrap(TensorDataset(FLAT, Y)))
    assert private.plan.public_size == size
    with pytest.raises(ReadsData):
        private.step(leaks(net, FLAT)["the mean"], x, y)
    assert private.steps_done == 0
    assert run(private).steps_done == 4


class Attends(nn.Module):
    """A network with a memory of records."""

    def __init__(self, memory, *, persistent=True):
        super().__init__()
        self.register_buffer("memory", memory, persistent=persistent)
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        return self.last((x @ self.memory.T / 8).softmax(1) @ self.memory)


def test_a_network_that_reads_other_records_is_refused():
    unpublished = Attends(FLAT, persistent=False)
    with pytest.raises(ReadsData):
        run(private_of(unpublished))


def test_a_loss_that_begins_to_read_later_is_found_out(monkeypatch):
    monkeypatch.setattr(independence.secrets, "randbelow", lambda of: 0)
    private = private_of(net := classifier())

    def loss(x, y):
        late = FLAT.mean() if private.steps_done > 1 else 0.0
        return each(net)(x + late, y)

    with pytest.raises(ReadsData):
        run(private, loss)
    assert private.steps_done == 2


@pytest.mark.parametrize(
    "loss",
    [
        lambda net: lambda x, y: each(net)(x, y) * FLAT.shape[0] / len(FLAT),
        lambda net: lambda x, y: each(net)(x + torch.zeros_like(FLAT[:1]), y),
        lambda net: lambda x, y: each(net)(x, y) + 0 * net(FLAT[:100]).square().mean(),
        lambda net: lambda x, y: torch.tensor([WEIGHTS[int(i)] for i in y]) * each(net)(x, y),
    ],
    ids=["its shape", "zeros of its shape", "public rows of one array", "weights by name"],
)
def test_a_loss_that_reads_no_private_record_runs(loss):
    net = classifier()
    assert run(private_of(net, FLAT[100:], Y[100:]), loss(net)).steps_done == 4


def test_a_loss_that_mixes_the_batch_from_around_it_is_refused_and_its_own_labels_are_not():
    net, private, x, y = begun()
    with pytest.raises(TypeError, match="losses of other examples change with example 0"):
        private.step(lambda a, b: each(net)(a - x.mean(0), b), x, y)
    with pytest.raises(TypeError, match="losses of other examples change with example"):
        private.step(lambda a: cross_entropy(net(a), y, reduction="none") / len(y), x)
    assert private.steps_done == 0
    assert len(x) == len(y) > 8
    for x, y in private:
        private.step(lambda a, y=y: cross_entropy(net(a), y, reduction="none"), x)
    assert private.steps_done == 4


class Vectors(Dataset):
    """Records with public numbers beside them, and each record a tensor of its own."""

    def __init__(self):
        self.rows, self.labels = [*FLAT[:300].clone()], Y[:300]
        self.mean, self.class_weights = torch.zeros(64), torch.ones(10)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.rows[i], self.labels[i]


def test_public_numbers_that_a_data_set_holds_may_be_read():
    data, net = Vectors(), classifier()
    private = private_of(net, data, transform=lambda x: x - data.mean)
    weighted = partial(cross_entropy, weight=data.class_weights, reduction="none")
    assert run(private, lambda x, y: weighted(net(x), y)).steps_done == 4


class Factors(nn.Module):
    """Two weights whose names end as a spectral norm's vectors do."""

    def __init__(self):
        super().__init__()
        self.factor_u = nn.Parameter(torch.randn(64, 4))
        self.factor_v = nn.Parameter(torch.randn(4, 10))

    def forward(self, x):
        return x @ self.factor_u @ self.factor_v


def test_weights_that_are_named_as_vectors_of_a_spectral_norm_are_looked_at():
    net = Factors()
    private = run(private_of(net), steps=1)
    with torch.no_grad():
        net.factor_u.add_(1)
    with pytest.warns(UserWarning, match="have changed since the last step"):
        run(private)


def test_an_embedding_with_sparse_gradients_is_trained():
    net = nn.Sequential(nn.Embedding(17, 3, sparse=True), nn.Flatten(), nn.Linear(192, 10))
    sparse = torch.optim.SGD(net.parameters(), 0.1)
    pixels = (FLAT * 8 + 8).long()
    assert run(private_of(net, pixels, Y, optimizer=sparse)).steps_done == 4


def test_no_transform_and_no_generator_runs_on_an_empty_batch():
    """`view(len(x), -1)` is ambiguous there, and a run would end by who is in a batch."""
    net = nn.Linear(64, 10)
    flat = lambda x: x.view(len(x), -1)  # noqa: E731
    private = private_of(net, X, Y, batch_size=1, steps=30, transform=flat)
    assert run(private).steps_done == 30  # none is empty in 1 run of 10^6

    class Flat(nn.Linear):
        def forward(self, z):
            return super().forward(z).view(len(z), 1, 8, -1)

    given = {"classes": None, "batch_size": 1, "reproducible_seed": 0, "loss": "hinge"}
    assert (gan_of(Flat(16, 64), **given).fit(X, steps=4).curves_.batch_size == 0).any()


def test_each_column_of_labels_is_looked_at(tmp_path):
    labels = torch.stack((Y, Y % 2 + 5), 1)
    labels[700, 1] = 7  # of classes 0..6, and below the largest of the other column
    net = nn.Sequential(nn.Linear(64, 17))

    def loss(x, y):
        out = net(x)
        first = cross_entropy(out[:, :10], y[:, 0], reduction="none")
        return first + cross_entropy(out[:, 10:], y[:, 1], reduction="none")

    budget = Budget(tmp_path / "budget.json", epsilon=20, delta=1e-5)
    private = private_of(net, FLAT, labels, batch_size=20, reproducible_seed=2, budget=budget)
    x, y = next(iter(private))
    assert len(x) > 0
    assert (y[:, 1] < 7).all()
    with pytest.raises(ValueError, match=r"smallest and largest labels.*keep it to yourself"):
        private.step(loss, x, y)
    assert budget.share_spent() == 0


def test_neighbouring_rows_and_columns_of_one_array_are_others():
    """A split by every other row, and public columns of the same table."""
    net = classifier()
    table = torch.cat((FLAT, torch.rand(len(FLAT), 1)), 1)
    for private, public in ((FLAT[::2], FLAT[1::2]), (table[:, :64], table[:, 64:])):
        scaled = partial(lambda own, x, y: each(net)(x, y) * own.square().mean(), public)
        assert run(private_of(net, private, Y[: len(private)]), scaled).steps_done == 4


def test_what_was_given_is_kept_as_long_as_it_is_watched():
    """Freed, its memory would be another tensor's soon, and an honest read of that refused."""
    labels = Y.numpy().astype(np.int32)  # of which Private makes int64
    given = weakref.ref(labels)
    private = private_of(None, FLAT, labels)
    del labels
    gc.collect()
    assert given() is not None
    assert run(private).steps_done == 4


class Sam(torch.optim.SGD):
    """Sharpness-aware: it computes gradients of its own, of whatever batch it is told."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = torch.autograd.grad(self.loss(), p)[0]
        super().step()


def test_an_optimizer_that_computes_gradients_of_the_batch_is_refused():
    net = classifier()
    optimizer = Sam(net.parameters(), 0.1)
    private = private_of(net, optimizer=optimizer)
    x, y = next(iter(private))
    optimizer.loss = lambda: each(net)(x, y).mean()
    with torch.enable_grad(), pytest.raises(ReadsData, match="the optimizer"):
        private.step(each(net), x, y)
    assert private.steps_done == 0


@pytest.mark.parametrize("kind", ["AdamW", "RMSprop", "Adagrad", "NAdam", "Rprop"])
def test_trying_an_optimizer_leaves_no_trace(kind, monkeypatch):
    def weights(tried):
        net, decay = classifier(), {} if kind == "Rprop" else {"weight_decay": 0.1}
        optimizer = getattr(torch.optim, kind)(net.parameters(), 0.01, **decay)
        group = optimizer.param_groups[0]
        if not tried:
            monkeypatch.setattr(model, "try_step", lambda optimizer: None)
        run(private_of(net, optimizer=optimizer, reproducible_seed=3))
        assert optimizer.param_groups[0] is group
        return torch.cat([p.detach().flatten() for p in net.parameters()])

    torch.testing.assert_close(weights(True), weights(False), rtol=1e-5, atol=1e-7)


# What is published


def test_a_network_that_holds_records_is_refused_and_public_ones_are_not():
    for memory in (FLAT, FLAT[5:60], FLAT[[9, 4]], FLAT.double()[3:4]):
        with pytest.raises(ValueError, match=r"memory of the network holds records"):
            private_of(Attends(memory))
    for public in (torch.zeros(3, 64), torch.rand(5, 64), FLAT.mean(0, keepdim=True)):
        net = Attends(public)
        assert run(private_of(net, FLAT[:900], Y[:900])).steps_done == 4


def test_a_record_that_the_loop_put_into_a_buffer_is_not_saved(tmp_path):
    private = private_of(net := Attends(torch.rand(5, 64)))
    x, y = next(iter(private))
    private.step(each(net), x, y)
    net.memory[0] = x[0]
    with pytest.raises(ValueError, match="holds records"):
        private.save(tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())


def published(path):
    with safe_open(str(path), framework="pt") as file:
        return json.loads(file.metadata()["dpkit"])


def test_runs_that_stopped_at_different_steps_publish_the_same_words(tmp_path):
    """Also one that did not stop: whether all steps ran is a bit that records may have decided."""
    found, path = set(), tmp_path / "net.safetensors"
    for steps in (1, 3, 4):
        private = run(private_of(), steps=steps)
        private.save(path)
        facts = published(path)
        found.add(json.dumps(facts))
        assert "steps_done" not in facts
        assert f"after {steps} " not in facts["statement"]
        assert "where released values or public numbers alone decided that" in facts["statement"]
        assert "not where records, or losses that were not released, did" in facts["statement"]
        assert facts["epsilon"] == private.guarantee(planned=True).epsilon
        assert (private.guarantee().epsilon < facts["epsilon"]) is (steps < 4)
    assert len(found) == 1


@pytest.mark.parametrize("form", [parametrizations.spectral_norm, by_hook])
@pytest.mark.filterwarnings("ignore:.*spectral_norm.* is deprecated")
def test_the_vectors_of_a_spectral_norm_do_not_tell_an_empty_batch_from_another(form):
    kept = []
    for seed, empty in ((0, True), (1, False)):  # of the sizes of their first batches
        with seeded(0):
            net = nn.Sequential(form(nn.Linear(64, 40)), nn.ReLU(), nn.Linear(40, 10))
        private = private_of(net, batch_size=1, steps=1, reproducible_seed=seed)
        x, y = next(iter(private))
        assert (len(x) == 0) is empty
        private.step(each(net), x, y)
        vectors = [v for name, v in net.state_dict().items() if name.endswith(("_u", "_v"))]
        kept.append(torch.cat(vectors))
    torch.testing.assert_close(*kept, rtol=1e-5, atol=1e-6)


def test_statements_assume_what_the_kit_cannot_see_and_curves_say_that_they_are_private():
    private = run(private_of())
    words = private.statement()
    assert (
        "initial weights, buffers, transform and settings (learning rates too, as training goes "
        "on) do not depend on the records; neither the preparation of a record, nor its loss or "
        "the fake beside it, depends on another record" in words
    )
    assert "between releases" not in words
    assert str(private.curves).startswith("private  step  batch_size")
    assert "PRIVATE" in str(Private.curves.__doc__)
    assert str(gan_of().fit(X, Y, steps=3).curves_).startswith("private")


class Remembers(Generator):
    """One that keeps the labels that it saw last, as a debugging aid."""

    def forward(self, latents, labels=None):
        self.seen = labels
        return super().forward(latents, labels)


@pytest.mark.parametrize("how", [pickle, joblib], ids=["pickle", "joblib"])
def test_a_pickled_gan_holds_no_curves_and_no_labels(how):
    gan = gan_of(Remembers()).fit(X, Y, steps=3)
    assert len(gan.curves_) == 3
    file = io.BytesIO()
    how.dump(gan, file)
    file.seek(0)
    again = how.load(file)
    assert not hasattr(again, "curves_")
    assert not hasattr(again.generator_, "seen")
    assert again.statement() == gan.statement()
    torch.testing.assert_close(
        again.sample([1, 2], reproducible_seed=0), gan.sample([1, 2], reproducible_seed=0)
    )
    assert again.set_params(batch_size=64).fit(X, Y, steps=2).sample([0]).shape == (1, 1, 8, 8)


@pytest.mark.parametrize("kept_as", ["buffer", "attribute"])  # as a pickle would hold it
def test_a_gan_whose_network_holds_records_is_refused(kept_as):
    generator = Generator()
    generator.register_buffer("kept", X[:3].flatten(1).clone())
    if kept_as == "attribute":
        del generator.kept
        generator.kept = X[0]
    with pytest.raises(ValueError, match="kept of the network holds records"):
        gan_of(generator).fit(X, Y, steps=3)


# What else moves the weights


def changed(net):
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.9)


def changed_unseen(net):
    for p in net.parameters():
        p.data = p.data * 0.9


def stepped_beside(net):
    other = torch.optim.SGD(net.parameters(), 0.1)
    each(net)(FLAT[:50], Y[:50]).mean().backward()
    other.step()


@pytest.mark.parametrize("change", [changed, changed_unseen, stepped_beside])
@pytest.mark.parametrize("before", ["step", "save"])
def test_weights_that_something_else_moved_are_noticed(change, before, tmp_path):
    net = classifier()
    private = run(private_of(net), steps=2)
    change(net)
    rows = next(iter(private))
    release = partial(private.step, each(net), *rows)
    save = partial(private.save, tmp_path / "net.safetensors")
    with pytest.warns(UserWarning, match="have changed since the last step"):
        (release if before == "step" else save)()
    assert "the weights were changed between releases from released values" in private.statement()


def test_a_hook_that_puts_another_gradient_in_place_is_noticed():
    private = private_of(net := classifier())

    def put(optimizer, *_):
        for p in net.parameters():
            p.grad = torch.ones_like(p)

    private.optimizer.register_step_pre_hook(put)
    assert "between releases" in run(private, steps=2).statement()


def test_averages_beside_and_weights_put_back_are_no_change():
    net, average = classifier(), classifier()
    norms = []
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    optimizer.register_step_pre_hook(
        lambda *_: norms.append(sum(float(p.grad.norm()) for p in net.parameters()))
    )
    private = private_of(net, optimizer=optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.load_state_dict(classifier(seed=3).state_dict())  # before the first step: initial
        for x, y in private:
            private.step(each(net), x, y)
            own = {name: value.clone() for name, value in net.state_dict().items()}
            with torch.no_grad():
                for p, q in zip(average.parameters(), net.parameters(), strict=True):
                    p.lerp_(q, 0.1)
            net.load_state_dict(average.state_dict())  # to look at it
            net.load_state_dict(own)
    assert len(norms) == 4
    assert "between releases" not in private.statement()


# The budget


@pytest.mark.parametrize(
    "mistake",
    [
        lambda net: lambda x, y: net(x.double()).sum(1),
        lambda net: lambda x, y: cross_entropy(net(x), y),
    ],
    ids=["another type", "a mean"],
)
def test_a_run_that_could_not_start_leaves_the_budget_as_it_was(mistake, tmp_path):
    budget = Budget(tmp_path / "budget.json", epsilon=8, delta=1e-5)
    for _ in range(4):
        net = classifier()
        private = private_of(net, budget=budget, epsilon=5)
        with pytest.raises(ValueError, match="the loss"):
            private.step(mistake(net), *next(iter(private)))
        assert private.steps_done == 0 == budget.share_spent()
    run(private)
    share = budget.share_spent()
    assert share > 0
    run(private_of(budget=budget, epsilon=5))
    assert budget.share_spent() == pytest.approx(2 * share)


def test_parameters_of_no_dimension_are_trained_and_ignored_labels_are_no_mistake():
    labels = Y.clone()
    labels[::7] = -100  # what cross_entropy leaves out
    scale = Calls(lambda _, x: x * scale.by)
    scale.by = nn.Parameter(torch.tensor(1.0))
    private = run(private_of(nn.Sequential(nn.Linear(64, 10), scale), FLAT, labels))
    assert private.steps_done == 4
    assert scale.by.isfinite()


@pytest.mark.parametrize("bad", [10, -1])
def test_a_label_that_no_class_has_is_found_before_the_first_step(bad, tmp_path):
    labels = Y.clone()
    labels[1500] = bad
    budget = Budget(tmp_path / "budget.json", epsilon=8, delta=1e-5)
    private = private_of(net := classifier(), FLAT, labels, batch_size=2, budget=budget)
    while not len(next(iter(private))[0]):  # an empty batch is a step of noise
        private.step(each(net), *next(iter(private)))
    before = private.steps_done
    with pytest.raises(ValueError, match=r"labels: .*keep it to yourself|does not run on rows"):
        private.step(each(net), *next(iter(private)))
    assert private.steps_done == before


def test_a_loss_divided_by_the_size_of_its_batch_is_refused_before_anything_is_charged():
    """Its sum moves by nearly two clip norms: one record changes every other's share."""
    private = private_of(net := classifier(), epsilon=4)
    with pytest.raises(TypeError, match="do not divide by their number"):
        run(private, lambda x, y: each(net)(x, y) / len(x))
    assert private.steps_done == 0
    run(private, lambda x, y: each(net)(x, y) / 64)  # by a constant: that is no batch's size


def test_a_loss_that_asserts_the_shape_of_the_batch_runs():
    private, shape = private_of(net := classifier()), None

    def loss(a, b):
        assert a.shape == shape
        return each(net)(a, b)

    for x, y in private:
        shape = x.shape
        private.step(loss, x, y)
    assert private.steps_done == 4


def test_a_batch_that_was_changed_in_place_is_put_back_for_the_next_try():
    """Also where no version counts."""
    private, ways = private_of(net := classifier()), (None, lambda x: x, torch.Tensor.numpy)
    for way, (x, y) in zip((*ways, lambda x: x.data), private, strict=True):
        if way is not None:
            held = way(x)
            held -= held.mean(0)
            with pytest.raises(ValueError, match=r"changed in place.*is now restored"):
                private.step(each(net), x, y)
        private.step(each(net), x, y)
    assert private.steps_done == 4


def test_an_optimizer_that_calls_the_step_of_its_parent_is_tried_and_steps():
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    net = classifier()
    torch.optim.SGD(net.parameters(), 0.1)  # torch puts its hooks around the step of each class
    private = private_of(net, optimizer=Own(net.parameters(), 0.1))
    assert run(private).steps_done == 4
    with pytest.raises(RuntimeError, match=r"outside of private\.step"):
        private.optimizer.step()


def test_looking_at_other_labels_leaves_the_batch_and_its_graphs_as_they_were():
    net, scale = classifier(), torch.ones((), requires_grad=True)
    for x, y in (private := private_of(net, epsilon=8, steps=1)):
        seen, before = (scale * x * y[:, None]).sum(), (x.clone(), y.clone())
        private.step(each(net), x, y)
        assert torch.equal(x, before[0])
        assert torch.equal(y, before[1])
        seen.backward()  # for a log, say: nothing of the graph was changed in place


@pytest.mark.parametrize("loss", ["wasserstein", "hinge", "bce"])
@pytest.mark.parametrize("kind", [torch.int64, torch.int16, torch.uint8])
def test_whole_numbers_are_trained_on_beside_what_a_generator_makes(loss, kind, tmp_path):
    rows = torch.randint(0, 5, (200, 8), generator=torch.Generator().manual_seed(0)).to(kind)
    budget = Budget(tmp_path / "budget.json", epsilon=8, delta=1e-5)
    networks = nn.Linear(4, 8), nn.Linear(8, 1)
    gan = gan_of(*networks, classes=None, latent_size=4, batch_size=20, loss=loss)
    gan.fit(rows, steps=3, budget=budget)
    assert gan.sample(2).is_floating_point()


class NoGradient(Generator):
    """A generator whose backward pass fails."""

    def forward(self, z, y):
        out = super().forward(z, y)
        if self.training:
            out.exp_()
            out = out.tanh().exp().add_(out.exp_())
        return out


def test_networks_that_cannot_be_trained_leave_the_budget_as_it_was(tmp_path):
    budget = Budget(tmp_path / "budget.json", epsilon=8, delta=1e-5)
    with pytest.raises(RuntimeError, match="inplace"):
        gan_of(NoGradient()).fit(X, Y, steps=3, budget=budget)
    critic = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 1))
    with pytest.raises(TypeError, match="Dropout"):
        gan_of(Generator(), critic, classes=None).fit(X, steps=3, budget=budget)
    assert budget.share_spent() == 0


# Records that are not finite


def divides():
    """1 / x_0 of a row: infinite where that is 0, and so is its gradient."""
    return Calls(lambda parts, x: parts[0](x / x[:, :1]), nn.Linear(3, 2))


@pytest.mark.parametrize(
    ("record", "net", "transform"),
    [
        *(((0.0, 1.0, 1.0), divides, None), ((1e-30, 1.0, 1.0), divides, None)),
        # nan is not equal to nan, but the batch is what was drawn
        ((0.0, 0.0, 0.0), partial(nn.Linear, 3, 2), lambda x: x / x.sum(1, keepdim=True)),
    ],
    ids=["0", "1e-30", "made nan by a transform"],
)
def test_a_record_without_a_finite_gradient_adds_nothing_and_the_run_goes_on(
    record, net, transform
):
    rows = torch.rand(100, 3) + 0.5
    rows[3] = torch.tensor(record)
    labels, given = torch.arange(100) % 2, {"batch_size": 90, "steps": 6, "transform": transform}
    private = run(private_of(net(), rows, labels, **given))
    assert all(p.isfinite().all() for p in private.net.parameters())
    assert private.curves["not_finite"].max() > 0  # but for 1 run in 10^6: the record was drawn
    shares = private.curves["clipped"] + private.curves["not_finite"]
    assert shares.max() <= 1 + 1e-6


def test_weights_that_are_not_finite_end_the_run():
    with pytest.raises(FloatingPointError, match="weight is NaN or infinite"):
        run(private_of(rate=3e38, max_grad_norm=1e3))


# Who counts as a record


class Scaled(TensorDataset):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x * 2, y


def test_the_items_of_a_data_set_are_taken_and_of_an_index_twice_it_is_warned():
    whole = Scaled(FLAT, Y)
    with pytest.warns(UserWarning, match="has an index twice"):
        private_of(None, Subset(whole, [0] * 60 + list(range(100))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, _, x, _ = begun(Subset(whole, range(200)))
    assert x.abs().max() == 2  # of its items, not its tensors

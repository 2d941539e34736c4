"""Each mistake of a newcomer gets its sentence, before anything is released."""

import math
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
import small_networks
import torch
from refusals import refused
from small_networks import Critic, Generator, X, Y, begun, classifier, each, gan_of, private_of, run
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from dpkit import PrivateImages, PrivateTable


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("epsilon", (0, -1, math.nan), "epsilon must be a finite number > 0"),
        ("epsilon", ("8",), "epsilon must be a number"),
        ("delta", (1, 0, math.nan), "delta"),
        ("steps", (0, 2.5), "steps must be an integer >= 1"),
        ("batch_size", (0,), "batch_size"),
        ("batch_size", (1798,), "at most the 1797 records"),
        ("max_grad_norm", (0, math.inf), "max_grad_norm"),
        ("max_grad_norm", (1e-23,), "max_grad_norm must be at least"),  # its square is zero
        ("public_size", (10,), "at most the 10 records"),
        ("microbatch_size", (0,), "microbatch_size"),
    ],
)
def test_numbers_out_of_range(name, values, words):
    for value in values:
        with pytest.raises(ValueError, match=words):
            private_of(**{name: value})


IMAGES, FRAME = (np.zeros((20, 8, 8)), np.zeros(20, int)), pd.DataFrame({"a": [0, 1], "b": [0, 1]})


def table_of(**others):
    return PrivateTable({"a": [0, 1], "b": [0, 1]}, **others)


@pytest.mark.parametrize(
    ("fit", "size"),
    [
        (lambda: private_of(delta=1e-3), 1797),
        (lambda: PrivateImages(delta=0.1).fit(*IMAGES), 20),
        (lambda: table_of(delta=0.6).fit(FRAME), 2),
    ],
    ids=["Private", "PrivateImages", "PrivateTable"],
)
def test_a_delta_that_would_allow_to_publish_a_record_is_warned_of(fit, size):
    with pytest.warns(UserWarning, match=f"delta .* is not below 1 / {size} records"):
        fit()


@pytest.mark.parametrize(
    "fit",
    [
        *(lambda: private_of(budget=8), lambda: gan_of().fit(X, Y, budget=8)),
        *(lambda: PrivateImages().fit(*IMAGES, budget=8), lambda: table_of().fit(FRAME, budget=8)),
    ],
    ids=["Private", "PrivateGan", "PrivateImages", "PrivateTable"],
)
def test_a_budget_that_is_a_number(fit):
    with pytest.raises(TypeError, match=r"budget must be a Budget\('budget\.json'"):
        fit()


test_optimizers_that_are_not_stepped_here = refused(
    (lambda net: torch.optim.Adam(classifier().parameters()), r"of net\.parameters"),
    (lambda net: torch.optim.SGD(net[0].parameters(), 1.0), "does not hold 2"),
    (lambda net: torch.optim.LBFGS(net.parameters()), "LBFGS"),
    (lambda net: torch.optim.Adam, r"torch\.optim\.Optimizer"),
    (lambda net: "adam", r"torch\.optim\.Optimizer"),
    call=lambda make: private_of(net := classifier(), optimizer=make(net)),
    error=(TypeError, ValueError),
)

nan, inf = math.nan, math.inf


class Only(nn.Module):
    """A function of the networks' inputs, and a parameter that may be anything."""

    def __init__(self, function, weight=1.0):
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.tensor(weight))

    def forward(self, *inputs):
        return self.function(*inputs)


class Wrapped(nn.DataParallel):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module


test_networks_that_are_not_trained_here = refused(
    *(("net", "must be a torch.nn.Module"), (nn.Flatten(), "no parameters")),
    (nn.Linear(64, 10).requires_grad_(False), "no parameters"),
    (Only(None, nan), "net: parameter weight holds NaN"),
    (Wrapped(nn.Linear(64, 10)), "its .module"),
    (nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10)), "BatchNorm1d"),
    call=lambda net: private_of(net, optimizer=torch.optim.Adam(classifier().parameters())),
    error=(TypeError, ValueError),
)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda net: lambda x, y: cross_entropy(net(x), y), "reduction='none'"),
        (lambda net: lambda x, y: net(x), "one number for each"),
        (lambda net: lambda x, y: net(x)[:, :1], r"squeeze\(1\)"),
        (lambda net: lambda x, y: 3.0, "one number for each"),
        (lambda net: lambda x: net(x).sum(1), "must take the 2 tensors"),
        (lambda net: lambda x, y: each(net)(x[:, 1:], y), "does not run on rows of"),
        (lambda net: lambda x, y: x.sum(1), "must depend on the parameters"),
        (lambda net: lambda x, y: classifier()(x).sum(1), "must depend on the parameters"),
        (lambda net: lambda x, y: net(x).detach().sum(1), "must depend on the parameters"),
        (lambda net: lambda x, y: (net(x) - net(x).mean(0)).square().sum(1), "example|alone"),
        (lambda net: cross_entropy(net(small_networks.FLAT), Y), "function of rows"),
    ],
)
def test_losses_that_are_not_one_number_a_row_computed_from_it(loss, words):
    net, private, x, y = begun()
    with pytest.raises((TypeError, ValueError), match=words):
        private.step(loss(net), x, y)
    assert private.steps_done == 0
    assert run(private, steps=1).steps_done == 1


def test_rows_that_are_no_tensors_or_come_before_the_loop():
    with pytest.raises(RuntimeError, match="no batch was drawn"):
        private_of(net := classifier()).step(each(net), small_networks.FLAT, Y)
    net, private, x, y = begun()
    with pytest.raises(TypeError, match="got ndarray"):
        private.step(each(net), x.numpy(), y)
    with pytest.raises(ValueError, match="takes the batch"):
        private.step(lambda: net(x).sum(1))


class Norm(Generator):
    """A generator that centres what it makes by the mean over its batch."""

    def forward(self, latents, labels=None):
        images = super().forward(latents, labels)
        return images - images.mean(0)


def counted(classes):
    """A critic that sees one of so many classes; of those in the batch, where that is None."""
    count = () if classes is None else (classes,)

    def score(critic, images, labels):
        return critic(torch.cat((images.flatten(1), one_hot(labels, *count)), 1))

    critic = Critic(classes or 10)
    critic.forward = partial(score, critic.body)
    return critic


test_gans_that_cannot_be_trained = refused(
    (lambda: gan_of(*reversed(small_networks.pair())), "swapped"),
    (lambda: gan_of(latent_size=17), "latents of shape"),
    (lambda: gan_of(latent_size=0), "latent_size"),
    (lambda: gan_of(Generator(classes=9), Critic()), "set latent_size and classes"),
    (lambda: gan_of(classes=9), "must lie in 0..8"),
    (lambda: gan_of(classes=None), "classes is None"),
    (lambda: gan_of(Generator(), nn.Sequential(nn.Flatten(), nn.Linear(64, 2))), "critic"),
    (lambda: gan_of(small_networks.pair()[0], small_networks.pair()[0]), "critic: BatchNorm1d"),
    (lambda: gan_of(*[small_networks.pair()[1]] * 2), "two networks"),
    (lambda: gan_of("generator", Critic()), "generator must be"),
    (lambda: gan_of(classes=[0, 1]), "classes must be an integer"),
    *(
        (partial(gan_of, betas=bad), r"betas must be two in \[0, 1\), such as \(0.5, 0.9\), got")
        for bad in (0.5, (0.5,), (0.5, 1.0), (1, 0.9), (-0.1, 0.9), (0.5, math.nan), ("a", 0.9))
    ),
    (lambda: gan_of(loss="wgan"), "wasserstein, hinge, bce"),
    (lambda: gan_of(n_critic=0), "n_critic"),
    (lambda: gan_of(n_critic=9), "at least n_critic"),
    (lambda: gan_of(epsilon=math.nan), "epsilon"),
    (lambda: gan_of(learning_rate=0), "learning_rate"),
    (lambda: gan_of(generator_decay=1), "generator_decay"),
    (lambda: gan_of(penalty_weight=-1), "penalty_weight"),
    (lambda: gan_of(batch_size=10**4), "at most the 1797"),
    (lambda: gan_of(device="gpu"), "device must be"),
    (lambda: gan_of(Norm(), Critic()), "depends on other rows"),
    (lambda: gan_of(Generator(), Only(lambda *rows: rows)), "critic must return one tensor"),
    (lambda: gan_of(Only(lambda *_: {"x": X[:4]}), Critic()), r"got dict.*\['logits'\]"),
    (lambda: gan_of(Only(lambda *_: X[:4], nan), Critic()), "generator: parameter weight"),
    (lambda: gan_of(Generator(), Only(lambda *_: X[:4], inf)), "critic: parameter weight"),
    (
        lambda: gan_of(Only(lambda *_: torch.full((4, 1, 8, 8), nan))),
        "makes NaN or infinite numbers",
    ),
    (lambda: gan_of(Generator(), counted(None)), r"one_hot\(y\) for one_hot\(y, k\)"),
    (lambda: gan_of(Generator(), counted(9)), "Class values must be smaller"),
    call=lambda gan: gan().fit(X, Y, steps=6),
    error=(TypeError, ValueError),
)


class Probability(Critic):
    """A critic whose sigmoid is no layer."""

    piecewise_linear = False

    def forward(self, images, labels=None):
        return torch.sigmoid(super().forward(images, labels)).squeeze(1)


def test_a_critic_of_probabilities_where_the_loss_takes_logits():
    with pytest.raises(ValueError, match=r'sigmoid, and the loss "bce" takes logits.*remove'):
        gan_of(Generator(), Probability(), loss="bce").fit(X, Y, steps=6)
    critic = nn.Sequential(nn.Flatten(), nn.Linear(64, 1), nn.Sigmoid())
    plain = {"classes": None, "batch_size": 40}
    with pytest.raises(ValueError, match="remove the critic's last layer"):
        gan_of(Generator(), critic, loss="bce", **plain).fit(X, steps=2)
    gan_of(Generator(), critic[:2], loss="hinge", **plain).fit(X, steps=2)


@cache
def fitted():
    return gan_of().fit(X, Y, steps=5)


@pytest.mark.parametrize("labels", [[10], [-1], [0.5], [[1]], [True]])
def test_labels_that_there_are_none_of(labels):
    with pytest.raises((ValueError, TypeError), match=r"^labels .*public( list)?$"):
        fitted().sample(labels)  # which tells of no record


def test_data_of_another_shape_than_the_generator_makes():
    with pytest.raises(ValueError, match="an example of the data is"):
        gan_of().fit(small_networks.FLAT, Y, steps=6)
    with pytest.raises(ValueError, match=r"x.permute\(0, 3, 1, 2\) puts.*channels first"):
        gan_of().fit(X.permute(0, 2, 3, 1), Y, steps=6)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 10))
    for data, words in ((X.permute(0, 2, 3, 1), "channels come first"), ((X > 0).int(), "x.float")):
        net, private, x, y = begun(data, Y, net=net)
        with pytest.raises(ValueError, match=f"{words}.*was not charged"):
            private.step(each(net), x, y)


@pytest.mark.filterwarnings("ignore:.*torch.func")
def test_labels_of_the_batch_in_a_closure_are_each_row_s_own_but_on_the_slower_way():
    weights = []
    for closed in (True, False):
        net, private, x, y = begun(reproducible_seed=0)
        own = each(net)
        if closed:
            private.step(lambda x: own(x, y), x)  # noqa: B023
        else:
            private.step(own, x, y)
        weights.append(torch.cat([p.detach().flatten() for p in net.parameters()]))
    assert torch.equal(*weights)
    slow = nn.Sequential(nn.Linear(64, 8), nn.PReLU(), nn.Linear(8, 1))
    net, private, x, y = begun(net=slow)
    with pytest.raises((TypeError, ValueError), match="closure"):
        private.step(lambda x: (net(x).squeeze(1) - y).square(), x)


def test_a_transform_in_which_rows_meet():
    private = private_of(transform=lambda x: x - x.mean(0))
    with pytest.raises(ValueError, match="one record would move the gradients of others"):
        next(iter(private))
    with pytest.raises(ValueError, match="transform gives an example another value"):
        gan_of(transform=lambda x: x - x.mean(0)).fit(X, Y, steps=6)


def test_the_optimizer_is_not_stepped_beside_private_step():
    private = private_of(net := classifier())
    for x, y in private:
        cross_entropy(net(x), y).backward()
        with pytest.raises(RuntimeError, match="along gradients without noise"):
            private.optimizer.step()
        private.step(each(net), x, y)
    run(private_of(net, optimizer=private.optimizer), steps=1)

"""Small training programs, each of one habit of ordinary and honest researchers.

`PROGRAMS` holds each with the facts that it must give, which depend on neither chance nor
processor, and with words of the warning that it gives, if any: nothing else is warned of. A program
takes the seed of its data; networks are drawn from torch's global generator, and files go to the
current folder.
"""

import copy
import warnings
from contextlib import nullcontext, suppress
from functools import partial

import numpy as np
import pytest
import small_networks
import torch
from per_example_tests import Calls
from small_networks import each
from torch import nn
from torch.nn.functional import cross_entropy, dropout, linear
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

from dpkit import Budget
from dpkit.privacy import pld
from dpkit.privacy.accountants.filters import OverBudget
from dpkit.training import seeded

pytestmark = pytest.mark.torch

private_of = partial(small_networks.private_of, rate=0.1, steps=6, batch_size=32)
SIX_STEPS = {"steps": 6, "epsilon": 8.0, "finite": True}  # what most programs give
PROGRAMS = []  # (program, facts, words of its warning)
SAID_OF_ANY = ("(?s).*goes through torch.func", "`torch.jit.script` is deprecated")


def program(*, warns=None, **facts):
    """Add a function to the programs, with what it gives."""

    def add(function):
        PROGRAMS.append((function, facts, warns))
        return function

    return add


def rows(seed):
    """Six features, and a label that goes with two of them; with seed + 1 they are public."""
    x = torch.randn(160, 6, generator=torch.Generator().manual_seed(1000 + seed))
    return x, (x[:, 0] + x[:, 1] > 0).long()


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


def begin(seed, optimizer=SGD, **others):
    """A network, and its Private of the rows."""
    net = mlp()
    return net, private_of(net, *rows(seed), optimizer=optimizer(net.parameters()), **others)


def run(private, loss):
    return facts(small_networks.run(private, loss))


def facts(private, **others):
    finite = all(bool(part.isfinite().all()) for part in private.net.state_dict().values())
    epsilon = round(private.guarantee().epsilon, 2)
    return {"steps": private.steps_done, "epsilon": epsilon, "finite": finite, **others}


class Trainer:
    """Holds data and network, and counts its calls."""

    def __init__(self, seed):
        self.x, self.y = rows(seed)
        self.net, self.calls = mlp(), 0

    def loss(self, x, y):
        decay = sum(p.square().sum() for p in self.net.parameters()) / len(self.x)
        return each(self.net)(x / self.x.shape[1] ** 0.5, y) + decay

    def __call__(self, x, y):
        self.calls += 1
        return each(self.net)(x, y)


@program(**SIX_STEPS, called=SIX_STEPS)
def method_that_asks_for_sizes_or_callable_trainer_as_a_loss(seed):
    """The loss is a method of a trainer that holds the data and asks for sizes; or the trainer."""
    one, other = Trainer(seed), Trainer(seed)
    called = run(private_of(other.net, other.x, other.y), other)
    return run(private_of(one.net, one.x, one.y), one.loss) | {"called": called}


@program(**SIX_STEPS)
def network_that_knows_its_trainer(seed):
    """The network keeps a reference to the trainer, which holds the data and the Private."""
    trainer = Trainer(seed)
    trainer.net.trainer = trainer
    trainer.private = private_of(trainer.net, trainer.x, trainer.y)
    return run(trainer.private, each(trainer.net))


@program(**SIX_STEPS)
def trainer_that_is_a_module(seed):
    """As with Lightning, one module is the network, gives the loss and holds the data."""
    criterion = nn.CrossEntropyLoss(reduction="none")
    module = Calls(lambda parts, x, y: parts[1](parts[0](x), y), mlp(), criterion)
    module.train_data = TensorDataset(*rows(seed))
    return run(private_of(module, module.train_data), module)


@program(**SIX_STEPS, averaged=6)
def average_of_weights_beside(seed):
    """An exponential average of the weights is kept beside the network."""
    net, private = begin(seed)
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for x, y in private:
        private.step(each(net), x, y)
        average.update_parameters(net)
    return facts(private, averaged=average.n_averaged.item())


@program(**SIX_STEPS, warns="weights or buffers of net have changed")
def rolled_back_midway(seed):
    """After the fifth step the network and Adam go back to the third; all five stay charged."""
    net, private = begin(seed, Adam)
    for done, (x, y) in enumerate(private, 1):
        private.step(each(net), x, y)
        if done == 3:
            kept = copy.deepcopy((net.state_dict(), private.optimizer.state_dict()))
        if done == 5:
            net.load_state_dict(kept[0])
            private.optimizer.load_state_dict(kept[1])
    return facts(private)


@program(**SIX_STEPS, rates=[0, 0])
def adamw_with_groups_and_a_schedule(seed):
    """AdamW has a learning rate for each layer, and a cosine lowers both to zero."""
    net = mlp()
    groups = [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 1e-2}]
    optimizer = AdamW(groups, lr=1e-3, weight_decay=0.1)
    schedule = CosineAnnealingLR(optimizer, T_max=6)
    private = private_of(net, *rows(seed), optimizer=optimizer)
    for x, y in private:
        private.step(each(net), x, y)
        schedule.step()
    return facts(private, rates=[round(group["lr"], 6) for group in optimizer.param_groups])


@program(**SIX_STEPS)
def warm_restarts_by_hand(seed):
    """The learning rate is set in param_groups; a restart throws Adam's moments away."""
    net, private = begin(seed, Adam)
    for i, (x, y) in enumerate(private):
        private.optimizer.param_groups[0]["lr"] = 0.2 * (1 - (i % 3) / 3)
        if i % 3 == 0:
            private.optimizer.state.clear()
        private.step(each(net), x, y)
    return facts(private)


@program(**SIX_STEPS)
def another_optimizer_midway(seed):
    """Adam at first; then an SGD that is made in the loop takes over."""
    net, private = begin(seed, Adam)
    for i, (x, y) in enumerate(private):
        if i == 3:
            private.optimizer = SGD(net.parameters(), 0.05)
        private.step(each(net), x, y)
    return facts(private)


@program(**SIX_STEPS, kept=True)
def frozen_backbone(seed):
    """The first layer needs no gradient; the head alone is trained."""
    net = mlp()
    net[0].requires_grad_(False)
    before = net[0].weight.clone()
    return run(private_of(net, *rows(seed)), each(net)) | {"kept": net[0].weight.equal(before)}


@program(**SIX_STEPS, kept=True)
def frozen_batch_norm(seed):
    """The frozen extractor, in evaluation mode, holds batch normalisation that saw public rows.

    The loop calls net.train() before each step.
    """
    extractor = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU())
    extractor(rows(seed + 1)[0])
    before = extractor[1].running_mean.clone()
    net = nn.Sequential(extractor.eval().requires_grad_(False), nn.Linear(8, 2))
    private = private_of(net, *rows(seed))
    for x, y in private:
        net.train()
        private.step(each(net), x, y)
    return facts(private, kept=extractor[1].running_mean.equal(before))


@program(**SIX_STEPS)
def transformer_in_training_mode(seed):
    """An encoder layer as torch makes it, with dropout in its attention."""
    layers = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), nn.Flatten(), nn.Linear(12, 2)
    net = nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Linear(3, 6), *layers)
    return run(private_of(net, *rows(seed)), each(net))


@program(**SIX_STEPS)
def pretrained_on_public_rows(seed):
    """Plain training on public rows, then private training with the same optimiser."""
    net = mlp()
    optimizer = Adam(net.parameters())
    for x, y in DataLoader(TensorDataset(*rows(seed + 1)), batch_size=25, shuffle=True):
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        optimizer.step()
    return run(private_of(net, *rows(seed), optimizer=optimizer), each(net))


@program(**SIX_STEPS)
def evaluation_between_steps(seed):
    """After each step the network, which has dropout, is scored on public rows by net.eval()."""
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(), nn.Linear(8, 2))
    x_test, y_test = rows(seed + 1)
    private = private_of(net, *rows(seed))
    for x, y in private:
        net.train()
        private.step(each(net), x, y)
        net.eval()
        with torch.no_grad():
            print((net(x_test).argmax(1) == y_test).float().mean().item())
    return facts(private)


@program(**SIX_STEPS)
def public_rows_of_one_numpy_array(seed):
    """One NumPy array holds both; the loss keeps the logits of a public row small."""
    x, y = (part.numpy() for part in rows(seed))
    anchor, net = torch.from_numpy(x[:1]), mlp()
    private = private_of(net, x[50:], y[50:])
    return run(private, lambda x, y: each(net)(x, y) + 0.01 * net(anchor).square().sum())


@program(**SIX_STEPS)
def buffers_cut_from_the_array(seed):
    """A buffer of the network holds public rows of the array whose other rows are private."""
    (x, y), net = rows(seed), mlp()
    net.register_buffer("public", x[:10])
    return run(private_of(net, x[50:], y[50:]), lambda x, y: each(net)(x - net.public.mean(0), y))


@program(**SIX_STEPS, logged=6, curves=6)
def logging_of_every_kind(seed):
    """tqdm, enumerate, .item(), the curves, and the statement midway."""
    (net, private), log = begin(seed), []
    for i, (x, y) in enumerate(tqdm(private)):
        private.step(each(net), x, y)
        log.append({"step": i, "loss": each(net)(x, y).mean().item(), "batch": len(x)})
        if i == 2:
            print(private.curves["loss"].iloc[-1], private.statement(unit="one patient"))
    return facts(private, logged=len(log), curves=len(private.curves))


@program(**SIX_STEPS)
def gradient_norm_for_the_log(seed):
    """Before each step the norm of the plain gradient is logged, and the gradient thrown away."""
    net, private = begin(seed)
    for x, y in private:
        each(net)(x, y).mean().backward()
        print(nn.utils.clip_grad_norm_(net.parameters(), 1.0).item())
        private.optimizer.zero_grad()
        private.step(each(net), x, y)
    return facts(private)


@program(**SIX_STEPS)
def large_batches_in_parts(seed):
    """microbatch_size= takes the place of gradient accumulation."""
    net, private = begin(seed, batch_size=80, microbatch_size=16)
    return run(private, each(net))


@program(runs=3)
def cells_that_share_a_budget_file(seed):
    """A cell is run again and again with one Budget file, until that refuses."""
    runs = 0
    with suppress(OverBudget):
        while runs < 9:
            budget = Budget("budget.json", epsilon=4, delta=1e-5)
            net, private = begin(seed, epsilon=2, budget=budget)
            run(private, each(net))
            runs += 1
    return {"runs": runs}


@program(steps=6, epsilon=2.0, finite=True, first=6)
def two_networks_on_one_budget(seed):
    """Two networks share a Budget and take turns."""
    budget = Budget("budget.json", epsilon=8, delta=1e-5)
    net, first = begin(seed, epsilon=2, budget=budget)
    other, second = begin(seed, epsilon=2, budget=budget)
    for one, two in zip(first, second, strict=True):
        first.step(each(net), *one)
        second.step(each(other), *two)
    return facts(second, first=first.steps_done)


@program(steps=3, epsilon=4.0, finite=True, total=5.02)
def resumed_kernel(seed):
    """State dicts go to a file; after a restart a new Private makes the steps that are left."""
    net, first = begin(seed, Adam, steps=3, epsilon=4)
    run(first, each(net))
    torch.save({"net": net.state_dict(), "adam": first.optimizer.state_dict()}, "kernel.pt")
    stored = torch.load("kernel.pt")
    net, private = begin(seed, Adam, steps=3, epsilon=4)
    net.load_state_dict(stored["net"])
    private.optimizer.load_state_dict(stored["adam"])
    made = run(private, each(net))
    total = pld.epsilon(first.ledger + private.ledger, delta=1e-5).epsilon
    return made | {"total": round(total, 2)}


@program(**SIX_STEPS)
def cells_in_one_namespace(seed):
    """In a notebook all names are global, and cells are run in the order that came to mind."""
    cells = (
        "x, y = rows(seed)\nx_public, y_public, x, y = x[:40], y[:40], x[40:], y[40:]",
        "net = mlp()\ncriterion = nn.CrossEntropyLoss(reduction='none')",
        "def loss(x, y):\n    return criterion(net(x), y)\nprivate = private_of(net, x, y)",
        "for batch in private:\n    private.step(loss, *batch)",
        "accuracy = (net(x_public).argmax(1) == y_public).float().mean()",
    )
    names = {**globals(), "seed": seed}
    for number in (0, 1, 2, 3, 4, 1, 2, 3, 2, 3, 4):
        exec(cells[number], names)
    return facts(names["private"])


@program(**SIX_STEPS)
def loss_that_asks_private_for_the_step(seed):
    """The loss reads the Private itself: its weight falls with private.steps_done."""
    net, private = begin(seed)
    return run(private, lambda x, y: (2 - private.steps_done / 6) * each(net)(x, y))


@program(**SIX_STEPS)
def loss_with_random_augmentation(seed):
    """The loss adds noise to each row and drops some of its features."""
    net, private = begin(seed)
    return run(private, lambda x, y: each(net)(dropout(x + 0.1 * torch.randn_like(x), 0.1), y))


@program(**SIX_STEPS, first=SIX_STEPS)
def numpy_of_two_types(seed):
    """NumPy's float64 is given to a network of single precision, and float32 to one of double."""
    x, y = (part.numpy() for part in rows(seed))
    net, double = mlp(), mlp().double()
    first = run(private_of(net, x.astype(np.float64), y.astype(np.int32)), each(net))
    return run(private_of(double, x, y), each(double)) | {"first": first}


@program(**SIX_STEPS)
def convolutions_with_group_norm(seed):
    """Images of bytes, convolutions, group normalisation."""
    images = torch.randint(256, (160, 1, 6, 6), dtype=torch.uint8)
    layers = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    net = nn.Sequential(*layers)
    return run(private_of(net, images, rows(seed)[1]), each(net))


@program(**SIX_STEPS)
def embedding_of_tokens(seed):
    """The features are tokens, whose embeddings are averaged."""
    net = nn.ModuleDict({"table": nn.Embedding(12, 8), "head": nn.Linear(8, 2)})
    private = private_of(net, torch.randint(12, (160, 5)), rows(seed)[1])
    return run(private, lambda x, y: each(net["head"])(net["table"](x).mean(1), y))


@program(**SIX_STEPS)
def tied_autoencoder(seed):
    """The decoder's weight is that of the encoder; the target of a row is the row."""
    net = nn.Linear(6, 3)
    private = private_of(net, rows(seed)[0])
    return run(private, lambda x: (linear(net(x).tanh(), net.weight.T) - x).square().sum(1))


@program(**SIX_STEPS)
def critic_of_fakes_and_samples(seed):
    """A loss makes its own fakes, then the generator takes a step; samples are drawn on the way."""
    generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))
    critic = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    of_generator = Adam(generator.parameters(), 1e-3)
    private = private_of(critic, rows(seed)[0])

    def loss(real):
        return (critic(generator(torch.randn(len(real), 4)).detach()) - critic(real)).squeeze(1)

    for (real,) in private:
        private.step(loss, real)
        of_generator.zero_grad()
        (-critic(generator(torch.randn(32, 4))).mean()).backward()
        of_generator.step()
        print(generator(torch.randn(2, 4)))
    return facts(private)


@pytest.mark.parametrize(
    ("run", "facts", "warns"), [pytest.param(*one, id=one[0].__name__) for one in PROGRAMS]
)
def test_an_honest_program_runs(run, facts, warns, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with seeded(0), warnings.catch_warnings():
        warnings.simplefilter("error")
        for words in SAID_OF_ANY:
            warnings.filterwarnings("ignore", words)
        # other words than the declared ones are warned of again at its end, and are an error then
        with pytest.warns(UserWarning, match=warns) if warns else nullcontext():
            found = run(0)
    assert found == facts

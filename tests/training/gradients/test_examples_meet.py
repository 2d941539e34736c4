"""Networks and losses in which the examples of a batch meet are refused, however they meet."""

import warnings
from functools import partial

import pytest
import torch
from per_example_tests import Calls, alone, normal, norms_of, penalty, squares
from torch import nn
from torch.nn.functional import binary_cross_entropy, cosine_similarity, cross_entropy, softplus

from dpkit.training.gradients import MixesExamples, UnsupportedLayer, gradient_penalty, independence
from dpkit.training.gradients.ghost_clipping import Gradients, capture, per_example

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.func")


def mlp(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), *more, nn.Linear(8, 3))


def own(function) -> nn.Module:
    """A function of its input as a module, which it says is piecewise linear."""
    return Calls(lambda _, x: function(x), piecewise_linear=True)


def deviation(x: torch.Tensor) -> torch.Tensor:
    """ProGAN's layer: the batch's mean standard deviation, added to what it sees."""
    return x + 0.1 * x.std(0).mean()


def centre(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(0)


def discrimination() -> nn.Module:
    """Minibatch discrimination (Salimans et al. 2016): distances to the other examples."""

    def distances(parts, x):
        h = parts[0](x)
        return x + (-(h[:, None] - h[None]).abs()).exp().sum(1)

    return Calls(distances, nn.Linear(8, 8))


def attention_over_the_batch(x: torch.Tensor) -> torch.Tensor:
    """Causal attention where batch and time have changed places."""
    return nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)[0]


class Queue(nn.Module):
    """Features of the last batch, which the next one is compared with (MoCo)."""

    def __init__(self) -> None:
        super().__init__()
        self.last = None

    def forward(self, x):
        last, self.last = self.last, x.detach()
        return x if last is None else x - 0.1 * last.mean(0)


class Running(nn.Module):
    """A running mean that is assigned anew."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


class Largest(nn.Module):
    """The largest number seen, kept and not used."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("largest", torch.zeros(()))

    def forward(self, x):
        self.largest.copy_(torch.maximum(self.largest, x.detach().abs().max()))
        return x


NETWORKS = {
    "minibatch deviation": lambda: mlp(own(deviation)),
    "behind dropout": lambda: mlp(nn.Dropout(0.5), own(deviation)),
    "deviation, slow way": lambda: mlp(nn.PReLU(), own(deviation)),
    "minibatch discrimination": lambda: mlp(discrimination()),
    "discrimination, dropout": lambda: mlp(nn.Dropout(0.5), discrimination(), nn.Dropout(0.5)),
    "centred": lambda: mlp(own(centre)),
    "0.001 of the mean": lambda: mlp(own(lambda x: x - 0.001 * x.mean(0))),
    "softmax over the batch": lambda: mlp(nn.Softmax(dim=0)),
    "attention over the batch": lambda: mlp(own(attention_over_the_batch)),
    "mean without gradient": lambda: mlp(own(lambda x: x - x.mean(0).detach())),
    "previous example": lambda: mlp(own(lambda x: x + 0.1 * x.roll(1, 0))),
    "mean of a large batch": lambda: mlp(own(lambda x: x - x.mean(0) * (x.abs().max() > 100))),
    "queue of features": lambda: mlp(Queue()),
    "running mean": lambda: mlp(Running()),
    "largest input": lambda: mlp(Largest()),
    "largest input, slow way": lambda: mlp(nn.PReLU(), Largest()),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [2, 8])
def test_networks_in_which_examples_meet(name, batch):
    with pytest.raises(MixesExamples):
        per_example(NETWORKS[name](), squares, normal(batch, 6))


@pytest.mark.parametrize("name", ["minibatch deviation", "0.001 of the mean", "largest input"])
@pytest.mark.parametrize(
    "inputs",
    [normal(8, 6).sigmoid(), (normal(8, 6) > 0).float(), (9 * normal(8, 6)).round()],
    ids=["shares", "binary", "whole"],
)
def test_networks_in_which_examples_of_a_narrow_kind_meet(name, inputs):
    with pytest.raises(MixesExamples):
        per_example(NETWORKS[name](), squares, inputs)
    with pytest.raises(MixesExamples):
        per_example(mlp(), LOSSES["weights of the batch"], inputs)


@pytest.mark.parametrize("make", [independence._far, independence._extreme])
@pytest.mark.parametrize(
    "inputs", [normal(5, 6), torch.arange(5), torch.eye(5) > 0], ids=["real", "whole", "logical"]
)
def test_one_example_moves_in_one_direction_or_the_other(make, inputs):
    up, down = make(inputs, 2, 1000.0), make(inputs, 2, -1000.0)
    others = torch.arange(5) != 2
    for moved in (up, down):
        assert torch.equal(moved[others], inputs[others])
    assert ((up[2] != inputs[2]) | (down[2] != inputs[2])).all()


def test_on_a_gpu_whole_numbers_and_shares_stay_what_they_are(monkeypatch):
    monkeypatch.setattr(independence, "SAFE", ())
    real, places = normal(8, 6), torch.tensor([0.0, 1, 2, 0, 1, 2, 0, 1])[:, None]
    shares = real.sigmoid()
    for scale in (-1000.0, 1000.0):
        moved = independence._far(torch.cat((places, shares, real), 1), 0, scale)[0]
        assert moved[0] in (0, 2)
        assert ((moved[1:7] >= shares.amin(0)) & (moved[1:7] <= shares.amax(0))).all()
        assert (moved[7:].abs() > 10).all()


def test_an_outlier_does_not_widen_what_passes():
    inputs = normal(8, 6)
    inputs[3] *= 1e4
    with pytest.raises(MixesExamples):
        per_example(NETWORKS["0.001 of the mean"](), squares, inputs)


def ranked(outputs):
    scores = outputs.sum(1)
    return scores * (scores > scores[:1])


def relativistic(outputs):
    scores = outputs.sum(1)
    return softplus(scores.mean() - scores)


def info_nce(outputs):
    near = cosine_similarity(outputs[:, None], outputs.roll(1, 1)[None], dim=2)
    return cross_entropy(near, torch.arange(len(outputs)), reduction="none")


LOSSES = {
    "centred": lambda o: squares(o - o.mean(0)),
    "ranked": ranked,
    "relativistic": relativistic,
    "InfoNCE": info_nce,
    "0.001 of the mean": lambda o: squares(o) - 0.001 * squares(o).mean(),
    "the last as reference": lambda o: squares(o - o[-1:]),
    "pairs": lambda o: squares(o - o.view(-1, 2, 3).flip(1).reshape(-1, 3)),
    "weights of the batch": lambda o: squares(o) / squares(o).detach().max(),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("slow", [False, True])
def test_losses_in_which_examples_meet_though_another_passed_before(name, slow):
    network = mlp(nn.PReLU()) if slow else mlp()
    for _ in range(2):  # the third batch is not looked at, of one loss
        per_example(network, squares, normal(8, 6))
    with pytest.raises(MixesExamples, match="losses of other examples change"):
        per_example(network, LOSSES[name], normal(8, 6))
    with pytest.raises(MixesExamples, match="losses of other examples change"):
        per_example(mlp(), partial(lambda scale, o: scale * LOSSES[name](o), 2.0), normal(8, 6))


def test_one_function_that_calls_two_losses():
    def doubled(loss):
        return lambda outputs: 2 * loss(outputs)

    network = mlp()
    for _ in range(2):
        per_example(network, doubled(squares), normal(8, 6))
    with pytest.raises(MixesExamples):
        per_example(network, doubled(info_nce), normal(8, 6))


@pytest.mark.parametrize("batch", [2, 7, 8, 64])
@pytest.mark.parametrize("factor", [lambda n: 1 / n, lambda n: n**0.5, lambda n: n % 2 + 1])
def test_a_loss_that_follows_how_many_examples_there_are_is_refused(factor, batch):
    """One record more changes every other's loss: the sum would move by up to 2 norms, or more."""
    network, inputs = mlp(), normal(batch, 6)
    with pytest.raises(MixesExamples, match="do not divide by their number"):
        per_example(network, lambda y: squares(y) * factor(len(y)), inputs)
    per_example(network, squares, inputs)


@pytest.mark.parametrize("views", [1, 2])
def test_losses_that_draw_random_numbers_for_each_example_are_no_mistake(views):
    """Inputs are augmented by noise, a part left out, two views in one pass."""
    body, drop = mlp(), nn.Dropout(0.3)

    def noisy(_, x):
        x = x + 0.1 * torch.randn_like(x) * (torch.rand(len(x), 1) > 0.5)
        return drop(body(drop(torch.cat([x] * views)))).reshape(views, len(x), 3).sum(0)

    network = Calls(noisy, body, drop)
    for batch in (2, 8, 64):
        rows = normal(batch, 6)
        assert independence.refuse_meeting(network, lambda x: squares(network(x)), (rows,))


def test_labels_and_conditions_are_replaced_with_their_example():
    def weighted(parts, x, y):
        frequent = torch.bincount(y, minlength=3).to(x)
        return frequent[y] * cross_entropy(parts[0](x), y, reduction="none")

    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0])
    with pytest.raises(MixesExamples):
        per_example(Calls(weighted, mlp()), lambda losses: losses, normal(8, 6), labels)


@pytest.mark.parametrize("penalised", [False, True])
def test_what_fades_in_is_seen_by_the_next_power_of_two(penalised):
    fading = own(lambda x: x)
    network = nn.Sequential(mlp(fading), nn.Linear(3, 1))
    of = partial(penalty, network) if penalised else partial(per_example, network, squares)
    of(normal(8, 6))
    fading.function = lambda _, x: x + 0.01 * (x.mean(0) - x)
    of_four = [partial(of, normal(8, 6, seed=seed)) for seed in range(4)]
    with pytest.raises(MixesExamples):
        [batch() for batch in of_four]


@pytest.mark.parametrize("name", [n for n in NETWORKS if "dropout" not in n])
def test_critics_with_a_penalty_in_which_examples_meet(name):
    critic = nn.Sequential(NETWORKS[name](), nn.Linear(3, 1))
    with pytest.raises(MixesExamples):
        penalty(critic, normal(8, 6))


@pytest.mark.parametrize("activation", [nn.LeakyReLU, nn.Tanh, nn.PReLU])
def test_a_critic_whose_centring_cancels_between_real_and_fake(activation):
    critic = nn.Sequential(nn.Linear(6, 8), activation(), nn.Linear(8, 1), own(centre))
    with pytest.raises(MixesExamples):
        penalty(critic, normal(8, 6))


def time_first() -> nn.Module:
    """Layers that see time first: right example by example, but not by their products."""

    def swapped(parts, x):
        return parts[1](parts[0](x.mT.contiguous().mT.transpose(0, 1)).relu()).sum(0)

    return Calls(swapped, nn.Linear(6, 5), nn.Linear(5, 1), piecewise_linear=True)


@pytest.mark.parametrize("first", [4, 8])
def test_layers_that_see_time_first_where_there_are_as_many_examples(first):
    network = time_first()
    per_example(network, squares, normal(first, 8, 6))
    for batch in (5, 6, 8):  # 8: as many as points in time
        inputs = normal(batch, 8, 6)
        found, _ = per_example(network, squares, inputs)
        torch.testing.assert_close(found.norms(), norms_of(alone(network, squares, inputs)))


def test_critics_that_see_time_first_where_there_are_three_times_as_many_points():
    critic = time_first().double()
    for batch in (5, 4, 5):  # 15 points in time
        real, fake = (normal(batch, 15, 6, seed=seed).double() for seed in (0, 1))
        mixing = torch.linspace(0, 1, batch).double()
        found, _ = gradient_penalty.per_example(critic, real, fake, mixing=mixing)
        for row in range(batch):
            i = slice(row, row + 1)
            wanted, _ = gradient_penalty.per_example(critic, real[i], fake[i], mixing=mixing[i])
            torch.testing.assert_close(found.norms()[:, i], wanted.norms())


def test_examples_are_replaced_by_what_a_network_takes():
    """A first column that is a place in another table, and shares to be reconstructed."""

    def read(parts, x):
        return parts[0](x[:, 0].long()) + parts[1](x[:, 1:])

    places = torch.tensor([0.0, 1, 2, 0, 1, 2, 0, 1])[:, None]
    reads = Calls(read, nn.Embedding(3, 4), nn.Linear(5, 4))
    found, _ = per_example(reads, squares, torch.cat((places, normal(8, 5)), 1))
    assert found.norms().shape == (3, 8)

    def reconstruction(pair):
        return binary_cross_entropy(*pair, reduction="none").sum(1)

    coder = Calls(lambda parts, x: (parts[0](x).sigmoid(), x), nn.Linear(6, 6))
    found, _ = per_example(coder, reconstruction, normal(8, 6).sigmoid())
    assert found.norms().shape == (2, 8)


def captured(network, loss):
    with capture(network) as seen:
        losses = loss(network(normal(8, 6)))
    return seen.gradients(losses)


def test_capture_on_its_own_compares_single_gradients():
    """It asks again for another loss of the same network."""
    meet = ["centred", "relativistic", "InfoNCE", "0.001 of the mean", "pairs"]
    for network, loss in [(mlp(), LOSSES[name]) for name in meet] + [
        (mlp(own(deviation)), squares)
    ]:
        with pytest.raises(UnsupportedLayer, match="moves the loss of another"):
            captured(network, loss)
    network = mlp()
    captured(network, squares)
    with pytest.raises(UnsupportedLayer, match="moves the loss of another"):
        captured(network, info_nce)
    layer = nn.Linear(6, 6)
    with pytest.raises(UnsupportedLayer, match="beside running its layers"):
        captured(layer, lambda outputs: squares(outputs @ layer.weight))


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_a_classifier_with_labels_in_a_closure(batch):
    """Its examples keep apart; no batch of one is run that the labels would not fit."""
    network, inputs = mlp(), normal(batch, 6)
    labels = torch.arange(batch) % 3
    found, losses = per_example(
        network, lambda out: cross_entropy(out, labels, reduction="none"), inputs
    )
    wanted = alone(network, lambda out: -out.log_softmax(1)[:, 0], inputs[:1])
    torch.testing.assert_close(found.norms()[:, :1], norms_of(wanted))
    assert losses.shape == (batch,)


def test_labels_in_a_closure_are_refused_where_examples_go_one_by_one():
    labels = torch.tensor([0.0, 1, 2, 0, 1, 2, 1, 1])
    for loss in (
        lambda out: (out[:, 0] - labels).square(),
        lambda out: cross_entropy(out, labels.long(), reduction="none"),
    ):
        with pytest.raises(UnsupportedLayer, match="labels") as refusal:
            per_example(mlp(nn.PReLU()), loss, normal(8, 6))
        assert "PReLU" in str(refusal.value)


def test_the_last_example_is_compared_too():
    """In its gradient: a loss that knows which is the last would change where one is left out."""

    def steeper(layer, _, out):
        more = out[-1:] @ layer.weight
        return torch.cat((out[:-1], out[-1:] + more - more.detach()))

    network = nn.Sequential(nn.Linear(6, 6, bias=False), nn.LeakyReLU())
    network[0].register_forward_hook(steeper)
    found, _ = per_example(network, squares, normal(8, 6))
    assert not isinstance(found, Gradients)


def test_a_buffer_that_is_replaced_later_is_noticed_on_the_slow_way():
    running = Running()
    network = mlp(nn.PReLU(), running)
    running.forward = lambda x: x
    for _ in range(2):
        per_example(network, squares, normal(8, 6))
    del running.forward
    with pytest.raises(MixesExamples, match="replaces buffers"):
        per_example(network, squares, normal(8, 6))
    assert torch.equal(running.mean, torch.zeros(8))


def test_gradients_are_compared_until_they_were_finite_once():
    """The square root's slope is infinite at the zeros of the first batches."""

    def root(outputs):
        return squares(outputs).sqrt()

    network = nn.Sequential(nn.Linear(6, 6, bias=False), nn.LeakyReLU())
    network[0].register_forward_hook(lambda layer, inputs, output: output @ layer.weight)
    for _ in range(2):
        assert per_example(network, root, torch.zeros(4, 6))[0].norms().isnan().any()
    inputs = normal(5, 6)
    found, _ = per_example(network, root, inputs)
    torch.testing.assert_close(found.norms(), norms_of(alone(network, root, inputs)))


def test_random_numbers_and_buffers_are_put_back():
    """Dropout alone passes, and draws what it would draw."""
    network, other = mlp(nn.Dropout(0.5), Largest()), mlp(nn.Dropout(0.5))
    state = torch.get_rng_state()
    with pytest.raises(MixesExamples, match="'largest'"):
        per_example(network, squares, normal(8, 6))
    assert torch.equal(state, torch.get_rng_state())
    assert network[3].largest == 0
    _, losses = per_example(other, squares, normal(8, 6))
    torch.set_rng_state(state)
    assert torch.equal(losses, squares(other(normal(8, 6))).detach())


def test_an_infinite_batch_does_not_count():
    network = mlp(own(lambda x: x - 0 * x.mean(0).detach().clamp(min=9, max=10)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nor is it blamed on the network
        for _ in range(2):
            found, losses = per_example(network, squares, torch.full((8, 6), torch.nan))
            assert losses.isnan().all()
        found.weighted_sum(torch.ones_like(found.norms()[:1]))
    network[2].function = lambda _, x: centre(x)
    with pytest.raises(MixesExamples):
        per_example(network, squares, normal(8, 6))


# --- the draws ---


def dropout(size, generator):
    with torch.random.fork_rng():
        torch.set_rng_state(generator.get_state())
        return nn.functional.dropout(torch.ones(size))


DRAWS = {
    **{"rand": torch.rand, "randn": torch.randn, "randint": partial(torch.randint, 9)},
    "like": lambda size, generator: torch.randn_like(torch.zeros(size), generator=generator),
    "in place": lambda size, generator: torch.empty(size).uniform_(generator=generator),
    "coins": lambda size, generator: torch.bernoulli(torch.full(size, 0.3), generator=generator),
    "dropout": dropout,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_each_example_keeps_its_draws_and_so_do_those_that_follow(draw):
    def both(rows):
        rng = torch.Generator().manual_seed(0)
        with independence.SameDraws(rows=20):
            return draw((rows, 3), generator=rng), torch.rand(4, generator=rng)

    (all_rows, after), (fewer, after_fewer) = both(20), both(19)
    assert torch.equal(all_rows[:19], fewer)
    assert torch.equal(after, after_fewer)


def test_draws_differ_from_one_another_and_a_state_that_is_put_back_repeats_them():
    rng = torch.Generator().manual_seed(0)
    with independence.SameDraws(rows=20) as draws:
        state = rng.get_state()
        first, second = torch.rand(3, generator=rng), torch.rand(3, generator=rng)
        rng.set_state(state)
        assert torch.equal(torch.rand(3, generator=rng), first)
    assert not torch.equal(first, second)
    assert draws.shapes == [(3,)] * 3

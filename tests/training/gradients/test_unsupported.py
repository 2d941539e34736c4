"""What cannot be clipped example by example is refused in a sentence, with the remedy."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from per_example_tests import Calls, normal, penalty, squares
from torch import distributed, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import mse_loss, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from dpkit.privacy.clipping import FlatClipping
from dpkit.training.gradients import HalfPrecision, UnsupportedLayer, functional
from dpkit.training.gradients.ghost_clipping import Gradients, capture, clipped_sum, per_example

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*goes through torch.func"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script"),
    pytest.mark.filterwarnings("ignore:Lazy modules"),
    pytest.mark.filterwarnings("ignore:.*performance drop"),
    pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad"),
]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, d):
        return 2 * d


def first(parts, x):
    return parts[0](x)[0]


def experts(parts, x):
    chosen = parts[0](x).argmax(1)
    outputs = x.new_zeros(len(x), 3)
    for index in (0, 1):
        outputs[chosen == index] = parts[1 + index](x[chosen == index])
    return outputs


def linear(out: int = 3) -> nn.Module:
    return nn.Linear(6, out)


def slow(*more: nn.Module) -> nn.Module:
    return nn.Sequential(linear(6), nn.PReLU(), *more)


NETWORKS = {
    "LSTM": (
        lambda: Calls(first, nn.LSTM(6, 4, batch_first=True)),
        (5, 6),
        "DPLSTM, DPGRU or DPRNN",
    ),
    "GRU": (lambda: Calls(first, nn.GRU(6, 4, batch_first=True)), (5, 6), "nn.Linear, in a loop"),
    "RNN": (lambda: Calls(first, nn.RNN(6, 4, batch_first=True)), (5, 6), "nn.Linear, in a loop"),
    "LSTMCell": (lambda: Calls(first, nn.LSTMCell(6, 4)), (6,), "nn.Linear, in a loop"),
    "experts": (lambda: Calls(experts, linear(2), linear(), linear()), (6,), "torch.where"),
    "function": (lambda: slow(Calls(lambda _, x: Doubled.apply(x))), (6,), "setup_context"),
    "reentrant": (
        lambda: slow(Calls(lambda p, x: checkpoint(p[0], x, use_reentrant=True), linear())),
        (6,),
        "use_reentrant=False",
    ),
    "scripted": (lambda: torch.jit.script(nn.Sequential(linear())), (6,), "was made from"),
    "lazy": (lambda: nn.LazyLinear(3), (6,), "on zeros"),
    "two types": (
        lambda: Calls(lambda p, x: p[1](p[0](x).double()), linear(6), linear().double()),
        (6,),
        r"torch.float32, torch.float64.*call float\(\) or double\(\)",
    ),
    "DataParallel": (lambda: nn.DataParallel(linear()), (6,), r"give its \.module"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_refused_with_the_remedy(name):
    make, shape, words = NETWORKS[name]
    with pytest.raises(UnsupportedLayer, match=words):
        per_example(make(), squares, normal(8, *shape))
    if name == "DataParallel":
        with pytest.raises(UnsupportedLayer, match=words), capture(make()):
            pass


def test_layers_that_fail_when_norms_are_taken_and_known_ones_in_a_bad_checkpoint_are_refused():
    found, _ = per_example(nn.GRUCell(6, 4), squares, normal(8, 6))
    with pytest.raises(UnsupportedLayer, match=r"nn.Linear, in a loop"):
        found.norms()
    network = Calls(lambda p, x: p[1](checkpoint(p[0], x, use_reentrant=True)), linear(6), linear())
    with pytest.raises(ValueError, match="use_reentrant=False"):
        per_example(network, squares, normal(8, 6).requires_grad_())


def test_distributed_data_parallel_is_refused():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(linear(1))
        for of in (partial(per_example, wrapped, squares), partial(penalty, wrapped)):
            with pytest.raises(UnsupportedLayer, match=r"DistributedDataParallel.*\.module"):
                of(normal(8, 6))
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("network", [linear(1), slow(linear(1))])
@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        *((lambda o: squares(o).mean(), r"\(\)"), (lambda o: o**2, r"\(8, 1\)")),
        *((lambda o: squares(o.view(4, 2)), r"\(4,\)"), (lambda o: 0.5, "float")),
    ],
)
def test_losses_that_are_not_one_an_example(network, loss, shape):
    with pytest.raises(ValueError, match=rf"shape \(8,\), got {shape}.*reduction"):
        per_example(network, loss, normal(8, 6))


def test_a_loss_of_outputs_and_labels_or_labels_that_the_network_does_not_take():
    for loss in (lambda out, y: squares(out - y), mse_loss, nn.MSELoss()):
        with pytest.raises(TypeError, match=r"one argument.*lambda out: f\(out, labels\)"):
            per_example(linear(), loss, normal(8, 6))
    with pytest.raises(TypeError, match=r"Linear does not take 2 inputs.*return the loss"):
        per_example(linear(), squares, normal(8, 6), torch.arange(8))


def test_packs_of_examples_and_critics_with_several_scores_are_refused():
    packs = Calls(lambda parts, x: parts[0](x.view(-1, 12)), nn.Linear(12, 1))
    with pytest.raises(ValueError, match=r"got \(4,\).*no packs"):
        per_example(packs, squares, normal(8, 6))
    with pytest.raises(ValueError, match="no packs"):
        penalty(packs, normal(8, 6))
    noisy = slow(Calls(lambda _, x: x + torch.randn_like(x)), linear(1))
    with pytest.raises(UnsupportedLayer, match=r"random numbers.*pass to pass.*eval\(\)"):
        penalty(noisy, normal(8, 6))
    for critic in (linear(4), slow(linear(4))):
        with pytest.raises(ValueError, match="one number for each example"):
            penalty(critic, normal(8, 6))


def test_attention_with_a_penalty_needs_the_formula_itself():
    """Flash attention's derivative torch cannot differentiate."""

    def attention(parts, x):
        query = parts[0](x).unflatten(2, (2, 4)).transpose(1, 2)
        return parts[1](scaled_dot_product_attention(query, query, query).mean(2).flatten(1))

    critic = Calls(attention, nn.Linear(6, 8), nn.Linear(8, 1))
    with pytest.raises(UnsupportedLayer, match=r"sdpa_kernel\(SDPBackend.MATH\)"):
        penalty(critic, normal(8, 5, 6))[0].norms()
    with sdpa_kernel(SDPBackend.MATH):
        assert penalty(critic, normal(8, 5, 6))[0].norms().isfinite().all()


def test_half_precision_and_autocast_are_refused():
    """Of the network's numbers, around it, and inside it."""
    inputs, autocast = normal(8, 6), partial(torch.autocast, "cpu", dtype=torch.bfloat16)
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises(HalfPrecision, match="call float"):
            per_example(linear().to(dtype), squares, inputs.to(dtype))
    with pytest.raises(HalfPrecision, match="autocast"), autocast(), capture(linear()) as captured:
        captured.layers[0](inputs)
    for network in (linear(1), slow(linear(1))):
        for of in (partial(per_example, network, squares), partial(penalty, network)):
            with autocast(), pytest.raises(HalfPrecision, match="off"):
                of(inputs)

    def half(parts, x):
        with autocast():
            return parts[0](x)

    with pytest.raises(HalfPrecision, match="autocast"):
        per_example(Calls(half, linear()), lambda o: squares(o.float()), inputs)
    with pytest.raises(HalfPrecision, match=r"losses are torch.bfloat16"):
        per_example(Calls(half, slow(linear())), squares, inputs)


@pytest.mark.filterwarnings("error:.*parameters beside.*")
@pytest.mark.parametrize("network", [slow(linear(1)), linear(1)])
def test_not_a_number_is_not_blamed_on_the_network(network):
    for of in (partial(per_example, network, squares), partial(penalty, network)):
        found = clipped_sum(of, torch.full((8, 6), torch.nan), rule=FlatClipping(1.0))
        assert all((total == 0).all() for total in found.sums)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Mish(), r"Mish\(\).*piecewise_linear = True"),
        (nn.GroupNorm(1, 6), r"GroupNorm.*piecewise linear"),
        (Calls(lambda _, x: x.relu()), r"Calls.*piecewise_linear = True"),
        (nn.PReLU(), r"PReLU.*fast: Linear, Conv2d"),
    ],
)
def test_the_warning_names_the_module_and_what_to_write(module, words):
    critic = nn.Sequential(linear(6), module, linear(1))
    functional._warned.clear()
    with pytest.warns(UserWarning, match=words):
        penalty(critic, normal(8, 6))


@pytest.mark.filterwarnings("ignore:.*torch.func")
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_two_threads_take_turns_with_their_penalties(activation):
    def critic():
        return nn.Sequential(linear(8), activation(), nn.Linear(8, 1))

    critics, answers = [critic(), critic()], {}

    def steps(index: int) -> None:
        for seed in range(20):
            answers[index, seed] = penalty(critics[index], normal(8, 6, seed=seed))[0].norms()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(steps, (0, 1)))
    for (index, seed), norms in answers.items():
        alone, _ = penalty(critics[index], normal(8, 6, seed=seed))
        assert torch.equal(norms, alone.norms())
    assert len(answers) == 40


@pytest.mark.parametrize(
    "penalised",
    [pytest.param(True, marks=pytest.mark.slow("torch.compile of a penalty alone")), False],
)
def test_a_compiled_step_clips_the_same_gradients(penalised):
    critic = nn.Sequential(linear(8), nn.ReLU(), nn.Linear(8, 1))
    of = partial(penalty, critic) if penalised else partial(per_example, critic, squares)

    def step(inputs):
        return clipped_sum(of, inputs, rule=FlatClipping(1.0)).sums

    found = torch.compile(step, backend="eager")(normal(8, 6))
    torch.testing.assert_close(found, step(normal(8, 6)))


def test_a_compiled_network_keeps_to_products():
    network = nn.Sequential(linear(8), nn.ReLU(), nn.Linear(8, 1))
    compiled = torch.compile(network, backend="eager")
    for seed in range(3):
        inputs = normal(8, 6, seed=seed)
        found, wanted = (per_example(one, squares, inputs)[0] for one in (compiled, network))
        assert isinstance(found, Gradients)
        torch.testing.assert_close(found.norms(), wanted.norms())

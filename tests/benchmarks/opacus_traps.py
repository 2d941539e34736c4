"""Eleven ways in which one record reaches further than its clipped gradient, in Opacus and dpkit.

Each trap is a network, a loss or a data set that a careful person may well write. It goes through
Opacus as its documentation says (`PrivacyEngine.make_private`, with its own validator) and through
dpkit's `clipped_sum`, both without noise, on a batch with one unusual record and on the same batch
without it. What is measured decides the verdict: nothing is written here beforehand.

    python tests/benchmarks/opacus_traps.py

writes docs/traps.md.
"""

import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from dpkit.common.files import write_bytes
from dpkit.privacy import pld
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.sampling import ShuffledBatches, mechanism
from dpkit.training import clipped_sum, gradient_penalty, noised, per_example, seeded, update

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "traps.md"
BATCH, WIDTH, CLIP = 16, 8, 0.1
UNUSUAL = 10.0  # what one record of the batch is multiplied by
PLACES = (0, BATCH // 2, BATCH - 1)  # where it stands
ROUGH = 1e-3  # relative: what rounding may add
SIZE, SHUFFLED, NOISE, EPOCHS, DELTA = 500, 50, 1.0, 5, 1e-5  # of the trap that is one of price

REFUSED, RIGHT, WRONG = "refused", "right", "silently wrong"
DOCUMENTED = "documented"  # as wrong, and its documentation says so, at run time nothing does
LONGEST = 110  # characters of a message that is quoted


class Outcome(NamedTuple):
    """What a library did with a trap, by what was measured."""

    verdict: str  # REFUSED, RIGHT, WRONG or DOCUMENTED
    words: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.words}"


class Step(NamedTuple):
    """One step without noise. All tensors in float64, so that processors agree on the digits."""

    total: Tensor  # the clipped sum of all gradients
    weights: Tensor  # after the step
    buffers: Tensor


def towards_one(out: Tensor) -> Tensor:
    """The loss of most traps: an output that should be 1."""
    return (out[:, 0] - 1).square()


class Trap(NamedTuple):
    """A network and its loss, output to (batch,), and the batch.

    alone: an example's gradient is known: what it is in a batch of one.
    penalised: a row of the batch is a real example, a fake one and their mixing, for WGAN-GP.
    """

    name: str
    what: str
    network: Callable[[], nn.Module]
    loss: Callable[[Tensor], Tensor] = towards_one
    unusual: float = UNUSUAL
    alone: bool = False
    penalised: bool = False


def batch(trap: Trap, place: int) -> Tensor:
    """Normal features, the record at `place` times `unusual`."""
    rng = torch.Generator().manual_seed(0)
    width = 2 * WIDTH + 1 if trap.penalised else WIDTH
    x = torch.randn(BATCH, width, generator=rng, dtype=torch.float64)
    x[place] *= trap.unusual
    return x


# --- the networks ---


class Layer(nn.Module):
    """A layer of one formula, and of layers that it takes beside its input."""

    def __init__(self, formula: Callable[..., Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.formula, self.parts = formula, nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.formula(x, *self.parts)


def with_deviation(x: Tensor) -> Tensor:
    """Beside each example the mean deviation of its batch (Karras et al. 2018)."""
    return torch.cat((x, x.std(0).mean().expand(len(x), 1)), 1)


class Centred(nn.Module):
    """Features minus a running mean, which the network keeps in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


def tied(x: Tensor, encoder: Any) -> Tensor:
    """What an autoencoder misses, whose decoder is its encoder's weight, transposed."""
    return functional.linear(encoder(x).tanh(), encoder.weight.T) - x


def used_twice(x: Tensor, layer: Any) -> Tensor:
    """A layer's weight in a second place: here as a gate."""
    return layer(x) * (x * layer.weight.sigmoid()).sum(1, keepdim=True)


def body(*first: nn.Module, wide: int = WIDTH) -> nn.Module:
    layers = (nn.Linear(wide, 12), nn.Tanh(), nn.Linear(12, 1))
    return nn.Sequential(*first, *layers)


def relativistic(out: Tensor) -> Tensor:
    """Each example against the mean of all (Jolicoeur-Martineau 2018)."""
    return functional.softplus(out.mean() - out[:, 0])


def info_nce(out: Tensor) -> Tensor:
    """Each example is to be told from the others of its batch (van den Oord et al. 2018)."""
    return functional.cross_entropy(out @ out.T, torch.arange(len(out)), reduction="none")


def penalised(network: nn.Module, x: Tensor) -> Tensor:
    """WGAN-GP (Gulrajani et al. 2017): a row is a real example, a fake one and their mixing."""
    real, fake, mixing = parts(x)
    between = torch.lerp(fake, real, mixing[:, None]).requires_grad_()
    (slope,) = torch.autograd.grad(network(between).sum(), between, create_graph=True)
    gap = network(fake)[:, 0] - network(real)[:, 0]
    return gap + 10 * (slope.norm(dim=1) - 1).square()


def parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x[:, :WIDTH], x[:, WIDTH:-1], x[:, -1].sigmoid()


TRAPS = (
    Trap(
        "Batch normalisation",
        "normalises each example by its batch",
        lambda: body(nn.BatchNorm1d(WIDTH)),
    ),
    Trap(
        "Minibatch standard deviation",
        "a feature of ProGAN's and StyleGAN's critics: the batch's spread",
        lambda: body(Layer(with_deviation), wide=WIDTH + 1),
    ),
    Trap(
        "A sum along the batch",
        "where the layer takes the first dimension for time",
        lambda: body(Layer(lambda x: x.cumsum(0))),
    ),
    Trap(
        "A running mean",
        "of the features, kept in a buffer and saved with the weights",
        lambda: body(Centred()),
    ),
    Trap("A loss centred over the batch", "a relativistic critic's", body, relativistic),
    Trap(
        "A contrastive loss",
        "InfoNCE: each example against the others",
        lambda: nn.Linear(WIDTH, 4),
        info_nce,
    ),
    Trap(
        "Tied weights",
        "an autoencoder that decodes by `F.linear` with its encoder's weight",
        lambda: Layer(tied, nn.Linear(WIDTH, WIDTH)),
        lambda out: out.square().sum(1),
        alone=True,
    ),
    Trap(
        "A weight used twice",
        "a layer's weight is also a gate",
        lambda: Layer(used_twice, nn.Linear(WIDTH, 1)),
        alone=True,
    ),
    Trap(
        "A gradient penalty",
        "WGAN-GP's, a backward pass through a backward pass",
        body,
        alone=True,
        penalised=True,
    ),
    Trap("A record that is NaN", "its values are missing", body, unusual=float("nan")),
)


# --- the two libraries ---


def made(trap: Trap) -> nn.Module:
    with seeded(0):
        return trap.network().double()


def by_dpkit(trap: Trap, x: Tensor) -> Step:
    """A step as docs/training.md has it."""
    network = made(trap)

    def of(x: Tensor) -> Any:
        if trap.penalised:
            real, fake, mixing = parts(x)
            return gradient_penalty.per_example(network, real, fake, mixing=mixing, weight=10.0)
        return per_example(network, trap.loss, x)

    clipped = clipped_sum(of, x, rule=FlatClipping(CLIP))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    noisy = noised(clipped.sums, noise_std=0.0, rng=torch.Generator().manual_seed(1))
    update(optimizer, clipped.parameters, [total / BATCH for total in noisy])
    return _seen(network, clipped.sums)


def _seen(network: nn.Module, sums: Sequence[Tensor]) -> Step:
    weights, buffers = list(network.parameters()), list(network.buffers())
    return Step(*(_flat(tensors) for tensors in (sums, weights, buffers)))


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([torch.zeros(0), *(one.detach().flatten() for one in tensors)])


def losses_of(trap: Trap, network: nn.Module, x: Tensor) -> Tensor:
    return penalised(network, x) if trap.penalised else trap.loss(network(x))


def by_opacus(trap: Trap, x: Tensor) -> Step:
    """A step as its documentation has it: a mean loss, backward, the optimiser's step."""
    loader = DataLoader(TensorDataset(x), batch_size=len(x))
    _, model, optimizer, _ = private(made(trap), loader, noise_multiplier=0.0)
    losses_of(trap, model, x).mean().backward()
    optimizer.step()
    return _seen(model, [p.summed_grad for p in model.parameters()])


def private(network: nn.Module, loader: DataLoader, **told: Any) -> Any:
    """Opacus' engine, and the model, optimiser and loader that it returns."""
    from opacus import PrivacyEngine

    engine = PrivacyEngine()
    told = {"max_grad_norm": CLIP, "poisson_sampling": False, **told}
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    data = {"optimizer": optimizer, "data_loader": loader}
    parts: Any = engine.make_private(module=network, **data, **told)
    return engine, *parts


def reference(trap: Trap, x: Tensor) -> Tensor:
    """The clipped sum by plain autograd, each example in a batch of one."""
    network = made(trap)
    parameters = list(network.parameters())
    total = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64)
    for one in x.split(1):
        loss = losses_of(trap, network, one).sum()
        gradient = _flat(list(torch.autograd.grad(loss, parameters)))
        total += gradient * (CLIP / gradient.norm()).clamp(max=1)
    return total


# --- verdicts ---


def judged(trap: Trap, step: Callable[[Trap, Tensor], Step]) -> Outcome:
    """What a library makes of a trap: by the steps that it takes, or by what it raises."""
    moved, off, kept = 0.0, 0.0, False
    for place in PLACES:
        x = batch(trap, place)
        others = torch.cat((x[:place], x[place + 1 :]))
        try:
            whole, rest = step(trap, x), step(trap, others)
        except Exception as error:  # whatever a library raises is how it refuses
            return refused(error)
        if not whole.weights.isfinite().all():
            words = "after the step a weight is not a number, and so are all that follow"
            return Outcome(WRONG, words)
        moved = max(moved, float((whole.total - rest.total).norm()) / CLIP)
        kept |= not torch.equal(whole.buffers, rest.buffers)
        if trap.alone:
            right = reference(trap, x)
            off = max(off, float((whole.total - right).norm() / right.norm()))
    words = f"one record moves the sum by {format(moved, '.2f' if moved < 2 else '.2g')} C"
    if off > ROUGH:
        words += f", and the clipped gradients are off by {100 * off:.0f} %"
    if kept:
        words += ", and a buffer that is released with the weights, without noise"
    wrong = moved > 1 + ROUGH or off > ROUGH or kept
    return Outcome(WRONG if wrong else RIGHT, words)


def refused(error: Exception) -> Outcome:
    """By the beginning of what was raised."""
    message = " ".join(str(error).split())
    short = textwrap.shorten(message, LONGEST, placeholder=" ...")
    return Outcome(REFUSED, f"{type(error).__name__}: {short}")


# --- the trap that is one of price ---


def shuffled_by_opacus() -> Outcome:
    """Epochs of a shuffled DataLoader, and the epsilon that is charged for them."""

    def charged(*, poisson_sampling: bool) -> float:
        with seeded(0):
            data = TensorDataset(torch.randn(SIZE, WIDTH))
            loader = DataLoader(data, batch_size=SHUFFLED, shuffle=True)
            told = {"noise_multiplier": NOISE, "poisson_sampling": poisson_sampling}
            engine, model, optimizer, batches = private(body(), loader, **told)
            for _ in range(EPOCHS):
                for (x,) in batches:
                    optimizer.zero_grad()
                    towards_one(model(x)).mean().backward()
                    optimizer.step()
        return engine.get_epsilon(DELTA)

    try:
        shuffled, poisson = charged(poisson_sampling=False), charged(poisson_sampling=True)
    except Exception as error:
        return refused(error)
    if shuffled > poisson * (1 + ROUGH):
        return Outcome(RIGHT, f"charges epsilon {shuffled:.2f}, for Poisson batches {poisson:.2f}")
    steps = EPOCHS * SIZE // SHUFFLED
    each = ShuffledBatches(SHUFFLED).passes(  # what is proven: a pass is one Gaussian release
        noise_multiplier=NOISE, public_size=SIZE, steps=steps
    )
    proven = pld.epsilon([each], delta=DELTA).epsilon
    from opacus import PrivacyEngine

    said = " ".join((PrivacyEngine.make_private.__doc__ or "").split())
    return Outcome(
        DOCUMENTED if "doesn't fit the assumptions" in said else WRONG,
        f"charges epsilon {shuffled:.2f} (RDP, add-remove, delta 1e-5), as for Poisson batches; "
        f"proven is {proven:.1f} (PLD, replace-one), without amplification",
    )


def shuffled_by_dpkit() -> Outcome:
    """The price of a step of shuffled batches."""
    sampling = ShuffledBatches(SHUFFLED)
    try:
        one = mechanism(sampling, noise_multiplier=NOISE, public_size=SIZE)
    except Exception as error:
        return refused(error)
    return Outcome(WRONG, f"charges {one}")


# --- the document ---

HEAD = """# Eleven traps

Each trap is of one of three kinds. One record reaches further than its clipped gradient, a record
is charged less than it costs, or the gradient is not that of the loss. Each trap goes through
Opacus {opacus} and through dpkit, with torch {torch}. Opacus is used as its documentation says:
`PrivacyEngine.make_private`, with its validator, in its default mode.

A batch of {batch} examples, one of them unusual, is clipped at norm C without noise. So is the
batch without that example: the two sums may be C apart. "Silently wrong" code trains on as if
nothing were amiss. All verdicts are measured.

Opacus: {opacus_counts}. dpkit: {dpkit_counts}.

"""
TAIL = """
Most of these are slips of the network's or the loss's author. Neither library promises to find them
all, and Opacus asks that a network keeps its examples apart. Opacus does much that dpkit does not,
such as recurrent layers, fully sharded training and adaptive clipping. dpkit owes a lot to it.

`python tests/benchmarks/opacus_traps.py` measures all again, in seconds, and writes this page.
"""


def names() -> list[str]:
    """The eleven traps, as the page has them."""
    last = "**Shuffled batches**: a `DataLoader` with `shuffle=True` and no Poisson sampling"
    return [*(f"**{trap.name}**: {trap.what}" for trap in TRAPS), last]


def measured(
    step: Callable[[Trap, Tensor], Step], shuffled: Callable[[], Outcome]
) -> list[Outcome]:
    """What one library does with each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*(judged(trap, step) for trap in TRAPS), shuffled()]


def document(of_opacus: Sequence[Outcome], of_dpkit: Sequence[Outcome]) -> str:
    """The page, as stored."""
    opacus = version("opacus")
    found = {"opacus_counts": counts(of_opacus), "dpkit_counts": counts(of_dpkit)}
    torch_version = version("torch").partition("+")[0]
    head = HEAD.format(opacus=opacus, torch=torch_version, batch=BATCH, **found)
    table = [f"| trap | Opacus {opacus} | dpkit |", "|---|---|---|"]
    for row in zip(names(), of_opacus, of_dpkit, strict=True):
        name, *cells = (str(one).replace("|", "\\|") for one in row)
        table.append(f"| {name} | {' | '.join(cells)} |")
    return head + "\n".join(table) + "\n" + TAIL


def counts(outcomes: Sequence[Outcome]) -> str:
    """How many of each verdict, in words."""
    found = Counter(one.verdict for one in outcomes)
    each = (WRONG, DOCUMENTED, REFUSED, RIGHT)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in each if found[verdict])


def main() -> None:
    """Write docs/traps.md."""
    of_opacus = measured(by_opacus, shuffled_by_opacus)
    page = document(of_opacus, measured(by_dpkit, shuffled_by_dpkit))
    write_bytes(DOCUMENT, page.encode())


if __name__ == "__main__":
    main()

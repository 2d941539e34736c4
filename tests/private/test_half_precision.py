"""Half precision: norms and sums are of float32, or a sentence says what to change."""

from functools import partial

import pytest
import torch
from small_networks import FLAT, Critic, Generator, X, Y, classifier, each, gan_of, private_of, run
from torch import nn
from torch.nn.functional import cross_entropy

from dpkit.private import release
from dpkit.training import noised
from dpkit.training.gradients import HalfPrecision

BRIEF = torch.float16, torch.bfloat16
AUTOCAST = partial(torch.autocast, "cpu", torch.bfloat16)
GAN = {"batch_size": 40}


class Mixed(nn.Module):
    """A network under autocast, whose output is of float32 again where `back`."""

    def __init__(self, net: nn.Module, *, back: bool = True) -> None:
        super().__init__()
        self.net, self.back = net, back

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        with AUTOCAST():
            made = self.net(*inputs)
        return made.float() if self.back else made


def in_loss() -> None:
    net = classifier()

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with AUTOCAST():
            return cross_entropy(net(x), y, reduction="none")

    run(private_of(net), loss)


def around(task) -> None:
    with AUTOCAST():
        task()


def fitted(*networks: nn.Module | None, x: torch.Tensor = X, **others) -> None:
    gan_of(*networks, **GAN, **others).fit(x, Y, steps=2)


NET = classifier()
REFUSED = {
    **{
        f"{name} of {kind}": (partial(task, kind), r"call float\(\) or double\(\)")
        for kind in BRIEF
        for name, task in {
            "net": lambda kind: private_of(classifier().to(kind)),
            "generator": lambda kind: fitted(Generator().to(kind)),
            "critic": lambda kind: fitted(None, Critic().to(kind)),
        }.items()
    },
    "the loop": (lambda: around(lambda: run(private_of())), "autocast off around"),
    "a fit": (lambda: around(fitted), "autocast off around"),
    "the loss": (in_loss, "gave torch.bfloat16; switch autocast off inside it"),
    "its dtype": (lambda: run(private_of(NET), lambda x, y: each(NET)(x, y).half()), "in float32"),
    "in net": (lambda: run(private_of(Mixed(classifier()))), "switch autocast off inside it"),
    "in critic": (lambda: fitted(None, Mixed(Critic()), loss="hinge"), "autocast off inside it"),
    "fakes": (lambda: fitted(Mixed(Generator(), back=False)), r"torch.float32, .* end in .to\("),
}


@pytest.mark.parametrize(("task", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_computed_in_half_precision_is_refused_with_a_remedy(task, words):
    with pytest.raises((HalfPrecision, TypeError), match=words):
        task()


SLOW = nn.Sequential(nn.Linear(64, 8), nn.PReLU(), nn.Linear(8, 10))
TAKEN = {
    **{f"data of {kind}": lambda k=kind: run(private_of(None, FLAT.to(k), Y)) for kind in BRIEF},
    **{f"images of {kind}": lambda k=kind: fitted(x=X.to(k)) for kind in BRIEF},
    "transform": lambda: run(private_of(transform=torch.Tensor.half)),
    "generator": lambda: fitted(Mixed(Generator())),
    "penalty": lambda: fitted(None, Mixed(Critic())),
    "by torch.func": lambda: run(private_of(Mixed(SLOW))),
}


@pytest.mark.filterwarnings("ignore:.*torch.func")
@pytest.mark.parametrize("task", TAKEN.values(), ids=TAKEN)
def test_what_is_taken_is_clipped_and_noised_in_float32(task, monkeypatch):
    kinds = set()

    def seen(found, **given):
        kinds.update(total.dtype for total in found)
        return noised(found, **given)

    monkeypatch.setattr(release, "noised", seen)
    task()
    assert kinds == {torch.float32}

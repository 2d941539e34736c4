"""Algorithm 4 of dpGAN against a plain listing, and when and how much its second part joins."""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import log_softmax

from dpkit.papers.dpgan import semi_supervised as semi
from dpkit.privacy.schedules import Constant
from dpkit.training.device import generator_on
from dpkit.training.optimizers import Adam, Sgd

pytestmark = pytest.mark.torch


CPU = torch.device("cpu")
SHAPE = (1, 8, 8)
CODE = 3
SETTINGS = semi.Learning(
    iterations=6, batch_size=3, width=2, classes=4, optimizer=Sgd(Constant(0.5))
)


def rng(seed):
    return generator_on(CPU, reproducible_seed=seed)


def labelled(count=5):
    images = 2 * torch.rand(count, *SHAPE, generator=rng(1)) - 1
    return images, torch.arange(count) % 4


def made_from(codes):
    """A generator: the code's mean and signs, spread over the image."""
    return torch.tanh(
        codes.sum(1)[:, None, None, None] + torch.linspace(-1, 1, 64).view(1, 1, 8, 8)
    )


def pair_for(settings, *, code_size=CODE, seed=0):
    """Both classifiers, the second of another mind about most images."""
    pair = semi.new_pair(SHAPE, code_size=code_size, settings=settings, seed=seed, device=CPU)
    with torch.no_grad():
        last = list(pair.second.parameters())[-1]
        last[2] += 20.0
    return pair


def ends(settings, run):
    pair = pair_for(settings)
    losses = list(run(pair, *labelled()))
    return pair, losses


def supervised(settings):
    return ends(settings, partial(semi.supervised, settings=settings, rng=rng(2)))


def whole(settings, generate=made_from):
    def run(pair, images, labels):
        return semi.semi_supervised(
            pair,
            images,
            labels,
            generate,
            code_size=CODE,
            settings=settings,
            rng=rng(2),
            codes_rng=rng(3),
        )

    return ends(settings, run)


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def cost(logits, labels):
    """Mean cross-entropy, example by example."""
    rows = [-log_softmax(row, 0)[label] for row, label in zip(logits, labels, strict=True)]
    return torch.stack(rows).mean()


def down(net, loss, rate):
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    with torch.no_grad():
        for p, g in zip(net.parameters(), gradients, strict=True):
            p -= rate * g


def listing(settings):
    """Algorithm 4 in the order of its lines, with plain gradient descent."""
    pair, (images, labels) = pair_for(settings), labelled()
    draws, codes_rng, seen = rng(2), rng(3), []
    for t in range(6):
        if t >= 2:  # a third of six
            z = torch.randn(3, CODE, generator=codes_rng)
            x = made_from(z)
            y = [int(pair.first(one[None])[0].argmax()) for one in x]
            second = cost(pair.second(x, z), y)
            down(pair.second, second, 0.5)
        chosen = torch.randint(5, (3,), generator=draws)
        real = cost(pair.first(images[chosen]), labels[chosen])
        share, loss = 0.0, real
        if t >= 2:
            z = torch.randn(3, CODE, generator=codes_rng)
            x = made_from(z)
            y = [
                int(pair.second(one[None], code[None])[0].argmax())
                for one, code in zip(x, z, strict=True)
            ]
            share = 0.2 * (t - 2) / 3  # 0 at the third, 0.2 at the end
            loss = (1 - share) * real + share * cost(pair.first(x), y)
        down(pair.first, loss, 0.5)
        seen.append((real.item(), share))
    return pair, seen


def test_it_is_the_listing():
    wanted, seen = listing(SETTINGS)
    found, losses = whole(SETTINGS)
    for name in ("first", "second"):
        torch.testing.assert_close(weights(getattr(found, name)), weights(getattr(wanted, name)))
    for one, (real, share) in zip(losses, seen, strict=True):
        assert one.labelled == pytest.approx(real, rel=1e-5)
        assert one.share == pytest.approx(share)


def test_the_second_joins_after_a_third():
    _, losses = whole(SETTINGS)
    assert [one.generated is None for one in losses] == [True] * 2 + [False] * 4
    assert [one.second is None for one in losses] == [True] * 2 + [False] * 4


def test_the_share_rises_slowly_from_a_third_on():
    long = semi.Learning(iterations=301)
    shares = [long.share_at(t) for t in range(301)]
    assert long.joined_at == 100
    assert shares[:101] == [0.0] * 101
    steps = [b - a for a, b in pairwise(shares[100:])]
    assert steps == pytest.approx([0.2 / 200] * 200)
    assert shares[-1] == pytest.approx(0.2)


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_few_iterations_have_shares_too(iterations: int):
    few = replace(SETTINGS, iterations=iterations)
    shares = [few.share_at(t) for t in range(iterations)]
    assert all(0 <= share <= 0.2 for share in shares)
    assert shares[-1] == 0.2


def test_without_a_share_it_is_the_baseline_to_the_bit():
    plain, alone = supervised(SETTINGS)
    both, losses = whole(replace(SETTINGS, share=0.0))
    assert torch.equal(weights(plain.first), weights(both.first))
    assert [one.labelled for one in alone] == [one.labelled for one in losses]
    assert not torch.equal(weights(plain.second), weights(both.second))
    shared, _ = whole(SETTINGS)
    assert not torch.equal(weights(plain.first), weights(shared.first))


def test_the_baseline_leaves_the_second_alone():
    pair, losses = supervised(SETTINGS)
    assert torch.equal(weights(pair.second), weights(pair_for(SETTINGS).second))
    assert {one.generated for one in losses} == {None}


def test_the_second_sees_the_code():
    net = semi.Classifier(SHAPE, classes=4, width=2, code_size=CODE)
    images = labelled(2)[0]
    codes = torch.randn(2, CODE, generator=rng(5))
    assert net(images, codes).shape == (2, 4)
    assert not torch.equal(net(images, codes), net(images, codes + 1))
    one, other = (pair_for(SETTINGS, code_size=size).first for size in (3, 7))
    assert torch.equal(weights(one), weights(other))


def test_both_learn_what_can_be_learned():
    """Four images that are told apart: all right after enough steps, with a share or without."""
    settings = semi.Learning(
        iterations=120, batch_size=8, width=4, classes=4, optimizer=Adam(Constant(5e-3))
    )
    images = torch.eye(4).repeat_interleave(16, 1).view(4, *SHAPE)
    labels = torch.arange(4)
    for share in (0.0, 0.2):
        own, pair = replace(settings, share=share), pair_for(settings)
        for _ in semi.semi_supervised(
            pair,
            images,
            labels,
            made_from,
            code_size=CODE,
            settings=own,
            rng=rng(2),
            codes_rng=rng(3),
        ):
            pass
        assert semi.accuracy(pair.first, images, labels) == 1.0


def test_accuracy_is_the_share_of_right_answers():
    pair, (images, labels) = pair_for(SETTINGS), labelled()
    said = pair.first(images).argmax(1).tolist()
    right = sum(answer == label for answer, label in zip(said, labels.tolist(), strict=True))
    assert semi.accuracy(pair.first, images, labels) == pytest.approx(right / 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: semi.Learning(share=math.nan), r"share must lie in \[0, 1\]"),
        (lambda: semi.Learning(joins=1.5), r"joins must lie in \[0, 1\]"),
        (lambda: semi.Learning(iterations=0), "iterations must be an integer >= 1"),
        (lambda: semi.Learning(classes=1), "classes must be an integer >= 2"),
        (
            lambda: next(
                semi.supervised(
                    pair_for(SETTINGS),
                    labelled()[0][:0],
                    labelled()[1][:0],
                    settings=SETTINGS,
                    rng=rng(1),
                )
            ),
            "at least one image",
        ),
        (
            lambda: semi.accuracy(pair_for(SETTINGS).first, labelled()[0], labelled(3)[1]),
            "labels must hold one for each",
        ),
    ],
)
def test_bad_values_are_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()

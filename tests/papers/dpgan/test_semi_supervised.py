"""Algorithm 4 of dpGAN against a plain listing; the JS score against its definition and scipy."""

import math
from dataclasses import replace
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from refusals import refused
from scipy.spatial.distance import jensenshannon
from torch.nn.functional import log_softmax

from dpkit.papers.dpgan import semi_supervised as semi
from dpkit.papers.dpgan.scores import js_score
from dpkit.papers.dpgan.tables import MOST
from dpkit.privacy.schedules import Constant
from dpkit.training import Sgd, generator_on

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
SHAPE = (1, 8, 8)
CODE = 3
SETTINGS = semi.SemiSupervisedLearning(
    iterations=6, batch_size=3, width=2, classes=4, optimizer=Sgd(Constant(0.5))
)


def rng(seed):
    return generator_on(CPU, reproducible_seed=seed)


def labelled(count=5):
    images = 2 * torch.rand(count, *SHAPE, generator=rng(1)) - 1
    return images, torch.arange(count) % 4


def made_from(codes):
    """A generator: the code's mean and signs, spread over the image."""
    return torch.tanh(codes.sum(1).view(-1, 1, 1, 1) + torch.linspace(-1, 1, 64).view(1, 1, 8, 8))


def pair_for(settings, *, code_size=CODE, seed=0):
    """Both classifiers, the second of another mind about most images."""
    pair = semi.new_pair(SHAPE, code_size=code_size, settings=settings, seed=seed, device=CPU)
    with torch.no_grad():
        last = list(pair.second.parameters())[-1]
        last[2] += 20.0
    return pair


def whole(settings, data=None, generate=made_from):
    pair, more = pair_for(settings), {"code_size": CODE, "codes_rng": rng(3), "rng": rng(2)}
    data = labelled() if data is None else data
    return pair, list(semi.semi_supervised(pair, *data, generate, settings=settings, **more))


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
            down(pair.second, cost(pair.second(x, z), pair.first(x).argmax(1).tolist()), 0.5)
        chosen = torch.randint(5, (3,), generator=draws)
        real = cost(pair.first(images[chosen]), labels[chosen])
        share, loss = 0.0, real
        if t >= 2:
            z = torch.randn(3, CODE, generator=codes_rng)
            x = made_from(z)
            y = pair.second(x, z).argmax(1).tolist()
            share = 0.2 * (t - 2) / 3  # 0 at the third, 0.2 at the end
            loss = (1 - share) * real + share * cost(pair.first(x), y)
        down(pair.first, loss, 0.5)
        seen.append((real.item(), share))
    return pair, seen


def test_it_is_the_listing():
    """The second joins after a third."""
    wanted, seen = listing(SETTINGS)
    found, losses = whole(SETTINGS)
    for name in ("first", "second"):
        torch.testing.assert_close(weights(getattr(found, name)), weights(getattr(wanted, name)))
    for one, (real, share) in zip(losses, seen, strict=True):
        assert (one.labelled, one.share) == pytest.approx((real, share), rel=1e-5)
    for name in ("generated", "second"):
        assert [getattr(one, name) is None for one in losses] == [True] * 2 + [False] * 4


def test_the_share_rises_slowly_from_a_third_on():
    long = semi.SemiSupervisedLearning(iterations=301)
    shares = [long.share_at(t) for t in range(301)]
    assert (long.joined_at, shares[:101]) == (100, [0.0] * 101)
    steps = [b - a for a, b in pairwise(shares[100:])]
    assert steps == pytest.approx([0.2 / 200] * 200)
    assert shares[-1] == pytest.approx(0.2)
    for count in (1, 2, 3):  # few iterations have shares too
        few = replace(SETTINGS, iterations=count)
        shares = [few.share_at(t) for t in range(count)]
        assert all(0 <= share <= 0.2 for share in shares)
        assert shares[-1] == 0.2


def test_without_a_share_it_is_the_baseline_to_the_bit():
    plain, alone = whole(SETTINGS, generate=None)
    both, losses = whole(replace(SETTINGS, share=0.0))
    assert torch.equal(weights(plain.first), weights(both.first))
    assert [one.labelled for one in alone] == [one.labelled for one in losses]
    assert not torch.equal(weights(plain.second), weights(both.second))
    assert not torch.equal(weights(plain.first), weights(whole(SETTINGS)[0].first))
    assert torch.equal(weights(plain.second), weights(pair_for(SETTINGS).second))
    assert {(one.share, one.generated, one.second) for one in alone} == {(0.0, None, None)}


def test_the_second_sees_the_code():
    net = semi.SemiSupervisedClassifier(SHAPE, classes=4, width=2, code_size=CODE)
    images = labelled(2)[0]
    codes = torch.randn(2, CODE, generator=rng(5))
    assert net(images, codes).shape == (2, 4)
    assert not torch.equal(net(images, codes), net(images, codes + 1))
    one, other = (pair_for(SETTINGS, code_size=size).first for size in (3, 7))
    assert torch.equal(weights(one), weights(other))


def test_accuracy_is_the_share_of_right_answers():
    pair, (images, labels) = pair_for(SETTINGS), labelled()
    said = pair.first(images).argmax(1).tolist()
    right = sum(answer == label for answer, label in zip(said, labels.tolist(), strict=True))
    assert semi.accuracy(pair.first, images, labels) == pytest.approx(right / 5)


test_bad_values_are_refused = refused(
    (lambda: semi.SemiSupervisedLearning(share=math.nan), r"share must lie in \[0, 1\]"),
    (lambda: semi.SemiSupervisedLearning(joins=1.5), r"joins must lie in \[0, 1\]"),
    (lambda: semi.SemiSupervisedLearning(iterations=0), "iterations must be an integer >= 1"),
    (lambda: semi.SemiSupervisedLearning(classes=1), "classes must be an integer >= 2"),
    (lambda: whole(SETTINGS, labelled(0)), "at least one image"),
    (
        lambda: semi.accuracy(pair_for(SETTINGS).first, labelled()[0], labelled(3)[1]),
        "labels must hold one for each",
    ),
)


# The unlabelled score.


GRID = np.concatenate([[0.0, 1e-300, 1e-9], np.linspace(0.01, 0.99, 41), [1 - 1e-9, 1.0]])


def by_definition(p: float) -> float:
    """H(mean) minus the mean of H, in bits, with 50 digits."""
    with mpmath.workdps(50):
        p, half = mpmath.mpf(p), mpmath.mpf(1) / 2

        def entropy(q):
            return -sum(x * mpmath.log(x, 2) for x in (q, 1 - q) if x > 0)

        return float(entropy((p + half) / 2) - (entropy(p) + entropy(half)) / 2)


def js_from_half(probabilities) -> np.ndarray:
    """The score of each image alone."""
    return np.array([js_score([p])[0] for p in probabilities])


def test_the_js_score_is_its_definition_and_scipys_distance_squared():
    """It does not ask which answer is called real, and grows away from one half."""
    found = js_from_half(GRID)
    np.testing.assert_allclose(found, [by_definition(p) for p in GRID], rtol=1e-9, atol=1e-15)
    peers = [jensenshannon([p, 1 - p], [0.5, 0.5], base=2) ** 2 for p in GRID[3:-2]]
    assert found[3:-2] == pytest.approx(peers, abs=1e-12)
    np.testing.assert_allclose(found, js_from_half(1 - GRID), atol=1e-15)
    assert (np.diff(js_from_half(np.linspace(0.5, 1, 50))) > 0).all()


def test_closed_forms():
    assert js_from_half([0.5])[0] == 0
    # sure: entropies of (3/4, 1/4) and of (1/2, 1/2)
    sure = 2 - 0.75 * math.log2(3) - 0.5
    assert js_from_half([0.0, 1.0]) == pytest.approx([sure, sure])
    assert pytest.approx(sure) == MOST == pytest.approx(0.3113, abs=5e-5)
    # near 1/2, p = 1/2 + x: x^2 / 2 nats
    assert js_from_half([0.5 + 1e-4])[0] == pytest.approx(0.5e-8 / math.log(2), rel=1e-6)
    # the mean with its error
    found = js_score(np.array([0.0, 0.5, 1.0, 0.5]))
    assert found == pytest.approx((MOST / 2, MOST / 2 / math.sqrt(4)))


test_bad_probabilities_are_refused = refused(
    *(
        (bad, "probabilities must")
        for bad in ([0.5, math.nan], [1.0001], [-1e-9], [], [[0.5]], 0.5)
    ),
    call=lambda bad: js_score(np.array(bad)),
)

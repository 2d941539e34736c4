"""Canary gradients, seen white box: each canary of one run is a trial, or each of many runs.

A canary is a record with a direction of its own, along which its clipped gradient has the whole
length C. It is trained on together with ordinary records, through `dpkit.Private` as it is. What is
released along a canary's direction is then noise, and C more in each batch that the canary was
drawn into. Steinke, Nasr, Jagielski 2023 take many canaries for one run; Nasr et al. 2023 call
those along one coordinate Dirac canaries.
"""

from copy import deepcopy
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpkit.audit.one_run import apart
from dpkit.audit.runs import log_ratios
from dpkit.audit.scores import Scores, check_rng
from dpkit.common import checks
from dpkit.datasets import Images, digits
from dpkit.privacy.mechanisms import Floats
from dpkit.private.model import Private
from dpkit.private.plan import Plan
from dpkit.private.release import itself, released
from dpkit.training import generator_on, per_example, seeded, update
from dpkit.training.batches import batches

STRENGTH = 1e6  # norm of a canary's gradient before it is clipped
RATE = 0.5  # learning rate of SGD; canaries' gradients do not depend on the weights


def seed(rng: np.random.Generator) -> int:
    """A seed for torch, of a run on public data: an attack's training is no release."""
    check_rng(rng)
    return int(rng.integers(2**62))


def first_digits(count: int) -> Images:
    """The first images of the digits' training split, at most 1,437."""
    images = digits()
    return images._replace(pixels=images.pixels[:count], labels=images.labels[:count])


class SeenReleases(NamedTuple):
    """One run's releases along its canaries.

    included: (canaries,) bool, who was trained on.
    sums: (steps, canaries), each step's noised sum along each canary's direction, in units of C:
        noise of deviation `plan.noise_multiplier`, and 1 more where the canary was in the batch.
    plan: noise, sampling and price of the run.
    """

    included: NDArray[np.bool_]
    sums: Floats
    plan: Plan


class OwnWeights(nn.Module):
    """A linear classifier, and beside it one weight for each canary."""

    def __init__(self, pixels: int, classes: int, canaries: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(pixels, classes)
        self.own = nn.Embedding(canaries + 1, 1)  # the last one stands for no canary
        nn.init.zeros_(self.own.weight)

    def forward(self, pixels: Tensor, labels: Tensor, slots: Tensor) -> Tensor:
        linear = STRENGTH * self.own(slots).squeeze(1)
        ordinary = cross_entropy(self.classifier(pixels), labels, reduction="none")
        return torch.where(slots < self.own.num_embeddings - 1, linear, ordinary)

    def along(self, total: Tensor) -> Tensor:
        """A tensor of the own weights' shape along each canary's direction, (canaries,)."""
        return total.detach()[:-1, 0].double()


def dirac(
    rng: np.random.Generator,
    included: ArrayLike,
    *,
    epsilon: float,
    delta: float = 1e-5,
    steps: int = 32,
    rate: float = 0.8,
    max_grad_norm: float = 1.0,
    images: Images | None = None,
) -> SeenReleases:
    """Train once on canaries whose loss is linear in a weight of their own each.

    A canary's gradient is 1e6 along its coordinate e_i, so that it is clipped to C e_i; no other
    record's gradient has a part there.

    Args:
        rng: draws initial weights, batches and noise.
        included: (canaries,) bool, of whom to train on; see `one_run.coins`.
        epsilon, delta: the budget of the run, in nats, under add-remove, for which `Private`
            calibrates its noise.
        steps: releases, each on its own Poisson batch.
        rate: probability with which a record is drawn into a batch, in (0, 1].
        max_grad_norm: C.
        images: the ordinary records, and those of canaries; by default 1,000 digits.

    Raises:
        ValueError: a number is out of range.
    """
    included, images = _included(rng, included), images or first_digits(1000)
    net, rows = _with_own_weights(rng, images, included)
    # who is included is not public: all are declared
    size = images.n + included.size
    private = Private(
        net,
        torch.optim.SGD(net.parameters(), lr=RATE),
        *rows,
        epsilon=epsilon,
        delta=delta,
        max_grad_norm=max_grad_norm,
        batch_size=round(checks.positive(rate=rate) * size),
        public_size=size,
        reproducible_seed=seed(rng),
        steps=steps,
    )
    plan = private.plan

    def one(batch: Any) -> Tensor:
        """One step's noised sum along the canaries, read off the weights around it."""
        before = net.own.weight.detach().clone()
        private.step(lambda *parts: net(*parts), *batch)
        moved = before.double() - net.own.weight.detach()
        return net.along(moved * (plan.batch_size / RATE))

    sums = torch.stack([one(batch) for batch in private])
    return SeenReleases(included, sums.numpy() / plan.max_grad_norm, plan)


def final_scores(seen: SeenReleases) -> Scores:
    """The sum of releases along each canary; for Dirac canaries the released model suffices.

    With noise multiplier z, sampling rate q and T steps it has mean 0 and variance T z^2 without
    the canary, mean T q and variance T (z^2 + q (1 - q)) with it.
    """
    return apart(seen.sums.sum(axis=0), seen.included)


def release_scores(seen: SeenReleases) -> Scores:
    """Each canary's log likelihood ratio of its releases, mixed by Poisson sampling."""
    return apart(_log_ratios(seen.sums, seen.plan), seen.included)


def one_canary(
    rng: np.random.Generator, trials: int, *, plan: Plan, images: Images | None = None
) -> Scores:
    """Many short runs with one Dirac canary or without: independent trials, a run each.

    They are made by the release of `Private`, by one plan.

    Args:
        rng: draws initial weights, and all runs.
        trials: runs in each world.
        plan: steps, sampling, clipping and noise, of one record more than there are images.
        images: ordinary records; by default 100 digits.

    Returns:
        the log likelihood ratio of each run's releases.

    Raises:
        ValueError: trials is not an integer >= 1.
    """
    trials, images = checks.whole(1, trials=trials), images or first_digits(100)
    worlds = [_with_own_weights(rng, images, np.array([present])) for present in (False, True)]
    net = worlds[0][0]
    noise = generator_on(torch.device("cpu"), reproducible_seed=seed(rng))
    start, public_size = deepcopy(net.state_dict()), plan.public_size

    def one(rows: tuple[Tensor, ...]) -> Floats:
        """One run's noised sums along the canary: Poisson batches, a release each, plain SGD."""
        net.load_state_dict(start)
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
        draws = batches(plan.sampling, size=len(rows[0]), public_size=public_size, rng=noise)
        seen = []
        for chosen in islice(draws, plan.steps):
            batch = (part[chosen] for part in rows)
            found = released(partial(per_example, net, itself), *batch, plan=plan, rng=noise)
            update(optimizer, found.parameters, found.means)
            own = next(i for i, p in enumerate(found.parameters) if p is net.own.weight)
            seen.append(net.along(found.means[own]))
        return torch.cat(seen).numpy() * plan.batch_size

    def world(rows: tuple[Tensor, ...]) -> Floats:
        sums = np.stack([one(rows) for _ in range(trials)], axis=1) / plan.max_grad_norm
        return _log_ratios(sums, plan)

    return Scores(*(world(rows) for _, rows in worlds))


def _with_own_weights(
    rng: np.random.Generator, images: Images, included: NDArray[np.bool_]
) -> tuple[OwnWeights, tuple[Tensor, ...]]:
    """The network, and its rows: ordinary images, then one for each canary included."""
    count, chosen = included.size, np.flatnonzero(included)
    pixels, labels = torch.from_numpy(images.flat()), torch.from_numpy(images.labels)
    own = torch.from_numpy(chosen % images.n)
    slots = torch.cat([torch.full((images.n,), count), torch.from_numpy(chosen)])
    with seeded(seed(rng)):
        net = OwnWeights(pixels.shape[1], int(labels.max()) + 1, count)
    return net, (torch.cat([pixels, pixels[own]]), torch.cat([labels, labels[own]]), slots)


def _log_ratios(sums: Floats, plan: Plan) -> Floats:
    """Log ratios of sums (steps, canaries), in units of C: over all steps, (canaries,)."""
    noise, rate = plan.noise_multiplier, plan.batch_size / plan.public_size
    return log_ratios(sums / noise, 1 / noise, rate).sum(axis=0)


def _included(rng: np.random.Generator, included: ArrayLike) -> NDArray[np.bool_]:
    check_rng(rng)
    given = np.asarray(included)
    if given.dtype != np.bool_ or given.ndim != 1 or not given.size:
        raise ValueError(
            f"included must hold a bool for each of at least one canary, got {given.dtype} of "
            f"shape {given.shape}; call one_run.coins(rng, canaries)"
        )
    return given

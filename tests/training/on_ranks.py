"""A small private GAN, trained by as many processes as test_distributed.py starts; see `main`."""

import os
import signal
import sys
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from torch import nn

from dpkit import training
from dpkit.privacy import Release, SampledGaussian
from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping
from dpkit.privacy.sampling import PoissonSampling
from dpkit.private import Budget, Private
from dpkit.training.distributed import here, joined

STEPS, BATCH, RULE = 30, 3, FlatClipping(0.5)
DRAWN = PoissonSampling(BATCH)
WAYS = ("plain", "penalty", "torch.func", "dropout", "coordinates")


@dataclass(frozen=True)
class Settings:
    way: str = "plain"
    sampling: PoissonSampling = DRAWN

    def steps_allowed(self, *, public_size):
        return STEPS

    def ledger(self, *, public_size, steps):
        return [Release(SampledGaussian(1.0, BATCH / public_size), steps)]


def network(*sizes, dropout=()):
    rng = torch.Generator().manual_seed(len(sizes))
    net = nn.Sequential(
        nn.Linear(*sizes[:2]), nn.LeakyReLU(), *map(nn.Dropout, dropout), nn.Linear(*sizes[1:])
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng) / 2)
    return net


def new_gan(way):
    # a layer that a penalty does not know sends it through torch.func
    critic = network(4, 16, 1, dropout={"dropout": (0.5,), "torch.func": (0.0,)}.get(way, ()))
    generator = network(2, 8, 4)
    optimizers = (torch.optim.Adam(net.parameters(), 0.02) for net in (generator, critic))
    return training.Gan(generator, deepcopy(generator), critic, *optimizers)


def data(more=0.0):
    features = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    features[7] += more
    return training.Data(features, torch.zeros(60, dtype=torch.int64), public_size=60)


def step(gan, features, labels, *, settings, index, rng):
    """One release, and an update of the generator."""
    critic = gan.discriminator
    fakes = gan.generator_net(torch.randn(len(features), 2, generator=rng)).detach()
    mixing = torch.rand(len(features), generator=rng)
    of, rows = partial(training.per_example, critic, lambda out: out.squeeze(1).tanh()), (features,)
    if settings.way in ("penalty", "torch.func"):
        of, rows = partial(penalised, critic), (features, fakes, mixing)
    if "coordinates" in settings.way:
        drift = 1e-6 * here().rank if settings.way == "drifting coordinates" else 0.0
        box = [torch.full_like(p, 0.05 + drift).detach() for p in critic.parameters()]
        rule = PerCoordinateClipping(tuple(box))
        found = training.clipped_sum(of, *rows, rule=rule, microbatch_size=2)
        noisy = training.noised_each(found.sums, noise_stds=rule.noise_stds(1.0), rng=rng)
    else:
        found = training.clipped_sum(of, *rows, rule=RULE, microbatch_size=2)
        noisy = training.noised(found.sums, noise_std=RULE.max_grad_norm, rng=rng)
    training.update(gan.discriminator_optimizer, found.parameters, [one / BATCH for one in noisy])
    gan.generator_optimizer.zero_grad()
    score = critic(gan.generator_net(torch.randn(6, 2, generator=rng))).mean()
    (-score).backward()
    gan.generator_optimizer.step()
    clipped = (found.weights < 1).double().mean().item() if len(features) else 0.0
    return training.Record(index, len(features), found.losses.sum().item(), None, clipped)


def penalised(critic, real, fake, mixing):
    return training.gradient_penalty.per_example(critic, real, fake, mixing=mixing)


def trained(way, *, seed=0, place=None, own=None, watch=lambda index, gan: None):
    """(all weights, records as rows of numbers) of a run."""
    gan, rng, records = new_gan(way), torch.Generator().manual_seed(123 + seed), []
    told = {"settings": Settings(way), "rng": rng, "checkpoint": place}
    for record in training.train(step, gan, own or data(), **told):
        records.append((record.batch_size, record.discriminator_loss, record.clipped))
        watch(record.step, gan)
    nets = (gan.discriminator, gan.generator_net)
    weights = torch.cat([p.detach().flatten() for net in nets for p in net.parameters()])
    return weights, torch.tensor(records, dtype=torch.float64)


def own_loop(folder):
    """Weights of a network that `Private` trained, with dropout, charged to a budget."""
    net = nn.Sequential(nn.Dropout(0.5), network(4, 8, 1))
    optimizer, asked = torch.optim.Adam(net.parameters()), {"epsilon": 8, "delta": 1e-5}
    asked["budget"] = Budget(folder / "budget.json", epsilon=100, delta=1e-5)
    private = Private(net, optimizer, data().features, **asked, steps=10, batch_size=BATCH)
    for (rows,) in private:
        private.step(lambda x: net(x).squeeze(1).square(), rows)
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def killed_at(last, index, gan):
    if index == last and here().rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def drifting_at(last, index, gan):
    if index == last and here().rank == 1:
        with torch.no_grad():
            next(gan.discriminator.parameters())[0, 0] += 1e-6


class Stopped(Exception):
    """What ends a run on every rank, so that the processes can go on."""


def stopped_at(last, index, gan):
    if index == last:
        raise Stopped


def after(last, index, gan):
    """Fail at once: ranks at different steps would wait for each other."""
    if index <= last:
        raise RuntimeError(f"step {index} is made again, after {last}")


def refusal(way="plain", **changes):
    """Why a run ended."""
    try:
        trained(way, **changes)
    except RuntimeError as error:
        return str(error)


def main(what, folder):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with joined("cpu"):
        rank = here().rank

        def kept(name, watch=lambda index, gan: None):
            place = training.Checkpoints(folder / f"{name}.pt", every=5, reserve=8)
            found = trained("plain", seed=rank, place=place, watch=watch)
            torch.save(found, folder / f"{name}-{rank}")

        if what == "resumed":
            kept("run")
        else:
            kept("uninterrupted")
            with suppress(Stopped):
                kept("stopped", partial(stopped_at, 17))
            kept("stopped", partial(after, 17))
            for way in WAYS:
                torch.save(trained(way, seed=rank), folder / f"{way}-{rank}")
            torch.save(own_loop(folder), folder / f"own-loop-{rank}")
            named = "dpkit.training.distributed.device_label"
            with mock.patch(named, return_value=f"model {rank}"):
                reasons = [refusal()]
            reasons += [refusal(own=data(1e-6 * rank)), refusal("drifting coordinates")]
            reasons.append(refusal(watch=partial(drifting_at, 20)))
            torch.save(reasons, folder / f"refused-{rank}")
            kept("run", partial(killed_at, 12))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    # All is written. Gloo's threads now and then abort a process while it takes itself apart.
    sys.stdout.flush()
    os._exit(0)

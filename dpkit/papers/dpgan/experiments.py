"""The runs for the tables: a GAN trained and judged, or a pair of classifiers, is one part.

At scales "paper" and "reduced" they are of MNIST, at "small" of the embedded digits. CelebA and
LSUN are not among the kit's data sets: tables of them alone are not planned. A run has a claimed, a
charged and a proven price.
"""

from collections.abc import Iterable, Mapping
from functools import partial

import torch
from torch import nn

from dpkit.common.files import alone
from dpkit.common.progress import Progress
from dpkit.common.records import describe, json_number
from dpkit.papers.dpgan import algorithm, scores, semi_supervised, variants
from dpkit.papers.dpgan.scores import material
from dpkit.papers.dpgan.semi_supervised import SemiSupervisedLearning
from dpkit.papers.dpgan.settings import NON_PRIVATE, DpganSettings
from dpkit.papers.dpgan.tables import LABELS
from dpkit.papers.dpgan.variants import ARMS, CONFIGURATIONS
from dpkit.papers.experiments.run import CPU, Run, as_bytes
from dpkit.papers.experiments.store import Part, Result, Values, part_name
from dpkit.papers.experiments.store import priced as certified
from dpkit.privacy import moments, pld
from dpkit.privacy.clipping import GroupClipping, Unclipped
from dpkit.privacy.sampling import ShuffledBatches
from dpkit.training.types import Data

PUBLIC = "the images that bounds and the warm start read are public"


def priced(settings: DpganSettings, *, steps: int) -> Values:
    """The claimed, the charged and the proven epsilon of this many steps.

    Proven is certified by a numerical accountant, or "inf", under the assumptions.
    `epsilon_if_poisson` is certified too, add-remove, but of batches unlike a shuffled run's.
    """
    size, delta = settings.private_examples, settings.target_delta
    proven = pld.epsilon(settings.ledger(public_size=size, steps=steps), delta=delta)
    poisson = pld.epsilon(settings.poisson_ledger(public_size=size, steps=steps), delta=delta)
    charged = None
    if settings.moments is not None:
        claimed = settings.claimed_ledger(public_size=size, steps=steps)
        charged = moments.epsilon(claimed, delta=delta, moments=settings.moments).epsilon
    reads = settings.warm_start > 0 or not isinstance(
        settings.clipping, GroupClipping | Unclipped
    )
    # The price of passes is no lower one
    shuffled = isinstance(settings.sampling, ShuffledBatches)
    return certified(
        proven,
        claimed=settings.target_epsilon if settings.noise_multiplier > 0 else None,
        assumptions=(PUBLIC,) if reads else (),
    ) | {
        "epsilon_charged": json_number(charged),
        "epsilon_lower": None if shuffled else json_number(proven.lower),
        "epsilon_if_poisson": json_number(poisson.epsilon),
        "if_poisson_adjacency": poisson.adjacency,
        "if_poisson_assumptions": list(poisson.assumptions),
    }


EVERY = 100  # steps between two checkpoints
# Generated; the text: 600 times 100
JUDGED = {"paper": 60_000, "reduced": 10_000, "small": 100}
SHOWN = 50
LEARNING = {
    "paper": SemiSupervisedLearning(),
    "reduced": SemiSupervisedLearning(iterations=600, width=16),
    "small": SemiSupervisedLearning(iterations=9, width=2),
}
RECORDS = {"paper": "mnist", "reduced": "mnist", "small": "digits"}


def plan_table_2(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Table 2: scores of GANs on MNIST (reduced: narrower, 500 iterations, tens of minutes a run).

    One more is of the public images alone, which section 4.3 says may not be sufficient. Scales are
    those of `variants.published`; the run's device computes the scores.
    """
    named = _gans(scale) | {"public": variants.public_alone(scale=scale)}
    runs = _runs(named, scale, range(seeds), device, progress)
    return [real_part(RECORDS[scale], scale=scale, device=device), *map(gan_part, runs)]


def plan_table_6(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Table 6, MNIST: classifiers of few labels, alone and with Table 2's GANs (reduced: as there).

    Generators are those that Table 2 left in the cache; one that is not there is trained first.
    """
    # Of the paper's numbers of labels: the digits have 100 public images
    share = 0.1 if scale == "small" else 1.0
    return [
        classified(
            Run(
                "dpgan",
                f"{gan.key if gan else 'supervised'}-n{labels}",
                LEARNING[scale],
                seed,
                round(share * labels),
                records=RECORDS[scale],
                device_name=device,
            ),
            gan,
        )
        for seed in range(seeds)
        for labels in LABELS
        for gan in (None, *_runs(_gans(scale), scale, [seed], device, progress))
    ]


def plan_table_9(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Tables 8 to 10: the optimisations one by one, all of them but in Table 2 (reduced: as there).

    And `variants.others`. Arguments as `plan_table_2`.
    """
    named = variants.others(scale=scale) | {
        f"{name}-{arm}": made(name, scale=scale)
        for name in CONFIGURATIONS
        if name != "all"
        for arm, made in ARMS.items()
    }
    return [gan_part(run) for run in _runs(named, scale, range(seeds), device, progress)]


PLANS = {"table_2": plan_table_2, "table_6": plan_table_6, "table_9": plan_table_9}


def _runs(
    named: Mapping[str, DpganSettings],
    scale: str,
    seeds: Iterable[int],
    device: str,
    progress: Progress,
) -> list[Run]:
    """GANs by seed and name, of the scale's own records."""
    how = (scale, RECORDS[scale], device, progress, EVERY)
    return [
        Run("dpgan", key, one, seed, one.private_examples, *how)
        for seed in seeds
        for key, one in named.items()
    ]


def _gans(scale: str) -> dict[str, DpganSettings]:
    """The GAN without privacy, and all optimisations in each arm."""
    settings = {"gan": variants.sized(NON_PRIVATE, scale=scale)}
    return settings | {f"all-{arm}": made("all", scale=scale) for arm, made in ARMS.items()}


def gan_part(run: Run) -> Part:
    """The part that trains a GAN and judges its images."""

    def prices(values: Values) -> Values:
        return priced(run.settings, steps=values["steps"])

    return run.part(partial(compute, run), prices=prices, records=run.records)


def compute(run: Run) -> Result:
    """Train and score it; return its claimed and proven epsilon."""
    with alone(run.weights):
        net = trained(run)
    settings = run.settings
    rng = run.rng("judged", device=CPU)
    codes = torch.randn(JUDGED[run.scale], settings.latent_size, generator=rng)
    images = algorithm.generate(net.to(run.device), codes.to(run.device))
    values = {
        "steps": run.steps,
        "iterations": run.steps // settings.critic_steps,
        "warm_start": settings.warm_start,
        **scores.judged(images, records=run.records, seed=run.seed),
        **priced(settings, steps=run.steps),
    }
    return run.result(values, material(run.records).checksums, as_bytes(images[:SHOWN, 0]))


def trained(run: Run) -> nn.Module:
    """Train, from where an interrupted run stopped; keep the generator in the cache.

    The generator is on the CPU.
    """
    settings, device = run.settings, run.device
    real = material(run.records)
    public, private = real.public.to(device), real.private.to(device)
    if len(private) != settings.private_examples or len(public) != settings.public_examples:
        raise ValueError(
            f"private_examples and public_examples must be {len(private)} and {len(public)} of "
            f"{run.records}, got {settings.private_examples} and {settings.public_examples}"
        )
    gan = algorithm.new_gan(settings, seed=run.seed, device=device)
    if settings.warm_start:
        warm = algorithm.warm_start(
            gan,
            public,
            settings=settings,
            rng=run.rng("warm start"),
            checkpoint=run.place("warm"),
            tf32=run.tf32,
        )
        run.finish(warm, total=settings.warm_start * settings.critic_steps, what=", warm")
    unused = torch.zeros(len(private), dtype=torch.int64, device=device)
    records = run.train(
        algorithm.step_of(settings, public), gan, Data(private, unused, run.size)
    )
    run.finish(records, total=run.steps)
    net = gan.generator_net.cpu()
    run.keep(net)
    run.forget()
    return net.eval()


def released(run: Run) -> nn.Module:
    """The generator from the cache, on the CPU; trained if it is not there."""
    with alone(run.weights):
        if not run.weights.exists():
            return trained(run)
    return run.load(algorithm.new_gan(run.settings, seed=run.seed, device=CPU).generator_net)


def real_part(records: str, *, scale: str, device: str) -> Part:
    """The tables' row "real": the test images, judged like generated ones."""

    def compute() -> Result:
        real, run = material(records), Run("dpgan", "real", None, 0, 0, device_name=device)
        values = scores.judged(real.test.to(run.device), records=records, seed=0)
        return run.result(values, real.checksums, as_bytes(real.test[:SHOWN, 0]))

    return Part("real", {"records": records, "scale": scale}, None, compute)


def classified(run: Run, gan: Run | None) -> Part:
    """Tables 5 and 6: a classifier of a few public labels, alone or with one GAN's images.

    Args:
        run: its settings are a SemiSupervisedLearning, its size the number of labels.
        gan: whose images are post-processing; None: the supervised baseline.
    """

    def prices(values: Values) -> Values:
        assert gan is not None
        steps = values.get("gan_steps", gan.steps)
        return {"gan_steps": steps, **priced(gan.settings, steps=steps)}

    def compute() -> Result:
        """Train on the first public images in a random order; test on real ones."""
        real, device = material(run.records), run.device
        if not 1 <= run.size <= len(real.public):
            raise ValueError(
                f"labels must lie in [1, {len(real.public)}], the public images of {run.records}, "
                f"got {run.size}"
            )
        order = torch.randperm(len(real.public), generator=run.rng("labelled", device=CPU))
        chosen = order[: run.size]
        size, generate = 0, None
        values: Values = {"labels": run.size}
        if gan is not None:
            size = gan.settings.latent_size
            generate = partial(algorithm.generate, released(gan).to(device))
            values |= prices(values)
        pair = semi_supervised.new_pair(
            real.train.shape[1:],
            code_size=size,
            settings=run.settings,
            seed=run.seed,
            device=device,
        )
        steps = semi_supervised.semi_supervised(
            pair,
            real.public[chosen].to(device),
            real.public_labels[chosen].to(device),
            generate,
            code_size=size,
            settings=run.settings,
            rng=run.rng("labelled batches"),
            codes_rng=run.rng("codes"),
        )
        for _ in steps:
            pass
        test, answers = real.test.to(device), real.test_labels.to(device)
        values["accuracy"] = semi_supervised.accuracy(pair.first, test, answers)
        return run.result(values, real.checksums)

    more: Values = {"labels": run.size, "records": run.records}
    if gan is None:
        return run.part(compute, **more)
    part = run.part(compute, prices=prices, gan=describe(gan.settings), **more)
    first = part_name(f"{run.key.rpartition('-n')[0]}-n{LABELS[0]}", run.seed)
    return part._replace(after=None if part.name == first else first)

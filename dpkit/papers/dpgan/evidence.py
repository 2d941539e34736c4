"""A measurement of the published snapshot, whose loop leaves the generator as it is, on digits."""

from dataclasses import replace
from functools import partial

from dpkit.common.records import describe
from dpkit.papers.claims import Claim, Code, Evidence, Measured
from dpkit.papers.dpgan.variants import published

SEED = 0
SNAPSHOT = replace(published("all", scale="small"), warm_start=0, generator_trained=False)


def generator_moves(*, iterations: int) -> Measured:
    """Train twice from the same seeds: as in the snapshot, and with the generator's step.

    Returns:
        `snapshot`, `trained`: the largest change of a weight of the generator.
    """
    from dpkit.papers.dpgan.algorithm import new_gan, step_of
    from dpkit.papers.dpgan.material import material
    from dpkit.training.device import generator_on
    from dpkit.training.loop import train
    from dpkit.training.types import Data

    real = material("digits")
    values = {}
    for name, moves in (("snapshot", False), ("trained", True)):
        steps = iterations * SNAPSHOT.critic_steps
        settings = replace(SNAPSHOT, max_steps=steps, generator_trained=moves)
        gan = new_gan(settings, seed=SEED, device=real.private.device)
        start = [weight.detach().clone() for weight in gan.generator_net.parameters()]
        labels = real.train_labels[: len(real.private)]
        data = Data(real.private, labels, len(real.private))
        rng = generator_on(real.private.device, reproducible_seed=SEED)
        for _ in train(step_of(settings, real.public), gan, data, settings=settings, rng=rng):
            pass
        ends = zip(start, gan.generator_net.parameters(), strict=True)
        values[name] = max((end - begin).abs().max().item() for begin, end in ends)
    return Measured(values, real.checksums)


EVIDENCE = Evidence(
    "dpgan/generator-step",
    {"settings": describe(SNAPSHOT), "seed": SEED, "images": "digits", "iterations": 2},
    partial(generator_moves, iterations=2),
    scale="reduced",
)
GENERATOR_STEP = Claim(
    id="dpgan/generator-step",
    where="text: Algorithm 1; code: dp/train.py:85-89, alps-lab/dpgan at 65cb105 (June 2021)",
    says="Each iteration of the training loop ends with a step of the generator.",
    kind="in words",
    compute=lambda values: values["snapshot"],
    believed=lambda value: value > 0,
    explanation="This is the largest change of a weight of the generator in two iterations of the "
    "loop as it stands in the snapshot, where the lines of this step are comments; with the step "
    "it is {trained:.1g}. The published scores need a version that has it.",
    evidence=EVIDENCE,
    code=Code(
        was="# update(generator)",
        should="update(generator)  # not only the critic",
        cause="evaluation",
    ),
)

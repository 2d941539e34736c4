"""Which runs each table rests on, at the paper's scale and at a reduced one; both on MNIST.

CelebA and LSUN are not among the kit's data sets: tables that are of them alone are not planned.
"""

from dataclasses import replace

from dpkit.experiments.part import Part, Progress
from dpkit.papers.dpgan import variants
from dpkit.papers.dpgan.runs import Classified, Run, real_part
from dpkit.papers.dpgan.semi_supervised import Learning
from dpkit.papers.dpgan.tables import LABELS
from dpkit.papers.dpgan.variants import ARMS, CONFIGURATIONS

LEARNING = {"paper": Learning(), "reduced": Learning(iterations=600, width=16)}


def plan_table_2(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Table 2: real images, the GAN, and dpGAN with all optimisations in each arm.

    Args:
        scale: "paper", or "reduced": 500 iterations of networks a quarter as wide.
        seeds: runs of each.
        device: auto, cpu or cuda; scores are computed on the CPU.
        progress: wraps a run's records, as tqdm does.
    """
    parts = [real_part("mnist", scale=scale)]
    for seed in range(seeds):
        runs = _gans(scale=scale, seed=seed, device=device, progress=progress)
        parts += [run.part for run in runs]
    return parts


def plan_table_6(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Table 6, MNIST: the supervised baseline, and Algorithm 4 with each of Table 2's GANs.

    Generators are those that Table 2 left in the cache; one that is not there is trained first.
    Arguments as `plan_table_2`.
    """
    learning, parts = LEARNING[scale], []
    for seed in range(seeds):
        runs = _gans(scale=scale, seed=seed, device=device, progress=progress)
        for labels in LABELS:
            parts.append(Classified("supervised", labels, learning, seed, device).part)
            parts += [
                Classified(run.key, labels, learning, seed, device, gan=run).part for run in runs
            ]
    return parts


def plan_table_9(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Tables 8 to 10: the optimisations one by one in each arm; "all" is Table 2's.

    Arguments as `plan_table_2`.
    """
    return [
        Run(f"{name}-{arm}", made(name, scale=scale), seed, scale, device, progress).part
        for seed in range(seeds)
        for name in CONFIGURATIONS
        if name != "all"
        for arm, made in ARMS.items()
    ]


def plan_generator(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """The published snapshot as it is: the generator's step left out, so that it learns nothing.

    Arguments as `plan_table_2`.
    """
    settings = replace(variants.published("all", scale=scale), generator_trained=False)
    return [Run("snapshot", settings, seed, scale, device, progress).part for seed in range(seeds)]


PLANS = {
    "table_2": plan_table_2,
    "table_6": plan_table_6,
    "table_9": plan_table_9,
    "snapshot": plan_generator,
}


def _gans(*, scale: str, seed: int, device: str, progress: Progress) -> list[Run]:
    """The GAN without privacy, and all optimisations in each arm."""
    settings = {"gan": variants.without_privacy(scale=scale)}
    settings |= {f"all-{arm}": made("all", scale=scale) for arm, made in ARMS.items()}
    return [Run(key, one, seed, scale, device, progress) for key, one in settings.items()]

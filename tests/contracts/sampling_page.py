"""The part of docs/accountants.md on how batches are drawn: the papers' runs, drawn five ways."""

from typing import NamedTuple

from dpkit.common.show import interval
from dpkit.papers.adadp import recomputed as adadp
from dpkit.papers.adadp.settings import ADADP, PUBLIC_SIZE
from dpkit.papers.dp_cgan.claims import CODE_NOISE, charged_steps
from dpkit.papers.dp_cgan.settings import SETTINGS as DP_CGAN
from dpkit.papers.dpgan.settings import MNIST as DPGAN
from dpkit.papers.dpgan.settings import STEPS
from dpkit.papers.rdp_gan import recomputed as rdp_gan
from dpkit.papers.rdp_gan.settings import SETTINGS as RDP_GAN
from dpkit.papers.small_images.settings import EPOCHS
from dpkit.papers.small_images.settings import SETTINGS as SMALL_IMAGES
from dpkit.privacy import as_drawn

HEADINGS = ("the run, its noise as charged", "its code, or text, draws", *as_drawn.WAYS)
DELTA = 1e-5


class Paper(NamedTuple):
    """A published run at the noise that is charged for a step, whatever is really added."""

    name: str
    drawn: str
    run: as_drawn.Run


def papers() -> tuple[Paper, ...]:
    """The five papers' runs; AdaDP's example stands beside its run."""
    batch = SMALL_IMAGES.expected_batch_size
    loss_noise = rdp_gan.SIGMA / rdp_gan.MNIST.sensitivity
    iterations = RDP_GAN.discriminator_steps * RDP_GAN.iterations
    return (
        Paper(
            "dpGAN, MNIST, one group of weights",
            "shuffled",
            as_drawn.Run(
                DPGAN.noise_multiplier, DPGAN.expected_batch_size, DPGAN.private_examples, STEPS
            ),
        ),
        Paper(
            "DP-CGAN, MNIST",
            "shuffled",
            as_drawn.Run(CODE_NOISE, DP_CGAN.expected_batch_size, 55_000, charged_steps()),
        ),
        Paper(
            "AdaDP, MNIST at epsilon 0.5",
            "poisson",
            as_drawn.Run(ADADP.noise_multiplier, ADADP.lot, PUBLIC_SIZE, ADADP.max_steps),
        ),
        Paper(
            "AdaDP, Theorem 1's example",
            "poisson; the theorem is on fixed",
            as_drawn.Run(
                adadp.EXAMPLE_NOISE,
                ADADP.lot,
                round(ADADP.lot / adadp.EXAMPLE_RATE),
                adadp.EXAMPLE_STEPS,
            ),
        ),
        Paper(
            "Small Images, MNIST, noise 0.5",
            "shuffled",
            as_drawn.Run(0.5, batch, PUBLIC_SIZE, EPOCHS * (PUBLIC_SIZE // batch)),
        ),
        Paper(
            "RDP-GAN, MNIST, its loss values",
            "shuffled",
            as_drawn.Run(loss_noise, rdp_gan.MNIST.batch, rdp_gan.MNIST.size, iterations),
        ),
    )


def drawn() -> str:
    """A row for each run: the certified pairs of the five ways."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    for name, way, run in papers():
        title = (
            f"{name}: noise {run.noise_multiplier:.4g}, {run.batch_size} of "
            f"{run.public_size:,}, {run.steps:,} steps"
        )
        found = as_drawn.every_way(run, delta=DELTA).values()
        cells = (interval(one.lower, one.epsilon) for one in found)
        lines.append(f"| {' | '.join((title, way, *cells))} |")
    return "\n".join(lines)

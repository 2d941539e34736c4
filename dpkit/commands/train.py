"""train: a private generator of images, with its statement."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkit.commands.output import AsJson, print_json
from dpkit.privacy.ledger import rows

if TYPE_CHECKING:
    from dpkit.datasets import Images
    from dpkit.private.gan import PrivateGan

SUFFIX = ".safetensors"  # by which `epsilon --ledger` knows the file


def train(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of images, or digits, mnist, fashion_mnist, cifar10 or 100."
        ),
    ],
    epsilon: Annotated[
        float, typer.Option(help="The budget, > 0, under add-remove adjacency.")
    ],
    delta: Annotated[float, typer.Option(help="In (0, 1); below 1 / number of records.")],
    out: Annotated[
        str, typer.Option(metavar="FILE", help=f"The generator, to be: *{SUFFIX}.")
    ],
    steps: Annotated[int, typer.Option(help="Steps of the critic, each a release.")] = 1000,
    batch_size: Annotated[int, typer.Option(help="Records a batch on average.")] = 128,
    labels: Annotated[
        bool,
        typer.Option(
            help="Generate by class; a folder's sub-folders are its classes, whose number is "
            "taken as public."
        ),
    ] = True,
    size: Annotated[int, typer.Option(help="Of a folder's images: pixels a side.")] = 32,
    grey: Annotated[
        bool, typer.Option("--grey", help="Of a folder: without colours.")
    ] = False,
    public_size: Annotated[
        int | None,
        typer.Option(
            help="Declared number of records; if not given the counted one is public."
        ),
    ] = None,
    unit: Annotated[
        str, typer.Option(help="For the statement: what one record is.")
    ] = "one training example",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Resume from here after a crash. This file is PRIVATE."
        ),
    ] = None,
    reproducible_seed: Annotated[
        int | None,
        typer.Option(help="For tests only: a reader who knows the seed can remove the noise."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a GAN privately and store its generator, which may be released.

      python -m dpkit train photos/ --epsilon 8 --delta 1e-5 --out generator.safetensors

      python -m dpkit train digits --epsilon 8 --delta 1e-5 --steps 500 --out digits.safetensors

    It prints the statement for a paper and stores it in the file, which `epsilon --ledger` prices.
    The networks are those of dpkit.private.image_networks. To draw images:

      python -m dpkit sample generator.safetensors --labels 0,1,2 --out samples
    """
    if Path(out).suffix != SUFFIX or not Path(out).parent.is_dir():
        raise ValueError(f"--out must be a file *{SUFFIX} in a folder that exists, got {out}")
    if checkpoint is not None and Path(checkpoint).resolve() == Path(out).resolve():
        raise ValueError(
            f"--out and --checkpoint are both {out}, but a checkpoint is private; give "
            "--checkpoint another file, such as run.pt"
        )
    from dpkit.datasets.images import class_folders

    try:
        images = _images(data, size=size, channels=1 if grey else 3)
        gan = _gan(
            images,
            class_folders(data) if Path(data).is_dir() else (),
            labels=labels,
            epsilon=epsilon,
            delta=delta,
            batch_size=batch_size,
            public_size=public_size,
            device=device,
            reproducible_seed=reproducible_seed,
        )
        parts = (images.pixels,) if gan.classes is None else (images.pixels, images.labels)
        shown = not as_json and sys.stderr.isatty()
        gan.fit(*parts, steps=steps, checkpoint=checkpoint, progress=shown)
        gan.save(out, unit=unit)
    except (RuntimeError, TypeError) as error:  # a checkpoint in use, one of several processes
        raise ValueError(str(error)) from error
    _say(gan, out, unit, as_json=as_json)


def _images(data: str, *, size: int, channels: int) -> "Images":
    from dpkit import datasets

    if Path(data).is_dir():
        return datasets.image_folder(data, size=size, channels=channels)
    if data not in dict(datasets.IMAGE_SETS):
        raise ValueError(
            "DATA must be a folder of images, or one of "
            f"{', '.join(dict(datasets.IMAGE_SETS))}; got {data}"
        )
    return datasets.load(data)


def _gan(
    images: "Images", folders: Sequence[str], *, labels: bool, **settings: Any
) -> "PrivateGan":
    """A GAN with default networks for such images, of as many classes as folders at least."""
    import torch

    from dpkit.private.gan import PrivateGan
    from dpkit.private.image_networks import image_networks
    from dpkit.training import generator_on
    from dpkit.training.device import seeded

    classes = max(len(folders), int(images.labels.max()) + 1) if labels else 1
    shown = classes if classes > 1 else None
    rng = generator_on(
        torch.device("cpu"), reproducible_seed=settings["reproducible_seed"], stream="weights"
    )
    with seeded(int(torch.randint(2**63 - 1, (), generator=rng))):
        networks = image_networks(images.pixels.shape[1:], classes=shown, latent_size=64)
    return PrivateGan(*networks, classes=shown, **settings)


def _say(gan: "PrivateGan", out: str, unit: str, *, as_json: bool) -> None:
    price, words = gan.guarantee(), gan.statement(unit=unit)
    if as_json:
        releases = rows(gan.plan_.ledger())
        print_json({"out": out, **price._asdict(), "releases": releases, "statement": words})
    else:
        print(f"{words}\nThe generator, which may be released: {out}")
        print(f"Images from it: python -m dpkit sample {shlex.quote(out)} --out samples")

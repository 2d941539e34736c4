"""sample: images from a generator that `train` wrote."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkit.commands.output import AsJson, print_json
from dpkit.common import checks

if TYPE_CHECKING:
    from dpkit.private.gan import PrivateGan


def sample(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The generator, *.safetensors, of `dpkit train`."),
    ],
    out: Annotated[
        str, typer.Option(metavar="FOLDER", help="New, or empty: gets the PNG files.")
    ],
    labels: Annotated[
        str | None, typer.Option(help="Classes, such as 0,1,2; all of them if not given.")
    ] = None,
    count: Annotated[
        int, typer.Option(help="Images of each class, or without classes all.")
    ] = 1,
    reproducible_seed: Annotated[
        int | None, typer.Option(help="For the same images again; costs no privacy.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw images from a generator that `dpkit train` wrote, which costs no privacy.

      python -m dpkit sample generator.safetensors --labels 0,1,2 --out samples

      python -m dpkit sample generator.safetensors --count 100 --out samples

    Of networks of your own: PrivateGan(generator, critic, ...).load(FILE).sample(labels).
    """
    folder = Path(out)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"--out must be a new or an empty folder, got {out}")
    count = checks.whole(1, count=count)
    gan = _gan(file)
    if gan.classes is None and labels is not None:
        raise ValueError(
            f"{file} was trained without labels: leave out --labels, give --count"
        )
    each = None if gan.classes is None else _classes(labels, gan.classes)
    wanted = count if each is None else [label for label in each for _ in range(count)]
    images = gan.sample(wanted, reproducible_seed=reproducible_seed)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, image in enumerate(images):
        label = "" if isinstance(wanted, int) else f"_class_{wanted[number]}"
        files.append(str(folder / f"{number:05}{label}.png"))
        _write(image, files[-1])
    if as_json:
        print_json({"out": out, "files": files, "shape": list(images.shape[1:])})
    else:
        print(f"{len(files)} images in {out}")


def _classes(labels: str | None, classes: int) -> list[int]:
    if labels is None:
        return list(range(classes))
    try:
        return [int(label) for label in labels.split(",")]
    except ValueError:
        raise ValueError(
            f"--labels must be integers with commas between, such as 0,1,2; got {labels!r}"
        ) from None


def _gan(file: str) -> "PrivateGan":
    """The generator in the file, of the default networks for images of its shape.

    Raises:
        ValueError: the file is of other networks.
    """
    from dpkit.private import saved
    from dpkit.private.gan import PrivateGan
    from dpkit.private.image_networks import image_networks

    facts, _ = saved.content(file)
    try:
        (latent_size,), classes = (
            facts["settings"]["latent_size"],
            facts["settings"]["classes"],
        )
        shape, epsilon, delta = tuple(facts["shape"]), facts["epsilon"], facts["delta"]
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise ValueError(f"shape {shape}")
    except (LookupError, TypeError, ValueError):
        raise ValueError(
            f"{file} does not say that it makes images from a vector, as files of `dpkit train` "
            "do; load it with the networks it was trained with: PrivateGan(...).load(FILE)"
        ) from None
    own: Any = {"classes": classes, "latent_size": latent_size}
    return PrivateGan(*image_networks(shape, **own), epsilon=epsilon, delta=delta, **own).load(
        file
    )


def _write(image: Any, path: str) -> None:
    """Write one image, (channels, height, width) in [-1, 1], as a PNG."""
    from PIL import Image

    pixels = ((image + 1) * 127.5).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(path)

"""A generator and a critic for square images, small enough to be trained with noise."""

from math import ceil, log2, prod

from torch import nn

from dpkit.training.networks import SLOPE, Conditional, doubling_generator, halving_critic

WIDTH, HIDDEN = 32, 256  # filters of the first convolution; units of a small network
FLAT = 8  # pixels a side at which convolutions end


def image_networks(
    shape: tuple[int, int, int], *, classes: int | None, latent_size: int
) -> tuple[nn.Module, nn.Module]:
    """(generator, critic) for images of `shape` in [-1, 1], with torch's initial weights.

    Convolutions of 5x5 with stride 2 down to 8 pixels a side; none for smaller images.

    Args:
        shape: (channels, side, side).
        classes: number of labels that both see, or None.
        latent_size: numbers in a latent.

    Raises:
        ValueError: the images are not square.
    """
    channels, side, other = shape
    if side != other:
        raise ValueError(
            f"images must be square, got {side} x {other} pixels; cut or pad them"
        )
    more = classes or 0
    if side <= FLAT:
        widths = (
            nn.Linear(latent_size + more, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, prod(shape)),
        )
        generator = nn.Sequential(*widths, nn.Tanh(), nn.Unflatten(1, shape))
        first = nn.Linear((channels + more) * side**2, HIDDEN)
        critic = nn.Sequential(nn.Flatten(), first, nn.LeakyReLU(SLOPE), nn.Linear(HIDDEN, 1))
    else:
        filters = [WIDTH * 2**level for level in range(ceil(log2(side / FLAT)))]
        generator = doubling_generator(latent_size + more, filters[::-1], shape)
        critic = halving_critic((channels + more, side, side), filters)
    if classes is None:
        return generator, critic
    return Conditional(generator, classes=classes), Conditional(critic, classes=classes)

"""Class moments: noisy count, mean and second moment of each class, sampled as Gaussians.

One Gaussian release is all that reads the records. The second moment alone is that of Dwork,
Talwar, Thakurta, Zhang 2014 ("Analyze Gauss", Alg. 1); eigenvalues, factors and images are
post-processing. Noise on fewer numbers is smaller, so of an image only low frequencies are kept:
as many as the budget can tell from noise, which follows from public numbers alone. With several
components a class, a first release of the same kind says where they lie, as private EM does in many
rounds (Park, Foulds, Choudhary, Welling 2017). Works without torch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct
from sklearn.cluster import KMeans

from dpkit.common import checks
from dpkit.privacy import calibrate, normals, pld
from dpkit.synthesizers.records import NoisedRelease, checked, checked_labels

Floats = NDArray[np.float64]
FIRST_SHARE = 0.2  # of mu^2: what the first of two releases takes
MOST = 64  # components of a class, however many records there are
# Records a component times mu: fewer, and noise hides what tells components apart
ENOUGH = 1_500
FEATURES = 128  # of an image, where a component has ENOUGH
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])
USUAL = {0.0: 0.34, 0.5: 0.27, 1.0: 0.34}  # centre -> usual size of a pixel minus it
SAMPLES = 2_000  # of each class, on which the centres of its components are found
AT_ONCE = 2_000  # records multiplied, or images sampled, together


@cache
def waves(
    shape: tuple[int, ...], frequencies: int | None, lowest: int | None
) -> NDArray[np.int64]:
    """(channel, down, across) of each cosine that is kept, in half waves: (features, 3).

    Arguments as `cosines`. In order of their frequency, down^2 + across^2, where only the lowest
    are kept; a difference of colours counts as twice the frequency, as in JPEG's halved planes.
    """
    sides = [side if frequencies is None else min(side, frequencies) for side in shape[1:]]
    found = np.indices((shape[0], *sides)).reshape(3, -1).T
    if lowest is None:
        return found
    scale = np.where((found[:, 0] > 0) & (shape[0] == 3), 4, 1)
    squares = scale * np.square(found[:, 1:]).sum(1)
    return found[np.argsort(squares, kind="stable")[:lowest]]


@cache
def cosines(
    shape: tuple[int, ...], frequencies: int | None, lowest: int | None = None
) -> np.ndarray | None:
    """Orthonormal rows, (features, pixels): products of cosines along both sides of each channel.

    Noise on fewer features has smaller eigenvalues: a quarter of the pixels halves them. Where
    only the lowest are kept of three channels, these are light and two differences of colours.

    Args:
        shape: (channels, height, width).
        frequencies: kept along each side, the lowest first; None: all.
        lowest: how many of these rows are kept, the lowest frequencies first; None: all.

    Returns:
        None where the pixels are kept as they are: without `lowest`, and with all frequencies.
    """
    channels, *sides = shape
    if lowest is None and (frequencies is None or frequencies >= max(sides)):
        return None
    colours = np.eye(channels) if lowest is None or channels != 3 else OPPONENT
    chosen, *at = waves(shape, frequencies, lowest).T
    down, across = (
        np.asarray(dct(np.eye(side), norm="ortho", axis=0))[rows]
        for side, rows in zip(sides, at, strict=True)
    )
    return np.einsum("fc,fh,fw->fchw", colours[chosen], down, across).reshape(len(chosen), -1)


@dataclass(frozen=True)
class MomentsSettings(NoisedRelease):
    """The measurement of labelled images, and its noise.

    A record of features z (of its pixels minus `centre`: its lowest cosine frequencies, a public
    orthonormal basis), scaled down to |z| <= C where it is longer, adds
    (w0, w1 z / C, w2 z z' / C^2) to the sums of its class.

    Args:
        classes: number of labels 0, 1, ..., which is public.
        shape: of an image, (channels, height, width), with values in [0, 1].
        noise_multiplier: noise standard deviation / `sensitivity`; 0 for none, which is not
            private. Of both releases together, where there are two.
        clip_norm: C, in the images' unit; public, never read off the records.
        weights: (w0, w1, w2) of count, mean and second moment, each > 0.
        frequencies, lowest: the cosines that are kept, as `cosines`.
        components: Gaussians a class.
        centre: subtracted from each pixel, public.
        mirrored: whether a mirror image is as likely as the image; then the moments are averaged
            over both.
        shrunk: whether what noise adds to a direction's variance is taken off.

    Raises:
        ValueError: a number is out of range.
    """

    classes: int
    shape: tuple[int, ...]
    noise_multiplier: float
    clip_norm: float = 9.5
    weights: tuple[float, float, float] = (0.05, 0.3, 1.0)
    frequencies: int | None = None
    lowest: int | None = None
    components: int = 1
    centre: float = 0.0
    mirrored: bool = False
    shrunk: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "weights", tuple(self.weights))
        checks.whole(1, classes=self.classes, components=self.components)
        if len(self.shape) != 3:
            raise ValueError(f"shape must be (channels, height, width), got {self.shape}")
        checks.whole(1, channels=self.shape[0], height=self.shape[1], width=self.shape[2])
        for name in ("frequencies", "lowest"):
            if getattr(self, name) is not None:
                checks.whole(1, **{name: getattr(self, name)})
        checks.in_range(0, 1, centre=self.centre)
        if self.mirrored and self.basis is None:
            raise ValueError(
                "mirrored needs cosines, whose mirror images are themselves or their negatives; "
                "give lowest=, or frequencies= below a side"
            )
        checks.positive(clip_norm=self.clip_norm)
        if len(self.weights) != 3:
            raise ValueError(
                f"weights must be of count, mean, second moment, got {self.weights}"
            )
        checks.positive(**{f"weights[{i}]": weight for i, weight in enumerate(self.weights)})
        super().__post_init__()

    @property
    def basis(self) -> NDArray[np.float64] | None:
        """Orthonormal rows, (features, pixels); None where all pixels are kept as they are."""
        return cosines(self.shape, self.frequencies, self.lowest)

    @property
    def features(self) -> int:
        """Numbers of an image that are measured."""
        return prod(self.shape) if self.basis is None else len(self.basis)

    @property
    def sensitivity(self) -> float:
        """L2, under add-remove: a record of norm C adds sqrt(w0^2 + w1^2 + w2^2) to one class.

        |z z'| in Frobenius norm is |z|^2. Off the diagonal the two equal entries of a symmetric
        matrix are one number times sqrt(2), so that the norm of what is released is that one.
        """
        return sqrt(sum(weight**2 for weight in self.weights))

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Of each release in turn; what they cost together is what one at noise_multiplier does."""
        if self.components == 1:
            return (self.noise_multiplier,)
        shares = FIRST_SHARE, 1 - FIRST_SHARE
        return tuple(self.noise_multiplier / sqrt(share) for share in shares)


def settings_for(
    target_epsilon: float,
    *,
    delta: float,
    classes: int,
    shape: tuple[int, ...],
    public_size: int,
    components: int | None = None,
    mirrored: bool = False,
    centre: float | None = None,
) -> MomentsSettings:
    """The settings with the least noise for an epsilon, certified by the PLD accountant.

    Weights, `ENOUGH` and the number of features were chosen on (distorted) images of scikit-learn's
    digits, where a hundredth of `ENOUGH` leaves a third of `FEATURES` worth measuring, and 8 times
    as much no more than that allows. The clip norm is a guess: at centre 0 it suits images like
    MNIST's, at 1 their negatives, at 0.5 photographs.

    Args:
        target_epsilon: nats, > 0, under add-remove; what the settings cost is at most this.
        delta: in (0, 1).
        classes, shape: as `MomentsSettings`.
        public_size: declared number of records.
        components: Gaussians a class; None takes as many as `ENOUGH` allows.
        mirrored: as `MomentsSettings`.
        centre: 0, 0.5 or 1; None takes 0.5 for three channels, 0 for others.

    Raises:
        ValueError: bad input, or a target that no noise between 2^-20 and 2^40 meets.
    """
    checks.whole(1, public_size=public_size, classes=classes)
    noise = calibrate.gaussian_noise_multiplier(target_epsilon, delta=delta)
    enough = public_size / classes / noise / ENOUGH
    components = min(max(1, round(enough)), MOST) if components is None else components
    lowest = round(FEATURES * min(enough / components, 8) ** 0.25)
    centre = (0.5 if shape[0] == 3 else 0.0) if centre is None else centre
    if centre not in USUAL:
        raise ValueError(f"centre must be one of 0, 0.5, 1; got {centre!r}")
    settings = MomentsSettings(
        classes,
        shape,
        noise,
        clip_norm=USUAL[centre] * sqrt(prod(shape)),
        lowest=max(1, min(lowest, prod(shape))),
        components=components,
        centre=centre,
        mirrored=mirrored,
    )
    # by the accountant's rounding
    while pld.epsilon(settings.ledger(), delta=delta).epsilon > target_epsilon:
        settings = replace(settings, noise_multiplier=settings.noise_multiplier * (1 + 1e-6))
    return settings


class Sums(NamedTuple):
    """The sums to be noised, for each of `groups` (classes, or components of all classes)."""

    counts: Floats  # (groups,)
    firsts: Floats  # (groups, features), of z / C
    seconds: Floats  # (groups, features, features), of z z' / C^2; symmetric


def sums(
    pixels: NDArray[np.floating],
    groups: NDArray[np.int64],
    count: int,
    *,
    settings: MomentsSettings,
) -> Sums:
    """Each group's sums of 1, z / C and z z' / C^2: what `release` noises, in double precision.

    Args:
        pixels: (records, pixels).
        groups: (records,), below `count`.
    """
    features = settings.features
    total = Sums(
        np.zeros(count), np.zeros((count, features)), np.zeros((count, features, features))
    )
    for group in range(count):
        rows = np.flatnonzero(groups == group)
        for part in np.array_split(rows, range(AT_ONCE, len(rows), AT_ONCE)):
            z = clipped(pixels[part], settings=settings)
            total.counts[group] += len(z)
            total.firsts[group] += z.sum(0)
            total.seconds[group] += z.T @ z
    return total


def clipped(pixels: NDArray[np.floating], *, settings: MomentsSettings) -> Floats:
    """z / C of each image, (images, features), scaled down to a norm of 1 where it is longer."""
    z = np.asarray(pixels, dtype=np.float64) - settings.centre
    if settings.basis is not None:
        z = z @ settings.basis.T
    z = z / settings.clip_norm
    return z / np.maximum(np.sqrt(np.square(z).sum(1, keepdims=True)), 1)


def noised(
    true: Sums, std: float, weights: tuple[float, float, float], rng: np.random.Generator
) -> Sums:
    """The sums with Gaussian noise of standard deviation `std` on (w0 count, w1 first, w2 second).

    Of the second moment that is noise on an orthonormal basis of symmetric matrices: `std` on the
    diagonal, std / sqrt(2) on both of two equal entries.
    """
    counts, firsts, seconds = (std / weight for weight in weights)
    above = (slice(None), *np.triu_indices(true.seconds.shape[-1], 1))
    noisy = np.zeros_like(true.seconds)
    noisy[above] = normals.noised(true.seconds[above], noise_std=seconds / sqrt(2), rng=rng)
    noisy += noisy.transpose(0, 2, 1)
    diagonal = np.einsum("gii->gi", true.seconds)
    np.einsum("gii->gi", noisy)[:] = normals.noised(diagonal, noise_std=seconds, rng=rng)
    return Sums(
        normals.noised(true.counts, noise_std=counts, rng=rng),
        normals.noised(true.firsts, noise_std=firsts, rng=rng),
        noisy,
    )


class Component(NamedTuple):
    """A Gaussian of images: mean + factors @ z, z standard normal, cut off at 0 and 1."""

    count: float  # of records, noisy, at least 1
    mean: Floats  # (pixels,)
    factors: Floats  # (pixels, directions)


@dataclass(frozen=True, eq=False)
class MomentsModel:
    """The release of `fit`, from noisy sums and public values alone.

    components: for each class its Gaussians.
    """

    settings: MomentsSettings
    components: tuple[tuple[Component, ...], ...]

    def sample(self, labels: ArrayLike, *, rng: np.random.Generator) -> NDArray[np.float32]:
        """An image of each label, (labels, channels, height, width) in [0, 1].

        Raises:
            ValueError: labels are not integers in 0 .. classes - 1.
        """
        wanted = checked_labels(labels, classes=self.settings.classes)
        images = np.empty((len(wanted), prod(self.settings.shape)), dtype=np.float32)
        for label, components in enumerate(self.components):
            rows = np.flatnonzero(wanted == label)
            chances = np.array([one.count for one in components])
            which = rng.choice(len(components), size=len(rows), p=chances / chances.sum())
            for index, one in enumerate(components):
                own = rows[which == index]
                for part in np.array_split(own, range(AT_ONCE, len(own), AT_ONCE)):
                    normal = rng.normal(size=(len(part), one.factors.shape[1]))
                    images[part] = np.clip(one.mean + normal @ one.factors.T, 0, 1)
        return images.reshape(-1, *self.settings.shape)


def fit(
    images: ArrayLike,
    labels: ArrayLike,
    *,
    settings: MomentsSettings,
    rng: np.random.Generator,
) -> MomentsModel:
    """A model of the images, which costs `settings.ledger()`.

    Args:
        images: in [0, 1], (records, channels, height, width); records may be 0.
        labels: (records,), integers below `classes`.
        rng: of the noise, which `dpkit.privacy.normals` adds.

    Raises:
        ValueError: another shape, or an image with a value that is NaN or outside [0, 1].
    """
    pixels, classes = checked(images, labels, classes=settings.classes, shape=settings.shape)
    groups, parts, found = classes, 1, []
    for noise in settings.noise_multipliers:
        if found:  # the first release says where a class's components lie
            means, factors = ([getattr(c, of) for c in found] for of in ("mean", "factors"))
            parts = settings.components
            groups = classes * parts + partition(means, factors, parts)(pixels, classes)
        std, count = noise * settings.sensitivity, settings.classes * parts
        noisy = release(pixels, groups, count, std=std, settings=settings, rng=rng)
        found = list(components_from(noisy, std, settings=settings))
    return MomentsModel(
        settings,
        tuple(tuple(found[start : start + parts]) for start in range(0, len(found), parts)),
    )


def release(
    pixels: NDArray[np.floating],
    groups: NDArray[np.int64],
    count: int,
    *,
    std: float,
    settings: MomentsSettings,
    rng: np.random.Generator,
) -> Sums:
    """Noised sums of each group, all that a model is made from.

    Args:
        pixels, groups, count: as `sums`.
        std: of the noise; a noise multiplier times `settings.sensitivity`.
    """
    return noised(sums(pixels, groups, count, settings=settings), std, settings.weights, rng)


def components_from(
    noisy: Sums, std: float, *, settings: MomentsSettings
) -> Iterator[Component]:
    """Gaussians with the noisy moments: post-processing.

    Directions whose variance is within the noise's own are dropped: eigenvalues of a symmetric
    d x d matrix of noise, of standard deviation s off the diagonal, reach R = 2 s sqrt(d) (Wigner).
    An eigenvalue y above R shrinks to sqrt(y^2 - R^2), the best in Frobenius norm (as of square
    matrices: Gavish, Donoho 2017). Mirror images: a cosine with an odd number of half waves changes
    its sign, so that its mean, and its products with the even ones, are 0.

    Raises:
        ValueError: a sum that is not finite.
    """
    if not all(np.isfinite(part).all() for part in noisy):
        raise ValueError("noisy sums must be finite, got NaN or infinity")
    basis, scale = settings.basis, settings.clip_norm
    odd = np.zeros(settings.features, dtype=bool)
    if settings.mirrored:
        odd = waves(settings.shape, settings.frequencies, settings.lowest)[:, 2] % 2 == 1
    halves = [np.flatnonzero(half) for half in (~odd, odd) if half.any()]
    for count, first, second in zip(*noisy, strict=True):
        size = max(float(count), 1.0)
        mean, factors = np.where(odd, 0.0, first / size), []
        spread = second / size - np.outer(mean, mean)
        for half in halves:
            values, vectors = np.linalg.eigh(spread[np.ix_(half, half)])
            edge = 2 * std / settings.weights[2] / sqrt(2) * sqrt(len(half)) / size
            keep = values > max(edge, 0.0)
            if settings.shrunk:
                values[keep] = np.sqrt(np.square(values[keep]) - edge**2)
            own = np.zeros((len(odd), int(keep.sum())))
            own[half] = vectors[:, keep] * np.sqrt(values[keep])
            factors.append(own)
        directions = np.concatenate(factors, 1)
        if basis is not None:
            mean, directions = mean @ basis, basis.T @ directions
        yield Component(size, settings.centre + mean * scale, directions * scale)


def partition(
    means: Sequence[NDArray], factors: Sequence[NDArray], components: int
) -> Callable[[NDArray, NDArray], NDArray[np.int64]]:
    """(pixels, labels) -> for each image the nearest of its class's centres.

    The centres are those of k-means on samples of what was released: post-processing. Each image's
    component depends on that image alone.

    Args:
        means: (pixels,) of each class, released.
        factors: (pixels, directions) of each class, released.
        components: centres a class.
    """
    centres = []
    for mean, directions in zip(means, factors, strict=True):
        if not directions.shape[1]:  # all is noise: one centre, so often
            centres.append(np.tile(mean, (components, 1)))
            continue
        rng = np.random.default_rng(0)  # of samples of public values
        drawn = rng.normal(size=(SAMPLES, directions.shape[1]))
        samples = np.clip(mean + drawn @ directions.T, 0, 1)
        found = KMeans(components, n_init=3, random_state=0)  # pyright: ignore[reportArgumentType]
        centres.append(found.fit(samples).cluster_centers_)

    def nearest(pixels: NDArray, labels: NDArray) -> NDArray[np.int64]:
        found = np.zeros(len(pixels), dtype=np.int64)
        for label, around in enumerate(centres):
            rows = np.flatnonzero(labels == label)
            # a product of matrices would round a row otherwise with others beside it
            products = np.einsum("rp,cp->rc", pixels[rows].astype(np.float64), around)
            found[rows] = (products - np.square(around).sum(1) / 2).argmax(1)
        return found

    return nearest

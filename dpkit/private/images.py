"""Private synthetic images: fit labelled images once, sample as many as wanted."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkit.common import checks
from dpkit.datasets import Images
from dpkit.privacy import Guarantee, pld
from dpkit.private.budget import Budget, check_budget
from dpkit.private.plan import size_of
from dpkit.private.statement import ALL_RECORDS, Priced, generator
from dpkit.synthesizers import class_moments, random_features
from dpkit.synthesizers.jitter import Jitter
from dpkit.synthesizers.records import arrays, checksum, in_unit, wanted_labels

MOMENTS, FEATURES = "moments", "random features"
CHANGES = tuple(field.name for field in fields(Jitter))
AFTER = {  # what follows from the release alone
    MOMENTS: "images are drawn from Gaussians that follow from the noised moments",
    FEATURES: "images are drawn from a generator trained on the noised embeddings alone",
}


class PrivateImages(Priced):
    """A synthesizer for labelled images by one noised release, without private training.

        from dpkit import PrivateImages, datasets

        images = PrivateImages(epsilon=1, invariant_to=("shift", "turn")).fit(datasets.digits())
        images.sample([0, 1, 2])

    By "moments" (`dpkit.synthesizers.class_moments`) the release is each class's count, mean and
    second moment, and images are drawn from Gaussians; it needs no torch. By "random features"
    (`dpkit.synthesizers.random_features`: DP-MERF) it is each class's mean embedding, on which a
    generator is trained for some minutes. A private GAN has to beat both.

    Only you know which changes keep an image's class: a digit may lean, but not be mirrored; a cat
    may be both. Samples are changed at random as `invariant_to` allows, which costs nothing and
    helps classifiers. A mirror helps the moments, too: they are averaged over both images. Of an
    image, moments keep as many low frequencies as can be told from noise; with a hundred records a
    class at epsilon 1, or fewer, next to all is noise.

    Another `fit` costs epsilon again. The fitted object holds no records: it may be released, by
    joblib or pickle, where no seed was given.

    Attributes:
        model_: what was released.
        guarantee_: its price.

    Args:
        classes: number of labels, 0 .. classes - 1; public, not read off the records.
        epsilon, delta: of one fit, in nats, under add-remove adjacency.
        method: "moments" or "random features".
        invariant_to: changes that keep an image's class: "turn" (at most 10 degrees), "shift" (at
            most 5 %), "size" (at most 10 %), "bend" (strokes, 3 % on average), "mirror" (left and
            right).
        centre: pixel value around which images lie, for moments: 0 (written on black), 0.5
            (photographs) or 1 (on white); public. None takes 0.5 for three channels, else 0. An
            image that lies unusually far from it is scaled towards it, and comes out paler.
        public_size: declared number of records, as `Private`.
        reproducible_seed: of the noise, as `Private`: keep it secret.
    """

    def __init__(
        self,
        *,
        classes: int = 10,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        method: str = MOMENTS,
        invariant_to: Sequence[str] = (),
        centre: float | None = None,
        public_size: int | None = None,
        reproducible_seed: int | None = None,
    ) -> None:
        self.model_: Any
        self.guarantee_: Guarantee
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.invariant_to = invariant_to
        self.centre = centre
        self.public_size = public_size
        self.reproducible_seed = reproducible_seed

    def fit(self, x: Any, y: Any = None, *, budget: Budget | None = None) -> "PrivateImages":
        """Release a model of the images.

        Args:
            x: uint8 (read as 0..255), bool, or floats in [0, 1]; shape (records, height, width) or
                (records, channels, height, width). Or `dpkit.datasets.Images`, a Dataset or a
                DataLoader, which hold their labels. The size of an image is public.
            y: integers in 0 .. classes - 1, (records,). A class may have no record.
            budget: adds up the runs on these data (see `Budget`).

        Raises:
            TypeError: x is no array, or y is missing.
            ValueError: a number is out of range or NaN, or the arrays do not fit each other.
            OverBudget: the run would exceed the budget; nothing was charged then.
        """
        check_budget(budget)
        checks.one_of((MOMENTS, FEATURES), method=self.method)
        if not isinstance(self.invariant_to, list | tuple | set | frozenset):
            raise TypeError(
                f"invariant_to must be a tuple of names, got {self.invariant_to!r:.80}"
            )
        for name in self.invariant_to:
            checks.one_of(CHANGES, invariant_to=name)
        classes = checks.whole(1, classes=self.classes)
        checks.positive(epsilon=self.epsilon)
        checks.between(0, 1, delta=self.delta)
        if not (hasattr(x, "__array__") or isinstance(x, Images | Sequence)):
            from dpkit.private import data  # which needs torch, as arrays do not

            if isinstance(x, data.DataLoader) or data.is_dataset(x):
                parts = data.tensors(x, y)
                x, y = parts[0], data.labels_for(classes, len(parts[0]), parts)
        pixels, labels = arrays(x, y, classes=classes)
        size = size_of(len(pixels), public_size=self.public_size, delta=self.delta)
        rng = generator(self.reproducible_seed, stream=0)
        rows = in_unit(pixels)
        asked = {"delta": self.delta, "classes": classes, "shape": rows.shape[1:]}
        if self.method == MOMENTS:
            mirrored = "mirror" in self.invariant_to
            settings = class_moments.settings_for(
                self.epsilon, **asked, public_size=size, mirrored=mirrored, centre=self.centre
            )
            fit: Any = class_moments.fit
        else:  # torch is looked for before anything is charged
            from dpkit.synthesizers import feature_matching

            settings = random_features.settings_for(self.epsilon, **asked)
            fit = partial(feature_matching.fit, public_size=size)
        ledger = settings.ledger()
        guarantee = pld.epsilon(ledger, delta=self.delta)
        if budget is not None:
            budget.reserve(ledger, data=checksum(pixels, labels), seed=self.reproducible_seed)
        self.model_ = fit(rows, labels, settings=settings, rng=rng)
        self._changes = tuple(name for name in CHANGES if name in self.invariant_to)
        self._outside = self.centre or 0.0
        self.guarantee_ = guarantee
        public = f"the number of classes, {classes}, and the size of an image are public"
        self._priced(ledger, guarantee, ALL_RECORDS, len(pixels), public)
        changed = (
            f", then changed at random ({', '.join(self._changes)})" if self._changes else ""
        )
        self._after = f"Post-processing: {AFTER[self.method]}{changed}."
        return self

    def sample(self, n: Any, *, reproducible_seed: int | None = None) -> NDArray[np.float32]:
        """Draw images, which costs nothing: (images, channels, height, width).

        Args:
            n: how many, of labels drawn uniformly; or a label for each, (images,), integers in
                0 .. classes - 1.
            reproducible_seed: None takes the operating system's entropy.

        Returns:
            float32 in [0, 1], changed as `invariant_to` allows.

        Raises:
            NotFittedError: there is no model yet.
            ValueError: n is neither an integer >= 0 nor labels.
        """
        model = self._fitted().model_
        rng = generator(reproducible_seed, stream=1)
        labels = wanted_labels(n, classes=model.settings.classes, rng=rng)
        made = model.sample(labels, rng=rng).astype(np.float32, copy=False)
        if not self._changes:
            return made
        return Jitter.of(self._changes)(made, rng=rng, outside=self._outside)

    def statement(self, *, unit: str = "one labelled image", tried: int | None = None) -> str:
        """As `Priced.statement`."""
        return self._fitted()._price.statement(unit=unit, more=self._after, tried=tried)

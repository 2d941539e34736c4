"""A picture in a notebook: its panels side by side on a desk, one below the other on a phone."""

from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from typing import Any

import ipywidgets as widgets
from matplotlib.figure import Figure
from PIL import Image

MOST, LEAST = 112, 65  # CSS pixels an inch; of the least side by side: else the row wraps
LABELS = 0.78  # inches at the left of axes for their ticks and name, where there is room


class Panels(widgets.HBox):
    """An image for each panel of a figure, in a row that wraps."""

    def __init__(self) -> None:
        """Nothing, hidden: an empty image looks broken."""
        look = {"flex_flow": "row wrap", "align_items": "flex-start", "display": "none"}
        self.images: list[Any] = []
        super().__init__(layout=widgets.Layout(**look))

    @property
    def value(self) -> bytes:
        """The images as PNG, one after the other; empty where nothing is shown."""
        return b"".join(bytes(image.value) for image in self.images)

    def show(self, png: bytes, figure: Figure | None = None) -> None:
        """Show a PNG of the figure, cut between its panels; an empty one hides all."""
        parts = list(_cut(png, figure)) if png else []
        more = range(len(self.images), len(parts))
        self.images += [widgets.Image(format="png") for _ in more]
        self.children = self.images
        for place, image in enumerate(self.images):
            part, inches = parts[place] if place < len(parts) else (b"", 0.0)
            image.value, look = part, image.layout
            look.display = None if part else "none"
            if part:
                look.flex = f"{inches:.3g} 1 {inches * LEAST:.0f}px"
                look.min_width, look.max_width = "0", f"{inches * MOST:.0f}px"
        self.layout.display = None if png else "none"


def _cut(png: bytes, figure: Figure | None) -> Iterator[tuple[bytes, float]]:
    """Each panel of a picture as a PNG, and its width in inches."""
    wide = figure.get_figwidth() if figure else MOST
    if figure is None or len(figure.axes) == 1:
        yield png, wide
        return
    boxes = [ax.get_position(original=True) for ax in figure.axes]
    gaps = [(left.x1, right.x0) for left, right in pairwise(boxes)]
    cuts = [0.0, *(x0 - min(LABELS / wide, 0.75 * (x0 - x1)) for x1, x0 in gaps), 1.0]
    with Image.open(BytesIO(png)) as whole:
        for left, right in pairwise(cuts):
            ends = round(left * whole.width), round(right * whole.width)
            buffer = BytesIO()
            part = whole.crop((ends[0], 0, ends[1], whole.height))
            part.save(buffer, "png", compress_level=1)
            yield buffer.getvalue(), (right - left) * wide

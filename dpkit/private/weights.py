"""Whether a network's weights are as the last release has left them."""

import warnings
from collections.abc import Sequence

from torch import Tensor, device, nn

from dpkit.training.checkpoint.guards import same_sums, sums_of

CHANGED = "the weights were changed between releases from released values and public numbers alone"


class Weights:
    """Notices what moves a network beside its releases: another optimiser, a clamp, an average.

    Honest code does this too, and what it computed from is not seen. So a change is not refused: it
    is warned about once, and the statement then assumes that it was post-processing.
    """

    def __init__(self, net: nn.Module) -> None:
        self._net, self._left = net, dict[device, Tensor]()
        self.changed = False

    def look(self) -> None:
        """Warn where something has changed since `leave`."""
        if self.changed or not self._left or same_sums(self._left, self._sums()):
            return
        self.changed = True
        warnings.warn(
            "weights or buffers of net have changed since the last step. The price holds if they "
            "follow from released weights and public numbers (a clamp, an average), and not if "
            "anything was computed from records; the statement says so",
            stacklevel=5,
        )

    def leave(self, parameters: Sequence[Tensor], released: Sequence[Tensor]) -> None:
        """A release is done. Notices a hook that put other gradients in the place of its own."""
        pairs = [(p.grad, own) for p, own in zip(parameters, released, strict=True)]
        self.changed |= any(g is not None and (g is not own or g._version) for g, own in pairs)
        self._left = self._sums()

    def _sums(self) -> dict[device, Tensor]:
        """Of all that is published, but what spectral norms compute of weights as they run."""
        state = self._net.state_dict()
        return sums_of(x for name, x in state.items() if not name.endswith(("_u", "_v")))

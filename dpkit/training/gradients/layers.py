"""The factors of a layer's per-example gradient, without forming it: a kind for each layer.

A layer's weight gradient for one example is a sum of products of what the weight multiplies (its
features) and of the loss's gradient at its output. `KINDS` says, for each type of layer, how to
take norms and weighted sums of such products. A pass is one run of a layer on a batch: its features
`a` and the gradient `d` at its output, both (batch, ...). The i-th example's gradient is the sum
over passes of what their i-th rows make.

Norms come from Gram matrices where positions are few and from the products themselves, some
examples at a time, where the weight is small (Goodfellow 2015; Rochette et al. 2019; Li et al.
2021, "ghost clipping"; Bu et al. 2022, "book-keeping").
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import ceil, gcd, prod, sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight

WORKSPACE = 2**19  # numbers that norms keep at a time on a CPU, for its cache
WIDE_WORKSPACE = 2**26  # elsewhere: a GPU's time goes to the number of kernels
DIGITS = 1e-2  # of a Gram sum that must be left after cancelling; else products are formed
TOGETHER = 16  # examples added up at a time, at least, where the weight can be cut
LOST = 2**-40  # of a sum of thousands of terms in float64, at most
LONG = 2**16  # numbers in a gradient beyond which squares are added in double precision
FAST_IN_DOUBLE = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))  # NVIDIA's P100 to B200
SLACK = 4  # units of rounding, of the sum's size, by which a norm is rounded up

Pass = tuple[Tensor, Tensor]


class Kind(ABC):
    """One type of layer: its weight meets its input; its bias adds to its output."""

    def refused(self, layer: Any) -> str | None:
        """Why this layer's per-example gradients are unknown or undefined, or None."""
        return None

    def features(self, layer: Any, inputs: Tensor) -> Tensor:
        """The weight's factor: (batch, ...), differentiable in the inputs."""
        return inputs

    @abstractmethod
    def norms(self, layer: Any, passes: Sequence[Pass]) -> Tensor:
        """L2 norm of each example's weight gradient, (batch,), rounded up.

        By as much as rounding may add to the example's part of a weighted sum: a part clipped to a
        norm keeps to it even where its terms cancel.
        """

    @abstractmethod
    def weighted(self, layer: Any, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        """The sum over one pass of weight (batch,) times weight gradient, shaped as the weight."""

    def weighted_sum(self, layer: Any, passes: Sequence[Pass], weights: Tensor) -> Tensor:
        """The sum over examples of weight (batch,) times weight gradient, shaped as the weight."""
        first, *others = passes
        total = self.weighted(layer, *first, weights)
        for a, d in others:
            total += self.weighted(layer, a, d, weights)
        return total

    @abstractmethod
    def each(self, layer: Any, passes: Sequence[Pass]) -> Tensor:
        """Every example's weight gradient in full, (batch, *weight.shape)."""

    def clamped_sum(
        self, layer: Any, passes: Sequence[Pass], bound: Tensor, whole: Tensor
    ) -> Tensor:
        """The sum over examples of weight gradients within [-bound, bound] at each coordinate.

        Args:
            bound: shaped as the weight.
            whole: (batch,) bool, written to: becomes False where an example is cut.
        """
        total = widened(torch.zeros_like(bound))
        rows = max(workspace(bound) // max(bound.numel(), 1), 1)
        for start in range(0, len(whole), rows):
            part = slice(start, start + rows)
            full = self.each(layer, [(a[part], d[part]) for a, d in passes])
            total += clamped(full, bound, whole[part]).sum(0)
        return total.to(bound.dtype)

    def bias(self, layer: Any, d: Tensor) -> Tensor:
        """Every example's bias gradient in one pass, (batch, *bias.shape)."""
        raise TypeError(f"{layer} has no bias")


class Outer(Kind):
    """A weight (out, in) of `groups` blocks that is applied at several positions.

    An example's gradient is D A^T, with A (in, positions) and D (out, positions) side by side for
    all its passes.
    """

    @abstractmethod
    def columns(self, layer: Any, a: Tensor, d: Tensor) -> Pass:
        """A (batch * groups, in, positions) and D (batch * groups, out, positions)."""

    def spread(self, layer: Any) -> float:
        """A bound on the L2 norm of `columns` over that of the features."""
        return 1.0

    def unordered(self, layer: Any, a: Tensor, d: Tensor, old: Tensor | None) -> Pass:
        """`columns`, the inputs in an order that norms do not see, in the memory of old ones."""
        return self.columns(layer, a, d)

    @abstractmethod
    def sizes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[int, int, int, int]:
        """groups, in and out of one group, positions."""

    def norms(self, layer: Any, passes: Sequence[Pass]) -> Tensor:
        a, d = passes[0]
        groups, wide, high, positions = self.sizes(layer, a, d)
        runs, batch = len(passes), len(d)
        gram = positions == 1 or (runs + 1) / 2 * positions * (wide + high) < wide * high
        gram = gram and not (runs * positions > 1 and slow_in_double(d))
        product = 2 * positions**2 if gram else wide * high
        one = groups * (runs * positions * (wide + high) + product)
        rows = max(workspace(d) // max(one, 1), 1) if positions > 1 else max(batch, 1)
        norms, used = [], [None] * runs
        for start in range(0, max(batch, 1), rows):
            part = [(a[start : start + rows], d[start : start + rows]) for a, d in passes]
            pairs = [
                self.unordered(layer, *one, old) for one, old in zip(part, used, strict=True)
            ]
            used: Any = [columns for columns, _ in pairs]
            if not gram:
                reach: Any = sum(_size(a) * _size(d) for a, d in part) * self.spread(layer)
                squares = _added(lengths(_sum_of_products(pairs)).square(), groups)
                norms.append(rounded_up(squares, reach.square_()))
            elif runs == positions == 1:  # one product: nothing can cancel
                norms.append(_added(_by_gram(pairs)[0], groups).sqrt())
            elif waits_for(d):
                doubled = [(a.double(), d.double()) for a, d in pairs]
                squares, reach = (_added(one, groups) for one in _by_gram(doubled))
                norms.append(rounded_up(*unseen(squares, reach, d.dtype)))
            else:
                squares, reach = (_added(one, groups) for one in _by_gram(pairs))
                if (poor := ~(squares >= DIGITS * reach)).any():
                    few = poor.nonzero()[:, 0]
                    full = self.each(layer, [(a[few], d[few]) for a, d in part]).flatten(1)
                    squares[few] = lengths(full).square()
                norms.append(rounded_up(squares, reach))
        return torch.cat(norms)

    def each(self, layer: Any, passes: Sequence[Pass]) -> Tensor:
        products = _sum_of_products([self.columns(layer, *one) for one in passes])
        return products.reshape(len(passes[0][1]), *layer.weight.shape)


def waits_for(x: Tensor) -> bool:
    """Whether Python would wait for a value of x, which float64 can spare it."""
    return x.device.type not in ("cpu", "mps")  # the latter has no float64


def slow_in_double(x: Tensor) -> bool:
    """Whether x is of float32 on a GPU that has few units for float64, as most have.

    There norms are taken of products in float32, which lose less to rounding than Gram sums would.
    """
    if x.device.type != "cuda" or x.dtype == torch.float64:
        return False
    return torch.cuda.get_device_capability(x.device) not in FAST_IN_DOUBLE


def workspace(x: Tensor) -> int:
    """Numbers that may be kept at a time where x lies."""
    return WIDE_WORKSPACE if waits_for(x) else WORKSPACE


def unseen(squares: Tensor, reach: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Squared norms added up in float64, without a look at which cancelled.

    Of float32's products float64 keeps digits enough: what it may have lost is added. Of float64's
    own, `reach` stands for a sum that has cancelled: its example is clipped harder. So no norm is
    too small.
    """
    if dtype == torch.float64:
        squares = torch.where(squares >= DIGITS * reach, squares, reach)
    else:
        squares = squares + LOST * reach
    return squares.to(dtype), reach.to(dtype)


def rounded_up(squares: Tensor, reach: Tensor) -> Tensor:
    """Norms from squared norms; `reach`, squared, is the size of what was added up."""
    slack = SLACK * torch.finfo(squares.dtype).eps * reach.sqrt()
    return squares.clamp(min=0).sqrt() + slack


def _size(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x.flatten(1), dim=1)


def _added(norms: Tensor, groups: int) -> Tensor:
    """Squared norms of each example's groups (batch * groups,) added up."""
    return norms if groups == 1 else norms.view(-1, groups).sum(1)


def _by_gram(pairs: list[Pass]) -> tuple[Tensor, Tensor]:
    """|sum of D A^T|^2 = sum over passes p, q and positions of (A_p^T A_q) (D_p^T D_q).

    And the square of the sum over passes and positions of |a| |d|: no gradient is longer.
    """
    total = reach = None
    for p, (a, d) in enumerate(pairs):
        for q, (b, e) in enumerate(pairs[: p + 1]):
            if p == q and a.shape[2] == 1:
                size = torch.linalg.vector_norm(a[:, :, 0], dim=1)
                size = size * torch.linalg.vector_norm(d[:, :, 0], dim=1)
                term = size.square()
            elif a.shape[2] == 1:
                term, size = 2 * (_dots(a, b) * _dots(d, e)), None
            else:
                grams = a.mT @ b, d.mT @ e
                term = (grams[0] * grams[1]).sum((1, 2)) * (1 if p == q else 2)
                size = _diagonal(grams[0]).mul_(_diagonal(grams[1])).sum(1) if p == q else None
            total = term if total is None else total + term
            if size is not None:
                reach = size if reach is None else reach + size
    assert total is not None
    assert reach is not None
    return total, reach.square()


def _diagonal(gram: Tensor) -> Tensor:
    return gram.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()


def _dots(x: Tensor, y: Tensor) -> Tensor:
    """Dot products of (batch, features, 1), without a copy of them."""
    return torch.bmm(x.mT, y)[:, 0, 0]


def _sum_of_products(pairs: list[Pass]) -> Tensor:
    """The sum over passes of D A^T, (batch * groups, out, in)."""
    a, d = pairs[0]
    total = torch.bmm(d, a.mT)
    for b, e in pairs[1:]:
        total.baddbmm_(e, b.mT)
    return total


class LinearLayer(Outer):
    """y = W x + b at each position of (batch, ..., in)."""

    def columns(self, layer: Any, a: Tensor, d: Tensor) -> Pass:
        if a.ndim == 2:
            return a[:, :, None], d[:, :, None]
        return a.flatten(1, -2).mT, d.flatten(1, -2).mT

    def sizes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[int, int, int, int]:
        return 1, a.shape[-1], d.shape[-1], prod(a.shape[1:-1])

    def weighted(self, layer: Any, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        return scaled(d, weights).flatten(0, -2).mT @ a.flatten(0, -2)

    def clamped_sum(
        self, layer: Any, passes: Sequence[Pass], bound: Tensor, whole: Tensor
    ) -> Tensor:
        (a, d), *others = passes
        if others or a.ndim > 2:
            return super().clamped_sum(layer, passes, bound, whole)
        if len(bound) > bound.shape[1]:  # a processor likes the longer side last
            return _outer_clamped_sum(d, a, bound.T.contiguous(), whole).T.contiguous()
        return _outer_clamped_sum(a, d, bound, whole)

    def bias(self, layer: Any, d: Tensor) -> Tensor:
        return d if d.ndim == 2 else d.flatten(1, -2).sum(1)


def scaled(d: Tensor, weights: Tensor) -> Tensor:
    """d (batch, ...) times a weight for each example."""
    return d * weights.view(-1, *[1] * (d.ndim - 1))


def counting(weights: Tensor) -> Tensor:
    """Weights (tensors or 1, batch), all 0 for an example one of whose weights is 0 or no number.

    The norm of its gradient is then not finite, or too large to be squared (see `clipped_sum`).
    """
    return weights.masked_fill(~(weights.isfinite() & (weights != 0)).all(0), 0)


def left_out(x: Tensor, weights: Tensor) -> Tensor:
    """x (batch, ...), 0 where an example's weights (tensors or 1, batch) are."""
    return x.masked_fill((weights[0] == 0).view(-1, *[1] * (x.ndim - 1)), 0)


def widened(total: Tensor) -> Tensor:
    """A sum over examples to add to, in double precision (which Apple's GPUs lack)."""
    return total if total.device.type == "mps" else total.double()


def lengths(full: Tensor) -> Tensor:
    """L2 norm of each example's gradient, (batch, ...), in double precision where it is long.

    In single, the small squares of a long gradient are lost beside a large one.
    """
    flat = full[:, None].flatten(1)  # also of no example, and of numbers alone
    wide = torch.float64 if flat.shape[1] > LONG and flat.device.type != "mps" else None
    return torch.linalg.vector_norm(flat, dim=1, dtype=wide).to(full.dtype)


def clamped(
    full: Tensor,
    bound: Tensor,
    whole: Tensor,
    *,
    out: Tensor | None = None,
    finite: bool = False,
) -> Tensor:
    """Per-example gradients (batch, *shape) within [-bound, bound]; NaN becomes 0.

    Examples that are cut become False in `whole` (batch,). On a CPU nothing is compared once all
    of them are, which is soon.
    """
    if waits_for(full) or bool(whole.any()):
        whole &= full.abs().sub_(bound)[:, None].flatten(1).amax(1) <= 0
    within = torch.clamp(full, -bound, bound, out=out)
    return within if finite else within.nan_to_num_(0.0)


def _outer_clamped_sum(a: Tensor, d: Tensor, bound: Tensor, whole: Tensor) -> Tensor:
    """The sum over examples of d_n a_n^T (out, in), each within [-bound, bound].

    Rows of the weight and examples are taken so few at a time that products stay in the cache, in
    one piece of memory.
    """
    total, wide = widened(torch.zeros_like(bound)), bound.shape[1]
    space = 2 * workspace(d)  # beyond a processor's own cache: fewer calls save more
    high = min(max(space // (TOGETHER * wide), 1), len(bound))
    count = max(space // (high * wide), 1)
    memory = d.new_empty(min(count, len(d)) * high * wide)
    # of finite factors no product is NaN: one pass over memory less
    finite = not waits_for(d) and bool(a.isfinite().all() and d.isfinite().all())
    for out, own, e in zip(
        *(x.split(high) for x in (total, bound)), d.split(high, 1), strict=True
    ):
        for x, y, left in zip(*(x.split(count) for x in (a, e, whole)), strict=True):
            products = memory[: len(x) * out.numel()].view(len(x), *out.shape)
            torch.mul(y[:, :, None], x[:, None], out=products)
            out += clamped(products, own, left, out=products, finite=finite).sum(0)
    return total.to(bound.dtype)


class Conv2d(Outer):
    """A convolution: each output position sees one column of the unfolded input."""

    def features(self, layer: Any, inputs: Tensor) -> Tensor:
        """The input, padded where the layer does not pad with the same zeros on both sides."""
        if layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
            return inputs
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        return functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)

    def columns(self, layer: Any, a: Tensor, d: Tensor) -> Pass:
        size, dilation, stride = layer.kernel_size, layer.dilation, layer.stride
        columns = functional.unfold(a, size, dilation, _padding(layer), stride)
        one = columns.shape[1] // layer.groups
        return columns.reshape(-1, one, columns.shape[2]), _outputs(layer, d)

    def unordered(self, layer: Any, a: Tensor, d: Tensor, old: Tensor | None) -> Pass:
        """As `columns`, copied in pieces as long as a row of the kernel times channels."""
        high, wide = _padding(layer)
        a = functional.pad(a.movedim(1, 3), (0, 0, wide, wide, high, high)).contiguous()
        batch, *_, channels = a.shape
        one, (far, down, right, _) = channels // layer.groups, a.stride()
        (s, t), (k, m) = layer.stride, layer.dilation
        columns = a.as_strided(
            (batch, layer.groups, *d.shape[2:], *layer.kernel_size, one),
            (far, one, s * down, t * right, k * down, m * right, 1),
        )
        shape = batch * layer.groups, prod(d.shape[2:]), one * prod(layer.kernel_size)
        flat = a.new_empty(shape) if old is None else old.mT[: shape[0]]
        flat.view(columns.shape).copy_(columns)
        return flat.mT, _outputs(layer, d)

    def spread(self, layer: Any) -> float:
        """The root of the number of positions that see one number of the input, at most."""
        sides = zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
        return sqrt(prod(ceil(k * gcd(stride, apart) / stride) for k, stride, apart in sides))

    def sizes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[int, int, int, int]:
        wide = a.shape[1] // layer.groups * prod(layer.kernel_size)
        return layer.groups, wide, d.shape[1] // layer.groups, prod(d.shape[2:])

    def weighted(self, layer: Any, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        return self._gradient(layer, a, scaled(d, weights))

    @staticmethod
    def _gradient(layer: Any, a: Tensor, d: Tensor) -> Tensor:
        if len(d) == 0:
            return torch.zeros_like(layer.weight)
        settings: Any = (layer.stride, _padding(layer), layer.dilation, layer.groups)
        return conv2d_weight(a, layer.weight.shape, d, *settings)

    def bias(self, layer: Any, d: Tensor) -> Tensor:
        return d.sum((2, 3))


def _outputs(layer: Any, d: Tensor) -> Tensor:
    return d.reshape(-1, d.shape[1] // layer.groups, d.shape[2] * d.shape[3])


def _padding(layer: Any) -> tuple[int, ...]:
    """The padding that is left to do after `features`."""
    if layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
        return tuple(layer.padding)
    return 0, 0


class ConvTranspose2d(Conv2d):
    """A transposed convolution: the convolution that takes its output back to its input.

    So features and output gradients change places: the weight is (in, out / groups, ...).
    """

    def refused(self, layer: Any) -> str | None:
        more = any(p >= s for p, s in zip(layer.output_padding, layer.stride, strict=True))
        return "its output_padding is not below its stride" if more else None

    def features(self, layer: Any, inputs: Tensor) -> Tensor:
        return inputs

    def columns(self, layer: Any, a: Tensor, d: Tensor) -> Pass:
        return super().columns(layer, d, a)

    def unordered(self, layer: Any, a: Tensor, d: Tensor, old: Tensor | None) -> Pass:
        return super().unordered(layer, d, a, old)

    def sizes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[int, int, int, int]:
        return super().sizes(layer, d, a)

    def weighted(self, layer: Any, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        return self._gradient(layer, d, scaled(a, weights))


class Affine(Kind):
    """Scale and shift of examples normalised apart: y = weight * normalised + bias."""

    def features(self, layer: Any, inputs: Tensor) -> Tensor:
        if isinstance(layer, nn.LayerNorm):
            return functional.layer_norm(inputs, list(layer.normalized_shape), eps=layer.eps)
        if isinstance(layer, nn.GroupNorm):
            return functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
        return functional.instance_norm(inputs, eps=layer.eps)

    def _over(self, layer: Any, products: Tensor) -> Tensor:
        """Products (batch, ...) summed to (batch, *weight.shape)."""
        batch, *shape = products.shape
        if isinstance(layer, nn.LayerNorm):
            weight = layer.normalized_shape
            return products.reshape(batch, prod(shape[: -len(weight)]), *weight).sum(1)
        return products.reshape(batch, shape[0], prod(shape[1:])).sum(2)

    def norms(self, layer: Any, passes: Sequence[Pass]) -> Tensor:
        return lengths(self.each(layer, passes))

    def weighted(self, layer: Any, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        return self.weighted_sum(layer, [(a, d)], weights)

    def weighted_sum(self, layer: Any, passes: Sequence[Pass], weights: Tensor) -> Tensor:
        # of what norms are taken of
        return torch.tensordot(weights, self.each(layer, passes), 1)

    def each(self, layer: Any, passes: Sequence[Pass]) -> Tensor:
        return torch.stack([self._over(layer, a * d) for a, d in passes]).sum(0)

    def bias(self, layer: Any, d: Tensor) -> Tensor:
        return self._over(layer, d)


class Embedding(Kind):
    """Rows of a table (entries, features), by indices: no bias, no gradient at the input."""

    def refused(self, layer: Any) -> str | None:
        if layer.scale_grad_by_freq:
            return (
                "scale_grad_by_freq makes a gradient depend on the other examples of the batch"
            )
        return None

    def _rows(self, layer: Any, passes: Sequence[Pass]) -> tuple[Tensor, Tensor]:
        """Indices (batch, positions) and gradients (batch, positions, features) of all passes."""
        indices = torch.cat([a.reshape(len(a), prod(a.shape[1:])) for a, _ in passes], 1)
        parts = [d.reshape(len(d), prod(d.shape[1:-1]), d.shape[-1]) for _, d in passes]
        rows = torch.cat(parts, 1)
        if layer.padding_idx is not None:
            rows = rows * (indices != layer.padding_idx).unsqueeze(2)
        return indices, rows

    def norms(self, layer: Any, passes: Sequence[Pass]) -> Tensor:
        indices, rows = self._rows(layer, passes)
        same = indices.unsqueeze(1) == indices.unsqueeze(2)
        if waits_for(rows):
            return rounded_up(*unseen(*_by_entry(rows.double(), same), rows.dtype))
        squares, reach = _by_entry(rows, same)
        if (poor := ~(squares >= DIGITS * reach)).any():
            for few in poor.nonzero()[:, 0].split(1):
                full = self.each(layer, [(a[few], d[few]) for a, d in passes])
                squares[few] = torch.linalg.vector_norm(full).square()
        return rounded_up(squares, reach)

    def weighted(self, layer: Any, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        indices, rows = self._rows(layer, [(a, d)])
        total = torch.zeros_like(layer.weight)
        return total.index_add_(
            0, indices.flatten(), (rows * weights[:, None, None]).flatten(0, 1)
        )

    def each(self, layer: Any, passes: Sequence[Pass]) -> Tensor:
        indices, rows = self._rows(layer, passes)
        full = rows.new_zeros(len(rows), *layer.weight.shape)
        return full.scatter_add_(1, indices.unsqueeze(2).expand_as(rows), rows)


def _by_entry(rows: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """Squared norms of each entry's sum of rows (batch, positions, features); reach."""
    squares = ((rows @ rows.mT) * same).sum((1, 2))
    return squares, torch.linalg.vector_norm(rows, dim=2).sum(1).square()


KINDS: dict[type[nn.Module], Kind] = {
    nn.Linear: LinearLayer(),
    nn.Conv2d: Conv2d(),
    nn.ConvTranspose2d: ConvTranspose2d(),
    nn.Embedding: Embedding(),
    **dict.fromkeys((nn.LayerNorm, nn.GroupNorm), Affine()),
    **dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), Affine()),
}

"""Movement: other views of the same elements, and what is built from views (padding, joining, windows).

As in PyTorch, `view`, `expand`, `permute`, `transpose`, `squeeze`, `shrink`, `split` and their like alias:
an assignment to one is seen by the other. `reshape` aliases where strides allow it. `flip`, `pad`, `cat` and
the like are new arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Self, cast

from tiny_core import dtypes
from tiny_core.dtypes import Number
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor import strides
from tiny_core.tensor.activations import Activations
from tiny_core.tensor.elementwise import number
from tiny_core.tensor.handle import Handle, as_int, as_tensor, promote
from tiny_core.tensor.lines import user_line

Pair = tuple[int, int]
Padding = int | Sequence[int] | Sequence[Pair | None]


def dims_of(shape: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Accept a shape as several integers or as one sequence; a None stays. Raises DTypeError."""
    dims: Iterable[object] = shape
    if len(shape) == 1 and isinstance(shape[0], Iterable) and not isinstance(shape[0], str):
        dims = shape[0]
    sizes = tuple([d if d is None or type(d) is int else as_int("shape", d) for d in dims])
    return cast("tuple[int, ...]", sizes)


def _list_of(what: str, given: object) -> list[object]:
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise DTypeError(
            f"{what}: {given!r} of type {type(given).__name__}", "give a list with an item an axis"
        )
    return list(given)


def _pair(what: str, pair: object) -> Pair:
    ends = _list_of(what, pair)
    if len(ends) != 2:
        raise ShapeError(f"{what}: {pair!r}", "a pair has two integers")
    return as_int(what, ends[0]), as_int(what, ends[1])


_PAD_MODES = ("constant", "reflect", "replicate", "circular")


def _continued(x: UOp, pairs: tuple[Pair, ...], mode: str) -> UOp:
    """Pad with elements of x."""
    for axis, (before, after) in enumerate(pairs):
        n = x.shape[axis]
        if not before and not after:
            continue
        if (
            max(before, after)
            > {"reflect": n - 1, "circular": n, "replicate": before + after if n else 0}[mode]
        ):
            raise ShapeError(f"pad: ({before}, {after}) in mode {mode!r} around the {n} of axis {axis}",
                             "there are not enough elements to pad with")  # fmt: skip
        at = g.scalar_op(Ops.SUB, g.iota(before + n + after, dtypes.int32), before)
        if mode == "circular":
            at = g.scalar_op(Ops.FLOORMOD, at, n)
        elif mode == "replicate":
            at = g.alu(Ops.MIN, g.alu(Ops.MAX, at, g.const_like(0, at)), g.const_like(n - 1, at))
        else:
            at = g.alu(Ops.MAX, at, g.scalar_op(Ops.MUL, at, -1))
            at = g.alu(Ops.MIN, at, g.alu(Ops.SUB, g.const_like(2 * (n - 1), at), at))
        x = g.along(x, axis, before + n + after, at)
    return x


class Movement(Activations):
    """Views, and arrays built from them."""

    __slots__ = ()

    # ---- shapes -------------------------------------------------------------------------------------------

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """The same elements in row-major order; one size may be -1, and None keeps the size in that place.

        It aliases this array where its strides allow it, and is a new array elsewhere. `view` is the same.

        Raises:
            ShapeError: the sizes do not multiply to the number of elements.

        >>> Tensor.arange(6).reshape(2, -1).tolist()
        [[0, 1, 2], [3, 4, 5]]
        """
        new = self._resolve("reshape", dims_of(shape))
        base = self.uop
        node = g.reshape(base, new)
        if node is base:
            return self._view(node, base)
        have = strides.of_view(self._cell.value.shape, self._chain)
        if have is None or strides.reshaped(self.shape, have, new) is None:
            return self._from_node(node, self._cell.device)
        return self._view(node, base)

    view = reshape

    def _resolve(self, what: str, dims: tuple[int, ...]) -> tuple[int, ...]:
        have = self.shape
        sizes = [have[i] if d is None and i < len(have) else d for i, d in enumerate(dims)]
        known = math.prod(d for d in sizes if d != -1)
        if sizes.count(-1) == 1 and known and self.numel() % known == 0:
            sizes[sizes.index(-1)] = self.numel() // known
        if any(d is None or d < 0 for d in sizes) or math.prod(sizes) != self.numel():
            raise ShapeError(
                f"{what}: cannot turn {have} ({self.numel()} elements) into {dims}",
                "sizes must multiply to the number of elements; one of them may be -1",
            )
        return tuple(sizes)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Make one axis of `start_dim` … `end_dim`; raises ShapeError if they are not in this order."""
        if not self.shape:
            return self.reshape(1)
        first, last = self._axis("flatten", start_dim), self._axis("flatten", end_dim)
        if first > last:
            raise ShapeError(
                f"flatten: start_dim {start_dim} is after end_dim {end_dim}", f"shape {self.shape}"
            )
        n = math.prod(self.shape[first : last + 1])
        return self.reshape(*self.shape[:first], n, *self.shape[last + 1 :])

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Make several axes of one; a size may be -1.

        Raises:
            ShapeError: the sizes do not multiply to the length of the axis.
        """
        axis = self._axis("unflatten", dim)
        known = math.prod(s for s in sizes if s != -1)
        parts = [self.shape[axis] // known if s == -1 and known else s for s in sizes]
        if math.prod(parts) != self.shape[axis]:
            raise ShapeError(
                f"unflatten: axis {dim} of {self.shape} into {tuple(sizes)}", "sizes must multiply to it"
            )
        return self.reshape(*self.shape[:axis], *parts, *self.shape[axis + 1 :])

    def squeeze(self, dim: int | None = None) -> Self:
        """Drop axes of length 1: all, or `dim` if it is one (it stays if it is longer). A view."""
        if dim is None:
            return self.reshape(tuple(n for n in self.shape if n != 1))
        if not self.shape and dim in (0, -1):
            return self._over(self._cell, self._chain, user_line())
        axis = self._axis("squeeze", dim)
        return self.reshape(tuple(n for i, n in enumerate(self.shape) if i != axis or n != 1))

    def unsqueeze(self, dim: int) -> Self:
        """A new axis of length 1, in place `dim` of the result. A view."""
        axis = self._axis("unsqueeze", dim, self.ndim + 1)
        return self.reshape(*self.shape[:axis], 1, *self.shape[axis:])

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Repeat axes of length 1 without copying; new axes lead, and -1 keeps a size. A view, which cannot
        be assigned to.

        Raises:
            ShapeError: an axis is neither 1 nor of the size asked for.

        >>> Tensor([[1], [2]]).expand(2, 3).tolist()
        [[1, 1, 1], [2, 2, 2]]
        """
        dims = dims_of(shape)
        lead = len(dims) - self.ndim
        new = tuple(self.shape[i - lead] if d in (-1, None) and i >= lead else d for i, d in enumerate(dims))
        if (
            lead < 0
            or any(n not in (1, d) for n, d in zip(self.shape, new[lead:], strict=True))
            or min(new, default=0) < 0
        ):
            raise ShapeError(
                f"expand: {self.shape} does not expand to {dims}",
                "an axis must be 1 or keep its size; new axes lead",
            )
        base = self.uop
        return self._view(g.expand(base, new), base)

    def permute(self, *order: int | Sequence[int]) -> Self:
        """Axes in another order: axis i of the result is axis order[i]. A view.

        Raises:
            ShapeError: the order does not name each axis once.

        >>> Tensor.empty(2, 3, 4).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        axes = self._axes("permute", dims_of(order))
        if len(axes) != self.ndim:
            raise ShapeError(
                f"permute: order {axes} for shape {self.shape}", f"name each of the {self.ndim} axes once"
            )
        base = self.uop
        return self._view(g.permute(base, axes), base)

    def transpose(self, dim0: int = 1, dim1: int = 0) -> Self:
        """Swap two axes. A view; raises ShapeError for an axis that is not there."""
        order = list(range(self.ndim))
        a, b = self._axis("transpose", dim0), self._axis("transpose", dim1)
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    @property
    def T(self) -> Self:  # noqa: N802 - the field's name for it
        """The transpose of a matrix (the first two axes of more swapped); raises ShapeError for fewer."""
        return self.transpose()

    def flip(self, axis: int | Sequence[int], *more: int) -> Self:
        """Reverse axes; a new array, as in PyTorch.

        >>> Tensor([1, 2, 3]).flip(0).tolist()
        [3, 2, 1]
        """
        first = tuple(axis) if isinstance(axis, Iterable) else (axis,)
        axes = self._axes("flip", (*first, *more))
        return self._from_node(g.flip(self.uop, axes), self._cell.device)

    def shrink(self, arg: Sequence[Pair | None]) -> Self:
        """A part of each axis, as (begin, end); None keeps it whole. A view.

        Raises:
            ShapeError: there is not a pair for each axis, or one is out of bounds.

        >>> Tensor.arange(5).shrink([(1, 3)]).tolist()
        [1, 2]
        """
        given = _list_of("shrink", arg)
        pairs = tuple(
            (0, n) if q is None else _pair("shrink", q) for q, n in zip(given, self.shape, strict=False)
        )
        if len(given) != self.ndim or any(
            not 0 <= a <= b <= n for (a, b), n in zip(pairs, self.shape, strict=True)
        ):
            raise ShapeError(
                f"shrink: {given} of shape {self.shape}", "one (begin, end) within bounds for each axis"
            )
        base = self.uop
        return self._view(g.shrink(base, pairs), base)

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts along `dim`: of `sizes` each (the last may be shorter), or of these sizes. Views.

        Raises:
            ShapeError: the sizes do not add up to the length of the axis.

        >>> [t.tolist() for t in Tensor.arange(5).split(2)]
        [[0, 1], [2, 3], [4]]
        """
        axis = self._axis("split", dim)
        n = self.shape[axis]
        parts = (
            [min(sizes, n - i) for i in range(0, max(n, 1), max(sizes, 1))]
            if isinstance(sizes, int)
            else [as_int("split", n) for n in _list_of("split", sizes)]
        )
        if sum(parts) != n or min(parts, default=-1) < 0 or (isinstance(sizes, int) and sizes < 1):
            raise ShapeError(f"split: axis {dim} of {self.shape} into {sizes}", f"sizes must add up to {n}")
        out, begin = [], 0
        for part in parts:
            out.append(self._part(axis, begin, begin + part))
            begin += part
        return tuple(out)

    def chunk(self, chunks: int, dim: int = 0) -> list[Self]:
        """At most `chunks` parts along `dim`, equal but for the last. Views.

        Raises:
            ShapeError: `chunks` is less than 1.
        """
        axis = self._axis("chunk", dim)
        chunks = as_int("chunk", chunks)
        if chunks < 1:
            raise ShapeError(f"chunk: into {chunks} parts", "at least 1")
        return list(self.split(max(1, -(-self.shape[axis] // chunks)), dim))

    def _part(self, axis: int, begin: int, end: int) -> Self:
        return self.shrink([(begin, end) if i == axis else None for i in range(self.ndim)])

    def unfold(self, dim: int, size: int, step: int) -> Self:
        """All windows of `size` along `dim`, `step` apart: the axis becomes their number, and a new last axis
        runs within one. A new array.

        Raises:
            ShapeError: no window fits.

        >>> Tensor.arange(6).unfold(0, 3, 2).tolist()
        [[0, 1, 2], [2, 3, 4]]
        """
        axis = self._axis("unfold", dim)
        n = self.shape[axis]
        if not 0 < size <= n or step < 1:
            raise ShapeError(
                f"unfold: windows of {size} every {step} along axis {dim} of {self.shape}", f"1 … {n} fit"
            )
        return self._from_node(g.windows(self.uop, axis, size, step), self._cell.device)

    # ---- new arrays ---------------------------------------------------------------------------------------

    def pad(self, padding: Padding, mode: str = "constant", value: Number = 0.0) -> Self:
        """A new array with `value` around this one. Negative padding cuts.

        Args:
            padding: flat (left, right, top, bottom, …) from the last axis on, or a (before, after) or None
                per axis; one number for all ends.
            mode: "constant"; or "reflect" (the elements mirrored at the first and last one), "replicate"
                (the first and last one again) or "circular" (the elements from the other end).
            value: what to pad with, for "constant".

        Raises:
            ShapeError: the padding does not fit the shape: "reflect" needs more elements than it adds at an
                end, "circular" as many.
            DTypeError: the mode is not known.

        >>> Tensor([[1, 2]]).pad((1, 0, 0, 1)).tolist()
        [[0, 1, 2], [0, 0, 0]]
        """
        value = number("pad", value)
        if mode not in _PAD_MODES:
            raise DTypeError(f"pad: mode {mode!r}", f"it is one of {', '.join(_PAD_MODES)}")
        pairs = self._pairs("pad", padding)
        x = self
        if any(a < 0 or b < 0 for a, b in pairs):
            x = x.shrink([(max(0, -a), n - max(0, -b)) for (a, b), n in zip(pairs, self.shape, strict=True)])
            pairs = tuple((max(a, 0), max(b, 0)) for a, b in pairs)
        if mode != "constant":
            return self._from_node(_continued(x.uop, pairs, mode), self._cell.device)
        return self._from_node(g.filled(x.uop, pairs, value), self._cell.device)

    def _pairs(self, what: str, padding: Padding) -> tuple[Pair, ...]:
        """Return (before, after) for each axis, from any of the ways to write a padding."""
        if isinstance(padding, int):
            padding = (padding,) * (2 * self.ndim)
        given = _list_of(what, padding)
        if all(isinstance(q, int) for q in given):
            flat = cast("list[int]", given)
            if len(flat) % 2 == 0 and len(flat) <= 2 * self.ndim:
                ends = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]
                return (*((0, 0),) * (self.ndim - len(ends)), *reversed(ends))
        elif len(given) == self.ndim and not any(isinstance(q, int) for q in given):
            return tuple((0, 0) if q is None else _pair(what, q) for q in given)
        raise ShapeError(
            f"{what}: padding {tuple(given)} for shape {self.shape}",
            f"give a pair (or None) for each of {self.ndim} axes, or flat pairs from the last axis on",
        )

    def cat(self, *others: Handle, dim: int = 0) -> Self:
        """Join along `dim`: a new array, of the dtype that all promote to.

        Raises:
            ShapeError: another axis differs.
            DeviceError: the tensors are on different devices.

        >>> Tensor.cat(Tensor([1, 2]), Tensor([3])).tolist()
        [1, 2, 3]
        """
        axis = self._axis("cat", dim)
        tensors: tuple[Handle, ...] = (self, *others)
        for t in others:
            as_tensor("cat", t)
            if t.ndim != self.ndim or any(
                a != b for i, (a, b) in enumerate(zip(self.shape, t.shape, strict=True)) if i != axis
            ):
                raise ShapeError(
                    f"cat along axis {dim}: shapes {', '.join(str(t.shape) for t in tensors)}",
                    "all axes but the one that is joined must be equal",
                )
        dtype = promote(*(t.dtype for t in tensors))
        total = sum(t.shape[axis] for t in tensors)
        shape = (*self.shape[:axis], total, *self.shape[axis + 1 :])
        node: UOp | None = None
        at = 0
        for t in tensors:
            n = t.shape[axis]
            if n == 0:
                continue
            pairs = tuple((at, total - at - n) if i == axis else (0, 0) for i in range(len(shape)))
            part = g.pad(g.cast(t.uop, dtype), pairs)
            if node is None:
                node = part
            else:
                place = g.iota_along(shape, axis)
                node = g.where(g.scalar_op(Ops.CMPLT, place, at), node, part)
            at += n
        result = g.cast(self.uop, dtype) if node is None else node
        return self._result("cat", result, *others)

    def stack(self, *others: Handle, dim: int = 0) -> Self:
        """Join along a new axis `dim`: a new array, of the dtype that all promote to.

        Raises:
            ShapeError: shapes differ.
            DeviceError: the tensors are on different devices.

        >>> Tensor.stack(Tensor([1, 2]), Tensor([3, 4]), dim=1).tolist()
        [[1, 3], [2, 4]]
        """
        for t in others:
            as_tensor("stack", t)
            if t.shape != self.shape:
                raise ShapeError(f"stack: shapes {self.shape} and {t.shape}", "shapes must be equal")
        tensors: tuple[Handle, ...] = (self, *others)
        line = [self._from_node(t.uop, t._cell.device).unsqueeze(dim) for t in tensors]
        return line[0].cat(*line[1:], dim=dim)

    def repeat(self, *repeats: int | Sequence[int]) -> Self:
        """Repeat the whole along each axis; new axes lead.

        Raises:
            ShapeError: there are fewer counts than axes, or one is negative.

        >>> Tensor([1, 2]).repeat(2, 2).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        times = dims_of(repeats)
        if len(times) < self.ndim or min(times, default=0) < 0:
            raise ShapeError(
                f"repeat: {times} for shape {self.shape}", f"at least {self.ndim} counts, none negative"
            )
        shape = (*(1,) * (len(times) - self.ndim), *self.shape)
        spaced = [d for n in shape for d in (1, n)]
        wide = [d for k, n in zip(times, shape, strict=True) for d in (k, n)]
        node = g.expand(g.reshape(self.uop, tuple(spaced)), tuple(wide))
        return self._from_node(
            g.reshape(node, tuple(k * n for k, n in zip(times, shape, strict=True))), self._cell.device
        )

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        """Repeat each element along `dim`, or of the flattened tensor.

        >>> Tensor([1, 2]).repeat_interleave(2).tolist()
        [1, 1, 2, 2]
        """
        x, axis = (self.flatten(), 0) if dim is None else (self, self._axis("repeat_interleave", dim))
        shape = x.shape
        node = g.expand(g.insert_axes(x.uop, (axis + 1,)), (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
        flat = g.reshape(node, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))
        return self._from_node(flat, self._cell.device)

    def roll(self, shifts: int, dims: int = 0) -> Self:
        """Shift along an axis; what leaves at one end enters at the other.

        >>> Tensor([1, 2, 3]).roll(1).tolist()
        [3, 1, 2]
        """
        axis = self._axis("roll", dims)
        n = self.shape[axis]
        at = shifts % n if n else 0
        return self._part(axis, n - at, n).cat(self._part(axis, 0, n - at), dim=axis)

    def tril(self, diagonal: int = 0) -> Self:
        """The part of the last two axes on and below a diagonal; zeros elsewhere.

        Args:
            diagonal: 0 is the main one; positive ones lie above it.

        Raises:
            ShapeError: there are fewer than two axes.

        >>> Tensor.ones(3, 3, dtype="int32").tril(-1).tolist()
        [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
        """
        return self._triangle("tril", diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Self:
        """The part of the last two axes on and above a diagonal; zeros elsewhere. See `tril`."""
        return self._triangle("triu", diagonal, lower=False)

    def _triangle(self, what: str, diagonal: int, lower: bool) -> Self:
        if self.ndim < 2:
            raise ShapeError(f"{what} of a tensor of shape {self.shape}", "it needs at least two axes")
        shape = self.shape
        row, column = g.iota_along(shape, self.ndim - 2), g.iota_along(shape, self.ndim - 1)
        edge = g.scalar_op(Ops.ADD, row, diagonal)
        kept = g.alu(Ops.CMPLE, column, edge) if lower else g.alu(Ops.CMPLE, edge, column)
        return self._from_node(g.where(kept, self.uop, self._number(0)), self._cell.device)

    # ---- windows ------------------------------------------------------------------------------------------

    def _pool(self, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> UOp:
        """Windows over the last axes: (…, size…) to (…, windows…, kernel…), as a node.

        Windows that tile their axis are a RESHAPE; others are EXPAND and SHEAR, whose gradient is UNSHEAR
        and a sum.
        """
        n, x = len(kernel), self.uop
        lead, sizes = x.shape[:-n], x.shape[-n:]
        counts = [
            (i - d * (k - 1) - 1) // s + 1 for i, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
        ]
        if min(counts) < 1:
            raise ShapeError(
                f"window of {tuple(kernel)} (dilation {tuple(dilation)}) over {sizes}",
                "it is larger than the padded input",
            )
        first = len(lead)
        if all(d == 1 and k == s for k, s, d in zip(kernel, stride, dilation, strict=True)):
            whole = tuple((0, i) for i in lead) + tuple(
                (0, c * k) for c, k in zip(counts, kernel, strict=True)
            )
            parts = tuple(v for c, k in zip(counts, kernel, strict=True) for v in (c, k))
            x = g.reshape(g.shrink(x, whole), lead + parts)
            order = (*range(first), *range(first, first + 2 * n, 2), *range(first + 1, first + 2 * n, 2))
            return g.permute(x, order)
        x = g.expand(g.insert_axes(x, range(first + n, first + 2 * n)), (*lead, *sizes, *kernel))
        for i in range(n):
            x = g.shear(x, first + i, first + n + i, stride[i], dilation[i], counts[i])
        return x

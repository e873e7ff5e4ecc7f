"""Sorting by a network, and binary search.

Elements are compared by integer keys of the same order, so that signed zeros and NaN (greater than
everything, as in PyTorch) need no care later, and by their places where keys are equal, so that these keep
their order.
The network is bitonic (Batcher: Sorting networks and their applications, AFIPS 1968): log(n)·(log(n) + 1) / 2
steps for n elements, each of which compares every element with one partner and is a kernel that streams.
"""

from __future__ import annotations

from typing import Self

from tiny_core import dtypes
from tiny_core.errors import ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.handle import Handle, as_int, as_tensor
from tiny_core.tensor.scan import Scans


class Sorting(Scans):
    """Order."""

    __slots__ = ()

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """The elements along `dim` in order, and the index (int32) that each had; equal elements keep their
        order. NaN is greater than everything.

        Raises:
            ShapeError: there is no such axis.

        >>> [t.tolist() for t in Tensor([3, 1, 2, 1]).sort()]
        [[1, 1, 2, 3], [1, 3, 2, 0]]
        """
        if not self.shape:
            self._axis("sort", dim, 1)
            return self, self._from_node(g.const(0, dtypes.int32), self._cell.device)
        axis = self._axis("sort", dim)
        order = (*(a for a in range(self.ndim) if a != axis), axis)
        back = tuple(order.index(a) for a in range(self.ndim))
        moved = self.permute(order)
        places = sorted_places(_keys(moved.uop, descending))
        values = self._from_node(_take(moved.uop, places), self._cell.device)
        indices = self._from_node(places, self._cell.device)
        return values.permute(back), indices.permute(back)

    def argsort(self, dim: int = -1, descending: bool = False) -> Self:
        """The indices (int32) of the elements along `dim` in order; see `sort`."""
        return self.sort(dim, descending)[1]

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> tuple[Self, Self]:
        """The `k` greatest (or least) elements along `dim` in order, and the index (int32) of each.

        Args:
            k: how many.
            dim: the axis.
            largest: whether the greatest are wanted.
            sorted_: accepted; the result is sorted in any case.

        Raises:
            ShapeError: the axis has fewer elements, or there is no such axis.

        >>> [t.tolist() for t in Tensor([3, 1, 2]).topk(2)]
        [[3, 2], [0, 2]]
        """
        n = self.shape[self._axis("topk", dim)] if self.shape else 1
        if not 0 <= (count := as_int("topk", k)) <= n:
            raise ShapeError(f"topk: {k} of the {n} along axis {dim} of {self.shape}", f"0 … {n}")
        values, indices = self.sort(dim, descending=largest)
        if not self.shape:
            return values, indices
        axis = self._axis("topk", dim)
        return values._part(axis, 0, count), indices._part(axis, 0, count)

    def searchsorted(self, values: Handle, right: bool = False) -> Self:
        """How many elements along the last axis, which is in order, are less than each of `values` (or not
        greater, with `right`): where it would have to be inserted (int32).

        Args:
            values: their last axis is of any length; other axes are those of this tensor, or this tensor has
                one axis only.
            right: whether equal elements are to the left.

        Raises:
            ShapeError: other axes differ.

        >>> Tensor([1, 3, 5]).searchsorted(Tensor([3, 4])).tolist()
        [1, 2]
        """
        as_tensor("searchsorted", values)
        if not self.shape or (self.ndim > 1 and self.shape[:-1] != values.shape[:-1]):
            raise ShapeError(
                f"searchsorted: values of shape {values.shape} in {self.shape}",
                "axes but the last must be equal, or this must have one axis",
            )
        dtype = dtypes.promote(self.dtype, values.dtype)
        rows = _keys(g.cast(self.uop, dtype), False)
        wanted = _keys(g.cast(values.uop, dtype), False)
        return self._result("searchsorted", search(rows, wanted, right), values)


def _keys(x: UOp, descending: bool) -> UOp:
    """Signed integers in the order of the elements; equal for -0.0 and 0.0, and for every NaN."""
    dtype = x.dtype
    if dtype.is_float:
        wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
        of = dtypes.int64 if wide is dtypes.float64 else dtypes.int32
        x = g.cast(x, wide)
        zero, nan = g.const_like(0.0, x), g.const_like(float("nan"), x)
        x = g.where(g.alu(Ops.CMPEQ, x, zero), zero, g.where(g.alu(Ops.CMPNE, x, x), nan, x))
        bits = UOp(Ops.BITCAST, of, (x,))
        flipped = g.scalar_op(Ops.XOR, bits, of.max)
        keys = g.where(g.scalar_op(Ops.CMPLT, bits, 0), flipped, bits)
    elif dtype.is_unsigned and dtype.bits >= 32:
        of = dtypes.int64 if dtype.bits == 64 else dtypes.int32
        keys = g.scalar_op(Ops.XOR, UOp(Ops.BITCAST, of, (x,)), of.min)
    else:
        keys = x if dtype.is_int and dtype.bits >= 32 else g.cast(x, dtypes.int32)
    return g.scalar_op(Ops.XOR, keys, -1) if descending else keys


def sorted_places(keys: UOp) -> UOp:
    """Return the places (int32) along the last axis of the keys in order, equal ones in theirs."""
    lead, n = keys.shape[:-1], keys.shape[-1]
    if keys.size == 0 or n == 1:
        return g.const(0, dtypes.int32, keys.shape)
    total = 1 << (n - 1).bit_length()
    rows = (*lead, total)
    pairs = (*((0, 0),) * len(lead), (0, total - n))
    if total > n:  # what is added is greatest, and comes after its equals
        inside = g.pad(g.const(True, dtypes.bool_, keys.shape), pairs)
        padded = g.pad(keys, pairs)
        keys = g.where(inside, padded, g.const_like(keys.dtype.max, padded))
    place = g.iota_along(rows, len(lead))
    if keys.dtype is dtypes.int32:  # key and place in one number: a comparison is a minimum
        high = g.scalar_op(Ops.SHL, g.cast(keys, dtypes.int64), 32)
        (both,) = _network((g.alu(Ops.OR, high, g.cast(place, dtypes.int64)),))
        place = g.cast(both, dtypes.int32)
    else:
        _, place = _network((keys, place))
    return g.shrink(place, (*((0, s) for s in lead), (0, n)))


def _network(parts: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """Sort the last axis, of a power of two, of numbers made of these parts, the first weighing most."""
    *lead, n = parts[0].shape
    parts = tuple(map(_stored, parts))
    size = 1
    while size < n:
        # the first step compares mirror images, so that all blocks are sorted alike
        parts = _compared(parts, (*lead, n // (2 * size), 2, size), mirrored=True)
        step = size // 2
        while step:
            parts = _compared(parts, (*lead, n // (2 * step), 2, step), mirrored=False)
            step //= 2
        size *= 2
    return parts


def _compared(parts: tuple[UOp, ...], shape: tuple[int, ...], mirrored: bool) -> tuple[UOp, ...]:
    """Put the lesser of each element and its partner in the other half in the first half of each block."""
    flat, half = parts[0].shape, len(shape) - 2
    mine = [g.reshape(x, shape) for x in parts]
    other = [g.flip(x, (half, half + 1) if mirrored else (half,)) for x in mine]
    first = g.scalar_op(Ops.CMPEQ, g.iota_along(shape, half), 0)
    if len(parts) == 1:
        low, high = g.alu(Ops.MIN, mine[0], other[0]), g.alu(Ops.MAX, mine[0], other[0])
        chosen = [g.where(first, low, high)]
    else:
        (a, i), (b, j) = mine, other
        less = g.alu(
            Ops.OR, g.alu(Ops.CMPLT, a, b), g.alu(Ops.AND, g.alu(Ops.CMPEQ, a, b), g.alu(Ops.CMPLT, i, j))
        )
        keep = g.alu(Ops.CMPEQ, less, first)
        chosen = [g.where(keep, x, y) for x, y in zip(mine, other, strict=True)]
    return tuple(_stored(g.reshape(x, flat)) for x in chosen)


def _stored(x: UOp) -> UOp:
    return UOp(Ops.CONTIGUOUS, x.dtype, (x,))


def _halfway(low: UOp, high: UOp) -> UOp:
    return g.scalar_op(Ops.SHR, g.alu(Ops.ADD, low, high), 1)


def _take(x: UOp, index: UOp) -> UOp:
    """Elements along the last axis: out[…, k] = x[…, index[…, k]]."""
    last = len(index.shape) - 1
    return g.gather(x, [*(g.iota_along(index.shape, a) for a in range(last)), index])


def search(rows: UOp, wanted: UOp, right: bool) -> UOp:
    """How many keys along the last axis, which is in order, are less than each wanted one, or not greater
    (int32)."""
    n = rows.shape[-1]
    low = g.const(0, dtypes.int32, wanted.shape)
    high = g.const_like(n, low)
    for _ in range(n.bit_length()):
        middle = _halfway(low, high)
        there = _take(rows, middle) if len(rows.shape) == len(wanted.shape) > 1 else g.gather(rows, [middle])
        before = g.alu(Ops.CMPLE, there, wanted) if right else g.alu(Ops.CMPLT, there, wanted)
        searching = g.alu(Ops.CMPLT, low, high)
        up = g.alu(Ops.AND, searching, before)
        low, high = (
            g.where(up, g.scalar_op(Ops.ADD, middle, 1), low),
            g.where(up, high, g.where(searching, middle, high)),
        )
    return low

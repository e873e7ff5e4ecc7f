"""Scans: running sums, products and extremes along an axis.

A scan of a long axis is one of blocks: each element combines the part of its block that ends with it, and
what the blocks before come to, which is a scan of as many elements as there are blocks. So a scan of n
elements takes BLOCK·n operations in about log(n)/log(BLOCK) steps, and the order of operations is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

from tiny_core import dtypes
from tiny_core.dtypes import Number
from tiny_core.ir.ops import Ops
from tiny_core.tensor import graph as g
from tiny_core.tensor.ordering import BLOCK
from tiny_core.tensor.reduce import Reductions


class Scans(Reductions):
    """Running results."""

    __slots__ = ()

    def cumsum(self, axis: int = 0) -> Self:
        """Sums of all elements up to each one along `axis`; dtypes as `sum`.

        Raises:
            ShapeError: there is no such axis.

        >>> Tensor([1, 2, 3, 4]).cumsum().tolist()
        [1, 3, 6, 10]
        """
        return self._accumulated("cumsum", Ops.ADD, axis)

    def cumprod(self, axis: int = 0) -> Self:
        """Products of all elements up to each one along `axis`; dtypes as `prod`.

        >>> Tensor([1, 2, 3, 4]).cumprod().tolist()
        [1, 2, 6, 24]
        """
        return self._accumulated("cumprod", Ops.MUL, axis)

    def cummax(self, axis: int = 0) -> tuple[Self, Self]:
        """The greatest of all elements up to each one along `axis`, and the index (int32) of the last element
        that is; once there is a NaN it stays.

        >>> [t.tolist() for t in Tensor([1, 3, 2, 3, 0]).cummax()]
        [[1, 3, 3, 3, 3], [0, 1, 1, 3, 3]]
        """
        return self._running("cummax", Ops.MAX, axis)

    def cummin(self, axis: int = 0) -> tuple[Self, Self]:
        """The least of all elements up to each one along `axis`, and the index (int32) of the last element
        that is. As `cummax` otherwise."""
        return self._running("cummin", Ops.MIN, axis)

    def logcumsumexp(self, axis: int = 0) -> Self:
        """log(cumsum(exp(x))) along `axis`, without overflow; integers give float32."""
        x, dtype = self._computed_in()

        def reduce(windows: Self) -> Self:
            return windows.logsumexp(-1)

        def combine(a: Self, b: Self) -> Self:
            return a.logaddexp(b)

        return x._scan("logcumsumexp", axis, reduce, combine, -math.inf).cast(dtype)

    def _accumulated(self, what: str, op: Ops, axis: int) -> Self:
        inner = g.accumulator(self.dtype)
        result = self.dtype if self.dtype.is_float else inner
        return self.cast(inner)._scanned(what, op, axis).cast(result)

    def _running(self, what: str, op: Ops, axis: int) -> tuple[Self, Self]:
        x = self.cast(dtypes.int32) if self.dtype is dtypes.bool_ else self
        best = x._scanned(what, op, axis)
        here = x == best._detached()
        if x.dtype.is_float:
            here = here | x.isnan()
        place = self._from_node(
            g.iota_along(self.shape, self._axis(what, axis)) if self.shape else g.const(0, dtypes.int32)
        )
        last = here.where(place, 0).cast(dtypes.int32)._scanned(what, Ops.MAX, axis)
        return best.cast(self.dtype), last

    def _scanned(self, what: str, op: Ops, axis: int) -> Self:
        """The scan by an operation that reduces."""

        def reduce(windows: Self) -> Self:
            return windows._reduce(what, op, -1, False, windows.dtype, windows.dtype)

        def combine(a: Self, b: Self) -> Self:
            return self._from_node(g.alu(op, a.uop, g.expand(b.uop, a.shape)), a._cell.device)

        return self._scan(what, axis, reduce, combine, g.identity(op, self.dtype))

    def _scan(
        self,
        what: str,
        axis: int,
        reduce: Callable[[Self], Self],
        combine: Callable[[Self, Self], Self],
        identity: Number,
    ) -> Self:
        """The scan along `axis`: `reduce` combines the last axis of windows, `combine` two values of which
        the second, of the blocks before, may have to be broadcast."""
        if not self.shape:
            self._axis(what, axis, 1)
            return self
        at = self._axis(what, axis)
        order = (*(a for a in range(self.ndim) if a != at), at)
        moved = self.permute(order)._scan_last(reduce, combine, identity)
        return moved.permute(tuple(order.index(a) for a in range(self.ndim)))

    def _scan_last(
        self, reduce: Callable[[Self], Self], combine: Callable[[Self, Self], Self], identity: Number
    ) -> Self:
        lead, n = self.shape[:-1], self.shape[-1]
        if self.numel() == 0:
            return self
        size = min(n, BLOCK)
        count = -(-n // size)
        blocks = self._padded(0, count * size - n, identity).reshape(*lead, count, size)
        inside = reduce(blocks._padded(size - 1, 0, identity).unfold(-1, size, 1))
        if count > 1:
            whole = inside._part(inside.ndim - 1, size - 1, size).reshape(*lead, count)
            before = whole._scan_last(reduce, combine, identity)
            before = before._part(before.ndim - 1, 0, count - 1)._padded(1, 0, identity)
            inside = combine(inside, before.unsqueeze(-1))
        flat = inside.reshape(*lead, count * size)
        return flat._part(flat.ndim - 1, 0, n)

    def _padded(self, before: int, after: int, value: Number) -> Self:
        """With so many elements of this value before and after along the last axis."""
        return self.pad((before, after), value=value) if before or after else self

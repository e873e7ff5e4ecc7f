"""Scattering: elements put, or reduced, where an index tensor says; and what a mask selects.

Elements are sorted by where they go, so that those of one place are neighbours: nothing is written twice, the
result does not depend on who comes first, and n elements take n·log(n) steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

from tiny_core import dtypes
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.elementwise import Operand
from tiny_core.tensor.handle import Handle, as_tensor
from tiny_core.tensor.index import Indexing, wrapped
from tiny_core.tensor.ordering import last_by_key, sums_by_key, take

_REDUCTIONS = {"sum": Ops.ADD, "prod": Ops.MUL, "mean": Ops.ADD, "amax": Ops.MAX, "amin": Ops.MIN}


class Scattering(Indexing):
    """The reverse of gathering."""

    __slots__ = ()

    def scatter(self, dim: int, index: Handle, src: Operand, reduce: str | None = None) -> Self:
        """A copy in which, for dim 1, out[i][index[i][j][k]][k] = src[i][j][k], and so on.

        Args:
            dim: the axis that is indexed.
            index: integers, of this rank; negative ones count from the end, others out of range are left
                out. Of several elements for one place the last one stays.
            src: a number, or a tensor at least as long as the index along every axis.
            reduce: "add" or "multiply" instead, as in `scatter_reduce`.

        Raises:
            ShapeError: the ranks differ, or the index is longer than this along another axis, or than src.
            DTypeError: the index is not of integers, or there is no such reduction.

        >>> Tensor([0, 0, 0, 0]).scatter(0, Tensor([2, 0]), Tensor([5, 6])).tolist()
        [6, 0, 5, 0]
        """
        names = {"add": "sum", "multiply": "prod"}
        if reduce is not None:
            if reduce not in names:
                raise DTypeError(f"scatter: reduce={reduce!r}", "it is 'add', 'multiply' or None")
            return self.scatter_reduce(dim, index, self._source(src, index), names[reduce])

        def put(values: UOp, keys: UOp, have: UOp) -> UOp:
            places, hit = last_by_key(keys, have.shape[1])
            return g.where(hit, take(values, places), have)

        return self._scattered("scatter", dim, index, self._source(src, index), put)

    def scatter_reduce(
        self, dim: int, index: Handle, src: Handle, reduce: str, include_self: bool = True
    ) -> Self:
        """A copy in which every place holds the reduction of all elements of src that the index sends there;
        see `scatter`.

        Args:
            dim: the axis that is indexed.
            index: integers, of this rank.
            src: what is reduced.
            reduce: "sum", "prod", "mean", "amax" or "amin".
            include_self: whether what this tensor holds there takes part; places that nothing is sent to
                keep it in any case.

        Raises:
            ShapeError, DTypeError: as `scatter`.

        >>> Tensor([1, 1, 1]).scatter_reduce(0, Tensor([0, 0, 2]), Tensor([5, 6, 7]), "sum").tolist()
        [12, 1, 8]
        """
        if reduce not in _REDUCTIONS:
            raise DTypeError(f"scatter_reduce: reduce={reduce!r}", f"it is one of {', '.join(_REDUCTIONS)}")
        op = _REDUCTIONS[reduce]

        def combine(values: UOp, keys: UOp, have: UOp) -> UOp:
            inner = g.accumulator(self.dtype) if self.dtype.is_float and op is Ops.ADD else self.dtype
            wide = g.cast(g.insert_axes(values, (2,)), inner)
            found, times = sums_by_key(op, wide, keys, have.shape[1])
            total = g.reshape(found, have.shape)
            hit = g.alu(Ops.CMPLT, g.const_like(0, times), times)
            old = g.cast(have, inner)
            result = g.alu(op, old, total) if include_self else total
            if reduce == "mean":
                number = g.cast(g.scalar_op(Ops.ADD, times, int(include_self)), inner)
                result = g.alu(Ops.DIV if inner.is_float else Ops.FLOORDIV, result, number)
            return g.where(hit, g.cast(result, self.dtype), have)

        return self._scattered("scatter_reduce", dim, index, as_tensor("scatter_reduce", src), combine)

    def _source(self, src: Operand, index: Handle) -> Handle:
        if isinstance(src, Handle):
            return src
        return self._from_node(g.const(src, self.dtype, as_tensor("scatter", index).shape))

    def _scattered(
        self, what: str, dim: int, index: Handle, src: Handle, put: Callable[[UOp, UOp, UOp], UOp]
    ) -> Self:
        """Bring `dim` to the end and all other axes together; `put` gets (rows, n) values and keys, and what
        the (rows, count) places hold."""
        axis = self._axis(what, dim)
        as_tensor(what, index)
        if not index.dtype.is_int:
            raise DTypeError(f"{what}: index of {index.dtype.name}", "indices are integers")
        wanted = index.shape
        if (
            len(wanted) != self.ndim
            or src.ndim != self.ndim
            or any(a > b for a, b in zip(wanted, src.shape, strict=True))
            or any(a > b for i, (a, b) in enumerate(zip(wanted, self.shape, strict=True)) if i != axis)
        ):
            raise ShapeError(
                f"{what} along axis {dim}: index of shape {wanted}, source of {src.shape}, for {self.shape}",
                "ranks must be equal; the index is no longer than the source, nor than this along other axes",
            )
        order = (*(a for a in range(self.ndim) if a != axis), axis)
        keys = g.permute(g.cast(wrapped(index.uop, self.shape[axis]), dtypes.int32), order)
        *lead, n = keys.shape
        rows, count = math.prod(lead), self.shape[axis]
        if rows * n == 0:
            return self._result(what, self.uop, index, src)
        values = g.permute(g.shrink(g.cast(src.uop, self.dtype), tuple((0, s) for s in wanted)), order)
        whole = g.permute(self.uop, order)
        part = (*((0, s) for s in lead), (0, count))
        have = g.reshape(g.shrink(whole, part), (rows, count))
        made = put(g.reshape(values, (rows, n)), g.reshape(keys, (rows, n)), have)
        made = g.reshape(made, (*lead, count))
        if tuple(lead) != whole.shape[:-1]:  # the index does not reach all rows
            pairs = (*((0, s - r) for s, r in zip(whole.shape, lead, strict=False)), (0, 0))
            reached = g.pad(g.const(True, dtypes.bool_, made.shape), pairs)
            made = g.where(reached, g.pad(made, pairs), whole)
        back = tuple(order.index(a) for a in range(self.ndim))
        return self._result(what, g.permute(made, back), index, src)

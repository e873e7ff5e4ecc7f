"""Sorting, the greatest few, and binary search."""

from __future__ import annotations

from typing import Self

from tiny_core import dtypes
from tiny_core.errors import ShapeError
from tiny_core.tensor import graph as g
from tiny_core.tensor.handle import Handle, as_int, as_tensor
from tiny_core.tensor.ordering import keys_of, search, sorted_places, take
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
        places = sorted_places(keys_of(moved.uop, descending))
        values = self._from_node(take(moved.uop, places), self._cell.device)
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
        rows = keys_of(g.cast(self.uop, dtype), False)
        wanted = keys_of(g.cast(values.uop, dtype), False)
        return self._result("searchsorted", search(rows, wanted, right), values)

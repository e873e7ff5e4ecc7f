"""Indexing: integers, slices with steps, None, Ellipsis, integer tensors, masks; assignment; gather.

What indexing with integers and slices gives is a view: it aliases, negative steps included. Integer tensors
gather: their result is a new array. Python indices are checked at the call; elements of an index tensor that
are out of range read 0, negative ones count from the end.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Self, TypeGuard

from tiny_core import dtypes
from tiny_core.errors import DTypeError, IndexOutOfRange, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.assign import Assignment
from tiny_core.tensor.elementwise import Operand
from tiny_core.tensor.handle import Handle, as_int, as_tensor
from tiny_core.tensor.ordering import key_of, last_by_key, search
from tiny_core.tensor.realize import engine

Item = int | slice | None | EllipsisType | Handle | Sequence[int]
Index = Item | tuple[Item, ...]


class Indexing(Assignment):
    """Parts of arrays."""

    __slots__ = ()

    def __getitem__(self, index: Index) -> Self:
        """A part: integers drop an axis, slices (of any step) keep it, None makes a new one of length 1, and
        ... stands for all axes not named: a view. Integer tensors and lists pick elements: a new array, in
        which elements out of range are 0 (under TINY_CHECK=1 an IndexError) and negative ones count from
        the end. Bool tensors pick the elements where they hold: it realizes them, to know how many.

        Raises:
            IndexOutOfRange: a Python integer is out of range, or there are more indices than axes.
            DTypeError: an index of another kind.
            ShapeError: a step of 0, or index tensors that do not broadcast.

        >>> x = Tensor([[1, 2, 3], [4, 5, 6]])
        >>> x[1, ::-1].tolist(), x[:, Tensor([0, 2])].tolist()
        ([6, 5, 4], [[1, 3], [4, 6]])
        """
        items = self._without_masks(index if isinstance(index, tuple) else (index,))
        base = self.uop
        view, tensors = self._slice(base, items)
        if not tensors:
            return self._view(view, base)
        return self._result("indexing", _pick(view, tensors), *(t for t in items if isinstance(t, Handle)))

    def __setitem__(self, index: Index, value: Operand | Sequence[float]) -> None:
        """Assign into the part that the index names, broadcasting and casting. Of several elements for one
        place the last one stays; integer tensors that are out of range name no place.

        Raises:
            ShapeError: the value does not broadcast to the part.

        >>> x = Tensor([1, 2, 3, 4])
        >>> x[Tensor([3, 0])] = Tensor([7, 8])
        >>> x[x == 3] = 0
        >>> x.tolist()
        [8, 2, 0, 7]
        """
        if not isinstance(value, (Handle, bool, int, float)):
            value = self._listed(value)
        whole = isinstance(index, Handle) and index.dtype is dtypes.bool_ and index.shape == self.shape
        if whole and (not isinstance(value, Handle) or value.numel() == 1):  # however many there are
            self._store_where(as_tensor("setitem", index), value)
            return
        items = self._without_masks(index if isinstance(index, tuple) else (index,))
        base = self.uop
        view, tensors = self._slice(base, items)
        target = self._view(view, base)
        device = self._cell.device
        if isinstance(value, Handle):
            node, device = g.cast(value.uop, self.dtype), self._common_device("setitem", value)
        else:
            node = g.const(value, self.dtype)
        target._store(_put(view, tensors, node) if tensors else node, device)

    def _store_where(self, mask: Handle, value: Operand) -> None:
        side = value
        if isinstance(value, Handle):
            one = g.reshape(g.cast(value.uop, self.dtype), ())
            side = self._from_node(one, value._cell.device)
        chosen = self._from_node(mask.uop, mask._cell.device).where(side, self)
        self._store(g.cast(chosen.uop, self.dtype), self._common_device("setitem", chosen))

    def __delitem__(self, index: Index) -> None:
        raise DTypeError("tensors have no deletable items", "take the parts to keep, and cat them")

    def __iter__(self) -> Iterator[Self]:
        """The parts along the first axis; raises ShapeError for a scalar."""
        if not self.shape:
            raise ShapeError("iteration over a tensor of shape ()", "a scalar has no axes; use .item()")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, x: object) -> bool:
        raise DTypeError("`in` on a tensor", "(tensor == x).any().item() says whether an element is equal")

    # ---- masks --------------------------------------------------------------------------------------------

    def nonzero(self) -> Self:
        """Indices (int32) of the elements that are not 0 in row-major order, of shape (how many, ndim). It
        realizes, as their number depends on data.

        >>> Tensor([[0, 5], [6, 0]]).nonzero().tolist()
        [[0, 1], [1, 0]]
        """
        columns = self._hits()
        count = columns[0].shape[0] if columns else int(self.cast(dtypes.bool_)._first_number())
        shape = (count, self.ndim)
        node = g.const(0, dtypes.int32, shape)
        for axis, column in enumerate(columns):
            line = g.expand(g.insert_axes(column.uop, (1,)), shape)
            node = g.where(g.scalar_op(Ops.CMPEQ, g.iota_along(shape, 1), axis), line, node)
        return self._from_node(node, self._cell.device)

    def masked_select(self, mask: Handle) -> Self:
        """The elements where the mask, which broadcasts with this, holds, in row-major order. It realizes, as
        their number depends on data.

        >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
        [1, 3]
        """
        as_tensor("masked_select", mask)
        shape = g.broadcast_shape("masked_select", self.shape, mask.shape)
        hits = self._from_node(g.expand(mask.uop, shape), mask._cell.device)
        return self.expand(shape)[hits] if shape else self.reshape(1)[hits.reshape(1)]

    def _hits(self) -> list[Self]:
        """The index along each axis of the elements that are not 0."""
        if not self.shape:
            return []
        flat = self.cast(dtypes.bool_).reshape(-1)
        if self.numel() == 0:
            at = g.const(0, dtypes.int32, (0,))
        else:
            upto = flat.cast(dtypes.int32).cumsum(0)
            upto.realize()
            count = int(upto._part(0, flat.numel() - 1, flat.numel()).reshape(())._first_number())
            at = (
                search(upto.uop, g.iota(count, dtypes.int32), right=True)
                if count
                else g.const(0, dtypes.int32, (0,))
            )
        columns: list[Self] = []
        for n in reversed(self.shape):
            column = at if len(columns) == self.ndim - 1 else g.scalar_op(Ops.IMOD, at, max(n, 1))
            columns.insert(0, self._from_node(column, self._cell.device))
            at = g.scalar_op(Ops.IDIV, at, max(n, 1))
        return columns

    def _first_number(self) -> int:
        """The value of an integer scalar; realizes."""
        return int.from_bytes(self._contents(engine().read_host), sys.byteorder, signed=self.dtype.is_int)

    def _without_masks(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Replace each mask by the indices of the elements where it holds."""
        if not any(isinstance(i, Handle) and i.dtype is dtypes.bool_ for i in items):
            return items
        used = [0 if i is None or i is Ellipsis else _axes_of(i) for i in items]
        out: list[Item] = []
        axis = 0
        for item, k in zip(items, used, strict=True):
            if isinstance(item, Handle) and item.dtype is dtypes.bool_:
                have = self.shape[axis : axis + k]
                if k == 0 or item.shape != have:
                    raise ShapeError(
                        f"mask of shape {item.shape} for axes {have} of a tensor of shape {self.shape}",
                        "a mask has the shape of the axes that it selects from",
                    )
                out += self._from_node(item.uop, item._cell.device)._hits()
            else:
                out.append(item)
            axis += self.ndim - sum(used) if item is Ellipsis else k
        return tuple(out)

    # ---- index lists --------------------------------------------------------------------------------------

    def _slice(self, base: UOp, items: Sequence[Item]) -> tuple[UOp, dict[int, UOp]]:
        """Apply what is not a tensor to this handle's node; return the view, and the index nodes by axis of
        it."""
        used = sum(1 for i in items if i is not None and i is not Ellipsis)
        if used > self.ndim or sum(1 for i in items if i is Ellipsis) > 1:
            raise IndexOutOfRange(
                f"{used} indices for a tensor of shape {self.shape}", "at most one per axis, and one Ellipsis"
            )
        rest = [slice(None)] * (self.ndim - used)
        full: list[Item] = []
        for item in items:
            full.extend(rest if item is Ellipsis else [item])
        if not any(i is Ellipsis for i in items):
            full.extend(rest)
        bounds: list[tuple[int, int]] = []
        steps: list[int] = []
        shape: list[int] = []  # after ints are dropped and Nones inserted
        tensors: dict[int, UOp] = {}
        for item in full:
            axis = len(bounds)
            if item is None:
                shape.append(1)
                continue
            n = self.shape[axis]
            if isinstance(item, slice):
                begin, end, step, count = _range(item, n)
                bounds.append((begin, end))
                steps.append(step)
                shape.append(count)
            elif _is_list(item):
                bounds.append((0, n))
                steps.append(1)
                tensors[len(shape)] = self._index_node(item, axis, n)
                shape.append(n)
            else:
                at = _position(item, axis, self.shape)
                bounds.append((at, at + 1))
                steps.append(1)
        view = g.shrink(base, tuple(bounds))
        view = g.flip(view, tuple(a for a, s in enumerate(steps) if s < 0))
        for axis, step in enumerate(steps):
            if abs(step) > 1:
                count = -(-view.shape[axis] // abs(step))
                view = g.shear(view, axis, None, abs(step), 0, count)
        return g.reshape(view, tuple(shape)), tensors

    def _index_node(self, item: Handle | Sequence[int], axis: int, n: int) -> UOp:
        """An index tensor, negative elements counted from the end."""
        if not isinstance(item, Handle):
            for i in item:
                if isinstance(i, int):
                    _position(i, axis, self.shape)
            item = self._listed(item)
        if not item.dtype.is_int:
            raise DTypeError(
                f"index tensor of {item.dtype.name} for axis {axis} of a tensor of shape {self.shape}",
                "indices are integers, masks are tensors of bool",
            )
        return wrapped(item.uop, n)

    def _listed(self, values: object) -> Self:
        """A tensor of a list, on this tensor's device."""
        return type(self)(values, device=self._cell.device)  # type: ignore[call-arg]  # the constructor is the last layer's

    def gather(self, dim: int, index: Handle) -> Self:
        """out[i][j][k] = self[i][index[i][j][k]][k] for dim 1, and so on; the result has the index's shape.

        Args:
            dim: the axis that is indexed.
            index: integers, of this rank; negative ones count from the end, others out of range give 0.

        Raises:
            ShapeError: the ranks differ, or the index is longer than this along another axis.
            DTypeError: the index is not of integers.

        >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[1], [0]])).tolist()
        [[2], [3]]
        """
        axis = self._axis("gather", dim)
        as_tensor("gather", index)
        if not index.dtype.is_int:
            raise DTypeError(f"gather: index of {index.dtype.name}", "indices are integers")
        shape = index.shape
        if len(shape) != self.ndim or any(
            a > b for i, (a, b) in enumerate(zip(shape, self.shape, strict=True)) if i != axis
        ):
            raise ShapeError(
                f"gather along axis {dim}: index of shape {shape} for shape {self.shape}",
                "ranks must be equal, and the index no longer than the tensor along other axes",
            )
        indices = [
            wrapped(index.uop, self.shape[a]) if a == axis else g.iota_along(shape, a)
            for a in range(self.ndim)
        ]
        return self._result("gather", g.gather(self.uop, indices), index)

    def one_hot(self, num_classes: int) -> Self:
        """1 (int32) where the index along a new last axis is this element, else 0; all 0 where it is no
        class.

        Raises:
            DTypeError: this is not of integers.

        >>> Tensor([2, 0]).one_hot(3).tolist()
        [[0, 0, 1], [1, 0, 0]]
        """
        if not self.dtype.is_int:
            raise DTypeError(f"one_hot of {self.dtype.name}", "classes are integers")
        if (count := as_int("one_hot", num_classes)) < 0:
            raise ShapeError(f"one_hot of {num_classes} classes", "a count is not negative")
        hit = self._is_class(count, self.ndim)
        return self._from_node(g.cast(hit, dtypes.int32), self._cell.device)

    def _is_class(self, num_classes: int, axis: int) -> UOp:
        """Whether the index along a new axis in place `axis` is this element."""
        shape = (*self.shape[:axis], num_classes, *self.shape[axis:])
        label = g.expand(g.insert_axes(g.cast(self.uop, dtypes.int32), (axis,)), shape)
        return g.alu(Ops.CMPEQ, g.iota_along(shape, axis), label)


def wrapped(index: UOp, n: int) -> UOp:
    """Negative indices counted from the end of an axis of n."""
    if index.dtype.is_unsigned:
        return index
    if index.dtype.bits < 32:
        index = g.cast(index, dtypes.int32)
    negative = g.scalar_op(Ops.CMPLT, index, 0)
    return g.where(negative, g.scalar_op(Ops.ADD, index, n), index)


def _pick(view: UOp, tensors: dict[int, UOp]) -> UOp:
    """Gather along the axes that have index tensors."""
    axes = sorted(tensors)
    shape = g.broadcast_shape("indexing", *(tensors[a].shape for a in axes))
    others = [a for a in range(len(view.shape)) if a not in tensors]
    node = g.gather(g.permute(view, (*axes, *others)), [g.expand(tensors[a], shape) for a in axes])
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return node  # index axes apart from one another: their result leads
    n, lead = len(shape), axes[0]
    return g.permute(node, (*range(n, n + lead), *range(n), *range(n + lead, len(node.shape))))


def _put(view: UOp, tensors: dict[int, UOp], value: UOp) -> UOp:
    """A view with other values at the places that its index tensors name: the reverse of `_pick`."""
    axes = sorted(tensors)
    others = [a for a in range(len(view.shape)) if a not in tensors]
    shape = g.broadcast_shape("setitem", *(tensors[a].shape for a in axes))
    rest = tuple(view.shape[a] for a in others)
    lead = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    named = (*rest[:lead], *shape, *rest[lead:])
    if g.broadcast_shape("setitem", value.shape, named) != named:
        raise ShapeError(f"setitem: a value of shape {value.shape} for {named}", "it must broadcast to that")
    value = g.expand(value, named)
    n = len(shape)
    value = g.permute(value, (*range(lead, lead + n), *range(lead), *range(lead + n, len(named))))
    key = key_of([tensors[a] for a in axes], [view.shape[a] for a in axes], shape)
    count, width = math.prod(view.shape[a] for a in axes), math.prod(rest)
    elements = math.prod(shape)
    if count * width * elements == 0:
        return view
    places, hit = last_by_key(g.reshape(key, (1, elements)), count)
    new = g.gather(g.reshape(value, (elements, width)), [g.reshape(places, (count,))])
    old = g.permute(view, (*axes, *others))
    whole = (count, width)
    chosen = g.where(g.expand(g.reshape(hit, (count, 1)), whole), new, g.reshape(old, whole))
    order = (*axes, *others)
    return g.permute(g.reshape(chosen, old.shape), tuple(order.index(a) for a in range(len(order))))


def _axes_of(item: Item) -> int:
    return item.ndim if isinstance(item, Handle) and item.dtype is dtypes.bool_ else 1


def _range(item: slice, n: int) -> tuple[int, int, int, int]:
    """A slice of an axis of n: the part (begin, end) that holds its elements, the step, and their count."""
    if item.step == 0:
        raise ShapeError("slice with step 0", "a step is a positive or negative integer")
    try:
        start, stop, step = item.indices(n)
    except TypeError:
        raise DTypeError(f"slice {item}", "bounds of slices are integers; tensors index as a whole") from None
    count = len(range(start, stop, step))
    if count == 0:
        return 0, 0, 1, 0
    last = start + (count - 1) * step
    return (start, last + 1, step, count) if step > 0 else (last, start + 1, step, count)


def _is_list(item: Item) -> TypeGuard[Handle | Sequence[int]]:
    """Whether `item` is a list of indices: a tensor, a sequence, or an array of the host that has axes."""
    if isinstance(item, (Handle, list, tuple)):
        return True
    return bool(getattr(item, "shape", ())) and hasattr(item, "tobytes")


def _position(item: object, axis: int, shape: tuple[int, ...]) -> int:
    """An integer index counted from the front."""
    try:
        at, n = operator.index(item), shape[axis]  # type: ignore[arg-type]  # that is the question
    except TypeError:
        at = None
    if at is None or isinstance(item, bool):
        raise DTypeError(
            f"index {item!r} of type {type(item).__name__}", "use ints, slices, None, … or integer tensors"
        )
    if not -n <= at < n:
        raise IndexOutOfRange(
            f"index {at} for axis {axis} of a tensor of shape {shape}", f"it takes {-n} … {n - 1}"
        )
    return at % n

"""What changes or places an array: assignment, in-place operators, realizing, copies, devices, history.

`x.assign(v)` and `x += v` are seen by every handle that aliases x, and by nothing that was computed before,
whether it has been realized or not. An assignment is lazy: it happens when something that reads it is
realized, or the array itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from tiny_core import dtypes
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor import strides
from tiny_core.tensor.cell import LOCK, Cell
from tiny_core.tensor.elementwise import Operand, number
from tiny_core.tensor.handle import Handle, as_tensor, canonical_device, default_device
from tiny_core.tensor.lines import user_line
from tiny_core.tensor.realize import realize
from tiny_core.tensor.sort import Sorting


class Assignment(Sorting):
    """Arrays as places."""

    __slots__ = ()

    def assign(self, x: Operand) -> Self:
        """Make this hold x, broadcast to its shape; returns itself. Lazy: what was computed from the old
        value keeps it, and views see the new one.

        Raises:
            ShapeError: x does not broadcast, or this is an expanded view, in which elements share one place.
            DTypeError: x is of a dtype that this one does not hold (a float for integers, float64 for
                float32).
            DeviceError: x is on another device.

        >>> x = Tensor([1.0, 2.0])
        >>> double, part = x * 2, x[1:]
        >>> x.assign(x + 10).tolist(), double.tolist(), part.tolist()
        ([11.0, 12.0], [2.0, 4.0], [12.0])
        """
        if isinstance(x, Handle):
            dtype = x.dtype
            if dtypes.promote(dtype, self.dtype) is not self.dtype:
                raise DTypeError(
                    f"assign: {dtype.name} to a tensor of {self.dtype.name}",
                    f".cast({self.dtype.name!r}) says it is meant",
                )
            return self._store(g.cast(x.uop, self.dtype), self._common_device("assign", x))
        x = number("assign", x)
        if dtypes.promote(dtypes.kind_of(x), self.dtype) is not self.dtype:
            raise DTypeError(
                f"assign: {x!r} to a tensor of {self.dtype.name}", "assign an integer, or cast first"
            )
        return self._store(g.const(x, self.dtype), self._cell.device)

    def _store(self, value: UOp, device: p.Device | None) -> Self:
        shape = self.shape
        if value.shape != shape and g.broadcast_shape("assign", value.shape, shape) != shape:
            raise ShapeError(
                f"assign: shape {value.shape} to {shape}", "it must broadcast to the tensor assigned to"
            )
        if strides.overlaps(self._chain):
            raise ShapeError(
                f"assign to an expanded view of shape {shape}",
                "its elements share places; .clone() has its own",
            )
        if value is not self.uop:
            self._cell.store(self._chain, g.expand(value, shape), device or default_device(), user_line())
        return self

    def replace(self, x: Self) -> Self:
        """Make this handle one on the array of x; what aliased this stays as it was.

        Raises:
            ShapeError: shape or dtype differ.
        """
        as_tensor("replace", x)
        if x.shape != self.shape or x.dtype is not self.dtype:
            raise ShapeError(
                f"replace: {x.dtype.name}{list(x.shape)} for {self.dtype.name}{list(self.shape)}",
                "shape and dtype must be equal",
            )
        param = self._cell.param
        self._cell, self._chain, self._seen = x._cell, x._chain, None
        return self.is_param_() if param else self

    # ---- in place -----------------------------------------------------------------------------------------

    def __iadd__(self, other: Operand) -> Self:
        return self.assign(self.add(other))

    def __isub__(self, other: Operand) -> Self:
        return self.assign(self.sub(other))

    def __imul__(self, other: Operand) -> Self:
        return self.assign(self.mul(other))

    def __itruediv__(self, other: Operand) -> Self:
        return self.assign(self.div(other))

    def __ifloordiv__(self, other: Operand) -> Self:
        return self.assign(self.div(other, rounding_mode="floor"))

    def __imod__(self, other: Operand) -> Self:
        return self.assign(self.mod(other))

    def __ipow__(self, other: Operand) -> Self:
        return self.assign(self.pow(other))

    def __iand__(self, other: Operand) -> Self:
        return self.assign(self.bitwise_and(other))

    def __ior__(self, other: Operand) -> Self:
        return self.assign(self.bitwise_or(other))

    def __ixor__(self, other: Operand) -> Self:
        return self.assign(self.bitwise_xor(other))

    def __ilshift__(self, other: Operand) -> Self:
        return self.assign(self.lshift(other))

    def __irshift__(self, other: Operand) -> Self:
        return self.assign(self.rshift(other))

    # ---- running ------------------------------------------------------------------------------------------

    def realize(self, *others: Handle) -> Self:
        """Compute this (and others, in one schedule) and keep the values in memory; returns itself.

        A view is realized by realizing the array it is a view of. Constants stay constants.

        >>> a, b = Tensor([1.0]) + 1, Tensor([1.0]) * 3
        >>> a.realize(b).is_realized, b.is_realized
        (True, True)
        """
        tensors: list[Handle] = [self, *(as_tensor("realize", t) for t in others)]
        realize((t._cell for t in tensors), default_device)
        return self

    @property
    def is_realized(self) -> bool:
        """Whether the value is in memory, with nothing left to compute."""
        return self._cell.realized

    def contiguous(self) -> Self:
        """This array if it is, reshaped at most, the whole of its storage; else a copy in row-major order."""
        chain, root = g.movements(self.uop)
        if root.op is Ops.BUFFER and all(s.op is Ops.RESHAPE for s in chain):
            return self
        return self.clone()

    def clone(self) -> Self:
        """A copy in storage of its own; gradients flow through it."""
        copy = self._from_node(self.uop, self._cell.device)
        copy._cell.own(self.device)
        return copy

    def detach(self) -> Self:
        """The same array, through which no gradient flows; assignments are shared."""
        base = self.uop
        return self._view(g.detach(base), base)

    def to(self, device: p.Device | None) -> Self:
        """This array on another device (None: the default one); itself if it is there already. Lazy, and
        gradients flow through it.

        Raises:
            TargetError: there is no such device.

        >>> Tensor([1.0]).to("PYTHON").device
        'PYTHON'
        """
        where = canonical_device(device) or default_device()
        if where == self._cell.device:
            return self
        node = self.uop
        if any(n.op in (Ops.BUFFER, Ops.COPY) for n in node.toposort()):
            if self.device == where:
                return self
            node = UOp(Ops.COPY, node.dtype, (node,), p.Copy(where))
        return self._from_node(node, where)

    def to_(self, device: p.Device | None) -> Self:
        """Make this handle one on the array on another device; returns itself. See `to`."""
        return self.replace(self.to(device))

    def _contents(self, read: Callable[[UOp], memoryview]) -> memoryview:
        """The bytes of the elements in row-major order."""
        from tiny_core.schedule.scheduler import view

        if self.numel() == 0:
            return memoryview(b"")
        with LOCK:  # so that no other thread overwrites what is being read
            realize((self._cell,), default_device)
            chain, root = g.movements(self.uop)
            node = g.restep([s for s in chain if s.op is not Ops.DETACH], root)
            if view(node) is None:
                copy = Cell(node, self._cell.device, self._line)
                copy.own(self.device)
                realize((copy,), default_device)
                node = copy.value
            return read(node)

"""Creation: from Python numbers and lists, arrays of the host, and filled shapes.

Host data is copied at the call (a later change of a list or numpy array is not seen). Filled shapes are
constants of the graph: they take no memory until they are assigned to in part, or realized.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import DeviceError, DTypeError, ShapeError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.cell import Cell
from tiny_core.tensor.elementwise import number
from tiny_core.tensor.handle import (
    DTypeLike,
    Handle,
    as_dtype,
    as_int,
    canonical_device,
    default_device,
    strong,
)
from tiny_core.tensor.lines import MemoryLabel, notes, user_line
from tiny_core.tensor.movement import dims_of
from tiny_core.tensor.realize import engine
from tiny_core.tensor.scatter import Scattering

_MOST_AXES = 64
Nested = Number | Sequence["Nested"]


@runtime_checkable
class HostArray(Protocol):
    """An array that knows its dtype and can be had as bytes: numpy's, and what behaves like it."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> object: ...
    def tobytes(self) -> bytes: ...


class Creation(Scattering):
    """Arrays from nothing, numbers, or host data; `Tensor` documents the constructor."""

    __slots__ = ()

    def __init__(
        self,
        data: Nested | HostArray | Handle | bytes | None,
        device: p.Device | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        """See the class."""
        line = user_line()
        to = None if dtype is None else as_dtype(dtype)
        where = canonical_device(device)
        if isinstance(data, Handle):
            cell = _copy_of(data, where, to)
        else:
            cell = _from_host(data, where or default_device(), to)
        cell.line = line
        if notes.on:
            notes.add(cell.value, line)
        self._cell, self._chain, self._line = cell, (), line
        self._seen = None
        if requires_grad:
            self.is_param_()

    @classmethod
    def _of_bytes(cls, content: bytes, dtype: DType, shape: tuple[int, ...], device: p.Device | None) -> Self:
        """An array of these bytes, copied."""
        line = user_line()
        cell = _stored(content, dtype, shape, canonical_device(device) or default_device())
        cell.line = line
        return cls._over(cell, (), line)

    @classmethod
    def _constant(
        cls, node: UOp, device: p.Device | None, requires_grad: bool | None, dtype: DTypeLike | None = None
    ) -> Self:
        if dtype is not None:
            node = g.cast(node, as_dtype(dtype))
        result = cls._from_node(node, canonical_device(device), leaf=True)
        return result.is_param_() if requires_grad else result

    # ---- filled -------------------------------------------------------------------------------------------

    @classmethod
    def full(
        cls,
        shape: int | Sequence[int],
        fill_value: Number,
        *,
        dtype: DTypeLike | None = None,
        device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """A shape filled with a number; float32 for a float, int32 for an integer, bool for a bool unless
        another dtype is given. It is a constant, and takes no memory until it is realized.

        Raises:
            ShapeError: a size is negative.
            DTypeError: `fill_value` is no number, or there is no such dtype.

        >>> Tensor.full((2, 2), 7).tolist()
        [[7, 7], [7, 7]]
        """
        dims = _shape("full", dims_of((shape,)))
        fill_value = number("full", fill_value)
        to = strong(dtypes.kind_of(fill_value)) if dtype is None else as_dtype(dtype)
        return cls._constant(g.const(fill_value, to, dims), device, requires_grad)

    @classmethod
    def const(cls, value: Number, dtype: DTypeLike | None = None, device: p.Device | None = None) -> Self:
        """A scalar that is a constant of the graph; dtypes as `full`."""
        return cls.full((), value, dtype=dtype, device=device)

    @classmethod
    def zeros(
        cls,
        *shape: int | Sequence[int],
        dtype: DTypeLike | None = None,
        device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """A shape filled with 0 (float32 unless another dtype is given); see `full`."""
        return cls.full(dims_of(shape), 0.0, dtype=dtype, device=device, requires_grad=requires_grad)

    @classmethod
    def ones(
        cls,
        *shape: int | Sequence[int],
        dtype: DTypeLike | None = None,
        device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """A shape filled with 1 (float32 unless another dtype is given); see `full`."""
        return cls.full(dims_of(shape), 1.0, dtype=dtype, device=device, requires_grad=requires_grad)

    @classmethod
    def empty(
        cls,
        *shape: int | Sequence[int],
        dtype: DTypeLike | None = None,
        device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Storage of a shape (float32 unless another dtype is given), with whatever it holds."""
        dims = _shape("empty", dims_of(shape))
        to = dtypes.float32 if dtype is None else as_dtype(dtype)
        where = canonical_device(device) or default_device()
        line = user_line()
        cell = Cell(g.const(0, to, dims), where, line, leaf=True)
        cell.adopt(g.reshape(UOp.buffer(to, math.prod(dims), where), dims))
        result = cls._over(cell, (), line)
        return result.is_param_() if requires_grad else result

    def full_like(
        self, fill_value: Number, *, dtype: DTypeLike | None = None, device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """A number, in this tensor's shape, dtype and place unless others are given."""
        return self.full(
            self.shape,
            fill_value,
            dtype=dtype or self.dtype,
            device=device or self._cell.device,
            requires_grad=requires_grad,
        )

    def zeros_like(self, *, dtype: DTypeLike | None = None, device: p.Device | None = None) -> Self:
        """Zeros, in this tensor's shape, dtype and place unless others are given."""
        return self.full_like(0, dtype=dtype, device=device)

    def ones_like(self, *, dtype: DTypeLike | None = None, device: p.Device | None = None) -> Self:
        """Ones, in this tensor's shape, dtype and place unless others are given."""
        return self.full_like(1, dtype=dtype, device=device)

    def empty_like(self, *, dtype: DTypeLike | None = None, device: p.Device | None = None) -> Self:
        """Storage of this tensor's shape, dtype and place unless others are given, with whatever it holds."""
        return self.empty(self.shape, dtype=dtype or self.dtype, device=device or self._cell.device)

    def const_like(self, value: Number) -> Self:
        """A scalar constant of this tensor's dtype and device."""
        return self.full((), value, dtype=self.dtype, device=self._cell.device)

    # ---- sequences ----------------------------------------------------------------------------------------

    @classmethod
    def arange(
        cls,
        start: float,
        stop: float | None = None,
        step: float = 1,
        *,
        dtype: DTypeLike | None = None,
        device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Numbers from start (0 where only a stop is given) to stop, which is not included: int32, or float32
        if one of the numbers is a float, unless a dtype is given.

        Raises:
            ShapeError: the step is 0, or a number is not finite.

        >>> Tensor.arange(4).tolist(), Tensor.arange(1, 2, 0.25).tolist()
        ([0, 1, 2, 3], [1.0, 1.25, 1.5, 1.75])
        """
        first, end = (0, start) if stop is None else (start, stop)
        first, end, step = (number("arange", v) for v in (first, end, step))
        if not all(math.isfinite(v) for v in (first, end, step) if isinstance(v, float)):
            raise ShapeError(f"arange from {first} to {end} by {step}", "bounds and step are finite")
        if step == 0:
            raise ShapeError("arange with step 0", "a step is a positive or negative number")
        floats = any(isinstance(v, float) for v in (first, end, step))
        kind = strong(dtypes.weakfloat if floats else dtypes.index) if dtype is None else as_dtype(dtype)
        n = max(0, math.ceil((end - first) / step))
        compute = (
            kind
            if kind.is_int or kind.bits >= 32
            else dtypes.float32
            if floats or kind.is_float
            else dtypes.int32
        )
        node = g.cast(g.iota(n, dtypes.int32 if n < 1 << 31 else dtypes.int64), compute)
        if step != 1:
            node = g.scalar_op(Ops.MUL, node, step)
        if first != 0:
            node = g.scalar_op(Ops.ADD, node, first)
        return cls._constant(node, device, requires_grad, kind)

    @classmethod
    def linspace(
        cls,
        start: float,
        stop: float,
        steps: int,
        *,
        dtype: DTypeLike | None = None,
        device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """`steps` numbers evenly from start to stop, both included; float32 unless a dtype is given.

        Raises:
            ShapeError: the count is negative.

        >>> Tensor.linspace(0, 1, 5).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        steps = as_int("linspace", steps)
        start, stop = number("linspace", start), number("linspace", stop)
        if steps < 0:
            raise ShapeError(f"linspace of {steps} steps", "a count is not negative")
        to = dtypes.float32 if dtype is None else as_dtype(dtype)
        compute = dtypes.float64 if to is dtypes.float64 else dtypes.float32
        index = g.iota(steps)
        node = g.cast(index, compute)
        node = g.scalar_op(Ops.MUL, node, (stop - start) / max(1, steps - 1))
        node = g.scalar_op(Ops.ADD, node, start)
        last = g.scalar_op(Ops.CMPEQ, index, max(1, steps - 1))
        return cls._constant(g.where(last, g.const_like(stop, node), node), device, requires_grad, to)

    @classmethod
    def eye(
        cls,
        n: int,
        m: int | None = None,
        *,
        dtype: DTypeLike | None = None,
        device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """The n by m matrix (square where m is not given) with 1 on the diagonal, 0 elsewhere; float32 unless
        a dtype is given.

        >>> Tensor.eye(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        dims = _shape("eye", dims_of((n, n if m is None else m)))
        same = g.alu(Ops.CMPEQ, g.iota_along(dims, 0), g.iota_along(dims, 1))
        return cls._constant(same, device, requires_grad, dtypes.float32 if dtype is None else dtype)


# ---- host data --------------------------------------------------------------------------------------------


def _shape(what: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    if not all(isinstance(d, int) and d >= 0 for d in dims):
        raise ShapeError(f"{what}: shape {dims}", "sizes are integers, none negative")
    return dims


def _copy_of(data: Handle, device: p.Device | None, dtype: DType | None) -> Cell:
    """A copy of a tensor, in storage of its own."""
    node = data.uop if dtype is None else g.cast(data.uop, dtype)
    its = data._cell.device
    if device is not None and its is not None and its != device:
        node = UOp(Ops.COPY, node.dtype, (node,), p.Copy(device))
    return Cell(node, device or its, None)


def _from_host(data: Nested | HostArray | bytes | None, device: p.Device, dtype: DType | None) -> Cell:
    shape: tuple[int, ...]
    if data is None:
        data = []
    if isinstance(data, (bytes, bytearray, memoryview)):
        content, have = bytes(data), dtypes.uint8
        shape = (len(content),)
    elif isinstance(data, (bool, int, float, list, tuple)):
        shape = _list_shape(data)
        flat: list[Number] = []
        _flatten(data, shape, flat)
        have = _listed_dtype(flat) if dtype is None else dtype
        content = pack(flat, have)
    elif isinstance(data, HostArray):
        have = _array_dtype(data)
        content, shape = _native(data).tobytes(), tuple(int(n) for n in data.shape)
    else:
        raise DTypeError(
            f"Tensor of {type(data).__name__}",
            "give a number, nested lists of numbers, a numpy array or a Tensor",
        )
    cell = _stored(content, have, shape, device)
    if dtype is not None and dtype is not have:
        return Cell(g.cast(cell.value, dtype), device, None, leaf=True)
    return cell


def _stored(content: bytes, dtype: DType, shape: tuple[int, ...], device: p.Device) -> Cell:
    if not isinstance(device, str):
        raise DeviceError(f"host data on devices {device}", "put it on one device, then move it")
    label = MemoryLabel(dtype, shape, user_line())
    value = g.reshape(engine().allocate_from_host(content, dtype, math.prod(shape), device, label), shape)
    cell = Cell(value, device, None, leaf=True)
    cell.adopt(value)
    return cell


def _array_dtype(data: HostArray) -> DType:
    """The dtype that an array's elements have here; raises DTypeError for what tensors do not hold."""
    name = str(getattr(data.dtype, "name", data.dtype))
    found = {"float8_e4m3fn": "float8_e4m3", "bool_": "bool"}.get(name, name)
    if found not in {dtype.name for dtype in dtypes.storable}:
        raise DTypeError(f"Tensor of an array of {name}", "convert it first, e.g. array.astype('float32')")
    return dtypes.parse(found)


def _native(data: HostArray) -> HostArray:
    """The array with its bytes in this machine's order."""
    if getattr(data.dtype, "isnative", True):
        return data
    swapped: HostArray = data.astype(data.dtype.newbyteorder("="))  # type: ignore[attr-defined]  # numpy's own
    return swapped


def _list_shape(data: Nested) -> tuple[int, ...]:
    shape = []
    while isinstance(data, (list, tuple)):
        shape.append(len(data))
        if not data:
            break
        if len(shape) > _MOST_AXES:
            raise ShapeError(
                f"a list nested more than {_MOST_AXES} deep", "does it hold itself? reshape makes more axes"
            )
        data = data[0]
    return tuple(shape)


def _flatten(data: object, shape: tuple[int, ...], out: list[Number]) -> None:
    if not shape:
        if isinstance(data, (list, tuple)):
            raise ShapeError(
                "a nested list goes deeper in some places than in others", "lengths must be equal"
            )
        if not isinstance(data, (bool, int, float)):
            data = _scalar(data)
        out.append(data)
        return
    if not isinstance(data, (list, tuple)) or len(data) != shape[0]:
        found = f"a list of {len(data)}" if isinstance(data, (list, tuple)) else repr(data)
        raise ShapeError(
            f"a nested list has {found} where others have {shape[0]} items", "lengths must be equal"
        )
    for item in data:
        _flatten(item, shape[1:], out)


def _scalar(data: object) -> Number:
    """A number that is not one of Python's: numpy's scalars, scalar tensors."""
    if shape := getattr(data, "shape", ()):
        raise ShapeError(f"Tensor of a list with an array of shape {tuple(shape)}", "stack its items first")
    item = getattr(data, "item", None)
    value: object = None if item is None else item()
    if not isinstance(value, (bool, int, float)):
        raise DTypeError(f"Tensor of a list with a {type(data).__name__}", "lists hold numbers")
    return value


def _listed_dtype(flat: list[Number]) -> DType:
    kinds = {type(v) for v in flat}
    if kinds <= {bool} and flat:
        return dtypes.bool_
    if kinds <= {bool, int} and flat:
        least, most = min(flat), max(flat)
        for dtype in (dtypes.int32, dtypes.int64):
            if dtype.min <= least and most <= dtype.max:
                return dtype
        raise DTypeError(
            f"Tensor of integers {least} … {most}, which int64 does not hold",
            "give dtype='uint64', or 'float64'; with a dtype given, integers wrap",
        )
    return dtypes.float32


def pack(values: Sequence[Number], dtype: DType) -> bytes:
    """Return the bytes of numbers converted to `dtype`."""
    if dtype in (dtypes.float32, dtypes.float64):
        try:
            return struct.pack(f"<{len(values)}{dtype.code}", *values)
        except (OverflowError, struct.error):
            pass  # beyond float32's range: infinity, below
    n = dtype.itemsize
    return b"".join(dtypes.to_bits(v, dtype).to_bytes(n, "little") for v in values)

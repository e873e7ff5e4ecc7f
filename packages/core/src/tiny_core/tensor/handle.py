"""The handle: a cell, a chain of movements, and the line that made it. Base of the layers that make up
Tensor.

The layers are one class each, in one file each, every one a subclass of the one before: handle → elementwise
→ maths → movement → reduce → scan → sort → assign → index → scatter → creation → random → nnops → losses →
einsum → shaping → resample → linalg → convert → tensor.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import ParamSpec, Self, TypeVar

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import DeviceError, DTypeError, ShapeError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.cell import LOCK, PARAMS, Cell, Chain, Step
from tiny_core.tensor.lines import Line, show, user_line

P = ParamSpec("P")
R = TypeVar("R")
DTypeLike = DType | str


def default_device() -> str:
    from tiny_core.runtime.device import default_device as chosen

    return chosen()


def canonical_device(device: p.Device | None) -> p.Device | None:
    """Return the one name of a device (of each device, for a tuple); None stays None."""
    if device is None:
        return None
    if isinstance(device, str):
        return _known_device(device)
    if not isinstance(device, tuple) or not device or not all(isinstance(d, str) for d in device):
        raise DeviceError(f"{device!r} is not a device", "write 'CPU', or a tuple of names: ('CPU', 'CPU:1')")
    return tuple(_known_device(d) for d in device)


def _known_device(name: str) -> str:
    """The one name of a device that there is; raises TargetError or DeviceError here, where it is named."""
    from tiny_core.runtime.device import Device

    canonical = Device.canonicalize(name)
    if not Device.is_open(canonical):
        from tiny_core.plugins.target import parse_device

        parse_device(canonical)
    return canonical


def named_dtype(dtype: DTypeLike) -> DType:
    """Accept a DType or its name; raises DTypeError."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        return dtypes.parse(dtype)
    raise DTypeError(f"{dtype!r} is not a dtype", "write e.g. dtypes.float32, or its name, 'float32'")


def as_dtype(dtype: DTypeLike) -> DType:
    """Accept a DType of elements or its name (a weak one is what it becomes by itself); raises DTypeError."""
    found = strong(named_dtype(dtype))
    if found is dtypes.void:
        raise DTypeError("void is not a dtype of elements", "tensors have elements")
    return found


def as_int(what: str, value: object) -> int:
    """Accept what Python takes for an integer, numpy's included; raises DTypeError."""
    try:
        return operator.index(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        raise DTypeError(
            f"{what}: {value!r} of type {type(value).__name__} where an integer is wanted",
            "shapes, axes and counts are Python integers",
        ) from None


def strong(dtype: DType) -> DType:
    """The dtype that a weak one becomes where nothing else decides."""
    if not dtype.is_weak:
        return dtype
    return dtypes.float32 if dtype.is_float else dtypes.int32


def promote(*types: DType) -> DType:
    """The strong dtype that these meet in."""
    return strong(dtypes.promote(*types))


def as_tensor(what: str, value: object) -> Handle:
    """Accept a tensor only; raises DTypeError."""
    if isinstance(value, Handle):
        return value
    raise DTypeError(f"{what}: {type(value).__name__} where a tensor is wanted", "make one of it: Tensor(…)")


def locked(method: Callable[P, R]) -> Callable[P, R]:
    """Make a method one step to other threads: between its reading nodes of cells and its putting what it
    built of them into a cell, nobody realizes, which would end versions that only its variables mention."""

    @functools.wraps(method)
    def step(*args: P.args, **kwargs: P.kwargs) -> R:
        with LOCK:
            return method(*args, **kwargs)

    return step


_FREE = frozenset({"__hash__", "sequential"})
"""Methods that build nothing, or call functions of the user's, which may wait for other threads."""


class Handle:
    """One array, or a view of one. What its layers define for users is `locked`."""

    __slots__ = ("__weakref__", "_cell", "_chain", "_line", "_seen")
    _cell: Cell
    _chain: Chain
    _line: Line | None
    _seen: tuple[UOp, UOp] | None
    """A value of the cell, and what this shows of it: one object, so that threads see both or neither."""

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            public = not name.startswith("_") or name.startswith("__")
            if public and name not in _FREE and isinstance(method, FunctionType):
                setattr(cls, name, locked(method))

    @classmethod
    def _over(cls, cell: Cell, chain: Chain, line: Line | None) -> Self:
        self = object.__new__(cls)
        self._cell, self._chain, self._line = cell, chain, line
        self._seen = None
        return self

    @classmethod
    def _from_node(cls, node: UOp, device: p.Device | None = None, leaf: bool = False) -> Self:
        """A new array with this value."""
        line = user_line()
        return cls._over(Cell(node, device, line, leaf), (), line)

    def _result(self, what: str, node: UOp, *others: Handle) -> Self:
        """A new array computed by `what` from this one and others."""
        return self._from_node(node, self._common_device(what, *others))

    def _view(self, node: UOp, base: UOp) -> Self:
        """A handle on the same array: `node` is movements (or DETACH) over `base`, which is or was this
        handle's node (another thread may have realized it since)."""
        steps: list[Step] = []
        step = node
        while step is not base:
            steps.append((step.op, step.arg))
            step = step.src[0]
        made = self._over(self._cell, (*self._chain, *reversed(steps)), user_line())
        if self._seen is not None and self._seen[1] is base:
            made._seen = self._seen[0], node  # so that a long chain of views is not built again for each
        return made

    def _common_device(self, what: str, *others: Handle) -> p.Device | None:
        device = self._cell.device
        for other in others:
            its = other._cell.device
            if device is None:
                device = its
            elif its is not None and its != device:
                raise DeviceError(
                    f"{what}: tensors on {device} and {its}",
                    f"move one, e.g. with .to({device!r}); the second was made at {show(other._line)}",
                )
        return device

    # ---- what it is ---------------------------------------------------------------------------------------

    @property
    def uop(self) -> UOp:
        """The node of its current value."""
        value, seen = self._cell.value, self._seen
        if seen is not None and seen[0] is value:
            return seen[1]
        node = value
        for op, arg in self._chain:
            node = UOp(op, node.dtype, (node,), arg)
        self._seen = value, node
        return node

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes, a tuple of integers; () for a scalar."""
        return self.uop.shape

    @property
    def dtype(self) -> DType:
        """What its elements are, e.g. `dtypes.float32`."""
        return self._cell.value.dtype

    @property
    def device(self) -> p.Device:
        """Where it lives, e.g. "CPU" or "CPU:1"; for constants, which follow their operands, the default
        device."""
        return self._cell.device or default_device()

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.uop.shape)

    def numel(self) -> int:
        """Number of elements."""
        return self.uop.size

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def size(self, dim: int | None = None) -> int | tuple[int, ...]:
        """The shape, or the length of one axis; raises ShapeError for an axis that it has not."""
        return self.shape if dim is None else self.shape[self._axis("size", dim)]

    def is_floating_point(self) -> bool:
        """Whether its elements are floats."""
        return self.dtype.is_float

    def __len__(self) -> int:
        """Length of the first axis; raises ShapeError for a scalar."""
        if not self.shape:
            raise ShapeError("len of a tensor of shape ()", "a scalar has no axes; use .numel()")
        return self.shape[0]

    def __hash__(self) -> int:
        return id(self)

    # ---- gradients wanted ---------------------------------------------------------------------------------

    @property
    def is_param(self) -> bool:
        """Whether `backward` gives it a gradient."""
        return self._cell.param

    @locked
    def is_param_(self, value: bool = True) -> Self:
        """Ask for a gradient in `backward` (or no longer); returns itself.

        It gets storage of its own, to be told from others of equal value: a view becomes a copy.

        Raises:
            DTypeError: it is not of a float dtype.
        """
        if value and not self.dtype.is_float:
            raise DTypeError(f"requires_grad of a tensor of {self.dtype.name}", "only floats have gradients")
        if not value:
            self._cell.param = False
            PARAMS.discard(self._cell)
            return self
        if self._chain:
            self._cell, self._chain, self._seen = Cell(self.uop, self._cell.device, self._line), (), None
        self._cell.own(self.device)
        self._cell.param = True
        PARAMS.add(self._cell)
        return self

    @property
    def grad(self) -> Self | None:
        """The gradient that `backward` has accumulated; None before that, and for views."""
        found = self._cell.grad
        if found is None or self._chain:
            return None
        assert isinstance(found, type(self))
        return found

    @grad.setter
    def grad(self, value: Self | None) -> None:
        self._cell.grad = value

    @property
    def requires_grad(self) -> bool:
        """The same as `is_param`."""
        return self._cell.param

    @requires_grad.setter
    def requires_grad(self, value: bool | None) -> None:
        self.is_param_(bool(value))

    def requires_grad_(self, value: bool = True) -> Self:
        """The same as `is_param_`."""
        return self.is_param_(value)

    # ---- dtypes -------------------------------------------------------------------------------------------

    @locked
    def cast(self, dtype: DTypeLike) -> Self:
        """Convert the elements: integers wrap, floats round to nearest even, float to integer saturates (NaN
        to 0), and to bool is whether it is not 0.

        Args:
            dtype: a DType, or its name.

        Raises:
            DTypeError: there is no such dtype.

        >>> Tensor([1.9, -1.0, 300.0]).cast("uint8").tolist()
        [1, 0, 255]
        """
        to = as_dtype(dtype)
        return self if to is self.dtype else self._from_node(g.cast(self.uop, to), self._cell.device)

    @locked
    def bitcast(self, dtype: DTypeLike) -> Self:
        """Read the same bits as another dtype of equal width.

        Raises:
            DTypeError: the widths differ, or there is no such dtype.

        >>> hex(Tensor(1.0).bitcast("int32").item())
        '0x3f800000'
        """
        to = named_dtype(dtype)
        if to.bits != self.dtype.bits or to.is_weak or to is dtypes.void:
            raise DTypeError(
                f"bitcast from {self.dtype.name} to {to.name}: widths differ", "cast converts between widths"
            )
        return (
            self
            if to is self.dtype
            else self._from_node(UOp(Ops.BITCAST, to, (self.uop,)), self._cell.device)
        )

    def _computed_in(self) -> tuple[Self, DType]:
        """This tensor in the dtype that a chain of float operations is computed in, and the dtype of the
        result: integers become float32, narrow floats are computed in float32 and rounded once."""
        dtype = self.dtype
        if dtype in dtypes.narrow_floats:
            return self.cast(dtypes.float32), dtype
        return (self, dtype) if dtype.is_float else (self.cast(dtypes.float32), dtypes.float32)

    # ---- checks -------------------------------------------------------------------------------------------

    def _axis(self, what: str, axis: int, rank: int | None = None) -> int:
        """Return an axis counted from the front; raises ShapeError."""
        n = len(self.shape) if rank is None else rank
        if type(axis) is not int:
            axis = as_int(f"{what}: axis", axis)
        if not -n <= axis < n:
            raise ShapeError(
                f"{what}: axis {axis} of a tensor of shape {self.shape}", f"axes are {-n} … {n - 1}"
            )
        return axis % n

    def _axes(self, what: str, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        """Return axes counted from the front, each once; None is all of them. Raises ShapeError."""
        if axis is None:
            return tuple(range(len(self.shape)))
        given = tuple(axis) if isinstance(axis, Iterable) else (axis,)
        axes = tuple(self._axis(what, a) for a in given)
        if len(set(axes)) != len(axes):
            raise ShapeError(
                f"{what}: axes {given} of a tensor of shape {self.shape}", "an axis is named twice"
            )
        return axes

    def _number(self, value: Number) -> UOp:
        """A number of this tensor's dtype and shape."""
        return g.const(value, self.dtype, self.shape)
